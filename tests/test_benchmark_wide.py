"""The wide suite: its data, its errors, its files and its regrets."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from fimsde.benchmark.wide import adopt as adopting
from fimsde.benchmark.wide import run as running
from fimsde.benchmark.wide.adopt import adopt_wide
from fimsde.benchmark.wide.data import WideProblem, load, outside_places
from fimsde.benchmark.wide.measure import Errors, WideResult, relative_error
from fimsde.benchmark.wide.regret import geometric_mean, over_families, regrets
from fimsde.benchmark.wide.run import run_wide
from fimsde.benchmark.wide.store import Stored, file_of, read, read_all, save
from fimsde.benchmark.wide.tables import error_tables, regret_tables
from fimsde.benchmark.wide.tasks import COLUMNS, Column, WideTask, chosen_families, wide_tasks
from fimsde.data.observations import read as read_data
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError, DatasetError
from fimsde.interface.cli import app
from fimsde.methods import Method, named
from fimsde.systems.canonical import DEV_SEED
from fimsde.systems.wide.families import FAMILIES
from fimsde.systems.wide.paths import CleanPaths

# ---- tasks and data ------------------------------------------------------------------------------------------------


def test_every_system_has_twelve_columns_and_every_family_ten_draws():
    assert len(set(COLUMNS)) == 12
    assert len(wide_tasks("all")) == len(FAMILIES) * 10 * 12
    assert {task.draw for task in wide_tasks("all", every=5)} == {0, 5}
    assert len(wide_tasks(["lorenz-3d"], quick=True)) == 4
    assert set(chosen_families("development")).isdisjoint(chosen_families("reported"))
    for wrong in ("nosuch", ["nosuch"]):
        with pytest.raises(ConfigError, match="nosuch is no family of the wide suite"):
            chosen_families(wrong)


@pytest.fixture
def paths(monkeypatch):
    """Random walks in place of simulations, which take seconds."""
    rng = np.random.default_rng(0)
    walks = {
        1: rng.standard_normal((1, 25_000, 1)).cumsum(axis=1),
        5: rng.standard_normal((5, 5_000, 1)).cumsum(axis=1),
    }

    def fake(family, draw, seed):
        return CleanPaths(walks[5 if family == "gene-switch-1d" else 1], 0.1)

    monkeypatch.setattr("fimsde.benchmark.wide.data.clean_paths", fake)
    return walks


def task(family="linear-1d", noise=0.0, gap="fine", length=300):
    return WideTask(family, 0, Column(noise, gap, length))


def test_short_data_are_the_beginning_of_long_ones_and_coarse_data_every_fifth_point(paths, tmp_path):
    short, long = (load(task(length=n), tmp_path).observations for n in (300, 5000))
    np.testing.assert_array_equal(short.values, long.values[:300])
    np.testing.assert_array_equal(long.values, paths[1][0, :5000])
    coarse = load(task(gap="coarse", length=1000), tmp_path).observations
    np.testing.assert_array_equal(coarse.values, paths[1][0, ::5][:1000])
    assert np.diff(coarse.times) == pytest.approx(0.5)


def test_observations_are_divided_among_paths(paths, tmp_path):
    data = load(task("gene-switch-1d", length=1000), tmp_path).observations
    assert (data.num_paths, data.num_points) == (5, 1000)


def test_noise_is_a_share_of_half_the_range_and_never_in_what_is_compared(paths, tmp_path):
    clean, noisy = (load(task(noise=rho, length=5000), tmp_path) for rho in (0.0, 0.05))
    error = noisy.observations.values - clean.observations.values
    size = 0.05 * np.ptp(clean.observations.values) / 2
    assert abs(error.std() / size - 1) < 0.05  # five standard errors
    np.testing.assert_array_equal(noisy.inside, clean.inside)
    assert len(clean.inside) == 1000


def test_simulated_paths_are_kept_and_a_damaged_file_is_made_again(paths, tmp_path, monkeypatch):
    from fimsde.benchmark.wide import data

    first = load(task(), tmp_path).observations.values
    (file,) = tmp_path.rglob("*.npz")
    data._paths.cache_clear()
    monkeypatch.setattr("fimsde.benchmark.wide.data.clean_paths", lambda *a: pytest.fail("simulated again"))
    np.testing.assert_array_equal(load(task(), tmp_path).observations.values, first)
    data._paths.cache_clear()
    file.write_bytes(file.read_bytes()[:100])
    monkeypatch.setattr("fimsde.benchmark.wide.data.clean_paths", lambda *a: CleanPaths(paths[1], 0.1))
    np.testing.assert_array_equal(load(task(), tmp_path).observations.values, first)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_places_outside_are_one_standard_deviation_beyond_the_farthest_state(dim):
    states = np.random.default_rng(0).normal(size=(500, dim)) * np.arange(1, dim + 1)
    places = outside_places(states)
    step = (places[:, None] - states) / states.std(axis=0)
    assert np.linalg.norm(step, axis=2).min(axis=1).max() <= 1 + 1e-12
    if dim == 1:
        np.testing.assert_allclose(places[:, 0], [states.min() - states.std(), states.max() + states.std()])


# ---- errors --------------------------------------------------------------------------------------------------------


def test_errors_are_relative_to_the_mean_square_of_each_component():
    truth = np.array([[1.0, 0.0, 10.0], [-1.0, 0.0, 10.0]])
    assert relative_error(truth, truth) == 0
    assert relative_error(np.zeros_like(truth), truth) == 1
    assert relative_error(truth + np.array([0.5, 9.0, 0.0]), truth) == pytest.approx(
        0.125
    )  # the zero component has no size
    assert relative_error(np.full_like(truth, np.inf), truth) is None
    assert relative_error(truth[:, 1:2], truth[:, 1:2]) is None


# ---- running and storing -------------------------------------------------------------------------------------------


@pytest.fixture
def easy(monkeypatch):
    """A linear equation known to all, in place of the data."""
    truth = FunctionSDE(1, lambda x: -x, np.ones_like)
    states = np.linspace(-1, 1, 20)[:, None]
    problem = WideProblem(read_data(states, dt=0.1), truth, states, states[[0, -1]] * 2)
    monkeypatch.setattr(running, "load", lambda task, cache: problem)


def half(observations, seed):
    return FunctionSDE(1, lambda x: -0.5 * x, np.ones_like)


OPTIONS = {"families": ["linear-1d", "smooth-1d"], "draws": 2}


def test_an_interrupted_run_keeps_what_it_has_and_continues_from_there(easy, tmp_path):
    calls = []

    def interrupted(observations, seed):
        calls.append(seed)
        if len(calls) == 30:
            raise KeyboardInterrupt
        return half(observations, seed)

    method = Method("mine", "Mine", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_wide([method], out=tmp_path, **OPTIONS)
    assert sum(len(stored.rows) for stored in read_all(tmp_path, DEV_SEED)) == 29
    results = run_wide([method], out=tmp_path, **OPTIONS)
    assert len(calls) == 30 + 19
    assert [len(stored.rows) for stored in results] == [24, 24]
    errors = {result.errors for stored in results for result, _ in stored.rows.values()}
    assert errors == {Errors(0.25, 0.0, 0.25, 0.0)}


def test_results_of_other_code_are_computed_again_only_if_asked(easy, tmp_path, monkeypatch):
    calls = []

    def counted(observations, seed):
        calls.append(seed)
        return half(observations, seed)

    method = Method("mine", "Mine", counted)
    run_wide([method], out=tmp_path, **OPTIONS)
    monkeypatch.setattr(running, "fingerprint", lambda name: "another")
    run_wide([method], out=tmp_path, **OPTIONS)
    assert len(calls) == 48
    run_wide([method], out=tmp_path, renew=True, **OPTIONS)
    assert len(calls) == 96


def test_results_of_other_code_are_adopted_if_a_sample_agrees(easy, tmp_path, monkeypatch):
    monkeypatch.setattr(adopting, "load", lambda task, cache: running.load(task, cache))
    monkeypatch.setattr(running, "fingerprint", lambda name: "another")
    run_wide([Method("mine", "Mine", half)], out=tmp_path, **OPTIONS)

    def adopted(fit):
        files = list(read_all(tmp_path, DEV_SEED))
        return adopt_wide(Method("mine", "Mine", fit), files, out=tmp_path, sample=3)

    differing = adopted(lambda observations, seed: FunctionSDE(1, lambda x: -0.6 * x, np.ones_like))
    assert "none adopted: linear-1d, draw 0" in str(differing)
    assert (adopted(half).num_old, adopted(half).num_old) == (48, 0)


def test_a_method_that_fails_or_samples_paths(easy, tmp_path):
    def failing(observations, seed):
        raise ValueError("no such luck")

    (stored,) = run_wide([Method("bad", "Bad", failing)], out=tmp_path, families=["linear-1d"], quick=True)
    assert all(r.failure == "ValueError: no such luck" and r.errors == Errors() for r, _ in stored.rows.values())
    with pytest.raises(ConfigError, match="samples paths"):
        run_wide(named(["latentsde"]), out=tmp_path)
    with pytest.raises(ConfigError, match="at least one"):
        run_wide([], out=tmp_path)


def test_a_damaged_file_is_named(tmp_path):
    stored = Stored("linear-1d", "mine", "Mine", "", DEV_SEED, {(0, COLUMNS[0]): (result(0.1), "code")})
    save(stored, tmp_path)
    file = file_of(tmp_path, "linear-1d", "mine", "", DEV_SEED)
    assert read(file) == stored
    file.write_text(file.read_text()[:-30])
    with pytest.raises(DatasetError, match="delete it and run again"):
        read(file)


# ---- regret --------------------------------------------------------------------------------------------------------


def result(drift, diffusion=0.1):
    return WideResult(Errors(drift, diffusion, drift, None), 0.1, None)


def stored(family, method, drifts, diffusion=0.1):
    rows = {(d, COLUMNS[0]): (result(drift, diffusion), "code") for d, drift in enumerate(drifts)}
    return Stored(family, method, method, "", DEV_SEED, rows)


def test_regret_is_a_ratio_of_geometric_means_and_not_of_the_luckiest_data_set():
    """The specialists are the better one on one data set each; their means are 0.2 and 0.4, ours is 0.3."""
    files = [
        stored("linear-1d", "evidence", [0.1, 0.9]),
        stored("linear-1d", "gp-weak", [0.05, 0.8]),
        stored("linear-1d", "sparse-cubic", [0.4, 0.4]),
    ]
    (found,) = [r for r in regrets(files) if r.measure == "drift"]
    assert (found.best, found.draws) == ("gp-weak", 2)
    assert found.value == pytest.approx(0.3 / 0.2)


def test_specialists_with_few_draws_are_compared_on_these_and_ours_are_no_specialists():
    files = [
        stored("linear-1d", "evidence", [0.1, 0.9]),
        stored("linear-1d", "sfi-parametric", [0.05]),
        stored("linear-1d", "ours-origin", [1e-3, 1e-3]),
    ]
    (found,) = [r for r in regrets(files) if r.measure == "drift"]
    assert (found.best, found.draws, found.of) == ("sfi-parametric", 1, 2)
    assert found.value == pytest.approx(2)
    assert "2.00 sfi-parametric [1]" in regret_tables(files, "evidence")[0].rows[0]


def test_nobody_gains_by_failing():
    assert geometric_mean([0.01, None]) == pytest.approx(0.1)  # as the answer zero
    assert geometric_mean([4.0, None]) == pytest.approx(4.0)
    assert geometric_mean([0.0, 1.0]) == pytest.approx(1e-6)
    assert geometric_mean([None]) is None


def test_tables_end_with_the_mean_over_families_and_the_worst():
    files = [
        *(stored("linear-1d", "evidence", [0.1]), stored("linear-1d", "gp-weak", [0.2])),
        *(stored("lorenz-3d", "evidence", [0.8]), stored("lorenz-3d", "gp-weak", [0.1])),
    ]
    mean, worst = over_families(regrets(files), COLUMNS[0], "drift")
    assert (mean, worst.family, worst.value) == (pytest.approx(2.0), "lorenz-3d", pytest.approx(8.0))
    table = regret_tables(files, "evidence")[0]
    assert [row[0] for row in table.rows][-2:] == ["**geometric mean**", "**worst family**"]
    assert [row[1] for row in table.rows][-2:] == ["**2.00**", "**8.00**"]
    assert len(error_tables(files)) == 4


def test_the_command_line_prints_regrets_and_refuses_what_is_not_for_this_suite(tmp_path):
    def call(*words):
        return CliRunner().invoke(app, ["bench", "wide", "--out", str(tmp_path), "--seed", str(DEV_SEED), *words])

    for file in (stored("linear-1d", "evidence", [0.1]), stored("linear-1d", "gp-weak", [0.2])):
        save(file, tmp_path)
    shown = call("--summary")
    assert shown.exit_code == 0
    assert "0.500 gp-weak" in shown.output
    assert json.loads(call("--summary", "--json").output)[0]["best"] == "gp-weak"
    assert call("--summary", "--tables", str(tmp_path / "tables")).exit_code == 0
    assert (tmp_path / "tables" / "wide.md").read_text().startswith("# wide")
