"""Markets and offices rest: dates without two days of every week, across which the state moves as in one day."""

import numpy as np

from fimsde.data.observations import Observations
from fimsde.shapes import Array, Float64

_WEEK, _REST = 7, 2  # days
_FEWEST = 20  # steps across the days of rest; by hand: their mean square is known to a third
_MOST = (
    2.0  # mean square of a step of three days over that of one; between 1, if the state rests, and 3, if it does not
)


def resting(observations: Observations) -> str:
    """What to do if the state rests at weekends and the dates do not say so; empty if it does not, or nobody knows."""
    if observations.time_unit != "D":
        return ""
    ratio = _ratio(observations)
    if ratio is None or ratio > _MOST:
        return ""
    return (
        "Count days of trading, or of work: no observation falls on two days of every week, and across them the state "
        f"moves {ratio:.2g} times as much as in one day (in variance; 3 if it never rested). Read the rows as one day "
        "apart, without their dates (--dt 1; in Python dt=1)."
    )


def _ratio(observations: Observations) -> float | None:
    """Mean square of the steps across the days of rest over that of steps of one day; the largest of all components."""
    days = np.floor(observations.times - observations.times.min() + 1e-6).astype(np.int64)
    seen = np.bincount(days % _WEEK, minlength=_WEEK) > 0
    empty = np.flatnonzero(~seen)
    if len(empty) != _REST or (empty[1] - empty[0]) % _WEEK not in (1, _WEEK - 1):
        return None
    ends = observations.path_starts[1:-1] - 1  # steps do not join paths
    gaps = np.delete(np.diff(days), ends)
    squares: Float64[Array, "steps dim"] = np.delete(np.diff(observations.values, axis=0), ends, axis=0) ** 2
    across, within = gaps == 1 + _REST, gaps == 1
    if across.sum() < _FEWEST or within.sum() < _FEWEST:
        return None
    return float((squares[across].mean(axis=0) / squares[within].mean(axis=0)).max())
