"""Bands: what the data leave possible of drift and diffusion.

From a posterior (`posterior_band`): quantiles of functions drawn from it, which know what else the equation could be.
A simultaneous band holds a share of the drawn curves as a whole. Where a diffusion may be smaller than data can tell,
its interval begins at zero.

By bootstrap over the context (`make_band`): how far the estimate moves when the data are drawn again. With many paths
whole paths are drawn. Otherwise blocks of neighbouring transitions are; a block is a path of its own, so that no step
joins two blocks. Every draw is estimated again with the same method.

A bootstrap band reaches from the estimate to both sides by the typical distance of the redrawn estimates from it
(their median, as a standard deviation) times Student's quantile for the number of units drawn. Unlike a band of
percentiles it always holds the estimate, it widens where the draws are biased, and it allows for having few units:
twenty blocks vary less than the data they stand for, by the factor sqrt(19 / 20). The median, because a few draws may
choose another equation altogether. Coverage is measured by benchmarks/band_coverage.py.

Of very long data (n transitions) a band draws m = 100 000 at a time and shrinks the distances by sqrt(m / n), the rate
at which an estimate of finitely many numbers gets better: the m out of n bootstrap.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy.special import ndtri, stdtrit

from fimsde.analysis.draws import Draws, check_level, interval_of
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE, fields
from fimsde.errors import ConfigError, DataWarning, InvalidObservationsError
from fimsde.shapes import Array, Float64, Int

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# By hand: Student's 90 % quantile for 20 units is 5 % above the normal one; short blocks depend on each other.
ENOUGH_PATHS = 20  # draw whole paths from this number on
NUM_BLOCKS = 20  # otherwise: blocks as long as the data cut into this many,
MOST = 100_000  # transitions drawn at a time for a band; by hand: fifty estimates of a million took two minutes
SHORTEST = 16  # or into fewer, so that blocks have this many transitions
_MEDIAN = float(ndtri(0.75))  # median distance from the mean of a normal law, in standard deviations


@dataclass(frozen=True, eq=False)
class Band:
    """Pointwise intervals for drift and diffusion at locations.

    Attributes:
        x: Locations.
        drift_low, drift_high: Ends of the interval for the drift, state per time.
        diffusion_low, diffusion_high: Ends of the interval for sqrt(g), state per square root of time.
        level: Share of such intervals that should cover the truth, location by location, or all at once.
        resamples: Number of draws from the posterior, or of times the data were drawn again.
        skipped: How many of these draws could not be estimated (a component did not move in them) and do not count.
        method: "posterior" or "bootstrap".
        simultaneous: Whether the level holds for all locations at once, per component.
        names: Of the components, for tables; none if they are not known.
    """

    x: Float64[Array, "queries dim"]
    drift_low: Float64[Array, "queries dim"]
    drift_high: Float64[Array, "queries dim"]
    diffusion_low: Float64[Array, "queries dim"]
    diffusion_high: Float64[Array, "queries dim"]
    level: float
    resamples: int
    skipped: int = 0
    method: Literal["posterior", "bootstrap"] = "bootstrap"
    simultaneous: bool = False
    names: tuple[str, ...] = ()

    def to_pandas(self, names: Sequence[str] | None = None) -> "pd.DataFrame":
        """A row per location: its components, then the ends of both intervals of each."""
        import pandas as pd  # takes a while to import

        called = names or self.names or [f"x{j + 1}" for j in range(self.x.shape[1])]
        parts = {"": self.x, "drift_low ": self.drift_low, "drift_high ": self.drift_high}
        parts |= {"diffusion_low ": self.diffusion_low, "diffusion_high ": self.diffusion_high}
        columns = {f"{what}{name}": part[:, j] for what, part in parts.items() for j, name in enumerate(called)}
        return pd.DataFrame(columns)

    def to_xarray(self, names: Sequence[str] | None = None) -> "xr.Dataset":
        """The same as a data set over `location`. Needs xarray."""
        return self.to_pandas(names).rename_axis("location").to_xarray()


@dataclass(frozen=True, eq=False)
class Redraws:
    """Estimates of data that were drawn again, kept for further calls: draw i of a seed depends on (seed, i) alone.

    Attributes:
        observations: The data.
        refit: The method, from observations and a seed to an equation.
    """

    observations: Observations
    refit: Callable[[Observations, int], SDE]
    _kept: dict[tuple[int, bool], list[SDE | None]] = field(default_factory=dict, repr=False)
    _told: set[tuple[int, int]] = field(default_factory=set, repr=False)  # of which it was said that some failed

    def take(self, resamples: int, seed: int, *, for_band: bool = False) -> tuple[SDE | None, ...]:
        """The first of these estimates; None for a draw that cannot be estimated: a component does not move in it.

        Args:
            resamples: How many.
            seed: Seed of the draws.
            for_band: Whether a draw may be smaller than the data, which the band then allows for.
        """
        if not (isinstance(resamples, int | np.integer) and resamples >= 2):
            raise ConfigError(f"resamples is {resamples!r}; expected a whole number, at least 2.")
        size = band_size(self.observations) if for_band else self.observations.num_transitions
        kept = self._kept.setdefault((seed, size < self.observations.num_transitions), [])
        for i in range(len(kept), resamples):
            drawn = resample(self.observations, np.random.default_rng([seed, i]), size)
            try:
                kept.append(self.refit(drawn, i))
            except (InvalidObservationsError, np.linalg.LinAlgError):  # degenerate data; counted by the band
                kept.append(None)
        return tuple(kept[:resamples])

    def band(
        self,
        centre: SDE,
        x: Float64[Array, "queries dim"],
        level: float,
        resamples: int,
        seed: int,
        *,
        simultaneous: bool = False,
    ) -> Band:
        """The band around an estimate; says once how many draws could not be estimated."""
        draws = self.take(resamples, seed, for_band=True)
        share = band_size(self.observations) / self.observations.num_transitions
        band = make_band(draws, centre, x, level, num_units(self.observations), share, simultaneous=simultaneous)
        if band.skipped and (seed, resamples) not in self._told:
            self._told.add((seed, resamples))
            warnings.warn(
                f"{band.skipped} of {resamples} redraws of the data could not be estimated (a component does not move "
                "in them, perhaps); the band is made of the others.",
                DataWarning,
                stacklevel=3,
            )
        return band


def band_size(observations: Observations) -> int:
    """Transitions of a draw for a band: as many as the data, or `MOST`."""
    return min(MOST, observations.num_transitions)


def resample(observations: Observations, rng: np.random.Generator, size: int | None = None) -> Observations:
    """The data drawn again: whole paths, or blocks of transitions that become paths of their own.

    Args:
        observations: The data.
        rng: Source of randomness.
        size: Transitions to draw, of paths about as many; by default all.
    """
    size = observations.num_transitions if size is None else size
    if observations.num_paths >= ENOUGH_PATHS:
        share = size / observations.num_transitions
        num = max(ENOUGH_PATHS, round(share * observations.num_paths))
        drawn = rng.integers(observations.num_paths, size=num)
        ends = observations.path_starts
        return observations.as_paths([np.arange(ends[k], ends[k + 1]) for k in drawn])
    length = -(-size // num_units(observations))
    return observations.as_paths(_draw_blocks(observations, length, size, rng))


def num_units(observations: Observations) -> int:
    """How many independent pieces the data are taken for: paths, or blocks."""
    if observations.num_paths >= ENOUGH_PATHS:
        return observations.num_paths
    return max(2, min(NUM_BLOCKS, observations.num_transitions // SHORTEST))


def make_band(
    sdes: Sequence[SDE | None],
    centre: SDE,
    x: Float64[Array, "queries dim"],
    level: float,
    units: int,
    share: float = 1.0,
    *,
    simultaneous: bool = False,
) -> Band:
    """The band f ± q sqrt(n / (n - 1)) sqrt(s) m / 0.674 around an estimate f, and the same for its diffusion.

    s is the share of the data that a draw has, m the median distance of the redrawn estimates from f, 0.674 that of a
    normal law in standard deviations, n the number of units and q Student's quantile for n - 1 degrees of freedom. The
    diffusion is not below zero.

    Args:
        sdes: Estimates of redrawn data, None for draws that could not be estimated; where one has no value (a negative
            variance rate, say) the others count.
        centre: The estimate.
        x: Locations.
        level: Share of the intervals that should cover the truth.
        units: How many independent pieces the draws were made of.
        share: Size of a draw as a share of the data.
        simultaneous: Whether the band is to hold whole curves: then q is at least the quantile of the largest distance
            of a redrawn curve from f, in its own standard deviations.
    """
    check_level(level)
    good = [sde for sde in sdes if sde is not None]
    if len(good) < min(len(sdes), 2) or 2 * len(good) < len(sdes):  # the typical distance is the median of all draws
        raise InvalidObservationsError(
            f"{len(sdes) - len(good)} of {len(sdes)} redraws of the data could not be estimated: a component moves in "
            "too few steps for a band by bootstrap. Record more of its changes, leave it out of the state, or do "
            "without a band (resamples 0)."
        )
    drawn = np.stack([np.stack(fields(sde, x)) for sde in good])  # (resamples, 2, queries, dim)
    middle = np.stack(fields(centre, x))
    distances = np.abs(np.where(np.isfinite(drawn), drawn - middle, np.nan))
    known = np.isfinite(distances).any(axis=0)
    spread = np.full(middle.shape, np.nan)
    spread[known] = np.nanmedian(distances[:, known], axis=0) / _MEDIAN
    quantile = np.full((2, 1, middle.shape[2]), stdtrit(units - 1, (1 + level) / 2))
    if simultaneous and known.any():
        quantile = np.maximum(quantile, _largest(distances, spread, level))
    reach = spread * quantile * np.sqrt(share * units / (units - 1))
    low, high = middle - reach, middle + reach
    counts = len(sdes), len(sdes) - len(good)
    return Band(x, low[0], high[0], np.maximum(low[1], 0.0), high[1], level, *counts, simultaneous=simultaneous)


def _largest(
    distances: Float64[Array, "draws 2 queries dim"], spread: Float64[Array, "2 queries dim"], level: float
) -> Float64[Array, "2 1 dim"]:
    """Quantile over draws of the largest distance over all locations, in standard deviations: per field, component."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(spread > 0, distances / spread, 0.0)
    worst = np.nan_to_num(ratio, nan=0.0).max(axis=2)  # (draws, 2, dim)
    return np.quantile(worst, level, axis=0, method="weibull")[:, None]


