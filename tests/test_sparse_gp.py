"""SparseGP: the sparse regression against dense Gaussian processes, and the baseline built on it."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fimsde.baselines import sparse_gp
from fimsde.baselines.gaussian_process import (
    PolynomialKernel,
    RBFKernel,
    Search,
    SparsePosterior,
    factorise,
    fit_posterior,
)
from fimsde.baselines.library import evaluate, monomials
from fimsde.baselines.sparse_gp import IMPROVED, PAPER, SparseGPSettings
from fimsde.data.observations import read
from fimsde.equations.sde import SDE, FunctionSDE
from fimsde.errors import ConfigError, FimsdeError, InvalidObservationsError
from fimsde.simulate import simulate

TINY = 1e-13  # jitter where the dense answer is the reference


def test_the_noise_of_a_slope_is_the_variance_rate_over_the_gap(monkeypatch):
    """In gaps of 0.1 and 1 the variances of dy / dtau differ by ten."""
    calls = []

    def recorded(kernel, inducing, x, y, noise, *rest):
        calls.append((x, noise, fit_posterior(kernel, inducing, x, y, noise, *rest)))
        return calls[-1][2]

    monkeypatch.setattr(sparse_gp, "fit_posterior", recorded)
    rng = np.random.default_rng(0)
    gaps = np.where(np.arange(300) % 3 == 0, 1.0, 0.1)
    walk = np.cumsum([0, *(np.sqrt(gaps) * rng.standard_normal(300))])
    fitted = sparse_gp.fit(read(walk, times=np.cumsum([0, *gaps])), SparseGPSettings(restarts=1))
    (x, _, rate), (_, noise, _) = calls
    dtau = gaps * fitted.normaliser.time_scale
    np.testing.assert_allclose(noise * dtau, rate.mean(x))
    assert noise.max() > 5 * noise.min()


def posterior(kernel, log_parameters, inducing, x, y, noise, jitter=TINY):
    tensors = [torch.tensor(a) for a in (inducing, x, y, noise)]
    log_parameters = torch.tensor(log_parameters)
    factors = factorise(kernel, log_parameters, *tensors, jitter)
    return SparsePosterior(kernel, log_parameters, tensors[0], factors, True)


def dense_gp(covariance, x, y, noise, queries):
    """Evidence, mean and variance straight from the definition."""
    total = covariance(x, x) + np.diag(noise)
    gain = np.linalg.solve(total, covariance(x, queries)).T
    evidence = stats.multivariate_normal(np.zeros(len(y)), total).logpdf(y)
    return evidence, gain @ y, np.diag(covariance(queries, queries) - gain @ covariance(x, queries))


def cubic(a, b):
    return 0.7 * (1.3 + a @ b.T) ** 3


def rbf(a, b):
    return 2.0 * np.exp(-0.5 * np.sum(((a[:, None] - b[None]) / 0.4) ** 2, axis=-1))


CUBIC = PolynomialKernel(3), np.log([0.7, 1.3])
RBF = RBFKernel(), np.log([2.0, 0.4])


@pytest.fixture(scope="module")
def sample():
    """Sixty noisy values of a curve, each with its own variance."""
    rng = np.random.default_rng(0)
    x = np.sort(rng.uniform(-1.5, 1.5, size=(60, 1)), axis=0)
    noise = rng.uniform(0.05, 0.5, size=60)
    return x, np.sin(3 * x[:, 0]) + np.sqrt(noise) * rng.normal(size=60), noise


@pytest.mark.parametrize(("kernel", "covariance"), [(CUBIC, cubic), (RBF, rbf)], ids=["polynomial", "rbf"])
def test_all_points_as_inducing_points_give_full_regression(sample, kernel, covariance):
    x, y, noise = sample
    queries = np.linspace(-2, 2, 50)[:, None]
    evidence, mean, variance = dense_gp(covariance, x, y, noise, queries)
    sparse = posterior(*kernel, x, x, y, noise)
    assert sparse.bound == pytest.approx(evidence, rel=1e-8)
    np.testing.assert_allclose(sparse.mean(queries), mean, atol=1e-6)
    np.testing.assert_allclose(sparse.variance(queries), variance, atol=1e-6)


@pytest.mark.parametrize("dim", [1, 2])
def test_a_cubic_kernel_is_exact_with_one_inducing_point_per_monomial(dim):
    rng = np.random.default_rng(1)
    x, noise, queries = rng.normal(size=(80, dim)), rng.uniform(0.1, 1, size=80), rng.normal(size=(20, dim))
    y = rng.normal(size=80)
    inducing = np.array([term.powers for term in monomials(dim, 3)]) - 1.0  # a triangle of 4 or 10 lattice points
    evidence, mean, variance = dense_gp(cubic, x, y, noise, queries)
    exact = posterior(*CUBIC, inducing, x, y, noise)
    assert exact.bound == pytest.approx(evidence, rel=1e-8)
    np.testing.assert_allclose(exact.mean(queries), mean, atol=1e-7)
    np.testing.assert_allclose(exact.variance(queries), variance, atol=1e-7)
    one_less = posterior(*CUBIC, inducing[:-1], x, y, noise)
    assert one_less.bound < evidence - 0.01


def test_the_bound_stays_below_the_evidence_and_grows_with_nested_points(sample):
    x, y, noise = sample
    evidence, _, _ = dense_gp(rbf, x, y, noise, x)
    bounds = [posterior(*RBF, x[:: 60 // m], x, y, noise).bound for m in (2, 4, 12, 60)]
    assert bounds == sorted(bounds)
    assert bounds[0] < evidence - 1
    assert bounds[-1] <= evidence + 1e-6


@pytest.mark.parametrize(("kernel", "start"), [CUBIC, RBF], ids=["polynomial", "rbf"])
def test_gradients_of_the_bound_match_finite_differences(sample, kernel, start):
    x, y, noise = (torch.tensor(a) for a in sample)

    def bound(parameters, log_noise):
        return factorise(kernel, parameters, x[::10], x, y, noise * log_noise.exp(), 1e-6).bound

    inputs = (torch.tensor(start, requires_grad=True), torch.zeros((), dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(bound, inputs, atol=1e-4, rtol=1e-6)


def test_a_wide_prior_gives_weighted_least_squares_on_monomials(sample):
    x, y, noise = sample
    wide = posterior(PolynomialKernel(3), np.log([1e6, 1.0]), np.linspace(-1, 1, 4)[:, None], x, y, noise)
    phi = evaluate(monomials(1, 3), x)
    coefficients = np.linalg.lstsq(phi / np.sqrt(noise)[:, None], y / np.sqrt(noise), rcond=None)[0]
    np.testing.assert_allclose(wide.mean(x), phi @ coefficients, atol=1e-4)


def test_duplicated_inducing_points_do_no_harm(sample):
    x, y, noise = sample
    once, twice = (posterior(*RBF, z, x, y, noise, jitter=1e-6) for z in (x[::10], np.repeat(x[::10], 2, axis=0)))
    np.testing.assert_allclose(twice.mean(x), once.mean(x), atol=1e-4)


# ---- the baseline --------------------------------------------------------------------------------------------------


def test_brownian_motion_has_its_variance_rate_and_no_drift():
    """g = 4 with relative standard error sqrt(2/n), drift 0.3 with sqrt(4/T), averaged over the data; five errors."""
    truth = FunctionSDE(1, lambda x: np.full_like(x, 0.3), lambda x: np.full_like(x, 2.0))
    path = simulate(truth, np.zeros((1, 1)), np.arange(3001) * 0.01, seed=0).observations()
    sde = sparse_gp.fit(path)
    assert np.mean(sde.diffusion_sq(path.values)) == pytest.approx(4.0, rel=5 * np.sqrt(2 / 3000))
    assert np.mean(sde.drift(path.values)) == pytest.approx(0.3, abs=5 * np.sqrt(4 / 30))


@pytest.fixture(scope="module")
def small_data():
    truth = FunctionSDE(1, lambda x: -x, lambda x: np.sqrt(1 + 0.5 * x**2))
    return simulate(truth, np.zeros((1, 1)), np.arange(401) * 0.05, seed=1).observations()


@pytest.fixture(scope="module")
def small_fit(small_data):
    return sparse_gp.fit(small_data)


@settings(max_examples=5)
@given(a=st.floats(-3, 3).map(lambda e: 10**e), b=st.floats(-10, 10), c=st.floats(-4, 4).map(lambda e: 10**e))
def test_estimates_follow_a_change_of_units(small_data, small_fit, a, b, c):
    """Also catches noise of dy/dtau taken as g instead of g/dtau. Tolerance: the search stops at a relative 2e-9."""
    plain = small_fit
    moved = sparse_gp.fit(small_data.with_units(scale=a, offset=a * b, time_scale=c))
    x = np.linspace(-1.5, 1.5, 9)[:, None]
    size = np.abs(plain.drift(x)).max()
    np.testing.assert_allclose(moved.drift(a * x + a * b), a / c * plain.drift(x), atol=1e-3 * a / c * size)
    np.testing.assert_allclose(moved.diffusion(a * x + a * b), a / c**0.5 * plain.diffusion(x), rtol=1e-3)


DOUBLE_WELL = FunctionSDE(1, lambda x: 4 * (x - x**3), lambda x: np.sqrt(np.maximum(4 - 1.25 * x**2, 0)))


@pytest.fixture(scope="module")
def double_well_paths():
    return simulate(DOUBLE_WELL, np.zeros((5, 1)), np.arange(50_000) * 0.002, seed=0).values


@pytest.mark.parametrize(
    ("stride", "variant", "expected_drift", "expected_diffusion"),
    [(1, PAPER, 2.85, 0.046), (10, PAPER, 2.63, 0.219), (10, IMPROVED, 2.77, 0.048)],
    ids=["0.002-paper", "0.02-paper", "0.02-improved"],
)
def test_errors_on_the_double_well(double_well_paths, stride, variant, expected_drift, expected_diffusion):
    """5000 points, the paper's grid. Diffusion: mean over five paths within a factor of two of an independent
    implementation (the paper has 0.0227 at gap 0.002 and 0.205 at 0.02). Drift: the median below twice the expected,
    because at gap 0.002 a path may never leave its well; the paper's 35.7 and 21.2 are far worse."""
    grid = np.linspace(-2, 2, 1024)[:, None]
    fits = [sparse_gp.fit(read(x, dt=0.002 * stride), variant) for x in double_well_paths[:, ::stride][:, :5000]]
    drift = np.median([np.mean((f.drift(grid) - DOUBLE_WELL.drift(grid)) ** 2) for f in fits])
    diffusion = np.mean([np.mean((f.diffusion(grid) - DOUBLE_WELL.diffusion(grid)) ** 2) for f in fits])
    assert drift < 2 * expected_drift
    assert expected_diffusion / 2 < diffusion < 2 * expected_diffusion


