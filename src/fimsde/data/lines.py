"""A few labelled lines as text and as HTML, for people who print an object or look at it in a notebook."""

import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

# of text in characters: the width of the terminal between these, and the larger one where there is none; by hand
_LEAST_WIDTH, _WIDTH = 60, 100
_COLUMN = 10  # of labels in characters: the longest has eight
# Okabe and Ito's palette; the fill is a tenth of the colour over any ground, light or dark
_COLOURS = {"good": "#009e73", "caution": "#e69f00", "bad": "#d55e00"}
_MARKS = {"good": "✓", "caution": "!", "bad": "✗"}


@dataclass(frozen=True)
class Line:
    """What is said under a label.

    Attributes:
        label: One word.
        text: Plain text; lines of it stay lines.
        status: The light of what is said, if it has one.
        markup: The same as safe HTML, where there is something better than the text.
        verbatim: Whether the lines of the text stay as they are, however long.
    """

    label: str
    text: str
    status: Literal["good", "caution", "bad"] | None = None
    markup: str = ""
    verbatim: bool = False


def as_text(lines: Sequence[Line]) -> str:
    """Labels in a column, what is said beside them; long sentences are wrapped."""
    room = min(max(shutil.get_terminal_size((_WIDTH, 0)).columns, _LEAST_WIDTH), _WIDTH) - _COLUMN
    return "\n".join(_paragraph(line, room) for line in lines)


def as_html(lines: Sequence[Line]) -> str:
    """The same as a table that carries its own style, for light and dark grounds; every text is escaped."""
    rows = "".join(_row(line) for line in lines)
    return f'<table class="answer" style="border-collapse: collapse; width: 100%; text-align: left">{rows}</table>'


def _paragraph(line: Line, room: int) -> str:
    parts = line.text.splitlines() or [""]
    if not line.verbatim:
        parts = [piece for part in parts for piece in textwrap.wrap(part, room, break_on_hyphens=False) or [""]]
    return "\n".join(f"{line.label if k == 0 else '':{_COLUMN}}{part}".rstrip() for k, part in enumerate(parts))


def _row(line: Line) -> str:
    shown = line.markup or "<br>".join(escape(part) for part in line.text.splitlines())
    colour = _COLOURS.get(line.status or "")
    mark, look = "", ""
    if line.status is not None:
        mark = f'<b style="color: {colour}">{_MARKS[line.status]}</b> '
        look = f"; border-left: 4px solid {colour}; background: {colour}1a"
    cell = "padding: .4em .8em; vertical-align: top; border: none; border-bottom: 1px solid #8884"
    return (
        f'<tr><th scope="row" style="{cell}; width: 6em; text-align: left; font-weight: 600">{escape(line.label)}</th>'
        f'<td style="{cell}; text-align: left{look}">{mark}{shown}</td></tr>'
    )
