"""Tables and files on their way in: frames of any library through narwhals, CSV, Excel and Parquet by pandas."""

import os
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, SupportsIndex

import narwhals as nw
import numpy as np
import pandas as pd

from fimsde.data import frames
from fimsde.data.arrays import RawPath, elapsed, is_missing, is_real, rounding, to_float
from fimsde.data.dates import read_dates
from fimsde.data.headers import (
    ARCHIVES,
    EXCEL,
    PARQUET,
    SPREADSHEETS,
    WINDOWS,
    Preamble,
    Writing,
    check_file,
    check_header,
    check_named,
    column_names,
    encoding,
    listing,
    preamble,
    sniff,
)
from fimsde.data.joined import with_joined
from fimsde.errors import InvalidObservationsError, ObservationTypeError
from fimsde.files.spreadsheet import original
from fimsde.shapes import Array, Float64, Int

_FIRST_LINE = 2  # of a CSV file, after the header
# Since 3.1 pandas reads every number to the last bit; before, only if asked to.
_IS_EXACT = tuple(map(int, pd.__version__.split(".")[:2])) >= (3, 1)
_THOUSANDS = re.compile(r"[-+]?\d{1,3}([,.' ]\d{3})+([,.]\d*)?")
_EXACT: dict[str, Any] = {} if _IS_EXACT else {"float_precision": "round_trip"}


@dataclass(frozen=True, eq=False)
class Table:
    """A table with, for every row, the place to name when something is wrong with it."""

    frame: nw.DataFrame[Any]
    rows: Int[Array, " rows"]  # line of a CSV file, else number of the row
    counted_in: str  # "line" or "row"
    remarks: tuple[str, ...] = ()  # what was guessed about the way it is written

    def place(self, i: SupportsIndex) -> str:
        """Where row i stands in the user's data."""
        return f"{self.counted_in} {self.rows[i]}"


def open_table(
    source: Any,
    time: str | None = None,
    path: str | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    *,
    counts_rows: bool = False,
) -> Table:
    """The table in a file, or a frame as a table.

    Args:
        source: A file name or a frame.
        time, path: Columns that may be in the index of a pandas frame.
        separator, decimal: Of CSV files; None: by their first lines.
        counts_rows: Whether the row is the time, so that a blank line in the middle is a missing observation.
    """
    table = _opened(source, time, path, separator, decimal, counts_rows)
    wanted = not counts_rows and (time is None or time not in table.frame.columns)
    return replace(table, frame=with_joined(table.frame)) if wanted and len(table.frame) else table


def _opened(
    source: Any, time: str | None, path: str | None, separator: str | None, decimal: str | None, counts_rows: bool
) -> Table:
    is_file = isinstance(source, str | os.PathLike)
    if is_file and Path(source).suffix.lower() not in (*PARQUET, *EXCEL):
        return _open_csv(Path(source), separator, decimal, counts_rows)
    if separator is not None or decimal is not None:
        raise InvalidObservationsError(
            "separator= and decimal= are for CSV files; this source has cells. Leave them out."
        )
    if is_file and Path(source).suffix.lower() in EXCEL:
        sheet = _from_file(Path(source), _only_sheet)
        return Table(nw.from_native(sheet, eager_only=True), np.arange(len(sheet)) + _FIRST_LINE, "row")
    native = _from_file(Path(source), pd.read_parquet) if is_file else source
    native = frames.to_frame(native, time, path)
    try:
        frame = nw.from_native(native, eager_only=True)
    except (TypeError, ValueError) as error:
        raise ObservationTypeError(
            f"this table cannot be read: {error}. Expected a frame in memory with unique column names."
        ) from None
    return Table(frame, np.arange(len(frame)), "row")


