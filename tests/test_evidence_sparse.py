"""Sparse polynomials by evidence: averages over subsets, sizes and origins, against enumeration and integration."""

from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from fimsde.bank import monomials
from fimsde.evidence.information import Information
from fimsde.evidence.sparse import SparsePrior, sparse_posteriors

PRIORS = (SparsePrior("any", 1 / 3, (0, 1, 2)), SparsePrior("few", 0.1, (0, 1, 2)), SparsePrior("linear", 0.4, (0, 1)))
NONE = np.array([-np.inf, -np.inf])


def information(coefficients, degree, num=60, noise=0.3, seed=0):
    """Normal equations of a regression of every component on the monomials of random states."""
    rng = np.random.default_rng(seed)
    dim = coefficients.shape[1]
    x = rng.standard_normal((num, dim))
    features = monomials.evaluate(x, degree)
    y = features @ coefficients + noise * rng.standard_normal((num, dim))
    matrix = np.stack([features.T @ features / noise**2] * dim)
    return Information(matrix, (features.T @ y / noise**2).T.copy())


def shifted(matrix, right, degree, place):
    """The same log likelihood for coefficients of monomials in x - place: b in x is T b there."""
    dim = len(place)
    rows, columns, factors, powers = monomials.shift_terms(dim, degree)
    back = np.zeros((len(right), len(right)))
    back[rows, columns] = factors * np.prod((-place) ** powers, axis=1)  # (x - place)^k = sum back_kl x^l
    return back @ matrix @ back.T, back @ right, back


def enumerated(matrix, right, degree, prior, width, scale, place):
    """Log evidence and mean of all subsets but the empty one, one by one, with inverses and determinants."""
    there, reduced, back = shifted(matrix, right, degree, place)
    degrees = monomials.exponents(len(place), degree).sum(axis=1)
    std = width / scale ** np.maximum(degrees - 1.0, 0.0)
    allowed = np.flatnonzero(np.isin(degrees, prior.degrees))
    logs, means = [], []
    for kept in product((False, True), repeat=len(allowed)):
        terms = allowed[list(kept)]
        if not len(terms):
            continue
        value = sum(np.log(prior.share if k else 1 - prior.share) for k in kept)
        mean = np.zeros(len(right))
        total = there[np.ix_(terms, terms)] + np.diag(std[terms] ** -2.0)
        mean[terms] = np.linalg.solve(total, reduced[terms])
        value += 0.5 * reduced[terms] @ mean[terms] - 0.5 * np.linalg.slogdet(total)[1] - np.log(std[terms]).sum()
        logs.append(value)
        means.append(back.T @ mean)
    logs = np.array(logs) - np.log1p(-((1 - prior.share) ** len(allowed)))
    return logsumexp(logs), np.exp(logs - logsumexp(logs)) @ np.array(means)


def test_around_a_given_origin_they_are_enumeration():
    """One component, three priors, two sizes of the equation."""
    data = information(np.array([[0.5], [-1.0], [0.0]]), 2)
    place, width, scales = np.array([0.4]), np.array([2.0]), (1.0, 3.0)
    found = sparse_posteriors(data, 2, PRIORS, width[None], scales, place, NONE[:1])
    for p, prior in enumerate(PRIORS):
        parts = [enumerated(data.matrix[0], data.right[0], 2, prior, 2.0, s, place) for s in scales]
        logs = np.array([value for value, _ in parts])
        if p == 0:
            every = logs
        assert found.evidence[p, 0] == pytest.approx(logsumexp(logs) - np.log(2), abs=1e-8)
        mean = np.exp(logs - logsumexp(logs)) @ np.array([mean for _, mean in parts])
        np.testing.assert_allclose(found.coefficients[p, 0], mean, rtol=1e-7, atol=1e-10)
    assert abs(every[0] - every[1]) > 1e-3  # sizes do matter


