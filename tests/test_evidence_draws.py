"""Draws from the posterior of a field: against enumeration, normal laws in closed form, and weights of hypotheses."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from scipy.special import logsumexp

from checks import check_frequencies, check_mean, check_variance
from fimsde.bank import monomials
from fimsde.evidence import draw_kernels
from fimsde.evidence.basis import Basis, choose_grid
from fimsde.evidence.draws import draw_coefficients
from fimsde.evidence.estimate import fit
from fimsde.evidence.field_draws import FieldDraws
from fimsde.evidence.hypotheses import DRIFT, Origin, weigh_drift, weigh_rate
from fimsde.evidence.information import Information
from fimsde.evidence.smooth import SIZES
from test_evidence_infer import as_observations, ou_data
from test_evidence_sparse import shifted

NUM = 4000
WIDTH = 1.3


def regression(field, dim=1, num=150, noise=0.4, seed=0, nodes=25):
    """A basis with a grid, and the normal equations of noisy values of a field at random states."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((num, dim))
    basis = Basis(dim, 3, choose_grid(x, nodes, 0.3))
    features = basis.features(x)
    y = field(x) + noise * rng.standard_normal((num, dim))
    matrix = np.stack([features.T @ features / noise**2] * dim)
    return basis, Information(matrix, np.ascontiguousarray((features.T @ y / noise**2).T))


def weighed_on(field, **options):
    basis, data = regression(field, **options)
    dim = basis.dim
    return weigh_drift(data, basis, np.full(dim, WIDTH), np.full(dim, WIDTH), Origin(np.full(dim, 0.2)))


def with_weights(weighed, hypothesis):
    """The same posteriors, one hypothesis being sure."""
    weights = np.zeros_like(weighed.weights)
    weights[DRIFT.index(hypothesis)] = 1.0
    return replace(weighed, weights=weights)


@pytest.fixture(scope="module")
def line():
    """Few and noisy values, of which several subsets and sizes make sense."""
    return weighed_on(lambda x: 0.3 * np.sin(2.0 * x) - 0.5 * x, num=50, noise=0.8)


def enumerated(weighed, share, place, scales=(1.0, 3.0, 9.0)):
    """Weights, means and covariances of all subsets and sizes of a sparse cubic, one by one."""
    data, terms = weighed.kept.data.polynomial(4), 4
    there, right, back = shifted(data.matrix[0], data.right[0], 3, np.array([place]))
    degrees = monomials.exponents(1, 3).sum(axis=1)
    logs, means, covariances = [], [], []
    for scale, kept in product(scales, product((False, True), repeat=terms)):
        std = WIDTH / scale ** np.maximum(degrees - 1.0, 0.0)
        chosen = np.flatnonzero(kept)
        value = sum(np.log(share if k else 1 - share) for k in kept)
        mean, covariance = np.zeros(terms), np.zeros((terms, terms))
        if len(chosen):
            total = there[np.ix_(chosen, chosen)] + np.diag(std[chosen] ** -2.0)
            mean[chosen] = np.linalg.solve(total, right[chosen])
            covariance[np.ix_(chosen, chosen)] = np.linalg.inv(total)
            value += 0.5 * right[chosen] @ mean[chosen] - 0.5 * np.linalg.slogdet(total)[1] - np.log(std[chosen]).sum()
        logs.append(value)
        means.append(back.T @ mean)
        covariances.append(back.T @ covariance @ back)
    logs = np.where(np.any(means, axis=1), logs, -np.inf)  # at least one term is there
    weights = np.exp(logs - logsumexp(logs))
    return weights, np.array(means), np.array(covariances)


def check_moments(drawn, mean, covariance, false_alarm=1e-6):
    """Mean and covariance of draws of a mixture: every entry within the error that the draws themselves have."""
    bound = 4.9 + 0.5 * np.log(mean.size)  # a normal number exceeds it with a probability of 1e-6 over all entries
    error = drawn.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < bound * error + 1e-12), "means"
    away = drawn - mean
    products = away[:, :, None] * away[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(drawn))
    assert np.all(np.abs(products.mean(axis=0) - covariance) < bound * error + 1e-12), "covariances"


