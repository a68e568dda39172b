"""A figure for a narrow page: its panels one below the other, each as wide as the page."""

import textwrap

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec

from fimsde.plots import style

WIDTH = style.WIDTH / 2  # inches: one column of two
_LEGIBLE = 1.25  # a figure wider than this many narrow ones is too small in their place; by hand: 8.5 points become 6.8
_LINE = 48  # characters of a heading; by hand: as many fit
_COLUMNS = 2  # of a legend; by hand: as many fit


def is_wide(figure: Figure) -> bool:
    """Whether a phone would show it too small to read."""
    return bool(figure.get_figwidth() > _LEGIBLE * WIDTH)


@matplotlib.rc_context(style.LOOK)
def make_narrow(figure: Figure) -> None:
    """Rearrange a figure in place, row by row. What panels shared at the edges of their grid, each gets for itself."""
    panels = _panels(figure)
    corners = {_place(axes): axes for axes in panels}
    rows = 1 + max(row for row, _ in corners)
    labels = [(_bottom(corners, *_place(axes)), corners[_place(axes)[0], 0].get_ylabel()) for axes in panels]
    grid = GridSpec(len(panels), 1, figure=figure)
    height = figure.get_figheight() / rows
    for k, (axes, (below, beside)) in enumerate(zip(panels, labels, strict=True)):
        axes.set_subplotspec(grid[k, 0])
        axes.tick_params(labelbottom=True, labelleft=True)
        axes.set(xlabel=axes.get_xlabel() or below, ylabel=axes.get_ylabel() or beside)
    figure.set_size_inches(WIDTH, len(panels) * height)
    if heading := figure.get_suptitle():
        figure.suptitle("\n".join(textwrap.wrap(heading, _LINE)), x=0.01, ha="left", fontsize=9)
    for legend in tuple(figure.legends):
        handles = [handle for handle in legend.legend_handles if handle is not None]
        words = [text.get_text() for text in legend.get_texts()]
        legend.remove()
        figure.legend(handles, words, loc="outside lower center", ncols=_COLUMNS)
    if len(panels) < len(figure.axes):  # beside bars of colours the layout settles when it is computed again
        layout = figure.get_layout_engine()
        assert layout is not None, "figures of this package have one"
        layout.execute(figure)


def _panels(figure: Figure) -> list[Axes]:
    """Panels of a grid, row by row; bars of colours are none."""
    return [axes for axes in figure.axes if axes.get_subplotspec() is not None and not hasattr(axes, "_colorbar")]


def _place(axes: Axes) -> tuple[int, int]:
    spec = axes.get_subplotspec()
    assert spec is not None, "panels are in a grid"
    return spec.rowspan.start, spec.colspan.start


def _bottom(corners: dict[tuple[int, int], Axes], row: int, column: int) -> str:
    """The label below the column of a panel."""
    return corners[max(place for place in corners if place[1] == column)].get_xlabel()
