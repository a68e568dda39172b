"""Curves of drift and diffusion with their bands: along the axis in 1-D, along lines through the data otherwise."""

from dataclasses import dataclass
from typing import Literal

import matplotlib
import numpy as np
from matplotlib.axes import Axes

from fimsde.analysis.box import Box, to_box
from fimsde.equations.sde import SDE, fields
from fimsde.plots import style
from fimsde.plots.bands import BandSettings
from fimsde.plots.style import Picture
from fimsde.results.result import Result
from fimsde.shapes import Array, Bool, Float64

WIDEN = 0.05  # of the range of the data, on both sides; by hand: curves do not end at the frame
_NODES, _ALONE = 81, 241  # of a curve: one of several, and a single one; by hand: smooth to the eye


@dataclass(frozen=True, eq=False)
class _Line:
    """Both fields along one axis; the other components rest at their medians."""

    axis: int
    x: Float64[Array, "nodes dim"]
    inside: Bool[Array, " nodes"]
    centre: tuple[Float64[Array, "nodes dim"], Float64[Array, "nodes dim"]]  # drift, diffusion
    low: tuple[Float64[Array, "nodes dim"], Float64[Array, "nodes dim"]] | None
    high: tuple[Float64[Array, "nodes dim"], Float64[Array, "nodes dim"]] | None
    truth: tuple[Float64[Array, "nodes dim"], Float64[Array, "nodes dim"]] | None


@matplotlib.rc_context(style.LOOK)
def plot_curves(
    result: Result, *, box: Box | None = None, bands: BandSettings | None = None, truth: SDE | None = None
) -> Picture:
    """Drift and diffusion of a one-dimensional equation, with band, fixed points and a rug of the data.

    Args:
        result: The equation.
        box: From where to where; by default the range of the data and a little more.
        bands: How bands are made.
        truth: Another equation to draw beside it, dashed.
    """
    settings = bands or BandSettings()
    line = _line(result, 0, to_box(box, result.dim, result.observations, WIDEN), settings, truth)
    figure = style.new_figure(2.9)
    drift, diffusion = figure.subplots(1, 2)
    for axes, which in ((drift, 0), (diffusion, 1)):
        _draw(axes, line, which, 0, result, settings.level)
    drift.axhline(0, color="0.6", lw=0.7, zorder=0.5)
    diffusion.set_ylim(bottom=min(0.0, diffusion.get_ylim()[0]) if _reaches_zero(line) else None)
    drift.set_ylabel(style.drift_label(result.names[0], result.time_unit))
    diffusion.set_ylabel(style.diffusion_label(result.names[0], result.time_unit))
    drift.set_title("drift")
    diffusion.set_title("diffusion")
    _mark_fixed_points(drift, result, box)
    style.legend_below(figure, drift)
    return figure


@matplotlib.rc_context(style.LOOK)
def plot_sections(
    result: Result,
    which: Literal["drift", "diffusion"] = "drift",
    *,
    box: Box | None = None,
    bands: BandSettings | None = None,
    truth: SDE | None = None,
) -> Picture:
    """One field along lines through the median of the data: a row per component, a column per axis walked along.

    Args:
        result: The equation.
        which: The field.
        box: Where lines end; by default the range of the data and a little more.
        bands: How bands are made.
        truth: Another equation to draw beside it, dashed.
    """
    settings = bands or BandSettings()
    corners = to_box(box, result.dim, result.observations, WIDEN)
    label = style.drift_label if which == "drift" else style.diffusion_label
    figure = style.new_figure(0.5 + 1.9 * result.dim)
    grid = figure.subplots(result.dim, result.dim, sharex="col", squeeze=False)
    for j in range(result.dim):
        line = _line(result, j, corners, settings, truth)
        for i in range(result.dim):
            _draw(grid[i, j], line, 0 if which == "drift" else 1, i, result, settings.level)
            grid[i, j].set_xlabel(style.state_label(result.names[j]) if i == result.dim - 1 else "")
            if which == "drift":
                grid[i, j].axhline(0, color="0.6", lw=0.7, zorder=0.5)
    for i in range(result.dim):
        grid[i, 0].set_ylabel(label(result.names[i], result.time_unit).replace(" (", "\n("))
    style.legend_below(figure, grid[0, 0])
    between = "\n" if result.dim > 2 else " "  # a phone shows one column
    figure.suptitle(f"{which} along each axis,{between}others at their median", x=0.01, ha="left", fontsize=9)
    return figure


def _line(
    result: Result,
    axis: int,
    corners: tuple[Float64[Array, " dim"], Float64[Array, " dim"]],
    settings: BandSettings,
    truth: SDE | None,
) -> _Line:
    low, high = corners
    data = result.observations
    middle = (low + high) / 2 if data is None else np.median(data.values, axis=0)
    x = np.tile(middle, (_ALONE if result.dim == 1 else _NODES, 1))
    x[:, axis] = np.linspace(low[axis], high[axis], len(x))
    band = settings.of(result, x)
    return _Line(
        axis=axis,
        x=x,
        inside=style.without_stripes(result.inside(x)),
        centre=result.fields(x),
        low=None if band is None else (band.drift_low, band.diffusion_low),
        high=None if band is None else (band.drift_high, band.diffusion_high),
        truth=None if truth is None else fields(truth, x),
    )


def _draw(axes: Axes, line: _Line, which: int, component: int, result: Result, level: float) -> None:
    x, centre = line.x[:, line.axis], line.centre[which][:, component]
    style.shade_unsupported(axes, x, line.inside)
    shown = [centre[line.inside]]
    if line.low is not None and line.high is not None:
        low, high = line.low[which][:, component], line.high[which][:, component]
        axes.fill_between(x, low, high, color=style.ESTIMATE, alpha=0.22, lw=0, label=f"{level:.0%} band")
        shown += [low[line.inside], high[line.inside]]
    if line.truth is not None:
        truth = line.truth[which][:, component]
        axes.plot(x, truth, color=style.TRUTH, ls=(0, (4, 2)), lw=1.1, label="truth", zorder=3)
        shown.append(truth[line.inside])
    axes.plot(x, centre, color=style.ESTIMATE, label="estimate", zorder=2.5)
    axes.set_xlim(float(x[0]), float(x[-1]))
    if which == 1 and line.inside.any():  # a nearly constant diffusion must not look like a wild one
        shown.append(np.nanmean(shown[0]) * np.array([0.8, 1.2]))
    if ends := style.limits(*shown, margin=0.12):
        axes.set_ylim(*ends)
    if result.observations is not None:
        style.rug(axes, result.observations.values[:, line.axis])
    axes.set_xlabel(style.state_label(result.names[line.axis]))
    axes.locator_params(nbins=5)


def _mark_fixed_points(axes: Axes, result: Result, box: Box | None) -> None:
    points = [p for p in result.fixed_points(box) if p.inside]
    for stable, face, label in ((True, style.ESTIMATE, "stable"), (False, "white", "not stable")):
        x = [float(p.x[0]) for p in points if p.is_stable == stable]
        if x:
            axes.plot(x, np.zeros(len(x)), "o", ms=5.5, mfc=face, mec=style.ESTIMATE, mew=1.2, label=label, zorder=4)


def _reaches_zero(line: _Line) -> bool:
    """Whether zero belongs into the panel of the diffusion: it varies by more than half of its size, or nearly does."""
    centre = line.centre[1][line.inside]
    return bool(len(centre)) and float(np.nanmin(centre)) < 0.6 * float(np.nanmax(centre))
