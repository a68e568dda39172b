"""Doubts: what a quadratic log likelihood does not say, looked at once the equation is known.

Beside measurement noise the likelihood of g is far from quadratic, and a drift takes from it (`levels`). And an
equation may not fit: then innovations are not standard normal and independent, and intervals that believe in the
equation are too narrow.
"""

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from fimsde.bank.windows import Series, to_series
from fimsde.data.transitions import Transitions
from fimsde.evidence.filter import Equation, Predictions, predict, turn_of
from fimsde.evidence.infer import Inference
from fimsde.evidence.levels import Levels, rate_levels, with_levels
from fimsde.shapes import Array, Float64, Int

_PLACES = 40  # at which slopes of drawn drifts are taken; by hand: bounds the time
_LEAST_GAIN = 0.01  # of a filter: hundred observations are one window; fewer see nothing of it
_BLOCKS, _LENGTH = 8, 250  # stretches of the data on which the equation is looked at, and their length: milliseconds


@dataclass(frozen=True, eq=False)
class Doubts:
    """Attributes:
    levels: Per component: the law of the level of g where it is not well known beside noise, else None.
    strain: By how many standard errors innovations differ from standard normal, independent numbers.
    turn: By how much the drift turns an error of the state in a gap: largest entry of exp(J h) - 1, its median.
    places: Some states along the paths.
    window: Time in which data see what noise adds, per component: a gap, and longer beside measurement noise; 0 where
        neighbouring observations know little of each other.
    """

    levels: tuple[Levels | None, ...] = ()
    strain: float = 0.0
    turn: float = 0.0
    places: Float64[Array, "places dim"] = field(default_factory=lambda: np.empty((0, 0)))
    window: Float64[Array, " dim"] = field(default_factory=lambda: np.empty(0))

    @property
    def has_hidden(self) -> bool:
        """Whether noise hides g in any component."""
        return any(law is not None and law.is_hidden for law in self.levels)


NO_DOUBTS = Doubts()


def doubts_about(tr: Transitions, inference: Inference) -> tuple[Doubts, Equation | None]:
    """Look at the equation on some of the observations, and at levels of g that are not well known on all of them.

    Returns:
        The doubts, and the equation with these levels; None if there are none.
    """
    series = to_series(tr)
    found = predict(_some(series), inference.equation, euler=inference.is_coarse)
    levels = rate_levels(series, inference, found)
    places = found.places[0][:: max(1, len(found.places[0]) // _PLACES)][:_PLACES]
    window = np.zeros(places.shape[1]) if inference.is_coarse else window_of(found)
    doubts = Doubts(levels, strain_of(found), turn_of(found), places, window)
    known = all(law is None for law in levels)
    return doubts, None if known else with_levels(inference.equation, levels, found)


def strain_of(found: Predictions) -> float:
    """The largest of three deviations over components, in standard errors: of n numbers z = ν / sqrt(S)

    the mean of z² from one, sqrt(2 / n); the mean of z⁴ from three (mean z²)², sqrt(24 / n); the correlation of
    neighbours from zero, sqrt(1 / n).
    """
    white = found.innovation / np.sqrt(found.variance)  # (rows, dim)
    num = len(white)
    if num < 2 or not np.isfinite(white).all():
        return float("inf")
    square = np.maximum((white**2).mean(axis=0), np.finfo(np.float64).tiny)
    fourth = (white**4).mean(axis=0) / square**2
    follows = ~found.begins[1:]
    along = (white[1:] * white[:-1])[follows].sum(axis=0) / num / square
    parts = (square - 1.0) / np.sqrt(2.0), (fourth - 3.0) / np.sqrt(24.0), along
    return float(np.sqrt(num) * np.max(np.abs(parts)))


def window_of(found: Predictions) -> Float64[Array, " dim"]:
    """A gap over the share of an innovation that the filter takes for motion, both medians, per component."""
    gain = np.median(np.diagonal(found.gain, axis1=1, axis2=2), axis=0)
    return np.asarray(np.median(found.gaps) / np.clip(gain, _LEAST_GAIN, 1.0))


def _some(series: Series) -> Series:
    """Stretches spread evenly over the data, each a path of its own; all of them if there are no more."""
    if len(series.y) <= _BLOCKS * _LENGTH:
        return series
    starts = np.linspace(0, len(series.y) - _LENGTH, _BLOCKS).astype(np.int64)
    rows = _cuts(series, starts)
    ends = np.cumsum([0, *(b - a for a, b in rows)])
    chosen = np.concatenate([np.arange(a, b) for a, b in rows])
    return Series(series.y[chosen], series.dtau[chosen], ends)


def _cuts(series: Series, starts: Int[Array, " blocks"]) -> list[tuple[int, int]]:
    """Beginnings and ends of the stretches, cut where paths end; those of one observation have no step."""
    found = []
    for start in starts.tolist():
        inner = [int(k) for k in series.path_starts if start < k < start + _LENGTH]
        edges = [start, *inner, start + _LENGTH]
        found += [(a, b) for a, b in pairwise(edges) if b - a > 1]
    return found
