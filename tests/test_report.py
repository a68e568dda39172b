"""The report: sections in order, nothing from outside, text of users as text, complete or absent."""

import hashlib
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser

import numpy as np
import pytest

import fimsde
from fimsde.analysis.formula import plain_number
from fimsde.analysis.naming import without_units
from fimsde.data.health import health
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.files.identities import data_hash
from fimsde.plots import BandSettings
from fimsde.report import find, num_steps, page, write_report
from fimsde.report.classes import probabilities
from fimsde.report.findings import weights_hash
from fimsde.report.folder import write_fields
from fimsde.report.formulas import columns
from fitted import linear
from problems import OrnsteinUhlenbeck

FEW = BandSettings(resamples=3)
EVIL = "<script>alert(1)</script>\"'>&"
ORDER = ["answer", "fields", "landscape", "simulated", "verdicts", "equation", "data", "reproducibility", "citation"]


class Page(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.sections, self.sources, self.text = [], [], [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        if tag == "section":
            self.sections.append(given["id"])
        self.sources += [given[key] for key in ("src", "href", "srcset", "data") if given.get(key)]

    def handle_data(self, data):
        self.text += data


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A report on two components, one with an evil name, and the file it is in."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    result = linear(2, names=[EVIL, "b (mm)"], time_unit="s<b>")
    calls = []
    write_report(result, file, bands=FEW, seed=1, progress=calls.append)
    return result, file, calls


def test_sections_come_in_the_promised_order_and_link_to_each_other(written):
    found = Page(written[1].read_text())
    assert found.sections == ORDER
    assert [s for s in found.sources if s.startswith("#")] == [f"#{name}" for name in ORDER]


def test_the_page_needs_nothing_but_itself(written):
    found = Page(written[1].read_text())
    assert not {"script", "link", "iframe", "object", "embed"} & set(found.tags)
    assert all(s.startswith(("#", "data:image/png;base64,")) for s in found.sources)
    assert "url(" not in written[1].read_text()
    assert "default-src 'none'" in written[1].read_text()


def test_figures_with_panels_side_by_side_have_another_for_phones(written):
    figures = re.findall(r'<figure class="scroll wide">.*?</figure>', written[1].read_text(), re.DOTALL)
    narrow = [re.search(r'<source media="screen and [^"]*" srcset="([^"]*)">', figure) for figure in figures]
    assert len(figures) >= 6
    assert sum(found is not None for found in narrow) >= 5
    for figure, found in zip(figures, narrow, strict=True):
        assert found is None or found[1] != re.search(r'<img[^>]* src="([^"]*)"', figure)[1]


def test_text_from_users_is_text(written):
    raw = written[1].read_text()
    assert "<script" not in raw
    assert "s<b>" not in raw
    found = Page(raw)
    assert EVIL in found.text
    assert f"d{EVIL} = " in found.text, "the formula does not keep the name"


def test_numbers_are_those_of_the_result(written):
    result, file, _ = written
    found = Page(file.read_text())
    assert re.search(r"400 in 1 path(?![(s])", found.text)
    assert data_hash(result.observations) in found.text
    assert fimsde.__version__ in found.text
    for verdict in result.check(seed=1):
        assert verdict.because or verdict.next_step in found.text
    short = replace(result.equation(), names=without_units(result.names))
    for line in str(short).splitlines()[:2]:
        assert line in [unescape(label) for label in re.findall(r'aria-label="([^"]*)"', file.read_text())]


def test_classes_of_equations_have_probabilities_that_add_up(tmp_path):
    rng = np.random.default_rng(1_000_000)
    x = np.zeros(600)
    for i in range(1, 600):
        x[i] = 0.9 * x[i - 1] + 0.2 * rng.standard_normal()
    result = fimsde.estimate(fimsde.read(x, dt=0.1, names=["x"]))
    found = probabilities(result)
    assert set(found) == {"drift", "diffusion"}
    for classes in found.values():
        np.testing.assert_allclose(sum(shares[0] for shares in classes.values()), 1)
    assert max(found["diffusion"], key=lambda label: found["diffusion"][label][0]) == "constant"
    assert found["drift"]["no drift"][0] < 0.05
    write_report(result, tmp_path / "report.html", bands=BandSettings(resamples=0))
    assert f"{found['drift']['linear'][0]:.0%}" in (tmp_path / "report.html").read_text()
    assert probabilities(linear(2)) == {}


def test_the_table_of_terms_had_smaller_errors_than_the_answer(tmp_path):
    """Standard errors of the readout stood beside half widths of intervals of the posterior."""
    walk = np.zeros(800)
    rng = np.random.default_rng(1_000_001)
    for i in range(1, 800):
        walk[i] = 0.9 * walk[i - 1] + 0.2 * rng.standard_normal()
    result = fimsde.estimate(fimsde.read(walk, dt=0.1, names=["x"]))
    text = Page(write_report(result, tmp_path / "r.html", bands=BandSettings(resamples=0)).read_text()).text
    rows = result.equation().to_pandas()
    assert "90% interval" in text
    assert "standard error" not in text
    for row in rows.itertuples():
        assert f"{plain_number(row.low, 3)} to {plain_number(row.high, 3)}" in text
    assert columns(linear(1).equation()) == ("term", "coefficient", "standard error")


def test_progress_counts_every_step(written):
    result, _, calls = written
    assert len(calls) == num_steps(result, FEW)


def test_a_report_replaces_its_file_and_leaves_nothing_else(tmp_path):
    file = tmp_path / "report.html"
    file.write_text(f'{page.SIGNATURE}0.1"> old')
    assert linear(1).report(file, resamples=2) == file
    assert file.read_text().startswith("<!DOCTYPE html>")
    assert list(tmp_path.iterdir()) == [file]


def test_an_interrupted_report_leaves_what_was_there(tmp_path, monkeypatch):
    file = tmp_path / "report.html"
    old = f'{page.SIGNATURE}0.1"> old'
    file.write_text(old)

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "render", stop)
    with pytest.raises(KeyboardInterrupt):
        write_report(linear(1), file, bands=BandSettings(resamples=0))
    assert file.read_text() == old
    assert list(tmp_path.iterdir()) == [file]


def test_what_cannot_be_computed_says_why_and_the_rest_is_there(tmp_path):
    observations = linear(1).observations
    holes = fimsde.FunctionSDE(1, lambda x: -x, lambda x: np.where(np.abs(x) < 0.02, np.nan, 1.0))
    file = write_report(fimsde.result(holes, observations, method="holes"), tmp_path / "r.html")
    found = Page(file.read_text())
    assert found.sections == ORDER
    assert "not finite" in found.text
    assert "was not fitted to the data" in found.text


@pytest.mark.parametrize(("where", "says"), [("missing/report.html", "choose another place"), (".", "is a folder")])
def test_an_impossible_place_is_refused_before_any_work(tmp_path, where, says):
    with pytest.raises(ConfigError, match=says):
        write_report(linear(1), tmp_path / where)


def test_a_textbook_system_without_data_has_no_report(tmp_path):
    with pytest.raises(ConfigError, match="needs observations"):
        write_report(fimsde.result(OrnsteinUhlenbeck()), tmp_path / "r.html")


@pytest.mark.slow
def test_three_components_are_reported(tmp_path):
    """Slow for its many panels; each kind of figure is drawn in 3-D by the default tests. Buys the whole page."""
    file = write_report(linear(3, num_points=150), tmp_path / "r.html", bands=BandSettings(resamples=2))
    assert Page(file.read_text()).sections == ORDER


def test_the_record_is_json_with_null_for_what_is_not_finite():
    import json

    record = find(linear(1), seed=2).record()
    text = json.dumps(record, allow_nan=False)
    assert json.loads(text)["seed"] == 2
    assert record["weights_sha256"] is None
    assert record["fixed_points"][0]["kind"] == "stable node"
    assert abs(record["fixed_points"][0]["x"][0]) < 0.2
    assert record["not_computed"] == {}


def test_the_weights_hash_is_that_of_the_file():
    from fimsde.estimation import BUNDLED

    result = fimsde.estimate(linear(1).observations, "bundled")
    assert weights_hash(result) == hashlib.sha256((BUNDLED / "model.safetensors").read_bytes()).hexdigest()


def test_the_data_hash_notices_every_change():
    obs = linear(1).observations
    moved = obs.values.copy()
    moved[5] += 1e-12
    others = [replace(obs, values=moved), replace(obs, times=obs.times + 1), replace(obs, names=("z",))]
    assert len({data_hash(o) for o in [obs, *others]}) == 4
    assert data_hash(replace(obs, values=obs.values.copy())) == data_hash(obs)


def test_the_record_holds_the_numbers_of_the_analyses():
    result = linear(1)
    record, density = find(result, seed=2).record(), result.stationary_density()
    assert record["stationary_density"]["mean"] == pytest.approx(density.mean())
    assert record["stationary_density"]["variance"] == pytest.approx(density.variance())
    assert record["fixed_points"][0]["eigenvalues"] == [[pytest.approx(-result.sde.theta), 0]]


def test_the_time_covered_is_that_of_the_paths_without_the_time_between_them():
    obs = fimsde.read([np.arange(11.0), np.arange(11.0) ** 2], times=[np.arange(11.0), 1000 + 2 * np.arange(11.0)])
    assert health(obs).span == 30
    assert health(obs).gaps == (1, 1.5, 2)


def test_remarks_name_what_is_odd_about_the_data_and_nothing_else():
    rng = np.random.default_rng(0)
    walk = np.cumsum(rng.standard_normal(1000))
    assert health(fimsde.read(walk, dt=1.0)).remarks == ()
    few = health(fimsde.read(walk[:50], dt=1.0)).remarks
    assert len(few) == 1
    assert "few" in few[0]
    jump = health(fimsde.read(np.where(np.arange(1000) < 500, walk, walk + 100), dt=1.0)).remarks
    assert len(jump) == 1
    assert "1 steps differ" in jump[0]
    tied = health(fimsde.read(np.stack([walk, 3 - 1e-9 * walk], axis=1), dt=1.0, names=["a", "b"])).remarks
    assert "a, b: one of them follows from the others" in tied[0]
    assert "Leave one out" in tied[0]
    held = health(fimsde.read(np.repeat(walk[:500], 2), dt=1.0)).remarks
    assert any("do not move" in remark for remark in held)
    times = np.arange(1000.0) + 50 * (np.arange(1000) >= 400)
    gaps = health(fimsde.read(walk, times=times)).remarks
    assert any("1 of 999 gaps" in remark for remark in gaps)


def test_gaps_are_long_against_the_median_gap_even_if_there_are_many_of_them():
    """Four gaps in ten are six times as long as the others; the mean gap is three."""
    times = np.cumsum(np.where(np.arange(1000) % 5 < 2, 6.0, 1.0))
    remarks = health(fimsde.read(np.cumsum(np.random.default_rng(0).standard_normal(1000)), times=times)).remarks
    assert any("400 of 999 gaps" in remark or "399 of 999 gaps" in remark for remark in remarks), remarks


@pytest.mark.parametrize(("distinct", "is_coarse"), [(13, True), (49, True), (51, False)])
def test_a_coarse_resolution_of_observations_is_named(distinct, is_coarse):
    walk = np.random.default_rng(0).permutation(np.arange(1000) % distinct).astype(float)
    remarks = health(fimsde.read(walk, dt=1.0)).remarks
    assert any(f"only {distinct} distinct values" in remark for remark in remarks) == is_coarse


def test_standing_still_is_counted_in_each_component():
    rng = np.random.default_rng(0)
    steps = rng.standard_normal((1000, 2))
    steps[np.arange(1000) % 10 == 0, 1] = 0
    remarks = health(fimsde.read(np.cumsum(steps, axis=0), dt=1.0, names=["a", "b"])).remarks
    assert [remark[:28] for remark in remarks] == ["b: 10% of the steps do not m"]


@pytest.mark.parametrize(("size", "where", "found"), [(9.0, 500, False), (12.0, 500, True), (12.0, 999, False)])
def test_a_jump_is_ten_standard_deviations_from_both_of_its_neighbours(size, where, found):
    """At the end of a path there is one neighbour only, and no telling."""
    moves = np.random.default_rng(1).standard_normal(2000)
    moves[[where - 1, where + 1]] = 0.0
    moves[where] = size
    paths = [np.concatenate([[0.0], np.cumsum(part)]) for part in np.split(moves, 2)]
    remarks = health(fimsde.read(paths, dt=1.0)).remarks
    assert any("1 steps differ" in remark for remark in remarks) == found


def test_a_long_gap_is_no_jump():
    """Steps grow with the root of their gap: every fiftieth gap is ten thousand times as long."""
    rng = np.random.default_rng(0)
    gaps = np.where(np.arange(1000) % 50 == 0, 1e4, 1.0)
    walk = np.cumsum(np.sqrt(gaps) * rng.standard_normal(1000))
    remarks = health(fimsde.read(walk, times=np.cumsum(gaps))).remarks
    assert not any("differ from their neighbours" in remark for remark in remarks)


def test_a_table_with_a_number_that_is_none_is_not_written(tmp_path):
    holes = fimsde.FunctionSDE(1, lambda x: -x, lambda x: np.where(np.abs(x) < 0.1, np.nan, 1.0))
    result = fimsde.result(holes, linear(1).observations)
    with pytest.raises(InvalidObservationsError, match=r"'diffusion x1' is nan at \[.*\]: the data do not tell it"):
        write_fields(result, tmp_path / "fields.csv", BandSettings(resamples=0))
    assert not list(tmp_path.iterdir())
