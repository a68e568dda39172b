"""Tables and files for the door: frames of any library through narwhals, CSV and Parquet through pandas."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from fimsde.errors import InvalidObservationsError, ObservationTypeError
from fimsde.observations import Missing, RawPath
from fimsde.shapes import Array, Float64

_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "D": 86400 * 10**9, "W": 7 * 86400 * 10**9}
_HEADER_LINES = 1


def read_file(file: Path, separator: str, decimal: str) -> pd.DataFrame:
    """The table in a CSV or Parquet file."""
    if not file.is_file():
        raise InvalidObservationsError(f"there is no file {str(file)!r}. Check the name.")
    try:
        if file.suffix.lower() in (".parquet", ".pq"):
            return pd.read_parquet(file)
        return pd.read_csv(file, sep=separator, decimal=decimal, float_precision=None if decimal != "." else "round_trip")
    except pd.errors.EmptyDataError:
        raise InvalidObservationsError(f"the file {str(file)!r} is empty. Expected a header line and rows of numbers.") from None
    except UnicodeDecodeError as error:
        raise InvalidObservationsError(f"the file {str(file)!r} is not text in UTF-8 ({error.reason}). Save it as CSV in UTF-8.") from None
    except pd.errors.ParserError as error:
        raise InvalidObservationsError(f"the file {str(file)!r} is not a table: {error}. Give every line the same cells.") from None
    except (OSError, ValueError, ImportError) as error:
        raise InvalidObservationsError(f"the file {str(file)!r} cannot be read: {error}.") from None


def raw_paths(
    frame: Any,
    time: str | None,
    values: Sequence[str] | None,
    path: str | None,
    dt: float | None,
    time_unit: str | None,
    layout: str,
    missing: Missing,
) -> tuple[list[RawPath], tuple[str, ...]]:
    """Unchecked paths of a table, and the names of the state components."""
    table = nw.from_native(frame, eager_only=True)
    if len(table) == 0:
        raise InvalidObservationsError("the table has no rows. Expected a header line and rows of numbers.")
    columns = _value_columns(table, time, values, path)
    if (time is None) == (dt is None):
        found = "neither a time column nor dt" if time is None else "both a time column and dt"
        raise InvalidObservationsError(f"{found} given. Name the column (time=) or the constant gap (dt=).")
    numbers = {c: _numbers(table, c) for c in columns}
    if layout == "wide":
        if path is not None:
            raise InvalidObservationsError("a wide table has one path per column and no path column. Drop path=, or use layout='long'.")
        clock = _clock(table, time, dt, len(table), time_unit)
        return [_wide_path(clock, numbers[c], c) for c in columns], ("x1",)
    stacked = np.stack([numbers[c] for c in columns], axis=1)
    clock = None if time is None else _clock(table, time, None, len(table), time_unit)
    paths = []
    for label, rows in _rows_by_path(table, path):
        own_clock = np.arange(len(rows)) * float(dt or 1) if clock is None else clock[rows]
        paths.append(RawPath(own_clock, stacked[rows], np.ones(len(rows), bool), label, rows + 1 + _HEADER_LINES))
    return paths, tuple(columns)


def _wide_path(clock: Float64[Array, " times"], values: Float64[Array, " times"], name: str) -> RawPath:
    """A column of a wide table; empty cells after its last number only say that this path is shorter."""
    seen = np.flatnonzero(~np.isnan(values))
    last = seen[-1] + 1 if len(seen) else 0
    lines = np.arange(last) + 1 + _HEADER_LINES
    return RawPath(clock[:last], values[:last, None], np.ones(last, bool), f"column {name!r}", lines)


def _value_columns(table: nw.DataFrame[Any], time: str | None, values: Sequence[str] | None, path: str | None) -> list[str]:
    named = [c for c in (time, path) if c is not None] + list(values or [])
    for column in named:
        if column not in table.columns:
            hint = " The header is one cell: is the separator another sign (separator=)?" if len(table.columns) == 1 else ""
            raise InvalidObservationsError(f"there is no column {column!r}; the columns are {', '.join(map(repr, table.columns))}.{hint}")
    if values is not None:
        if not values:
            raise InvalidObservationsError("no value columns given. Name at least one state component (values=).")
        return list(values)
    numeric = [c for c in table.columns if table[c].dtype.is_numeric() and c not in named]
    if not numeric:
        raise InvalidObservationsError(f"no numeric column among {', '.join(map(repr, table.columns))}. Name the state components (values=).")
    return numeric


def _numbers(table: nw.DataFrame[Any], column: str) -> Float64[Array, " times"]:
    series = table[column]
    if series.dtype.is_numeric():
        return np.array(series.cast(nw.Float64).to_numpy(), dtype=np.float64)
    if series.dtype not in (nw.String, nw.Object, nw.Categorical):
        raise ObservationTypeError(f"column {column!r} is of type {series.dtype}; expected real numbers.")
    cells = series.to_list()
    numbers = np.empty(len(cells))
    for i, cell in enumerate(cells):
        try:
            numbers[i] = np.nan if cell is None else float(cell)
        except (TypeError, ValueError):
            comma = " It looks like a decimal comma: pass decimal=','." if _is_decimal_comma(cell) else " Correct or remove it."
            raise InvalidObservationsError(
                f"column {column!r} has {str(cell)[:40]!r} at line {i + 1 + _HEADER_LINES}, which is not a number.{comma}"
            ) from None
    return numbers


def _is_decimal_comma(cell: object) -> bool:
    return isinstance(cell, str) and cell.count(",") == 1 and cell.replace(",", "", 1).lstrip("+-").isdigit()


def _clock(table: nw.DataFrame[Any], time: str | None, dt: float | None, num: int, time_unit: str | None) -> Float64[Array, " times"]:
    if time is None:
        return np.arange(num) * float(dt or 1)
    series = table[time]
    if series.dtype in (nw.String, nw.Object):
        series = _as_datetimes(series, time)
    if not series.dtype.is_temporal():
        return _numbers(table, time)
    if time_unit not in _UNITS:
        raise InvalidObservationsError(
            f"column {time!r} holds dates and times. Say in which unit to count: time_unit= one of {', '.join(_UNITS)} (found {time_unit!r})."
        )
    stamps = series.to_numpy().astype("datetime64[ns]")
    elapsed = (stamps - np.min(stamps)).astype(np.int64)  # exact integers before the division
    return np.where(np.isnat(stamps), np.nan, elapsed / _UNITS[time_unit])


def _as_datetimes(series: nw.Series[Any], column: str) -> nw.Series[Any]:
    """Text cells as datetimes if every one is a date in ISO form; unchanged if the first one is a number."""
    first = next((c for c in series.to_list() if c is not None), "")
    try:
        float(str(first).replace(",", "."))
        return series
    except ValueError:
        pass
    parsed = pd.to_datetime(pd.Series(series.to_list()), format="ISO8601", errors="coerce")
    wrong = np.flatnonzero(parsed.isna().to_numpy())
    if len(wrong):
        line = int(wrong[0]) + 1 + _HEADER_LINES
        raise InvalidObservationsError(
            f"column {column!r} has {str(series[int(wrong[0])])[:40]!r} at line {line}, neither a number nor an ISO date and time "
            f"such as 2024-01-31T12:00. Correct it."
        )
    return nw.from_native(parsed, series_only=True)


def _rows_by_path(table: nw.DataFrame[Any], path: str | None) -> list[tuple[str, Array]]:
    """(label, row numbers in file order) for every path, in order of first appearance."""
    if path is None:
        return [("path 0", np.arange(len(table)))]
    ids = pd.Series(table[path].to_list())
    if ids.isna().any():
        line = int(np.flatnonzero(ids.isna().to_numpy())[0]) + 1 + _HEADER_LINES
        raise InvalidObservationsError(f"column {path!r} has no path id at line {line}. Give every row one.")
    codes, labels = pd.factorize(ids, sort=False)
    order = np.argsort(codes, kind="stable")
    rows = np.split(order, np.cumsum(np.bincount(codes))[:-1])
    return [(f"path {str(label)[:40]!r}", r) for label, r in zip(labels, rows, strict=True)]
