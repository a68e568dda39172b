"""Sums over windows in compiled loops: the same formulas, written with whole arrays."""

from itertools import pairwise

import numpy as np
import pytest

from fimsde.bank import cell_kernels, monomials, regression_kernels
from fimsde.bank.windows import Series, mean_square_displacement

NUM, DIM, TERMS = 40, 2, 6


@pytest.fixture
def arrays():
    """Instruments, integrals (ten features each, of which six count), and three columns per component."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((2, NUM, 10)), rng.uniform(0.5, 2.0, (3, NUM, DIM))


def test_cross_products_and_right_sides_are_weighted_sums(arrays):
    (instrument, integral), (weight, response, _) = arrays
    cross, right = regression_kernels.instrumental_sums(weight, instrument, integral, response, TERMS)
    z, f = instrument[:, :TERMS], integral[:, :TERMS]
    np.testing.assert_allclose(cross, np.einsum("nd,nk,nq->dkq", weight, z, f), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(right, np.einsum("nd,nk,nd->dk", weight, z, response), rtol=1e-12, atol=1e-12)
    cross, right = regression_kernels.instrumental_sums(np.ones((NUM, 1)), instrument, integral, response, TERMS)
    np.testing.assert_allclose(cross, [z.T @ f], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(right, response.T @ z, rtol=1e-12, atol=1e-12)


def test_moments_of_twice_the_degree_are_those_of_the_features_of_twice_the_degree():
    rng = np.random.default_rng(1)
    x, weight = rng.standard_normal((NUM, DIM)), rng.uniform(0.5, 2.0, (NUM, DIM))
    found = regression_kernels.product_sums(weight, monomials.evaluate(x, 3), monomials.factors(DIM, 3))
    np.testing.assert_allclose(found, weight.T @ monomials.evaluate(x, 6), rtol=1e-11, atol=1e-11)


def test_scores_depend_on_two_neighbours_of_the_same_run(arrays):
    (instrument, _), (score, least, _) = arrays
    joined = np.ones(NUM, np.bool_)
    joined[[0, 7, 9, 20, -1]] = False
    run = np.append(0, np.cumsum(~joined[:-1]))
    near = (np.abs(np.subtract.outer(np.arange(NUM), np.arange(NUM))) <= 2) & (run[:, None] == run)
    z = instrument[:, :TERMS]
    for d, found in enumerate(regression_kernels.score_sums(score, least, instrument, joined, TERMS)):
        between = near * np.outer(score[:, d], score[:, d]) + np.diag(least[:, d] ** 2)
        np.testing.assert_allclose(found, z.T @ between @ z, rtol=1e-11, atol=1e-11)


def test_displacements_are_taken_inside_paths():
    rng = np.random.default_rng(2)
    starts, y, dtau = np.array([0, 3, 20, 22]), rng.standard_normal((22, DIM)), rng.uniform(0.1, 1.0, 22)
    dtau[starts[1:] - 1] = 0.0
    spans, squares = mean_square_displacement(Series(y, dtau, starts))
    assert len(spans) == 5, "lags 1, 2, 4, 8 and 16"
    for k, lag in enumerate((1, 2, 4, 8, 16)):
        pairs = [(i, i + lag) for a, b in pairwise(starts) for i in range(a, b - lag)]
        assert spans[k] == pytest.approx(np.mean([dtau[i:j].sum() for i, j in pairs]), rel=1e-12)
        np.testing.assert_allclose(squares[k], np.mean([(y[j] - y[i]) ** 2 for i, j in pairs], axis=0), rtol=1e-12)


@pytest.mark.parametrize("different", [1, 50, 51])
def test_different_keys_are_counted_up_to_a_number(different):
    keys = np.random.default_rng(3).permutation(np.repeat(101 * np.arange(different), 3))  # all fall on one slot
    assert cell_kernels.has_more_than(50, keys) == (different > 50)