def test_sparse_draws_have_the_moments_of_all_subsets(line):
    """Sum over subsets and sizes of weight times (covariance + mean mean'): no approximation. False alarms: 1e-6."""
    drawn = draw_coefficients(with_weights(line, "any, origin zero"), NUM, (0,)).coefficients[:, :4, 0]
    weights, means, covariances = enumerated(line, 1 / 3, 0.2)
    mean = weights @ means
    spread = np.einsum("m,mij->ij", weights, covariances + (means - mean)[:, :, None] * (means - mean)[:, None, :])
    check_moments(drawn, mean, spread)
    best = int(np.argmax(weights))
    with pytest.raises(AssertionError, match="covariances"):  # the best subset alone would be too sure
        check_moments(drawn - mean + means[best], means[best], covariances[best])


def test_sparse_draws_leave_out_terms_as_often_as_evidence_says(line):
    drawn = draw_coefficients(with_weights(line, "any, origin zero"), NUM, (1,)).coefficients[:, :4, 0]
    weights, _, _ = enumerated(line, 1 / 3, 0.2)
    cubic = np.array([kept[3] for _, kept in product(range(3), product((False, True), repeat=4))])
    there = np.count_nonzero(drawn[:, 3])
    chance = float(weights @ cubic)
    assert 0.02 < chance < 0.98
    check_frequencies([there, NUM - there], [chance, 1 - chance])
    with pytest.raises(AssertionError, match="frequencies"):
        check_frequencies([there, NUM - there], [chance * 0.8, 1 - chance * 0.8])


def test_where_subsets_are_too_many_a_chain_finds_them_as_often(line):
    """Ten terms, all subsets visited, or four and a chain through the rest: the same frequencies and spread.

    Both are counted: a chi-square of p = 1e-12 is 5e-7 for their difference.
    """
    rng = np.random.default_rng(0)
    features = monomials.evaluate(rng.standard_normal((60, 2)), 3)
    y = features[:, [1, 6]] @ [0.3, -0.4] + 0.5 * rng.standard_normal(60)
    options = features.T @ features / 0.25, features.T @ y / 0.25, np.ones(10), np.full(10, 0.5), np.full(10, 0.5)
    place, num = (*monomials.shift_terms(2, 3), np.array([0.1, -0.2])), 20_000
    normals = rng.standard_normal((num, 10))
    every, visited = draw_kernels.draw_sparse(*options, 10, *place, rng.random((num, 1)), normals)
    chain, local = draw_kernels.draw_sparse(*options, 4, *place, rng.random((num, 61)), normals)
    none, alone = draw_kernels.draw_sparse(*options, 4, *place, rng.random((num, 1)), normals)
    there, exact, dropped = (np.count_nonzero(part, axis=0) for part in (local, visited, alone))
    for k in range(10):
        check_frequencies([there[k] + 0.5, num - there[k] + 0.5], [exact[k] + 0.5, num - exact[k] + 0.5], 1e-12)
    np.testing.assert_allclose((chain @ features.T).std(axis=0), (every @ features.T).std(axis=0), rtol=0.06)
    assert (exact > 0).all()
    assert (dropped == 0).any()  # without the chain some terms would never be there
    assert np.isfinite(none).all()


def test_the_mean_of_draws_around_an_unknown_origin_is_the_estimate(line):
    """An average over places, sizes and subsets; false alarms 1e-6."""
    one = with_weights(line, "any, origin unknown")
    drawn = draw_coefficients(one, NUM, (2,)).coefficients[:, :, 0]
    error = drawn.std(axis=0) / np.sqrt(NUM)
    assert np.all(np.abs(drawn.mean(axis=0) - one.mean[:, 0]) < 5.3 * error + 1e-12)


