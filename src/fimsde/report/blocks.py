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
    """A picture inside the page. Wide ones scroll on a phone instead of shrinking until nobody can read them."""

    content: bytes
    alt: str
    caption: str = ""
    mime: str = "image/png"
    share: float | None = None  # of the width of the page; None: as large as it is
    kind: str = "image"

    @property
    def source(self) -> str:
        """The picture as the address of an image."""
        return f"data:{self.mime};base64,{b64encode(self.content).decode()}"


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