def test_the_posterior_of_the_drift_is_wider_away_from_the_data(small_fit):
    inside, outside = small_fit.drift_std(np.array([[0.0], [6.0]]))
    assert outside > 5 * inside


def test_two_dimensions_with_irregular_gaps_and_several_paths():
    """A linear rotation with noise 0.5 in both components; the error is a few per cent of the drift."""
    matrix = np.array([[-0.5, 2.0], [-2.0, -0.5]])
    truth = FunctionSDE(2, lambda x: x @ matrix.T, lambda x: np.full_like(x, 0.5))
    rng = np.random.default_rng(2)
    times = [np.cumsum(rng.uniform(0.01, 0.03, size=n)) for n in (800, 1200)]
    data = simulate(truth, np.ones((2, 2)), times, seed=3).observations()
    sde = sparse_gp.fit(data)
    assert isinstance(sde, SDE)
    x = data.values[::50]
    assert np.sqrt(np.mean((sde.drift(x) - truth.drift(x)) ** 2)) < 0.25 * np.sqrt(np.mean(truth.drift(x) ** 2))
    assert np.sqrt(np.mean((sde.diffusion(x) - 0.5) ** 2)) < 0.1
    assert len(sde.drift_posteriors[0].inducing) == 10
    np.testing.assert_array_equal(sparse_gp.fit(data).drift(x), sde.drift(x))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(sde)).drift(x), sde.drift(x))
    assert not np.array_equal(sparse_gp.fit(data, seed=1).drift(x), sde.drift(x))


