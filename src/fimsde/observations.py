"""The door: arrays, tables and files become `Observations`, and every check of the input happens here.

A missing observation is simply absent: the step over a gap is one longer step, and nothing is interpolated.
"""

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fimsde.errors import DataWarning, InvalidObservationsError, ObservationTypeError
from fimsde.shapes import Array, Bool, Float64, Int

MIN_TRANSITIONS = 2
_RESOLUTION = 1e-3  # warn when the central 90 % of a component span less than this share of its standard deviation


@dataclass(frozen=True)
class Observations:
    """Checked observations of one system: observed rows only, path after path.

    Attributes:
        values: States in the user's units.
        times: Observation times in the user's unit; float64 because a float32 clock loses small gaps at large offsets.
        path_starts: Path k owns rows path_starts[k] to path_starts[k + 1].
        names: One name per state component.
        time_unit: The unit of `times`, for labels; None if unknown.
    """

    values: Float64[Array, "points dim"]
    times: Float64[Array, " points"]
    path_starts: Int[Array, " paths_plus_1"]
    names: tuple[str, ...]
    time_unit: str | None = None

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
        rows = slice(self.path_starts[k], self.path_starts[k + 1])
        return self.times[rows], self.values[rows]

    def with_units(
        self, scale: float | Float64[Array, " dim"] = 1.0, offset: float | Float64[Array, " dim"] = 0.0, time_scale: float = 1.0
    ) -> "Observations":
        """The same observations in other units: values * scale + offset at times * time_scale."""
        return replace(self, values=self.values * scale + offset, times=self.times * time_scale)

    def box(self, widen: float = 0.0) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
        """Lower and upper corner of the data, widened by a share of the range on every side."""
        low, high = self.values.min(axis=0), self.values.max(axis=0)
        margin = widen * (high - low)
        return low - margin, high + margin

    def grid(self, num_per_axis: int, widen: float = 0.0) -> Float64[Array, "queries dim"]:
        """Nodes of a regular grid over the box of the data."""
        low, high = self.box(widen)
        axes = [np.linspace(a, b, num_per_axis) for a, b in zip(low, high, strict=True)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, self.dim)


@dataclass(frozen=True)
class RawPath:
    """One path before checking, with what is needed to say where a bad value stands."""

    times: Float64[Array, " times"]
    values: Float64[Array, "times dim"]
    observed: Bool[Array, " times"]
    label: str
    lines: Int[Array, " times"] | None = None  # line in the file, for tables
    rounding: float = float(np.finfo(np.float64).eps)  # of the precision the values came in

    def place(self, i: int) -> str:
        """Where row i of this path stands in the user's data."""
        return f"index {i}" if self.lines is None else f"line {self.lines[i]}"


Missing = Literal["error", "drop"]


def read(
    source: Any,
    *,
    time: str | None = None,
    values: Sequence[str] | None = None,
    path: str | None = None,
    times: Any = None,
    dt: float | None = None,
    mask: Any = None,
    names: Sequence[str] | None = None,
    time_unit: str | None = None,
    missing: Missing = "error",
    layout: Literal["long", "wide"] = "long",
    separator: str = ",",
    decimal: str = ".",
) -> Observations:
    """Read observations from arrays, tables or files.

    Args:
        source: An array of shape (times,), (times, dim) or (paths, times, dim); a list of arrays, one per path, of unequal
            lengths; a table (pandas, polars, pyarrow or any frame narwhals knows); the name of a CSV or Parquet file; or
            Observations, which are returned unchanged.
        time: Tables: the column of times, numbers or datetimes (these need `time_unit`).
        values: Tables: the columns of the state components; all other numeric columns by default.
        path: Tables: the column that tells paths apart.
        times: Arrays: observation times, one grid for all paths or one per path.
        dt: A constant gap between observations, in place of times.
        mask: Arrays: True where an observation was made.
        names: Arrays: names of the components.
        time_unit: Unit of time for labels; for datetimes the unit to convert to (ns, us, ms, s, min, h, D or W).
        missing: What to do with NaN or empty cells: refuse them, or drop the observations.
        layout: "long": a row is an observation of all components. "wide": each value column is a path of a 1-D state.
        separator: CSV: what stands between the cells.
        decimal: CSV: the decimal sign.

    Raises:
        InvalidObservationsError: The data cannot be used; the message says where and what to do.
    """
    if isinstance(source, Observations):
        return source
    if dt is not None and not (np.isfinite(dt) and dt > 0):
        raise InvalidObservationsError(f"dt is {dt!r}; it must be a positive number, the gap between observations.")
    if isinstance(source, str | os.PathLike) or hasattr(source, "columns"):
        from fimsde import tables  # pandas takes a while to import and arrays do not need it

        frame = source if hasattr(source, "columns") else tables.read_file(Path(source), separator, decimal)
        paths, names = tables.raw_paths(frame, time, values, path, dt, time_unit, layout, missing)
    else:
        paths = _paths_of_arrays(source, times, dt, mask)
    return _checked(paths, names, time_unit, missing)


