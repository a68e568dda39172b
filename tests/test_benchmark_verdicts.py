"""Calibration of the verdicts: resumable, and its tables count what was said."""

from dataclasses import replace

import numpy as np
import pytest

import fimsde
from fimsde.benchmark.verdicts import run as verdicts
from fimsde.benchmark.verdicts.figures import FILE, power_curves, save_figure
from fimsde.benchmark.verdicts.right import ACCOUNTED, CELLS, Right, right_class
from fimsde.benchmark.verdicts.run import Kind, Outcome, kinds, read, run
from fimsde.benchmark.verdicts.tables import OFF, QUIET, by_source, false_alarms, named, required, share_named, table
from fimsde.benchmark.verdicts.wrong import REAL, ROWS
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import DatasetError
from fimsde.filter.kalman import innovations


def outcome(seed, causes=(), lost=0.0):
    doubts = (*causes, *(("memory",) if causes else ()))
    return Outcome(seed, "bad" if causes else "good", tuple(causes), doubts, 0.1, lost, (1.0,) * len(causes))


def test_a_run_goes_on_where_it_stopped_and_computes_nothing_twice(tmp_path, monkeypatch):
    judged = []
    monkeypatch.setattr(verdicts, "judge", lambda kind, seed: judged.append((kind.name, seed)) or outcome(seed))
    first = next(run(tmp_path, quick=True, seed=1, repetitions=2))
    assert [o.seed for o in first[1]] == [10_000, 10_001]
    everything = list(run(tmp_path, quick=True, seed=1, repetitions=3))
    assert len(everything) == len(kinds(quick=True))
    assert len(judged) == len(set(judged)) == 3 * len(everything)


def test_tables_count_lights_causes_and_names():
    row = ROWS[0]
    right = [outcome(0), outcome(1), outcome(2), outcome(3, ("trend",)), outcome(4, ("memory",), lost=0.5)]
    wrong = [outcome(0, ("season", *row.verdicts)), outcome(1, row.verdicts), outcome(2)]
    found = [(Kind(cell=CELLS[0]), right), (Kind(row=row, strength=row.strengths[2]), wrong)]
    assert "| 5 | 4 | 1 (25.0%) | trend 1 | 0 | 1 of 1 | 0 of 0 | 0.10 / 0.10 |" in false_alarms(found)
    apart = [replace(outcome(0, ("trend",)), quiet=0.2), replace(outcome(1), nats=50.0)]
    apart += [replace(outcome(2, ("outliers",)), nats=-1e6)]  # the filter of the truth fails
    assert "| 3 | 0 | 0 (0.0%) | none | 0 | 0 of 1 | 2 of 2 | 0.10 / 0.10 |" in false_alarms(
        [(Kind(cell=CELLS[0]), apart)]
    )
    assert "| systems | 2 | 1 | 0 (0.0%) | 0 |" in by_source(found)
    assert "| 67% | 33% | 0.10 / 0.10 |" in named(found)
    for part in (required, false_alarms, by_source, named):
        assert part(found) in table(found)


def test_the_table_of_requirements_has_a_row_for_all_that_must_be_said():
    """A good light counts for noisy data if the noise is said rightly, or none where the estimate fits without it."""
    row, real = ROWS[3], REAL[2]
    noisy = [replace(outcome(k), noise=noise) for k, noise in enumerate((1.1, 0.9, 0.5, 0.0))]
    found = [
        (Kind(cell=CELLS[0]), [outcome(0), outcome(1, ("trend",)), outcome(2, ("memory",), lost=0.5)]),
        (Kind(cell=ACCOUNTED[0]), noisy),
        (Kind(row=row, strength=row.strengths[-1]), [outcome(0, row.verdicts), outcome(1)]),
        (Kind(row=row, strength=row.strengths[0]), [outcome(0)]),
        (Kind(row=real, strength=1.0), [outcome(0, ("season", "trend"))]),
    ]
    assert required(found).splitlines()[2:] == [
        "| right class, clean | good | 1 of 2 |",
        f"| right class, {ACCOUNTED[0]} "
        "| good, with noise that can be seen accounted for | 3 of 4, the noise said in 2 |",
        f"| {row.name}: {row.strengths[-1]:g} {row.unit} | trend | 1 of 2 |",
        f"| {real.name} | season or trend | season, then trend |",
    ]


