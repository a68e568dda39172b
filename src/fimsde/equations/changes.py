"""Changes of variables: an equation in other units, in the logarithm of its state, and back (Ito's formula)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from fimsde.equations import sde as equations
from fimsde.equations.sde import SDE, Fields, fields
from fimsde.shapes import Array, Bool, Float, Float64


@dataclass(frozen=True, eq=False)
class _Transformed(ABC):
    """An equation in other variables, by its `fields`: no place that a simulation may visit raises a warning.

    Every component changes by itself, so that the correlation of the noise changes its sign at most.
    """

    inner: SDE

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.inner.dim

    @property
    def is_diagonal(self) -> bool:
        """Whether the noise of the inner equation is diagonal."""
        return equations.is_diagonal(self.inner)

    def drift(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Drift in the new variables."""
        return self.fields(x)[0]

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Diffusion in the new variables."""
        return self.fields(x)[1]

    @abstractmethod
    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        """Drift and diffusion in the new variables."""

    @abstractmethod
    def correlation(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
        """Correlation of the noise in the new variables."""


@dataclass(frozen=True, eq=False)
class AffineSDE(_Transformed):
    """The equation of z = (x - offset) / scale in time s = time_scale * t, for an SDE of x in time t.

    dz/ds = f(x) / (scale * time_scale); Ito's correction vanishes because the map is affine. A new clock that ticks
    `time_scale` times faster divides the variance rate by `time_scale`. Correlations keep their size; a negative scale
    turns the sign of those of its component.
    """

    scale: Float[Array, " dim"]
    offset: Float[Array, " dim"]
    time_scale: float = 1.0

    def fields(self, z: Float[Array, "queries dim"]) -> Fields:
        drift, diffusion = fields(self.inner, z * self.scale + self.offset)
        return drift / (self.scale * self.time_scale), diffusion / (np.abs(self.scale) * np.sqrt(self.time_scale))

    def correlation(self, z: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
        sign = np.sign(self.scale) * np.ones(self.dim)
        return equations.correlation(self.inner, z * self.scale + self.offset) * np.outer(sign, sign)


@dataclass(frozen=True, eq=False)
class LogSDE(_Transformed):
    """The equation of z = ln x for an SDE of positive x: drift f/x - g/(2 x²), diffusion sqrt(g)/x (Ito).

    NaN where exp z is not a positive float64 in every component.
    """

    def fields(self, z: Float[Array, "queries dim"]) -> Fields:
        x = _exp(z)
        drift, diffusion = _fields_where_finite(self.inner, x)
        return drift / x - 0.5 * (diffusion / x) ** 2, diffusion / x

    def correlation(self, z: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
        return _correlation_where_finite(self.inner, _exp(z))


@dataclass(frozen=True, eq=False)
class ExpSDE(_Transformed):
    """The equation of x = exp z for an SDE of z: drift x (f + g/2), diffusion x sqrt(g) (Ito). Undoes `LogSDE`.

    NaN where x is not positive in every component; a simulated path that steps there ends.
    """

    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        drift, diffusion = _fields_where_finite(self.inner, _log(x))
        return x * (drift + 0.5 * diffusion**2), x * diffusion

    def correlation(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
        return _correlation_where_finite(self.inner, _log(x))


def _exp(z: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
    with np.errstate(over="ignore", under="ignore"):
        x = np.exp(z)
    return np.where(x > 0, x, np.nan)


def _log(x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(x)


def _fields_where_finite(sde: SDE, x: Float[Array, "queries dim"]) -> Fields:
    """Drift and diffusion at the finite rows of x, NaN at the others, where the equation is not asked."""
    drift, diffusion = np.full((2, *x.shape), np.nan)
    rows = _finite_rows(x)
    if rows.any():
        drift[rows], diffusion[rows] = fields(sde, x[rows])
    return drift, diffusion


def _correlation_where_finite(sde: SDE, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
    rho = np.full((*x.shape, x.shape[1]), np.nan)
    rows = _finite_rows(x)
    if rows.any():
        rho[rows] = equations.correlation(sde, x[rows])
    return rho


def _finite_rows(x: Float[Array, "queries dim"]) -> Bool[Array, " queries"]:
    return np.all(np.isfinite(x), axis=1)
