"""Which columns of a table are read: what the user named, and a guess of the rest that is said or refused.

If time (or the gap) and the state are named, nothing is guessed. If only the time is, the state is every other column
of numbers, and a column that is called like path ids tells paths apart. If the time is not named either, all is guessed
by name, type and content (`columns.guess`), and doubt is an error: nothing wrong is read in silence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fimsde.data.arrays import TIME_UNITS
from fimsde.data.columns import Column, doubt_about, guess, look, look_at, paths_for
from fimsde.data.headers import joinable, listing
from fimsde.data.summary import in_words
from fimsde.data.tables import Table
from fimsde.errors import InvalidObservationsError

_WORDS = {  # of names of clocks, as units
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours", "stunde"), "h"),
    **dict.fromkeys(("d", "day", "days", "tag"), "D"),
    **dict.fromkeys(("week", "weeks"), "W"),
    **dict.fromkeys(("month", "months", "monat"), "month"),
    **dict.fromkeys(("year", "years", "jahr"), "year"),
}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "D": 86400.0, "W": 604800.0}
_SECONDS |= {"month": 2629746.0, "year": 31556952.0}  # the mean ones of the calendar
_MILLISECONDS = 1e11  # a count since 1970 above this is in milliseconds: in seconds it is the year 5138
_MANY = 3  # columns of the state, above which they may as well be paths; by hand
_NEARLY = 0.9  # of a unit that a gap must have to be counted in it: February has 0.92 of a month


@dataclass(frozen=True)
class Choice:
    """Columns to read.

    Attributes:
        time: Column of the times; None: a constant gap.
        path: Column of the path ids; None: one path.
        values: Columns of the state; None: all others.
        time_unit: Unit of time.
        said: What was guessed, in one sentence; empty if nothing was.
    """

    time: str | None
    path: str | None
    values: tuple[str, ...] | None
    time_unit: str | None
    said: str = ""


def choose(
    table: Table,
    time: str | None,
    values: str | Sequence[str] | None,
    path: str | None,
    dt: float | None,
    time_unit: str | None,
) -> Choice:
    """What to read of a table; arguments as for `fimsde.read`."""
    named = (values,) if isinstance(values, str) else None if values is None else tuple(values)
    has_clock = time is not None or dt is not None
    if not len(table.frame) or (has_clock and named is not None):
        unit = time_unit if time_unit is not None or time is None else unit_of_dates(table, time, path)
        return Choice(time, path, named, unit, _sentence(_about_unit(time, time_unit, unit), table))
    asked = [name for name in (time, path, *(named or ())) if name is not None]
    if any(name not in table.frame.columns for name in asked):
        return Choice(time, path, named, time_unit)  # reading says which
    if len(table.frame) == 1 and not has_clock:
        raise InvalidObservationsError("the table has one row; at least 2 transitions are needed. Pass longer paths.")
    columns = look(table)
    if has_clock:
        return _beside_clock(table, columns, time, path, time_unit)
    return _guessed(table, columns, named, path, time_unit)


def _beside_clock(
    table: Table, columns: Sequence[Column], time: str | None, path: str | None, time_unit: str | None
) -> Choice:
    """The state beside a clock that was named: every other column of numbers."""
    by_name = {column.name: column for column in columns}
    clock = None if time is None else by_name[time]
    ids = by_name[path] if path is not None else paths_for(columns, clock)
    others = [c for c in columns if c is not clock and c is not ids]
    states = [c for c in others if c.kind == "number" and not c.is_unnamed and not c.is_named_clock]
    if not states:
        return Choice(time, path, None, time_unit)  # reading says what is wrong with the others
    unit = time_unit
    if time_unit is None and clock is not None and clock.kind == "date":
        unit = unit_of(clock, ids)
    said = _about_unit(time, time_unit, unit)
    said += [] if ids is None or path is not None else [f"paths told apart by {ids.name!r}"]
    left = [c.name for c in others if c not in states]
    if said or left:
        said += _about_state(states, left)
    names = tuple(c.name for c in states)
    return Choice(time, None if ids is None else ids.name, names, unit, _sentence(said, table))


def _guessed(
    table: Table, columns: Sequence[Column], values: tuple[str, ...] | None, path: str | None, time_unit: str | None
) -> Choice:
    """Everything that was not named, by name, type and content."""
    free = [c for c in columns if c.name not in (values or ()) and c.name != path]
    given = [c for c in columns if c.name == path]
    found = guess([*free, *given] if path is None else _with_path(free, given[0]))
    doubt = doubt_about(columns, found, path)
    if doubt is not None:
        advice = "Name the column (time=) or the constant gap (dt=)."
        raise InvalidObservationsError(f"{doubt}; the columns are {listing([c.name for c in columns])}. {advice}")
    assert found.time is not None, "else there is doubt"
    clock = next(c for c in columns if c.name == found.time)
    ids = path if path is not None else found.path
    states = values if values is not None else tuple(n for n in found.values if n != ids)
    if not states:
        return Choice(found.time, ids, None, time_unit)  # reading says what is wrong with the others
    unit = time_unit if time_unit is not None else unit_of(clock, next((c for c in columns if c.name == ids), None))
    said = [_about_clock(clock, None if time_unit is not None else unit)]
    said += [] if ids is None or path is not None else [f"paths told apart by {ids!r}"]
    left = [c.name for c in columns if c.name not in (found.time, ids, *states)]
    left = [name for name in left if name not in joinable(left).get(found.time, ())]  # they are in the time
    said += _about_state([c for c in columns if c.name in states], left if values is None else [])
    return Choice(found.time, ids, states, unit, _sentence(said, table))


def _with_path(free: Sequence[Column], ids: Column) -> list[Column]:
    """Columns to guess from when the ids are known: a clock must increase within each of them."""
    return [*(c for c in free if not c.is_named_id), ids]


def _about_clock(clock: Column, unit: str | None) -> str:
    order = f" ({clock.written})" if clock.written else ""
    return f"time {clock.name!r}{order}" + ("" if unit is None else f" in {in_words(unit)}")


def _about_state(states: Sequence[Column], left: Sequence[str]) -> list[str]:
    said = [f"state {', '.join(repr(c.name) for c in states)}"]
    if len(states) > _MANY:
        said.append("if these are paths of one quantity, pass layout='wide' and time=")
    return said + ([f"left out {listing(left)}"] if left else [])


def _sentence(said: Sequence[str], table: Table) -> str:
    parts = [*said, *table.remarks]
    return f"read as: {'; '.join(parts)}. Name the columns (time=, values=, path=) to change it" if parts else ""


def _about_unit(time: str | None, given: str | None, unit: str | None) -> list[str]:
    return [f"time {time!r} in {in_words(unit)}"] if given is None and unit is not None else []


def unit_of_dates(table: Table, time: str, path: str | None) -> str | None:
    """The unit in which to count the dates of a column that was named; None for numbers, and if it is not there."""
    names = table.frame.columns
    if time not in names or (path is not None and path not in names):
        return None
    clock = look_at(table, time)
    return unit_of(clock, None if path is None else look_at(table, path)) if clock.kind == "date" else None


def unit_of(clock: Column, ids: Column | None) -> str | None:
    """The unit of a clock: of dates the largest one in a typical gap, of numbers one that stands in the name."""
    if clock.kind == "date":
        gaps = clock.gaps(ids)
        typical = float(np.median(gaps)) if len(gaps) else 1.0
        fitting = [unit for unit, seconds in _SECONDS.items() if typical >= _NEARLY * seconds]
        return fitting[-1] if fitting else "us"
    units = [_WORDS[word] for word in clock.words if word in _WORDS]
    if not units and {"unix", "epoch"} & set(clock.words):
        return "s" if np.nanmax(np.abs(clock.order)) < _MILLISECONDS else "ms"
    assert all(unit in TIME_UNITS for unit in units), "labels and units are the same"
    return units[-1] if units else None
