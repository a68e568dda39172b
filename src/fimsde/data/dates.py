"""Text as dates: in ISO form, or with day, month and year in an order that the cells themselves show.

2024-01-31 is ISO. 31.01.2024 begins with the day, as always with points; 31/01/2024 and 01/31/2024 show which number is
the month, because no month is the 31st; in 31-Jan-2024 and Jan 31, 2024 the month has its English name. If no cell of a
column shows it, the column is no column of dates: nothing is read that may be read in two ways. A time of day may
follow (13:45, 1:45 PM); alone (0:00:10) it is the time that has passed.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from fimsde.data.arrays import is_missing
from fimsde.errors import InvalidObservationsError
from fimsde.shapes import Array, Shaped

FORMS = "2024-01-31, 31-Jan-2024 or, if some day is beyond the 12th, 31/01/2024"  # for messages: what can be read
PASSED = "hours:minutes:seconds"  # the order of what is no date, but the time since some start
_TIME = r"(?P<clock>\d{1,2}:\d{2}(?P<seconds>:\d{2}(?P<share>\.\d+)?)?)(?P<blank> ?)(?P<half>[AaPp][Mm])?"
_NUMBERS = re.compile(
    r"(?P<first>\d{1,4})(?P<sign>[./-])(?P<second>\d{1,2})(?P=sign)(?P<third>\d{1,4})(?:[ T]+" + _TIME + ")?"
)
_NAMES = re.compile(
    r"(?:(?P<day>\d{1,2})(?P<a>[ ./-]))?(?P<month>[A-Za-z]{3,9})(?P<b>[ ./-])(?:(?P<later>\d{1,2})(?P<c>,? ))?"
    r"(?P<year>\d{4})(?:[ T]+" + _TIME + ")?"
)
_PASSING = re.compile(r"\d+:\d{2}:\d{2}(\.\d+)?")
_MONTHS = 12
_HAS_ZONE = re.compile(r":\d\d.*(Z|[+-]\d\d(:?\d\d)?)$")


@dataclass(frozen=True)
class _Form:
    """How the dates of a column are written, for pandas and for people."""

    code: str
    order: str


def parse_dates(cells: Shaped[Array, " rows"]) -> tuple[pd.Series, str]:
    """Dates in UTC, NaT where there is none, and the order in which they are written; "" for ISO form and none."""
    found = pd.to_datetime(pd.Series(cells), format="ISO8601", errors="coerce", utc=True).dt.tz_localize(None)
    first = next((cell for cell in cells if not is_missing(cell)), None)
    if found.notna().any() or not isinstance(first, str):
        return found, ""
    texts = pd.Series(cells).astype("string").str.strip()
    if _PASSING.fullmatch(first.strip()):
        passed = pd.to_timedelta(texts.where(texts.str.fullmatch(_PASSING)), errors="coerce")
        return pd.Timestamp(0) + passed, PASSED
    form = _form(texts, first.strip())
    if form is None:
        return found, ""
    return pd.to_datetime(texts.str.replace(r"(?<=\d)T(?=\d)", " ", n=1), format=form.code, errors="coerce"), form.order


def _form(texts: pd.Series, first: str) -> _Form | None:
    """The form of the first cell, with the order that all of them show; None if there is none."""
    if numbers := _NUMBERS.fullmatch(first):
        order = _order(texts, numbers)
        if order is None:
            return None
        sign = numbers["sign"]
        code = sign.join({"day": "%d", "month": "%m", "year": "%Y"}[part] for part in order)
        return _Form(code + _time(numbers), sign.join(order))
    if names := _NAMES.fullmatch(first):
        month = "%B" if texts.str.contains(r"[A-Za-z]{4}").any() else "%b"  # May is short and long
        before = f"%d{names['a']}" if names["day"] else ""
        after = f"%d{names['c']}" if names["later"] else ""
        words = [*(["day"] if before else []), "month", *(["day"] if after else []), "year"]
        return _Form(f"{before}{month}{names['b']}{after}%Y{_time(names)}", " ".join(words))
    return None


def _time(written: re.Match[str]) -> str:
    if not written["clock"]:
        return ""
    end = (":%S" if written["seconds"] else "") + (".%f" if written["share"] else "")
    return f" %I:%M{end}{written['blank']}%p" if written["half"] else f" %H:%M{end}"


def _order(texts: pd.Series, written: re.Match[str]) -> tuple[str, str, str] | None:
    """What the three numbers of every cell are; None if the cells do not show it, or contradict each other."""
    if len(written["first"]) == 4:
        return "year", "month", "day"
    if len(written["third"]) != 4:
        return None
    numbers = texts.str.extract(_NUMBERS)[["first", "second"]].astype("Float64")
    beyond = [bool((numbers[part] > _MONTHS).any()) for part in ("first", "second")]
    if beyond[0] and beyond[1]:
        return None
    if beyond[0] or (written["sign"] == "." and not beyond[1]):
        return "day", "month", "year"
    return ("month", "day", "year") if beyond[1] else None


def read_dates(cells: Shaped[Array, " rows"], column: str, place: Callable[[int], str]) -> Shaped[Array, " rows"]:
    """Text cells, or Python dates, as datetime64 in UTC; missing cells stay missing, and any other is an error.

    Args:
        cells: Of a column.
        column: Its name.
        place: Where a row is, in words.
    """
    present = np.array([not is_missing(cell) for cell in cells])
    zoned = np.array([_HAS_ZONE.search(str(cell)) is not None for cell in cells])
    if zoned.any() and not zoned[present].all():
        i, j = int(np.argmax(zoned)), int(np.argmax(present & ~zoned))
        raise InvalidObservationsError(
            f"column {column!r} has a time zone at {place(i)} but none at {place(j)}. Give one to all."
        )
    parsed, _ = parse_dates(cells)
    wrong = np.flatnonzero(parsed.isna().to_numpy() & present)
    if len(wrong):
        raise InvalidObservationsError(
            f"column {column!r} has {str(cells[wrong[0]])[:40]!r} at {place(int(wrong[0]))}, neither a number nor a "
            f"date such as {FORMS} (with a time of day: 2024-01-31 12:00). Correct it."
        )
    return parsed.to_numpy()
