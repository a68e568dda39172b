"""Arrays and lists of arrays on their way to the door, not yet checked. tables.py does the same for tables."""

import datetime
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, SupportsIndex

import numpy as np

from fimsde.errors import InvalidObservationsError, ObservationTypeError
from fimsde.shapes import Array, Bool, Float64, Int, Shaped

# by definition of the units
_NANOSECONDS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}
_NANOSECONDS |= {"D": 24 * _NANOSECONDS["h"], "W": 7 * 24 * _NANOSECONDS["h"]}
# the mean month and year of the Gregorian calendar, 146 097 days in 400 years: for durations; dates are counted
_NANOSECONDS |= {"month": 146_097 * _NANOSECONDS["D"] // 4800, "year": 146_097 * _NANOSECONDS["D"] // 400}
_MONTHS = {"month": 1, "year": 12}
TIME_UNITS = tuple(_NANOSECONDS)


@dataclass(frozen=True, eq=False)
class RawPath:
    """One path before checking, with what is needed to say where a bad value stands."""

    times: Float64[Array, " times"]
    values: Float64[Array, "times dim"]
    observed: Bool[Array, " times"]
    label: str
    rows: Int[Array, " times"]  # where each observation stands in the user's data ...
    counted_in: str  # ... and what that is: "index", "row" or "line"
    rounding: Float64[Array, " dim"]  # relative, of the precision the values came in

    def place(self, i: SupportsIndex) -> str:
        """Where observation i of this path stands in the user's data."""
        return f"{self.counted_in} {self.rows[i]}"


def raw_paths(source: Any, times: Any, dt: float | None, mask: Any, time_unit: str | None) -> list[RawPath]:
    """Unchecked paths of an array or of a list of arrays."""
    given = [to_numpy(path, "the data") for path in _split(source)]
    arrays = [_state_array(array, f"path {k}") for k, array in enumerate(given)]
    if (times is None) == (dt is None):
        found = "neither times nor dt" if times is None else "both times and dt"
        raise InvalidObservationsError(f"{found} given. Pass times= (one per observation) or dt= (a constant gap).")
    lengths = [len(values) for values in arrays]
    clocks = [np.arange(n) * float(dt) for n in lengths] if dt is not None else _clocks(times, lengths, time_unit)
    seen = [np.ones(n, bool) for n in lengths] if mask is None else _masks(mask, lengths)
    precisions = [np.full(values.shape[1], rounding(array.dtype)) for array, values in zip(given, arrays, strict=True)]
    return [
        RawPath(clocks[k], values, seen[k], f"path {k}", np.arange(len(values)), "index", precisions[k])
        for k, values in enumerate(arrays)
    ]


def _split(source: Any) -> Sequence[Any]:
    """One array per path. A list is a list of paths if it holds arrays or unequal lists, else it is an array."""
    if isinstance(source, list | tuple):
        lengths = {len(a) for a in source if hasattr(a, "__len__")}
        if any(np.ndim(a) > 0 for a in source if hasattr(a, "shape")) or len(lengths) > 1:
            return source
    array = to_numpy(source, "the data")
    if array.ndim == 0:
        raise ObservationTypeError(
            f"the data are of type {type(source).__name__}; expected an array, a list of arrays, a table or a file."
        )
    if array.ndim > 3 or array.size == 0:
        raise InvalidObservationsError(
            f"the data have shape {array.shape}; expected (times,), (times, dim) or (paths, times, dim), not empty."
        )
    return list(array) if array.ndim == 3 else [array]


def to_numpy(source: Any, what: str) -> Array:
    """Anything array-like as a NumPy array in its own precision; masked and missing entries become NaN."""
    try:
        if hasattr(source, "detach"):  # a torch tensor, without importing torch
            source = source.detach().cpu()
            source = (source.float() if str(source.dtype) == "torch.bfloat16" else source).numpy()
        if isinstance(source, np.ma.MaskedArray):
            source = np.ma.filled(source if source.dtype.kind == "f" else source.astype(np.float64), np.nan)
        array = np.asarray(source)
    except (ValueError, TypeError, RuntimeError) as error:
        raise InvalidObservationsError(
            f"{what} cannot be read as an array ({error}). Pass an array of numbers, or a list of arrays, one per path."
        ) from None
    return _without_objects(array) if array.dtype == object else array


def _without_objects(array: Array) -> Array:
    """Python numbers and missing values (None, pandas.NA) as float64; an array of anything else is left alone."""
    cells = array.ravel()
    if not all(is_missing(v) or is_real(v) for v in cells):
        return array
    return np.array([np.nan if is_missing(v) else to_float(v) for v in cells]).reshape(array.shape)


def is_real(cell: object) -> bool:
    """True for real numbers of any Python type; True and False are none."""
    return isinstance(cell, numbers.Real | Decimal) and not isinstance(cell, bool | np.bool_)


def to_float(cell: Any) -> float:
    """A real number as float64; beyond its range infinity, which the door reports with its place."""
    try:
        return float(cell)
    except OverflowError:
        return math.inf if cell > 0 else -math.inf


def is_missing(cell: object) -> bool:
    """True for None, pandas.NA and NaN (pandas.NA by its name: arrays are read without importing pandas)."""
    return cell is None or type(cell).__name__ == "NAType" or (isinstance(cell, float) and math.isnan(cell))


def _state_array(array: Array, label: str) -> Float64[Array, "times dim"]:
    if array.dtype.kind not in "fiu":
        raise ObservationTypeError(f"{label} holds values of type {array.dtype}; expected real numbers.")
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidObservationsError(
            f"{label} has shape {array.shape}; expected (times,) or (times, dim), not empty. Leave empty paths out."
        )
    with np.errstate(over="ignore"):  # long doubles beyond float64 become inf, which the door reports
        return np.array(array.reshape(len(array), -1), dtype=np.float64)


def rounding(dtype: np.dtype[Any]) -> float:
    """Relative rounding of numbers of this type; whole numbers are exact and keep that of float64."""
    return float(np.finfo(dtype if dtype.kind == "f" and dtype.itemsize < 8 else np.float64).eps)


def _per_path(source: Any, lengths: list[int], what: str) -> list[Array]:
    """One 1-D array per path from one for all, or one per path; a trailing axis of length one is dropped."""
    num_paths = len(lengths)
    if isinstance(source, list | tuple) and len(source) == num_paths and all(hasattr(a, "__len__") for a in source):
        arrays = [to_numpy(a, what) for a in source]
    else:
        array = to_numpy(source, what)
        arrays = list(array) if array.ndim > 1 and len(array) == num_paths else [array] * num_paths
    arrays = [a[:, 0] if a.ndim == 2 and a.shape[1] == 1 else a for a in arrays]
    for k, (array, num) in enumerate(zip(arrays, lengths, strict=True)):
        if array.shape != (num,):
            raise InvalidObservationsError(
                f"path {k} has {num} observations but {what} of shape {array.shape}. Pass one entry per observation."
            )
    return arrays


def _masks(mask: Any, lengths: list[int]) -> list[Bool[Array, " _"]]:
    masks = _per_path(mask, lengths, "mask")
    for k, m in enumerate(masks):
        if not np.all((m == 0) | (m == 1)):
            raise InvalidObservationsError(f"the mask of path {k} holds other things than True and False.")
    return [m.astype(bool) for m in masks]


def _clocks(times: Any, lengths: list[int], time_unit: str | None) -> list[Float64[Array, " _"]]:
    clocks = _per_path(times, lengths, "times")
    together = np.concatenate(clocks)  # so that all paths count from the same moment
    if together.dtype == object and all(isinstance(t, datetime.date) for t in together):
        together = _stamps(together)
    if together.dtype.kind in "mM":
        together = elapsed(together, time_unit, "times")
    if together.dtype.kind not in "fiu":
        raise ObservationTypeError(f"times are of type {together.dtype}; expected numbers, or dates with time_unit=.")
    return np.split(together.astype(np.float64), np.cumsum(lengths)[:-1])


def _stamps(moments: Shaped[Array, " n"]) -> Shaped[Array, " n"]:
    """Python dates, or datetimes of any time zone, as datetime64 in UTC."""
    zones = [getattr(t, "tzinfo", None) for t in moments]
    if any(zones) and not all(zones):
        raise InvalidObservationsError("some times have a time zone and some have none. Give all of them one, or none.")
    plain = [t.astimezone(datetime.UTC).replace(tzinfo=None) if z else t for t, z in zip(moments, zones, strict=True)]
    return np.array(plain, dtype="datetime64[us]")


def elapsed(stamps: Shaped[Array, " n"], time_unit: str | None, what: str) -> Float64[Array, " n"]:
    """Dates (datetime64) counted from the earliest one, or durations (timedelta64), as numbers of `time_unit`."""
    if time_unit not in _NANOSECONDS:
        raise InvalidObservationsError(
            f"{what}: these are dates or durations and "
            f"{'no unit of time is given' if time_unit is None else f'time_unit is {time_unit!r}'}. "
            f"Say in which unit to count: time_unit= one of {', '.join(TIME_UNITS)}."
        )
    if stamps.dtype.kind == "M" and time_unit in _MONTHS:
        return _calendar_months(stamps) / _MONTHS[time_unit]
    if stamps.dtype.kind == "M" and np.datetime_data(stamps.dtype)[0] in ("Y", "M"):
        stamps = stamps.astype("datetime64[D]")  # years and months differ in length, their first days do not
    own, count = np.datetime_data(stamps.dtype)
    own = "min" if own == "m" else own
    if own not in _NANOSECONDS:
        raise ObservationTypeError(
            f"{what}: cannot count in {stamps.dtype}. Convert to one of {', '.join(TIME_UNITS)}."
        )
    ticks = stamps.astype(np.int64)
    if stamps.dtype.kind == "M":
        first = np.fmin.reduce(stamps).astype(np.int64)  # fmin skips missing dates
        ticks = (ticks - first).view(np.uint64)  # wraps and unwraps where centuries of nanoseconds exceed an int64
    ratio = Fraction(
        _NANOSECONDS[own] * count, _NANOSECONDS[time_unit]
    )  # mostly one of its terms is 1: a single rounding
    counted = ticks.astype(np.float64) * ratio.numerator / ratio.denominator
    return np.where(np.isnat(stamps), np.nan, counted)


def _calendar_months(stamps: Shaped[Array, " n"]) -> Float64[Array, " n"]:
    """12 Y + M + the share of the month that is over, from the earliest date: the first days of months are whole."""
    fine = stamps.astype("datetime64[us]")
    month = fine.astype("datetime64[M]")
    begin, end = month.astype(fine.dtype), (month + 1).astype(fine.dtype)
    share = (fine - begin) / (end - begin)
    counted = month.astype(np.int64) + share
    counted = np.where(np.isnat(stamps), np.nan, counted)
    return counted - np.fmin.reduce(counted)
