"""Forecasts against the closed form of an Ornstein-Uhlenbeck process, and their score against that of a normal law."""

import numpy as np
import pytest
from scipy import stats

import fimsde
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError
from fimsde.metrics.crps import crps

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


@pytest.mark.parametrize(
    ("times", "options", "words"),
    [
        ([0.0], {}, "begin after 3.99"),
        ([5.0, 4.5], {}, "increase"),
        ([], {}, "increase"),
        ([np.nan], {}, "finite"),
        (2, {"quantiles": [1.5]}, "between 0 and 1"),
    ],
)
def test_impossible_times_and_quantiles_are_refused(times, options, words):
    with pytest.raises(ConfigError, match=words):
        KNOWN.forecast(times, **options)


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
