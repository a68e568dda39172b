"""What a page is made of: sections of paragraphs, notes, tables, figures, formulas and code. Text is plain text."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal, Protocol, runtime_checkable


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    text: str
    kind: str = "paragraph"


@dataclass(frozen=True)
class Note:
    """A sentence with a mark: good news, something to know, something to act on."""

    status: Literal["good", "caution", "bad"]
    text: str
    label: str = ""
    kind: str = "note"


@dataclass(frozen=True)
class TableBlock:
    """Rows of text under a head; an empty head for a list of properties."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    kind: str = "table"


@dataclass(frozen=True)
class Image:
    """A picture inside the page; one with panels side by side has another for phones."""

    content: bytes
    alt: str
    caption: str = ""
    share: float = 1.0  # of the width of the page
    narrow: bytes | None = None  # the same for a narrow page
    has_many: bool = False  # panels side by side: a narrow page scrolls
    kind: str = "image"

    @property
    def source(self) -> str:
        """The picture as the address of an image."""
        return _address(self.content)

    @property
    def narrow_source(self) -> str | None:
        """The picture for a narrow page, if it has one of its own."""
        return None if self.narrow is None else _address(self.narrow)


@dataclass(frozen=True)
class Code:
    """Text to copy; folded away if it has a summary."""

    text: str
    summary: str = ""
    kind: str = "code"


@dataclass(frozen=True)
class Piece:
    """A few characters of a formula: plain, the name of a component, a power or an index."""

    text: str
    style: Literal["plain", "name", "power", "index"] = "plain"


@dataclass(frozen=True)
class FormulaLine:
    """An equation as groups of pieces between which a line may be broken, and in plain text for who cannot see it."""

    groups: tuple[tuple[Piece, ...], ...]
    text: str


@dataclass(frozen=True)
class Formula:
    """Equations one below the other."""

    lines: tuple[FormulaLine, ...]
    kind: str = "formula"

    @property
    def html(self) -> str:
        """The formula as HTML that carries its own style; every text is escaped."""
        font = "font: 1.05em/1.7 'STIX Two Text', Cambria, Georgia, serif; overflow-wrap: anywhere"
        hanging = "padding-left: 2em; text-indent: -2em"
        lines = [
            f'<p role="math" aria-label="{escape(line.text)}" style="{hanging}">'
            f"{' '.join(map(_group, line.groups))}</p>"
            for line in self.lines
        ]
        return f'<div class="formula" style="{font}">{"".join(lines)}</div>'


@runtime_checkable
class Markup(Protocol):
    """A block that makes its own HTML, every text in it escaped."""

    @property
    def kind(self) -> str: ...

    @property
    def html(self) -> str: ...


Block = Paragraph | Note | TableBlock | Image | Code | Markup


@dataclass(frozen=True)
class Section:
    """A heading, its anchor and what follows."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


def properties(*rows: tuple[str, str]) -> TableBlock:
    """A table of names and values."""
    return TableBlock((), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> TableBlock:
    """A table from any sequences."""
    return TableBlock(tuple(head), tuple(tuple(row) for row in rows), caption)


def _group(pieces: tuple[Piece, ...]) -> str:
    """Pieces that stay on one line if it is long enough."""
    tags = {"plain": "{}", "name": "<i>{}</i>", "power": "<sup>{}</sup>", "index": "<sub>{}</sub>"}
    inner = "".join(tags[piece.style].format(escape(piece.text)) for piece in pieces)
    return f'<span style="display: inline-block; max-width: 100%; text-indent: 0; line-height: 1.4">{inner}</span>'


def _address(content: bytes) -> str:
    return f"data:image/png;base64,{b64encode(content).decode()}"
