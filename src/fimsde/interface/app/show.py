"""Blocks of a report as elements of the app. Text from users' files is shown as it is: nothing in it is markup."""

import re

import streamlit as st

from fimsde.report.blocks import Block, Code, Image, Markup, Note, Paragraph, Section, TableBlock

_MARKUP = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~$:&])")


def plain(text: str) -> str:
    """Text in which streamlit's markdown finds nothing to do."""
    return _MARKUP.sub(r"\\\1", text)


def show_section(section: Section) -> None:
    """The blocks of a section one below the other."""
    for block in section.blocks:
        _show(block)


def _show(block: Block) -> None:
    match block:
        case Paragraph(text):
            st.markdown(plain(text))
        case Note(status, text, label):
            box = {"good": st.success, "caution": st.warning, "bad": st.error}[status]
            box(f"**{plain(label)}**: {plain(text)}" if label else plain(text))
        case TableBlock(head, rows, caption):
            _table(head, rows)
            if caption:
                st.caption(plain(caption))
        case Image():
            st.image(block.content, caption=plain(block.caption), width="stretch")
        case Code(text, summary):
            with st.expander(summary or "Text"):
                st.code(text, language=None)
        case Markup():
            st.html(block.html)


def _table(head: tuple[str, ...], rows: tuple[tuple[str, ...], ...]) -> None:
    names = head or ("", " ")
    cells = {name: [plain(row[j]) for row in rows] for j, name in enumerate(map(plain, names))}
    st.table(cells, border="horizontal")
