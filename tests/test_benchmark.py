"""The benchmark harness: what is measured, how failures count, what is stored and printed."""

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fimsde.baselines import latent_sde
from fimsde.benchmark import Method, named, run, summarise
from fimsde.benchmark.figures import convergence, fields_and_paths
from fimsde.benchmark.measure import measure
from fimsde.benchmark.results import Measurement, PathScore, read, result_file
from fimsde.benchmark.tasks import Comparison, Task, load, tasks
from fimsde.data.observations import read as as_observations
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError, DatasetError
from fimsde.methods import PathMethod, latent
from fimsde.results.make import estimate
from fimsde.simulate import simulate
from fimsde.systems.canonical import DOUBLE_WELL, grid, reference
from fimsde.systems.lorenz import LAWS, LORENZ, TIMES, LorenzData

TASK = Task("canonical", "double_well", "rho=0,dtau=0.002", repetition=0, stride=1, num_paths=20)


def true_fit(observations, seed):
    return FunctionSDE(1, DOUBLE_WELL.drift, DOUBLE_WELL.diffusion)


def invalid_fit(observations, seed):
    return FunctionSDE(1, DOUBLE_WELL.drift, lambda x: np.where(x > 0, np.nan, 1.0))


def exploding_fit(observations, seed):
    return FunctionSDE(1, lambda x: 1e3 * (x + 3) ** 3, np.ones_like)


def refusing_fit(observations, seed):
    raise ValueError("these data are not for me")


@pytest.fixture(scope="module")
def problem():
    return load(TASK)


def quick(methods, out, **options):
    options = {"systems": ["double_well"], "repetitions": 1, "compare_paths": False} | options
    return run("canonical", methods, out=out, quick=True, cache=out / "grams", **options)


# What is measured


def test_a_method_of_ones_own_takes_five_lines_and_the_truth_has_no_error(tmp_path):
    def my_fit(observations, seed):
        return FunctionSDE(observations.dim, DOUBLE_WELL.drift, DOUBLE_WELL.diffusion)

    results = quick([Method("mine", "Mine", my_fit)], tmp_path)

    assert [r.task.setting for r in results] == [
        "rho=0,dtau=0.002", "rho=0,dtau=0.02", "rho=0.05,dtau=0.002", "rho=0.05,dtau=0.02"
    ]  # fmt: skip
    assert all(r.failure is None and r.grid_error.drift == r.data_error.diffusion == 0 for r in results)


def test_the_truth_passes_the_test_of_paths_and_a_wrong_equation_does_not(problem):
    wrong = Method("wrong", "Wrong", lambda obs, seed: FunctionSDE(1, lambda x: 0 * x, lambda x: 4 + 0 * x))
    truth, other = (measure(TASK, m, problem).scores[""] for m in (Method("true", "True", true_fit), wrong))
    assert truth.p_value > 0.01 > other.p_value
    assert other.unmatched > truth.unmatched


def test_a_model_that_repeats_the_reference_is_at_distance_zero(problem):
    """Without noise the paths are those of the reference: the same starts, times, sub-steps and units. A path that is
    one observation too long, or another by one, is not at distance zero."""
    decay = FunctionSDE(1, lambda x: -x, np.zeros_like)
    starts, times = np.linspace(1, 2, 20)[:, None], 0.2 * np.arange(12)
    reference = simulate(decay, starts, times, substeps=3).values
    same = Comparison("same", reference, times, substeps=3, to_evaluation=np.exp)
    others = (
        replace(same, name="later", reference=simulate(decay, starts, times + 0.2, substeps=3).values * 0.98),
        replace(same, name="sub-steps", substeps=1),
    )
    found = measure(TASK, Method("m", "M", lambda *_: decay), replace(problem, comparisons=(same, *others))).scores
    assert found["same"].unmatched == pytest.approx(0, abs=1e-12)
    assert found["sub-steps"].unmatched > 1e-9
    assert found["later"].unmatched == pytest.approx(0, abs=0.1)


def test_errors_are_taken_on_the_grid_and_where_the_data_are(problem):
    """An error of x in the drift has the mean square of x there."""
    tilted = Method("m", "M", lambda *_: FunctionSDE(1, lambda x: DOUBLE_WELL.drift(x) + x, DOUBLE_WELL.diffusion))
    result = measure(TASK, tilted, problem, compare_paths=False)
    assert result.grid_error.drift == pytest.approx(np.mean(problem.nodes**2))
    assert result.data_error.drift == pytest.approx(np.mean(problem.states**2))
    assert np.mean(problem.nodes**2) > 1.1 * np.mean(problem.states**2)


def test_a_quick_task_compares_paths_from_all_of_the_reference(problem):
    whole = reference(DOUBLE_WELL, 0)
    np.testing.assert_array_equal(problem.comparisons[0].reference, whole[::5])
    np.testing.assert_array_equal(problem.held_out.values, whole[::10].reshape(-1, 1))


