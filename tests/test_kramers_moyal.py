"""Kramers-Moyal: exact where the answer is known, honest errors, and an explicit answer where there are no data."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from checks import check_cdf, check_mean
from fimsde.baselines import kramers_moyal
from fimsde.baselines.kramers_moyal import POLYNOMIAL, BinnedSettings, PolynomialSettings
from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE, FunctionSDE
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.simulate import simulate
from problems import OrnsteinUhlenbeck

BOTH = pytest.mark.parametrize("settings", [BinnedSettings(num_bins=8), POLYNOMIAL], ids=["binned", "polynomial"])


@pytest.fixture(scope="module")
def ou_data():
    """Three paths of a two-dimensional Ornstein-Uhlenbeck process with irregular gaps."""
    rng = np.random.default_rng(0)
    times = [np.cumsum(rng.uniform(0.05, 0.15, size=size)) for size in (2000, 1500, 700)]
    return simulate(OrnsteinUhlenbeck(dim=2), np.zeros((3, 2)), times, seed=1).observations()


# ---- exact answers -------------------------------------------------------------------------------------------------


def test_bins_are_plain_averages_and_sums_of_squares():
    y = np.array([0.1, 0.4, 0.2, 0.9, 0.7, 0.3, 0.8, 0.0, 1.0, 0.35, 0.6])
    sde = kramers_moyal.fit(read(y, dt=0.5), BinnedSettings(num_bins=2, min_count=2))
    start, dy = y[:-1], np.diff(y)
    lower, upper = dy[start < 0.5], dy[start >= 0.5]
    assert sde.count.tolist() == [len(lower), len(upper)]
    np.testing.assert_allclose(sde.drift_values[:, 0], [lower.mean() / 0.5, upper.mean() / 0.5])
    np.testing.assert_allclose(sde.diffusion_sq_values[:, 0], [lower.var(ddof=1) / 0.5, upper.var(ddof=1) / 0.5])
    np.testing.assert_allclose(sde.drift_errors[:, 0], [stats.sem(lower) / 0.5, stats.sem(upper) / 0.5])
    np.testing.assert_allclose(sde.drift([[0.2], [0.8]] * np.ones(1)), sde.drift_values)


def test_bins_weigh_steps_by_their_gaps_and_state_the_error_of_a_variance():
    """One bin, gaps of 0.5 and 2: the drift is the whole way over the whole time."""
    rng = np.random.default_rng(0)
    y, gaps = rng.standard_normal(41), np.where(np.arange(40) % 3 == 0, 2.0, 0.5)
    sde = kramers_moyal.fit(read(y, times=np.cumsum([0, *gaps])), BinnedSettings(num_bins=1))
    drift = np.diff(y).sum() / gaps.sum()
    g = np.sum((np.diff(y) - drift * gaps) ** 2 / gaps) / 39
    np.testing.assert_allclose(sde.drift_values, [[drift]])
    np.testing.assert_allclose(sde.drift_errors, [[np.sqrt(g / gaps.sum())]])
    np.testing.assert_allclose(sde.diffusion_sq_values, [[g]])
    np.testing.assert_allclose(sde.diffusion_sq_errors, [[g * np.sqrt(2 / 39)]])


def test_polynomials_are_exact_without_noise():
    """Increments dy = f(y) dtau at scattered states, so that the cubic is determined; g is zero."""
    rng = np.random.default_rng(2)
    y, gap = rng.uniform(-2, 2, size=(300, 2)), rng.uniform(0.1, 0.2, size=300)
    x1, x2 = y.T
    drift = np.stack([1 - 2 * x1 + 0.5 * x1 * x2**2, x2 - x1**2 * x2], axis=1)
    values = np.stack([y, y + drift * gap[:, None]], axis=1)  # 300 paths of one step
    sde = kramers_moyal.fit(read(values, times=np.stack([0 * gap, gap], axis=1)), POLYNOMIAL)
    names = [term.name(("x", "y")) for term in sde.drift_field.library]
    truth = np.zeros((10, 2))
    truth[[names.index("1"), names.index("x"), names.index("x y^2")], 0] = 1, -2, 0.5
    truth[[names.index("y"), names.index("x^2 y")], 1] = 1, -1
    np.testing.assert_allclose(sde.drift_field.coefficients, truth, atol=1e-12)
    np.testing.assert_allclose(sde.diffusion_sq_field.coefficients, 0, atol=1e-20)


def test_polynomial_drift_is_weighted_least_squares():
    rng = np.random.default_rng(3)
    times = np.cumsum(rng.uniform(0.1, 2.0, size=60))
    y = rng.normal(size=60)
    sde = kramers_moyal.fit(read(y, times=times), PolynomialSettings(drift_degree=1, diffusion_degree=0))
    gap = np.diff(times)
    line = np.polyfit(y[:-1], np.diff(y) / gap, 1, w=np.sqrt(gap))
    np.testing.assert_allclose(sde.drift_field.coefficients[::-1, 0], line)
    residuals = np.diff(y) - np.polyval(line, y[:-1]) * gap
    np.testing.assert_allclose(sde.diffusion_sq_field.coefficients, np.mean(residuals**2 / gap))


# ---- honest errors -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def brownian_fits():
    """Brownian motion with drift 0.3 and variance rate 4 in one bin: estimates have known laws at any n."""
    truth = FunctionSDE(1, lambda x: np.full_like(x, 0.3), lambda x: np.full_like(x, 2.0))
    paths = simulate(truth, np.zeros((400, 1)), np.arange(41) * 0.1, seed=4).values
    return [kramers_moyal.fit(read(x, dt=0.1), BinnedSettings(num_bins=1)) for x in paths]


def test_standard_errors_of_bins_follow_the_laws_of_student_and_chi_square(brownian_fits):
    """40 normal increments: the drift over its error is Student's t, g is chi-square. False alarms: 1e-6."""
    drift = np.array([(f.drift_values - 0.3)[0, 0] / f.drift_errors[0, 0] for f in brownian_fits])
    diffusion_sq = np.array([f.diffusion_sq_values[0, 0] for f in brownian_fits])
    check_cdf(drift, stats.t(39).cdf)
    check_cdf(39 * diffusion_sq / 4, stats.chi2(39).cdf)
    check_mean(diffusion_sq, 4.0, 2 * 4.0**2 / 39)


