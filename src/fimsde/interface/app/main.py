"""The page of the app, run by streamlit from top to bottom whenever something is chosen."""

import mimetypes
from collections.abc import Callable, Mapping

import numpy as np
import streamlit as st

from fimsde.errors import FimsdeError
from fimsde.interface.app import ask, curves
from fimsde.interface.app.choose import choose
from fimsde.interface.app.show import on_page, plain, show_section
from fimsde.interface.app.work import ARCHIVE, LARGEST, Finished, Upload, run
from fimsde.interface.cli.demo import DATA, demo_table
from fimsde.report.blocks import Section
from fimsde.report.classes import classes

Sections = Mapping[str, Section]
TYPES = ["csv", "txt", "tsv", "xlsx", "parquet", "pq"]


def main() -> None:
    """The whole page."""
    st.set_page_config("fimsde", layout="centered")
    st.header("The equation behind your time series")
    st.markdown("A table in, dx = f(x) dt + √g(x) dW out, with checks. Everything stays on this machine.")
    upload = _upload()
    if upload is None:
        return
    if st.session_state.get("upload") != upload:
        st.session_state.update(upload=upload, finished=None)
    try:
        with st.expander("Your data", expanded=st.session_state["finished"] is None):  # folded: the answer is on top
            asked = choose(upload)
        if asked is not None:
            shown = st.progress(0.0, "reading the table")
            st.session_state["finished"] = None
            st.session_state["finished"] = run(upload, *asked, shown.progress)
            st.rerun()
    except FimsdeError as error:
        st.error(plain(on_page(str(error))))
    if st.session_state["finished"] is not None:
        _results(st.session_state["finished"])


def _upload() -> Upload | None:
    label = f"A CSV, Excel or Parquet table, one row per observation, at most {LARGEST} MB"
    given = st.file_uploader(label, type=TYPES)
    if given is not None:
        st.session_state["demo"] = None
        return Upload(given.name, given.getvalue())
    if st.button("Try it with a simulated double well"):
        st.session_state["demo"] = Upload(DATA, demo_table().encode())
    return st.session_state.get("demo")


def _results(finished: Finished) -> None:
    for remark in finished.remarks:
        st.warning(plain(remark))
    sections = {section.anchor: section for section in finished.page.sections}
    st.subheader("The answer")
    show_section(sections["answer"])
    with st.container(horizontal=True):
        _download(finished, "report.html", "Download the report")
        _download(finished, ARCHIVE, "Download everything")
    for (_, fill), tab in zip(TABS, st.tabs([label for label, _ in TABS]), strict=True):
        with tab:
            fill(finished, sections)


def _fields(finished: Finished, sections: Sections) -> None:
    _curves(finished)
    show_section(sections["fields"])


def _dynamics(finished: Finished, sections: Sections) -> None:
    for name in ("landscape", "equation"):
        st.subheader(sections[name].title)
        show_section(sections[name])


def _checks(finished: Finished, sections: Sections) -> None:
    for name in ("verdicts", "data"):
        st.subheader(sections[name].title)
        show_section(sections[name])


def _simulation(finished: Finished, sections: Sections) -> None:
    ask.forecast(finished)
    st.subheader(sections["simulated"].title)
    show_section(sections["simulated"])


def _classes(finished: Finished, sections: Sections) -> None:
    st.subheader("Classes of equations")
    show_section(Section("classes", "Classes of equations", classes(finished.result)))


def _files(finished: Finished, sections: Sections) -> None:
    with st.container(horizontal=True):
        for name in finished.files:
            _download(finished, name, name)
    st.markdown("The same on the command line:")
    st.code(finished.command, language=None, wrap_lines=True)
    st.markdown("The same in Python:")
    st.code(finished.script, language="python", wrap_lines=True)
    for name in ("reproducibility", "citation"):
        st.subheader(sections[name].title)
        show_section(sections[name])


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


TABS: tuple[tuple[str, Callable[[Finished, Sections], None]], ...] = (
    ("Fields", _fields),
    ("Dynamics", _dynamics),
    ("Checks", _checks),
    ("Simulation", _simulation),
    ("Compare", lambda finished, sections: ask.comparison(finished)),
    ("Exit times", lambda finished, sections: ask.exit_times(finished)),
    ("Classes", _classes),
    ("Data sets", lambda finished, sections: ask.data_sets(finished)),
    ("Files and code", _files),
)

if __name__ == "__main__":  # streamlit runs this file as a script
    main()
