"""The statistics behind verdicts: their laws if nothing is wrong, and that they see what they are for."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fimsde
from fimsde.analysis.check import check
from fimsde.analysis.diagnosis import fit, paths, predictive, tails, time
from fimsde.analysis.diagnosis.case import make_case, tabulated_draws, without_memory
from fimsde.analysis.diagnosis.causes import folded
from fimsde.analysis.diagnosis.season import _Clock
from fimsde.analysis.diagnosis.sizes import find_sizes, unexplained
from fimsde.analysis.diagnosis.verdict import Verdict, chance
from fimsde.analysis.draws import SeparateDraws
from fimsde.analysis.replay import replay_on
from fimsde.benchmark.verdicts.wrong import ROWS
from fimsde.equations.sde import FunctionSDE, fields
from fimsde.filter.kalman import tabulated
from fimsde.filter.noise import fit_noise
from problems import OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(theta=1.0, sigma=1.0)


def observe(sde=OU, num=1500, seed=0, num_paths=1, dt=0.05):
    times = np.concatenate([[0.0], 5 + dt * np.arange(num)])
    paths = fimsde.simulate(sde, np.zeros((num_paths, sde.dim)), times, dt=dt / 5, seed=seed)
    return fimsde.read(paths.values[:, 1:], dt=dt)


def case_of(sde, obs, noise_std=None):
    return make_case(
        sde, obs, lambda x: np.ones(len(x), bool), 0, np.zeros(obs.dim) if noise_std is None else noise_std
    )


def below(p_values, level):
    """No more p-values below a level than chance lets pass once in a million."""
    p_values = np.asarray(p_values)
    assert np.sum(p_values < level) <= stats.binom.isf(1e-6, len(p_values), level), np.sort(p_values)[:5]


def test_lines_of_white_noise_have_the_chance_that_is_said():
    rng, clock = np.random.default_rng(0), _Clock.of(0.1 * np.arange(400), np.full(400, 0.1))
    chances = [clock.line(rng.standard_normal(400))[1] for _ in range(400)]
    below(chances, 0.05)
    assert np.sum(np.array(chances) < 0.2) > 20  # not idle: 80 are expected


def test_a_line_is_found_at_its_frequency():
    rng, t = np.random.default_rng(1), 0.1 * np.arange(2000)
    z = rng.standard_normal(2000) + 0.4 * np.cos(2 * np.pi * t / 3.7)
    gain, chance, frequency = _Clock.of(t, np.full(2000, 0.1)).line(z)
    assert chance < 1e-6
    assert 1 / frequency == pytest.approx(3.7, rel=0.01)
    assert gain == pytest.approx(0.4**2 / 4 * 2000, rel=0.4)


def test_noise_that_swings_back_loses_its_peak_with_its_memory():
    rng, z = np.random.default_rng(2), np.zeros(3000)
    kicks = rng.standard_normal(3000)
    for i in range(2, 3000):
        z[i] = 1.6 * z[i - 1] - 0.9 * z[i - 2] + kicks[i]
    left = without_memory(z / z.std(), np.arange(3000) > 0)
    assert np.abs(np.corrcoef(left[1:], left[:-1])[0, 1]) < 0.1
    assert _Clock.of(np.arange(3000.0), np.ones(3000)).line(left)[1] > 1e-3


@pytest.mark.parametrize("freedom", [1, 2])
def test_the_chance_of_a_change_is_that_of_brownian_bridges(freedom):
    """2000 of them: at most so many below a level as chance lets pass (1e-6), and at least half of what is expected."""
    rng, n = np.random.default_rng(3), 1000
    cuts = np.linspace(0.1 * n, 0.9 * n, 120).astype(int)
    largest = np.zeros((2000, len(cuts)))
    for _ in range(freedom):
        walk = np.cumsum(rng.standard_normal((2000, n)), axis=1)
        largest += (walk[:, cuts - 1] - cuts / n * walk[:, -1:]) ** 2 / (cuts * (n - cuts) / n)
    chance = np.array([time.chance_of_change(float(c), freedom) for c in largest.max(axis=1)])
    below(chance, 0.05)
    assert np.sum(chance < 0.05) > 25


def test_tests_in_time_keep_their_level_on_states_that_wander():
    """Brownian motion, the worst case: 24 records, one of a thousand allowed each."""
    walk = FunctionSDE(1, np.zeros_like, np.ones_like)
    cases = [case_of(walk, observe(walk, num=300, seed=10 + k)) for k in range(24)]
    below([time.find_trend(case).p_value for case in cases], 1e-3)
    below([time.find_drift_change(case).p_value for case in cases], 1e-3)


def test_a_change_of_the_noise_is_no_volatility_and_volatility_no_change():
    rng = np.random.default_rng(4)
    kicks = rng.standard_normal(2000) * np.where(np.arange(2000) < 900, 1.0, 2.0)
    changed = case_of(OU, fimsde.read(np.cumsum(kicks) * 0.2, dt=0.05))
    found = time.find_noise_change(changed)
    assert found.p_value < 1e-6
    assert found.number == pytest.approx(900 * 0.05, abs=2.5)
    garch = next(row for row in ROWS if row.name.startswith("volatility")).make(0.2, 5)
    checks = fimsde.estimate(garch).check()
    assert [v.name for v in checks.causes] == ["volatility"]


def test_sizes_that_depend_on_the_state_are_found_and_others_are_not():
    rng = np.random.default_rng(5)
    state, z = rng.standard_normal((3000, 2)), rng.standard_normal((3000, 2))
    size = np.exp(0.3 * state[:, 0])
    found = find_sizes(np.stack([z[:, 0] * size, z[:, 1]], axis=1), state)
    assert found.p_value[0] < 1e-9
    assert found.p_value[1] > 1e-6
    assert found.spread[0] == pytest.approx(0.3, rel=0.2)
    assert np.corrcoef(np.log(found.factor[:, 0]), state[:, 0])[0, 1] > 0.9
    assert (found.factor[:, 1] == 1).all()
    below(
        [find_sizes(rng.standard_normal((400, 1)), rng.standard_normal((400, 1))).p_value[0] for _ in range(200)], 0.05
    )


def test_heavy_tails_are_no_dependence_on_the_state():
    rng = np.random.default_rng(6)
    draws = [find_sizes(rng.standard_t(3, (500, 1)), rng.standard_normal((500, 1))).p_value[0] for _ in range(200)]
    below(draws, 0.05)


def test_paths_of_one_equation_are_alike_even_if_they_are_short():
    cases = [case_of(OU, observe(num=30, num_paths=12, seed=30 + k)) for k in range(24)]
    below([paths._drift_differences(case)[0] for case in cases], 1e-3)


def test_paths_with_another_equilibrium_are_named():
    one, other = observe(num=150, num_paths=9, seed=1), observe(num=150, num_paths=1, seed=2)
    values = [*one.values.reshape(9, 150, 1), other.values + 4.0]
    found = paths.paths_alike(case_of(OU, fimsde.read(values, dt=0.05)))
    assert found.status == "bad"
    assert "number 10 stands out" in found.sentence


WELLS = FunctionSDE(1, lambda x: 2 * (x - x**3), lambda x: np.full_like(x, 0.3))


def test_paths_that_stay_in_wells_of_their_own_may_be_subjects_of_two_kinds_and_one_that_goes_over_is_enough():
    start = np.array([[-1.0]] * 5 + [[1.0]] * 3)
    obs = fimsde.simulate(WELLS, start, np.arange(200) * 0.05, substeps=4, seed=0).observations()
    apart = [path.min() * path.max() > 0 for path in obs.values.reshape(8, 200)]
    assert all(apart), "no path crosses"
    found = paths.paths_alike(case_of(WELLS, obs))
    assert found.status == "caution"
    assert "5 near -1 and 3 near 1" in found.sentence
    values = obs.values.reshape(8, 200, 1).copy()
    values[0, -40:] += 2.0
    assert "no path goes" not in paths.paths_alike(case_of(WELLS, fimsde.read(values, dt=0.05))).sentence
    assert paths.paths_alike(case_of(OU, observe(num=150, num_paths=9, seed=1))).status == "good"


def test_rate_and_size_of_jumps_do_not_depend_on_the_typical_steps():
    """One step in fifty jumps, by eight deviations; the others are uniform: no mixture of normal laws."""
    rng, n = np.random.default_rng(7), 20_000
    z = rng.uniform(-1, 1, n) * 1.35 + (rng.random(n) < 0.02) * 8 * rng.standard_normal(n)
    share, size = tails._beyond(z, 0.5, 1.0)
    scale = 1.4826 * float(np.median(np.abs(z)))
    assert share == pytest.approx(0.02, rel=0.2)
    assert size * scale == pytest.approx(8, rel=0.15)
    assert tails._beyond(rng.standard_normal(100), 0.5, 1.0) == (0.5, 1.0)


def test_noise_that_is_known_is_not_fitted_again():
    obs = observe(num=2000)
    noisy = fimsde.read(obs.values + 0.1 * np.random.default_rng(8).standard_normal(obs.values.shape), dt=0.05)
    known = fit_noise(OU, noisy, known=np.array([0.1]))
    assert known.std.tolist() == [0.1]
    assert known.p_value is None
    assert known.scale[0] == pytest.approx(1.0, abs=0.1)
    twice = FunctionSDE(1, OU.drift, lambda x: 2 * OU.diffusion(x))
    assert fit_noise(twice, noisy, known=np.array([0.1])).scale[0] == pytest.approx(0.5, abs=0.05)
    result = fimsde.estimate(noisy)
    assert result.noise_std.tolist() == result.sde.noise_std.tolist()
    assert result.check()["measurement noise"].number == pytest.approx(float(result.noise_std[0]))


def test_an_equation_that_is_known_roughly_is_not_blamed_where_its_draws_are_like_the_data():
    """A mean that is off by what it is uncertain by: simulations of it alone reach no state that the data have."""
    obs, off = observe(num=400, seed=11), FunctionSDE(1, lambda x: -(x - 6.0), np.ones_like)
    near = [FunctionSDE(1, lambda x, c=c: -(x - c), np.ones_like) for c in np.linspace(-2, 2, 20)]
    drawn = SeparateDraws(near)

    def verdict(draws):
        table = tabulated(off, obs, often=True)
        inside = lambda x: np.ones(len(x), bool)  # noqa: E731
        case = make_case(table, obs, inside, 0, np.zeros(1), draws)
        wide = replace(case.played, values=np.clip(case.played.values, *obs.box(0.1)))  # that leave no table
        vars(case)["played"] = wide
        return predictive.simulated_like_observed(case)

    assert verdict(None).status != "good"
    assert verdict(lambda: drawn).status == "good"


def test_tables_of_draws_are_the_draws():
    obs = observe(num=600, seed=12)
    result = fimsde.estimate(obs)
    table = tabulated(result.sde, obs, often=True)
    draws = result.posterior(20).draws
    tables = tabulated_draws(draws, table)
    x = obs.values[::20]
    for k in (0, 7, 19):
        for own, other in zip(fields(draws[k], x), tables[k].fields(x), strict=True):
            np.testing.assert_allclose(other, own, rtol=0.02, atol=0.02 * np.abs(own).max())


def test_draws_of_a_posterior_take_turns_in_replays():
    obs = observe(num=50)
    shifted = FunctionSDE(1, lambda x: 50 * (9.0 - x), OU.diffusion)
    played = replay_on([OU, shifted, OU], obs, np.zeros(1), replicates=6)
    ends = played.values[:, -1, 0]
    assert played.values.shape == (6, 50, 1)
    assert np.sum(np.abs(ends - 9.0) < 1) == 2


def test_a_fast_rotation_is_replayed_with_its_radius():
    """Euler steps of a turn by 0.3 each would double the radius within a hundred gaps."""
    turn = FunctionSDE(2, lambda x: 3 * np.stack([x[:, 1], -x[:, 0]], 1) * 2, lambda x: np.full_like(x, 1e-3))
    times = 0.2 * np.arange(100)
    obs = fimsde.read(np.stack([np.cos(6 * times), -np.sin(6 * times)], axis=1), dt=0.2)
    radius = np.sqrt((replay_on(turn, obs, np.zeros(2), replicates=2).values[:, -1] ** 2).sum(axis=-1))
    assert radius == pytest.approx(1.0, abs=0.1)


def test_places_without_noise_are_no_evidence_against_a_right_equation():
    """Two wells, one of them without noise, as for many draws from the prior: sizes of innovations say nothing there.

    Half of the paths live in it; without care they would differ in their noise, and the volatility would remember."""
    well = FunctionSDE(1, lambda x: 2 * (x - x**3), lambda x: np.where(x > 0, 0.2, 0.0))
    starts = np.concatenate([np.linspace(-1.8, -0.2, 5), np.ones(5)])[:, None]
    obs = fimsde.read(fimsde.simulate(well, starts, 0.05 * np.arange(200), substeps=20, seed=50).values, dt=0.05)
    case = case_of(well, obs)
    assert np.mean(case.found.quiet) == pytest.approx(0.5, abs=0.01)
    assert case.noise.scale[0] == pytest.approx(1.0, abs=0.1)
    assert np.mean(case.z**2) == pytest.approx(1.0, abs=0.15)
    checks = check(well, obs, lambda x: np.ones(len(x), bool), noise_std=np.zeros(1))
    assert [v.name for v in checks if v.status != "good"] == ["paths alike"], checks.summary
    assert "5 near -1 and 5 near 1" in checks["paths alike"].sentence  # which is true


def test_what_the_state_explains_is_taken_away_and_nothing_else():
    """A size that depends on both components at once: no sum of functions of each, but cells of states."""
    rng = np.random.default_rng(9)
    state, values = rng.standard_normal((4000, 2)), rng.standard_normal(4000)
    left = unexplained(values + 3 * np.sign(state[:, 0] * state[:, 1]), state)
    assert np.var(left) < 3.0
    assert np.corrcoef(left, values)[0, 1] > 0.6
    assert np.corrcoef(unexplained(values, state), values)[0, 1] > 0.98


def test_simulations_of_a_right_equation_look_like_its_data():
    """A Monte Carlo test: at most half a percent of data sets; 60 short records, false alarms of this test 1e-4."""
    cases = [case_of(OU, observe(num=60, seed=200 + k)) for k in range(60)]
    found = [predictive.simulated_like_observed(case).status != "good" for case in cases]
    assert sum(found) <= stats.binom.isf(1e-4, 60, 0.005)


def test_simulations_with_another_spread_do_not():
    calm = FunctionSDE(1, lambda x: -9 * x, OU.diffusion)
    found = predictive.simulated_like_observed(case_of(calm, observe(num=600, seed=3)))
    assert found.status == "bad"
    assert "is larger in the data than in all of" in found.sentence


def test_an_estimate_that_is_worse_than_a_line_is_said_to_be_off():
    """Everything else that it makes is folded under it; of the equation itself nobody says so."""
    obs = observe(num=600, seed=4)
    wild = FunctionSDE(1, lambda x: 40 * np.sin(9 * x), OU.diffusion)
    checks = check(wild, obs, lambda x: np.ones(len(x), bool), noise_std=np.zeros(1))
    assert [v.name for v in checks.causes] == ["prediction"]
    below([case_gain(seed) for seed in range(20)], 1e-3)


def case_gain(seed):
    """1 if no linear equation is better than the true one."""
    return float(fit.prediction(case_of(OU, observe(num=200, seed=seed))).status == "good")


def test_a_chance_is_never_said_to_be_zero():
    assert (chance(0.0), chance(0.0123), chance(0.0123, 2)) == ("p < 1e-300", "p = 0.01", "p = 0.012")


def test_a_diffusion_that_is_off_explains_what_has_less_evidence():
    def verdict(name, p):
        return Verdict(name, "bad", 0.0, "", "", "class", p)

    size, weak, strong = verdict("size of the noise", 1e-30), verdict("volatility", 1e-9), verdict("memory", 1e-60)
    assert {v.name: v.because for v in folded([size, weak])} == {"size of the noise": "", "volatility": size.name}
    assert {v.name: v.because for v in folded([size, strong])} == {"memory": "", "size of the noise": "memory"}
    found = {v.name: v.because for v in folded([size, weak, strong])}
    assert found == {"memory": "", "size of the noise": "memory", "volatility": "memory"}


@pytest.mark.parametrize(
    ("name", "causes", "period"),
    [("sunspots", ["second order"], None), ("el-nino", ["season"], 1.0), ("co2", ["season", "trend"], 1.0)],
)
def test_real_series_are_named_in_the_order_of_importance(name, causes, period):
    """Sunspots swing by themselves, without keeping a phase; temperature and CO2 follow the year, CO2 rises besides."""
    pytest.importorskip("statsmodels")
    checks = fimsde.estimate(fimsde.datasets.load(name)).check()
    assert checks.status == "bad"
    assert [v.name for v in checks.causes] == causes
    if period is not None:
        assert checks["season"].number == pytest.approx(period, rel=0.01)
