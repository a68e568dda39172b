"""Charts to zoom into and to point at: the data, drift and diffusion along an axis, forecasts."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from fimsde.analysis.box import to_box
from fimsde.data.columns import Column
from fimsde.plots import BandSettings, style
from fimsde.plots.sections import WIDEN
from fimsde.results.result import Result
from fimsde.shapes import Array, Float64

_NODES = 121  # of a curve; by hand: smooth to the eye on the width of a page
_PATHS, _POINTS = 5, 3000  # of the plot of the data; by hand: paths that can be told apart, points that fit a screen
_SHADE = 0.2  # opacity of the grey where no data are; by hand: seen on white and on black
_LEAST = 0.3  # height of an axis as a share of the values on it; by hand
_TIPS = (
    ("x", "Q", "state"),
    ("value", "Q", "estimate"),
    ("low", "Q", "band from"),
    ("high", "Q", "band to"),
    ("near", "N", "data nearby"),
)


def along_axis(result: Result, axis: int, state: Float64[Array, " dim"]) -> Float64[Array, "nodes dim"]:
    """States on a line through a state: one component as far as in the figures, the others as they are."""
    low, high = to_box(None, result.dim, result.observations, WIDEN)
    x = np.tile(state, (_NODES, 1))
    x[:, axis] = np.linspace(low[axis], high[axis], _NODES)
    return x


def curve_table(result: Result, bands: BandSettings, axis: int, state: Float64[Array, " dim"]) -> pd.DataFrame:
    """Fields with bands on a line: a row for every node, component and field."""
    x = along_axis(result, axis, state)
    drift, diffusion = result.fields(x)
    band = bands.of(result, x)
    near = np.where(result.inside(x), "yes", "no")
    parts = []
    for j in range(result.dim):
        for field, values in (("drift", drift), ("diffusion", diffusion)):
            ends = {}
            if band is not None:
                ends = {end: getattr(band, f"{field}_{end}")[:, j] for end in ("low", "high")}
            part = {"x": x[:, axis], "value": values[:, j], **ends, "field": field, "component": j, "near": near}
            parts.append(pd.DataFrame(part))
    return pd.concat(parts, ignore_index=True)


def chart(result: Result, found: pd.DataFrame, axis: int, field: str, component: int) -> Any:
    """One field of one component as a chart with band, tooltips, and grey where no data are nearby."""
    rows = found[(found["field"] == field) & (found["component"] == component)]
    label_of = style.drift_label if field == "drift" else style.diffusion_label
    label = label_of(result.names[component], result.time_unit)
    along = alt.X("x:Q", title=style.state_label(result.names[axis]), scale=alt.Scale(zero=False, nice=False))
    base = alt.Chart(rows).encode(x=along)
    layers = [_grey(rows, style.state_label(result.names[axis]))]
    if "low" in rows:
        layers.append(base.mark_area(color=style.ESTIMATE, opacity=0.25, clip=True).encode(y="low:Q", y2="high:Q"))
    tips = [alt.Tooltip(f"{key}:{kind}", title=title) for key, kind, title in _TIPS if key in rows]
    line = base.mark_line(color=style.ESTIMATE, clip=True).encode(
        y=alt.Y("value:Q", title=label.split("\n"), scale=alt.Scale(zero=False, domain=_ends(rows)))
    )
    points = base.mark_point(size=120, opacity=0).encode(y="value:Q", tooltip=tips)
    zoom = alt.selection_interval(bind="scales", encodings=["x"])
    return alt.layer(*layers, line, points.add_params(zoom)).properties(height=260)


def _ends(rows: pd.DataFrame) -> list[float]:
    """Ends of an axis that shows a curve and its band where data are; a constant is not magnified."""
    near = rows[rows["near"] == "yes"] if (rows["near"] == "yes").any() else rows
    shown = near[[name for name in ("value", "low", "high") if name in rows]].to_numpy()
    low, high = style.limits(shown) or (0.0, 1.0)
    more = max(_LEAST * float(np.nanmax(np.abs(shown), initial=0.0)) - (high - low), 0.0) / 2
    return [low - more, high + more]


def _grey(rows: pd.DataFrame, title: str) -> Any:
    """Stretches without data nearby, over the whole height."""
    inside = style.without_stripes((rows["near"] == "yes").to_numpy())
    stretches = pd.DataFrame(style.unsupported(rows["x"].to_numpy(), inside), columns=["from", "to"], dtype=float)
    rectangles = alt.Chart(stretches).mark_rect(color="gray", opacity=_SHADE, clip=True)  # on pages of any colour
    return rectangles.encode(x=alt.X("from:Q", title=title), x2="to:Q")


def series(columns: Sequence[Column], time: str | None, path: str | None, values: Sequence[str]) -> Any:
    """The chosen columns against time, some rows of the first few paths: what the data look like."""
    known = {column.name: column for column in columns}
    groups = known[path].groups if path is not None else np.zeros(len(columns[0].order), int)
    firsts = list(dict.fromkeys(groups.tolist()))[:_PATHS]
    rows = np.flatnonzero(np.isin(groups, firsts))
    rows = rows[:: -(-len(rows) // _POINTS)]
    clock = known[time].order if time is not None else np.arange(len(groups), dtype=float)
    first = None if time is None else known[time].first
    is_date = first is not None
    shown = clock[rows] if first is None else first + pd.to_timedelta(clock[rows], unit="s")
    parts = [
        pd.DataFrame({"time": shown, "value": known[name].order[rows], "path": groups[rows], "component": name})
        for name in values
    ]
    title = time if time is not None else "row"
    more = "" if len(set(groups.tolist())) <= _PATHS else f" (first {_PATHS} paths)"
    panels = [
        alt.Chart(part)
        .mark_line(strokeWidth=1)
        .encode(
            x=alt.X("time:T" if is_date else "time:Q", title=f"{title}{more}", scale=alt.Scale(nice=False)),
            y=alt.Y("value:Q", title=style.state_label(name).split("\n"), scale=alt.Scale(zero=False)),
            color=alt.Color("path:N", legend=None, scale=alt.Scale(range=list(style.PALETTE))),
        )
        .properties(height=160, width="container")
        for name, part in zip(values, parts, strict=True)
    ]
    return panels[0] if len(panels) == 1 else alt.vconcat(*panels)


def forecast_chart(seen: pd.DataFrame, ahead: pd.DataFrame, name: str, time_title: str) -> Any:
    """The end of the record and the law of what follows: median, and the middle half and nine tenths."""
    rows = ahead[ahead["component"] == name]
    along = alt.X("time:Q", title=time_title, scale=alt.Scale(zero=False, nice=False))
    title = style.state_label(name)
    base = alt.Chart(rows).encode(x=along)
    wide = base.mark_area(color=style.SIMULATED, opacity=0.2).encode(
        y=alt.Y("q0\\.05:Q", title=title, scale=alt.Scale(zero=False)), y2="q0\\.95:Q"
    )
    middle = base.mark_area(color=style.SIMULATED, opacity=0.3).encode(y="q0\\.25:Q", y2="q0\\.75:Q")
    line = base.mark_line(color=style.SIMULATED).encode(y="q0\\.5:Q")
    before = alt.Chart(seen).mark_line(color="gray", strokeWidth=1).encode(x=along, y="value:Q")
    return alt.layer(wide, middle, line, before).properties(height=240)
