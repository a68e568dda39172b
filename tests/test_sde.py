"""Changes of variables agree with calculations by hand and with the definition of drift and diffusion as limits."""

import numpy as np
import pytest

from fimsde.equations.changes import AffineSDE, ExpSDE, LogSDE
from fimsde.equations.sde import SDE, FunctionSDE, fields
from fimsde.simulate import simulate
from problems import GeometricBrownianMotion, OrnsteinUhlenbeck

X = np.random.default_rng(0).uniform(0.3, 3.0, (50, 1))
X2 = np.random.default_rng(1).uniform(0.3, 3.0, (50, 2))
CUBIC = FunctionSDE(1, lambda x: 4 * (x - x**3), lambda x: np.sqrt(3 + 0 * x))
# Coupled, state-dependent and without any symmetry that could hide a mistake.
COUPLED = FunctionSDE(
    2,
    lambda x: np.stack([2 - x[:, 0] * x[:, 1], x[:, 0] ** 2 - 0.5 * x[:, 1]], axis=1),
    lambda x: np.stack([np.sqrt(x[:, 1]), 0.3 + 0.1 * x[:, 0]], axis=1),
)


def assert_close(found, expected, rtol=1e-13):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)


def test_everything_with_fields_is_an_sde():
    for sde in (CUBIC, OrnsteinUhlenbeck(), AffineSDE(CUBIC, np.ones(1), np.zeros(1)), LogSDE(CUBIC), ExpSDE(CUBIC)):
        assert isinstance(sde, SDE)
        assert sde.dim == 1
    assert not isinstance(np.zeros(3), SDE)


def test_an_affine_ornstein_uhlenbeck_process_is_the_one_calculated_by_hand():
    """z = (x - 3) / 2 in s = 4 t: dz/ds = -theta (2 z + 3) / (2 * 4), and sigma / (2 * sqrt 4) for the noise."""
    ou = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)
    moved = AffineSDE(ou, scale=np.array([2.0]), offset=np.array([3.0]), time_scale=4.0)
    assert_close(moved.drift(X), -1.5 * X / 4 - 1.5 * 3 / 8)
    assert_close(moved.diffusion(X), np.full_like(X, 0.7 / 4))


def test_an_affine_cubic_system_is_the_one_calculated_by_hand():
    """x = 2 z - 1 and s = t / 2: 4 (x - x³) / (2 * 0.5) = 4 (-8 z³ + 12 z² - 4 z), diffusion sqrt(3) / (2 sqrt 0.5)."""
    moved = AffineSDE(CUBIC, scale=np.array([2.0]), offset=np.array([-1.0]), time_scale=0.5)
    assert_close(moved.drift(X), 4 * (-8 * X**3 + 12 * X**2 - 4 * X), rtol=1e-12)
    assert_close(moved.diffusion(X), np.full_like(X, np.sqrt(3) / (2 * np.sqrt(0.5))))


def test_a_reflection_turns_the_drift_and_keeps_the_diffusion_positive():
    mirrored = AffineSDE(COUPLED, scale=np.array([-1.0, 1.0]), offset=np.zeros(2))
    at = X2 * [-1, 1]
    assert_close(mirrored.drift(at), COUPLED.drift(X2) * [-1, 1])
    assert_close(mirrored.diffusion(at), COUPLED.diffusion(X2))


def test_two_affine_changes_compose():
    scale, offset = np.array([2.0, 0.5]), np.array([1.0, 3.0])
    twice = AffineSDE(AffineSDE(COUPLED, scale, offset, 3.0), np.array([5.0, 7.0]), np.array([0.1, 0.2]), 0.25)
    once = AffineSDE(COUPLED, scale * [5, 7], offset + scale * [0.1, 0.2], 0.75)
    assert_close(twice.drift(X2), once.drift(X2))
    assert_close(twice.diffusion(X2), once.diffusion(X2))


