"""The one protocol every stochastic differential equation satisfies, and changes of variables.

Ito throughout: dx = drift(x) dt + diag(diffusion(x)) dW, where `diffusion` is the square root sqrt(g) of the variance
rate g. Textbook systems, draws from the prior, fitted baselines and estimates of the model are all an `SDE`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from fimsde.shapes import Array, Float

Field = Callable[[Float[Array, "queries dim"]], Float[Array, "queries dim"]]


@runtime_checkable
class SDE(Protocol):
    """dx = drift(x) dt + diag(diffusion(x)) dW in the units of the data."""

    @property
    def dim(self) -> int:
        """State dimension."""

    def drift(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Drift f at each location, state per time."""

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Diffusion sqrt(g) at each location, state per square root of time. May be NaN where g is negative."""


def fields(sde: SDE, x: Float[Array, "queries dim"]) -> tuple[Array, Array]:
    """Drift and diffusion at each location, by the method `fields` of the equation if it has one.

    A simulation asks for both at once and may go anywhere: `fields` does shared work once and never warns.
    """
    both = getattr(sde, "fields", None)
    return (sde.drift(x), sde.diffusion(x)) if both is None else both(x)


@dataclass(frozen=True)
class FunctionSDE:
    """An SDE from two functions on arrays of shape (queries, dim)."""

    dim: int
    drift: Field
    diffusion: Field


@dataclass(frozen=True)
class AffineSDE:
    """The equation of z = (x - offset) / scale in time s = time_scale * t, for an SDE of x in time t.

    dz/ds = f(x) / (scale * time_scale); Ito's correction vanishes because the map is affine. A new clock that ticks
    `time_scale` times faster divides the variance rate by `time_scale`.
    """

    inner: SDE
    scale: Float[Array, " dim"]
    offset: Float[Array, " dim"]
    time_scale: float = 1.0

    @property
    def dim(self) -> int:
        return self.inner.dim

    def drift(self, z: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        return self.inner.drift(self._x(z)) / (self.scale * self.time_scale)

    def diffusion(self, z: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        return self.inner.diffusion(self._x(z)) / (np.abs(self.scale) * np.sqrt(self.time_scale))

    def _x(self, z: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        return z * self.scale + self.offset


@dataclass(frozen=True)
class LogSDE:
    """The equation of z = ln x for an SDE of positive x: drift f/x - g/(2 x²), diffusion sqrt(g)/x (Ito).

    NaN where exp z is not a positive float64 in every component.
    """

    inner: SDE

    @property
    def dim(self) -> int:
        return self.inner.dim

    def drift(self, z: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        x = _exp(z)
        return _where_finite(self.inner.drift, x) / x - 0.5 * self.diffusion(z) ** 2

    def diffusion(self, z: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        x = _exp(z)
        return _where_finite(self.inner.diffusion, x) / x


@dataclass(frozen=True)
class ExpSDE:
    """The equation of x = exp z for an SDE of z: drift x (f + g/2), diffusion x sqrt(g) (Ito). Undoes `LogSDE`.

    NaN where x is not positive in every component; a simulated path that steps there ends.
    """

    inner: SDE

    @property
    def dim(self) -> int:
        return self.inner.dim

    def drift(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        z = _log(x)
        return x * (_where_finite(self.inner.drift, z) + 0.5 * _where_finite(self.inner.diffusion, z) ** 2)

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        return x * _where_finite(self.inner.diffusion, _log(x))


def _exp(z: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
    with np.errstate(over="ignore", under="ignore"):
        x = np.exp(z)
    return np.where(x > 0, x, np.nan)


def _log(x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(x)


def _where_finite(field: Field, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
    """The field at the finite rows of x, NaN at the others: an estimate refuses locations that do not exist."""
    values = np.full(x.shape, np.nan)
    rows = np.all(np.isfinite(x), axis=1)
    values[rows] = field(x[rows])
    return values
