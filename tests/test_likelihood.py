"""Held-out transition likelihood."""

import math

import numpy as np
import pytest
from scipy import stats

from checks import check_mean
from fimsde.data.observations import read
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import InvalidObservationsError
from fimsde.metrics.likelihood import transition_likelihood
from fimsde.simulate import simulate
from problems import OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)


def ou_data(num_paths=4, seed=0, gap=0.05, length=200):
    return simulate(OU, np.zeros((num_paths, 1)), np.arange(length) * gap, seed=seed).observations()


def test_likelihood_is_the_mean_normal_density_of_the_steps():
    """Unequal paths and gaps; steps across paths would show."""
    t = [np.array([0.0, 0.1, 0.4]), np.array([0.0, 0.2])]
    y = [np.array([1.0, 1.2, 0.9]), np.array([50.0, 50.1])]
    obs = read([v[:, None] for v in y], times=t)
    expected = [
        stats.norm.logpdf(v[i + 1], v[i] - 1.5 * v[i] * (s[i + 1] - s[i]), 0.7 * np.sqrt(s[i + 1] - s[i]))
        for s, v in zip(t, y, strict=True)
        for i in range(len(s) - 1)
    ]
    found = transition_likelihood(OU, obs)
    assert found.mean == found.mean_of_valid == pytest.approx(np.mean(expected), rel=1e-12)
    assert (found.num_transitions, found.num_invalid) == (3, 0)


def test_components_are_averaged():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(30, 2)).cumsum(axis=0)
    sde = FunctionSDE(2, np.zeros_like, lambda x: np.ones_like(x) * [1.0, 2.0])
    steps = np.diff(values, axis=0)
    expected = (stats.norm.logpdf(steps[:, 0]).mean() + stats.norm.logpdf(steps[:, 1], scale=2.0).mean()) / 2
    assert transition_likelihood(sde, read(values, dt=1.0)).mean == pytest.approx(expected, rel=1e-12)


def test_the_true_equation_scores_its_entropy():
    """Euler steps under the true equation: -ln(sigma sqrt(2 pi e dt)) on average, with variance 1/2 per step."""
    gap = 0.05
    data = ou_data(num_paths=50, gap=gap)
    found = transition_likelihood(OU, data)
    entropy = np.log(0.7 * np.sqrt(2 * np.pi * np.e * gap))
    per_step = np.full(found.num_transitions, found.mean)  # check_mean needs the mean and the number of draws only
    check_mean(per_step, -entropy, 0.5)
    wrong = transition_likelihood(OrnsteinUhlenbeck(1.5, 0.9), data)
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(np.full(wrong.num_transitions, wrong.mean), -entropy, 0.5)


@pytest.mark.parametrize(
    "other", [OrnsteinUhlenbeck(1.5, 0.91), OrnsteinUhlenbeck(1.5, 0.5), OrnsteinUhlenbeck(3.0, 0.7)]
)
def test_the_true_equation_beats_others(other):
    """30 % too much diffusion, which the paper's discrepancy prints as 0, is far below the truth here."""
    data = ou_data(num_paths=20)
    assert transition_likelihood(OU, data).mean > transition_likelihood(other, data).mean


@pytest.mark.parametrize("bad", [np.nan, 0.0, np.inf, -1.0])
def test_an_invalid_diffusion_is_counted_and_never_pays(bad):
    """The equation is invalid where |x| > 0.5: its steps there are lost, and so is the comparison."""
    data = ou_data()
    partial = FunctionSDE(1, OU.drift, lambda x: np.where(np.abs(x) > 0.5, bad, 0.7))
    found = transition_likelihood(partial, data)
    starts = np.concatenate([data.path(k)[1][:-1] for k in range(data.num_paths)])
    assert found.num_invalid == np.sum(np.abs(starts) > 0.5) > 0
    assert found.num_impossible == found.num_invalid
    assert found.mean == -np.inf
    assert np.isfinite(found.mean_of_valid)


@pytest.mark.parametrize("tiny", [1e-9, 1e-200, 5e-324])
def test_a_diffusion_of_nearly_zero_made_the_likelihood_minus_4e14(tiny):
    """Where the diffusion is rounding, so would be the density: the steps there are impossible, like those of zero."""
    data = ou_data()
    partial = FunctionSDE(1, OU.drift, lambda x: np.where(np.abs(x) > 0.5, tiny, 0.7))
    found = transition_likelihood(partial, data)
    starts = np.concatenate([data.path(k)[1][:-1] for k in range(data.num_paths)])
    assert found.num_impossible == np.sum(np.abs(starts) > 0.5) > 0
    assert not np.isnan(found.mean)


def test_a_step_is_impossible_when_its_probability_is_zero_in_double_precision():
    """38 standard deviations are merely very unlikely, 39 are not even that."""
    assert math.erfc(38.0 / math.sqrt(2)) > 0 == math.erfc(39.0 / math.sqrt(2))
    brownian = FunctionSDE(1, np.zeros_like, np.ones_like)
    far, too_far = (transition_likelihood(brownian, read([0.0, z, z + 1], dt=1.0)) for z in (38.0, 39.0))
    assert far.mean == pytest.approx((stats.norm.logpdf(38.0) + stats.norm.logpdf(1.0)) / 2, rel=1e-12)
    assert (far.num_impossible, too_far.num_impossible) == (0, 1)


def test_an_invalid_drift_is_counted():
    broken = FunctionSDE(1, lambda x: np.where(x > 0.5, np.nan, -x), OU.diffusion)
    assert transition_likelihood(broken, ou_data()).num_invalid > 0


def test_nothing_valid_gives_no_number():
    nowhere = FunctionSDE(1, OU.drift, lambda x: x * np.nan)
    found = transition_likelihood(nowhere, ou_data())
    assert np.isnan(found.mean_of_valid)
    assert found.mean == -np.inf
    assert found.num_invalid == found.num_transitions


def test_another_dimension_is_refused():
    with pytest.raises(InvalidObservationsError, match="dimension 1 for an equation of dimension 2"):
        transition_likelihood(FunctionSDE(2, np.zeros_like, np.ones_like), ou_data())
