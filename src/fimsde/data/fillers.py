"""Numbers that stand for missing cells, such as -999."""

import numpy as np

from fimsde.shapes import Array, Float64

_OTHERS = (32767.0, 32768.0, 1e20)  # of 16-bit instruments and of grids, without sign
_NINES = 3  # digits, all of them nines: 999, 99.9, 9999; by hand
_LEAST = 2  # cells: once, a number may be what it says


def filler(values: Float64[Array, " rows"]) -> float | None:
    """The number of a component that stands for a missing cell; None if there is none.

    It is written as such numbers are, occurs more than once, and lies further from all others than these from each
    other.
    """
    seen = values[np.isfinite(values)]
    for end in (seen.min(), seen.max()) if len(seen) else ():
        others = seen[seen != end]
        if not _is_usual(float(end)) or len(seen) - len(others) < _LEAST or len(others) < 2:
            continue
        if np.abs(others - end).min() > np.ptp(others):
            return float(end)
    return None


def _is_usual(number: float) -> bool:
    digits = f"{abs(number):.10g}".replace(".", "")
    return abs(number) in _OTHERS or (len(digits) >= _NINES and set(digits) == {"9"})
