"""`fimsde bench calibration`: data with a known truth, tables of known coverage, and going on after a stop."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm
from typer.testing import CliRunner

from checks import check_cdf
from fimsde.benchmark.calibration import run as runs
from fimsde.benchmark.calibration import spreads
from fimsde.benchmark.calibration.data import Case, cases, load_case
from fimsde.benchmark.calibration.measure import Measured
from fimsde.benchmark.calibration.run import Row, read_rows, run
from fimsde.benchmark.calibration.spreads import fit_factors, spread_table
from fimsde.benchmark.calibration.tables import tables
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import DatasetError
from fimsde.evidence.estimate import fit
from fimsde.evidence.spread import PARTS, installed_table, spread_of, traits_of
from fimsde.interface.cli import app
from fimsde.systems.heun import heun_paths
from test_evidence_infer import as_observations, ou_data

CASE = Case("prior", "1-D", "0.01", 0.05, 300, 1)


def rows(num, needed, seed=0, factor=1.0):
    """Data sets whose intervals would have to be wider by factors of a known law."""
    rng = np.random.default_rng(seed)
    found = []
    for draw in range(num):
        values = tuple(np.sort(needed(rng, 16)).tolist())
        m = Measured(0.8, 0.7, 1.0, 0.0, needed=dict.fromkeys(PARTS, values), ranks={"x": rng.random()})
        m = replace(m, tarp={"drift": rng.random()}, density=((0.8, 0.7),) * 3)
        m = replace(m, traits=("all", "1-D"), factors=dict.fromkeys(PARTS, factor), milliseconds=20.0)
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


def test_data_of_wide_families_follow_their_equation_over_a_coarse_gap():
    """Relaxation at a rate a to b: x' - b = (x - b) exp(-a h) + noise of the variance g (1 - exp(-2 a h)) / 2 a."""
    known = load_case(Case("wide", "linear-1d", "coarse", 0.0, 5000, 0), 1_000_000)
    x, gap = known.observations.values[:, 0], known.observations.times[1] - known.observations.times[0]
    at_zero, at_one = known.truth.drift(np.array([[0.0], [1.0]]))[:, 0]
    rate, g = at_zero - at_one, known.truth.diffusion(np.zeros((1, 1)))[0, 0] ** 2
    rest = at_zero / rate
    left = x[1:] - rest - (x[:-1] - rest) * np.exp(-rate * gap)
    white = left / np.sqrt(-g * np.expm1(-2.0 * rate * gap) / (2.0 * rate))
    check_cdf(white, norm.cdf)
    with pytest.raises(AssertionError, match="distribution"):
        check_cdf(1.2 * white, norm.cdf)


def test_paths_have_the_variance_of_their_equation_over_a_gap():
    """dx = -6 x dt + dW from zero: (1 - exp(-1.2)) / 12 after a gap of 0.1; twenty Euler steps miss it by 3 %.

    100 000 paths know a variance to 0.45 %; false alarms: 1e-6 at 4.9 standard errors.
    """
    line = FunctionSDE(1, lambda x: -6.0 * x, np.ones_like)
    found = heun_paths(line, np.zeros((100_000, 1)), 0.1, 2, 20, np.random.default_rng(0))[:, 1].var()
    exact = (1.0 - np.exp(-1.2)) / 12.0
    error = 4.9 * exact * np.sqrt(2 / 100_000)
    assert abs(found - exact) < error
    euler = sum(0.005 * (1.0 - 6.0 * 0.005) ** (2 * k) for k in range(20))
    assert abs(euler - exact) > error


def test_factors_of_traits_are_the_quantiles_that_cover():
    """90 % of uniform numbers up to 2 are below 1.8; factors multiply those with which data were measured."""
    found = json.loads(spread_table(rows(400, lambda rng, n: rng.uniform(0, 2, n)), "cmd"))["factors"]
    assert found["drift"]["all"] * found["drift"]["1-D"] == pytest.approx(1.8, abs=0.05)
    assert found["drift"]["1-D"] == pytest.approx(installed_table()["drift"]["1-D"], rel=0.1)  # drawn to what was there
    twice = json.loads(spread_table(rows(400, lambda rng, n: rng.uniform(0, 2, n), factor=2.0), "cmd"))["factors"]
    assert twice["rate_whole"]["all"] * twice["rate_whole"]["1-D"] == pytest.approx(3.6, abs=0.1)


