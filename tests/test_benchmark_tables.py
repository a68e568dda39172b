"""Numbers as the paper prints them, beside the published ones, and the command that prints them."""

import csv
import io
import json
import sys
from collections import Counter
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

from fimsde.benchmark.published import find, published
from fimsde.benchmark.results import Measurement, PathScore, save
from fimsde.benchmark.summary import summarise
from fimsde.benchmark.tables import mean_std, tables, three_digits, to_csv, to_latex, to_markdown
from fimsde.benchmark.tasks import EXPERIMENTS, Task, tasks
from fimsde.errors import ConfigError
from fimsde.interface.cli.bench import bench
from fimsde.metrics.likelihood import TransitionLikelihood
from fimsde.metrics.vector_field import FieldError

SETTING = "rho=0,dtau=0.02"
TASK = Task("canonical", "double_well", SETTING, repetition=0, stride=10)


def result(value, drift, repetition, task=TASK):
    score = PathScore(None if value is not None else "diverged", value, value, 0.5, 0.1)
    error = FieldError(drift, 0.04, 0.1, 0.1, 1024, 0)
    return Measurement(
        replace(task, repetition=repetition), "bisde", "BISDE", "", None, 0.2, error, error, None, {"": score}, {}
    )


@pytest.fixture
def results():
    return [result(v, d, i) for i, (v, d) in enumerate([(0.012, 1.0), (None, 3.0), (0.001, 2.0), (-0.1, 2.0)])]


@pytest.mark.parametrize(
    ("mean", "std", "text"),
    [
        (0.52, 0.48, "0.5(5)"), (0.0, 0.0, "0.0(0)"), (0.234, 0.0891, "0.23(9)"), (11.6, 2.4, "12(2)"),
        (0.684, 0.0, "0.68(0)"), (2.93, 0.97, "3(1)"), (31.2, 12.0, "30(10)"), (1.2, 0.0096, "1.20(1)"),
    ],
)  # fmt: skip
def test_mean_and_spread_are_written_as_in_the_paper(mean, std, text):
    assert mean_std(mean, std) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(8.339, "8.34"), (1147.2, "1150"), (0.18, "0.180"), (6.61e-05, "0.0000661"), (9.996, "10.0"), (0, "0.00"),
     (2.5e7, "2.50e+07"), (-1.234, "-1.23")],
)  # fmt: skip
def test_errors_have_three_significant_digits(value, text):
    assert three_digits(value) == text


def test_the_published_row_of_the_model_prints_as_it_was_published():
    """The FIM-SDE row of the paper's first table at noise 0 and gap 0.02."""
    head, *_ = tables("canonical", summarise([result(0.0, 1.0, 0)]), measures=["mmd"])
    row = next(row for row in head.rows if row[0] == "FIM-SDE (published)")
    assert row[1] == "1(1)"
    every = [p for p in published("canonical") if p.method == "fim" and p.setting == SETTING and p.measure == "mmd"]
    texts = [mean_std(100 * p.mean, 100 * p.std) for p in every]
    assert texts == ["1(1)", "0.2(4)", "0.0(0)", "0.1(1)", "0.0(0)", "0.2(2)", "0.23(9)"]


def test_published_numbers_are_those_of_the_paper(shared):
    """Every number of the paper's tables that concerns an experiment, and no other."""
    paper = json.loads((shared / "spec" / "paper_tables.json").read_text())
    blocks = paper["canonical_mmd_x100"]["rho=0.05,dtau=0.02"]
    names = {"SparseGP": "sparsegp", "BISDE": "bisde", "FIM-SDE": "fim"}
    for title, systems in blocks.items():
        for system, (mean, std, failures) in systems.items():
            entry = find("canonical", system, "rho=0.05,dtau=0.02", "", "mmd", names[title])
            assert (entry.mean is None) == (mean is None)
            assert mean is None or (100 * entry.mean, 100 * entry.std) == pytest.approx((mean, std))
            assert entry.failures == failures
    assert (
        find("lorenz", "lorenz", "", "(1,1,1)", "mmd", "fim").mean
        == paper["lorenz_mmd"]["FIM-SDE zero-shot"]["(1,1,1)"]
    )
    assert find("real-world", "oil", "", "one step", "mmd", "bisde").mean == paper["real_world_mmd"]["BISDE"]["oil"][0]
    context = paper["ablation_context_mmd"]["damped_linear"]["500"]
    assert find("context-size", "damped_linear", "length=500", "", "mmd", "fim").mean == context[0]
    counts = Counter(
        p.experiment for name in ("canonical", "lorenz", "real-world", "convergence") for p in published(name)
    )
    assert counts == {"canonical": 3 * 3 * 28, "lorenz": 9, "real-world": 16, "convergence": 40}


def test_failures_stand_in_a_superscript_and_count_in_a_second_table(results):
    plain, worst = tables("canonical", summarise(results), measures=["mmd"])
    assert plain.rows[0][1] == "0.4(7)<sup>1</sup> [4 runs]"
    assert ("BISDE (published)", "0.0(0)<sup>1</sup>") in plain.rows
    assert "infinitely bad" in worst.head
    assert worst.rows == (("BISDE", "1.20"),)  # of 0, 0.1, 1.2 and a failure, the upper of the two in the middle


