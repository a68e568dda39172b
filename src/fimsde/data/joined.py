"""A time that is spread over several columns: year, month and day, or a date and a time of day.

They are joined into one more column, called by their names with a blank between; nothing else changes.
"""

import re
from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np
import pandas as pd

from fimsde.data.dates import parse_dates
from fimsde.data.headers import joinable
from fimsde.shapes import Array, Shaped

_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[AaPp][Mm])?")
_FIELDS = ("year", "month", "day", "hour", "minute", "second")  # as pandas calls them


def with_joined(frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """The frame with a column of dates, if others are the parts of one."""
    for name, parts in joinable(frame.columns).items():
        cells = [frame.get_column(part).to_numpy() for part in parts]
        dates = _date_and_time(*cells) if len(cells) == 2 and cells[1].dtype.kind in "OUT" else _calendar(cells)
        if dates is not None:
            return frame.with_columns(nw.new_series(name, dates, backend=frame.implementation))
    return frame


def _calendar(cells: Sequence[Shaped[Array, " rows"]]) -> Shaped[Array, " rows"] | None:
    """Dates of years, months and what follows; None if the numbers are none, or the month is always the same."""
    numbers = [pd.to_numeric(pd.Series(own), errors="coerce") for own in cells]
    fields = dict(zip(_FIELDS, numbers, strict=False))
    years, months = fields["year"], fields["month"]
    if months.nunique() < 2 or not (years.between(1000, 9999).all() and months.between(1, 12).all()):
        return None
    dates = pd.to_datetime(pd.DataFrame({"day": 1, **fields}), errors="coerce")
    return None if dates.isna().any() else dates.to_numpy()


def _date_and_time(day: Shaped[Array, " rows"], clock: Shaped[Array, " rows"]) -> Shaped[Array, " rows"] | None:
    """Dates with their times of day; None if the cells are something else."""
    times = pd.Series(clock).astype(str).str.strip()
    if not times.str.fullmatch(_TIME_OF_DAY).all():
        return None
    stamps = pd.Series(day)
    is_date = stamps.dtype.kind == "M"
    texts = stamps.dt.strftime("%Y-%m-%d") if is_date else stamps.astype(str).str.strip()
    dates, _ = parse_dates(np.array(texts + " " + times, dtype=object))
    return None if dates.isna().any() else dates.to_numpy()