def test_smooth_draws_have_the_normal_posterior_of_polynomial_and_process(line):
    """Prior b ~ N(0, diag(w²) + s² K) on the basis; posterior (A + P)⁻¹, mixed over sizes. False alarms: 1e-6.

    The kernel K is used whole here; the factor of the draws leaves out at most 1e-4 of its variance.
    """
    hypothesis = "smooth 0.7, mean linear"
    one = with_weights(line, hypothesis)
    basis, data = one.basis, one.kept.data
    drawn = draw_coefficients(one, NUM, (3,)).coefficients[:, :, 0]
    nodes = basis.num_terms + np.arange(basis.num_nodes)
    used = np.concatenate([[0, 1], nodes])
    kernel = np.exp(-0.5 * (basis.grid.places - basis.grid.places.T) ** 2 / 0.7**2)
    logs, means, covariances = [], [], []
    for size in SIZES:
        prior = np.zeros((len(used), len(used)))
        prior[:2, :2] = WIDTH**2 * np.eye(2)
        prior[2:, 2:] = (size * WIDTH) ** 2 * (kernel + 1e-9 * np.eye(len(nodes)))
        a, r = data.matrix[0][np.ix_(used, used)], data.right[0][used]
        covariance = np.linalg.solve(np.eye(len(used)) + prior @ a, prior)
        means.append(covariance @ r)
        covariances.append(covariance)
        logs.append(0.5 * r @ means[-1] - 0.5 * np.linalg.slogdet(np.eye(len(used)) + prior @ a)[1])
    weights, means = np.exp(logs - logsumexp(logs)), np.array(means)
    mean = weights @ means
    spread = np.einsum("m,mij->ij", weights, covariances + (means - mean)[:, :, None] * (means - mean)[:, None, :])
    x = np.linspace(-1.5, 1.5, 7)[:, None]
    features = basis.features(x)[:, used]
    values, exact = drawn[:, used] @ features.T, features @ mean
    deviation = np.sqrt(np.diag(features @ spread @ features.T))
    assert np.abs(values.mean(axis=0) - exact).max() < 0.1 * deviation.min()
    np.testing.assert_allclose(values.std(axis=0), deviation, rtol=0.08)  # five standard errors of 4000 draws: 0.06
    only = np.sqrt(np.diag(features @ covariances[int(np.argmax(weights))] @ features.T))
    assert np.abs(values.std(axis=0) / (0.8 * only) - 1).max() > 0.08  # a spread that is a fifth too small would show


def test_hypotheses_are_drawn_by_their_weights_and_components_on_their_own():
    found = weighed_on(lambda x: np.stack([-0.3 * x[:, 0], 0.5 * np.sin(2 * x[:, 1])], axis=1), dim=2, num=80)
    drawn = draw_coefficients(found, NUM, (4,))
    features = found.basis.features(np.random.default_rng(1).standard_normal((9, 2)))
    for c in range(2):
        weights = found.weights[:, c]
        weights = weights[:-1] + weights[-1] * (np.arange(len(weights) - 1) == 5)  # "any" around an unknown origin
        likely = weights > 0.01
        counts = np.bincount(drawn.hypotheses[:, c], minlength=len(weights))
        check_frequencies(
            [*counts[likely], counts[~likely].sum() + 1e-9], [*weights[likely], weights[~likely].sum() + 1e-12]
        )
        # Given all hypotheses places are weighed by all components, the mean by each with averages of the others: the
        # same for one component, and the same here to a small part of the spread.
        values = drawn.coefficients[:, :, c] @ features.T
        away = values.mean(axis=0) - features @ (weights @ found.coefficients[:-1, c])
        assert np.all(np.abs(away) < 6 * values.std(axis=0) / np.sqrt(NUM) + 0.05 * values.std(axis=0))
    with pytest.raises(AssertionError, match="frequencies"):
        check_frequencies(counts[likely], np.roll(weights[likely], 1))


def test_where_no_drift_was_found_draws_are_what_does_not_stand_out(line):
    """ "none" as the only hypothesis: draws of a polynomial, not a drift that is zero without doubt."""
    drawn = draw_coefficients(with_weights(line, "none"), 50, (11,))
    other = draw_coefficients(with_weights(line, "any, origin unknown"), 50, (11,))
    np.testing.assert_allclose(drawn.coefficients, other.coefficients)
    assert (np.abs(drawn.coefficients).sum(axis=(1, 2)) > 0).all()


