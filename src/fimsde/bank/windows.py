"""The equation in weak form: windows of consecutive steps, tested against hat functions.

Over a window with weights w, sum w dy = ∫ w f(x) dt + martingale + measurement noise. The left side is a difference of
block means, so measurement noise is averaged; the integral is taken along the path, so long windows carry no finite-gap
bias; and features at the place where the window begins are an instrument: of all the noise inside the window they know
only that of its first observation, which can be allowed for.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from fimsde.bank import monomials, window_kernels
from fimsde.data.transitions import Transitions
from fimsde.shapes import Array, Float64, Int

DRIFT_DEGREE, DIFFUSION_DEGREE = 3, 2  # the families of the paper's prior: cubic drifts, quadratic g
_CHUNK = 16384  # windows held at once; bounds memory, does not change results

Part = TypeVar("Part")


@dataclass(frozen=True)
class Series:
    """Observed points path after path, as windows need them: `dtau[i]` is the gap after point i of the same path."""

    y: Float64[Array, "points dim"]
    dtau: Float64[Array, " points"]
    path_starts: Int[Array, " paths_plus_1"]

    @cached_property
    def steps(self) -> Int[Array, " steps"]:
        """The points from which a step goes: all but the last one of each path."""
        return np.delete(np.arange(len(self.y)), self.path_starts[1:] - 1)

    @cached_property
    def median_gap(self) -> float:
        """The median of all gaps that are longer than none."""
        return float(np.median(self.dtau[self.dtau > 0]))

    def pairs(self, at_most: int) -> "Series":
        """About so many pairs of neighbouring points, spread evenly over the data, each a path of its own. Kept."""
        if at_most not in self._pairs:
            first = self.steps[:: max(1, len(self.steps) // at_most)]
            both = np.stack([first, first + 1], axis=1).ravel()
            gaps = self.dtau[both]
            gaps[1::2] = 0.0
            self._pairs[at_most] = Series(self.y[both], gaps, np.arange(0, len(both) + 1, 2))
        return self._pairs[at_most]

    @cached_property
    def _pairs(self) -> dict[int, "Series"]:
        return {}


def to_series(tr: Transitions) -> Series:
    """The points behind the transitions."""
    last = tr.ends_path()
    num = np.diff(np.append(0, np.flatnonzero(last) + 1)) + 1  # points per path
    starts = np.concatenate([[0], np.cumsum(num)])
    is_end = np.zeros(starts[-1], bool)
    is_end[starts[1:] - 1] = True
    y = np.empty((starts[-1], tr.dim))
    dtau = np.zeros(starts[-1])
    y[~is_end], dtau[~is_end] = tr.y, tr.dtau
    y[is_end] = tr.y[last] + tr.dy[last]
    return Series(y, dtau, starts)


def mean_square_displacement(series: Series) -> tuple[Float64[Array, " lags"], Float64[Array, "lags dim"]]:
    """Mean time and mean square displacement at lags 1, 2, 4, ... steps, as far as the paths reach."""
    spans, squares, lag = [], [], 1
    while lag < len(series.y):
        pairs, span, square = window_kernels.mean_square_displacement(series.y, series.dtau, series.path_starts, lag)
        if pairs == 0:
            break
        spans.append(span)
        squares.append(square)
        lag *= 2
    return np.array(spans), np.array(squares)


@dataclass(frozen=True)
class Chunk:
    """Some windows: increments, integrals of the features, and what an estimator needs to weigh them."""

    increment: Float64[Array, "windows dim"]
    integral: Float64[Array, "windows terms"]
    length: Float64[Array, " windows"]  # weighted time of the window
    instrument: Float64[Array, "windows terms"]  # features at the place where the window begins
    before: Float64[Array, "windows dim"]  # a place that does not know the noise of the window
    centre: Float64[Array, "windows dim"]  # mean place inside the window
    joined: Array  # True where the next row continues this one on the same path


Windows = Callable[[], Iterator[Chunk]]  # all windows of a series, to be walked through as often as is needed


def held(make: Callable[[], Iterator[Part]]) -> Callable[[], Iterator[Part]]:
    """Keep what small data give in memory; long data are walked anew each time, in flat memory."""
    start = make()
    first = next(start, None)
    if first is None:
        return lambda: iter(())
    if next(start, None) is None:
        return lambda: iter((first,))
    return make


def step_windows(series: Series, *, coarse: bool = False) -> Iterator[Chunk]:
    """Single steps with the step's own start as instrument and the trapezoidal rule: for data without noise.

    Of coarse data, whose neighbours know little of each other, the rule would make twice the drift: there a step is an
    Euler step, and drift and diffusion are those of the Markov chain that one sees.
    """
    inside = np.ones(len(series.y), bool)
    inside[series.path_starts[1:] - 1] = False
    rows = np.flatnonzero(inside)
    for part in np.array_split(rows, max(1, -(-len(rows) // _CHUNK))):
        a, b = part[0], part[-1] + 2
        y, h = series.y[a:b], series.dtau[part]
        features = monomials.evaluate(y, DRIFT_DEGREE)
        increment, before, centre = (np.empty((len(part), y.shape[1])) for _ in range(3))
        integral, instrument = (np.empty((len(part), features.shape[1])) for _ in range(2))
        window_kernels.fill_steps(y, h, features, part - a, coarse, increment, integral, instrument, before, centre)
        yield Chunk(increment, integral, h, instrument, before, centre, np.append(np.diff(part) == 1, False))


def hat_windows(series: Series, m: int, noise_var: Float64[Array, " dim"]) -> Iterator[Chunk]:
    """Hat functions over 2m - 1 steps, one every m steps; instruments sit at the mean of m points up to the first."""
    for a, b, starts in _segments(series.path_starts, m):
        y, dtau = series.y[a:b], series.dtau[a:b]
        num = window_kernels.count_windows(starts, m)
        features = monomials.evaluate(y, DRIFT_DEGREE, noise_var)
        increment, before, at, centre = (np.zeros((num, y.shape[1])) for _ in range(4))
        integral, length, first = np.zeros((num, features.shape[1])), np.zeros(num), np.zeros(num, np.int64)
        window_kernels.fill_windows(
            y, dtau, starts, features, m, increment, integral, length, before, at, centre, first
        )
        instrument = monomials.evaluate(at, DRIFT_DEGREE)
        yield Chunk(increment, integral, length, instrument, before, centre, np.append(np.diff(first) == m, False))


def _segments(path_starts: Int[Array, " paths_plus_1"], m: int) -> Iterator[tuple[int, int, Int[Array, " _"]]]:
    """Stretches of points (a, b) with their own path starts, so that every window is in just one of them.

    Neighbouring short paths go together; a long path is cut so that the windows of the pieces are those of the whole.
    """
    limit = _CHUNK * m
    group: list[int] = []  # starts and final end of the short paths gathered so far
    for a, b in zip(path_starts[:-1].tolist(), path_starts[1:].tolist(), strict=True):
        if group and b - group[0] > limit:
            yield group[0], group[-1], np.array(group) - group[0]
            group = []
        if b - a <= limit:
            group = [*(group or [a]), b]
            continue
        windows = (b - a - 3 * m - 1) // m + 1
        for k in range(0, windows, _CHUNK):
            start = a + k * m
            stop = start + (min(_CHUNK, windows - k) - 1) * m + 3 * m + 1
            yield start, stop, np.array([0, stop - start])
    if group:
        yield group[0], group[-1], np.array(group) - group[0]