def test_the_logarithm_of_geometric_brownian_motion_has_constant_coefficients_and_back():
    gbm = GeometricBrownianMotion(mu=0.3, sigma=0.5)
    log = LogSDE(gbm)
    assert_close(log.drift(X), np.full_like(X, 0.3 - 0.125))
    assert_close(log.diffusion(X), np.full_like(X, 0.5))
    brownian = FunctionSDE(1, lambda z: np.full_like(z, 0.3 - 0.125), lambda z: np.full_like(z, 0.5))
    assert_close(ExpSDE(brownian).drift(X), 0.3 * X)
    assert_close(ExpSDE(brownian).diffusion(X), 0.5 * X)


def test_logarithm_and_exponential_undo_each_other():
    for there_and_back in (ExpSDE(LogSDE(COUPLED)), LogSDE(ExpSDE(COUPLED))):
        assert_close(there_and_back.drift(X2), COUPLED.drift(X2), rtol=1e-12)
        assert_close(there_and_back.diffusion(X2), COUPLED.diffusion(X2), rtol=1e-12)


@pytest.mark.parametrize(("transform", "make"), [(np.log, LogSDE), (np.exp, ExpSDE)])
def test_transformed_fields_are_the_limits_that_define_them(transform, make):
    """Drift and squared diffusion are the rates of mean and variance of phi(x + f h + sqrt(g h) Z) as h falls.

    Gauss-Hermite quadrature gives both for small h without Ito's formula and without noise; a forgotten correction
    term would be an error of order one.
    """
    h = 1e-7
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    weights = weights / weights.sum()
    step = COUPLED.drift(X2) * h + COUPLED.diffusion(X2) * np.sqrt(h) * nodes[:, None, None]
    moves = transform(X2 + step) - transform(X2)  # (nodes, queries, dim)
    mean = np.tensordot(weights, moves, 1)
    variance = np.tensordot(weights, moves**2, 1) - mean**2
    moved = make(COUPLED)
    np.testing.assert_allclose(moved.drift(transform(X2)), mean / h, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(moved.diffusion(transform(X2)), np.sqrt(variance / h), rtol=1e-5)


def test_locations_outside_the_domain_give_nan_and_are_never_passed_on():
    def refuse_bad_locations(x):
        assert np.isfinite(x).all()
        return x

    inner = FunctionSDE(2, refuse_bad_locations, refuse_bad_locations)
    at = np.array([[1.0, 2.0], [0.0, 1.0], [-1.0, 1.0], [np.nan, 1.0], [2.0, 3.0]])
    assert np.isnan(ExpSDE(inner).drift(at)).all(axis=1).tolist() == [False, True, True, True, False]
    assert np.isnan(ExpSDE(inner).diffusion(at)).all(axis=1).tolist() == [False, True, True, True, False]
    far = np.array([[1.0, 2.0], [800.0, 1.0], [-800.0, 1.0]])  # exp overflows, underflows
    assert np.isnan(LogSDE(inner).drift(far)).all(axis=1).tolist() == [False, True, True]
    assert np.isnan(LogSDE(inner).diffusion(far)).all(axis=1).tolist() == [False, True, True]


class Quiet:
    """An equation that answers both fields at once, and must not be asked for one of them."""

    dim = 2

    def fields(self, x):
        return COUPLED.drift(x), COUPLED.diffusion(x)

    def drift(self, x):
        raise AssertionError("asked for the drift alone")

    diffusion = drift


def test_fields_come_from_one_question_if_the_equation_can_answer_it():
    x = X2 + 1  # so that the logarithms are positive too, as COUPLED wants
    for asked, answers in ((Quiet(), COUPLED), (ExpSDE(Quiet()), ExpSDE(COUPLED)), (COUPLED, COUPLED)):
        drift, diffusion = fields(asked, x)
        np.testing.assert_array_equal(drift, answers.drift(x))
        np.testing.assert_array_equal(diffusion, answers.diffusion(x))
    quiet, plain = (simulate(sde, X2[:5], [0.0, 0.01, 0.02]).values for sde in (Quiet(), COUPLED))
    np.testing.assert_array_equal(quiet, plain)