def test_lorenz_is_compared_in_the_units_of_its_data(monkeypatch):
    mean, std = np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 5.0])
    paths = np.random.default_rng(0).standard_normal((2, 41, 3))
    seen, references = as_observations(paths, times=TIMES), dict.fromkeys(LAWS, paths)
    data = LorenzData(seen, seen, references, references, mean, std)
    monkeypatch.setattr("fimsde.benchmark.tasks.lorenz_data", lambda seed: data)
    nodes = load(Task("lorenz", "lorenz", "", repetition=0)).nodes
    np.testing.assert_allclose(nodes * std + mean, grid(LORENZ))


@pytest.mark.parametrize(
    ("fit", "reason"),
    [(invalid_fit, "negative g"), (exploding_fit, "diverged: 20 of 20"), (refusing_fit, "not for me")],
)
def test_every_kind_of_failure_is_stored_with_its_reason(fit, reason, problem):
    result = measure(TASK, Method("m", "M", fit), problem)
    assert reason in result.scores[""].failure
    assert result.scores[""].printed is None


def test_a_method_that_warns_and_asks_outside_the_data_is_not_a_failure(problem):
    (binned,) = named(["kramers-moyal-binned"])
    result = measure(TASK, binned, problem, compare_paths=False)
    assert result.failure is None
    assert np.isfinite(result.grid_error.drift)
    assert result.scores == {}


def test_wrong_use_of_a_method_is_an_error_and_not_a_failure(problem):
    with pytest.raises(ConfigError, match="single path"):
        measure(TASK, named(["latentsde"])[0], problem)
    with pytest.raises(ConfigError, match="does not train"):
        measure(replace(TASK, iterations=5), named(["bisde"])[0], problem)
    with pytest.raises(ConfigError, match="unknown method 'magic'"):
        named(["magic"])
    with pytest.raises(ConfigError, match="--weights"):
        named(["fim"])
    with pytest.raises(ConfigError, match="names files"):
        Method("../mine", "Mine", true_fit)


def test_the_bundled_weights_are_a_method_that_stands_beside_the_published_model(problem):
    (ours,) = named(["ours"])
    result = measure(TASK, ours, problem, compare_paths=False)
    assert result.failure is None
    assert "weights" in result.method_settings
    cell = next(c for c in summarise([result]) if c.measure == "drift_mse")
    assert cell.published.method == "fim"
    assert pickle.loads(pickle.dumps(ours)).settings == ours.settings  # it travels to other processes
    (told,) = named(["ours-origin"])
    expected = estimate(problem.observations, "bundled", origin=np.zeros(problem.observations.dim))
    x = problem.observations.values[:5]
    np.testing.assert_array_equal(told.fit(problem.observations, 0).drift(x), expected.drift(x))
    assert np.any(ours.fit(problem.observations, 0).drift(x) != expected.drift(x))


def test_methods_that_sample_paths_are_given_the_reference_and_trained_to_the_iterations_of_the_task(problem, tmp_path):
    pieces = problem.comparisons[0]
    paths = problem.held_out
    given = replace(pieces, given=paths, reference=pieces.reference[::2])
    task = replace(TASK, iterations=2)
    small = latent_sde.LatentSDESettings(latent_size=1, hidden_size=2, context_size=2, dt=0.2, sample_dt=0.2)
    method = latent(small, work=tmp_path)
    result = measure(task, method, replace(problem, equal_paths=paths, comparisons=(given,)))
    assert result.failure is None
    assert result.grid_error is None
    assert "iterations=2" in result.method_settings
    assert np.isfinite(result.scores[""].value)
    assert [f.name.rsplit("-", 1)[1] for f in tmp_path.iterdir()] == ["2.safetensors"]
    measure(replace(task, iterations=3), method, replace(problem, equal_paths=paths, comparisons=()))
    assert sorted(f.name.rsplit("-", 1)[1] for f in tmp_path.iterdir()) == ["2.safetensors", "3.safetensors"]


def test_experiments_have_the_sizes_of_the_paper():
    assert len(tasks("canonical")) == len(tasks("ablation")) == 7 * 4 * 5
    assert len(tasks("lorenz")) == 1
    assert len(tasks("real-world")) == 4 * 5
    assert len(tasks("convergence")) == 4 * 4 * 5
    assert len(tasks("context-size")) == 2 * 7 * 5
    assert len(tasks("out-of-class")) == 10 * 6 * 5
    assert [t.repetition for t in tasks("canonical")][:: 7 * 4] == [0, 1, 2, 3, 4]  # cut short, it covers all systems
    with pytest.raises(ConfigError, match="not in lorenz"):
        tasks("lorenz", systems=["hopf"])
    with pytest.raises(ConfigError, match="1 to 5"):
        tasks("canonical", repetitions=6)


def test_real_series_are_compared_at_one_and_five_steps(real_world):
    problem = load(Task("real-world", "oil", "", repetition=1), real_world)
    assert {c.name: c.substeps for c in problem.comparisons} == {"one step": 1, "five steps": 5}
    assert problem.observations.num_paths == 2  # no step over the held-out fold
    assert problem.equal_paths.num_paths == 40
    result = measure(Task("real-world", "oil", "", repetition=1), named(["kramers-moyal"])[0], problem)
    assert set(result.scores) == {"one step", "five steps"}
    assert result.grid_error is None
    assert np.isfinite(result.likelihood.mean)