def test_with_two_components_the_size_of_one_is_weighed_by_the_other():
    """log sum_s p(data_c | s) w_s, the weights w_s being what the other component says of the size, summing to one."""
    data = information(np.array([[0.5, 0.0], [-1.0, 0.3], [0.2, 1.0], *np.zeros((3, 2))]), 2)
    place, width, scales, otherwise = np.array([0.4, -0.2]), np.array([2.0, 1.0]), (1.0, 3.0), np.array([-2.0, 1.5])
    found = sparse_posteriors(data, 2, PRIORS, width[None], scales, place, otherwise)
    each = np.array(
        [
            [
                [enumerated(data.matrix[c], data.right[c], 2, prior, width[c], s, place)[0] for c in range(2)]
                for prior in PRIORS
            ]
            for s in scales
        ]
    )  # (scales, priors, dim)
    believes = np.logaddexp(logsumexp(each, axis=1) - np.log(len(PRIORS)), otherwise)
    for c in range(2):
        other = believes[:, 1 - c]
        exact = logsumexp(each[:, :, c] + (other - logsumexp(other))[:, None], axis=0)
        np.testing.assert_allclose(found.evidence[:, c], exact, atol=1e-8)


def test_an_unknown_origin_is_integrated_over():
    """One component: the evidence is the mean over the grid of places that are looked for, here integrated finely.

    The search is quick, not exact: it adds finer places to coarse ones, so that what is near the best place counts up
    to 1 + 2 (1/2 + 1/4 + ...) = 3 times.
    """
    data = information(np.array([[-0.9], [1.5], [0.0]]), 2, num=200)
    width = np.array([2.0])
    found = sparse_posteriors(data, 2, PRIORS, width[None], (1.0,), None, NONE[:1])
    places = np.linspace(-2.25, 2.25, 601)
    for p, prior in enumerate(PRIORS):
        parts = [enumerated(data.matrix[0], data.right[0], 2, prior, 2.0, 1.0, np.array([o])) for o in places]
        logs = np.array([value for value, _ in parts])
        assert found.evidence[p, 0] == pytest.approx(logsumexp(logs) - np.log(len(places)), abs=np.log(3.0))
        mean = np.exp(logs - logsumexp(logs)) @ np.array([mean for _, mean in parts])
        np.testing.assert_allclose(found.coefficients[p, 0], mean, atol=0.1)


def test_two_components_share_an_unknown_origin():
    """dx = -(x - o) in both, o the same place: evidence and mean against a fine grid of the plane.

    What is near the best place counts up to 1 + 8 (1/4 + 1/16 + ...) times.
    """
    truth = np.array([[0.8, -0.5], [-1.0, 0.0], [0.0, -1.0]])
    data, width, few = information(truth, 1, num=30, noise=0.6), np.array([2.0, 2.0]), SparsePrior("few", 0.1, (0, 1))
    found = sparse_posteriors(data, 1, [few], width[None], (1.0,), None, NONE)
    axis = np.linspace(-2.25, 2.25, 41)
    places = np.array([o for o in product(axis, repeat=2) if np.hypot(*o) <= 3.0])
    parts = [[enumerated(data.matrix[c], data.right[c], 1, few, 2.0, 1.0, o) for c in range(2)] for o in places]
    logs = np.array([[value for value, _ in both] for both in parts])
    joint = np.exp(logs.sum(axis=1) - logsumexp(logs.sum(axis=1)))
    for c in range(2):
        weights = logs[:, 1 - c] - logsumexp(logs[:, 1 - c])
        assert found.evidence[0, c] == pytest.approx(logsumexp(logs[:, c] + weights), abs=np.log(11 / 3))
        mean = joint @ np.array([both[c][1] for both in parts])
        np.testing.assert_allclose(found.coefficients[0, c], mean, atol=0.05)
    elsewhere = sparse_posteriors(data, 1, [few], width[None], (1.0,), np.array([-1.5, 1.5]), NONE)
    assert (found.evidence > elsewhere.evidence).all(), "a wrong place costs evidence"


def test_a_prior_without_the_terms_that_are_there_loses():
    data = information(np.array([[0.0], [-1.0], [2.0]]), 2, num=200)
    found = sparse_posteriors(data, 2, PRIORS, np.array([[2.0]]), (1.0,), np.zeros(1), NONE[:1])
    assert found.evidence[2, 0] < found.evidence[:2, 0].min() - 50
    np.testing.assert_allclose(found.coefficients[:2, 0], [[0.0, -1.0, 2.0]] * 2, atol=0.1)
    assert found.coefficients[2, 0, 2] == 0