def test_that_check_notices_a_biased_variance(brownian_fits):
    """Ten per cent of g are 8.8 standard errors with these numbers."""
    biased = [f.diffusion_sq_values[0, 0] * 1.1 for f in brownian_fits]
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(biased, 4.0, 2 * 4.0**2 / 39)


def test_standard_errors_of_polynomials_are_honest_with_state_dependent_noise():
    """dx = -x dt + sqrt(1 + x²/2) dW: coefficient over its error has mean 0 and variance near 1. False alarms: 1e-6."""
    truth = FunctionSDE(1, lambda x: -x, lambda x: np.sqrt(1 + x**2 / 2))
    paths = simulate(truth, np.zeros((200, 1)), np.arange(2001) * 0.2, seed=5).values
    fits = [kramers_moyal.fit(read(x, dt=0.2), PolynomialSettings(drift_degree=1, diffusion_degree=0)) for x in paths]
    z = np.array([(f.drift_field.coefficients[:, 0] - [0, -1]) / f.drift_field.standard_errors[:, 0] for f in fits])
    check_mean(z[:, 0], 0.0, 1.0)
    assert 0.7 < z[:, 0].var() < 1.4
    assert 0.7 < z[:, 1].var() < 1.5


# ---- invariances ---------------------------------------------------------------------------------------------------


@BOTH
@given(a=st.floats(-3, 3).map(lambda e: 10**e), b=st.floats(-10, 10), c=st.floats(-4, 4).map(lambda e: 10**e))
def test_estimates_follow_a_change_of_units(settings, ou_data, a, b, c):
    plain = kramers_moyal.fit(ou_data, settings)
    moved = kramers_moyal.fit(ou_data.with_units(scale=a, offset=a * b, time_scale=c), settings)
    x = np.random.default_rng(6).normal(size=(50, 2)) * 0.4
    size = np.abs(plain.drift(x)).max()
    np.testing.assert_allclose(moved.drift(a * x + a * b), a / c * plain.drift(x), atol=1e-6 * a / c * size)
    np.testing.assert_allclose(moved.diffusion(a * x + a * b), a / c**0.5 * plain.diffusion(x), rtol=1e-6)


@BOTH
def test_order_of_paths_and_cutting_a_path_change_nothing(settings, ou_data):
    pieces = [ou_data.path(k) for k in (2, 0, 1)]
    times, values = pieces.pop()
    pieces += [(times[700:], values[700:]), (times[:701], values[:701])]
    other = read([v for _, v in pieces], times=[t for t, _ in pieces])
    x = np.random.default_rng(7).normal(size=(50, 2)) * 0.4
    np.testing.assert_allclose(
        kramers_moyal.fit(other, settings).drift(x), kramers_moyal.fit(ou_data, settings).drift(x), rtol=1e-9
    )


