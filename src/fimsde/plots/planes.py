"""Maps of drift and diffusion: the plane of a 2-D equation, slices through the median of the data in more."""

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm, Normalize, TwoSlopeNorm

from fimsde.analysis.band import Band
from fimsde.analysis.box import Box, to_box
from fimsde.analysis.fixed_points import FixedPoint
from fimsde.data.grid import regular_grid
from fimsde.equations.sde import correlation, covariance_rate
from fimsde.errors import ConfigError
from fimsde.plots import style
from fimsde.plots.bands import BandSettings
from fimsde.plots.style import Picture
from fimsde.results.result import Result
from fimsde.shapes import Array, Bool, Float, Float64

WIDEN = 0.05  # of the range of the data, on every side; by hand: points do not touch the frame
_NODES = 61  # per axis of a map; by hand: smooth to the eye, within seconds
# per axis of the map of the band, whose fields are evaluated once per resample; by hand: bounds seconds
_BAND_NODES = 25
# percent of the supported values that the colours resolve; by hand: extremes at the edge do not fade the rest
_SHOWN = (2, 98)
_ELLIPSES = 7  # per axis of the plane; by hand: they do not touch
_MOST_DOTS = 1500  # observed states drawn; by hand: the map stays visible under them

Extent = tuple[float, float, float, float]  # ends of the horizontal, then of the vertical axis


@dataclass(frozen=True, eq=False)
class Plane:
    """Both fields on a grid over two axes; the other components rest at their medians."""

    axes: tuple[int, int]
    low: Float64[Array, " dim"]
    high: Float64[Array, " dim"]
    drift: Float64[Array, "nodes nodes dim"]
    diffusion: Float64[Array, "nodes nodes dim"]
    inside: Bool[Array, "nodes nodes"]

    @property
    def extent(self) -> Extent:
        """Where the outermost nodes are."""
        i, j = self.axes
        return float(self.low[i]), float(self.high[i]), float(self.low[j]), float(self.high[j])

    def nodes(self, axis: int) -> Float64[Array, " nodes"]:
        """Nodes along one axis."""
        return np.linspace(self.low[axis], self.high[axis], len(self.inside))


@matplotlib.rc_context(style.LOOK)
def plot_plane(result: Result, *, box: Box | None = None, bands: BandSettings | None = None) -> Picture:
    """A 2-D equation: stream lines of the drift, width of its band, and a map of every component of both fields.

    Args:
        result: The equation.
        box: Corners of the maps; by default those of the data and a little more.
        bands: How bands are made.
    """
    if result.dim != 2:
        raise ConfigError(f"the equation has {result.dim} components; a plane shows two. See plot_slices and plot().")
    low, high = to_box(box, 2, result.observations, WIDEN)
    plane = read_plane(result, (0, 1), low, high)
    settings = bands or BandSettings()
    band = settings.of(result, regular_grid(low, high, _BAND_NODES))
    figure = style.new_figure((8.6 if band else 8.2) * (1.0 if result.is_diagonal else 4 / 3))
    num_rows = 3 if result.is_diagonal else 4
    (stream, second), drift, diffusion, *noise = figure.subplots(num_rows, 2, sharex=True, sharey=True)
    _draw_stream(stream, plane, result)
    if band is None:
        _draw_observed(second, plane, result)
    else:
        _draw_band(second, plane, result, band)
    for j in range(2):
        _draw_map(drift[j], plane, plane.drift[..., j], style.drift_label(result.names[j], result.time_unit), True)
        label = style.diffusion_label(result.names[j], result.time_unit)
        _draw_map(diffusion[j], plane, plane.diffusion[..., j], label, False)
    drawn = mark_fixed_points(stream, result.fixed_points(box))
    for rho, ellipses in noise:
        _draw_correlation(rho, plane, result)
        _draw_ellipses(ellipses, plane, result)
    for axes in (stream, drift[0], diffusion[0], *(row[0] for row in noise)):
        axes.set_ylabel(style.state_label(result.names[1]))
    for axes in noise[-1] if noise else diffusion:
        axes.set_xlabel(style.state_label(result.names[0]))
    style.legend_below(figure, stream if drawn else second)
    return figure


