"""Verdicts: how often they raise a false alarm, and that they notice what they are there for."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fimsde
from fimsde.analysis import check as checking
from fimsde.analysis.check import FALSE_ALARM, Checks, Verdict, check, sampling_interval, step_error, subsampled
from fimsde.analysis.residuals import autocorrelation, measurement_noise, memory, non_normality, residuals
from fimsde.baselines import kramers_moyal
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError
from problems import OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(theta=1.5, sigma=0.7, dim=2)
DT = 0.02
DATA_SETS = 100


def observe(sde=OU, num=2000, seed=0, num_paths=1, dt=DT):
    start = np.zeros((num_paths, sde.dim))
    return fimsde.simulate(sde, start, np.arange(num) * dt, seed=seed).observations()


def many(num=800):
    """Independent data sets of one path each: the Euler chain itself, so that the null holds exactly."""
    paths = fimsde.simulate(OU, np.zeros((DATA_SETS, 2)), np.arange(num) * DT, seed=11).values
    return [fimsde.read(values, dt=DT) for values in paths]


def linear(obs, seed=0):
    return kramers_moyal.fit(obs, kramers_moyal.PolynomialSettings(1, 0), seed)


def with_noise(obs, std, seed=1):
    noise = np.random.default_rng(seed).standard_normal(obs.values.shape) * std
    return fimsde.read(obs.values + noise, dt=DT)


@pytest.fixture(scope="module")
def data_sets():
    return many()


def test_false_alarms_of_every_test_of_residuals_stay_below_their_rate(data_sets):
    """p-values over all components are below 1 % in at most 1 % of data sets: more than the bound (7 of 100) has
    probability 1e-6 under the null. Fitted equations stay below it, too."""
    bound = stats.binom.isf(1e-6, DATA_SETS, FALSE_ALARM)
    for equation in (lambda obs: OU, linear):
        alarms = np.zeros(4)
        for obs in data_sets:
            r = residuals(equation(obs), obs)
            noise = min(1.0, 2 * measurement_noise(r)[2].min())
            p = [autocorrelation(r).p_value, non_normality(r).p_value, memory(r).p_value, noise]
            alarms += np.array(p) < FALSE_ALARM
        assert np.all(alarms <= bound), alarms


def test_p_values_are_not_too_large_either(data_sets):
    """A test that never fires has no false alarms. At 20 % the shares are between 4 % and 40 % (binomial, 1e-6 each);
    the bounds over components (Bonferroni) cost a little, over lags more: the Markov test may fire half as often."""
    fires = np.zeros(2)
    for obs in data_sets:
        r = residuals(OU, obs)
        fires += np.array([autocorrelation(r).p_value, non_normality(r).p_value]) < 0.2
    low, high = stats.binom.ppf(1e-6, DATA_SETS, 0.19), stats.binom.isf(1e-6, DATA_SETS, 0.2)
    assert np.all((low <= fires) & (fires <= high)), fires


def test_the_sampling_interval_raises_no_false_alarm_for_least_squares(data_sets):
    """The standard deviation 1 / sqrt(2 n) of the logarithm of the ratio is exact for constant noise."""
    alarms = sum(sampling_interval(linear(obs), obs, linear).status != "good" for obs in data_sets)
    assert alarms <= stats.binom.isf(1e-6, DATA_SETS, FALSE_ALARM)


def test_the_change_with_the_interval_has_the_stated_standard_deviation(data_sets):
    """Chi-square, 1e-6 on both sides; a standard deviation wrong by sqrt(2) is outside."""
    n = data_sets[0].num_transitions
    changes = []
    for obs in data_sets:
        both = [linear(o).diffusion(np.zeros((1, 2)))[0, 0] for o in (obs, subsampled(obs, 2))]
        changes.append(np.log(both[1] / both[0]))
    ratio = np.var(changes) * 2 * n
    low, high = stats.chi2.interval(1 - 2e-6, DATA_SETS - 1) / np.float64(DATA_SETS - 1)
    assert low < ratio < high
    assert not low < 2 * ratio < high


@pytest.mark.parametrize(("n", "status"), [(1050, "good"), (1150, "caution")])
def test_a_diffusion_that_changes_with_the_interval_is_judged_by_the_amount_of_data(n, status):
    """A change of 6 % in one of two components: two-sided, over both components, its p-value is
    2 * 2 * P(Z > 0.06 sqrt(2 n)): 1.2 % of 1050 steps, 0.8 % of 1150."""
    sde = FunctionSDE(2, lambda x: -x, np.ones_like)
    other = FunctionSDE(2, lambda x: -1.3 * x, lambda x: np.tile(np.exp([0.06, 0.0]), (len(x), 1)))
    found = sampling_interval(sde, observe(num=n + 1), lambda thin: other)
    assert (4 * stats.norm.sf(0.06 * (2 * n) ** 0.5) < FALSE_ALARM) == (status != "good")
    assert found.status == status
    assert found.number == pytest.approx(np.expm1(0.06))
    assert "the drift by 30%, 30% of its size" in found.sentence


@pytest.mark.parametrize(
    ("p", "share", "component", "status"),
    [
        ((0.006, 0.9), (0.5, 0.1), 0, "good"),  # twice 0.6 % is above 1 %
        ((0.004, 0.9), (0.5, 0.1), 0, "caution"),
        ((0.3, 1e-9), (0.9, 0.4), 1, "caution"),  # the first has more noise, but nothing shows that it has any
        ((1e-9, 1e-9), (0.9, 1.4), 1, "bad"),
    ],
)
def test_measurement_noise_is_judged_over_all_components_and_only_where_it_is_shown(
    p, share, component, status, monkeypatch
):
    std = np.array([0.3, 0.7])
    monkeypatch.setattr(checking, "measurement_noise", lambda r: (std, np.array(share), np.array(p)))
    found = fimsde.result(OU, observe(num=100)).check()["measurement noise"]
    assert (found.status, found.number) == (status, std[component])


def test_measurement_noise_is_found_and_its_size_is_right():
    obs = with_noise(observe(num=5000), 0.1)
    found = fimsde.result(OU, obs).check()["measurement noise"]
    assert found.status != "good"
    assert found.number == pytest.approx(0.1, rel=0.1)
    assert "subsample" in found.next_step


def test_little_noise_is_no_alarm_but_its_size_is_still_reported():
    obs = with_noise(observe(num=5000), 0.001)
    assert fimsde.result(OU, obs).check()["measurement noise"].status == "good"


def test_a_hidden_velocity_is_noticed():
    """A position alone is not Markovian: its velocity has a memory of one time unit."""
    hidden = FunctionSDE(
        2, lambda x: np.stack([x[:, 1], -x[:, 0] - x[:, 1]], 1), lambda x: np.tile([0.02, 0.5], (len(x), 1))
    )
    position = observe(hidden, num=4000, dt=0.05).values[:, :1]
    obs = fimsde.read(position, dt=0.05)
    found = fimsde.result(linear(obs), obs, refit=linear).check()
    assert found["Markov property"].status == "bad"
    assert found["residual whiteness"].status == "bad"
    assert "component" in found["Markov property"].next_step
    assert found.status == "bad"


def test_the_error_of_a_step_of_a_linear_system_is_that_of_the_formula():
    """Along an Euler step the drift -theta x changes by theta^2 x dt; half of it, times dt, against sigma sqrt(dt)."""
    ou = OrnsteinUhlenbeck(theta=2.0, sigma=0.5)
    x = np.random.default_rng(3).standard_normal(1000)
    starts = x[:-1]
    expected = 2.0**2 * 0.3**1.5 / 2 / 0.5 * np.sqrt(np.mean(starts**2))
    assert step_error(ou, fimsde.read(x, dt=0.3)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("gap", "is_long"), [(0.1, True), (0.002, False)])
def test_observations_far_apart_are_not_blamed_on_hidden_components(gap, is_long):
    """The equation is right; at long gaps a straight step misses the turn of a fast rotation with little noise."""
    turning = FunctionSDE(2, lambda x: 3 * np.stack([x[:, 1], -x[:, 0]], 1) - 0.1 * x, lambda x: np.full_like(x, 0.1))
    start, times = np.array([[1.0, 0.0]]), gap * np.arange(1500)
    obs = fimsde.simulate(turning, start, times, substeps=20, seed=2).observations()
    found = fimsde.result(turning, obs).check()["residual whiteness"]
    assert (found.status != "good") == is_long
    assert ("too far apart" in found.next_step) == is_long
    assert "add a component" not in found.next_step


def test_jumps_are_noticed():
    rng = np.random.default_rng(0)
    steps = rng.standard_t(3, size=(3000, 1)) / 3**0.5 * 0.1
    obs = fimsde.read(np.cumsum(steps, axis=0), dt=DT)
    found = fimsde.result(linear(obs), obs).check()["residual normality"]
    assert found.status == "bad"
    assert found.number > 1


def test_an_equation_that_leaves_its_data_is_noticed():
    obs = observe()
    away = FunctionSDE(2, lambda x: 3 * x, lambda x: np.full_like(x, 0.7))
    assert fimsde.result(away, obs).check()["extrapolation"].status == "bad"
    assert fimsde.result(OU, obs).check()["extrapolation"].status != "bad"


def test_paths_that_diverge_count_as_extrapolation():
    obs = observe()
    explosive = FunctionSDE(2, lambda x: 50 * x + 1000 * x**3, lambda x: np.full_like(x, 0.7))
    found = fimsde.result(explosive, obs).check()["extrapolation"]
    assert found.status == "bad"
    assert "diverge" in found.sentence


def test_states_of_paths_that_diverged_are_supported_by_nothing():
    """All states that exist are called supported here; those that no longer exist are not."""
    explosive = FunctionSDE(1, lambda x: 1e3 * x**3, np.ones_like)
    obs = fimsde.read(np.linspace(1, 2, 100), dt=0.1)
    found = check(explosive, obs, lambda x: np.ones(len(x), bool), None)["extrapolation"]
    assert found.number > 0.9
    assert "50 of 50 paths diverge" in found.sentence


def test_one_long_pause_does_not_lengthen_the_steps_of_the_simulation():
    """Steps as long as the pause would make a stable equation explode."""
    obs = observe(num=1000)
    times = obs.times + np.where(np.arange(1000) < 500, 0.0, 500.0)
    found = check(OU, fimsde.read(obs.values, times=times), lambda x: np.abs(x).max(axis=1) < 3, None)["extrapolation"]
    assert (found.status, found.number) == ("good", 0)


@pytest.mark.parametrize(("num", "status"), [(60, "bad"), (500, "caution"), (1500, "good")])
def test_the_amount_of_data_has_a_verdict(num, status):
    found = fimsde.result(OU, observe(num=num)).check()["amount of data"]
    assert (found.status, found.number) == (status, num - 1)


def test_steps_of_different_paths_are_never_taken_for_neighbours():
    """Two-point paths have no neighbouring steps at all, so nothing can be correlated."""
    obs = observe(num=2, num_paths=200)
    r = residuals(OU, obs)
    assert not r.joined.any()
    assert autocorrelation(r).size == memory(r).size == 0
    np.testing.assert_array_equal(measurement_noise(r)[0], 0)


def test_history_is_cut_where_a_path_begins():
    """Alternating residuals inside each path, and none across: one long path would see the seams."""
    values = np.array([0.0, 1.0, 0.0, 1.0, 0.0])
    still = FunctionSDE(1, np.zeros_like, np.ones_like)
    joint = residuals(still, fimsde.read([values, values], dt=1.0))
    np.testing.assert_array_equal(joint.joined, [False, True, True, True, False, True, True, True])
    std, _, _ = measurement_noise(joint)
    assert std[0] == 1


def test_subsampling_keeps_paths_apart_and_every_second_point():
    obs = fimsde.read([np.arange(5.0) ** 2, np.array([7.0, 9.0]), np.array([1.0, 4.0, 2.0])], dt=1.0)
    thin = subsampled(obs, 2)
    np.testing.assert_array_equal(thin.values[:, 0], [0, 4, 16, 1, 2])
    np.testing.assert_array_equal(thin.path_starts, [0, 3, 5])


def test_verdicts_are_found_by_name_and_printed():
    checks = Checks((Verdict("a", "good", 1.0, "fine."), Verdict("b", "caution", 2.0, "hm.", "Do this.")))
    assert checks.status == "caution"
    assert [v.name for v in checks] == ["a", "b"]
    assert len(checks) == 2
    assert "hm. Do this." in str(checks)
    with pytest.raises(KeyError, match="a, b"):
        checks["c"]


def test_every_verdict_that_is_not_good_has_a_next_step():
    obs = with_noise(observe(num=150), 0.3)
    for verdict in fimsde.result(linear(obs), obs, refit=linear).check():
        assert (verdict.next_step != "") == (verdict.status != "good"), verdict


def test_without_data_nothing_can_be_checked():
    with pytest.raises(ConfigError, match="needs observations"):
        fimsde.result(OU).check()
    with pytest.raises(ConfigError, match="too few"):
        check(OU, observe(num=10), lambda x: np.ones(len(x), bool), None)


def test_a_verdict_without_a_number_was_no_json():
    few = Verdict("sampling interval", "caution", float("nan"), "too few")
    assert json.loads(json.dumps(few.record(), allow_nan=False))["number"] is None
    assert replace(few, number=1.5).record()["number"] == 1.5