def test_out_of_class_data_may_be_short_and_noisy():
    task = Task("out-of-class", "tanh_switch", "rho=0.05,length=300", repetition=0, noise_std=0.05, length=300)
    problem = load(task)
    assert problem.observations.num_points == len(problem.states) == 300
    assert not np.array_equal(problem.states, problem.observations.values)  # errors are taken at the clean states
    assert problem.comparisons == ()


# What is stored


def test_what_is_stored_is_not_computed_again(tmp_path):
    seen = []

    def counting(observations, seed):
        seen.append(seed)
        return true_fit(observations, seed)

    first = quick([Method("mine", "Mine", counting)], tmp_path)
    again = quick([Method("mine", "Mine", counting)], tmp_path)
    assert again == first
    assert len(seen) == len(first) == 4
    quick([Method("mine", "Mine", counting, settings="others")], tmp_path)
    assert len(seen) == 8


def test_a_result_without_paths_is_completed_by_a_run_that_asks_for_them(tmp_path):
    method = Method("mine", "Mine", true_fit)
    assert all(r.scores == {} for r in quick([method], tmp_path))
    completed = quick([method], tmp_path, compare_paths=True)
    assert all(np.isfinite(r.scores[""].value) for r in completed)
    assert quick([method], tmp_path) == completed


def test_results_survive_the_disk_with_infinities(tmp_path):
    method = Method("invalid", "Invalid", invalid_fit)
    (result, *_) = quick([method], tmp_path)
    assert result.likelihood.mean == -np.inf
    file = result_file(tmp_path, result.task, "invalid", "")
    json.loads(file.read_text(), parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert read(file) == result


@pytest.mark.parametrize("content", ["", "{", "[]", '{"format": 1}', '{"format": 99}', "\x00"])
def test_a_damaged_result_is_named(content, tmp_path):
    file = tmp_path / "bisde-0-abc.json"
    file.write_text(content)
    with pytest.raises(DatasetError, match=r"bisde-0-abc\.json is not a readable result"):
        read(file)


# How failures count


def results_of(values):
    """One result per repetition; None is a failed run."""
    scores = [PathScore("lost" if v is None else None, v, v, None if v is None else 0.5, 0.0) for v in values]
    return [
        Measurement(replace(TASK, repetition=i), "bisde", "BISDE", "", None, 0.0, None, None, None, {"": score}, {})
        for i, score in enumerate(scores)
    ]


def cell_of(values, measure="mmd"):
    return next(c for c in summarise(results_of(values)) if c.measure == measure)


@given(st.lists(st.floats(-1, 2), min_size=1, max_size=5), st.data())
def test_nobody_gains_by_failing(values, data):
    """Q7: a run turned into a failure never lowers the number in which failures count, and is always counted."""
    lost = data.draw(st.integers(0, len(values) - 1))
    before, after = cell_of(values), cell_of([None if i == lost else v for i, v in enumerate(values)])
    assert after.median_failures_worst >= before.median_failures_worst
    assert (before.failures, after.failures) == (0, 1)
    assert after.reasons == ("lost",)


def test_leaving_failures_out_does_help_which_is_why_they_are_shown():
    assert cell_of([0.0, None]).mean < cell_of([0.0, 1.0]).mean
    assert cell_of([None, None]).mean is None
    assert cell_of([None, 0.1, None]).median_failures_worst == np.inf


def test_values_are_clipped_per_run_before_averaging_and_kept_unclipped_beside():
    cell, unclipped = cell_of([-0.2, 0.1]), cell_of([-0.2, 0.1], "mmd_unclipped")
    assert (cell.mean, cell.runs) == (0.05, 2)
    assert cell.std == pytest.approx(0.1 / 2**0.5)
    assert unclipped.mean == pytest.approx(-0.05)


# Figures


def test_figures_show_every_method(problem):
    figure = fields_and_paths(TASK, named(["kramers-moyal", "ours"]))  # warnings outside the data would be errors
    drift = figure.axes[0]
    labels = [text.get_text() for text in drift.get_legend().get_texts()]
    assert labels == ["truth", "Kramers-Moyal", "fimsde, bundled model"]
    plane = fields_and_paths(replace(TASK, system="damped_linear"), [])
    assert len(plane.axes) == 2


def test_convergence_is_drawn_beside_the_published_curves():
    values = [(10, 0.4), (20, 0.2)]
    results = [
        replace(r, task=Task("convergence", "oil", f"iterations={n}", 0, iterations=n), method="latentsde", title="L")
        for n, v in values
        for r in results_of([v])
    ]
    figure = convergence(summarise(results))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["L", "LatentSDE (published)", "FIM-SDE finetuned (published)"]
    with pytest.raises(ConfigError, match="no convergence results"):
        convergence([])


def test_path_methods_have_the_interface_of_methods():
    assert isinstance(named(["latentsde"])[0], PathMethod)
    assert isinstance(Comparison("", np.zeros((2, 3, 1)), np.arange(3.0), 1).substeps, int)
