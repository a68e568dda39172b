"""The one protocol every stochastic differential equation satisfies.

    dx = f(x) dt + S(x) dW (Ito),    (S S')_ij = g_ij = sigma_i sigma_j rho_ij

`drift` is f, `diffusion` is sigma, the square root of the diagonal of g, and `correlation` is rho, the correlation of
the noise of two components. An equation without `correlation` has diagonal noise: rho is the identity. Textbook
systems, draws from the prior, fitted baselines and estimates of the model are all an `SDE`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, no_type_check, runtime_checkable

import numpy as np

from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.shapes import Array, Float, Float64

Field = Callable[[Float[Array, "queries dim"]], Float[Array, "queries dim"]]
CorrelationField = Callable[[Float[Array, "queries dim"]], Float[Array, "queries dim dim"]]
Fields = tuple[Float[Array, "queries dim"], Float[Array, "queries dim"]]  # drift and diffusion
# by which entries and eigenvalues of a correlation matrix may miss their bounds; by hand: numbers of eight digits
_ROUNDING = 1e-8


@runtime_checkable
class SDE(Protocol):
    """dx = drift(x) dt + S(x) dW in the units of the data.

    Two further members are optional. `correlation(x)` (queries, dim, dim) is the correlation of the noise; without it
    the noise is diagonal. `is_diagonal` is True for an equation that has the method, but whose answer is the identity
    everywhere, such as a diagonal equation in other variables.
    """

    @property
    def dim(self) -> int:
        """State dimension."""

    def drift(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Drift f at each location, state per time."""

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Diffusion sqrt(g_ii) at each location, state per square root of time. May be NaN where g_ii is negative."""


@no_type_check  # once per step of a simulation, where the run-time checks of the tests would take most of the time
def fields(sde: SDE, x: Float[Array, "queries dim"]) -> Fields:
    """Drift and diffusion at each location, by the method `fields` of the equation if it has one.

    A simulation asks for both at once and may go anywhere: `fields` does shared work once and never warns.
    """
    both = getattr(sde, "fields", None)
    return (sde.drift(x), sde.diffusion(x)) if both is None else both(x)


@no_type_check  # as for `fields`
def is_diagonal(sde: SDE) -> bool:
    """Whether the noise of different components is independent everywhere, by what the equation says of itself."""
    return getattr(sde, "correlation", None) is None or bool(getattr(sde, "is_diagonal", False))


@no_type_check  # as for `fields`
def correlation(sde: SDE, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
    """Correlation rho of the noise at each location: ones on the diagonal, the identity for diagonal noise."""
    if is_diagonal(sde):
        return np.tile(np.eye(sde.dim), (len(x), 1, 1))
    rho = np.asarray(sde.correlation(x), np.float64)
    if rho.shape != (len(x), sde.dim, sde.dim):
        raise InvalidObservationsError(
            f"correlation has shape {rho.shape}; expected {(len(x), sde.dim, sde.dim)}: one matrix for each location."
        )
    return rho


def covariance_rate(sde: SDE, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
    """g_ij = sigma_i sigma_j rho_ij at each location, squared state per time."""
    diffusion = np.asarray(fields(sde, x)[1], np.float64)
    return diffusion[:, :, None] * diffusion[:, None, :] * correlation(sde, x)


@no_type_check  # as for `fields`
def noise_factor(rho: Float64[Array, "*lead dim dim"]) -> Float64[Array, "*lead dim dim"]:
    """L with L L' = rho, lower triangular: Cholesky's factor, also of a matrix that is only positive semidefinite.

    A pivot that rounding has pushed below zero is zero, and so is its column.
    """
    dim = rho.shape[-1]
    factor = np.zeros(rho.shape)
    for j in range(dim):
        left = rho[..., j:, j] - np.einsum("...ik,...k->...i", factor[..., j:, :j], factor[..., j, :j])
        pivot = np.sqrt(np.maximum(left[..., 0], 0.0))  # NaN stays NaN
        with np.errstate(divide="ignore", invalid="ignore"):
            column = left / pivot[..., None]
        factor[..., j:, j] = np.where(pivot[..., None] == 0.0, 0.0, column)
    return factor


def whiten(factor: Float64[Array, "n dim dim"], values: Float64[Array, "n dim"]) -> Float64[Array, "n dim"]:
    """L^-1 values, by forward substitution: numbers with the correlation L L' become uncorrelated."""
    out = np.empty(values.shape)
    for j in range(values.shape[1]):
        known = np.einsum("nk,nk->n", factor[:, j, :j], out[:, :j])
        out[:, j] = (values[:, j] - known) / factor[:, j, j]
    return out