def test_a_draw_depends_on_the_seed_and_its_number_alone(line):
    few, many = (draw_coefficients(line, num, (5,)) for num in (3, 40))
    np.testing.assert_allclose(few.coefficients, many.coefficients[:3], rtol=1e-9)  # products round differently
    other = draw_coefficients(line, 3, (6,))
    assert np.abs(few.coefficients - other.coefficients).max() > 1e-3


def test_constant_rates_have_the_normal_law_of_a_variance():
    """n values of a variance g in closed form: information n / 2 g², mean g; the draws are those numbers."""
    num, g = 400, 0.7
    basis = Basis(1, 2, None)
    x = np.random.default_rng(0).standard_normal((num, 1))
    features = basis.features(x)
    matrix = (features.T @ features / (2 * g**2))[None]
    data = Information(matrix, (matrix[0] @ np.array([g, 0.0, 0.0]))[None])
    found = weigh_rate(data, basis, np.array([g]), Origin(np.zeros(1)))
    weights = np.zeros_like(found.weights)
    weights[3] = 1.0  # "constant, origin zero"
    one = replace(found, weights=weights)
    drawn = draw_coefficients(one, NUM, (7,)).coefficients
    assert not drawn[:, 1:].any()
    precision = num / (2 * g**2) + 1 / g**2
    present = drawn[drawn[:, 0, 0] != 0, 0, 0]
    check_mean(present, num / (2 * g) / precision, 1 / precision)
    check_variance(present, 1 / precision)
    with pytest.raises(AssertionError, match="variance"):
        check_variance(present, 2 / precision)


def test_beyond_the_nodes_smooth_functions_spread_to_the_size_of_their_process(line):
    """One length away from the last node the spread is what the process may do, and inside nothing is added."""
    one = with_weights(line, "smooth 0.42, mean linear")
    drawn = draw_coefficients(one, 4000, (8,))
    field = FieldDraws.make(one.basis, drawn, (9,))
    inside = np.linspace(-1.2, 1.2, 5)[:, None]
    plain = np.einsum("qk,nkd->nqd", one.basis.features(inside), drawn.coefficients)
    np.testing.assert_allclose(field.at(inside), plain, atol=1e-12)
    edge = one.basis.grid.places.max()
    far = np.array([[edge + 0.3], [edge + 0.9], [edge + 2.5]])
    left = field.at(far)[:, :, 0] - np.einsum("qk,nkd->nqd", one.basis.features(far), drawn.coefficients)[:, :, 0]
    spread = left.std(axis=0)
    assert spread[0] < spread[1] < spread[2]
    size = np.sqrt(np.mean(drawn.size[:, 0] ** 2))
    assert spread[2] == pytest.approx(size, rel=0.06)  # 4000 draws of a process: five standard errors
    np.testing.assert_allclose(field.at_own(np.tile(far, (4000, 1, 1))), field.at(far), atol=1e-9)


def test_equations_of_an_ensemble_are_positive_keep_their_numbers_and_know_the_noise():
    sde = fit(as_observations(ou_data(600, 0, noise=0.2)))
    drawn = sde.draws(50, seed=3)
    x = np.linspace(-4, 4, 41)[:, None]
    drift, diffusion = drawn.fields(x)
    assert drift.shape == diffusion.shape == (50, 41, 1)
    assert (diffusion > 0).all()
    for i in (0, 7, -1):
        np.testing.assert_allclose(drawn[i].drift(x), drift[i], atol=1e-12)
        np.testing.assert_allclose(drawn[i].diffusion(x), diffusion[i], atol=1e-12)
    np.testing.assert_allclose(sde.draws(5, seed=3).fields(x)[0], drift[:5], rtol=1e-9)
    noise = drawn.noise_std[:, 0]
    error = sde.inference.noise_error[0] * sde.normaliser.scale[0] ** 2 / (2 * sde.noise_std[0])
    assert abs(noise.mean() - sde.noise_std[0]) < error
    assert 0.5 < noise.std() / error < 2.0
    with pytest.raises(IndexError, match="draw 50 of 50"):
        drawn[50]
    few = fit(as_observations(ou_data(600, 0))).draws(200).noise_std  # none was found: mostly none, and never much
    assert np.mean(few == 0) > 0.5
    assert few.max() < 0.15
