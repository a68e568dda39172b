"""Suites against specialists: what is measured, stored and compared."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from fimsde.baselines import peers_sfi
from fimsde.benchmark.fingerprint import PACKAGE, SHARED, own_places
from fimsde.benchmark.suites import run as suite_run
from fimsde.benchmark.suites.cases import SUITES, Case, cases, names
from fimsde.benchmark.suites.measure import Score, measure, sfi_errors, specialised, suite_code, suite_places
from fimsde.benchmark.suites.run import other_code, run_suite, stored
from fimsde.benchmark.suites.store import read_scores, scores_file
from fimsde.benchmark.suites.tables import MEASURES, best_specialist, bursting, comparison, ratio, seconds, tables
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError, DatasetError
from fimsde.interface.cli import app, main
from fimsde.methods import Method, named
from fimsde.simulate import simulate
from fimsde.systems.canonical import stream
from fimsde.systems.gallery import GALLERY
from fimsde.systems.samples import observe
from test_benchmark_code import WITHOUT_NUMBERS
from test_layout import imports

TRUTH = FunctionSDE(1, lambda x: -x, np.ones_like)
STATES = simulate(TRUTH, np.zeros((1, 1)), np.arange(300) * 0.1, seed=1).values[0]
SAMPLE = observe(TRUTH, STATES, 0.1, np.array([0.05]), stream(0, "test"))


class Fit:
    """A method that counts its fits, fails on demand and returns twice the truth."""

    def __init__(self, failure=None):
        self.fits, self.failure = 0, failure

    def __call__(self, observations, seed):
        self.fits += 1
        if self.failure:
            raise self.failure
        return FunctionSDE(1, lambda x: -2 * x, lambda x: np.full_like(x, np.sqrt(2)))


@pytest.fixture(autouse=True)
def one_small_sample(monkeypatch):
    monkeypatch.setattr(suite_run, "load", lambda case: SAMPLE)


# What is measured


def test_the_errors_of_sfi_divide_by_the_size_of_the_estimate():
    """(x - 2x)² / (2x)² and (1 - 2)² / 2² for a drift and a g that are twice the truth; zero for the truth."""
    twice = FunctionSDE(1, lambda x: -2 * x, lambda x: np.full_like(x, np.sqrt(2)))
    np.testing.assert_allclose(sfi_errors(twice, TRUTH, STATES), (0.25, 0.25))
    assert sfi_errors(TRUTH, TRUTH, STATES) == (0.0, 0.0)


def test_the_errors_of_sfi_weigh_components_by_their_noise():
    """Stated anew with matrices: A = 2 D is diag(2, 8) for sqrt(g) = (sqrt 2, sqrt 8)."""
    truth = FunctionSDE(2, lambda x: -x, lambda x: np.broadcast_to(np.sqrt([2.0, 8.0]), x.shape))
    wrong = FunctionSDE(2, lambda x: x * [-1.5, -3.0], lambda x: np.broadcast_to(np.sqrt([3.0, 8.0]), x.shape))
    x = np.random.default_rng(0).standard_normal((50, 2))
    inverse = np.linalg.inv(np.diag([2.0, 8.0]))
    miss, found = truth.drift(x) - wrong.drift(x), wrong.drift(x)
    drift = np.einsum("qi,ij,qj", miss, inverse, miss) / np.einsum("qi,ij,qj", found, inverse, found)
    lost, had = inverse @ np.diag([0.5, 0.0]), inverse @ np.diag([1.5, 4.0])
    np.testing.assert_allclose(sfi_errors(wrong, truth, x), (drift, np.trace(lost @ lost) / np.trace(had @ had)))


def test_a_negative_g_counts_as_zero():
    nowhere = FunctionSDE(1, TRUTH.drift, lambda x: np.full_like(x, np.nan))
    half = FunctionSDE(1, TRUTH.drift, lambda x: np.where(np.arange(len(x))[:, None] % 2, 1.0, np.nan))
    assert not np.isfinite(sfi_errors(nowhere, TRUTH, STATES)[1])
    np.testing.assert_allclose(sfi_errors(half, TRUTH, STATES)[1], 1.0)  # half are off by one, half are one


def test_a_score_holds_both_measures_the_rate_and_the_noise():
    def fit(observations, seed):
        found = Fit()(observations, seed)
        return type(
            "Told",
            (),
            {"dim": 1, "drift": staticmethod(found.drift), "noise_std": np.array([0.1])}
            | {"diffusion": staticmethod(found.diffusion)},
        )()

    score = measure(Case("gallery", "ou", "", 3, 7), Method("mine", "Mine", fit), SAMPLE)
    assert (score.system, score.repetition, score.failure) == ("ou", 3, None)
    np.testing.assert_allclose([score.nmse_drift, score.nmse_diffusion], 0.25)
    np.testing.assert_allclose(score.drift, np.mean(STATES**2))
    np.testing.assert_allclose(score.relative_drift, np.mean(STATES**2) / np.var(STATES))
    np.testing.assert_allclose(score.diffusion, (np.sqrt(2) - 1) ** 2)
    np.testing.assert_allclose(score.rate_ratio, [2.0])
    np.testing.assert_allclose(score.noise_ratio, [4.0])


def test_what_a_method_raises_and_an_endless_drift_are_failures():
    case = Case("gallery", "ou", "", 0)
    score = measure(case, Method("mine", "Mine", Fit(ValueError("no"))), SAMPLE)
    assert (score.failure, score.drift) == ("ValueError: no", None)
    endless = FunctionSDE(1, lambda x: np.full_like(x, np.inf), np.ones_like)
    score = measure(case, Method("mine", "Mine", lambda observations, seed: endless), SAMPLE)
    assert score.failure == "the error of the drift is inf, of the diffusion 0.0"


def test_an_estimate_of_zero_has_no_normalised_error_and_is_no_failure():
    still = FunctionSDE(1, np.zeros_like, np.ones_like)
    score = measure(Case("gallery", "ou", "", 0), Method("mine", "Mine", lambda observations, seed: still), SAMPLE)
    assert (score.failure, score.nmse_drift, score.nmse_diffusion) == (None, None, 0.0)
    np.testing.assert_allclose(score.drift, np.mean(STATES**2))


def test_errors_that_a_missing_package_makes_are_not_hidden():
    case = Case("gallery", "ou", "", 0)
    with pytest.raises(ConfigError, match="absent"):
        measure(case, Method("mine", "Mine", Fit(ConfigError("absent"))), SAMPLE)


@pytest.mark.parametrize(("suite", "system", "degree"), [("gallery", "lorenz", 2), ("gallery", "muller_brown", 5)])
@pytest.mark.parametrize("name", ["sfi-linear", "sfi-parametric"])
def test_sfi_gets_the_degree_of_its_gallery_and_knows_of_the_absence_of_noise(name, suite, system, degree):
    clean = replace(SAMPLE, noise_std=np.zeros(1))
    found = specialised(named([name])[0], Case(suite, system, "", 0), clean)
    assert found.name == name
    assert found.settings == repr(peers_sfi.SFISettings(name.removeprefix("sfi-"), drift_degree=degree, noise="absent"))
    noisy = specialised(named([name])[0], Case("noisy-cubic", "duffing", "gap=0.1", 0), SAMPLE)
    assert noisy.settings == named([name])[0].settings
    other = Method("mine", "Mine", Fit())
    assert specialised(other, Case(suite, system, "", 0), clean) is other


# What is run and stored


def test_every_suite_has_its_cases():
    assert len(cases("gallery")) == 10 * 20
    assert len(cases("noisy-cubic")) == 9 * 2 * 5
    assert len(cases("bursts")) == 10
    assert all(set(cases(suite, quick=True)) < set(cases(suite)) for suite in SUITES)
    assert {case.system for case in cases("gallery", systems=["ou"], repetitions=3)} == {"ou"}
    assert names("gallery") == tuple(GALLERY)
    with pytest.raises(ConfigError, match="hopf is not in gallery"):
        cases("gallery", systems=["hopf"])
    with pytest.raises(ConfigError, match="21 repetitions; expected 1 to 20"):
        cases("gallery", repetitions=21)


def test_a_run_goes_on_where_another_stopped(tmp_path):
    fit = Fit()
    method = Method("mine", "Mine", fit)
    run_suite("gallery", [method], out=tmp_path, systems=["ou"], repetitions=2)
    found = run_suite("gallery", [method], out=tmp_path, systems=["ou"], repetitions=3)
    assert fit.fits == 3
    assert sorted(found["mine"]) == [("ou", "", r) for r in range(3)]
    assert stored("gallery", [method], out=tmp_path, seed=1) == {}
    assert len(list(tmp_path.rglob("*.json"))) == 1


def test_scores_keep_six_digits_and_other_settings_another_file(tmp_path):
    one, other = (Method("mine", "Mine", Fit(), settings) for settings in ("a", "b"))
    run_suite("gallery", [one], out=tmp_path, systems=["ou"], repetitions=1)
    assert stored("gallery", [other], out=tmp_path) == {}
    kept = json.loads(scores_file(tmp_path, "gallery", 0, one).read_text())["scores"][0]
    exact = measure(Case("gallery", "ou", "", 0), one, SAMPLE)
    assert kept["drift"] == float(f"{exact.drift:.6g}") != exact.drift
    assert "failure" not in kept


def test_scores_of_other_code_are_named_and_computed_again_on_demand(tmp_path):
    fit = Fit()
    method = Method("mine", "Mine", fit)
    run_suite("gallery", [method], out=tmp_path, systems=["ou"], repetitions=2)
    file = scores_file(tmp_path, "gallery", 0, method)
    code = suite_code("gallery", "mine")
    file.write_text(file.read_text().replace(code, "0" * 16, 1))
    found = run_suite("gallery", [method], out=tmp_path, systems=["ou"], repetitions=2)
    assert fit.fits == 2
    assert other_code("gallery", found) == ["gallery, mine: 1 of 2 scores are of other code; --renew computes them."]
    found = run_suite("gallery", [method], out=tmp_path, systems=["ou"], repetitions=2, renew=True)
    assert fit.fits == 3
    assert other_code("gallery", found) == []


def test_a_damaged_file_is_named(tmp_path):
    file = tmp_path / "scores.json"
    assert read_scores(file) == {}
    for text in ("{", '{"format": 0, "scores": []}', '{"format": 1, "scores": [{"what": 1}]}'):
        file.write_text(text)
        with pytest.raises(DatasetError, match=r"scores.json holds no readable scores .* delete it"):
            read_scores(file)


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("method", ["ours", "sfi-linear"])
def test_what_decides_a_score_imports_nothing_that_its_places_leave_out(suite, method):
    graph = imports(PACKAGE)
    chosen = (*SHARED, *suite_places(suite), *own_places(method))
    places = {f"fimsde.{p.removesuffix('.py').replace('/', '.')}" for p in chosen}
    idle = {f"fimsde.{place}" for place in (*WITHOUT_NUMBERS, "baselines", "systems")}  # other methods, other suites

    def among(module, some):
        return any(module == place or module.startswith(place + ".") for place in some)

    asked = set().union(*(graph[module] for module in graph if among(module, places)))
    assert {m for m in asked if not among(m, places | idle) and m != "fimsde"} == set()


# What is compared


def score(system, repetition, drift, seconds=1.0, **others):
    values = {"drift": drift, "diffusion": drift, "relative_drift": drift, "nmse_drift": drift, "nmse_diffusion": drift}
    return Score(system, others.pop("setting", ""), repetition, "code", seconds, **(values | others))


def by_case(*scores):
    return {(s.system, s.setting, s.repetition): s for s in scores}


RESULTS = {
    "ours": by_case(*(score("ou", r, 2.0, seconds=s) for r, s in enumerate((90.0, 1.0, 1.0)))),
    "sfi-linear": by_case(score("ou", 0, 1.0, 20.0), score("ou", 1, 4.0, 20.0), score("lorenz", 0, 1.0)),
    "sfi-parametric": by_case(score("ou", 0, 3.0, 30.0), Score("ou", "", 1, "code", 30.0, failure="ValueError: no")),
}


def test_the_best_specialist_has_the_smallest_mean_and_ratios_are_over_common_data_sets():
    value = MEASURES["nmse_drift"][1]
    assert best_specialist(RESULTS, ("ou", ""), value) == "sfi-linear"  # 2 against 3
    np.testing.assert_allclose(ratio(RESULTS, ("ou", ""), value, "ours", "sfi-linear"), 1.0)  # sqrt(2/1 * 2/4)
    assert ratio(RESULTS, ("lorenz", ""), value, "ours", "sfi-linear") is None
    assert best_specialist({"ours": RESULTS["ours"]}, ("ou", ""), value) is None


def test_tables_show_failures_and_times_without_compilation():
    found = comparison("gallery", RESULTS, "nmse_drift")
    assert found.heads == ["", "ours", "sfi-linear", "sfi-parametric", "ours / best other"]
    assert found.rows[0] == ["ou", "2", "2", "3 (1 failed)", "1"]
    assert found.rows[-1] == ["geometric mean", "", "", "", "1"]
    assert seconds("gallery", RESULTS).rows[0] == ["ou", "1", "20", "30", "20"]
    assert "| ou | 2 | 2 | 3 (1 failed) | 1 |" in str(found)


def test_bursts_are_shown_one_by_one_and_counted():
    good = score("roessler", 0, 0.02, rate_ratio=[1.0, 1.0, 2.0], noise_ratio=[1.0, 0.7, 1.1])
    bad = score("roessler", 1, 0.04, rate_ratio=[1.0, 1.0, 0.2], noise_ratio=[1.0, 1.0, 0.5])
    lost = Score("roessler", "", 2, "code", 1.0, failure="ValueError: no")
    rows = bursting({"ours": by_case(bad, good, lost)}).rows
    assert rows[0] == ["ours", "0", "1.1", "0.7", "0.02", "0.141", "2", "2"]
    assert rows[2][:3] == ["ours", "2", "failed"]
    assert rows[3] == ["ours", "good", "1 of 2", "0 of 2", "1 of 2", "0 of 2", "1 of 2", "1 of 2"]
    assert len(tables("bursts", {"ours": by_case(bad, good)})) == len(tables("gallery", RESULTS)) + 1


# The command


def test_the_command_runs_and_sums_up(tmp_path):
    def printed(*words):
        words = ["bench", "gallery", "--methods", "kramers-moyal", "--out", str(tmp_path), *words]
        return CliRunner().invoke(app, words, catch_exceptions=False).stdout

    shown = printed("--systems", "ou", "--repetitions", "1")
    assert "| ou |" in shown
    assert printed("--summary") == shown
    cell = json.loads(printed("--summary", "--json"))[0]
    assert (cell["system"], cell["method"], cell["data_sets"]) == ("ou", "kramers-moyal", 1)
    assert cell["nmse_drift"] > 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["bursts", "--figures", "f"], "--figures was given, but bursts has no use for it"),
        (["gallery", "--workers", "2"], "--workers was given"),
        (["gallery", "--summary"], "no stored scores of gallery"),
        (["noisy-cubic", "--systems", "hopf"], "hopf is not in noisy-cubic"),
        (["nonsense"], "unknown experiment 'nonsense'"),
    ],
)
def test_wrong_words_are_refused_and_nothing_is_written(words, said, tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", *words, "--out", str(tmp_path / "out")])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
