"""The first line of a table: names of columns, read and compared with what was asked for before anything else loads."""

import bz2
import codecs
import csv
import gzip
import io
import itertools
import lzma
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Sequence
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
_UNOPENED = (".zst", ".tar")  # of these, by pandas alone
WINDOWS = "cp1252"  # the encoding that Excel writes in Western Europe
_COMMENTS = 1000  # lines of comments above the header at most; by hand
_SNIFFED = 50  # lines by which the separator is found; by hand: one screen
_COMMA, _POINT = (re.compile(rf"[-+]?\d*{sign}\d+(e[-+]?\d+)?", re.IGNORECASE) for sign in (",", r"\."))
_NUMBER = re.compile(r"\s*[-+]?[\d.]+(e[-+]?\d+)?\s*", re.IGNORECASE)
# Names of columns that are parts of a time, in lower case, in the order of the calendar.
_PARTS = tuple(
    re.compile(words)
    for words in ("year|yr|yyyy|jahr", "month|mon|mo|mm|monat", "day|dd|tag", "hour|hh|stunde", "minute|minuten?")
)
_DATE, _TIME = re.compile("date|datum|day|tag|fecha"), re.compile("time|zeit|uhrzeit|clock|hora")
_NAMED, _SOME = 12, 6  # columns that a sentence lists, all or the first ones; by hand: the length of a line or two


def column_names(file: Path, separator: str | None = None) -> list[str]:
    """The header of a CSV file, packed or not; none if there is no telling without reading more of it.

    A column without a name is called as pandas calls it: "Unnamed: 0" if it is the first.
    """
    if not file.is_file() or file.suffix.lower() in (*PARQUET, *SPREADSHEETS, *EXCEL, *_UNOPENED):
        return []
    try:
        sign = sniff(file).separator if separator is None else separator
        lines = iter(preamble(file).lines)
        head = next(lines, "").split() if sign == BLANKS else _first_row(lines, sign)
    except Exception:  # about which reading the whole file says more
        return []
    if any("\0" in name for name in head):
        return []
    return [original(name) or f"Unnamed: {j}" for j, name in enumerate(head)]


@dataclass(frozen=True)
class Preamble:
    """What stands above the rows of a CSV file.

    Attributes:
        lines: The first lines from the header on.
        skipped: Lines above the header that begin with #.
        is_comment: Whether the header itself begins so, as numpy.savetxt writes it.
    """

    lines: tuple[str, ...]
    skipped: int
    is_comment: bool


def preamble(file: Path) -> Preamble:
    """The first lines of a CSV file without comments above the header."""
    with _opened(file) as text:
        lines = list(itertools.islice(text, _COMMENTS + _SNIFFED))
    num = next((k for k, line in enumerate(lines) if not line.startswith("#")), len(lines))
    after = lines[num : num + _SNIFFED]
    if num and after and all(_NUMBER.fullmatch(cell) for cell in re.split(r"[\s,;]+", after[0].strip())):
        return Preamble((lines[num - 1].lstrip("# "), *after), num - 1, True)
    return Preamble(tuple(after), num, False)


def encoding(file: Path, most: int = 2**16) -> str:
    """UTF-8; UTF-16 of files that begin with its mark; else the letters of Windows, by at most so many bytes."""
    decode = codecs.getincrementaldecoder("utf-8")().decode
    with _bytes(file) as content:
        while part := content.read(min(most, 2**20)):
            if part.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                return "utf-16"
            try:
                decode(part)
            except UnicodeDecodeError:
                return "utf-8-sig" if b"\0" in part else WINDOWS  # no text at all, about which reading it says more
            most -= len(part)
            if most <= 0:
                break
    return "utf-8-sig"


def _first_row(lines: Iterable[str], separator: str) -> list[str]:
    return next(csv.reader(lines, delimiter=separator, skipinitialspace=True), [])


def _opened(file: Path) -> io.TextIOWrapper:
    return io.TextIOWrapper(_bytes(file), encoding=encoding(file), newline="")


def _bytes(file: Path) -> Any:
    """The unpacked content of a file."""
    match file.suffix.lower():
        case ".gz":
            return gzip.open(file)
        case ".bz2":
            return bz2.open(file)
        case ".xz":
            return lzma.open(file)
        case ".zip":
            archive = zipfile.ZipFile(file)
            return archive.open(archive.namelist()[0])
        case _:
            return file.open("rb")


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
    if file.suffix.lower() in _UNOPENED:
        return Writing()
    try:
        lines = [line for line in preamble(file).lines if line.strip()]
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


def joinable(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Names of columns that can be made of others, and of which: "year month day", "date time"."""
    found = {}
    parts: list[str] = []
    for kind in _PARTS:
        own = _called(names, kind)
        if own is None:
            break
        parts.append(own)
    if len(parts) > 1:
        found[" ".join(parts)] = tuple(parts)
    date, time = _called(names, _DATE), _called(names, _TIME)
    if date is not None and time is not None:
        found[f"{date} {time}"] = (date, time)
    return {name: of for name, of in found.items() if name not in names}


def _called(names: Sequence[str], kind: "re.Pattern[str]") -> str | None:
    """The only column with such a name; None if there is none, or more than one."""
    own = [name for name in names if kind.fullmatch(str(name).strip().lower())]
    return own[0] if len(own) == 1 else None


def listing(names: Sequence[str]) -> str:
    """Names of columns for a sentence, the first of them if there are many."""
    num = len(names) if len(names) <= _NAMED else _SOME
    shown = ", ".join(repr(str(name)[:40]) for name in names[:num])
    return shown if num == len(names) else f"{shown} and {len(names) - num} more"
