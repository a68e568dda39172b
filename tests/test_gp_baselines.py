"""Gaussian processes on increments and in weak form, and sparse cubics: exact, consistent, and robust to noise."""

import numpy as np
import pytest
from scipy import stats

from fimsde.baselines import gp_increments, gp_weak, sparse_cubic
from fimsde.baselines.radial import log_rate, posterior, radial_basis, sizes, spread_out
from fimsde.data.observations import read
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.metrics.vector_field import field_error
from fimsde.simulate import simulate
from problems import OrnsteinUhlenbeck

BOTH = pytest.mark.parametrize("method", [gp_increments, gp_weak], ids=["increments", "weak"])
ALL = pytest.mark.parametrize("method", [gp_increments, gp_weak, sparse_cubic], ids=["increments", "weak", "sparse"])


def ou_path(num, seed, gap=0.05, dim=1):
    ou = OrnsteinUhlenbeck(dim=dim)
    return simulate(ou, np.zeros((1, dim)), np.arange(num) * gap, substeps=4, seed=seed).values[0]


def with_noise(path, share, seed=0):
    return path + share * np.std(path, axis=0) * np.random.default_rng(seed).standard_normal(path.shape)


# ---- formulas ------------------------------------------------------------------------------------------------------


def test_mean_and_evidence_are_those_of_the_dense_process():
    """y = phi w + noise is y ~ N(0, a phi phi' + V): both straight from the definition."""
    rng = np.random.default_rng(0)
    x, y, noise = rng.normal(size=(40, 1)), rng.normal(size=40), rng.uniform(0.5, 2.0, 40)
    basis = radial_basis(spread_out(x), 0.7)
    phi, size = basis(x), 1.7
    found = posterior((phi / noise[:, None]).T @ phi, phi.T @ (y / noise), np.array([0.0, size]))
    total = size * phi @ phi.T + np.diag(noise)
    np.testing.assert_allclose(phi @ found.mean, size * phi @ phi.T @ np.linalg.solve(total, y), atol=1e-9)
    evidence = [stats.multivariate_normal(np.zeros(40), c).logpdf(y) for c in (total, np.diag(noise))]
    assert found.gain == pytest.approx(evidence[0] - evidence[1])