@matplotlib.rc_context(style.LOOK)
def plot_slices(result: Result, *, box: Box | None = None) -> Picture:
    """An equation on planes through the median of the data: drift and size of the diffusion.

    Three components make three planes; of more, each is on one plane, with its neighbour.

    Args:
        result: The equation.
        box: Corners of the slices; by default those of the data and a little more.
    """
    if result.dim < 3:
        raise ConfigError(
            f"the equation has {result.dim} components; slices show three or more. See plot_plane, plot()."
        )
    low, high = to_box(box, result.dim, result.observations, WIDEN)
    pairs = _pairs_shown(result.dim)
    figure = style.new_figure(8.6 / 3 * len(pairs))
    for (left, right), pair in zip(figure.subplots(len(pairs), 2, squeeze=False), pairs, strict=True):
        plane = read_plane(result, pair, low, high)
        _draw_stream(left, plane, result)
        size = _in_deviations(plane.diffusion, result, plane)
        per_time = f"std / √{style.time_word(result.time_unit)}"
        _draw_map(right, plane, size, f"size of the diffusion √g ({per_time})", False)
        others = [k for k in range(result.dim) if k not in pair]
        at = f"{style.split_unit(result.names[others[0]])[0]} = {_middle(result, low, high)[others[0]]:.3g}"
        at = at if len(others) == 1 else "the median of the others"
        left.set_title(f"drift at {at}")
        right.set_title(f"diffusion at {at}")
        for axes in (left, right):
            axes.set_xlabel(style.state_label(result.names[pair[0]]))
            axes.set_ylabel(style.state_label(result.names[pair[1]]))
    style.legend_below(figure, left)
    return figure


def _pairs_shown(dim: int) -> list[tuple[int, int]]:
    """All three pairs of three components; of more, neighbours, so that every component is shown."""
    if dim == 3:
        return [(0, 1), (0, 2), (1, 2)]
    return [(k, k + 1) if k + 1 < dim else (k - 1, k) for k in range(0, dim, 2)]


def read_plane(
    result: Result, pair: tuple[int, int], low: Float64[Array, " dim"], high: Float64[Array, " dim"]
) -> Plane:
    """Ask the equation on a grid over two of its axes."""
    nodes = regular_grid(low[list(pair)], high[list(pair)], _NODES)
    x = np.tile(_middle(result, low, high), (len(nodes), 1))
    x[:, list(pair)] = nodes
    drift, diffusion = result.fields(x)
    shape = (_NODES, _NODES, result.dim)
    return Plane(pair, low, high, drift.reshape(shape), diffusion.reshape(shape), result.inside(x).reshape(shape[:2]))


def mark_fixed_points(axes: Axes, points: Sequence[FixedPoint]) -> bool:
    """Circles, filled if stable; those without data nearby are left out. True if there is any."""
    known = [p for p in points if p.inside]
    for stable, face, label in ((True, "black", "stable"), (False, "white", "not stable")):
        x = np.array([p.x for p in known if p.is_stable == stable]).reshape(-1, 2)
        if len(x):
            axes.plot(*x.T, "o", ms=6, mfc=face, mec="black", mew=1.3, label=label, zorder=5, ls="none")
    return bool(known)