def _open_csv(file: Path, separator: str | None, decimal: str | None, counts_rows: bool) -> Table:
    check_file(file)
    writing = sniff(file) if separator is None else Writing(separator)
    above, letters = _above(file)
    options: dict[str, Any] = {"sep": writing.separator, "decimal": decimal or writing.decimal, "encoding": letters}
    options |= {"skipinitialspace": True, "index_col": False, "skip_blank_lines": False, "low_memory": False}
    options |= {"skiprows": above.skipped + above.is_comment}

    def parse(file: Path, **more: Any) -> pd.DataFrame:
        with warnings.catch_warnings():
            # a line longer than the header loses its last cells
            warnings.simplefilter("error", pd.errors.ParserWarning)
            return pd.read_csv(file, **options, **more)

    if above.is_comment:
        header = column_names(file, writing.separator)
        check_header(header)
        frame = _from_file(file, partial(parse, **_EXACT, header=None, names=header))
    else:
        first = _from_file(file, partial(parse, header=None, nrows=1, dtype=str, na_filter=False)).iloc[0].tolist()
        check_header([original(name) for name in first])
        frame = _from_file(file, partial(parse, **_EXACT)).rename(columns=original)
    filled = np.flatnonzero(~frame.isna().all(axis=1))
    if counts_rows:  # at the end a blank line is nothing
        filled = np.arange(filled[-1] + 1 if len(filled) else 0)
    remarks = [] if writing.is_usual or separator is not None else [str(writing)]
    remarks += ["letters as Windows writes them"] if letters == WINDOWS else []
    lines = filled + _FIRST_LINE + above.skipped
    return Table(nw.from_native(frame.iloc[filled], eager_only=True), lines, "line", tuple(remarks))


def _above(file: Path) -> tuple[Preamble, str]:
    """What stands above the rows of a CSV file, and its encoding."""
    try:
        return preamble(file), encoding(file, file.stat().st_size)
    except Exception:  # packed in another way, about which pandas says more
        return Preamble((), 0, False), "utf-8"


def _only_sheet(file: Path) -> pd.DataFrame:
    """The sheet of a workbook that has rows."""
    sheets = {name: sheet for name, sheet in pd.read_excel(file, sheet_name=None).items() if len(sheet)}
    if len(sheets) > 1:
        raise InvalidObservationsError(
            f"the workbook {str(file)!r} has {len(sheets)} sheets with rows: {listing(list(sheets))}. Read one of them "
            "with pandas.read_excel(file, sheet_name=...) and pass that, or save it as CSV."
        )
    if not sheets:
        raise InvalidObservationsError("the table has no rows. Expected a header and rows of numbers.")
    (sheet,) = sheets.values()
    check_header([str(name) for name in sheet.columns])
    return sheet.rename(columns=str)


def _from_file(file: Path, parse: Any) -> pd.DataFrame:
    check_file(file)
    if file.suffix.lower() in SPREADSHEETS:
        raise InvalidObservationsError(
            f"the file {str(file)!r} is a spreadsheet; expected CSV, Excel (.xlsx) or Parquet. Save it as CSV in UTF-8."
        )
    try:
        return parse(file)
    except pd.errors.EmptyDataError:
        problem = "is empty, or its first line is. Expected a header line and rows of numbers"
    except UnicodeDecodeError as error:
        problem = f"is not text in UTF-8 ({error.reason}). Save it as CSV in UTF-8"
    except (pd.errors.ParserError, pd.errors.ParserWarning) as error:
        # pandas only warns, and without a place, when it is the first line that is longer than the header
        warned = isinstance(error, pd.errors.ParserWarning)
        found = f"line {_FIRST_LINE} has more cells than the header" if warned else str(error).strip()
        problem = (
            f"is not a table: {found}. Give every line as many cells as the header; if the numbers have a "
            "decimal comma, pass separator=';' (or what stands between the cells) and decimal=','"
        )
    except ImportError:  # what pandas says about it has six lines
        problem = _about_package(file.suffix.lower())
    except InvalidObservationsError:
        raise
    except Exception as error:  # of five kinds of archives, each with errors of its own
        if isinstance(error, OSError) and error.errno is not None:
            problem = f"cannot be read: {error.strerror}"
        elif file.suffix.lower() in (*ARCHIVES, *EXCEL):
            problem = _about_archive(error)
        elif isinstance(error, OSError | ValueError):
            problem = f"cannot be read: {str(error).strip().rstrip('.')[:200]}"
        else:
            raise
    raise InvalidObservationsError(f"the file {str(file)!r} {problem}.")


