"""Smooth fields by evidence: posterior and evidence of the dense Gaussian computation."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from fimsde.evidence.basis import Basis, choose_grid
from fimsde.evidence.information import Information
from fimsde.evidence.smooth import LENGTHS, SIZES, SmoothPrior, smooth_posteriors
from fimsde.evidence.smooth_kernels import normal_kernel_root

NOISE = 0.3
LINEAR = [SmoothPrior(length, 1) for length in LENGTHS]


def regression(dim, seed=0, num=80, field=np.sin):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num, dim))
    basis = Basis(dim, 3, choose_grid(x, 40 * dim, 0.0))
    features = basis.features(x)
    y = field(3 * x) + NOISE * rng.standard_normal((num, dim))
    matrix = np.stack([features.T @ features / NOISE**2] * dim)
    return x, y, basis, features, Information(matrix, (features.T @ y / NOISE**2).T.copy())


def kernel(places, length):
    return np.exp(-((places[:, None] - places) ** 2).sum(axis=-1) / (2 * length**2))


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("length", LENGTHS)
def test_the_factor_of_the_kernel_misses_little_of_it(dim, length):
    places = np.random.default_rng(0).uniform(-2, 2, (60, dim))
    root = normal_kernel_root(places, length, 1e-4)
    np.testing.assert_allclose(root @ root.T, kernel(places, length), atol=2e-4)
    assert root.shape[1] <= 60


def dense(y, features, kept, nodes, root, width, size, polynomial_width):
    """Evidence beyond that of noise alone, and mean of all coefficients, from y ~ N(0, Φ P Φ' + v)."""
    prior = np.zeros((features.shape[1],) * 2)
    prior[np.ix_(kept, kept)] = np.eye(len(kept)) * polynomial_width**2
    prior[np.ix_(nodes, nodes)] = (size * width) ** 2 * root @ root.T
    noise = NOISE**2 * np.eye(len(y))
    total = features @ prior @ features.T + noise
    zero = np.zeros(len(y))
    gain = multivariate_normal(zero, total).logpdf(y) - multivariate_normal(zero, noise).logpdf(y)
    return gain, prior @ features.T @ np.linalg.solve(total, y)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("degree", [-1, 0, 1])
def test_posterior_and_evidence_are_those_of_the_dense_computation(dim, degree):
    """Marginal likelihood of the observations themselves; sizes averaged over; the polynomial's prior is one wide."""
    _, y, basis, features, data = regression(dim)
    width, lengths = np.array([0.7, 1.1])[:dim], LENGTHS[5:]
    found = smooth_posteriors(data, basis, [SmoothPrior(length, degree) for length in lengths], width)
    kept = np.flatnonzero(basis.exponents.sum(axis=1) <= degree)
    nodes = basis.num_terms + np.arange(basis.num_nodes)
    for i, length in enumerate(lengths):
        root = normal_kernel_root(basis.grid.places, length, 1e-4)
        for c in range(dim):
            parts = [dense(y[:, c], features, kept, nodes, root, width[c], s, width[c]) for s in SIZES]
            gains = np.array([gain for gain, _ in parts])
            assert found.evidence[i, c] == pytest.approx(logsumexp(gains) - np.log(len(SIZES)), abs=1e-5)
            mean = np.exp(gains - logsumexp(gains)) @ np.array([mean for _, mean in parts])
            scale = np.abs(mean).max()
            np.testing.assert_allclose(found.coefficients[i, c] / scale, mean / scale, atol=1e-6)


def test_a_process_without_a_polynomial_is_believed_where_there_is_no_slope_and_not_where_there_is_one():
    width = np.ones(1)
    for slope, likely in ((0.0, 0), (5.0, 1)):
        *_, basis, _, data = regression(1, num=400, field=lambda u, a=slope: np.sin(2 * u) + a * u)
        found = [smooth_posteriors(data, basis, [SmoothPrior(0.7, d)], width).evidence[0, 0] for d in (-1, 1)]
        assert int(np.argmax(found)) == likely


def test_evidence_finds_the_length_of_a_wave_and_prefers_long_ones_for_a_line():
    width = np.ones(1)
    *_, basis, _, wave = regression(1, num=400, field=lambda u: np.sin(2 * u))
    fine = smooth_posteriors(wave, basis, LINEAR, width).evidence[:, 0]
    *_, basis, _, line = regression(1, num=400, field=lambda u: 0.3 * u)
    flat = smooth_posteriors(line, basis, LINEAR, width).evidence[:, 0]
    assert LENGTHS[int(np.argmax(fine))] < 0.6 < LENGTHS[int(np.argmax(flat))]


def test_lengths_that_the_grid_cannot_hold_are_impossible_and_all_are_without_a_grid():
    *_, basis, _, data = regression(2)
    found = smooth_posteriors(data, basis, LINEAR, np.ones(2))
    short = np.array(LENGTHS) < basis.grid.spacing
    assert 0 < short.sum() < len(LENGTHS)
    assert (np.isneginf(found.evidence).all(axis=1) == short).all()
    polynomial = Basis(2, 3)
    without = smooth_posteriors(data.polynomial(polynomial.size), polynomial, LINEAR, np.ones(2))
    assert np.isneginf(without.evidence).all()
    assert (without.coefficients == 0).all()
