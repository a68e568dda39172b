"""Tabs in which questions are asked of a result: forecast, comparison of methods, exit times, several data sets."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pandas as pd
import streamlit as st

from fimsde.analysis.compare import DEFAULT, compare
from fimsde.data.observations import Observations
from fimsde.data.summary import in_words
from fimsde.errors import FimsdeError
from fimsde.interface.app import curves
from fimsde.interface.app.show import plain
from fimsde.interface.app.work import Finished, command_line, run_sets
from fimsde.methods import ALIASES
from fimsde.plots import style

T = TypeVar("T")
_SEEN = 3  # times the length of the forecast: how much of the record is drawn before it; by hand
_MOST_SETS = 200  # different cells of a column that may tell data sets apart; by hand: more is work for a command


def forecast(finished: Finished) -> None:
    """The law of the state at later times, given the last observation."""
    result, data = finished.result, _data(finished)
    st.subheader("Forecast")
    st.markdown(
        "Simulated from the last observation on: the median, the middle half and the middle nine tenths of 1000 paths. "
        "Paths take turns among equations drawn from the posterior: the width holds how uncertain the equation is."
    )
    steps = int(st.number_input("Steps ahead, each as long as a typical gap", 1, 10_000, 50))
    table = _kept(f"forecast {steps}", finished, lambda: result.forecast(steps, seed=finished.bands.seed))
    if table is None:
        return
    times, values = data.path(data.num_paths - 1)
    for j, name in enumerate(result.names):
        seen = pd.DataFrame({"time": times, "value": values[:, j]}).tail(_SEEN * steps)
        shown = curves.forecast_chart(seen, table, name, style.time_label(result.time_unit))
        st.altair_chart(shown, width="stretch")
    st.download_button("Download the forecast", table.to_csv(index=False), "forecast.csv", on_click="ignore")


def comparison(finished: Finished) -> None:
    """All methods on these data."""
    st.markdown(
        "Every method is fitted to four fifths of the data and scored on the rest. **Likelihood**: mean log density of "
        "held-out observations, larger is better. **MMD²**: discrepancy between simulated and held-out paths, about 0 "
        "for a perfect method; a small p speaks against the method."
    )
    called = {stored: name for name, stored in ALIASES.items()}
    chosen = st.multiselect("Methods", DEFAULT, default=DEFAULT[:2], format_func=lambda name: called.get(name, name))
    if st.button("Compare", disabled=not chosen):
        finished.answers["compared"] = tuple(chosen)
    asked = finished.answers.get("compared")
    if not asked:
        return
    with st.spinner("fitting and scoring"):
        found = _kept(f"compare {asked}", finished, lambda: compare(_data(finished), asked, seed=finished.bands.seed))
    if found is None:
        return
    rows = [
        {"method": s.title, "likelihood": s.likelihood, "MMD²": s.mmd, "p": s.p_value, "CPU s": s.seconds,
         "failure": s.failure or ""}
        for s in found.scores
    ]  # fmt: skip
    st.dataframe(pd.DataFrame(rows), hide_index=True, width="stretch")
    st.caption(f"{found.num_held_out} held-out steps.")


def exit_times(finished: Finished) -> None:
    """How long until a path leaves a box, by the backward equation."""
    result, data = finished.result, _data(finished)
    if result.dim > 2:
        st.info("Mean exit times are computed for one and two components.")
        return
    st.markdown("Mean time until a path from the start leaves the box for the first time.")
    low, high = data.box()
    median = np.median(data.values, axis=0)
    box, start = [], []
    for j, name in enumerate(result.names):
        first, second, third = st.columns(3)
        label = plain(name)
        from_ = first.number_input(f"{label} from", value=float(np.quantile(data.values[:, j], 0.05)), format="%.4g")
        to = second.number_input(f"{label} to", value=float(np.quantile(data.values[:, j], 0.95)), format="%.4g")
        begin = third.number_input(f"{label} at the start", value=float(median[j]), format="%.4g")
        box.append((from_, to))
        start.append(begin)
    corners = np.array(box).T
    if np.any(corners[0] >= corners[1]):
        st.error("The box is empty: each end must be above the beginning.")
        return
    found = _kept(f"exit {box}", finished, lambda: result.exit_time((corners[0], corners[1])))
    if found is None:
        return
    time = float(found.at(np.array([start]))[0])
    st.metric("Mean exit time", f"{time:.4g} {in_words(result.time_unit)}")
    if found.drawn is not None and (result.dim == 1 or st.checkbox("With an interval, which takes some seconds")):
        with st.spinner("solving for draws of the posterior"):
            where = f"interval {box} {start}"
            interval = _kept(where, finished, lambda: found.interval(np.array([start])))
        if interval is not None:
            ends = (f"{float(np.ravel(end)[0]):.3g}" for end in (interval.low, interval.high))
            st.caption(f"{' to '.join(ends)} with a probability of {interval.level:.0%}")
    if np.any(corners[0] < low) or np.any(corners[1] > high):
        st.caption("The box reaches beyond the data, where drift and diffusion are extrapolated.")


def data_sets(finished: Finished) -> None:
    """An equation for every value of a column."""
    look, columns = st.session_state["look"], finished.columns
    used = {columns.time, *(columns.value_names() or [])}
    free = [c.name for c in look.columns if c.name not in used and 1 < c.num_values <= _MOST_SETS]
    if not free:
        st.info("No column of this table tells data sets apart: subject, site, condition, ...")
        return
    st.markdown("One equation for every value of a column, and a table that collects them.")
    by = st.selectbox("Column that tells data sets apart", free)
    if st.button("Estimate each of them"):
        finished.answers["by"] = by
    if finished.answers.get("by") != by:
        return
    own = columns if columns.path != by else replace(columns, path=None)
    shown = st.progress(0.0, "reading the table")
    made = _kept(
        f"sets {by}", finished, lambda: run_sets(finished.upload, own, by, finished.bands.seed, shown.progress)
    )
    shown.empty()
    if made is not None:
        table, archive = made
        st.dataframe(_told(table), hide_index=True, width="stretch")
        st.download_button("Download all of them", archive, "data_sets.zip", on_click="ignore")
        same = f"{command_line(finished.upload.name, own, finished.bands)} {shlex.join(['--by', by, '--no-report'])}"
        st.code(same, language=None, wrap_lines=True)


def _told(table: pd.DataFrame) -> pd.DataFrame:
    """The table with what failed beside the names, and without columns in which nothing stands."""
    filled = table.astype(object).where(table.notna(), "")
    order = ["data_set", "failure", *(name for name in filled if name not in ("data_set", "failure"))]
    return filled[[name for name in order if (filled[name] != "").any()]].astype({"data_set": str})


def _data(finished: Finished) -> Observations:
    assert finished.result.observations is not None, "an estimate has its data"
    return finished.result.observations


def _kept(name: str, finished: Finished, compute: Callable[[], T]) -> T | None:
    """What was computed for a result, once; a sentence on the page and None if it cannot be."""
    try:
        if name not in finished.answers:
            finished.answers[name] = compute()
        found: T = finished.answers[name]
        return found
    except FimsdeError as error:
        st.warning(plain(str(error)))
        return None
