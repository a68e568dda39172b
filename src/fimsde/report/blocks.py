"""What a page is made of: sections of paragraphs, notes, tables, figures, formulas and code. Text is plain text."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


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
class Table:
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
    mime: str = "image/png"
    share: float | None = None  # of the width of the page; None: as large as it is
    narrow: bytes | None = None  # the same for a narrow page
    kind: str = "image"

    @property
    def source(self) -> str:
        """The picture as the address of an image."""
        return _address(self.content, self.mime)

    @property
    def narrow_source(self) -> str | None:
        """The picture for a narrow page, if it has one of its own."""
        return None if self.narrow is None else _address(self.narrow, self.mime)


@dataclass(frozen=True)
class Code:
    """Text to copy; folded away if it has a summary."""

    text: str
    summary: str = ""
    kind: str = "code"


Block = Paragraph | Note | Table | Image | Code


@dataclass(frozen=True)
class Section:
    """A heading, its anchor and what follows."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]


def properties(*rows: tuple[str, str]) -> Table:
    """A table of names and values."""
    return Table((), rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> Table:
    """A table from any sequences."""
    return Table(tuple(head), tuple(tuple(row) for row in rows), caption)


def _address(content: bytes, mime: str) -> str:
    return f"data:{mime};base64,{b64encode(content).decode()}"
