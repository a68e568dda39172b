"""Where an equation wants to be: potentials with fixed points, and stationary density against the histogram."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize

from fimsde.analysis.box import Box
from fimsde.analysis.density import StationaryDensity
from fimsde.analysis.fixed_points import FixedPoint
from fimsde.plots import style
from fimsde.plots.planes import Extent, draw_image, grey_out, mark_fixed_points
from fimsde.plots.style import Picture
from fimsde.results.result import Result
from fimsde.shapes import Array, Float64

# of a quasi-potential that colours resolve: e^-10 of the largest density; by hand: rarer states are never seen
_DEPTH = 10.0
_FEWEST_BINS, _PER_BIN = 5, 4  # of histograms of few states; by hand: their look


@matplotlib.rc_context(style.LOOK)
def plot_potential(result: Result, *, box: Box | None = None) -> Picture:
    """Drift and effective potential of a 1-D equation, or the quasi-potential of a 2-D one, with fixed points.

    Args:
        result: An equation in one or two dimensions.
        box: Where; by default where the data are.
    """
    if result.dim == 2:
        return _plot_quasi_potential(result, box)
    potential, points = result.potential(box), result.fixed_points(box)
    name, time = result.names[0], result.time_unit
    quantity, unit = style.split_unit(name)
    squared = f"{unit}²" if " " not in unit and "/" not in unit else f"({unit})²"
    figure = style.new_figure(2.9)
    left, right = figure.subplots(1, 2)
    for axes, values, label, title in (
        (left, potential.drift_potential, f"-∫ f dx ({style.drift_unit(squared, time)})", "drift potential"),
        (right, potential.effective_potential, "ln g - ∫ 2 f / g dx (no unit)", "effective potential"),
    ):
        axes.plot(potential.x, values, color=style.ESTIMATE)
        style.shade_unsupported(axes, potential.x, result.inside(potential.x[:, None]))
        _mark_on_curve(axes, potential.x, values, points)
        if result.observations is not None:
            style.rug(axes, result.observations.values[:, 0])
        axes.set(xlabel=style.state_label(name), ylabel=label, xlim=(float(potential.x[0]), float(potential.x[-1])))
        axes.set_title(f"{title} of {quantity}")
        axes.set_ylim(*(style.limits(values, margin=0.06) or (0, 1)))
    style.legend_below(figure, left)
    return figure


@matplotlib.rc_context(style.LOOK)
def plot_density(result: Result, *, box: Box | None = None) -> Picture:
    """The stationary density of a 1-D or 2-D equation against the histogram of the data.

    Args:
        result: An equation in one or two dimensions.
        box: Reflecting walls; by default around the data.
    """
    density = result.stationary_density(box)
    if result.dim == 1:
        figure = style.new_figure(2.8, style.WIDTH * 0.6)
        axes = figure.subplots()
        _draw_marginal(axes, density, 0, result)
        figure.legend(loc="outside lower center", ncols=2)
        return figure
    figure = style.new_figure(5.2)
    top, bottom = figure.subplots(2, 2)
    largest = float(density.density.max())
    smallest = largest * np.exp(-_DEPTH)
    norm = LogNorm(smallest, largest)
    units = " · ".join(style.split_unit(n)[1] for n in result.names)
    for axes, values, title in ((top[0], density.density, "stationary"), (top[1], _spread(density), "observed")):
        if values is None:
            axes.set_axis_off()
            continue
        draw_image(
            axes, np.maximum(values, smallest), _extent(density.axes), norm, style.SIZES, f"density (1 / ({units}))"
        )
        axes.set(xlabel=style.state_label(result.names[0]), ylabel=style.state_label(result.names[1]))
        axes.set_title(title)
    for j, axes in enumerate(bottom):
        _draw_marginal(axes, density, j, result)
    figure.legend(*bottom[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure


def _plot_quasi_potential(result: Result, box: Box | None) -> Picture:
    quasi = result.quasi_potential(box)
    figure = style.new_figure(3.4, style.WIDTH * 0.6)
    axes = figure.subplots()
    draw_image(
        axes,
        quasi.values,
        _extent(quasi.axes),
        Normalize(0, _DEPTH),
        style.SIZES + "_r",
        "quasi-potential -ln p (no unit)",
    )
    axes.contour(*quasi.axes, quasi.values.T, np.arange(1, _DEPTH), colors="white", linewidths=0.5, alpha=0.8)
    nodes = np.stack(np.meshgrid(*quasi.axes, indexing="ij"), axis=-1).reshape(-1, 2)
    grey_out(axes, result.inside(nodes).reshape(quasi.values.shape), _extent(quasi.axes))
    mark_fixed_points(axes, result.fixed_points(box))
    axes.set(xlabel=style.state_label(result.names[0]), ylabel=style.state_label(result.names[1]))
    style.legend_below(figure, axes)
    return figure


def _extent(axes: tuple[Float64[Array, " cells"], ...]) -> Extent:
    (a, *_, b), (c, *_, d) = (axis.tolist() for axis in axes)
    return a, b, c, d


def _draw_marginal(axes: Axes, density: StationaryDensity, component: int, result: Result) -> None:
    quantity, unit = style.split_unit(result.names[component])
    if density.histogram is not None:
        edges = density.bin_edges
        others = tuple(k for k in range(density.histogram.ndim) if k != component)
        shares = density.histogram.sum(axis=others) * float(np.prod([np.diff(edges[k])[0] for k in others]))
        every = _merged(len(shares), result)
        axes.stairs(
            shares.reshape(-1, every).mean(axis=1), edges[component][::every], fill=True, color="0.8", label="observed"
        )
    axes.plot(density.axes[component], density.marginal(component), color=style.ESTIMATE, label="stationary")
    axes.set(
        xlabel=style.state_label(result.names[component]), ylabel=style.broken(f"density of {quantity} (1 / {unit})")
    )
    axes.set_ylim(bottom=0)


def _merged(bins: int, result: Result) -> int:
    """How many bins are drawn as one, so that of a short record some states are in each on average."""
    wanted = bins if result.observations is None else result.observations.num_points // _PER_BIN
    wanted = max(wanted, _FEWEST_BINS)
    return next(k for k in range(1, bins + 1) if bins % k == 0 and bins // k <= wanted)


def _spread(density: StationaryDensity) -> Float64[Array, "cells cells"] | None:
    """The histogram on the cells of the density."""
    if density.histogram is None:
        return None
    merge = density.density.shape[0] // density.histogram.shape[0]
    return np.kron(density.histogram, np.ones((merge, merge)))


def _mark_on_curve(
    axes: Axes, x: Float64[Array, " nodes"], values: Float64[Array, " nodes"], points: tuple[FixedPoint, ...]
) -> None:
    for stable, face, label in ((True, style.ESTIMATE, "stable"), (False, "white", "not stable")):
        at = np.array([float(p.x[0]) for p in points if p.inside and p.is_stable == stable])
        if len(at):
            heights = np.interp(at, x, values)
            axes.plot(at, heights, "o", ms=5.5, mfc=face, mec=style.ESTIMATE, mew=1.2, label=label, zorder=4)