def test_a_real_record_is_judged_once(tmp_path, monkeypatch):
    pytest.importorskip("statsmodels")
    monkeypatch.setattr(verdicts, "judge", lambda kind, seed: outcome(seed))
    found = {kind.name: len(outcomes) for kind, outcomes in run(tmp_path, seed=1, repetitions=2)}
    assert [found[Kind(row=row, strength=1.0).name] for row in REAL] == [1, 1, 1]
    assert found[str(ACCOUNTED[0])] == 2


def test_what_is_stored_is_read_back_and_nothing_is_computed_for_a_summary(tmp_path, monkeypatch):
    monkeypatch.setattr(verdicts, "judge", lambda kind, seed: outcome(seed, ("trend",), lost=None))
    stored = list(run(tmp_path, quick=True, seed=1, repetitions=2))
    monkeypatch.setattr(verdicts, "judge", None)
    assert list(run(tmp_path, quick=True, seed=1, repetitions=2, compute=False)) == stored
    assert list(run(tmp_path, quick=True, seed=2, compute=False)) == []


def test_the_figure_shows_the_share_of_every_strength(tmp_path):
    row = ROWS[0]
    half = [outcome(0, row.verdicts), outcome(1)]
    found = [(Kind(row=row, strength=row.strengths[0]), half), (Kind(row=row, strength=row.strengths[2]), half[:1])]
    (line, _) = power_curves(found).axes[0].lines
    assert list(line.get_ydata()) == [0.5, 1.0]
    save_figure(found, tmp_path)
    assert (tmp_path / FILE).stat().st_size > 1000


def test_a_damaged_file_is_named(tmp_path):
    file = tmp_path / "a.json"
    file.write_text('["seed", "status"]\n[1]\n')
    with pytest.raises(DatasetError, match=r"a\.json"):
        read(file)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_data_of_the_right_class_have_the_size_of_their_cell(cell):
    for seed in (CELLS.index(cell) % 4, CELLS.index(cell) % 3):  # of all sources in turn
        made = right_class(cell, seed)
        assert (made.observations.num_points, made.observations.num_paths) == (cell.num, cell.num_paths)
        assert right_class(cell, seed).observations.values.tobytes() == made.observations.values.tobytes()
        assert made.noise_std.any() == cell.noisy


def test_a_true_equation_without_noise_was_no_measure_and_counted_as_one():
    """Half of a well without noise: innovations of the truth are errors of rounding there, however long the record."""
    still = FunctionSDE(1, lambda x: -x, lambda x: np.where(x > 0.5, 0.1, 0.0))
    obs = fimsde.read(np.exp(-0.01 * np.arange(100)), dt=0.01)
    made = Right(obs, still, np.zeros(1))
    assert made.quiet(made.innovations()) == pytest.approx(0.3, abs=0.02)  # exp(-t) is below a half after 0.69
    silent = Right(obs, FunctionSDE(1, lambda x: -x, np.zeros_like), np.zeros(1))
    assert silent.quiet(silent.innovations()) == 1.0
    noisy = Right(obs, silent.truth, np.full(1, 0.01))
    assert noisy.quiet(noisy.innovations()) == 0.0


def test_the_truth_is_in_the_units_of_the_data():
    """Innovations of the true equation have mean square one, up to five standard errors (false alarms 1e-6)."""
    made = right_class(CELLS[2], 4)
    found = innovations(made.truth, made.observations, made.noise_std).values
    assert np.mean(found**2) == pytest.approx(1.0, abs=5 * np.sqrt(2 / found.size))


@pytest.mark.slow
def test_verdicts_are_right_about_being_wrong_and_do_not_cry_wolf(tmp_path):
    """Buys the bars on fresh data: at the largest strength every third way to be wrong is named in at least two of
    three data sets, and at most one of six lights on data of the right class with an estimate that fits is not good."""
    found = list(run(tmp_path, quick=True, seed=41, repetitions=3))
    right = [o for kind, outcomes in found if kind.row is None for o in outcomes]
    lights = [o.status != "good" for o in right if o.lost is not None and o.lost < OFF and o.quiet < QUIET]
    assert sum(lights) <= 1
    for kind, outcomes in found:
        if kind.row is not None:
            assert share_named(outcomes, kind.row.verdicts) > 0.6, kind.name
