"""Drift and diffusion along one axis of the state space, to zoom into and to point at."""

from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from fimsde.analysis.box import to_box
from fimsde.plots import BandSettings, style
from fimsde.plots.sections import WIDEN
from fimsde.results.result import Result
from fimsde.shapes import Array, Float64

_NODES = 121  # of a curve; by hand: smooth to the eye on the width of a page
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
        y=alt.Y("value:Q", title=label.split("\n"), scale=alt.Scale(zero=False))
    )
    points = base.mark_point(size=120, opacity=0).encode(y="value:Q", tooltip=tips)
    zoom = alt.selection_interval(bind="scales", encodings=["x"])
    return alt.layer(*layers, line, points.add_params(zoom)).properties(height=260)


def _grey(rows: pd.DataFrame, title: str) -> Any:
    """Stretches without data nearby, over the whole height."""
    inside = style.without_stripes((rows["near"] == "yes").to_numpy())
    stretches = pd.DataFrame(style.unsupported(rows["x"].to_numpy(), inside), columns=["from", "to"], dtype=float)
    rectangles = alt.Chart(stretches).mark_rect(color=style.UNSUPPORTED, clip=True)
    return rectangles.encode(x=alt.X("from:Q", title=title), x2="to:Q")