def draw_image(
    axes: Axes, values: Float[Array, "rows columns"], extent: Extent, norm: Normalize, cmap: str, label: str
) -> None:
    """Colours between nodes that lie on a regular grid over `extent`, both ends included, with their scale."""
    half = [(b - a) / (n - 1) / 2 for a, b, n in zip(extent[::2], extent[1::2], values.shape, strict=True)]
    a, b, c, d = extent
    image = axes.imshow(
        values.T, extent=(a - half[0], b + half[0], c - half[1], d + half[1]), origin="lower", aspect="auto",
        norm=norm, cmap=cmap, interpolation="bilinear",
    )  # fmt: skip
    known = values[np.isfinite(values)]
    below, above = bool(np.any(known < norm.vmin)), bool(np.any(known > norm.vmax))
    extend = {(True, True): "both", (True, False): "min", (False, True): "max"}.get((below, above), "neither")
    plain = "%g" if isinstance(norm, LogNorm) else None  # powers of ten would need mathematical text
    axes.figure.colorbar(image, ax=axes, label=label, extend=extend, pad=0.02, format=plain)
    axes.set(xlim=(a, b), ylim=(c, d))


def grey_out(axes: Axes, inside: Bool[Array, "rows columns"], extent: Extent, alpha: float = 1.0) -> None:
    """Grey over places without data, with their border."""
    if inside.all():
        return
    a, b = (np.linspace(*ends, n) for ends, n in zip((extent[:2], extent[2:]), inside.shape, strict=True))
    outside = (~inside).T.astype(float)
    axes.contourf(a, b, outside, [0.5, 1.5], colors=[style.UNSUPPORTED], alpha=alpha, zorder=3)
    if inside.any():
        axes.contour(a, b, outside, [0.5], colors="0.5", linewidths=0.7, zorder=3.1)


def _draw_stream(axes: Axes, plane: Plane, result: Result) -> None:
    i, j = plane.axes
    speed = _in_deviations(plane.drift[..., [i, j]], result, plane, (i, j)).T
    norm = Normalize(0, percentiles(speed, plane.inside.T)[1])
    u, v = plane.drift[..., i].T, plane.drift[..., j].T
    for axis in (i, j):
        gaps = np.diff(plane.nodes(axis))
        if not np.allclose(gaps, gaps.mean(), rtol=1e-6):
            raise ConfigError(
                f"{result.names[axis]!r} lies so far from zero that its digits do not resolve a picture. Subtract an "
                "offset, e.g. with observations.with_units(offset=...)."
            )
    stream = axes.streamplot(
        plane.nodes(i), plane.nodes(j), u, v, color=speed, norm=norm, cmap=style.SIZES, density=1.05, linewidth=0.9,
        arrowsize=0.8, zorder=2,
    )  # fmt: skip
    unit = f"std / {style.time_word(result.time_unit)}"
    axes.figure.colorbar(stream.lines, ax=axes, label=f"speed of the drift ({unit})", extend="max", pad=0.02)
    _draw_dots(axes, result, (i, j))
    grey_out(axes, plane.inside, plane.extent, alpha=0.88)
    axes.set_title("drift")
    axes.set(xlim=plane.extent[:2], ylim=plane.extent[2:])


def _draw_correlation(axes: Axes, plane: Plane, result: Result) -> None:
    """The correlation of the noise of the two components, always from -1 to 1."""
    rho = correlation(result, regular_grid(plane.low, plane.high, _NODES))[:, 0, 1].reshape(_NODES, _NODES)
    draw_image(axes, rho, plane.extent, TwoSlopeNorm(0.0, -1.0, 1.0), style.SIGNED, "correlation of the noise")
    grey_out(axes, plane.inside, plane.extent)


def _draw_ellipses(axes: Axes, plane: Plane, result: Result) -> None:
    """What noise alone does in a short time: ellipses of one standard deviation, the longest as wide as a step."""
    x = regular_grid(plane.low, plane.high, _ELLIPSES + 2)
    x = x[np.all((x > plane.low) & (x < plane.high), axis=1)]
    x = x[result.inside(x)]
    _draw_dots(axes, result, plane.axes)
    if len(x):
        width = (plane.high - plane.low) / (_ELLIPSES + 1)
        values, vectors = np.linalg.eigh(covariance_rate(result, x) / np.outer(width, width))
        reach = np.sqrt(np.maximum(values, 0.0) / max(values.max(), np.finfo(np.float64).tiny)) / 2
        turn = np.linspace(0, 2 * np.pi, 49)
        circle = np.stack([np.cos(turn), np.sin(turn)])
        for centre, v, r in zip(x, vectors, reach, strict=True):
            axes.plot(*(centre[:, None] + width[:, None] * ((v * r) @ circle)), color=style.ESTIMATE, lw=0.9, zorder=4)
    grey_out(axes, plane.inside, plane.extent, alpha=0.88)
    axes.set_title("shape of the noise")