def posterior_band(
    draws: Draws, centre: SDE, x: Float64[Array, "queries dim"], level: float, *, simultaneous: bool = False
) -> Band:
    """Quantiles of the fields of draws at locations; always around the estimate.

    A simultaneous band is the pointwise one of the same draws, widened on both sides by the factor that lets a share
    `level` of the drawn curves stay inside at all locations, per component.

    Args:
        draws: Of the posterior.
        centre: The estimate.
        x: Locations.
        level: Probability that the truth is inside.
        simultaneous: At all locations at once.
    """
    check_level(level)
    least = draws.least_diffusion
    ends = []
    for drawn, middle, wider in zip(draws.fields(x), fields(centre, x), draws.whole, strict=True):
        pointwise = interval_of(drawn, level)
        low, high = np.minimum(pointwise.low, middle), np.maximum(pointwise.high, middle)
        if simultaneous and len(x):
            low, high = _widened(drawn, np.asarray(middle, np.float64), low, high, level, wider)
        ends.append((low, high))
    (drift_low, drift_high), (low, high) = ends
    low = np.where(low <= least, 0.0, low)  # what is smaller cannot be told from none
    high = np.maximum(high, least)
    return Band(x, drift_low, drift_high, low, high, level, len(draws), 0, "posterior", simultaneous)


