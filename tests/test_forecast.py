"""Forecasts against the closed form of an Ornstein-Uhlenbeck process, and their score against that of a normal law."""

import numpy as np
import pytest
from scipy import stats

import fimsde
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError
from fimsde.metrics.crps import crps
from fimsde.results.forecasts import _numbers

THETA, SIGMA, DT = 1.5, 0.7, 0.01
OU = FunctionSDE(1, lambda x: -THETA * x, lambda x: np.full_like(x, SIGMA))
DATA = fimsde.simulate(OU, np.ones((1, 1)), DT * np.arange(400), seed=3).observations()
KNOWN = fimsde.result(OU, DATA)
PATHS = 20_000


def moments(ahead):
    """Of the Euler chain with four steps per gap: exact, as the forecast makes it."""
    steps = np.round(4 * ahead / DT)
    shrink = 1 - THETA * DT / 4
    return DATA.values[-1, 0] * shrink**steps, SIGMA**2 * DT / 4 * (1 - shrink ** (2 * steps)) / (1 - shrink**2)


def test_mean_and_quantiles_are_those_of_the_known_law():
    """20 000 paths; five standard errors of a mean and of a quantile (6e-7 each)."""
    ahead = np.array([0.05, 0.5, 2.0])
    table = KNOWN.forecast(DATA.times[-1] + ahead, quantiles=(0.1, 0.5, 0.9), num_paths=PATHS)
    mean, variance = moments(ahead)
    assert np.all(np.abs(table["mean"] - mean) < 5 * np.sqrt(variance / PATHS))
    for q in (0.1, 0.5, 0.9):
        exact = stats.norm.ppf(q, mean, np.sqrt(variance))
        error = np.sqrt(q * (1 - q) / PATHS) / stats.norm.pdf(exact, mean, np.sqrt(variance))
        assert np.all(np.abs(table[f"q{q:g}"] - exact) < 5 * error)
    assert (table.diverged == 0).all()
    wrong = fimsde.result(FunctionSDE(1, lambda x: -2 * THETA * x, OU.diffusion), DATA)
    other = wrong.forecast(DATA.times[-1] + ahead, num_paths=PATHS)["mean"]
    assert np.any(np.abs(other - mean) > 5 * np.sqrt(variance / PATHS))  # the negative control


def test_a_number_of_steps_a_start_and_a_seed_can_be_given():
    table = KNOWN.forecast(3)
    np.testing.assert_allclose(table.time, DATA.times[-1] + DT * np.arange(1, 4))
    assert list(table.columns) == ["time", "component", "mean", "q0.05", "q0.25", "q0.5", "q0.75", "q0.95", "diverged"]
    assert KNOWN.forecast(3, seed=1)["mean"].tolist() != table["mean"].tolist() == KNOWN.forecast(3)["mean"].tolist()
    far = KNOWN.forecast([0.01], x0=[5.0])
    assert far["q0.05"][0] > 4
    assert far.component.tolist() == ["x1"]


@pytest.mark.parametrize("times", [["2024-01-01"], np.array(["2024-01-01"], "datetime64[D]")])
def test_dates_were_taken_for_nanoseconds_and_simulated_for_ever(times):
    with pytest.raises(ConfigError, match="dates or text; expected numbers"):
        _numbers(times)


@pytest.mark.parametrize(
    ("times", "options", "words"),
    [
        ([0.0], {}, "begin after 3.99"),
        ([5.0, 4.5], {}, "increase"),
        ([], {}, "increase"),
        ([np.nan], {}, "finite"),
        (2, {"quantiles": [1.5]}, "between 0 and 1"),
        (2, {"quantiles": 50}, "between 0 and 1"),
        (0, {}, "steps ahead is 0"),  # was "begin after 3.99"
        ([1e18], {}, "gaps of the data ahead"),
    ],
)
def test_impossible_times_and_quantiles_are_refused(times, options, words):
    with pytest.raises(ConfigError, match=words):
        KNOWN.forecast(times, **options)


def test_quantiles_know_how_uncertain_the_equation_is():
    """A hundred steps leave open how fast an Ornstein-Uhlenbeck process returns: far ahead its law is wide."""
    short = fimsde.simulate(OU, np.ones((1, 1)), 0.05 * np.arange(100), seed=1_000_000).observations()
    sde = fimsde.estimate(short)
    widths = {}
    for certain in (True, False):
        table = sde.forecast(60, quantiles=(0.05, 0.95), num_paths=4000, certain=certain)
        widths[certain] = (table["q0.95"] - table["q0.05"]).to_numpy()
    assert widths[False][-1] > 1.03 * widths[True][-1]
    assert abs(widths[False][0] / widths[True][0] - 1) < 0.1  # one step ahead it is the noise that counts


def test_a_forecast_starts_where_a_filter_believes_the_state_to_be():
    """With noise of 0.3 the last reading may be far from the state, which the readings before tell."""
    noise = 0.3
    clean = fimsde.simulate(OU, np.ones((1, 1)), DT * np.arange(3000), seed=1_000_001).observations()
    noisy = clean.values + noise * np.random.default_rng(1_000_001).standard_normal(clean.values.shape)
    noisy[-1] = clean.values[-1] + 5 * noise
    sde = fimsde.estimate(fimsde.read(noisy, times=clean.times))
    assert abs(sde.noise_std[0] - noise) < 0.05
    ahead = sde.forecast(1, num_paths=2000)
    assert abs(ahead["mean"][0] - clean.values[-1, 0]) < 3 * noise < abs(noisy[-1, 0] - clean.values[-1, 0])
    assert 0.05 < (ahead["q0.95"] - ahead["q0.05"])[0] / (2 * 1.645) < noise
    there = sde.forecast(1, x0=noisy[-1], start=0.0, num_paths=2000)
    assert abs(there["mean"][0] - noisy[-1, 0]) < noise  # a state that is given is a state


def test_a_textbook_system_needs_a_state_and_times():
    with pytest.raises(ConfigError, match="needs a state"):
        fimsde.result(OU).forecast(3)
    assert len(fimsde.result(OU).forecast([0.1, 0.2], x0=[1.0], num_paths=10)) == 2


def test_the_score_of_a_normal_sample_is_that_of_the_law():
    """CRPS of N(0, 1) at y: y (2 Phi(y) - 1) + 2 phi(y) - 1 / sqrt(pi). 4000 samples of 40: five standard errors."""
    rng, y = np.random.default_rng(0), 0.8
    scores = crps(rng.standard_normal((4000, 40)), np.full(4000, y))
    exact = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / np.sqrt(np.pi)
    assert abs(scores.mean() - exact) < 5 * scores.std() / np.sqrt(4000)
    biased = scores.mean() + 1 / np.sqrt(np.pi) / 40  # all pairs, equal ones too: the negative control
    assert abs(biased - exact) > 5 * scores.std() / np.sqrt(4000)
    assert crps(np.array([2.0]), 5.0) == 3.0