# ---- where there are no data ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_clusters() -> Observations:
    """States near 0 and near 10, nothing in between."""
    rng = np.random.default_rng(8)
    return read([rng.uniform(0, 1, 200), rng.uniform(9, 10, 200)], dt=1.0)


def test_outside_the_bins_the_nearest_one_answers_and_the_query_is_flagged(two_clusters):
    sde = kramers_moyal.fit(two_clusters, BinnedSettings(num_bins=10))
    x = np.array([[0.5], [3.0], [7.0], [9.5], [-50.0], [1e9]])
    assert sde.visited(x).tolist() == [True, False, False, True, False, False]
    low, high = sde.drift(x)[0], sde.drift(x)[3]
    np.testing.assert_array_equal(sde.drift(x), [low, low, high, high, low, high])
    assert np.all(np.isfinite(sde.diffusion(x)))


def test_outside_the_bins_the_answer_is_nan_if_asked_for(two_clusters):
    sde = kramers_moyal.fit(two_clusters, BinnedSettings(num_bins=10, outside="nan"))
    assert np.isnan(sde.drift(np.array([[0.5], [3.0], [11.0]]))).ravel().tolist() == [False, True, True]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_query_that_is_no_state_gets_no_answer(two_clusters, bad):
    sde = kramers_moyal.fit(two_clusters)
    assert np.isnan(sde.drift(np.array([[bad]]))).all()
    assert not sde.visited(np.array([[bad]])).any()


def test_bins_with_few_transitions_are_not_used():
    y = np.append(np.random.default_rng(9).uniform(0, 1, 500), [30.0, 0.5])
    sde = kramers_moyal.fit(read(y, dt=1.0), BinnedSettings(num_bins=30))
    assert sde.count.tolist() == [500]
    assert sde.centres.shape == (1, 1)


@BOTH
def test_the_result_is_an_sde_that_travels(settings, ou_data):
    sde = kramers_moyal.fit(ou_data, settings)
    assert isinstance(sde, SDE)
    x = np.random.default_rng(10).normal(size=(5, 2))
    assert sde.drift(x).shape == sde.diffusion(x).shape == (5, 2)
    assert sde.drift(x[:0]).shape == (0, 2)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(sde)).drift(x), sde.drift(x))


def test_a_polynomial_variance_rate_below_zero_is_nan_unless_clipped():
    """g = 4 - x² on |x| < 2 is extrapolated to -5 at x = 3."""
    truth = FunctionSDE(1, lambda x: -x, lambda x: np.sqrt(np.maximum(4 - x**2, 0)))
    observations = simulate(truth, np.zeros((1, 1)), np.arange(20_001) * 0.01, seed=11).observations()
    x = np.array([[0.0], [3.0]])
    assert np.isnan(kramers_moyal.fit(observations, POLYNOMIAL).diffusion(x)).ravel().tolist() == [False, True]
    assert kramers_moyal.fit(observations, PolynomialSettings(clip=True)).diffusion(x)[1, 0] == 0


@pytest.mark.parametrize(
    ("data", "settings", "words"),
    [
        (np.arange(6.0) ** 2, BinnedSettings(), "no bin holds 10 transitions: 5 transitions"),
        (np.arange(3.0) ** 2, POLYNOMIAL, "2 transitions do not determine 4 monomials"),
        (np.tile([0.0, 1.0], 50), POLYNOMIAL, "99 transitions do not determine 4 monomials"),
        (np.array([0.0, 0.0, 0.0, 1.0]), BinnedSettings(min_count=2), "every step starts at x1 = 0"),
    ],
)
def test_unusable_data_are_refused(data, settings, words):
    with pytest.raises(InvalidObservationsError, match=words):
        kramers_moyal.fit(read(data, dt=1.0), settings)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: BinnedSettings(num_bins=0), "num_bins is 0"),
        (lambda: BinnedSettings(min_count=1), "min_count is 1"),
        (lambda: PolynomialSettings(drift_degree=-1), "drift_degree is -1"),
    ],
)
def test_impossible_settings_are_refused(make, words):
    with pytest.raises(ConfigError, match=words):
        make()
