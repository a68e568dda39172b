"""Where the panels of a figure go: a grid whose columns and rows are as wide as labels and bars of colours leave them.

matplotlib's constrained layout measures every label four times or more, which takes longer than drawing them. Grids as
plain as ours need one look: what stands around each panel is measured, and each column and row gets the largest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backend_bases import RendererBase
from matplotlib.figure import Figure
from matplotlib.layout_engine import LayoutEngine
from matplotlib.ticker import AutoLocator
from matplotlib.transforms import Bbox

from fimsde.shapes import Array, Float64

_PAD = 0.05  # inches around panels, legends and headings; by hand: neighbours do not touch
_BAR = 0.1, 0.07  # inches: width of a bar of colours, and its distance from the panel; by hand
_MOST_TICKS = 9  # of an axis; those of matplotlib
_LEAST = 0.3  # inches that a panel keeps, however long its labels are; by hand


@dataclass(frozen=True, eq=False)
class Edges:
    """Borders of the cells of a grid in inches: columns from the left, rows from the top."""

    columns: Float64[Array, " column_ends"]
    rows: Float64[Array, " row_ends"]


class GridLayout(LayoutEngine):
    """Panels of one grid, bars of colours on their right, legends below all of them, a heading above.

    Attributes:
        cells: Where they were when the figure was drawn last.
    """

    _adjust_compatible = False
    _colorbar_gridspec = False
    cells: Edges

    def execute(self, fig: Figure) -> None:
        """Place everything; where it was before does not matter."""
        renderer: Any = fig.canvas.get_renderer()  # type: ignore[attr-defined]  # ours are Agg
        panels = panels_of(fig)
        bars = {bar._colorbar_info["parents"][0]: bar for bar in fig.axes if _is_bar(bar)}  # type: ignore[attr-defined]
        around = np.zeros((4, *_shape(panels)))  # left, right, below, above: inches
        for axes in panels:
            _to_first_place(axes, bars.get(axes), fig)
            _keep_ticks(*(part for part in (axes, bars.get(axes)) if part is not None))
        for axes in panels:
            around[(slice(None), *cell_of(axes))] = _around(axes, bars.get(axes), renderer, fig.dpi)
        foot = sum(_height(legend, renderer, fig.dpi) for legend in fig.legends)
        head = sum(_height(text, renderer, fig.dpi) for text in fig.texts)
        width, height = fig.get_size_inches()
        for text in fig.texts:  # at the top, whatever the height: matplotlib's place is a share of it
            text.set_y(1 - _PAD / height)
        left, right = around[0].max(axis=0) + _PAD, around[1].max(axis=0) + _PAD
        below, above = around[2].max(axis=1) + _PAD, around[3].max(axis=1) + _PAD
        across = max((width - left.sum() - right.sum()) / len(left), _LEAST)
        up = max((height - head - foot - below.sum() - above.sum()) / len(below), _LEAST)
        columns = np.concatenate([[0.0], np.cumsum(left + across + right)])
        rows = head + np.concatenate([[0.0], np.cumsum(above + up + below)])
        for axes in panels:
            row, column = cell_of(axes)
            x, y = columns[column] + left[column], height - rows[row] - above[row] - up
            _place(axes, bars.get(axes), x, y, across, up, fig)
        self.cells = Edges(columns, rows)


def panels_of(figure: Figure) -> list[Axes]:
    """Panels of the grid, row by row; bars of colours are none."""
    return [axes for axes in figure.axes if axes.get_subplotspec() is not None and not _is_bar(axes)]


def cell_of(axes: Axes) -> tuple[int, int]:
    """Row and column of a panel."""
    spec = axes.get_subplotspec()
    assert spec is not None, "panels are in a grid"
    return spec.rowspan.start, spec.colspan.start


def _is_bar(axes: Axes) -> bool:
    return hasattr(axes, "_colorbar_info")


def _shape(panels: Sequence[Axes]) -> tuple[int, int]:
    rows, columns = zip(*map(cell_of, panels), strict=True)
    return 1 + max(rows), 1 + max(columns)


def _to_first_place(axes: Axes, bar: Axes | None, figure: Figure) -> None:
    """Where labels are measured."""
    spec = axes.get_subplotspec()
    assert spec is not None, "panels are in a grid"
    box, (width, height) = spec.get_position(figure), figure.get_size_inches()
    room = 0.0 if bar is None else sum(_BAR) + 0.5
    _place(axes, bar, box.x0 * width, box.y0 * height, box.width * width - room, box.height * height, figure)


def _keep_ticks(*parts: Axes) -> None:
    """As many ticks as now: what is measured must not change with the size that follows from it."""
    for axis in (axis for part in parts for axis in (part.xaxis, part.yaxis)):
        locator = axis.get_major_locator()
        if isinstance(locator, AutoLocator):
            locator.set_params(nbins=int(np.clip(axis.get_tick_space(), 1, _MOST_TICKS)))


def _place(axes: Axes, bar: Axes | None, x: float, y: float, width: float, height: float, figure: Figure) -> None:
    """A panel and its bar, in inches."""
    size = np.tile(figure.get_size_inches(), 2)
    axes._set_position(Bbox.from_bounds(*(np.array([x, y, width, height]) / size)))  # type: ignore[attr-defined]
    if bar is not None:
        bar.set_box_aspect(None)
        bar._colorbar_info["aspect"] = height / _BAR[0]  # type: ignore[attr-defined]  # of those with pointed ends
        bounds = np.array([x + width + _BAR[1], y, _BAR[0], height]) / size
        bar._set_position(Bbox.from_bounds(*bounds))  # type: ignore[attr-defined]


def _around(axes: Axes, bar: Axes | None, renderer: RendererBase, dpi: float) -> Float64[Array, " 4"]:
    """How far labels reach beyond a panel on its left and right, below and above, in inches."""
    own = axes.get_window_extent(renderer)
    boxes = [part.get_tightbbox(renderer, for_layout_only=True) for part in (axes, bar) if part is not None]
    box = Bbox.union([own, *(b for b in boxes if b is not None)])
    beyond = np.array([own.x0 - box.x0, box.x1 - own.x1, own.y0 - box.y0, box.y1 - own.y1])
    return np.asarray(np.maximum(beyond, 0.0) / dpi)


def _height(part: Any, renderer: RendererBase, dpi: float) -> float:
    return float(part.get_window_extent(renderer).height) / dpi + 2 * _PAD
