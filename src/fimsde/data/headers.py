"""The first line of a table: names of columns, read and compared with what was asked for before anything else loads."""

import bz2
import csv
import gzip
import io
import itertools
import lzma
import re
import zipfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fimsde.errors import InvalidObservationsError
from fimsde.files.spreadsheet import original

BLANKS = r"\s+"  # as pandas names any number of blanks
TABBED = (".tsv", ".tab")
EXCEL = (".xlsx", ".xlsm")
PARQUET = (".parquet", ".pq")
SPREADSHEETS = (".xls", ".ods")  # that nobody reads for us
ARCHIVES = (".gz", ".bz2", ".xz", ".zip", ".zst", ".tar")  # that pandas opens, with one table in them
_SNIFFED = 50  # lines by which the separator is found; by hand: one screen
_COMMA, _POINT = (re.compile(rf"[-+]?\d*{sign}\d+(e[-+]?\d+)?", re.IGNORECASE) for sign in (",", r"\."))
_NUMBER = re.compile(r"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*", re.IGNORECASE)
_NAMED, _SOME = 12, 6  # columns that a sentence lists, all or the first ones; by hand: the length of a line or two


def column_names(file: Path, separator: str | None = None) -> list[str]:
    """The first line of a CSV file, packed or not; none if there is no telling without reading more of it.

    A column without a name is called as pandas calls it: "Unnamed: 0" if it is the first.
    """
    if not file.is_file() or file.suffix.lower() in (*PARQUET, *SPREADSHEETS, *EXCEL):
        return []
    try:
        sign = sniff(file).separator if separator is None else separator
        with _opened(file) as lines:
            if sign == BLANKS:
                head = next(lines, "").split()
            else:
                head = next(csv.reader(lines, delimiter=sign, skipinitialspace=True), [])
    except Exception:  # about which reading the whole file says more
        return []
    if any("\0" in name for name in head):
        return []
    return [original(name) or f"Unnamed: {j}" for j, name in enumerate(head)]


def _opened(file: Path) -> io.TextIOWrapper:
    """A file as text;"""
    text: dict[str, Any] = {"newline": "", "encoding": "utf-8-sig"}
    match file.suffix.lower():
        case ".gz":
            return gzip.open(file, "rt", **text)
        case ".bz2":
            return bz2.open(file, "rt", **text)
        case ".xz":
            return lzma.open(file, "rt", **text)
        case ".zip":
            archive = zipfile.ZipFile(file)
            return io.TextIOWrapper(archive.open(archive.namelist()[0]), **text)
        case _:
            return file.open("r", **text)


@dataclass(frozen=True)
class Writing:
    """How a CSV file is written.

    Attributes:
        separator: What stands between cells; r"\\s+" for blanks.
        decimal: The decimal sign.
        is_usual: Whether nobody needs to be told: commas and points, or tabs in a file whose name says so.
    """

    separator: str = ","
    decimal: str = "."
    is_usual: bool = True

    def __str__(self) -> str:
        signs = {"\t": "tabs", ";": "semicolons", BLANKS: "blanks"}
        comma = " and decimal commas" if self.decimal == "," else ""
        return f"cells separated by {signs.get(self.separator, repr(self.separator))}{comma}"


def sniff(file: Path) -> Writing:
    """How a CSV file is written, by its first lines: the separator that cuts all of them into as many cells.

    Commas come first. Decimal commas are looked for where commas do not separate.
    """
    try:
        with _opened(file) as text:
            lines = [line for line in itertools.islice(text, _SNIFFED) if line.strip()]
    except Exception:  # about which reading the whole file says more
        return Writing()
    for separator in (",", "\t", ";", BLANKS):
        rows = [_cells(line, separator) for line in lines]
        if len(rows) > 1 and len(rows[0]) > 1 and {len(row) for row in rows} == {len(rows[0])}:
            break
    else:
        return Writing()
    numbers = [cell.strip() for row in rows[1:] for cell in row]
    has_comma = separator != "," and any(_COMMA.fullmatch(cell) for cell in numbers)
    has_point = any(_POINT.fullmatch(cell) for cell in numbers)
    decimal = "," if has_comma and not has_point else "."
    is_named = separator == "\t" and file.suffix.lower() in TABBED
    return Writing(separator, decimal, separator == "," or (is_named and decimal == "."))


def _cells(line: str, separator: str) -> list[str]:
    if separator == BLANKS:
        return line.split()
    return next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])


def check_file(file: Path) -> None:
    """Refuse what is no file."""
    if file.is_dir():
        raise InvalidObservationsError(f"{str(file)!r} is a folder; expected a table. Name a file in it.")
    if not file.exists():
        raise InvalidObservationsError(f"there is no file {str(file)!r}. Check the name.")
    if not file.is_file():  # it might never end
        raise InvalidObservationsError(f"{str(file)!r} is a pipe or a device; expected a file. Save the table first.")


def check_header(names: Sequence[str]) -> None:
    """Refuse a name that stands twice: pandas would call the second column x.1, and nobody could mean it."""
    if any("\0" in name for name in names):
        raise InvalidObservationsError("the first line holds bytes that are no text; expected a table. Save it as CSV.")
    if names and all(_NUMBER.fullmatch(name) for name in names):
        raise InvalidObservationsError(
            f"the first line holds numbers ({listing(names)}); expected names: put a line with names above it."
        )
    for name, times_used in Counter(names).items():
        if name and times_used > 1:
            raise InvalidObservationsError(
                f"the header names column {name[:40]!r} {times_used} times; expected every name once. "
                "Rename the columns in the file."
            )


def check_named(present: Sequence[str], asked: Sequence[str]) -> None:
    """Refuse columns that are not there, and one that is asked for twice."""
    for column in asked:
        if column not in present:
            hint = " Is the separator another sign (separator=)?" if len(present) == 1 else ""
            raise InvalidObservationsError(f"there is no column {column!r}; the columns are {listing(present)}.{hint}")
    for column, times_used in Counter(asked).items():
        if times_used > 1:
            raise InvalidObservationsError(
                f"column {column!r} is used twice. Name every column once (time=, path=, values=)."
            )


def listing(names: Sequence[str]) -> str:
    """Names of columns for a sentence, the first of them if there are many."""
    num = len(names) if len(names) <= _NAMED else _SOME
    shown = ", ".join(repr(str(name)[:40]) for name in names[:num])
    return shown if num == len(names) else f"{shown} and {len(names) - num} more"
