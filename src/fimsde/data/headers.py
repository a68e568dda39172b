"""The first line of a table: names of columns, read and compared with what was asked for before anything else loads."""

import bz2
import csv
import gzip
import io
import lzma
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fimsde.errors import InvalidObservationsError
from fimsde.files.spreadsheet import original

PARQUET = (".parquet", ".pq")
SPREADSHEETS = (".xlsx", ".xls", ".ods")
ARCHIVES = (".gz", ".bz2", ".xz", ".zip", ".zst", ".tar")  # that pandas opens, with one table in them
_NAMED, _SOME = 12, 6  # columns that a sentence lists, all or the first ones; by hand: the length of a line or two


def column_names(file: Path, separator: str | None = None) -> list[str]:
    """The first line of a CSV file, packed or not; none if there is no telling without reading more of it.

    A column without a name is called as pandas calls it: "Unnamed: 0" if it is the first.
    """
    if not file.is_file() or file.suffix.lower() in (*PARQUET, *SPREADSHEETS):
        return []
    try:
        with _opened(file) as lines:
            head = next(csv.reader(lines, delimiter=separator or ",", skipinitialspace=True), [])
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
