"""Statistics of residuals: restated in loops over small cases, and their laws where nothing is wrong."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import fimsde
from checks import check_cdf
from fimsde.analysis.residuals import (
    LAGS,
    Residuals,
    autocorrelation,
    memory,
    non_normality,
    residuals,
)
from fimsde.equations.sde import FunctionSDE
from fimsde.filter.kalman import innovations

LENGTHS = (60, 7, 41, 2, 90)  # steps of paths; 200 in all
DRAWS, STEPS = 1500, 300


def joined(lengths):
    return np.concatenate([np.arange(n) > 0 for n in lengths])


def pieces():
    """Two components in paths of different lengths: heavy tails, and neighbours that pull against each other."""
    rng = np.random.default_rng(0)
    draws = rng.standard_t(5, (sum(LENGTHS) + 1, 2)) * [1.0, 1.3] + [0.2, 0.0]
    values = draws[1:] - [0.2, 0.15] * draws[:-1]
    return Residuals(values, rng.uniform(0.5, 2.0, values.shape), joined(LENGTHS))


def pairs(lengths, lag):
    """Rows i and i + lag of the same path."""
    ends = np.cumsum((0, *lengths))
    return [(i, i + lag) for a, b in pairwise(ends) for i in range(a, b - lag)]


def test_every_step_is_measured_by_its_own_gap_and_its_own_component():
    """Gaps of 0.5, 2 and 8, and a component that moves a thousand times less than the other: constant drift and noise,
    so that innovations are (dy - f dtau) / (sigma sqrt(dtau))."""
    sde = FunctionSDE(2, lambda x: np.tile([-1.0, 2.0], (len(x), 1)), lambda x: np.tile([1.0, 1e-3], (len(x), 1)))
    obs = fimsde.read(np.array([[1.0, 0.0], [2.0, 1.0], [0.0, 5.0], [4.0, 21.0]]), times=np.array([0, 0.5, 2.5, 10.5]))
    found = residuals(innovations(sde, obs))
    root = np.sqrt([0.5, 2.0, 8.0])
    np.testing.assert_allclose(found.step_std, np.stack([root, 1e-3 * root], 1))
    np.testing.assert_allclose(found.values[:, 0] * root, [1.5, 0.0, 12.0], atol=1e-9)
    np.testing.assert_allclose(found.values[:, 1] * 1e-3 * root, [0.0, 0.0, 0.0], atol=1e-9)


def test_no_step_is_more_certain_than_a_thousandth_of_the_mean_variance():
    sde = FunctionSDE(1, np.zeros_like, lambda x: np.where(x > 0, 2.0, 0.0))
    found = residuals(innovations(sde, fimsde.read(np.array([2.0, -2.0, 2.0, -2.0, 2.0]), dt=1e-6)))
    np.testing.assert_allclose(found.step_std[:, 0] ** 2, 1e-6 * np.array([4, 1e-3 * 2, 4, 1e-3 * 2]), rtol=1e-6)


def test_autocorrelations_are_means_over_the_pairs_of_each_path():
    r = pieces()
    centred = (r.values - r.values.mean(0)) / r.values.std(0)
    rho, count = np.zeros((10, 2)), np.zeros(10)
    for k in range(1, 11):
        products = [centred[i] * centred[j] for i, j in pairs(LENGTHS, k)]
        rho[k - 1], count[k - 1] = np.mean(products, axis=0), len(products)
    p = stats.chi2.sf(count @ rho**2, 10)
    found = autocorrelation(r)
    j = int(np.argmin(p))
    assert (found.component, found.p_value) == (j, pytest.approx(2 * p[j]))
    assert found.p_value < 0.5, "there is something to compare"
    assert found.size == pytest.approx(rho[np.abs(rho[:, j]).argmax(), j])


def test_alternating_residuals_have_a_correlation_of_minus_one_however_short_the_paths():
    """Fifteen pairs at lag one and ten at lag two, all alike: chi-square 25 with two degrees of freedom."""
    r = Residuals(np.tile([[1.0], [-1.0]], (10, 1)), np.ones((20, 1)), joined([4] * 5))
    found = autocorrelation(r)
    assert abs(found.size) == pytest.approx(1)
    assert found.p_value == pytest.approx(stats.chi2.sf(25, 2))


def test_the_past_is_what_came_before_in_the_same_path():
    r = pieces()
    r = Residuals(r.values + 0.4 * np.sin(np.arange(200) / 4)[:, None], r.step_std, r.joined)
    scores, counts = np.zeros((len(LAGS), 2)), np.zeros(len(LAGS))
    for row, k in enumerate(LAGS):
        ends = pairs(LENGTHS, k)
        products = np.array([r.values[i:j].sum(0) * r.values[j] for i, j in ends])
        scores[row], counts[row] = products.sum(0) / np.sqrt((products**2).sum(0)), len(ends)
    lag, j = np.unravel_index(np.abs(scores).argmax(), scores.shape)
    found = memory(r)
    assert found.component == j
    assert found.size == pytest.approx(scores[lag, j] / np.sqrt(counts[lag]))
    assert found.p_value == pytest.approx(2 * len(LAGS) * 2 * stats.norm.sf(abs(scores[lag, j])))


def test_normality_is_judged_over_all_components():
    r = pieces()
    p = [stats.normaltest(column).pvalue for column in r.values.T]
    found = non_normality(r)
    j = int(np.argmin(p))
    assert (found.component, found.p_value) == (j, pytest.approx(2 * p[j]))
    assert found.size == pytest.approx(stats.kurtosis(r.values[:, j]))


STATISTICS = {
    "autocorrelation": lambda r: autocorrelation(r).p_value,
    "normality": lambda r: non_normality(r).p_value,
}


@pytest.mark.parametrize("name", STATISTICS)
def test_p_values_of_noise_alone_are_uniform(name):
    """Band of Dvoretzky, Kiefer and Wolfowitz, false alarms 1e-6, and a hundredth for laws that are those of long
    records. Negative control: p-values of a test with a degree of freedom less, or of half the variance, are off by
    more than that."""
    rng = np.random.default_rng(1)
    steps = joined([STEPS])
    p = [STATISTICS[name](Residuals(rng.standard_normal((STEPS, 1)), np.ones((STEPS, 1)), steps)) for _ in range(DRAWS)]
    check_cdf(p, lambda x: x + 0.01 * np.sign(np.searchsorted(np.sort(p), x) / DRAWS - x))
    wrong = {
        "autocorrelation": stats.chi2.sf(stats.chi2.isf(p, 10), 9),
        "normality": stats.chi2.sf(stats.chi2.isf(p, 2), 1),
    }
    with pytest.raises(AssertionError, match="bands"):
        check_cdf(wrong[name], lambda x: x)


def test_a_component_without_noise_says_nothing():
    """Zeros stand for a component that the drift explains: neither correlated nor abnormal."""
    r = Residuals(np.zeros((50, 1)), np.ones((50, 1)), joined([50]))
    assert (autocorrelation(r).size, memory(r).size, non_normality(r).size) == (0, 0, 0)
    assert min(autocorrelation(r).p_value, memory(r).p_value, non_normality(r).p_value) == 1
