"""The part of the page that shows a table and asks what it holds: what is guessed is shown and can be changed."""

from dataclasses import dataclass

import streamlit as st

from fimsde.data.choice import unit_of
from fimsde.data.columns import Column, guess, objections
from fimsde.data.headers import EXCEL, PARQUET
from fimsde.evidence.infer import MOST_COMPONENTS
from fimsde.interface.app import curves
from fimsde.interface.app.show import plain
from fimsde.interface.app.work import Look, Upload
from fimsde.interface.cli.table import Columns
from fimsde.plots import BandSettings

NO_PATH, NO_CLOCK = "one path", "none: a constant gap"
_ROWS = 200  # of the table that are shown; by hand: enough to scroll through
_SEPARATORS = {"by its lines": None, "comma": ",", "semicolon": ";", "tab": "tab", "space": " "}
_DECIMALS = {"by its cells": None, "point": ".", "comma": ","}
_MISSING = {"refuse the table": "error", "leave the observation out": "drop"}


@dataclass(frozen=True)
class _Format:
    """How a file is written."""

    separator: str | None
    decimal: str | None
    missing: str


def choose(upload: Upload) -> tuple[Columns, BandSettings] | None:
    """What is chosen, when the button is pressed."""
    table = st.container()
    form = _format(upload)
    look = _look(upload, form)
    with table:
        _show_table(upload, look)
    columns = _columns(look.columns, form)
    values = columns.value_names() or []
    if values:
        plot = curves.series(look.columns, columns.time, columns.path, values)
        st.altair_chart(plot, width="stretch")
    with st.popover("Bands and seed"):
        resamples = 50 if st.checkbox("Draw bands", value=True) else 0
        level = st.slider("Level of the bands", 0.5, 0.99, 0.9)
        seed = st.number_input("Seed", 0, 2**31 - 1, 0)
    doubts = objections(look.columns, columns.time, columns.path, values)
    for doubt in doubts:
        st.warning(plain(doubt))
    is_meant = not doubts or st.checkbox("Yes, that is what I mean")
    pressed = st.button("Estimate", type="primary", disabled=not (values and is_meant))
    return (columns, BandSettings(float(level), resamples, int(seed))) if pressed else None


def _nothing_left(looks: tuple[Column, ...], free: list[str]) -> str:
    """Why no column can be the state."""
    still = [repr(c.name) for c in looks if c.name in free and c.kind == "number" and c.num_values == 1]
    if still:
        return plain(f"{', '.join(still)}: the same number in every row, in which there is nothing to estimate.")
    return "No column of numbers is left for the state. Is the file written as it says above?"


def _show_table(upload: Upload, look: Look) -> None:
    """The first rows, as they were read."""
    rows, columns = look.frame.shape
    shown = f"the first {_ROWS} of {rows} rows" if rows > _ROWS else f"{rows} rows"
    st.caption(plain("; ".join([f"{upload.name}: {shown}, {columns} columns", *look.remarks])))
    st.dataframe(look.frame.head(_ROWS), height=220, width="stretch", hide_index=True)


def _format(upload: Upload) -> _Format:
    is_csv = not upload.name.lower().endswith((*PARQUET, *EXCEL))
    with st.popover("How the file is written"):
        separator = _SEPARATORS[st.selectbox("Between the cells", _SEPARATORS)] if is_csv else None
        decimal = _DECIMALS[st.selectbox("Decimal sign", _DECIMALS)] if is_csv else None
        missing = _MISSING[st.selectbox("Empty cells", _MISSING)]
    return _Format(separator, decimal, missing)


def _look(upload: Upload, form: _Format) -> Look:
    """The table, read once for each way of reading it."""
    key = upload, form.separator, form.decimal
    if st.session_state.get("looked_at") != key:
        st.session_state["look"] = upload.look(form.separator, form.decimal)
        st.session_state["looked_at"] = key
    look: Look = st.session_state["look"]
    return look


def _columns(looks: tuple[Column, ...], form: _Format) -> Columns:
    """What the columns are: a guess that can be changed."""
    guessed, names = guess(looks), [column.name for column in looks]
    st.markdown("**What the columns are** is guessed from their names and contents; change what is wrong.")
    st.caption("  \n".join(plain(f"{reason[:1].upper()}{reason[1:]}.") for reason in guessed.reasons))
    left, right = st.columns(2)
    clock = names.index(guessed.time) if guessed.time is not None else len(names)
    time = left.selectbox("Time", [*names, NO_CLOCK], index=clock)
    has_clock = time != NO_CLOCK
    gap = right.number_input("Gap between rows, if constant", value=1.0, min_value=0.0, format="%g", disabled=has_clock)
    left, right = st.columns(2)
    ids = 1 + names.index(guessed.path) if guessed.path is not None else 0
    path = left.selectbox("Column that tells paths apart", [NO_PATH, *names], index=ids)
    by_name = {column.name: column for column in looks}
    likely_unit = unit_of(by_name[time], by_name.get(path)) if has_clock else None
    unit = right.text_input("Unit of time (for dates: s, min, h, D, month, year)", likely_unit or "")
    free = [name for name in names if name not in (time, path)]
    likely = [name for name in guessed.values if name in free]
    if len(likely) > MOST_COMPONENTS:
        st.info(f"{len(likely)} columns can be the state. Choose up to {MOST_COMPONENTS} of them.")
    elif not likely:
        st.info(_nothing_left(looks, free))
    chosen = likely if len(likely) <= MOST_COMPONENTS else []
    values = st.multiselect(
        f"State: one to {MOST_COMPONENTS} columns", free, default=chosen, max_selections=MOST_COMPONENTS
    )
    return Columns(
        time=time if has_clock else None,
        values=tuple(values),
        path=None if path == NO_PATH else path,
        dt=None if has_clock else gap,
        time_unit=unit or None,
        separator=form.separator,
        decimal=form.decimal,
        missing=form.missing,
    )