@no_type_check  # as for `fields`
def correlated_noise(
    sde: SDE, x: Float[Array, "paths dim"], noise: Float64[Array, "paths dim"]
) -> Float64[Array, "paths dim"]:
    """Standard normal numbers with the correlation of the equation: L(x) noise. The noise itself if it is diagonal."""
    if is_diagonal(sde):
        return noise
    return np.einsum("pij,pj->pi", noise_factor(correlation(sde, x)), noise)


def nearest_correlation(rho: Float64[Array, "*lead dim dim"]) -> Float64[Array, "*lead dim dim"]:
    """P_ij / sqrt(P_ii P_jj) with P = V max(L, 0) V', for symmetric matrices V L V' with ones on the diagonal.

    Negative eigenvalues become zero, and the diagonal one again. Matrices that are correlations already stay as they
    are.
    """
    bounded = np.clip(rho, -1.0, 1.0)
    if rho.shape[-1] < 3:
        return bounded
    values, vectors = np.linalg.eigh(bounded)
    positive = np.einsum("...ik,...k,...jk->...ij", vectors, np.maximum(values, 0.0), vectors)
    size = np.sqrt(np.diagonal(positive, axis1=-2, axis2=-1))
    positive = positive / (size[..., :, None] * size[..., None, :])
    return np.where((values[..., 0] < 0)[..., None, None], positive, bounded)


def check_correlation(rho: Float64[Array, "*lead dim dim"]) -> None:
    """An error unless all are correlation matrices: symmetric, ones on the diagonal, no negative eigenvalue."""
    wrong = np.abs(rho - np.swapaxes(rho, -1, -2)).max(axis=(-1, -2), initial=0.0) > _ROUNDING
    wrong |= np.abs(np.diagonal(rho, axis1=-2, axis2=-1) - 1).max(axis=-1, initial=0.0) > _ROUNDING
    if not np.isfinite(rho).all() or np.any(wrong) or np.linalg.eigvalsh(rho).min(initial=0.0) < -_ROUNDING:
        first = rho.reshape(-1, *rho.shape[-2:])[int(np.argmax(np.ravel(wrong)))].tolist()
        raise ConfigError(
            f"{first} is no matrix of correlations; expected a symmetric one with ones on its diagonal and no negative "
            "eigenvalue. Check signs and sizes of its entries."
        )


@dataclass(frozen=True)
class FunctionSDE:
    """An SDE from functions on arrays (queries, dim); `correlation`, if there is one, gives (queries, dim, dim)."""

    dim: int
    drift: Field
    diffusion: Field
    correlation: CorrelationField | None = None


@dataclass(frozen=True, eq=False)
class CorrelatedSDE:
    """The drift and diffusion of an equation, with noise of one correlation everywhere.

    Attributes:
        inner: The equation; a correlation of its own is not used.
        rho: Correlation of the noise of each two components.
    """

    inner: SDE
    rho: Float64[Array, "dim dim"]

    def __post_init__(self) -> None:
        if self.rho.shape != (self.inner.dim, self.inner.dim):
            raise ConfigError(
                f"rho has shape {self.rho.shape}; expected {(self.inner.dim, self.inner.dim)}, a row per component."
            )
        check_correlation(self.rho)

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.inner.dim

    @property
    def is_diagonal(self) -> bool:
        """Whether rho is the identity."""
        return bool(np.all(self.rho == np.eye(self.dim)))

    def drift(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Drift of the inner equation."""
        return self.inner.drift(x)

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Diffusion of the inner equation."""
        return self.inner.diffusion(x)

    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        """Both."""
        return fields(self.inner, x)

    def correlation(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
        """rho at every location."""
        return np.tile(self.rho, (len(x), 1, 1))