def test_a_constant_true_field_has_no_relative_error_and_that_is_no_failure(results):
    constant = replace(results[0].data_error, relative_diffusion=float("nan"))
    cells = summarise([replace(r, data_error=constant) for r in results])
    measures = {c.measure: c.failures for c in cells}
    assert "relative_diffusion_at_data" not in measures
    assert measures["relative_drift_at_data"] == 0
    lost = replace(constant, drift=float("nan"), relative_drift=float("nan"))
    cells = summarise([replace(r, data_error=lost) for r in results])
    assert {c.measure: c.failures for c in cells}["relative_drift_at_data"] == 4


def test_where_larger_is_better_a_failed_run_is_the_smallest(results):
    """Of 1, 2 and a run without a likelihood the middle is 1."""
    scores = [TransitionLikelihood(value, value, 10, 0) for value in (1.0, 2.0, float("-inf"))]
    cells = summarise([replace(r, likelihood=score) for r, score in zip(results, scores, strict=False)])
    (cell,) = [c for c in cells if c.measure == "log_likelihood"]
    assert (cell.runs, cell.failures, cell.mean, cell.median_failures_worst) == (3, 1, 1.5, 1.0)
    assert cell.reasons == ("the value is -inf",)


def test_all_markups_hold_the_same_numbers(results):
    cells = summarise(results)
    drift, *_ = tables("canonical", cells, measures=["drift_mse"])
    assert "| BISDE | 2.00 [4 runs] |" in to_markdown(drift)
    latex, *_ = tables("canonical", cells, measures=["mmd"], markup="latex")
    assert "0.4(7)$^{1}$" in to_latex(latex)
    rows = list(csv.DictReader(io.StringIO(to_csv(cells))))
    row = next(row for row in rows if row["measure"] == "drift_mse")
    assert (float(row["mean"]), row["published_mean"], row["failures"]) == (2.0, "1.92", "0")


def test_every_experiment_can_be_tabulated():
    for experiment, comparison in (
        ("lorenz", "(1,1,1)"), ("real-world", "one step"), ("convergence", "one step"), ("context-size", ""),
        ("ablation", ""), ("out-of-class", ""),
    ):  # fmt: skip
        found = result(0.1, 1.0, 0, Task(experiment, "lorenz", "iterations=5", 0))
        cells = summarise([replace(found, scores={comparison: found.scores[""]})])
        assert any("BISDE" in row[0] for table in tables(experiment, cells) for row in table.rows)


def command(*arguments):
    app = typer.Typer()
    app.command()(bench)
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_summary_prints_every_cell_from_disk_without_computing(results, tmp_path):
    for r in results:
        save(r, tmp_path)
    done = command("canonical", "--summary", "--json", "--out", tmp_path, "--tables", tmp_path / "tables")
    cells = json.loads(done.stdout)
    mmd = next(c for c in cells if c["measure"] == "mmd")
    assert (mmd["method"], mmd["runs"], mmd["failures"], mmd["reasons"]) == ("bisde", 4, 1, ["diverged"])
    assert mmd["mean"] == pytest.approx((0.012 + 0.001 + 0) / 3)
    assert mmd["published"] == {"mean": 0.0, "std": 0.0, "failures": 1}
    assert sorted(f.name for f in (tmp_path / "tables").iterdir()) == ["canonical.csv", "canonical.md", "canonical.tex"]
    assert len(list(tmp_path.rglob("*.json"))) == 4
    elsewhere = command("canonical", "--summary", "--out", tmp_path, "--seed", "1000000")
    assert isinstance(elsewhere.exception, ConfigError)


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_is_summarised_without_computing(experiment, quick, tmp_path, monkeypatch):
    """Results of a quick run are found by `--summary --quick`, also where quick and full runs compare as many paths."""
    module = sys.modules["fimsde.benchmark.run"]  # the package's name `run` is the function
    monkeypatch.setattr(module, "measure", lambda *a, **k: pytest.fail("something was computed"))
    monkeypatch.setattr(module, "load", lambda *a, **k: pytest.fail("data were made"))
    (task, *_) = tasks(experiment, quick=quick)
    save(result(0.1, 1.0, 0, task), tmp_path)
    done = command(experiment, "--summary", "--json", "--out", tmp_path, *(["--quick"] if quick else []))
    assert done.exception is None
    cells = {c["measure"]: c for c in json.loads(done.stdout)}
    assert (cells["mmd"]["system"], cells["mmd"]["runs"], cells["mmd"]["mean"]) == (task.system, 1, 0.1)


def test_the_command_runs_and_prints_tables_beside_the_published_numbers(tmp_path):
    done = command(
        "canonical", "--methods", "kramers-moyal", "--systems", "double_well", "--repetitions", "1", "--quick",
        "--no-paths", "--out", tmp_path,
    )  # fmt: skip
    assert done.exception is None
    assert "| Kramers-Moyal |" in done.stdout
    assert "| FIM-SDE (published) | 8.34 |" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["canonic"], "unknown experiment 'canonic'"), (["canonical", "--methods", "x"], "unknown method 'x'"),
     (["ablation", "--methods", "fim"], "needs weights"), (["canonical", "--systems", "ising"], "not in canonical")],
)  # fmt: skip
def test_wrong_words_are_answered_with_the_right_ones(arguments, message, tmp_path):
    done = command(*arguments, "--out", tmp_path)
    assert isinstance(done.exception, ConfigError)
    assert message in str(done.exception)
