"""What the columns of a table are: the clock, the path ids and the state, guessed by name, type and content.

A clock increases along every path; path ids repeat, and the clock increases within each of them; a state is neither.
Names help to choose between columns that could be either. What is guessed is shown and can be changed, and a choice
that contradicts what the columns look like is objected to (`objections`).
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import pandas as pd

from fimsde.data.arrays import is_missing
from fimsde.data.dates import FORMS, PASSED, parse_dates
from fimsde.data.tables import Table, begins_with_number
from fimsde.shapes import Array, Float64, Int, Shaped

# Words of names, in lower case.
_OF_CLOCKS = re.compile(
    "t|time|timestamp|timepoint|date|datetime|clock|elapsed|frames?|ms|msec|secs?|seconds?|minutes?|hours?|days?|"
    "weeks?|months?|years?|zeit|datum|jahr|monat|tag|temps|tiempo|fecha"
)
# hr may be a heart rate
_BESIDE_CLOCKS = re.compile("s|min|hrs?|h|d|utc|gmt|local|iso|unix|epoch|since|start|in|of|from|the|no|nr|number")
_OF_IDS = re.compile(
    "ids?|path|track|traj|trajectory|particle|cell|animal|subject|patient|individual|participant|replicate|repetition|"
    "run|trial|episode|experiment|station|site|ticker|symbol|series"
)
_BESIDE_IDS = re.compile("no|nr|num|number|name|label|index")
_MOSTLY = 0.5  # share of the steps; by hand: a clock runs forward more often than not
_EQUAL = 1e-6  # relative difference of gaps that are called equal; by hand: times with seven digits
Rows = Int[Array, " rows"]


@dataclass(frozen=True)
class Guess:
    """What a table seems to hold.

    Attributes:
        time: Column of the times; None: no column is one, rows are equally spaced at best.
        path: Column of the path ids; None: one path.
        values: Columns of numbers that can be the state.
        reasons: For every guess a few words about what it rests on.
    """

    time: str | None
    path: str | None
    values: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Column:
    """What a column looks like."""

    name: str
    kind: Literal["number", "date", "text"]
    order: Float64[Array, " rows"]  # numbers or dates, NaN where there is none
    groups: Rows  # equal numbers for equal cells, -1 where there is none
    example: str = ""  # the first cell of a text
    written: str = ""  # the order of dates that are not in ISO form, day/month/year
    first: pd.Timestamp | None = None  # the earliest of dates, from which `order` counts seconds

    @cached_property
    def words(self) -> list[str]:
        """Words of the name in lower case: "elapsedTime_s" has elapsed, time and s."""
        return [word.lower() for word in re.findall(r"[^\W\d_]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", self.name))]

    @property
    def mentions_time(self) -> bool:
        """Whether a word of the name speaks of time."""
        return any(_OF_CLOCKS.fullmatch(word) for word in self.words)

    @property
    def is_named_clock(self) -> bool:
        """Whether the name speaks of time and of nothing else."""
        others = [word for word in self.words if not _OF_CLOCKS.fullmatch(word)]
        return self.mentions_time and all(_BESIDE_CLOCKS.fullmatch(word) for word in others)

    @property
    def is_unnamed(self) -> bool:
        """Whether it has no name, as the row numbers have that pandas writes."""
        return self.name.startswith("Unnamed: ")

    @property
    def is_named_id(self) -> bool:
        """Whether the name ends like one of path ids, and the cells can be ids."""
        words = [word for word in self.words if not _BESIDE_IDS.fullmatch(word)]
        return bool(words) and _OF_IDS.fullmatch(words[-1]) is not None and self.can_be_id

    @cached_property
    def num_values(self) -> int:
        """Number of different cells."""
        return int(self.groups.max(initial=-1)) + 1

    @cached_property
    def can_be_id(self) -> bool:
        """Whether cells are whole numbers or text and repeat: at least two rows for a value, on average."""
        seen = self.groups >= 0
        whole = self.kind == "text" or (self.kind == "number" and bool(np.all(self.order[seen] % 1 == 0)))
        return bool(whole and seen.any() and 2 * self.num_values <= seen.sum())

    @cached_property
    def is_counter(self) -> bool:
        """Whether the cells number the rows: 0, 1, 2, ... or 1, 2, 3, ..."""
        start = self.order[0] if len(self.order) else np.nan
        return self.kind == "number" and start in (0, 1) and bool(np.all(np.diff(self.order) == 1))

    def gaps(self, path: "Column | None") -> Float64[Array, " gaps"]:
        """Differences between neighbouring rows of every path; from the last row on if they are dates that run back."""
        if self.kind == "text":
            return np.empty(0)
        rows = np.arange(len(self.order)) if path is None else np.argsort(path.groups, kind="stable")
        rows = rows[~np.isnan(self.order[rows])]
        own = np.zeros(len(rows), int) if path is None else path.groups[rows]
        gaps = np.diff(self.order[rows])[own[1:] == own[:-1]]
        return -gaps if self.kind == "date" and len(gaps) and gaps.max() < 0 else gaps

    def backward(self, path: "Column | None") -> float:
        """Share of the steps along paths that do not go forward; 1 if there are none."""
        gaps = self.gaps(path)
        return float(np.mean(gaps <= 0)) if len(gaps) else 1.0

    def is_even(self, path: "Column | None") -> bool:
        """Whether the cells increase by equal gaps along every path, as no random state does."""
        gaps = self.gaps(path)
        return len(gaps) > 1 and bool(gaps.min() > 0 and np.ptp(gaps) <= _EQUAL * gaps.max())

    def is_still(self, path: "Column | None") -> bool:
        """Whether the cells are constant along every path: a label of the path, and no state."""
        return not self.gaps(path).any()


def look(table: Table) -> tuple[Column, ...]:
    """Every column of a table with what its cells look like."""
    return tuple(look_at(table, name) for name in table.frame.columns)


def guess(columns: Sequence[Column]) -> Guess:
    """What the columns seem to be."""
    time, path, why = _clock(columns)
    values = [c for c in columns if c not in (time, path) and _can_be_state(c, path, time)]
    if time is None:  # one of those that increase may be the clock
        values = [c for c in values if c.backward(path) > 0] or values
    if not values and path is not None and path.kind == "number" and (time is None or time.backward(None) == 0):
        values, path = [path], None  # counts of cells, say: the only column of numbers beside the clock
    if not values and time is not None and not _looks_like_clock(time, path):
        values, time, why = [time], None, "no column but the state increases, so rows are taken as equally spaced"
    reasons = [f"time: {time.name!r}, {why}" if time else f"time: {why}"]
    if path is not None:
        grounds = ["by its name"] if path.is_named_id else []
        if time is not None and time.backward(path) == 0:
            grounds.append(f"because time increases within each of its {path.num_values} values")
        reasons.append(f"paths: told apart by {path.name!r}, {' and '.join(grounds)}")
    names = tuple(c.name for c in values)
    return Guess(time.name if time else None, path.name if path else None, names, tuple(reasons))


def objections(columns: Sequence[Column], time: str | None, path: str | None, values: Sequence[str]) -> list[str]:
    """Sentences about a choice that contradicts what the columns look like; none if it does not."""
    by_name = {column.name: column for column in columns}
    ids = None if path is None else by_name[path]
    found = []
    for column in (by_name[name] for name in values):
        if _looks_like_clock(column, ids) and not column.is_counter:
            found.append(f"Column {column.name!r} looks like a clock, but is chosen as a state.")
        elif column.is_named_id:
            found.append(f"Column {column.name!r} looks like path ids, but is chosen as a state.")
        elif column.is_counter:
            found.append(f"Column {column.name!r} numbers the rows, but is chosen as a state.")
    guessed, taken = guess(columns), {time, path, *values}
    if time is not None and time == guessed.time and not _looks_like_clock(by_name[time], ids):
        found.append(f"Column {time!r} is taken for the time only because it increases.")
    clocks = [c.name for c in columns if c.name not in taken and not c.is_counter]
    clocks = [name for name in clocks if name == guessed.time or _may_be_clock(by_name[name], ids)]
    if time is None and clocks:
        found.append(f"A constant gap is chosen, although column {clocks[0]!r} looks like a clock.")
    paths = [c.name for c in columns if c.name not in taken and c.num_values > 1]
    paths = [name for name in paths if by_name[name].is_named_id or name == guessed.path]
    if path is None and paths:
        found.append(f"All rows are taken as one path, although column {paths[0]!r} looks like path ids.")
    return found


def doubt_about(columns: Sequence[Column], found: Guess, path: str | None = None) -> str | None:
    """Why a guess of the time is not to be trusted without being asked for; None if it is."""
    by_name = {column.name: column for column in columns}
    ids = by_name.get(path or found.path or "")
    called = next((c for c in columns if c.kind == "text" and c.is_named_clock and c.example), None)
    if called is not None and (found.time is None or not by_name[found.time].is_named_clock):
        return (
            f"{called.name!r} is called like a time, but {called.example[:40]!r} is neither a number nor a date such "
            f"as {FORMS}: write it so"
        )
    if found.time is None:
        return found.reasons[0].removeprefix("time: ").removesuffix(", so rows are taken as equally spaced")
    clock = by_name[found.time]
    rivals = [c for c in columns if c.is_named_clock and c.kind != "text" and c.backward(ids) < _MOSTLY]
    rivals = [c for c in rivals if not set(c.words) < set(clock.words)]  # parts of it: month beside year month
    if clock.is_named_clock and len(rivals) > 1:
        return f"{' and '.join(repr(c.name) for c in rivals[:3])} are all called like a time"
    if clock.is_counter and not clock.mentions_time:
        return f"{clock.name!r} numbers the rows, and nothing says how far apart they are in time"
    if not _looks_like_clock(clock, ids):
        return f"{clock.name!r} may be the time, because it increases, but nothing else says so"
    return None


def paths_for(columns: Sequence[Column], clock: Column | None) -> Column | None:
    """The column that is called like path ids and within whose values a clock increases; None if there is none."""
    ids = [c for c in columns if c is not clock and c.is_named_id and not c.mentions_time and c.num_values > 1]
    if clock is None:
        return ids[0] if ids else None
    return _paths_of(clock, ids, ())


def look_at(table: Table, name: str) -> Column:
    """A column of a table with what its cells look like."""
    series = table.frame.get_column(name)
    cells = series.to_numpy()
    cells = cells.astype(cells.dtype.newbyteorder("="), copy=False)
    try:
        groups = pd.factorize(cells)[0].astype(int)
    except TypeError:  # lists and the like, about which reading them says more
        groups = np.full(len(cells), -1)
    if cells.dtype.kind in "fiu":
        return Column(name, "number", cells.astype(float), groups)
    if cells.dtype.kind in "mM":
        return _dated(name, pd.Series(cells), groups)
    if begins_with_number(table, name):
        return Column(name, "number", _parsed(cells), groups)
    dates, order = parse_dates(cells)
    if dates.notna().sum() > len(dates) / 2:
        return _dated(name, dates, groups, order)
    first = next((str(cell) for cell in cells if not is_missing(cell)), "")
    return Column(name, "text", np.full(len(cells), np.nan), groups, first)


def _parsed(cells: Shaped[Array, " rows"]) -> Float64[Array, " rows"]:
    """Text as numbers with either decimal sign; NaN for what is none."""
    texts = pd.Series(cells).astype(str).str.replace(",", ".", n=1)
    return pd.to_numeric(texts, errors="coerce").to_numpy(float)


def _dated(name: str, dates: pd.Series, groups: Rows, written: str = "") -> Column:
    first = dates.min()
    seconds = np.asarray((dates - first) / pd.Timedelta(seconds=1), dtype=float)
    is_date = isinstance(first, pd.Timestamp) and written != PASSED
    return Column(name, "date", seconds, groups, written=written, first=first if is_date else None)


def _clock(columns: Sequence[Column]) -> tuple[Column | None, Column | None, str]:
    """The clock, the path ids it goes with, and what speaks for it."""
    ids = [c for c in columns if c.can_be_id and not c.mentions_time]
    named_ids = [c for c in ids if c.is_named_id]
    others = sorted((c for c in ids if not c.is_named_id), key=lambda c: c.num_values)
    paths = {c.name: _paths_of(c, named_ids, others) for c in columns}
    able = [c for c in columns if c.kind != "text" and not c.is_named_id]
    forward = [c for c in able if c.backward(paths[c.name]) == 0]
    named = [c for c in able if c.is_named_clock and c.backward(paths[c.name]) < _MOSTLY]
    by_name = [c for c in forward if c.is_named_clock] + [c for c in forward if c.mentions_time] + named
    if by_name:  # the last kind goes back here and there, which reading the table will refuse with the place
        return by_name[0], paths[by_name[0].name], "by its name"
    fits = [c for c in forward if not c.is_counter] or forward
    fits = [c for c in fits if c.kind == "date" or c.is_even(paths[c.name])] or fits
    fits = [c for c in fits if c.backward(None) < _MOSTLY] or fits  # rows come path by path: the others are ids
    if len(fits) == 1:
        return fits[0], paths[fits[0].name], "because it increases"
    ids_alone = named_ids[0] if named_ids else None
    if not fits:
        return None, ids_alone, "no column looks like a clock, so rows are taken as equally spaced"
    return None, ids_alone, f"{' and '.join(repr(c.name) for c in fits[:3])} increase, and no name tells which is it"


def _paths_of(clock: Column, named: Sequence[Column], others: Sequence[Column]) -> Column | None:
    """The ids within which a clock increases; None if it increases from row to row, or nowhere."""
    whole = clock.backward(None)
    best = min((c for c in named if c is not clock), key=clock.backward, default=None)
    if best is not None and clock.backward(best) <= whole:
        return best
    if whole == 0:
        return None
    return next((c for c in others if c is not clock and clock.backward(c) == 0), None)


def _looks_like_clock(column: Column, path: Column | None) -> bool:
    """Whether more than an increase speaks for a clock."""
    return _speaks_of_time(column, path) or column.is_even(path)


def _speaks_of_time(column: Column, path: Column | None) -> bool:
    """Whether name or type, with the cells, speak for a clock."""
    if column.kind == "text":
        return False
    hints = column.mentions_time or column.kind == "date"
    return column.is_named_clock or (hints and column.backward(path) == 0)


def _may_be_clock(column: Column, path: Column | None) -> bool:
    """Whether a column at least increases."""
    return _looks_like_clock(column, path) or column.backward(path) == 0


def _can_be_state(column: Column, path: Column | None, clock: Column | None) -> bool:
    if column.kind != "number" or column.is_named_id or column.is_unnamed:
        return False
    if _speaks_of_time(column, path) or column.is_counter or column.is_still(path):
        return False
    # beside a clock with a name, a column of equal gaps is asked about (`objections`) rather than left out
    return not column.is_even(path) or (clock is not None and clock.mentions_time)
