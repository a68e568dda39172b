"""Input: arrays, tables and files become `Observations`, and every check of the input happens here.

A missing observation is simply absent: the step over a gap is one longer step, and nothing is interpolated.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypedDict

import numpy as np

from fimsde.data import arrays
from fimsde.data.arrays import RawPath
from fimsde.data.fillers import filler
from fimsde.data.grid import regular_grid
from fimsde.data.lines import as_html, as_text
from fimsde.data.summary import summary
from fimsde.errors import DataWarning, GuessWarning, InvalidObservationsError
from fimsde.shapes import Array, Float64, Int

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

MIN_TRANSITIONS = 2  # the fewest that have a spread
# a component whose range is below this many rounding steps is constant; by hand: four bits tell no law of noise
ROUNDING_STEPS = 16
# warn when the central 90 % of a component span less than this share of its standard deviation; by hand
_RESOLUTION = 1e-3

Missing = Literal["error", "drop"]
Layout = Literal["long", "wide"]


class Reading(TypedDict, total=False):
    """The options of `read`, for functions that read what they are given."""

    time: str | None
    values: str | Sequence[str] | None
    path: str | None
    times: Any
    dt: float | None
    mask: Any
    names: Sequence[str] | None
    time_unit: str | None
    missing: Missing
    layout: Layout
    separator: str | None
    decimal: str | None


@dataclass(frozen=True, eq=False)
class Observations:
    """Checked observations of one system: observed rows only, path after path.

    Attributes:
        values: States in the user's units.
        times: Observation times in the user's unit; float64 because a float32 clock loses small gaps at large offsets.
        path_starts: Path k owns rows path_starts[k] to path_starts[k + 1].
        names: One name per state component.
        time_unit: The unit of `times`, for labels; None if unknown.
    """

    values: Float64[Array, "points dim"] = field(repr=False)
    times: Float64[Array, " points"] = field(repr=False)
    path_starts: Int[Array, " paths_plus_1"] = field(repr=False)
    names: tuple[str, ...]
    time_unit: str | None = None

    def __str__(self) -> str:
        """Five lines: what there is, when, which values, what to keep in mind, what to do next."""
        return as_text(summary(self))

    def _repr_html_(self) -> str:
        return as_html(summary(self))

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.values.shape[1]

    @property
    def num_paths(self) -> int:
        """Number of paths."""
        return len(self.path_starts) - 1

    @property
    def num_points(self) -> int:
        """Number of observations over all paths."""
        return len(self.values)

    @property
    def num_transitions(self) -> int:
        """Number of steps between neighbouring observations of a path."""
        return self.num_points - self.num_paths

    def path(self, k: int) -> tuple[Float64[Array, " times"], Float64[Array, "times dim"]]:
        """Times and values of path k."""
        if not 0 <= k < self.num_paths:
            raise IndexError(f"there is no path {k}; the paths are numbered 0 to {self.num_paths - 1}.")
        rows = slice(self.path_starts[k], self.path_starts[k + 1])
        return self.times[rows], self.values[rows]

    def with_units(
        self,
        scale: float | Float64[Array, " dim"] = 1.0,
        offset: float | Float64[Array, " dim"] = 0.0,
        time_scale: float = 1.0,
    ) -> "Observations":
        """The same observations in other units: values * scale + offset at times * time_scale."""
        time_unit = self.time_unit if time_scale == 1 else None
        times = self.times * time_scale
        return replace(self, values=self.values * scale + offset, times=times, time_unit=time_unit)

    def box(self, widen: float = 0.0) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
        """Lower and upper corner of the data, widened by a share of the range on every side."""
        low, high = self.values.min(axis=0), self.values.max(axis=0)
        margin = widen * (high - low)
        return low - margin, high + margin

    def to_pandas(self) -> "pd.DataFrame":
        """A long table: columns path, time and one per component, a row per observation."""
        import pandas as pd  # takes a while to import

        path = np.repeat(np.arange(self.num_paths), np.diff(self.path_starts))
        states = {name: self.values[:, j] for j, name in enumerate(self.names)}
        return pd.DataFrame({"path": path, "time": self.times, **states})

    def to_xarray(self) -> "xr.Dataset":
        """A variable per component over `row`, with path and time of every row as coordinates. Needs xarray."""
        return self.to_pandas().rename_axis("row").to_xarray().set_coords(["path", "time"])

    def as_paths(self, rows: Sequence[Int[Array, " _"]]) -> "Observations":
        """Chosen observations: those with the numbers rows[k] become path k."""
        chosen = np.concatenate(rows)
        path_starts = np.concatenate([[0], np.cumsum([len(part) for part in rows])])
        return Observations(self.values[chosen], self.times[chosen], path_starts, self.names, self.time_unit)

    def grid(self, num_per_axis: int, widen: float = 0.0) -> Float64[Array, "queries dim"]:
        """Nodes of a regular grid over the box of the data."""
        return regular_grid(*self.box(widen), num_per_axis)


def read(
    source: Any,
    *,
    time: str | None = None,
    values: str | Sequence[str] | None = None,
    path: str | None = None,
    times: Any = None,
    dt: float | None = None,
    mask: Any = None,
    names: Sequence[str] | None = None,
    time_unit: str | None = None,
    missing: Missing = "error",
    layout: Layout = "long",
    separator: str | None = None,
    decimal: str | None = None,
) -> Observations:
    """Read observations from arrays, tables or files. The source is never changed.

    Args:
        source: An array of shape (times,), (times, dim) or (paths, times, dim); a list of arrays, one per path, of
            any lengths; a table (pandas, polars, pyarrow or any frame narwhals knows, a Series, an xarray object); the
            name of a CSV, TSV, Excel or Parquet file; or Observations, which are returned as they are. Nested lists of
            equal lengths are one array.
        time: Tables: the column of times: numbers, or dates and durations.
        values: Tables: the columns of the state components; by default all other columns of numbers.
        path: Tables: the column that tells paths apart.
        times: Arrays: observation times, one grid for all paths or one per path; dates need `time_unit`.
        dt: A constant gap between observations, in place of times.
        mask: Arrays: True where an observation was made; one for all paths or one per path.
        names: Arrays and wide tables: names of the components.
        time_unit: Unit of time, for labels; for dates the unit to count in (ns, us, ms, s, min, h, D, W, month or
            year). Months and years are those of the calendar: the first days of two months in a row are 1 apart.
        missing: What to do with NaN or empty cells: refuse them, or drop the observations.
        layout: "long": a row is an observation of all components. "wide": each value column is a path of a 1-D state;
            empty cells at its end only mean that the path is shorter.
        separator: CSV: what stands between the cells; by default what cuts all of the first lines alike.
        decimal: CSV: the decimal sign; by default a point, or a comma where cells show it.

    What is not named is guessed by name, type and content: a time that is called so, is a date or has equal steps, path
    ids by their name or because the time increases within each, the state from what is left, a unit for dates from
    their gaps. A GuessWarning says what was guessed; doubt is an error. If the time (or `dt`) and the state are named,
    nothing is guessed but the unit of dates. A time in several columns (year, month and day; date and time of day) is
    one: "year month day".

    Raises:
        InvalidObservationsError: The data cannot be used; the message says where and what to do.
    """
    _check_choices(dt, missing, layout)
    of_tables = {"time": time, "values": values, "path": path, "separator": separator, "decimal": decimal}
    of_tables["layout"] = None if layout == "long" else layout
    of_arrays = {"times": times, "mask": mask, "names": None if layout == "wide" else names}
    if isinstance(source, Observations):
        _refuse("Observations", **of_tables, **of_arrays, dt=dt, time_unit=time_unit)
        return source
    is_clocked = dt is not None or times is not None  # of a Series the values are enough then
    if isinstance(source, str | os.PathLike) or hasattr(source, "columns") or (_is_labelled(source) and not is_clocked):
        from fimsde.data import choice, tables  # pandas takes a while to import and arrays do not need it

        _refuse("a table", **of_arrays)
        table = tables.open_table(source, time, path, separator, decimal, counts_rows=dt is not None)
        found = choice.Choice(time, path, None if values is None else _names(values), time_unit)
        if layout == "long":
            found = choice.choose(table, time, values, path, dt, time_unit)
        paths, columns = tables.raw_paths(table, found.time, found.values, found.path, dt, found.time_unit, layout)
        if found.said:
            warnings.warn(found.said, GuessWarning, stacklevel=2)
        return _checked(paths, columns or names, found.time_unit, missing)
    _refuse("an array", **of_tables)
    return _checked(arrays.raw_paths(source, times, dt, mask, time_unit), names, time_unit, missing)


def _is_labelled(source: Any) -> bool:
    """Whether a source is a Series of pandas or an object of xarray."""
    if not type(source).__module__.startswith(("pandas", "xarray")):
        return False
    from fimsde.data.frames import is_labelled

    return is_labelled(source)


def _names(values: str | Sequence[str]) -> tuple[str, ...]:
    return (values,) if isinstance(values, str) else tuple(values)


def _check_choices(dt: Any, missing: str, layout: str) -> None:
    if missing not in ("error", "drop"):
        raise InvalidObservationsError(f"missing is {missing!r}; expected 'error' or 'drop'.")
    if layout not in ("long", "wide"):
        raise InvalidObservationsError(f"layout is {layout!r}; expected 'long' or 'wide'.")
    if dt is not None and not (isinstance(dt, int | float | np.integer | np.floating) and 0 < dt < np.inf):
        raise InvalidObservationsError(f"dt is {dt!r}; expected a positive number, the gap between observations.")


def _refuse(kind: str, **options: Any) -> None:
    """An option that this kind of source does not use would be ignored in silence."""
    unused = [name for name, value in options.items() if value is not None]
    if unused:
        raise InvalidObservationsError(
            f"{', '.join(f'{u}=' for u in unused)} cannot be used with {kind}. Leave it out."
        )


def _checked(
    paths: list[RawPath], names: Sequence[str] | None, time_unit: str | None, missing: Missing
) -> Observations:
    dims = sorted({p.values.shape[1] for p in paths})
    if len(dims) > 1:
        raise InvalidObservationsError(f"paths have different numbers of components: {dims}. Pass the same for all.")
    dim = dims[0]
    names = tuple(f"x{j + 1}" for j in range(dim)) if names is None else tuple(str(n) for n in names)
    if len(names) != dim:
        raise InvalidObservationsError(f"{len(names)} names given for {dim} components. Pass one name per component.")
    paths = _without_fillers(paths, names, missing)
    kept = [_observed_rows(p, names, missing) for p in paths]
    times = np.concatenate([p.times[rows] for p, rows in zip(paths, kept, strict=True)])
    values = np.concatenate([p.values[rows] for p, rows in zip(paths, kept, strict=True)])
    num_transitions = len(values) - len(paths)
    if num_transitions < MIN_TRANSITIONS:
        raise InvalidObservationsError(
            f"{len(values)} observation(s) in {len(paths)} path(s) make {num_transitions} transition(s); at least "
            f"{MIN_TRANSITIONS} are needed, and a few hundred for a useful estimate. Pass longer paths."
        )
    _check_components(values, names, np.max([p.rounding for p in paths], axis=0))
    path_starts = np.cumsum([0, *(len(rows) for rows in kept)])
    return Observations(values, times, path_starts, names, time_unit)


def _without_fillers(paths: list[RawPath], names: tuple[str, ...], missing: Missing) -> list[RawPath]:
    """Refuse numbers that stand for missing cells, or make them missing where such observations are dropped."""
    for j, name in enumerate(names):
        found = filler(np.concatenate([p.values[p.observed, j] for p in paths]))
        if found is None:
            continue
        number = f"{found:.10g}"
        own = [p.observed & (p.values[:, j] == found) for p in paths]
        num = sum(int(rows.sum()) for rows in own)
        if missing == "error":
            k = next(k for k, rows in enumerate(own) if rows.any())
            raise InvalidObservationsError(
                f"{paths[k].label} has the value {number} at {paths[k].place(int(np.argmax(own[k])))}, component "
                f"{name!r}, and {num} times in all, far from every other: it seems to stand for a missing one. "
                "Drop it (missing='drop'), or leave the row out."
            )
        warnings.warn(
            f"component {name!r}: {number} stands for a missing value; {num} observations are dropped",
            DataWarning,
            stacklevel=4,
        )
        paths = [replace(p, observed=p.observed & ~rows) for p, rows in zip(paths, own, strict=True)]
    return paths


def _observed_rows(p: RawPath, names: tuple[str, ...], missing: Missing) -> Int[Array, " rows"]:
    """Numbers of the observed rows, after making sure that all of them can be used."""
    observed = p.observed & ~np.isnan(p.values).any(axis=1) if missing == "drop" else p.observed
    rows = np.flatnonzero(observed)
    if not len(rows):
        raise InvalidObservationsError(
            f"nothing is observed in {p.label}: all of it is masked or missing. Leave it out."
        )
    bad = np.argwhere(~np.isfinite(p.values[rows]))
    if len(bad):
        i, j = rows[bad[0, 0]], bad[0, 1]
        where = f"{p.place(i)}, component {names[j]!r}"
        mask = "mask it (mask=)" if p.counted_in == "index" else "leave the row out"
        if not np.isnan(p.values[i, j]):
            raise InvalidObservationsError(
                f"{p.label} has the value {p.values[i, j]} at {where}; expected a finite number. Correct it, or {mask}."
            )
        num = len(np.unique(bad[:, 0]))
        raise InvalidObservationsError(
            f"{p.label} has no value (an empty cell, or nan) at {where}; {num} of its {len(rows)} observations lack "
            f"one. Drop them (missing='drop'), or {mask}."
        )
    times = p.times[rows]
    wrong = np.flatnonzero(~np.isfinite(times))
    if len(wrong):
        raise InvalidObservationsError(
            f"{p.label} has the time {times[wrong[0]]} at {p.place(rows[wrong[0]])}; expected a finite one."
        )
    back = np.flatnonzero(np.diff(times) <= 0)
    if len(back):
        i, (before, after) = back[0], (float(f"{t:.15g}") for t in times[back[0] : back[0] + 2])  # 1.9, not 1.9000...01
        sort = "Sort the path, or split it where the clock restarts (a list of arrays; path= for a table)"
        advice = "Keep one of the two" if times[i] == times[i + 1] else sort
        raise InvalidObservationsError(
            f"times must increase along each path, but {p.label} has time {before} at {p.place(rows[i])} followed by "
            f"{after} at {p.place(rows[i + 1])}. {advice}."
        )
    return rows


def _check_components(
    values: Float64[Array, "points dim"], names: tuple[str, ...], rounding: Float64[Array, " dim"]
) -> None:
    with np.errstate(over="ignore"):
        spread = np.ptp(values, axis=0)
    threshold = ROUNDING_STEPS * rounding * np.abs(values).max(axis=0)
    for j in np.flatnonzero(~np.isfinite(spread)):
        raise InvalidObservationsError(
            f"component {names[j]!r} (number {j}) ranges over more than a float64 can hold. Choose a larger unit."
        )
    for j in np.flatnonzero(spread <= threshold):
        raise InvalidObservationsError(
            f"component {names[j]!r} (number {j}) is constant: its range is {spread[j]:.3g}, not above the rounding "
            f"threshold {threshold[j]:.3g}. Remove it, or pass it in a precision and an offset that resolve it."
        )
    low, high = np.quantile(values, [0.05, 0.95], axis=0, method="nearest")  # an observed value, not half an outlier
    share = (high - low) / spread / np.std(values / spread, axis=0)  # scaled first: squares of 1e200 overflow
    for j in np.flatnonzero(share < _RESOLUTION):
        warnings.warn(
            f"component {names[j]!r} is dominated by outliers: its central 90 % span {share[j]:.1e} standard "
            f"deviations, so little resolution is left for them. Remove the outliers, or transform the component.",
            DataWarning,
            stacklevel=4,
        )