def test_a_negative_variance_rate_is_nan_unless_clipped():
    """g falls to almost nothing on the right half; the fit with few points undershoots zero."""
    truth = FunctionSDE(1, lambda x: -0.2 * x, lambda x: np.where(x < 0, 2.0, 0.02))
    data = simulate(truth, np.full((1, 1), -1.0), np.arange(3001) * 0.02, seed=4).observations()
    clipped = sparse_gp.fit(data, SparseGPSettings(num_inducing=5))
    plain = sparse_gp.fit(data, SparseGPSettings(num_inducing=5, clip=False))
    x = data.grid(200, widen=0.5)
    negative = clipped.diffusion_sq(x) < 0
    assert negative.any()
    assert np.array_equal(np.isnan(plain.diffusion(x)), negative)
    assert np.all(clipped.diffusion(x)[negative] == 0)


def test_quantised_data_do_not_crash():
    """Repeated states give repeated quantiles, hence repeated inducing points."""
    path = np.round(np.cumsum(np.random.default_rng(5).normal(size=500)) % 7) / 2
    assert np.all(np.isfinite(sparse_gp.fit(read(path, dt=1.0)).drift(np.array([[0.0], [3.0]]))))


def test_a_path_without_noise_does_not_crash():
    """A straight line: squares are all equal, so there is nothing to learn a noise variance from."""
    sde = sparse_gp.fit(read(np.linspace(0, 10, 200), dt=0.1))
    np.testing.assert_allclose(sde.drift(np.array([[2.0], [8.0]])), 10 / 199 / 0.1, rtol=1e-2)


def test_a_hopeless_regression_is_a_failure_not_a_result(sample):
    x, y, _ = sample
    search = Search(start=np.zeros(2), low=-np.ones(2), high=np.ones(2), restarts=2, spread=1.0)
    with pytest.raises(FimsdeError, match="no Gaussian process could be fitted from any of 2 starts"):
        fit_posterior(*CUBIC[:1], x[::10], x, y, -np.ones(60), search, 1e-6, np.random.default_rng(0))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ([np.array([0.0, 1.0, 3.0])], "2 transitions for 10 inducing points"),
        ([np.zeros(20), np.ones(20)], "x1 never moves within a path"),
    ],
)
def test_unusable_data_are_refused(data, words):
    with pytest.raises(InvalidObservationsError, match=words):
        sparse_gp.fit(read(data, dt=1.0))


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"degree": 0}, "degree is 0"),
        ({"num_inducing": 0}, "num_inducing is 0"),
        ({"restarts": 0}, "restarts is 0"),
        ({"jitter": 0.0}, "jitter is 0"),
    ],
)
def test_impossible_settings_are_refused(setting, words):
    with pytest.raises(ConfigError, match=words):
        SparseGPSettings(**setting)