def _paths_of_arrays(source: Any, times: Any, dt: float | None, mask: Any) -> list[RawPath]:
    given = [_to_numpy(a) for a in _split(source)]
    arrays = [_values_array(a, f"path {k}") for k, a in enumerate(given)]
    if (times is None) == (dt is None):
        found = "neither times nor dt" if times is None else "both times and dt"
        raise InvalidObservationsError(f"{found} given. Pass times= (one per observation) or dt= (a constant gap).")
    paths = []
    for k, values in enumerate(arrays):
        num = len(values)
        clock = np.arange(num) * float(dt or 1) if times is None else _per_path(times, k, len(arrays), num, "times")
        observed = np.ones(num, bool) if mask is None else _per_path(mask, k, len(arrays), num, "mask").astype(bool)
        paths.append(RawPath(_times_array(clock), values, observed, f"path {k}", rounding=_rounding(given[k])))
    return paths


def _split(source: Any) -> list[Any]:
    """One array per path. A list is a list of paths if it holds arrays or unequal lists, else an array itself."""
    if isinstance(source, list | tuple):
        lengths = {len(a) for a in source if hasattr(a, "__len__")}
        if any(hasattr(a, "shape") and len(a.shape) > 0 for a in source) or len(lengths) > 1:
            return list(source)
    array = _to_numpy(source)
    if array.ndim == 3:
        return list(array)
    if array.ndim in (1, 2) and array.size:
        return [array]
    raise InvalidObservationsError(
        f"the data have shape {array.shape}; expected (times,), (times, dim) or (paths, times, dim), none of them empty."
    )


def _to_numpy(source: Any) -> Array:
    if hasattr(source, "detach"):  # a torch tensor, without importing torch
        source = source.detach().cpu().numpy()
    try:
        return np.asarray(source)
    except ValueError as error:
        raise InvalidObservationsError(f"the data are not a regular array ({error}). Pass a list of arrays, one per path.") from None


def _values_array(array: Array, label: str) -> Float64[Array, "times dim"]:
    if array.dtype == object and all(isinstance(v, int | float | np.number) for v in array.ravel()):
        array = array.astype(float)
    if array.dtype.kind not in "fiu":
        raise ObservationTypeError(f"{label} holds values of type {array.dtype}; expected real numbers.")
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.size == 0:
        raise InvalidObservationsError(f"{label} has shape {array.shape}; expected (times,) or (times, dim), not empty.")
    return np.array(array, dtype=np.float64)


def _rounding(array: Array) -> float:
    return float(np.finfo(array.dtype if array.dtype.kind == "f" else np.float64).eps)


def _per_path(source: Any, k: int, num_paths: int, num: int, what: str) -> Array:
    ragged = isinstance(source, list | tuple) and len(source) == num_paths and hasattr(source[0], "__len__")
    array = _to_numpy(source[k]) if ragged else _to_numpy(source)
    if array.ndim == 2 and len(array) == num_paths:
        array = array[k]
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.shape != (num,):
        raise InvalidObservationsError(
            f"path {k} has {num} observations but its {what} have shape {array.shape}. Pass one entry per observation."
        )
    return array


def _times_array(clock: Array) -> Float64[Array, " times"]:
    if clock.dtype.kind == "M":
        raise InvalidObservationsError(
            "times are datetimes. Say in which unit to count, for example "
            "times=(t - t[0]) / numpy.timedelta64(1, 's'), or pass a table with time= and time_unit='s'."
        )
    if clock.dtype.kind not in "fiu":
        raise ObservationTypeError(f"times are of type {clock.dtype}; expected numbers.")
    return clock.astype(np.float64)