def test_every_trait_is_covered_not_only_all_together():
    """Noise and size each have a factor of their own: 2 and 1.5, together 3. One factor for all covers neither."""
    rng = np.random.default_rng(0)
    traits, needed = [], []
    for k in range(3200):  # so many that rare traits need not follow the others
        noisy, large = k % 2, k // 2 % 2
        traits.append(("all", *(["noisy"] if noisy else []), *(["large"] if large else [])))
        needed.append(rng.uniform(0, 1, 16) / 0.9 * 2.0**noisy * 1.5**large)
    found = fit_factors(needed, traits)
    assert found["all"] == pytest.approx(1.0, rel=0.05)
    assert found["noisy"] == pytest.approx(2.0, rel=0.07)
    assert found["large"] == pytest.approx(1.5, rel=0.07)
    rare = fit_factors([*needed, np.full(16, 20.0)], [*traits, ("all", "rare")])["rare"]
    assert 1.0 < rare < 2.0  # one data set does not make a table


def test_a_trait_may_make_intervals_much_narrower():
    """Half of the data sets need a fifth: a factor of a trait that was held at 0.7 or more covered 97 % of all."""
    rng = np.random.default_rng(2)
    narrow = [k % 2 == 1 for k in range(2000)]
    needed = [rng.uniform(0, 2, 16) * (0.2 if own else 1.0) for own in narrow]
    traits = [("all", "narrow") if own else ("all",) for own in narrow]
    found = fit_factors(needed, traits)
    inside = [
        np.mean(part <= found["all"] * (found["narrow"] if own else 1.0))
        for part, own in zip(needed, narrow, strict=True)
    ]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.01)
    assert found["narrow"] < 0.3


def test_a_truth_that_no_factor_reaches_leaves_the_table_fitted():
    """One data set of 200 needs factors that are no numbers: it counts as out of reach, and the others are covered."""
    rng = np.random.default_rng(1)
    needed = [rng.uniform(0, 2, 16) for _ in range(199)] + [np.full(16, np.nan)]
    assert fit_factors(needed, [("all",)] * 200)["all"] == pytest.approx(1.81, abs=0.06)


def test_a_table_that_cannot_be_fitted_is_refused(monkeypatch):
    """A search that fails had left the table as it was before, and said nothing."""
    failed = SimpleNamespace(success=False, message="ABNORMAL", x=np.zeros(1))
    monkeypatch.setattr(spreads, "minimize", lambda *_, **__: failed)
    with pytest.raises(DatasetError, match="ABNORMAL"):
        fit_factors([np.ones(3)], [("all",)])


def test_every_estimate_has_traits_and_factors():
    for noise in (0.0, 0.3):
        found = fit(as_observations(ou_data(400, 0, noise=noise)))
        traits = traits_of(found.inference, found.doubts)
        assert {"all", "1-D", "size 0", "noisy" if noise else "clean"} < set(traits)
        spread = spread_of(found.inference, found.doubts)
        assert all(0.5 < getattr(spread, part) < 10 for part in PARTS)


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
    assert set(json.loads((tmp_path / "s.json").read_text())["factors"]) == set(PARTS)
    again = CliRunner().invoke(
        app, [*options, "--out", str(tmp_path), "--summary", "--json", "--figures", str(tmp_path / "f")]
    )
    assert (tmp_path / "f" / "calibration-ranks.png").stat().st_size > 1000
    assert len(json.loads(again.output)) == 4
    wrong = CliRunner().invoke(app, ["bench", "calibration", "--systems", "moon", "--out", str(tmp_path)])
    assert wrong.exit_code != 0