def _about_package(suffix: str) -> str:
    if suffix in PARQUET:
        return "is Parquet, which needs pyarrow. Install the extra: pip install 'fimsde[io]'; or save the table as CSV"
    if suffix in EXCEL:
        return "is Excel, which needs openpyxl. Install the extra: pip install 'fimsde[excel]'; or save it as CSV"
    return "is packed in a way that this Python cannot unpack. Unpack it first"


def _about_archive(error: Exception) -> str:
    said = str(error).lower()
    if "encrypted" in said or "password" in said:
        return "is an encrypted archive. Unpack it first"
    if "multiple files" in said or "zero files" in said:
        return "is an archive that holds more files than one, or none; expected one table. Unpack it first"
    return "is no complete archive of the kind that its name says. Make it again, or save the table as CSV"


def raw_paths(
    table: Table,
    time: str | None,
    values: str | Sequence[str] | None,
    path: str | None,
    dt: float | None,
    time_unit: str | None,
    layout: str,
) -> tuple[list[RawPath], tuple[str, ...] | None]:
    """Unchecked paths of a table, and the names of the state components (None in a wide table)."""
    columns = _value_columns(table, time, [values] if isinstance(values, str) else values, path)
    if (time is None) == (dt is None):
        found = "neither a time column nor dt" if time is None else "both a time column and dt"
        raise InvalidObservationsError(f"{found} given. Name the column (time=) or the constant gap (dt=).")
    columns_read = [_numbers(table, column) for column in columns]
    states = np.stack([numbers for numbers, _ in columns_read], axis=1)  # (rows, columns)
    precision = np.array([rounding for _, rounding in columns_read])
    clock = None if time is None else _clock(table, time, time_unit)

    is_dated = time is not None and _is_date(table, time)

    def build(label: str, rows: Int[Array, " _"], components: slice = slice(None)) -> RawPath:
        if is_dated and clock is not None and len(rows) > 1 and np.all(np.diff(clock[rows]) < 0):
            rows = rows[::-1]  # the newest comes first, as in tables of prices
        own_clock = np.arange(len(rows)) * float(dt or 1) if clock is None else clock[rows]
        seen = np.ones(len(rows), bool)
        place = table.rows[rows], table.counted_in
        return RawPath(own_clock, states[rows, components], seen, label, *place, precision[components])

    if layout == "long":
        return [build(label, rows) for label, rows in _rows_by_path(table, path)], tuple(columns)
    if path is not None:
        raise InvalidObservationsError("a wide table has a path per column. Leave path= out, or use layout='long'.")
    lengths = [np.max(np.flatnonzero(~np.isnan(column)) + 1, initial=0) for column in states.T]
    paths = [build(f"column {columns[j]!r}", np.arange(n), slice(j, j + 1)) for j, n in enumerate(lengths)]
    return paths, None


def begins_with_number(table: Table, column: str) -> bool:
    """Whether the first cell that is not missing is a number in any spelling, whatever comes after it."""
    first = next((cell for cell in table.frame.get_column(column).to_list() if not is_missing(cell)), 0.0)
    return is_real(first) or (isinstance(first, str) and _is_number(first.replace(",", ".", 1)))


def _value_columns(table: Table, time: str | None, values: Sequence[str] | None, path: str | None) -> list[str]:
    present = table.frame.columns
    taken = [column for column in (time, path) if column is not None]
    listed = listing(present)
    check_named(present, [*taken, *(values or [])])
    if not len(table.frame):
        raise InvalidObservationsError("the table has no rows. Expected a header and rows of numbers.")
    chosen = list(values) if values is not None else [column for column in present if column not in taken]
    if values is None and any(str(column).startswith("Unnamed: ") for column in chosen):
        raise InvalidObservationsError(f"a column has no name: {listed}. Is it a row index? Name the state (values=).")
    if not chosen:
        raise InvalidObservationsError(
            f"no column is left for the state; the columns are {listed}. Name one (values=)."
        )
    return chosen


