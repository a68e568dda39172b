"""A variance rate in a formula is positive at every observed state, with as few terms as that needs."""

import re

import numpy as np
import pytest
from scipy.optimize import minimize

import fimsde
from fimsde.analysis.positive import ObservedStates
from fimsde.analysis.selection import Floor, fit_above
from fimsde.equations.sde import FunctionSDE


def seen(values, g, dim=1):
    """An equation with a variance rate, and states at which it was observed."""
    sde = FunctionSDE(dim, lambda x: -x, lambda x: np.sqrt(g(x)))
    return fimsde.result(sde, fimsde.read(values, dt=0.1))


def rising(x):
    """Nearly nothing, then rising: a line through most of it falls below zero."""
    return np.maximum(12.8 * x - 14.2, 1.0)


def clipped(x):
    """A parabola that stops short of zero: one through most of it does not."""
    return np.maximum(1 - x**2, 0.1)


_rng = np.random.default_rng(0)
RISING = np.concatenate([_rng.uniform(1.5, 3.0, 1950), _rng.uniform(0.5, 1.2, 50)])
CLIPPED = np.concatenate([_rng.normal(0, 0.4, 1980), _rng.uniform(1.2, 1.5, 20)])
CASES = [(RISING, rising, 1), (CLIPPED, clipped, 2), (CLIPPED, clipped, 3)]


def read(shown, x):
    """The value of a printed variance rate in one component."""
    code = shown.replace("^", "**").replace(" + ", "+").replace(" - ", "-").replace(" ", "*")
    return eval(code, {"__builtins__": {}}, {"x1": x})


@pytest.mark.parametrize(("values", "g", "degree"), CASES)
def test_the_root_of_a_formula_is_not_imaginary_at_observed_states(values, g, degree):
    equation = seen(values, g).equation(diffusion_degree=degree)
    assert np.all(equation.diffusion_sq_terms(values[:, None] - equation.origin)[:, 0] > 0.0999 * g(values))
    assert equation.diffusion_sq_terms.explained[0] > 0.8
    shown = re.search(r"sqrt\((.*)\) dW", str(equation))[1]
    assert np.min(read(shown, values)) > 0, "the printed digits are too few"


@pytest.mark.parametrize(("values", "g", "degree"), CASES)
def test_without_a_floor_those_formulas_would_be_negative(values, g, degree, monkeypatch):
    monkeypatch.setattr(ObservedStates, "are_positive", lambda self, coefficients: True)
    equation = seen(values, g).equation(diffusion_degree=degree)
    assert equation.diffusion_sq_terms(values[:, None] - equation.origin).min() < -0.1


def test_states_at_which_the_fields_are_not_read_count_as_well():
    """Of 20 000 states a quarter is read; the last of the path and one row that is never read are far out."""
    values = np.random.default_rng(1).uniform(1.5, 3.0, 20_000)
    values[[7, -1]] = 0.2, 0.3
    equation = seen(values, rising).equation(diffusion_degree=1)
    assert equation.diffusion_sq_terms(values[:, None] - equation.origin).min() > 0


@pytest.mark.parametrize("seed", range(12))
def test_random_fields_of_two_components_have_positive_formulas(seed):
    rng = np.random.default_rng(seed)
    values, centres = rng.standard_normal((700, 2)), rng.standard_normal((3, 2))

    def g(x):
        distance = np.abs(x[:, None] - centres).sum(axis=2)
        return 1e-3 + np.stack([np.maximum(1 - distance, 0).sum(axis=1), np.exp(3 * x[:, 0] - x[:, 1])], axis=1)

    equation = seen(values, g, 2).equation(diffusion_degree=int(rng.integers(1, 4)))
    assert equation.diffusion_sq_terms(values).min() > 0


def test_a_formula_that_is_positive_anyway_is_left_alone(monkeypatch):
    def g(x):
        return 0.2 + 0.3 * x**2

    found = seen(RISING, g).equation()
    monkeypatch.setattr(ObservedStates, "are_positive", lambda self, coefficients: True)
    plain = seen(RISING, g).equation()
    np.testing.assert_array_equal(found.diffusion_sq_terms.coefficients, plain.diffusion_sq_terms.coefficients)
    assert str(found).splitlines()[0].endswith("sqrt(0.2 + 0.3 x1^2) dW")


def test_noise_that_vanishes_at_an_observed_state_may_vanish_in_the_formula():
    values = np.append(RISING, 0.0)
    equation = seen(values, lambda x: 0.3 * x**2).equation()
    assert np.flatnonzero(equation.diffusion_sq_terms.coefficients[0]).tolist() == [2]


@pytest.mark.parametrize("seed", range(6))
def test_the_constrained_fit_is_the_best_above_the_floor(seed):
    """Against a general minimiser, started at its answer and at a constant: none finds a smaller misfit."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 2, 60)
    phi = np.stack([np.ones(60), x, x**2], axis=1)
    target = np.maximum(x, 0) + 0.01 * rng.standard_normal(60)
    gram, right, floor = phi.T @ phi, phi.T @ target, Floor(phi, np.full(60, 1e-3))
    kept = np.array([True, True, seed % 2 == 0])
    found = fit_above(gram, right, kept, floor)
    assert floor.is_kept(found)
    assert not found[~kept].any()

    def misfit(c):
        return c @ gram[np.ix_(kept, kept)] @ c - 2 * right[kept] @ c

    above = {"type": "ineq", "fun": lambda c: phi[:, kept] @ c - 1e-3}
    for start in (found[kept], np.eye(kept.sum())[0]):
        other = minimize(misfit, start, constraints=[above], method="SLSQP", options={"ftol": 1e-14, "maxiter": 500})
        assert misfit(found[kept]) <= other.fun + 1e-5 * abs(other.fun)


def test_terms_that_cannot_be_positive_are_known():
    x = np.array([-1.0, 1.0])
    floor = Floor(np.stack([np.ones(2), x], axis=1), np.full(2, 0.1))
    assert fit_above(np.eye(2), np.array([1.0, 1.0]), np.array([False, True]), floor) is None


@pytest.mark.parametrize("degree", [2, 3])
def test_a_variance_rate_next_to_nothing_is_not_made_negative_by_rounding(degree):
    values = np.random.default_rng(5).standard_normal((60, 3))

    def g(x):
        return np.where(x > 0.8, 1e-40, np.abs(np.sin(3 * x)) + 1e-40)

    equation = seen(values, g, 3).equation(diffusion_degree=degree)
    assert equation.diffusion_sq_terms(values).min() > 0
