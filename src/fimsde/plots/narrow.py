"""A figure for pages of two widths: drawn once, its panels are put below each other for a phone."""

from collections.abc import Iterator
from dataclasses import dataclass

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fimsde.plots.layout import GridLayout, cell_of, panels_of
from fimsde.plots.style import DPI, LOOK, Pixels, encode, to_pixels

_MOST_COLUMNS = 3  # of panels that can all have their labels; by hand: 2.4 inches each
_LABELS = 0.3  # inches: the height of a label and its ticks; by hand
_GAP = 6  # pixels around what is cut out of a legend; by hand


@dataclass(frozen=True)
class Pictures:
    """A figure as PNG, and the same for a narrow page; None where it is narrow already, or a table of many panels."""

    wide: bytes
    narrow: bytes | None
    has_many: bool  # columns, more than a phone can show: its page scrolls


def to_pictures(figure: Figure) -> Pictures:
    """Draw a figure, and rearrange what was drawn. Labels that panels share are given to each of them before."""
    figure.set_dpi(DPI)
    columns = 1 + max(cell_of(axes)[1] for axes in panels_of(figure))
    if not 1 < columns <= _MOST_COLUMNS:
        return Pictures(encode(to_pixels(figure)), None, columns > 1)
    _give_labels(figure)
    pixels = to_pixels(figure)
    return Pictures(encode(pixels), encode(_rearranged(figure, pixels)), has_many=False)


@matplotlib.rc_context(LOOK)
def _give_labels(figure: Figure) -> None:
    """What panels share at the edges of their grid, each gets for itself."""
    panels = panels_of(figure)
    corners = {cell_of(axes): axes for axes in panels}
    labels = [(_bottom(corners, *cell_of(axes)), corners[cell_of(axes)[0], 0].get_ylabel()) for axes in panels]
    if not all(axes.get_xlabel() for axes in panels):
        rows = 1 + max(row for row, _ in corners)
        figure.set_figheight(figure.get_figheight() + _LABELS * (rows - 1))
    for axes, (below, beside) in zip(panels, labels, strict=True):
        axes.tick_params(labelbottom=True, labelleft=True)
        axes.set(xlabel=axes.get_xlabel() or below, ylabel=axes.get_ylabel() or beside)


def _bottom(corners: dict[tuple[int, int], Axes], row: int, column: int) -> str:
    """The label below the column of a panel."""
    return corners[max(place for place in corners if place[1] == column)].get_xlabel()


def _rearranged(figure: Figure, pixels: Pixels) -> Pixels:
    """Heading, panels and the entries of the legend one below the other."""
    layout = figure.get_layout_engine()
    assert isinstance(layout, GridLayout), "figures of this package have one"
    columns, rows = (np.round(ends * DPI).astype(int) for ends in (layout.cells.columns, layout.cells.rows))
    entries = list(_entries(figure, pixels))
    width = max(int(np.diff(columns).max()), *(part.shape[1] for part in entries), 0)
    parts = [pixels[: rows[0], :width]]
    for axes in panels_of(figure):
        row, column = cell_of(axes)
        if axes.axison:
            parts.append(pixels[rows[row] : rows[row + 1], columns[column] : columns[column + 1]])
    return np.concatenate([_widened(part, width) for part in [*parts, *_in_rows(entries, width)]])


def _entries(figure: Figure, pixels: Pixels) -> Iterator[Pixels]:
    """Each entry of the legends, its handle and its words."""
    height = len(pixels)
    for legend in figure.legends:
        for text in legend.get_texts():
            box = text.get_window_extent()
            handle = (legend.handlelength + legend.handletextpad) * float(text.get_fontsize()) * DPI / 72
            left, right = int(box.x0 - handle) - _GAP, int(box.x1) + _GAP
            top, bottom = height - int(box.y1) - _GAP, height - int(box.y0) + _GAP
            yield pixels[max(top, 0) : bottom, max(left, 0) : right]


def _in_rows(entries: list[Pixels], width: int) -> Iterator[Pixels]:
    """Entries side by side, as many as fit."""
    row: list[Pixels] = []
    for entry in entries:
        if row and sum(part.shape[1] for part in row) + entry.shape[1] > width:
            yield _beside(row)
            row = []
        row.append(entry)
    if row:
        yield _beside(row)


def _beside(parts: list[Pixels]) -> Pixels:
    tallest = max(len(part) for part in parts)
    return np.concatenate([_filled(part, tallest, part.shape[1]) for part in parts], axis=1)


def _widened(part: Pixels, width: int) -> Pixels:
    return _filled(part, len(part), width)


def _filled(part: Pixels, height: int, width: int) -> Pixels:
    """White paper with a picture in its upper left corner."""
    out = np.full((height, width, 3), 255, np.uint8)
    out[: len(part), : part.shape[1]] = part
    return out
