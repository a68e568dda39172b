"""The one protocol every stochastic differential equation satisfies, and changes of variables.

Ito throughout: dx = drift(x) dt + diag(diffusion(x)) dW, where `diffusion` is the square root sqrt(g) of the variance
rate g. Textbook systems, draws from the prior, fitted baselines and estimates of the model are all an `SDE`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, no_type_check, runtime_checkable

import numpy as np

from fimsde.shapes import Array, Float

Field = Callable[[Float[Array, "queries dim"]], Float[Array, "queries dim"]]
Fields = tuple[Float[Array, "queries dim"], Float[Array, "queries dim"]]  # drift and diffusion


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


@no_type_check  # once per step of a simulation, where the run-time checks of the tests would take most of the time
def fields(sde: SDE, x: Float[Array, "queries dim"]) -> Fields:
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


@dataclass(frozen=True, eq=False)
class _Transformed(ABC):
    """An equation in other variables, by its `fields`: no place that a simulation may visit raises a warning."""

    inner: SDE

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.inner.dim

    def drift(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Drift in the new variables."""
        return self.fields(x)[0]

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Diffusion in the new variables."""
        return self.fields(x)[1]

    @abstractmethod
    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        """Drift and diffusion in the new variables."""


@dataclass(frozen=True, eq=False)
class AffineSDE(_Transformed):
    """The equation of z = (x - offset) / scale in time s = time_scale * t, for an SDE of x in time t.

    dz/ds = f(x) / (scale * time_scale); Ito's correction vanishes because the map is affine. A new clock that ticks
    `time_scale` times faster divides the variance rate by `time_scale`.
    """

    scale: Float[Array, " dim"]
    offset: Float[Array, " dim"]
    time_scale: float = 1.0

    def fields(self, z: Float[Array, "queries dim"]) -> Fields:
        drift, diffusion = fields(self.inner, z * self.scale + self.offset)
        return drift / (self.scale * self.time_scale), diffusion / (np.abs(self.scale) * np.sqrt(self.time_scale))


@dataclass(frozen=True, eq=False)
class LogSDE(_Transformed):
    """The equation of z = ln x for an SDE of positive x: drift f/x - g/(2 x²), diffusion sqrt(g)/x (Ito).

    NaN where exp z is not a positive float64 in every component.
    """

    def fields(self, z: Float[Array, "queries dim"]) -> Fields:
        with np.errstate(over="ignore", under="ignore"):
            x = np.exp(z)
        x = np.where(x > 0, x, np.nan)
        drift, diffusion = _fields_where_finite(self.inner, x)
        return drift / x - 0.5 * (diffusion / x) ** 2, diffusion / x


@dataclass(frozen=True, eq=False)
class ExpSDE(_Transformed):
    """The equation of x = exp z for an SDE of z: drift x (f + g/2), diffusion x sqrt(g) (Ito). Undoes `LogSDE`.

    NaN where x is not positive in every component; a simulated path that steps there ends.
    """

    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.log(x)
        drift, diffusion = _fields_where_finite(self.inner, z)
        return x * (drift + 0.5 * diffusion**2), x * diffusion


def _fields_where_finite(sde: SDE, x: Float[Array, "queries dim"]) -> Fields:
    """Drift and diffusion at the finite rows of x, NaN at the others, where the equation is not asked."""
    drift, diffusion = np.full((2, *x.shape), np.nan)
    rows = np.all(np.isfinite(x), axis=1)
    if rows.any():
        drift[rows], diffusion[rows] = fields(sde, x[rows])
    return drift, diffusion
