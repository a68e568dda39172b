"""Draws of an equation: what a posterior, or redrawn data, leave possible; and intervals made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from fimsde.equations.sde import SDE, CorrelatedSDE, fields
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.shapes import Array, Float, Float64

NUM_DRAWS = 200  # of every interval; the ends of a 90 % interval then have ten draws beyond them
LEVEL = 0.9  # of intervals


@runtime_checkable
class Draws(Protocol):
    """Equations that are all possible, each as likely as the others."""

    @property
    def dim(self) -> int: ...

    @property
    def least_diffusion(self) -> Float64[Array, " dim"]:
        """Smallest diffusion that the data can tell from none."""

    @property
    def whole(self) -> tuple[float, float]:
        """By which bands of whole curves are wider than those that hold so many draws: drift and diffusion."""

    def __len__(self) -> int: ...

    def __getitem__(self, i: int) -> SDE: ...

    def fields(self, x: Float[Array, "queries dim"]) -> tuple[Array, Array]:
        """Drift and diffusion of all draws at the same locations: two arrays (draws, queries, dim)."""

    def fields_own(self, x: Float[Array, "draws queries dim"]) -> tuple[Array, Array]:
        """Drift and diffusion of every draw at locations of its own."""

    def drift_own(self, x: Float[Array, "draws queries dim"]) -> Array:
        """Drift alone of every draw at locations of its own."""


@dataclass(frozen=True, eq=False)
class SeparateDraws:
    """Any equations as draws; each is asked by itself."""

    sdes: Sequence[SDE]
    whole: tuple[float, float] = (1.0, 1.0)

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.sdes[0].dim

    @property
    def least_diffusion(self) -> Float64[Array, " dim"]:
        """Nothing is known of what is too small to see."""
        return np.zeros(self.dim)

    def __len__(self) -> int:
        return len(self.sdes)

    def __getitem__(self, i: int) -> SDE:
        return self.sdes[i]

    def fields(self, x: Float[Array, "queries dim"]) -> tuple[Array, Array]:
        """Drift and diffusion of all draws at the same locations."""
        return self.fields_own(np.broadcast_to(x, (len(self), *np.shape(x))))

    def fields_own(self, x: Float[Array, "draws queries dim"]) -> tuple[Array, Array]:
        """Drift and diffusion of every draw at locations of its own."""
        both = [fields(sde, place) for sde, place in zip(self.sdes, x, strict=True)]
        return np.stack([np.asarray(f, np.float64) for f, _ in both]), np.stack(
            [np.asarray(g, np.float64) for _, g in both]
        )

    def drift_own(self, x: Float[Array, "draws queries dim"]) -> Array:
        """Drift of every draw at locations of its own."""
        return self.fields_own(x)[0]


@dataclass(frozen=True, eq=False)
class CorrelatedDraws:
    """The same draws, each with noise of one correlation everywhere."""

    inner: Draws
    rho: Float64[Array, "draws dim dim"]

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.inner.dim

    @property
    def least_diffusion(self) -> Float64[Array, " dim"]:
        """Smallest diffusion that the data can tell from none."""
        return self.inner.least_diffusion

    @property
    def whole(self) -> tuple[float, float]:
        """Of the draws without correlation."""
        return self.inner.whole

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, i: int) -> SDE:
        return CorrelatedSDE(self.inner[i], self.rho[i])

    def fields(self, x: Float[Array, "queries dim"]) -> tuple[Array, Array]:
        """Drift and diffusion of all draws at the same locations."""
        return self.inner.fields(x)

    def fields_own(self, x: Float[Array, "draws queries dim"]) -> tuple[Array, Array]:
        """Drift and diffusion of every draw at locations of its own."""
        return self.inner.fields_own(x)

    def drift_own(self, x: Float[Array, "draws queries dim"]) -> Array:
        """Drift of every draw at locations of its own."""
        return self.inner.drift_own(x)


@dataclass(frozen=True, eq=False)
class Interval:
    """Where something is, with a probability.

    Attributes:
        low, high: Ends; numbers, or arrays of the shape of what they are about.
        level: Probability that it is between them.
        known: Share of the draws in which it exists at all.
    """

    low: Array | float
    high: Array | float
    level: float
    known: float = 1.0

    def __str__(self) -> str:
        ends = f"{self.low:.3g} to {self.high:.3g}" if np.ndim(self.low) == 0 else f"{self.low} to {self.high}"
        return f"{ends} ({self.level:.0%})"


def check_level(level: float) -> None:
    """An error unless it is a probability."""
    if not 0 < level < 1:
        raise ConfigError(f"level is {level}; expected a share between 0 and 1, for instance 0.9.")


def interval_of(values: Float[Array, "..."], level: float = LEVEL) -> Interval:
    """Quantiles (1 ± level) / 2 of draws; those that are not finite do not count, and ends without any are NaN.

    Of n draws the k-th is taken for the quantile k / (n + 1): so often another draw is below it.
    """
    check_level(level)
    values = np.asarray(values, np.float64)
    good = np.isfinite(values)
    known = float(good.mean()) if values.size else 0.0
    if good.all() and len(values):
        low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2], axis=0, method="weibull")
        return Interval(_plain(low), _plain(high), level, known)
    flat, shape = values.reshape(len(values), -1), values.shape[1:]
    ends = np.full((2, flat.shape[1]), np.nan)
    for k in range(flat.shape[1]):
        own = flat[np.isfinite(flat[:, k]), k]
        if len(own):
            ends[:, k] = np.quantile(own, [(1 - level) / 2, (1 + level) / 2], method="weibull")
    return Interval(_plain(ends[0].reshape(shape)), _plain(ends[1].reshape(shape)), level, known)


def _plain(end: Array | np.floating) -> Array | float:
    """A number if it is one."""
    return end if isinstance(end, np.ndarray) and end.ndim else float(end)


def separate(sdes: Sequence[SDE | None]) -> SeparateDraws:
    """Estimates of redrawn data as draws, without those that failed."""
    good = [sde for sde in sdes if sde is not None]
    if 2 * len(good) < len(sdes) or len(good) < 2:
        raise InvalidObservationsError(
            f"{len(sdes) - len(good)} of {len(sdes)} redraws of the data could not be estimated: a component moves in "
            "too few steps for intervals by bootstrap. Record more of its changes, or leave it out of the state."
        )
    return SeparateDraws(good)
