"""Frames of pandas and xarray as plain tables: what they keep beside the columns (index, coordinates) joins them."""

from typing import Any

import pandas as pd

from fimsde.errors import InvalidObservationsError

_COMPONENTS = ("component", "components", "variable", "variables", "feature", "dim", "axis")  # names of an axis


def is_labelled(source: Any) -> bool:
    """Whether a source is a pandas Series or an xarray object, neither of which has columns."""
    kind = type(source)
    return (kind.__module__.startswith("pandas") and kind.__name__ == "Series") or _is_xarray(source)


def to_frame(native: Any, time: str | None, path: str | None) -> Any:
    """A frame whose columns are all there is; frames of other libraries as they are.

    Of the index of a pandas frame the named levels become columns, and one without a name if it holds dates or
    fractions: row numbers do not.
    """
    if _is_xarray(native):
        native = _melted(native)
    if isinstance(native, pd.Series):
        native = native.to_frame("x" if native.name is None else str(native.name))
    if not isinstance(native, pd.DataFrame):
        return native
    names = list(native.index.names)
    levels = [name for name in names if name is not None and name not in native.columns]
    if names == [None] and time is None and (native.index.dtype.kind in "mMf" or _is_period(native.index)):
        index = native.index.to_timestamp() if _is_period(native.index) else native.index
        return native.set_axis(index.rename("index"), axis=0).reset_index().rename(columns=str)
    asked = [name for name in (time, path) if name in levels]
    hidden = levels if time is None else asked
    return (native.reset_index(hidden) if hidden else native).rename(columns=str)


def _is_period(index: pd.Index) -> bool:
    return isinstance(index, pd.PeriodIndex)


def _is_xarray(source: Any) -> bool:
    return type(source).__module__.startswith("xarray")


def _melted(source: Any) -> pd.DataFrame:
    """An xarray object as a long table: a row for every combination of coordinates, a column for every component."""
    if not hasattr(source, "data_vars"):  # a DataArray
        axis = next((str(dim) for dim in source.dims if str(dim).lower() in _COMPONENTS), None)
        if axis is None:
            source = source.to_dataset(name="x" if source.name is None else str(source.name))
        else:
            labels = [f"x{k + 1}" for k in range(source.sizes[axis])]
            if axis in source.coords:
                labels = [str(label) for label in source.coords[axis].values]
            parts = {label: source.isel({axis: k}, drop=True) for k, label in enumerate(labels)}
            source = type(source.to_dataset(name="x"))(parts)
    if len(source.dims) > 2:
        raise InvalidObservationsError(
            f"this xarray object has the dimensions {', '.join(map(str, source.dims))}; expected a time and at most "
            "one that tells paths apart. Select a part of it, or stack the others."
        )
    return source.to_dataframe().reset_index()
