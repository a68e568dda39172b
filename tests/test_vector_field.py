"""Errors of drift and diffusion on grids and at the data."""

import numpy as np
import pytest

from fimsde.data.grid import regular_grid
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import InvalidObservationsError
from fimsde.metrics.vector_field import field_error
from fimsde.simulate import simulate
from problems import GeometricBrownianMotion, OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)


def two_dim(drift=lambda x: x, diffusion=np.ones_like):
    return FunctionSDE(2, drift, diffusion)


def test_the_truth_has_no_error():
    found = field_error(OU, OU, regular_grid([-2.0], [2.0], 64))
    assert (found.drift, found.diffusion, found.relative_drift, found.num_negative) == (0.0, 0.0, 0.0, 0)
    assert found.num_locations == 64


def test_errors_are_means_over_locations_and_components():
    off = two_dim(lambda x: x + np.array([0.0, 3.0]), lambda x: np.full_like(x, 1.0) + np.array([0.5, 0.0]))
    found = field_error(off, two_dim(), regular_grid([-1.0, -1.0], [1.0, 1.0], 4))
    assert found.drift == pytest.approx((0 + 9) / 2)
    assert found.diffusion == pytest.approx((0.25 + 0) / 2)


def test_a_negative_g_counts_as_zero_diffusion_and_is_counted():
    """The paper's sqrt(max(0, g)) for baselines: sqrt(g) is NaN on the left half, the truth 1 everywhere."""
    half = FunctionSDE(1, lambda x: x, lambda x: np.where(x < 0, np.nan, 1.0))
    truth = FunctionSDE(1, lambda x: x, np.ones_like)
    found = field_error(half, truth, regular_grid([-1.0], [1.0], 10))
    assert found.diffusion == pytest.approx(0.5)
    assert found.num_negative == 5


def test_an_invalid_drift_is_not_replaced():
    broken = FunctionSDE(1, lambda x: np.where(x < 0, np.nan, x), np.ones_like)
    assert np.isnan(field_error(broken, OU, regular_grid([-1.0], [1.0], 10)).drift)


def test_relative_errors_follow_a_change_of_units():
    """Each component is measured by its own variance: components in other units do not drown each other."""
    units = np.array([1.0, 1e6])
    x = regular_grid([-1.0, -1.0], [1.0, 1.0], 5)
    truth, guess = two_dim(lambda x: x, lambda x: 1 + x**2), two_dim(lambda x: 0.9 * x, lambda x: 1.1 + x**2)

    def scaled(sde):
        return two_dim(lambda x: units * sde.drift(x / units), lambda x: units * sde.diffusion(x / units))

    plain, moved = field_error(guess, truth, x), field_error(scaled(guess), scaled(truth), x * units)
    assert moved.relative_drift == pytest.approx(plain.relative_drift)
    assert moved.relative_diffusion == pytest.approx(plain.relative_diffusion)
    assert plain.relative_drift == pytest.approx(0.01)  # (0.1 x)² against the variance of x, whose mean is 0


def test_the_best_constant_has_relative_error_one():
    x = regular_grid([0.0], [2.0], 33)
    gbm = GeometricBrownianMotion()
    constant = FunctionSDE(1, lambda q: np.full_like(q, gbm.drift(x).mean()), lambda q: gbm.diffusion(q))
    assert field_error(constant, gbm, x).relative_drift == pytest.approx(1.0)


def test_a_constant_truth_has_no_relative_error():
    x = regular_grid([-2.0], [2.0], 33)
    assert np.isnan(field_error(OrnsteinUhlenbeck(1.5, 0.8), OU, x).relative_diffusion)
    mixed = two_dim(diffusion=lambda x: np.stack([np.full(len(x), 0.1), 1 + x[:, 1] ** 2], axis=1))
    found = field_error(mixed, mixed, regular_grid([-1.0, -1.0], [1.0, 1.0], 4))
    assert found.relative_diffusion == 0.0  # of the component that varies


def test_errors_at_the_data_forget_where_the_process_never_goes():
    """A guess that is wrong only beyond |x| = 3, some nine standard deviations away, has an error on the grid alone."""
    guess = FunctionSDE(1, lambda x: np.where(np.abs(x) > 3, 0.0, -1.5 * x), OU.diffusion)
    data = simulate(OU, np.zeros((5, 1)), np.arange(0.0, 20.0, 0.05), seed=0).observations()
    assert field_error(guess, OU, regular_grid([-6.0], [6.0], 1024)).drift > 10
    assert field_error(guess, OU, data.values).drift == 0.0


def test_errors_at_the_data_have_the_weights_of_the_stationary_law():
    """A guess off by c·x has the expected error c² Var(x). 40 000 independent draws of the stationary law; the mean of
    x² has the relative standard error sqrt(2/n), and 5 of them are allowed: false alarm below 1e-6."""
    n, variance = 40_000, OU.stationary_variance()
    x = np.random.default_rng(1).normal(scale=np.sqrt(variance), size=(n, 1))
    found = field_error(OrnsteinUhlenbeck(1.8, 0.7), OU, x)
    assert found.drift == pytest.approx(0.3**2 * variance, rel=5 * np.sqrt(2 / n))
    assert found.relative_drift == pytest.approx((0.3 / 1.5) ** 2, rel=1e-3)


@pytest.mark.parametrize(
    ("estimate", "truth", "x", "message"),
    [
        (OU, two_dim(), np.zeros((3, 2)), "estimate dimension 1, the truth dimension 2"),
        (OU, OU, np.zeros((3, 2)), r"locations have shape \(3, 2\)"),
        (OU, OU, np.zeros((0, 1)), "at least one location"),
        (OU, FunctionSDE(1, lambda x: x * np.nan, np.ones_like), np.zeros((3, 1)), "true drift or diffusion"),
    ],
)
def test_bad_comparisons_are_named(estimate, truth, x, message):
    with pytest.raises(InvalidObservationsError, match=message):
        field_error(estimate, truth, x)
