"""The page of the app, run by streamlit from top to bottom whenever something is chosen."""

import mimetypes
import re

import numpy as np
import streamlit as st

from fimsde.app import curves
from fimsde.app.show import plain, show_section
from fimsde.app.work import ARCHIVE, Finished, Upload, run
from fimsde.cli.demo import DATA, demo_table
from fimsde.cli.table import CLOCKS, Columns
from fimsde.errors import FimsdeError
from fimsde.plots import BandSettings

NO_PATH, NO_CLOCK = "one path", "none: a constant gap"
SEPARATORS = {"comma": None, "semicolon": ";", "tab": "tab", "space": " "}
DECIMALS = {"point": None, "comma": ","}
MISSING = {"refuse the table": "error", "leave the observation out": "drop"}
MOST = 3  # components of a state
IDS = re.compile(r"(.*[\W_])?(id|path|track|particle|trajectory)", re.IGNORECASE)  # names of columns of path ids
TYPES = ["csv", "txt", "tsv", "parquet", "pq"]


def main() -> None:
    """The whole page."""
    st.set_page_config("fimsde", layout="centered")
    st.header("The equation behind your time series")
    st.markdown("A table in, drift and diffusion out: dx = f(x) dt + √g(x) dW. Everything stays on this machine.")
    upload = _upload()
    if upload is None:
        return
    if st.session_state.get("upload") != upload:
        st.session_state.update(upload=upload, finished=None)
    try:
        asked = _settings(upload)
        if asked is not None:
            shown = st.progress(0.0, "reading the table")
            st.session_state["finished"] = None
            st.session_state["finished"] = run(upload, *asked, shown.progress)
            shown.empty()
    except FimsdeError as error:
        st.error(plain(str(error)))
    if st.session_state["finished"] is not None:
        _results(st.session_state["finished"])


def _upload() -> Upload | None:
    given = st.file_uploader("A CSV or Parquet table, one row per observation", type=TYPES)
    if given is not None:
        st.session_state["demo"] = None
        return Upload(given.name, given.getvalue())
    if st.button("Try it with a simulated double well"):
        st.session_state["demo"] = Upload(DATA, demo_table().encode())
    return st.session_state.get("demo")


def _settings(upload: Upload) -> tuple[Columns, BandSettings] | None:
    """What is chosen, when the button is pressed."""
    is_csv = not upload.name.lower().endswith((".parquet", ".pq"))
    with st.expander("How the file is written"):
        separator = SEPARATORS[st.selectbox("Between the cells", SEPARATORS)] if is_csv else None
        decimal = DECIMALS[st.selectbox("Decimal sign", DECIMALS)] if is_csv else None
        missing = MISSING[st.selectbox("Empty cells", MISSING)]
    numeric = upload.columns(separator, decimal)
    names = list(numeric)
    clock = next((i for i, name in enumerate(names) if name.strip().lower() in CLOCKS), -1)
    left, right = st.columns(2)
    time = left.selectbox("Time", [*names, NO_CLOCK], index=clock if clock >= 0 else len(names))
    has_clock = time != NO_CLOCK
    gap = right.number_input("Gap between rows, if constant", value=1.0, min_value=0.0, format="%g", disabled=has_clock)
    left, right = st.columns(2)
    ids = next((1 + i for i, name in enumerate(names) if IDS.fullmatch(name.strip())), 0)
    path = left.selectbox("Column that tells paths apart", [NO_PATH, *names], index=ids)
    unit = right.text_input("Unit of time (for dates: s, min, h, D)", "")
    free = [name for name in names if name not in (time, path)]
    likely = [name for name in free if numeric[name]]
    values = st.multiselect("State: one to three columns", free, default=likely[:MOST], max_selections=MOST)
    with st.expander("Bands and seed"):
        resamples = st.number_input("Times the data are drawn again for bands (0: no bands)", 0, 1000, 50)
        level = st.slider("Level of the bands", 0.5, 0.99, 0.9)
        seed = st.number_input("Seed", 0, 2**31 - 1, 0)
    columns = Columns(
        time=time if has_clock else None,
        values=tuple(values),
        path=None if path == NO_PATH else path,
        dt=None if has_clock else gap,
        time_unit=unit or None,
        separator=separator,
        decimal=decimal,
        missing=missing,
    )
    pressed = st.button("Estimate", type="primary", disabled=not values)
    return (columns, BandSettings(float(level), int(resamples), int(seed))) if pressed else None


def _results(finished: Finished) -> None:
    for remark in finished.remarks:
        st.warning(plain(remark))
    with st.container(horizontal=True):
        _download(finished, "report.html", "Download the report")
        _download(finished, ARCHIVE, "Download everything")
    sections = finished.page.sections
    *tabs, files = st.tabs([*(section.anchor.capitalize() for section in sections), "Files"])
    for tab, section in zip(tabs, sections, strict=True):
        with tab:
            st.subheader(section.title)
            if section.anchor == "fields":
                _curves(finished)
            show_section(section)
    with files:
        for name in finished.files:
            _download(finished, name, name)
        st.markdown("The same on the command line:")
        st.code(finished.command, language=None)


def _download(finished: Finished, name: str, label: str) -> None:
    mime = mimetypes.guess_type(name)[0]
    st.download_button(label, finished.files[name], name, mime, on_click="ignore", key=f"{label} {name}")


def _curves(finished: Finished) -> None:
    """Fields along one axis through a state that can be moved."""
    result, axis = finished.result, 0
    assert result.observations is not None, "an estimate has its data"
    state = np.median(result.observations.values, axis=0)
    if result.dim > 1:
        axis = result.names.index(st.selectbox("Along", result.names))
        low, high = result.observations.box()
        for j in (j for j in range(result.dim) if j != axis):
            state[j] = st.slider(f"{plain(result.names[j])} is", float(low[j]), float(high[j]), float(state[j]))
    found = curves.curve_table(result, finished.bands, axis, state)
    for component in range(result.dim):
        for field, place in zip(("drift", "diffusion"), st.columns(2), strict=True):
            place.altair_chart(curves.chart(result, found, axis, field, component), width="stretch")


if __name__ == "__main__":  # streamlit runs this file as a script
    main()