def _widened(
    drawn: Float64[Array, "draws queries dim"],
    middle: Float64[Array, "queries dim"],
    low: Float64[Array, "queries dim"],
    high: Float64[Array, "queries dim"],
    level: float,
    wider: float,
) -> tuple[Float64[Array, "queries dim"], Float64[Array, "queries dim"]]:
    """middle - q (middle - low) and middle + q (high - middle), q the quantile of what curves need to be inside.

    The quantile is multiplied by `wider`; a band of whole curves is never narrower than one of single places.
    """
    tiny = np.finfo(np.float64).tiny
    above = (drawn - middle) / np.maximum(high - middle, tiny)
    below = (middle - drawn) / np.maximum(middle - low, tiny)
    needed = np.nan_to_num(np.maximum(above, below), nan=0.0).max(axis=1)  # (draws, dim)
    factor = np.maximum(wider * np.quantile(needed, level, axis=0, method="weibull"), 1.0)
    return middle - factor * (middle - low), middle + factor * (high - middle)


def _draw_blocks(
    observations: Observations, length: int, size: int, rng: np.random.Generator
) -> list[Int[Array, " _"]]:
    """Rows of blocks with so many transitions in all.

    A block may start before its path and is cut at the ends, so that every transition is drawn equally often.
    """
    first, steps = observations.path_starts[:-1], np.diff(observations.path_starts) - 1
    room = np.where(steps > 0, steps + length - 1, 0)  # possible starts in each path
    blocks, missing = [], size
    while missing > 0:
        path = rng.choice(len(room), p=room / room.sum())
        offset = int(rng.integers(room[path])) - (length - 1)
        start = max(offset, 0)
        stop = min(offset + length, int(steps[path]), start + missing)
        blocks.append(first[path] + np.arange(start, stop + 1))
        missing -= stop - start
    return blocks