def _numbers(table: Table, column: str) -> tuple[Float64[Array, " rows"], float]:
    """The cells as float64 with NaN for missing ones, and the relative rounding of the type they came in."""
    series = table.frame.get_column(column)
    cells = series.to_numpy()
    if cells.dtype.kind in "fiu":
        narrow = series.dtype in (nw.Float16, nw.Float32)  # seen by narwhals, where gaps have made float64 of it
        return cells.astype(np.float64), rounding(np.dtype(str(series.dtype).lower()) if narrow else cells.dtype)
    if cells.dtype.kind not in "OUT" or series.dtype == nw.Boolean:
        raise ObservationTypeError(
            f"column {column!r} is of type {series.dtype}; expected real numbers. Choose other columns (values=)."
        )
    parsed = np.array([_number(table, column, i, cell) for i, cell in enumerate(cells)], dtype=np.float64)
    return parsed, rounding(parsed.dtype)


def _number(table: Table, column: str, i: int, cell: object) -> float:
    if is_missing(cell):
        return np.nan
    if is_real(cell):
        return to_float(cell)
    if isinstance(cell, str):
        if _is_number(cell):
            return float(cell)
        advice = "Correct it, or choose other columns (values=)."
        if _is_number(cell.replace(",", ".", 1)):
            advice = "It looks like a decimal comma: pass decimal=','."
        elif _THOUSANDS.fullmatch(cell.strip()):
            advice = "Write numbers without signs between thousands."
        separator = " Is the separator another sign (separator=)?" if len(table.frame.columns) == 1 else ""
        raise InvalidObservationsError(
            f"column {column!r} has {cell[:40]!r} at {table.place(i)}, which is not a number. {advice}{separator}"
        )
    raise ObservationTypeError(
        f"column {column!r} has a {type(cell).__name__} at {table.place(i)}; expected real numbers. "
        "Choose other columns (values=)."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text  # Python's spelling of 1_000, nobody else's


def with_dates(table: Table, column: str | None) -> Table:
    """The table with a column of text as dates, if it holds such."""
    if column is None or table.frame.get_column(column).to_numpy().dtype.kind in "mM" or not _is_date(table, column):
        return table
    stamps = read_dates(table.frame.get_column(column).to_numpy(), column, table.place)
    series = nw.new_series(column, stamps, backend=table.frame.implementation)
    return replace(table, frame=table.frame.with_columns(series))


def _is_date(table: Table, column: str) -> bool:
    """Whether a column holds dates, or text that must be some."""
    cells = table.frame.get_column(column).to_numpy()
    return cells.dtype.kind in "mM" or (cells.dtype.kind in "OUT" and not begins_with_number(table, column))


def _clock(table: Table, column: str, time_unit: str | None) -> Float64[Array, " rows"]:
    if not _is_date(table, column):
        return _numbers(table, column)[0]
    cells = table.frame.get_column(column).to_numpy()
    stamps = cells if cells.dtype.kind in "mM" else read_dates(cells, column, table.place)
    return elapsed(stamps, time_unit, f"column {column!r}")


def _rows_by_path(table: Table, path: str | None) -> list[tuple[str, Int[Array, " _"]]]:
    """(label, row numbers in the order of the table) for every path, in order of first appearance."""
    if path is None:
        return [("path 0", np.arange(len(table.frame)))]
    ids = table.frame.get_column(path).to_list()
    rows: dict[Any, list[int]] = {}
    for i, label in enumerate(ids):
        if is_missing(label):
            raise InvalidObservationsError(f"column {path!r} has no path id at {table.place(i)}. Give every row one.")
        rows.setdefault(label, []).append(i)
    return [(f"path {str(label)[:40]!r}", np.array(own)) for label, own in rows.items()]
