"""Bands: how far drift and diffusion move when the data are drawn again, by bootstrap over the context.

With many paths whole paths are drawn. Otherwise blocks of neighbouring transitions are; a block is a path of its own,
so that no step joins two blocks. Every draw is estimated again with the same method.

The band reaches from the estimate to both sides by the typical distance of the redrawn estimates from it (their median,
as a standard deviation) times Student's quantile for the number of units drawn. Unlike a band of percentiles it always
holds the estimate, it widens where the draws are biased, and it allows for having few units: twenty blocks vary less
than the data they stand for, by the factor sqrt(19 / 20). The median, because a few draws may choose another equation
altogether. Coverage is measured by benchmarks/band_coverage.py.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy import stats

from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE, fields
from fimsde.errors import ConfigError, DataWarning, InvalidObservationsError
from fimsde.shapes import Array, Float64, Int

# By hand: Student's 90 % quantile for 20 units is 5 % above the normal one; short blocks depend on each other.
ENOUGH_PATHS = 20  # draw whole paths from this number on
NUM_BLOCKS = 20  # otherwise: blocks as long as the data cut into this many,
SHORTEST = 16  # or into fewer, so that blocks have this many transitions
_MEDIAN = float(stats.norm.ppf(0.75))  # median distance from the mean of a normal law, in standard deviations


@dataclass(frozen=True, eq=False)
class Band:
    """Pointwise intervals for drift and diffusion at locations.

    Attributes:
        x: Locations.
        drift_low, drift_high: Ends of the interval for the drift, state per time.
        diffusion_low, diffusion_high: Ends of the interval for sqrt(g), state per square root of time.
        level: Share of such intervals that should cover the truth, location by location.
        resamples: Number of times the data were drawn again.
        skipped: How many of these draws could not be estimated (a component did not move in them) and do not count.
    """

    x: Float64[Array, "queries dim"]
    drift_low: Float64[Array, "queries dim"]
    drift_high: Float64[Array, "queries dim"]
    diffusion_low: Float64[Array, "queries dim"]
    diffusion_high: Float64[Array, "queries dim"]
    level: float
    resamples: int
    skipped: int = 0


@dataclass(frozen=True, eq=False)
class Redraws:
    """Estimates of data that were drawn again, kept for further calls: draw i of a seed depends on (seed, i) alone.

    Attributes:
        observations: The data.
        refit: The method, from observations and a seed to an equation.
    """

    observations: Observations
    refit: Callable[[Observations, int], SDE]
    _kept: dict[int, list[SDE | None]] = field(default_factory=dict, repr=False)
    _told: set[tuple[int, int]] = field(default_factory=set, repr=False)  # of which it was said that some failed

    def take(self, resamples: int, seed: int) -> tuple[SDE | None, ...]:
        """The first of these estimates; None for a draw that cannot be estimated: a component does not move in it."""
        if not (isinstance(resamples, int | np.integer) and resamples >= 2):
            raise ConfigError(f"resamples is {resamples!r}; expected a whole number, at least 2.")
        kept = self._kept.setdefault(seed, [])
        for i in range(len(kept), resamples):
            drawn = resample(self.observations, np.random.default_rng([seed, i]))
            try:
                kept.append(self.refit(drawn, i))
            except (InvalidObservationsError, np.linalg.LinAlgError):  # degenerate data; counted by the band
                kept.append(None)
        return tuple(kept[:resamples])

    def band(self, centre: SDE, x: Float64[Array, "queries dim"], level: float, resamples: int, seed: int) -> Band:
        """The band around an estimate; says once how many draws could not be estimated."""
        band = make_band(self.take(resamples, seed), centre, x, level, num_units(self.observations))
        if band.skipped and (seed, resamples) not in self._told:
            self._told.add((seed, resamples))
            warnings.warn(
                f"{band.skipped} of {resamples} redraws of the data could not be estimated (a component does not move "
                "in them, perhaps); the band is made of the others.",
                DataWarning,
                stacklevel=3,
            )
        return band


def resample(observations: Observations, rng: np.random.Generator) -> Observations:
    """The data drawn again: whole paths, or blocks of transitions that become paths of their own."""
    if observations.num_paths >= ENOUGH_PATHS:
        drawn = rng.integers(observations.num_paths, size=observations.num_paths)
        ends = observations.path_starts
        return observations.as_paths([np.arange(ends[k], ends[k + 1]) for k in drawn])
    length = -(-observations.num_transitions // num_units(observations))
    return observations.as_paths(_draw_blocks(observations, length, rng))


def num_units(observations: Observations) -> int:
    """How many independent pieces the data are taken for: paths, or blocks."""
    if observations.num_paths >= ENOUGH_PATHS:
        return observations.num_paths
    return max(2, min(NUM_BLOCKS, observations.num_transitions // SHORTEST))


def make_band(
    sdes: Sequence[SDE | None], centre: SDE, x: Float64[Array, "queries dim"], level: float, units: int
) -> Band:
    """The band f ± q sqrt(n / (n - 1)) m / 0.674 around an estimate f, and the same for its diffusion.

    m is the median distance of the redrawn estimates from f, 0.674 that of a normal law in standard deviations, n the
    number of units and q Student's quantile for n - 1 degrees of freedom. The diffusion is not below zero.

    Args:
        sdes: Estimates of redrawn data, None for draws that could not be estimated; where one has no value (a negative
            variance rate, say) the others count.
        centre: The estimate.
        x: Locations.
        level: Share of the intervals that should cover the truth.
        units: How many independent pieces the draws were made of.
    """
    if not 0 < level < 1:
        raise ConfigError(f"level is {level}; expected a share between 0 and 1, for instance 0.9.")
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
    reach = spread * stats.t.ppf((1 + level) / 2, units - 1) * np.sqrt(units / (units - 1))
    low, high = middle - reach, middle + reach
    return Band(x, low[0], high[0], np.maximum(low[1], 0.0), high[1], level, len(sdes), len(sdes) - len(good))


def _draw_blocks(observations: Observations, length: int, rng: np.random.Generator) -> list[Int[Array, " _"]]:
    """Rows of blocks with as many transitions in all as the data.

    A block may start before its path and is cut at the ends, so that every transition is drawn equally often.
    """
    first, steps = observations.path_starts[:-1], np.diff(observations.path_starts) - 1
    room = np.where(steps > 0, steps + length - 1, 0)  # possible starts in each path
    blocks, missing = [], observations.num_transitions
    while missing > 0:
        path = rng.choice(len(room), p=room / room.sum())
        offset = int(rng.integers(room[path])) - (length - 1)
        start = max(offset, 0)
        stop = min(offset + length, int(steps[path]), start + missing)
        blocks.append(first[path] + np.arange(start, stop + 1))
        missing -= stop - start
    return blocks
