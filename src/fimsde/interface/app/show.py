"""Blocks of a report as elements of the app. Text from users' files is shown as it is: nothing in it is markup."""

import re
from html import escape

import streamlit as st

from fimsde.report.blocks import Block, Code, Image, Markup, Note, Paragraph, Section, TableBlock

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&])")
# options at the end of what to do, as (--missing 'drop'), and what asks the same on the page
_OPTION = re.compile(r"\(--(time|dt|values|path|missing|separator|decimal)\b[^)]*\)")
_ASKED = {
    "time": "Time",
    "dt": "Gap between rows",
    "values": "State",
    "path": "Column that tells paths apart",
    **dict.fromkeys(("missing", "separator", "decimal"), "How the file is written"),
}
# streamlit takes the element `picture`, which would choose between two images, out of a page
_WIDTHS = """<style>.wide-page, .narrow-page { max-width: 100%; border-radius: .5rem } .narrow-page { display: none }
@media (max-width: 44rem) { .wide-page { display: none } .narrow-page { display: block } }</style>"""


def plain(text: str) -> str:
    """Text in which streamlit's markdown finds nothing to do."""
    return _MARKUP.sub(r"\\\1", text)


def on_page(sentence: str) -> str:
    """A sentence of the command line with the names of what is asked on the page in place of options."""
    return _OPTION.sub(lambda match: f"({_ASKED[match[1]]})", sentence)


def show_section(section: Section) -> None:
    """The blocks of a section one below the other."""
    for block in section.blocks:
        _show(block)


def _show(block: Block) -> None:
    match block:
        case Paragraph(text):
            st.markdown(plain(text))
        case Note(status, text, label):
            said = f"**{plain(label)}**: {plain(text)}" if label else plain(text)
            if status == "good":
                st.markdown(f":green[✓] {said}")
            else:
                {"caution": st.warning, "bad": st.error}[status](said)
        case TableBlock(head, rows, caption):
            _table(head, rows)
            if caption:
                st.caption(plain(caption))
        case Image():
            _image(block)
        case Code(text, summary):
            with st.expander(summary or "Text"):
                st.code(text, language=None)
        case Markup():
            st.html(block.html)


def _image(block: Image) -> None:
    """A figure; on a narrow page the one with its panels one below the other."""
    sources = {"wide": block.source, "narrow": block.narrow_source or block.source}
    share = f'style="width: {block.share:.0%}"'
    both = [
        f'<img class="{width}-page" {share if width == "wide" else ""} src="{source}" alt="{escape(block.alt)}">'
        for width, source in sources.items()
    ]
    st.html(_WIDTHS + "".join(both))
    st.caption(plain(block.caption))


def _table(head: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> None:
    names = head or ("", " ")
    cells = {name: [plain(row[j]) for row in rows] for j, name in enumerate(map(plain, names))}
    st.table(cells, border="horizontal")