def _checked(paths: list[RawPath], names: Sequence[str] | None, time_unit: str | None, missing: Missing) -> Observations:
    if not paths:
        raise InvalidObservationsError("there are no paths. Pass at least one path with a few observations.")
    dims = {p.values.shape[1] for p in paths}
    if len(dims) > 1:
        raise InvalidObservationsError(f"paths have different numbers of components: {sorted(dims)}. Pass the same components.")
    kept = [_check_path(p, missing) for p in paths]
    values = np.concatenate([p.values for p in kept])
    starts = np.concatenate([[0], np.cumsum([len(p.values) for p in kept])])
    dim = values.shape[1]
    names = tuple(str(n) for n in names) if names is not None else tuple(f"x{j + 1}" for j in range(dim))
    if len(names) != dim:
        raise InvalidObservationsError(f"{len(names)} names given for {dim} components. Pass one name per component.")
    num_transitions = len(values) - len(paths)
    if num_transitions < MIN_TRANSITIONS:
        raise InvalidObservationsError(
            f"{len(values)} observations in {len(paths)} path(s) make {max(num_transitions, 0)} transitions; at least "
            f"{MIN_TRANSITIONS} are needed, and a few hundred for a useful estimate. Pass longer paths."
        )
    _check_components(values, names, max(p.rounding for p in paths))
    return Observations(values, np.concatenate([p.times for p in kept]), starts, names, time_unit)


def _check_path(p: RawPath, missing: Missing) -> RawPath:
    observed = p.observed
    if missing == "drop":
        observed = observed & ~np.isnan(p.values).any(axis=1)
    if not observed.any():
        raise InvalidObservationsError(f"nothing is observed in {p.label}: every entry is masked or missing. Leave it out.")
    bad = np.argwhere(~np.isfinite(p.values) & observed[:, None])
    if len(bad):
        i, j = bad[0]
        found, advice = p.values[i, j], "Mask it (mask=) or drop it (missing='drop')."
        raise InvalidObservationsError(
            f"{p.label} has the value {found} at {p.place(i)}, component {j}. "
            f"{advice if np.isnan(found) else 'Replace it or mask it (mask=).'}"
        )
    rows = np.flatnonzero(observed)
    times = p.times[rows]
    wrong = np.flatnonzero(~np.isfinite(times))
    if len(wrong):
        i = rows[wrong[0]]
        raise InvalidObservationsError(f"{p.label} has the time {p.times[i]} at {p.place(i)}. Every observation needs a finite time.")
    back = np.flatnonzero(np.diff(times) <= 0)
    if len(back):
        i, j = rows[back[0]], rows[back[0] + 1]
        raise InvalidObservationsError(
            f"times must increase along each path, but {p.label} has time {p.times[i]!r} at {p.place(i)} followed by "
            f"{p.times[j]!r} at {p.place(j)}. Sort the path, or split it where the clock restarts."
        )
    return RawPath(times, p.values[rows], observed[rows], p.label)


def _check_components(values: Float64[Array, "points dim"], names: tuple[str, ...], rounding: float) -> None:
    spread = values.max(axis=0) - values.min(axis=0)
    threshold = 16 * rounding * np.abs(values).max(axis=0)
    for j in np.flatnonzero(spread <= threshold):
        raise InvalidObservationsError(
            f"component {names[j]!r} (number {j}) is constant: its range is {spread[j]:.3g}, not above the rounding threshold "
            f"{threshold[j]:.3g}. Remove it, or pass the data in a precision and an offset that resolve it."
        )
    low, high = np.quantile(values, [0.05, 0.95], axis=0)
    share = (high - low) / _std(values, spread)
    for j in np.flatnonzero(share < _RESOLUTION):
        warnings.warn(
            f"component {names[j]!r} is dominated by outliers: its central 90 % span {share[j]:.1e} standard deviations, so "
            f"little resolution is left for them. Remove the outliers, or transform the component.",
            DataWarning,
            stacklevel=4,
        )


def _std(values: Float64[Array, "points dim"], spread: Float64[Array, " dim"]) -> Float64[Array, " dim"]:
    return np.std(values / spread, axis=0) * spread  # scaled first: squares of 1e200 would overflow