def _draw_band(axes: Axes, plane: Plane, result: Result, band: Band) -> None:
    """Half the width of the band of the drift, as a share of the size of the drift; the larger of the components."""
    size = np.sqrt(np.mean(plane.drift[plane.inside] ** 2, axis=0))  # (dim,)
    share = np.max((band.drift_high - band.drift_low) / 2 / size, axis=1).reshape(_BAND_NODES, _BAND_NODES)
    inside = result.inside(band.x).reshape(share.shape)
    norm = Normalize(0, percentiles(share, inside)[1])
    draw_image(axes, share, plane.extent, norm, "cividis", f"half width of {band.level:.0%} band / rms drift")
    grey_out(axes, plane.inside, plane.extent)
    axes.set_title("how certain the drift is")


def _draw_observed(axes: Axes, plane: Plane, result: Result) -> None:
    _draw_dots(axes, result, plane.axes)
    grey_out(axes, plane.inside, plane.extent, alpha=0.88)
    axes.set_title("observed states")


def _draw_map(axes: Axes, plane: Plane, values: Float[Array, "nodes nodes"], label: str, signed: bool) -> None:
    low, high = percentiles(values, plane.inside)
    norm: Normalize = Normalize(low, high)
    if signed and low < 0 < high:
        reach = max(-low, high)
        norm = TwoSlopeNorm(0.0, -reach, reach)
    elif not signed and low > 0.7 * high:  # a nearly constant field must not look like a wild one
        norm = Normalize(0.4 * (low + high), 0.6 * (low + high))
    crossing = signed and low < 0 < high
    draw_image(axes, values, plane.extent, norm, style.SIGNED if crossing else style.SIZES, label)
    if crossing:
        i, j = plane.axes
        axes.contour(plane.nodes(i), plane.nodes(j), values.T, [0.0], colors="black", linewidths=0.8, zorder=2)
    grey_out(axes, plane.inside, plane.extent)


def _draw_dots(axes: Axes, result: Result, pair: tuple[int, int]) -> None:
    if result.observations is None:
        return
    dots = result.observations.values[:, list(pair)]
    axes.plot(*dots[:: -(-len(dots) // _MOST_DOTS)].T, ".", ms=1.2, color=style.OBSERVED, alpha=0.35, zorder=1)


def _in_deviations(
    field: Float64[Array, "nodes nodes components"], result: Result, plane: Plane, components: Sequence[int] = ()
) -> Float64[Array, "nodes nodes"]:
    """Length of a vector in standard deviations of the data: components may differ in unit. Without data: in boxes."""
    scale = (plane.high - plane.low) / 4 if result.observations is None else result.observations.values.std(axis=0)
    chosen = list(components or range(field.shape[-1]))
    return np.linalg.norm(field / scale[chosen], axis=-1)


def percentiles(values: Float[Array, "rows columns"], inside: Bool[Array, "rows columns"]) -> tuple[float, float]:
    """The range of supported values that colours should resolve."""
    known = values[inside & np.isfinite(values)] if inside.any() else values[np.isfinite(values)]
    low, high = (float(p) for p in np.percentile(known, _SHOWN)) if len(known) else (0.0, 1.0)
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _middle(result: Result, low: Float64[Array, " dim"], high: Float64[Array, " dim"]) -> Float64[Array, " dim"]:
    return (low + high) / 2 if result.observations is None else np.median(result.observations.values, axis=0)
