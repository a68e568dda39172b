"""Which columns of a table are read: what the user named, and a guess of the rest that is said or refused.

If time (or the gap) and the state are named, nothing is guessed. If only the time is, the state is every other column
of numbers, and a column that is called like path ids tells paths apart. If the time is not named either, all is guessed
by name, type and content (`columns.guess`), and doubt is an error: nothing wrong is read in silence.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fimsde.data.arrays import TIME_UNITS
from fimsde.data.columns import Column, doubt_about, guess, look, paths_for
from fimsde.data.headers import listing
from fimsde.data.tables import Table
from fimsde.errors import InvalidObservationsError

_WORDS = {  # of names of clocks, as units
    **dict.fromkeys(("ms", "msec", "millisecond", "milliseconds"), "ms"),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("min", "minute", "minutes"), "min"),
    **dict.fromkeys(("h", "hr", "hrs", "hour", "hours"), "h"),
    **dict.fromkeys(("d", "day", "days"), "D"),
    **dict.fromkeys(("week", "weeks"), "W"),
    **dict.fromkeys(("month", "months"), "month"),
    **dict.fromkeys(("year", "years"), "year"),
}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "D": 86400.0, "W": 604800.0}
_SECONDS |= {"month": 2629746.0, "year": 31556952.0}  # the mean ones of the calendar
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
        return Choice(time, path, named, time_unit, _sentence([], table))
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
    said = [] if ids is None or path is not None else [f"paths told apart by {ids.name!r}"]
    left = [c.name for c in others if c not in states]
    if said or left:
        said += _about_state(states, left)
    return Choice(
        time, None if ids is None else ids.name, tuple(c.name for c in states), time_unit, _sentence(said, table)
    )


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
    unit = time_unit if time_unit is not None else _unit(clock, next((c for c in columns if c.name == ids), None))
    said = [f"time {found.time!r}{'' if unit is None or time_unit is not None else f' in units of {unit}'}"]
    said += [] if ids is None or path is not None else [f"paths told apart by {ids!r}"]
    left = [c.name for c in columns if c.name not in (found.time, ids, *states)]
    said += _about_state([c for c in columns if c.name in states], left if values is None else [])
    return Choice(found.time, ids, states, unit, _sentence(said, table))


def _with_path(free: Sequence[Column], ids: Column) -> list[Column]:
    """Columns to guess from when the ids are known: a clock must increase within each of them."""
    return [*(c for c in free if not c.is_named_id), ids]


def _about_state(states: Sequence[Column], left: Sequence[str]) -> list[str]:
    said = [f"state {', '.join(repr(c.name) for c in states)}"]
    return said + ([f"left out {listing(left)}"] if left else [])


def _sentence(said: Sequence[str], table: Table) -> str:
    parts = [*said, *table.remarks]
    return f"read as: {'; '.join(parts)}. Name the columns (time=, values=, path=) to change it" if parts else ""


def _unit(clock: Column, ids: Column | None) -> str | None:
    """The unit of a clock: of dates the largest one in a typical gap, of numbers one that stands in the name."""
    if clock.kind == "date":
        gaps = clock.gaps(ids)
        typical = float(np.median(gaps)) if len(gaps) else 1.0
        fitting = [unit for unit, seconds in _SECONDS.items() if typical >= _NEARLY * seconds]
        return fitting[-1] if fitting else "us"
    units = [_WORDS[word] for word in clock.words if word in _WORDS]
    assert all(unit in TIME_UNITS for unit in units), "labels and units are the same"
    return units[-1] if units else None