def test_the_basis_has_the_normal_kernel_between_centres():
    centres = np.random.default_rng(0).normal(size=(5, 2))
    phi = radial_basis(centres, 0.8)(centres)
    distance = ((centres[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_allclose(phi @ phi.T, np.exp(-distance / (2 * 0.8**2)), atol=1e-6)


def test_functions_of_noisy_states_have_the_right_expectation():
    """By Gauss-Hermite quadrature over the noise; without the correction they are off by more than a percent."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    basis = radial_basis(np.linspace(-2, 2, 9)[:, None], 0.6)
    noisy = 0.3 + 0.2 * nodes[:, None]
    truth = basis(np.array([[0.3]]))[0]
    np.testing.assert_allclose(weights @ basis(noisy, np.array([0.04])), truth, atol=1e-9)
    assert np.abs(weights @ basis(noisy) - truth).max() > 0.01


def test_log_rates_follow_a_variance_that_changes_and_stay_constant_where_it_does_not():
    """Squares of 4000 normal numbers: the error of a constant is 1.6 % of log 2; the change is a factor e² each way."""
    rng = np.random.default_rng(0)
    x, time = rng.uniform(-1.7, 1.7, (4000, 1)), np.full(4000, 0.1)
    features = [(basis, basis(x)) for basis in (radial_basis(spread_out(x), length) for length in (0.5, 1.0, 2.0))]
    noise = rng.standard_normal(4000) ** 2
    flat = log_rate(features, 2.0 * time * noise, time, 1e-6)
    np.testing.assert_allclose(flat(x), 2.0, rtol=0.11)  # five standard errors
    assert np.ptp(flat(x)) == 0
    steep = log_rate(features, np.exp(x[:, 0]) * time * noise, time, 1e-6)
    assert np.sqrt(np.mean((np.log(steep(x)) - x[:, 0]) ** 2)) < 0.15


def test_sizes_begin_with_no_process():
    grid = sizes(1.0, 10.0)
    assert grid[0] == 0
    assert (np.diff(grid) > 0).all()


# ---- the estimators ------------------------------------------------------------------------------------------------


@ALL
def test_errors_fall_with_more_data(method):
    """Means over five paths at 1000 and 16 000 observations: errors of a fixed number of terms fall sixteenfold, but
    for the Euler step's bias of 1.5 %, whose square is a tenth of the smaller error."""
    ou = OrnsteinUhlenbeck()
    errors = [
        [field_error(method.fit(read(path[:n], dt=0.02)), ou, path[:n]).relative_drift for n in (1000, 16_000)]
        for path in (ou_path(16_000, seed, gap=0.02) for seed in range(5))
    ]
    few, many = np.mean(errors, axis=0)
    assert many < few / 4


def test_the_weak_form_survives_measurement_noise_and_plain_increments_do_not():
    ou, path = OrnsteinUhlenbeck(), ou_path(5000, 3)
    data = read(with_noise(path, 0.3), dt=0.05)
    weak, plain = (field_error(method.fit(data), ou, path) for method in (gp_weak, gp_increments))
    assert weak.relative_drift < 0.1
    assert plain.relative_drift > 1
    assert weak.diffusion < 0.01 * plain.diffusion


@ALL
def test_estimates_follow_a_change_of_units(method):
    path = with_noise(ou_path(600, 1, dim=2), 0.05)
    plain = method.fit(read(path, dt=0.05))
    moved = method.fit(read(path * [3.0, 0.2], dt=0.5))
    x = path[::50]
    np.testing.assert_allclose(moved.drift(x * [3.0, 0.2]), plain.drift(x) * [0.3, 0.02], rtol=1e-4, atol=1e-6)
    scale = np.array([3.0, 0.2]) / np.sqrt(10)
    np.testing.assert_allclose(moved.diffusion(x * [3.0, 0.2]), plain.diffusion(x) * scale, rtol=1e-4)


@BOTH
def test_far_from_the_data_the_process_is_gone_and_the_diffusion_is_constant(method):
    fitted = method.fit(read(ou_path(1000, 0), dt=0.05))
    far, farther = fitted.diffusion(np.array([[1e3], [1e4]]))
    assert far == farther > 0
    drift = fitted.drift(np.array([[1e3], [2e3], [3e3]]))[:, 0]
    assert drift[2] - drift[1] == pytest.approx(drift[1] - drift[0], abs=1e-9)  # zero, or the linear part alone


@BOTH
def test_several_paths_with_unequal_gaps_are_taken(method):
    rng = np.random.default_rng(0)
    times = [np.cumsum(rng.uniform(0.03, 0.07, 400)) for _ in range(4)]
    data = simulate(OrnsteinUhlenbeck(), np.zeros((4, 1)), times, dt=0.01, seed=1).observations()
    assert field_error(method.fit(data), OrnsteinUhlenbeck(), data.values).relative_drift < 0.5


@pytest.mark.parametrize("settings", [gp_increments.IncrementSettings, gp_weak.WeakSettings])
def test_lengths_must_be_positive(settings):
    with pytest.raises(ConfigError, match="all positive"):
        settings(lengths=(1.0, 0.0))


def test_sparse_cubics_are_exact_without_noise():
    y = np.random.default_rng(0).uniform(-1, 1, 200)
    ends = y + 0.1 * (2 * y - y**3)
    fitted = sparse_cubic.fit(read([np.array([a, b]) for a, b in zip(y, ends, strict=True)], dt=0.1))
    np.testing.assert_allclose(fitted.drift_field.coefficients[:, 0], [0, 2, 0, -1], atol=1e-6)


def test_sparse_cubics_keep_the_terms_of_a_linear_equation():
    """log 20 000 = 9.9: a false term has a chance of 0.2 %; of five candidates none on these three paths."""
    for seed in range(3):
        fitted = sparse_cubic.fit(read(ou_path(20_000, seed), dt=0.05))
        assert fitted.drift_field.support(("x",)) == (("x",),)
        assert fitted.diffusion_sq_field.support(("x",)) == (("1",),)


def test_states_that_do_not_determine_a_cubic_are_refused():
    with pytest.raises(InvalidObservationsError, match="do not determine 4 monomials"):
        sparse_cubic.fit(read(np.tile([0.0, 1.0], 20), dt=0.1))
    with pytest.raises(ConfigError, match="expected 0 or more"):
        sparse_cubic.SparseSettings(drift_degree=-1)
