"""The basis of the evidence estimator: B-splines and monomials, their expectations and slopes, symmetric grids."""

from itertools import permutations, product

import numpy as np
import pytest

from fimsde.evidence import basis_kernels
from fimsde.evidence.basis import Basis, SplineGrid, choose_grid

SPACING = 0.5
DIMS = pytest.mark.parametrize("dim", [1, 2, 3])
HERMITE = {1: 300, 2: 60, 3: 20}  # nodes along each axis
MISS = 0.006  # of a B-spline: a little more than the kernels promise for any spread


def full_grid(dim, reach):
    return SplineGrid(np.array(list(product(range(-reach, reach + 1), repeat=dim))), SPACING)


def around(dim):
    """Gauss-Hermite nodes and weights of a standard normal vector."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(HERMITE[dim])
    points = np.array(list(product(nodes, repeat=dim)))
    return points, np.array([np.prod(w) for w in product(weights / weights.sum(), repeat=dim)])


def expectation_at(basis, x, var, coefficients):
    out = np.empty(coefficients.shape[1])
    work = basis_kernels.scratch(basis.dim, basis.degree, basis.num_terms)
    basis_kernels.field_at(x, var, basis.arrays, np.ascontiguousarray(coefficients.T), work, out)
    return out


def jacobian_at(basis, x, var, coefficients):
    out = np.empty((coefficients.shape[1], basis.dim))
    work = basis_kernels.scratch(basis.dim, basis.degree, basis.num_terms)
    rows = np.ascontiguousarray(coefficients.T)
    basis_kernels.jacobian_at(x, var, basis.arrays, rows, basis.slopes(rows), work, out)
    return out


@DIMS
def test_b_splines_add_up_to_one_and_are_not_negative(dim):
    basis = Basis(dim, 0, full_grid(dim, 4))
    x = np.random.default_rng(0).uniform(-1.2, 1.2, (200, dim))
    splines = basis.features(x)[:, 1:]
    np.testing.assert_allclose(splines.sum(axis=1), 1.0, atol=1e-14)
    assert splines.min() >= 0
    assert (splines > 0).sum(axis=1).max() <= 3**dim


def test_a_b_spline_is_the_density_of_three_uniform_numbers():
    """Its shape in closed form: 3/4 - u² inside half a spacing, (3/2 - |u|)² / 2 up to one and a half."""
    basis = Basis(1, 0, SplineGrid(np.array([[2]]), SPACING))
    u = np.linspace(-2, 2, 81)
    found = basis.features(SPACING * (2 + u)[:, None])[:, 1]
    outer = np.where(np.abs(u) < 1.5, 0.5 * (1.5 - np.abs(u)) ** 2, 0.0)
    np.testing.assert_allclose(found, np.where(np.abs(u) < 0.5, 0.75 - u**2, outer), atol=1e-14)


@DIMS
@pytest.mark.parametrize("spread", [0.01, 0.05, 0.079, 0.15, 0.219, 0.221, 0.5, 1.0, 1.9])
def test_expectations_are_those_of_quadrature(dim, spread):
    """E[φ(x + e)] for spreads in spacings, against Gauss-Hermite with many nodes; without e one is off by more."""
    basis = Basis(dim, 3, full_grid(dim, {1: 9, 2: 5, 3: 3}[dim]))
    points, weights = around(dim)
    std = SPACING * spread * np.array([1.0, 0.8, 0.6])[:dim]
    for x in np.random.default_rng(1).uniform(-0.4, 0.4, (3, dim)):
        found = basis.features(x[None], std[None] ** 2)[0]
        exact = weights @ basis.features(x + std * points)
        terms = basis.num_terms
        np.testing.assert_allclose(found[:terms], exact[:terms], atol=1e-12)
        quadrature = 2e-4 if dim == 1 else 0.003 if dim == 2 else 0.01  # kinks of B'' between nodes
        assert np.abs(found[terms:] - exact[terms:]).max() < MISS + quadrature * min(1.0, spread)
    if spread > 0.2:
        assert np.abs(basis.features(x[None])[0, terms:] - exact[terms:]).max() > 2 * MISS


@DIMS
def test_expectations_of_monomials_are_exact(dim):
    """E[(x + e)²] = x² + v, E[(x + e)³] = x³ + 3 v x, and products of components."""
    x, var = np.array([[0.7, -1.3, 2.1]])[:, :dim], np.array([[0.3, 0.2, 0.5]])[:, :dim]
    found = Basis(dim, 3).features(x, var)[0]
    powers = np.stack([np.ones(dim), x[0], x[0] ** 2 + var[0], x[0] ** 3 + 3 * var[0] * x[0]])
    exact = [np.prod([powers[p, j] for j, p in enumerate(e)]) for e in Basis(dim, 3).exponents]
    np.testing.assert_allclose(found, exact, rtol=1e-14)


@DIMS
@pytest.mark.parametrize("spread", [0.0, 0.05, 0.15, 0.5, 1.5])
def test_the_jacobian_is_the_slope_of_the_expectation(dim, spread):
    """Central differences at places where the pieces of the B-splines do not meet."""
    basis = Basis(dim, 3, full_grid(dim, 5))
    rng = np.random.default_rng(2)
    coefficients = rng.standard_normal((basis.size, dim))
    x, var = SPACING * np.array([0.1, -0.2, 1.3])[:dim], np.full(dim, (SPACING * spread) ** 2)
    found, step = jacobian_at(basis, x, var, coefficients), 1e-5
    for j in range(dim):
        move = step * (np.arange(dim) == j)
        ends = [expectation_at(basis, x + sign * move, var, coefficients) for sign in (1, -1)]
        np.testing.assert_allclose(found[:, j], (ends[0] - ends[1]) / (2 * step), rtol=1e-6, atol=1e-7)


@DIMS
def test_a_field_is_the_sum_of_its_functions(dim):
    basis = Basis(dim, 2, full_grid(dim, 3))
    rng = np.random.default_rng(3)
    coefficients, x = rng.standard_normal((basis.size, 2)), rng.standard_normal((20, dim))
    np.testing.assert_allclose(basis.field(coefficients, x), basis.features(x) @ coefficients, atol=1e-12)


# ---- grids ---------------------------------------------------------------------------------------------------------


def cloud(dim, seed=0, num=400):
    return np.random.default_rng(seed).standard_normal((num, dim)) @ np.triu(np.ones((dim, dim)))


def as_set(grid):
    return {tuple(node) for node in grid.nodes}


@DIMS
@pytest.mark.parametrize("most", [60, 120, 250])
def test_the_grid_of_reflected_points_is_the_reflected_grid(dim, most):
    points = cloud(dim)
    plain = choose_grid(points, most * dim, 0.0)
    for signs in product((1, -1), repeat=dim):
        moved = choose_grid(points * signs, most * dim, 0.0)
        assert moved.spacing == plain.spacing
        assert as_set(moved) == {tuple(node * signs) for node in plain.nodes}


@pytest.mark.parametrize("dim", [2, 3])
def test_the_grid_of_permuted_axes_is_the_permuted_grid(dim):
    points = cloud(dim)
    plain = choose_grid(points, 250, 0.0)
    for order in permutations(range(dim)):
        moved = choose_grid(points[:, order], 250, 0.0)
        assert moved.spacing == plain.spacing
        assert as_set(moved) == {tuple(node[list(order)]) for node in plain.nodes}


@DIMS
def test_nodes_carry_every_b_spline_that_a_point_touches(dim):
    points = np.clip(cloud(dim), -5, 5)
    most = 60 * dim
    grid = choose_grid(points, most, 0.0)
    assert len(grid.nodes) == len(as_set(grid)) <= most
    np.testing.assert_allclose(Basis(dim, 0, grid).features(points)[:, 1:].sum(axis=1), 1.0, atol=1e-14)
    finer = choose_grid(points, 10**6, 0.0)
    assert finer.spacing < grid.spacing
    assert choose_grid(points, most, 1.01 * grid.spacing).spacing > grid.spacing
    assert choose_grid(points, 2, 0.0) is None


@pytest.mark.parametrize("far", [np.nan, np.inf, -np.inf, 1e300])
def test_places_and_spreads_that_are_no_numbers_touch_no_node(far):
    """Predictions of an equation that explodes: kernels without checks of bounds must not follow them anywhere."""
    basis = Basis(1, 1, choose_grid(np.linspace(-1, 1, 50)[:, None], 30, 0.0))
    assert (basis.features(np.array([[far]]))[0, 2:] == 0).all()
    spread = basis.features(np.zeros((1, 1)), np.array([[abs(far)]]))[0, 2:]
    assert np.isfinite(spread).all()
    assert 0.2 < spread.sum() < 1.001
