"""`fimsde bench calibration`: data with a known truth, tables of known coverage, and going on after a stop."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from checks import check_cdf
from fimsde.benchmark.calibration import run as runs
from fimsde.benchmark.calibration.data import Case, cases, load_case
from fimsde.benchmark.calibration.measure import Measured
from fimsde.benchmark.calibration.run import Row, read_rows, run
from fimsde.benchmark.calibration.tables import spread_table, tables
from fimsde.evidence.estimate import fit
from fimsde.evidence.spread import Cell, cell_of, spread_factors
from fimsde.interface.cli import app
from test_evidence_infer import as_observations, ou_data

CASE = Case("prior", "1-D", "0.01", 0.05, 300, 1)


def rows(num, needed, seed=0, factor=1.0):
    """Data sets whose intervals would have to be wider by factors of a known law."""
    rng = np.random.default_rng(seed)
    found = []
    for draw in range(num):
        values = tuple(np.sort(needed(rng, 16)).tolist())
        m = Measured(0.8, 0.7, 1.0, 0.0, values, values, {"x": rng.random()}, {"drift": rng.random()})
        m = replace(m, cells=("1-D, clean, step 1", "1-D, clean, size 2"), factors=(factor, factor), milliseconds=20.0)
        found.append(Row(replace(CASE, draw=draw), m, "code"))
    return found


def test_data_of_the_prior_are_the_same_every_time_and_follow_their_equation():
    """Increments of a fine gap, less drift times gap, over diffusion times root of gap: standard normal numbers."""
    case = replace(CASE, noise=0.0, gap="0.001", size=5000, draw=2)
    known = load_case(case, 1_000_000)
    again = load_case(case, 1_000_000)
    np.testing.assert_array_equal(known.observations.values, again.observations.values)
    y = np.concatenate(
        [path[:-1] for path in np.split(known.observations.values, known.observations.path_starts[1:-1])]
    )
    ahead = np.concatenate(
        [path[1:] for path in np.split(known.observations.values, known.observations.path_starts[1:-1])]
    )
    diffusion = known.truth.diffusion(y)
    assert (diffusion > 0).all()
    white = (ahead - y - 0.001 * known.truth.drift(y)) / (diffusion * 0.001**0.5)
    check_cdf(white[:, 0], norm.cdf)
    with pytest.raises(AssertionError, match="distribution"):
        check_cdf(1.2 * white[:, 0], norm.cdf)


def test_all_sources_have_cases_and_noise_is_added_to_the_same_path():
    assert len(cases("prior", 1)) == 3 * 3 * 2 * 3
    assert {case.name for case in cases("canonical", 1)} == {case.name for case in cases("canonical", 2)}
    assert len(cases("prior", 1, quick=True)) < len(cases("prior", 1)) / 4
    clean, noisy = (load_case(replace(CASE, noise=noise), 1_000_000) for noise in (0.0, 0.05))
    np.testing.assert_array_equal(clean.states, noisy.states)
    away = (noisy.observations.values - clean.observations.values).std()
    assert away == pytest.approx(0.025 * np.ptp(clean.observations.values), rel=0.3)


def test_factors_of_a_cell_are_the_quantile_that_covers():
    """90 % of uniform numbers up to 2 are below 1.8; factors multiply those with which data were measured."""
    found = json.loads(spread_table(rows(400, lambda rng, n: rng.uniform(0, 2, n)), "cmd"))["factors"]
    assert found["1-D, clean, step 1"][0] == pytest.approx(1.8, abs=0.03)
    twice = json.loads(spread_table(rows(400, lambda rng, n: rng.uniform(0, 2, n), factor=2.0), "cmd"))["factors"]
    assert twice["1-D, clean, size 2"][1] == pytest.approx(3.6, abs=0.06)
    assert found["1-D, clean, step 0"] == found["1-D, clean, size 0"]  # too few of its own: those of its dimension
    assert len(found) == 3 * 2 * 2 * 3


def test_every_estimate_has_a_cell_of_the_table():
    for noise in (0.0, 0.3):
        found = fit(as_observations(ou_data(400, 0, noise=noise))).inference
        cell = cell_of(found)
        assert (cell.dim, cell.size, cell.noisy) == (1, 0, noise > 0)
        assert all(0.5 < factor < 10 for factor in spread_factors(found))
    assert Cell(2, True, 1, 0).keys == ("2-D, noisy, step 0", "2-D, noisy, size 1")


def test_tables_show_coverage_and_how_far_ranks_are_from_uniform():
    found = {table.head: table for table in tables(rows(400, lambda rng, n: rng.uniform(0, 1, n)))}
    assert found["Coverage of 90 % intervals"].rows[0][2].startswith("80")
    ranks = found["Ranks of the truth among draws (SBC) and distances (TARP)"].rows
    assert float(ranks[0][3]) < 0.1
    biased = rows(400, lambda rng, n: rng.uniform(0, 1, n))
    biased = [
        replace(row, measured=replace(row.measured, ranks={"x": 0.5 + row.measured.ranks["x"] / 2})) for row in biased
    ]
    assert float(tables(biased)[-2].rows[0][3]) > 0.4


def test_a_run_goes_on_where_it_was_stopped_and_a_cut_line_is_made_again(tmp_path, monkeypatch):
    made = []
    monkeypatch.setattr(runs, "load_case", lambda case, seed: made.append(case))
    wanted = [replace(CASE, draw=k) for k in range(4)]
    assert len(list(run(wanted[:3], tmp_path, 5))) == 3
    file = runs.file_of(tmp_path, 5)
    file.write_text(file.read_text()[:-20])
    assert len(read_rows(tmp_path, 5)) == 2
    file.write_text(file.read_text() + "\n")
    assert len(list(run(wanted, tmp_path, 5))) == 4
    assert made == [*wanted[:3], *wanted[2:]]
    list(run(wanted, tmp_path, 5, renew=True))
    assert len(made) == 5


def test_the_command_measures_and_prints(tmp_path):
    options = ["bench", "calibration", "--systems", "prior", "--quick", "--repetitions", "1", "--seed", "1000000"]
    found = CliRunner().invoke(app, [*options, "--out", str(tmp_path), "--spread", str(tmp_path / "s.json")])
    assert found.exit_code == 0, found.output
    assert "Coverage of 90 % intervals" in found.output
    assert len(json.loads((tmp_path / "s.json").read_text())["factors"]) == 36
    again = CliRunner().invoke(app, [*options, "--out", str(tmp_path), "--summary", "--json"])
    assert len(json.loads(again.output)) == 4
    wrong = CliRunner().invoke(app, ["bench", "calibration", "--systems", "moon", "--out", str(tmp_path)])
    assert wrong.exit_code != 0
