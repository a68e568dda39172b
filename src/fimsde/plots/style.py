"""How every figure looks: colours that colour-blind readers can tell apart, sizes for print, labels with units."""

import io
import re
import warnings
from typing import Any

import matplotlib
import numpy as np
import PIL.Image
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from fimsde.analysis import naming
from fimsde.plots.layout import GridLayout
from fimsde.shapes import Array, Bool, Float, Shaped

# Okabe and Ito's palette, and greys by hand
OBSERVED, ESTIMATE, SIMULATED, TRUTH = "#555555", "#0072B2", "#D55E00", "#000000"
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")  # of things told apart by colour alone
UNSUPPORTED = "#e9e9e9"
SIZES, SIGNED = "viridis", "PuOr_r"  # colour maps: of sizes, and of values with a sign
DPI = 160  # pixels per inch of pictures; by hand: sharp on a page as wide as a report
WIDTH = 7.2  # inches: both columns of a journal (Nature's 183 mm), and a page with margins
Pixels = Shaped[Array, "_ _ 3"]  # rows, columns, colours

LOOK: Any = {  # settings of matplotlib, in force while a figure is drawn; sizes by hand: 7.5 points and more
    "font.size": 8.5,
    "axes.labelsize": 8.5,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.formatter.limits": (-3, 4),
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "text.parse_math": False,  # names come from users' files: a dollar sign is a dollar sign
}
_LONGEST = 20  # characters of a name in a label; by hand: as many fit beside an axis
_LONGEST_LINE = 30  # characters of a label before its unit goes to a line of its own; by hand: as many fit
# unsupported stretches shorter than this share of the axis are not told apart; by hand: shades do not flicker
_SHORTEST = 0.02
_MOST_TICKS = 600  # of a rug; by hand: more would run into one bar


class Picture(Figure):
    """A figure that belongs to no window: it is shown by notebooks as it is, and saved with `savefig`."""

    def _repr_png_(self) -> bytes:
        return to_png(self)


def to_png(figure: Figure, dpi: int = DPI) -> bytes:
    """The figure as the content of a PNG file."""
    return encode(to_pixels(figure, dpi))


def to_pixels(figure: Figure, dpi: int = DPI) -> Pixels:
    """The figure, drawn."""
    with warnings.catch_warnings(), matplotlib.rc_context(LOOK):
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a script without a font: boxes are drawn
        before = figure.dpi
        try:
            figure.set_dpi(dpi)
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            return np.asarray(canvas.buffer_rgba())[..., :3]
        finally:
            figure.set_dpi(before)


def encode(pixels: Pixels) -> bytes:
    """Pixels as the content of a PNG file."""
    target = io.BytesIO()
    PIL.Image.fromarray(np.ascontiguousarray(pixels)).save(target, "png")
    return target.getvalue()


def new_figure(height: float, width: float = WIDTH) -> Picture:
    """An empty figure, size in inches."""
    figure = Picture(figsize=(width, height), layout=GridLayout())
    FigureCanvasAgg(figure)
    return figure


def split_unit(name: str) -> tuple[str, str]:
    """Name and unit of "speed (mm/s)" or "speed [mm/s]"; a name without a unit is its own unit."""
    quantity, unit = naming.split_unit(name)
    return _short(quantity), _short(unit or quantity)


def state_label(name: str) -> str:
    """The component with its unit, if it has one in its name."""
    quantity, unit = split_unit(name)
    return quantity if quantity == unit else f"{quantity} ({unit})"


def time_label(time_unit: str | None) -> str:
    """Time with its unit."""
    return "time" if time_unit is None else f"time ({_short(time_word(time_unit))})"


def time_word(time_unit: str | None) -> str:
    """A unit of time as people write it: dates count D and W, which are days and weeks."""
    return {None: "time", "D": "day", "W": "week"}.get(time_unit, time_unit or "time")


def drift_label(name: str, time_unit: str | None) -> str:
    """The drift of a component in state per time."""
    quantity, unit = split_unit(name)
    return broken(f"drift of {quantity} ({drift_unit(unit, time_unit)})")


def diffusion_label(name: str, time_unit: str | None) -> str:
    """The diffusion sqrt(g) of a component in state per square root of time."""
    quantity, unit = split_unit(name)
    return broken(f"diffusion √g of {quantity} ({_grouped(unit)} / √{_grouped(time_word(time_unit))})")


def drift_unit(unit: str, time_unit: str | None) -> str:
    """State per time."""
    return f"{_grouped(unit)} / {_grouped(time_word(time_unit))}"


def rug(axes: Axes, values: Float[Array, " points"]) -> None:
    """Ticks along the lower edge, one for each observed state (some of them, if there are very many)."""
    thin = np.sort(values)[:: -(-len(values) // _MOST_TICKS)]
    axes.plot(
        thin, np.full(len(thin), 0.012), "|", ms=5, mew=0.5, color=OBSERVED, alpha=0.45,
        transform=axes.get_xaxis_transform(), zorder=1,
    )  # fmt: skip


def shade_unsupported(axes: Axes, x: Float[Array, " nodes"], inside: Bool[Array, " nodes"]) -> None:
    """Grey where no data support the curve."""
    for start, stop in unsupported(x, inside):
        axes.axvspan(start, stop, color=UNSUPPORTED, lw=0, zorder=0)


def unsupported(x: Float[Array, " nodes"], inside: Bool[Array, " nodes"]) -> list[tuple[float, float]]:
    """From where to where no data support a curve."""
    edges = np.concatenate([[x[0]], (x[1:] + x[:-1]) / 2, [x[-1]]])
    return [(float(edges[start]), float(edges[stop])) for start, stop in runs(~inside)]


def without_stripes(inside: Bool[Array, " nodes"]) -> Bool[Array, " nodes"]:
    """The support along a line without the shortest holes, which would be stripes in a figure."""
    closed = inside.copy()
    for start, stop in runs(~inside):
        if start > 0 and stop < len(inside) and stop - start <= _SHORTEST * len(inside):
            closed[start:stop] = True
    return closed


def legend_below(figure: Figure, axes: Axes, *more: Artist) -> None:
    """One legend for all panels: what one of them shows, and the grey of places without data."""
    handles, labels = axes.get_legend_handles_labels()
    grey = Patch(color=UNSUPPORTED, label="no data nearby")
    extra = [*more, grey]
    labels = [*labels, *(str(artist.get_label()) for artist in extra)]
    figure.legend([*handles, *extra], labels, loc="outside lower center", ncols=6)


def runs(marked: Bool[Array, " nodes"]) -> list[tuple[int, int]]:
    """First index, and index after the last, of every stretch of marked nodes."""
    change = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]]).astype(int)))
    return [(int(a), int(b)) for a, b in zip(change[::2], change[1::2], strict=True)]


def limits(*shown: Float[Array, "..."], margin: float = 0.08) -> tuple[float, float] | None:
    """Ends of an axis that show all finite values; None if there are none."""
    values = np.concatenate([np.ravel(s) for s in shown])
    values = values[np.isfinite(values)]
    if not len(values):
        return None
    low, high = float(values.min()), float(values.max())
    room = margin * (high - low) or margin * abs(high) or 1.0
    return low - room, high + room


def broken(label: str) -> str:
    """A long label with its unit on a second line."""
    return label if len(label) <= _LONGEST_LINE else label.replace(" (", "\n(", 1)


def _grouped(unit: str) -> str:
    short = _short(unit)
    return f"({short})" if re.search(r"[\s/*·]", short) else short


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
