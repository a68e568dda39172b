"""Verdicts: how often they raise a false alarm, that they notice what they are for, and that they speak as one."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fimsde
from fimsde.analysis.check import FALSE_ALARM, NUM_STEPS, Checks, Verdict, check
from fimsde.analysis.diagnosis.causes import EXPLAINS, folded
from fimsde.analysis.diagnosis.data import resolution_of
from fimsde.baselines import kramers_moyal
from fimsde.benchmark.verdicts.wrong import ROWS
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError
from problems import OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(theta=1.5, sigma=0.7, dim=2)
DT = 0.02
DATA_SETS = 60


def observe(sde=OU, num=2000, seed=0, num_paths=1, dt=DT):
    start = np.zeros((num_paths, sde.dim))
    return fimsde.simulate(sde, start, np.arange(num) * dt, substeps=5, seed=seed).observations()


def linear(obs, seed=0):
    return kramers_moyal.fit(obs, kramers_moyal.PolynomialSettings(1, 0), seed)


def with_noise(obs, std, seed=1):
    noise = np.random.default_rng(seed).standard_normal(obs.values.shape) * std
    return fimsde.read(
        [obs.path(k)[1] + noise[obs.path_starts[k] : obs.path_starts[k + 1]] for k in range(obs.num_paths)], dt=DT
    )


@pytest.fixture(scope="module")
def right():
    """Checks of the true equation on its own data, half of them noisy, some in many paths."""
    found = []
    for k in range(DATA_SETS):
        obs = observe(num=400 if k % 3 else 40, num_paths=1 if k % 3 else 10, seed=100 + k)
        found.append(fimsde.result(OU, with_noise(obs, 0.05, k) if k % 2 else obs).check())
    return found


def test_no_verdict_raises_more_false_alarms_than_its_rate(right):
    """One in a thousand by design: more than three of 60 have a probability of 1e-6."""
    names = [v.name for v in right[0]]
    alarms = {name: sum(checks[name].status != "good" for checks in right) for name in names}
    assert max(alarms.values()) <= stats.binom.isf(1e-6, DATA_SETS, FALSE_ALARM), alarms


def test_p_values_of_a_right_equation_are_not_too_small_and_not_all_one(right):
    """Below 10 % in at most a tenth of cases, up to chance (1e-6); and tests that never fire would be useless."""
    bound = stats.binom.isf(1e-6, DATA_SETS, 0.1)
    for name in ("memory", "jumps", "volatility", "correlated noise", "white innovations"):
        p = np.array([checks[name].p_value for checks in right])
        assert np.sum(p < 0.1) <= bound, name
        assert np.sum(p < 0.9) > 0, name


@pytest.mark.parametrize("row", ROWS, ids=[row.name for row in ROWS])
def test_every_way_to_be_wrong_is_named(row):
    """At the largest strength; the rates are measured by `fimsde bench verdicts`."""
    result = fimsde.estimate(row.make(row.strengths[2], 77))
    checks = (result.with_correlation(np.eye(result.dim)) if "correlated" in row.name else result).check()
    assert checks.status == "bad"
    assert {v.name for v in checks.causes} & set(row.verdicts), checks.summary
    named = next(v for v in checks.causes if v.name in row.verdicts)
    assert named.next_step
    assert named.wider or named.group == "data"


def test_noise_is_accounted_for_and_its_size_is_said():
    obs = with_noise(observe(num=5000), 0.1)
    checks = fimsde.result(OU, obs).check()
    assert checks.status == "good"
    assert checks["measurement noise"].number == pytest.approx(0.1, rel=0.1)
    assert "accounted for" in checks.summary


def test_the_period_the_time_and_the_correlation_are_right():
    t = 0.05 * np.arange(4000)
    x = observe(OrnsteinUhlenbeck(1.0, 1.0), num=4000, dt=0.05, seed=3).values[:, 0] + 2 * np.sin(2 * np.pi * t / 7)
    season = fimsde.estimate(fimsde.read(x, dt=0.05)).check()["season"]
    assert season.number == pytest.approx(7, rel=0.02)
    correlated = next(row for row in ROWS if row.name.startswith("noise correlated"))
    found = fimsde.estimate(correlated.make(-0.6, 5)).with_correlation(np.eye(2)).check()["correlated noise"]
    assert found.number == pytest.approx(-0.6, abs=0.05)
    assert "with_correlation" in found.next_step


def test_the_time_of_a_change_is_right():
    """Nine of ten are named at this size; here at least two of three, each with its time."""
    change = next(row for row in ROWS if row.name.startswith("change"))
    found = [fimsde.estimate(change.make(3.0, seed)).check()["change of regime"] for seed in (8, 9, 10)]
    times = [v.number for v in found if v.status == "bad"]
    assert len(times) >= 2
    assert times == pytest.approx([75.0] * len(times), abs=5)


def test_a_correlation_that_is_carried_is_no_finding_any_more():
    row = next(row for row in ROWS if row.name.startswith("noise correlated"))
    result = fimsde.estimate(row.make(0.8, 6))
    without = result.with_correlation(np.eye(2)).check()["correlated noise"]
    assert without.status == "bad"
    rho = without.number
    for carried in (result, result.with_correlation(np.array([[1.0, rho], [rho, 1.0]]))):
        found = carried.check()["correlated noise"]
        assert found.status == "good"
        assert found.number == pytest.approx(0.8, abs=0.05)
        assert "carries it" in carried.check().summary
    wrong = result.with_correlation(np.array([[1.0, 0.2], [0.2, 1.0]])).check()["correlated noise"]
    assert wrong.status == "bad"
    assert "not 0.20" in wrong.sentence


def test_the_rate_and_the_size_of_jumps_are_right():
    """One step in a hundred, 15 standard deviations of a step of 0.22: 0.2 per unit of time, 3.4 on average."""
    row = next(row for row in ROWS if row.name == "jumps")
    found = fimsde.estimate(row.make(15.0, 9)).check()["jumps"]
    assert found.number == pytest.approx(0.2, rel=0.4)
    assert 2 < float(found.sentence.split(" by ")[1].split()[0]) < 5


def test_observations_too_far_apart_are_said_to_be_and_no_others():
    near, far = (observe(num=600, dt=dt, seed=4) for dt in (0.1, 3.0))
    assert fimsde.result(OU, near).check()["sampling interval"].status == "good"
    found = fimsde.result(OU, far).check()["sampling interval"]
    assert found.status == "caution"
    assert "too far apart" in found.next_step


def test_a_fast_rotation_seen_rarely_is_no_reason_for_doubt():
    """The equation is right; straight steps would miss the turn, the filter does not."""
    turning = FunctionSDE(2, lambda x: 3 * np.stack([x[:, 1], -x[:, 0]], 1) - 0.1 * x, lambda x: np.full_like(x, 0.1))
    obs = fimsde.simulate(turning, np.array([[1.0, 0.0]]), 0.1 * np.arange(1500), substeps=20, seed=2).observations()
    assert fimsde.result(turning, obs).check()["white innovations"].status == "good"


def test_wrong_readings_are_found_where_they_are():
    obs = observe(OrnsteinUhlenbeck(1.0, 1.0), num=1000, dt=0.05)
    values = obs.values.copy()
    values[[100, 700]] += [[5.0], [-6.0]]
    checks = fimsde.result(OrnsteinUhlenbeck(1.0, 1.0), fimsde.read(values, dt=0.05)).check()
    assert checks["outliers"].number == 2
    assert "time 5," in checks["outliers"].sentence
    assert "time 35." in checks["outliers"].sentence
    assert [v.name for v in checks.causes] == ["outliers"]


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([0.0, 0.5, 1.5, 0.5, 0.0, 0.5, 1.5, 1.5], 0.5),
        ([0.0, 0.5, 1.2, 0.5, 0.0, 0.5, 1.2, 1.2], 0.0),
        ([1.0, 2.0, 3.0], 0.0),
    ],
)
def test_a_resolution_is_the_step_of_which_all_values_are_multiples(values, step):
    assert resolution_of(np.array(values)) == step


def test_an_equation_that_leaves_its_data_is_noticed():
    obs = observe()
    away = FunctionSDE(2, lambda x: 3 * x, lambda x: np.full_like(x, 0.7))
    assert fimsde.result(away, obs).check()["extrapolation"].status == "bad"
    assert fimsde.result(OU, obs).check()["extrapolation"].status == "good"


def test_states_of_paths_that_diverged_are_supported_by_nothing():
    explosive = FunctionSDE(1, lambda x: 1e3 * x**3, np.ones_like)
    obs = fimsde.read(np.linspace(1, 2, 100), dt=0.1)
    found = check(explosive, obs, lambda x: np.ones(len(x), bool))["extrapolation"]
    assert found.number > 0.9
    assert "20 of 20 paths diverge" in found.sentence


def test_one_long_pause_does_not_lengthen_the_steps_of_the_simulation():
    """Steps as long as the pause would make a stable equation explode."""
    obs = observe(num=1000)
    times = obs.times + np.where(np.arange(1000) < 500, 0.0, 500.0)
    found = check(OU, fimsde.read(obs.values, times=times), lambda x: np.abs(x).max(axis=1) < 3)["extrapolation"]
    assert (found.status, found.number) == ("good", 0)


@pytest.mark.parametrize(("num", "status"), [(50, "bad"), (100, "caution"), (300, "good")])
def test_the_amount_of_data_has_a_verdict(num, status):
    found = fimsde.result(OU, observe(num=num)).check()["amount of data"]
    assert (found.status, found.number) == (status, num - 1)


def verdict(name, status, p_value=None):
    return Verdict(name, status, 1.0, f"{name}.", "Do this." if status != "good" else "", "class", p_value)


def test_what_a_cause_explains_is_folded_under_it_and_only_causes_give_advice():
    found = Checks(
        folded(
            [
                verdict("white innovations", "bad"),
                verdict("trend", "good"),
                verdict("memory", "bad"),
                verdict("second order", "bad"),
            ]
        )
    )
    assert [v.name for v in found.causes] == ["second order"]
    assert [v.because for v in found] == ["", "second order", "second order", ""]
    assert str(found).count("Do this.") == 1
    assert found.summary == "bad: second order."


def test_of_a_trend_and_a_change_the_one_with_more_evidence_is_the_cause():
    for p, cause in ((1e-9, "change of regime"), (1e-3, "trend")):
        found = Checks(folded([verdict("trend", "bad", 1e-5), verdict("change of regime", "bad", p)]))
        assert [v.name for v in found.causes] == [cause]


def test_no_verdict_explains_itself_and_all_are_known():
    names = {v.name for v in fimsde.result(OU, observe(num=100)).check()}
    for cause, others in EXPLAINS.items():
        assert cause not in others
        assert {cause, *others} <= names


def test_the_light_is_that_of_the_worst_cause():
    checks = Checks((verdict("a", "good"), verdict("b", "caution"), verdict("c", "bad")))
    assert checks.status == "bad"
    assert checks.summary == "bad: c. Also: b."
    assert [v.name for v in checks] == ["a", "b", "c"]
    assert len(checks) == 3
    with pytest.raises(KeyError, match="a, b, c"):
        checks["d"]


def test_every_verdict_that_is_not_good_has_a_next_step():
    obs = with_noise(observe(num=70), 0.3)
    for found in fimsde.result(linear(obs), obs, refit=linear).check():
        assert (found.next_step != "") == (found.status != "good"), found


def test_progress_is_told_as_often_as_announced():
    told = []
    fimsde.result(OU, observe(num=100)).check(progress=told.append)
    assert len(told) == NUM_STEPS


def test_without_data_nothing_can_be_checked():
    with pytest.raises(ConfigError, match="needs observations"):
        fimsde.result(OU).check()
    with pytest.raises(ConfigError, match="too few"):
        check(OU, observe(num=10), lambda x: np.ones(len(x), bool))


def test_a_verdict_without_a_number_was_no_json():
    few = Verdict("sampling interval", "caution", float("nan"), "too few")
    assert json.loads(json.dumps(few.record(), allow_nan=False))["number"] is None
    assert replace(few, number=1.5).record()["number"] == 1.5
