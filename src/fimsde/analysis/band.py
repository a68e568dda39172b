"""Bands: how far drift and diffusion move when the data are drawn again, by bootstrap over the context.

With many paths whole paths are drawn. Otherwise blocks of neighbouring transitions are; a block is a path of its own,
so that no step joins two blocks. Every draw is estimated again with the same method.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fimsde.errors import ConfigError
from fimsde.observations import Observations
from fimsde.sde import SDE, fields
from fimsde.shapes import Array, Float64, Int

ENOUGH_PATHS = 20  # draw whole paths from this number on
NUM_BLOCKS = 20  # otherwise: blocks as long as the data cut into this many


@dataclass(frozen=True, eq=False)
class Band:
    """Pointwise intervals for drift and diffusion at locations.

    Attributes:
        x: Locations.
        drift_low, drift_high: Ends of the interval for the drift, state per time.
        diffusion_low, diffusion_high: Ends of the interval for sqrt(g), state per square root of time.
        level: Share of such intervals that should cover the truth, location by location.
        resamples: Number of times the data were drawn again.
    """

    x: Float64[Array, "queries dim"]
    drift_low: Float64[Array, "queries dim"]
    drift_high: Float64[Array, "queries dim"]
    diffusion_low: Float64[Array, "queries dim"]
    diffusion_high: Float64[Array, "queries dim"]
    level: float
    resamples: int


def resample(observations: Observations, rng: np.random.Generator) -> Observations:
    """The data drawn again: whole paths, or blocks of transitions that become paths of their own."""
    if observations.num_paths >= ENOUGH_PATHS:
        drawn = rng.integers(observations.num_paths, size=observations.num_paths)
        return _pieces(observations, observations.path_starts[drawn], observations.path_starts[drawn + 1])
    length = max(1, -(-observations.num_transitions // NUM_BLOCKS))
    return _pieces(observations, *_draw_blocks(observations, length, rng))


def make_band(sdes: Sequence[SDE], centre: SDE, x: Float64[Array, "queries dim"], level: float) -> Band:
    """The band from estimates of redrawn data around the estimate of the data."""
    if not 0 < level < 1:
        raise ConfigError(f"level is {level}; expected a share between 0 and 1, for instance 0.9.")
    drift, diffusion = (np.stack(part) for part in zip(*(fields(sde, x) for sde in sdes), strict=True))
    ends = [(1 - level) / 2, (1 + level) / 2]
    (drift_low, drift_high), (low, high) = (np.nanquantile(part, ends, axis=0) for part in (drift, diffusion))
    return Band(x, drift_low, drift_high, low, high, level, len(sdes))


def _draw_blocks(
    observations: Observations, length: int, rng: np.random.Generator
) -> tuple[Int[Array, " blocks"], Int[Array, " blocks"]]:
    """First row and row after the last of blocks with as many transitions in all as the data.

    A block may start before its path and is cut at the ends, so that every transition is drawn equally often.
    """
    first, steps = observations.path_starts[:-1], np.diff(observations.path_starts) - 1
    room = np.where(steps > 0, steps + length - 1, 0)  # possible starts in each path
    starts, stops, missing = [], [], observations.num_transitions
    while missing > 0:
        path = rng.choice(len(room), p=room / room.sum())
        offset = int(rng.integers(room[path])) - (length - 1)
        start, stop = max(offset, 0), min(offset + length, int(steps[path]))
        stop = min(stop, start + missing)
        starts.append(first[path] + start)
        stops.append(first[path] + stop + 1)
        missing -= stop - start
    return np.array(starts), np.array(stops)


def _pieces(observations: Observations, starts: Int[Array, " pieces"], stops: Int[Array, " pieces"]) -> Observations:
    """Rows starts[k] to stops[k] as path k."""
    rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, stops, strict=True)])
    path_starts = np.concatenate([[0], np.cumsum(stops - starts)])
    return Observations(
        observations.values[rows], observations.times[rows], path_starts, observations.names, observations.time_unit
    )
