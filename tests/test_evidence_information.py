"""What innovations tell of coefficients: scores are gradients, information is the covariance of scores."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from fimsde.bank.windows import Series
from fimsde.evidence.basis import Basis, choose_grid
from fimsde.evidence.filter import Equation, predict
from fimsde.evidence.information import (
    Information,
    VarianceInformation,
    drift_information,
    innovations_after,
    most_likely,
    spent_parameters,
    variance_information,
)
from linear_filter import linear_equation, linear_series

PULL, RATE, NOISE = np.diag([-1.5, -0.6]), np.array([0.6, 0.3]), np.array([0.01, 0.004])
FALSE_ALARM = 1e-6


def series(dim=1, noisy=True, lengths=(40, 25), **options):
    return linear_series(PULL[:dim, :dim], RATE[:dim], noisy * NOISE[:dim], lengths=lengths, **options)


def equation(dim=1, noisy=True, drift_degree=1):
    return linear_equation(PULL[:dim, :dim], RATE[:dim], noisy * NOISE[:dim], drift_degree)


def drift_score(data, eq):
    found = drift_information(predict(data, eq), eq)
    return found.right - np.einsum("cij,jc->ci", found.matrix, eq.drift), found.matrix


def variance_score(data, eq):
    found = predict(data, eq)
    told = variance_information(found, eq, found.innovation)
    here = np.vstack([eq.rate, eq.noise])
    return told.right - np.einsum("cij,jc->ci", told.matrix, here), told.matrix


# ---- gradients -----------------------------------------------------------------------------------------------------


def affine_likelihood(data, found, constant, slope):
    """-sum ν² / 2 S of dx = (constant + slope x) dt + ..., gains and variances those of `found`: one component."""
    total, row = 0.0, 0
    for a, b in zip(data.path_starts[:-1], data.path_starts[1:], strict=True):
        state = data.y[a, 0]
        for i in range(a, b - 1):
            whole = np.exp(slope * data.dtau[i])
            mean = whole * state + constant * (whole - 1) / slope
            error = data.y[i + 1, 0] - mean
            total -= error**2 / (2 * found.variance[row, 0])
            state = mean + found.gain[row, 0, 0] * error
            row += 1
    return total


@pytest.mark.parametrize("noisy", [False, True], ids=["exact", "noisy"])
@pytest.mark.parametrize("irregular", [False, True], ids=["regular", "irregular"])
def test_the_score_of_a_linear_drift_is_the_gradient_with_gains_held(noisy, irregular):
    """Exact flows of dx = (a + b x) dt, differences of 1e-5; Simpson's rule and Runge-Kutta steps miss 1e-7."""
    data, eq = series(noisy=noisy, irregular=irregular), equation(noisy=noisy)
    found, (score, _) = predict(data, eq), drift_score(data, eq)
    step, slope = 1e-5, PULL[0, 0]
    by_constant = [affine_likelihood(data, found, sign * step, slope) for sign in (1, -1)]
    by_slope = [affine_likelihood(data, found, 0.0, slope + sign * step) for sign in (1, -1)]
    exact = [(pair[0] - pair[1]) / (2 * step) for pair in (by_constant, by_slope)]
    np.testing.assert_allclose(score[0], exact, rtol=1e-5, atol=1e-5)


def test_the_score_of_a_diagonal_system_is_that_of_its_components():
    """Up to what tables of one component leave out: a thousandth of a standard error."""
    data, eq = series(2, irregular=True), equation(2, drift_degree=3)
    both, matrix = drift_score(data, eq)
    exponents = eq.drift_basis.exponents
    for c in range(2):
        alone = Series(np.ascontiguousarray(data.y[:, c : c + 1]), data.dtau, data.path_starts)
        single = linear_equation(PULL[c : c + 1, c : c + 1], RATE[c : c + 1], NOISE[c : c + 1], 3)
        own, own_matrix = drift_score(alone, single)
        terms = [int(np.flatnonzero((exponents == p * (np.arange(2) == c)).all(axis=1))[0]) for p in range(4)]
        error = np.sqrt(np.diag(own_matrix[0]))
        np.testing.assert_allclose(both[c, terms] / error, own[0] / error, atol=1e-3)
        np.testing.assert_allclose(matrix[c][np.ix_(terms, terms)], own_matrix[0], rtol=3e-3)


def spline_equation(data, noise):
    """A linear drift in a basis with cubics and B-splines; g in one with a quadratic and B-splines."""
    drift_basis = Basis(1, 3, choose_grid(data.y, 30, 0.08))  # what a gap adds is 0.11: finer nodes are not chosen
    rate_basis = Basis(1, 2, choose_grid(data.y, 8, 0.08))
    drift, rate = np.zeros((drift_basis.size, 1)), np.zeros((rate_basis.size, 1))
    drift[1], rate[0] = PULL[0, 0], RATE[0]
    return Equation(drift_basis, drift, rate_basis, rate, np.array([1e-12]), noise)


def test_without_noise_the_score_is_the_gradient_for_every_function_of_the_basis():
    """Innovations of the filter itself, with coefficients moved; S is held. Simpson's rule misses a share of 1e-3."""
    data = series(noisy=False, lengths=(120,))
    eq = spline_equation(data, np.zeros(1))
    found, (score, matrix) = predict(data, eq), drift_score(data, eq)
    step, slopes = 1e-5, []
    for k in range(eq.drift_basis.size):
        ends = []
        for sign in (1, -1):
            drift = eq.drift.copy()
            drift[k] += sign * step
            ends.append(predict(data, replace(eq, drift=drift)).innovation)
        slopes.append((ends[1] - ends[0])[:, 0] / (2 * step))
    responses = np.array(slopes)
    weight = 1 / found.variance[:, 0]
    scale = np.sqrt(np.diag(responses * weight @ responses.T))
    np.testing.assert_allclose(score[0] / scale, responses @ (weight * found.innovation[:, 0]) / scale, atol=0.03)
    exact = responses * weight @ responses.T / np.outer(scale, scale)
    np.testing.assert_allclose(matrix[0] / np.outer(scale, scale), exact, atol=0.03)


@pytest.mark.parametrize("noisy", [False, True], ids=["exact", "noisy"])
def test_innovations_after_a_change_of_the_drift_are_those_of_the_changed_equation(noisy):
    """To first order, and with the gains held; without noise the filter's own."""
    data, eq = series(noisy=noisy), equation(noisy=noisy)
    change = 1e-4 * np.array([[1.0], [-0.5]])
    found = predict(data, eq)
    after = innovations_after(found, eq, eq.drift + change)
    moved = predict(data, replace(eq, drift=eq.drift + change)).innovation
    size = np.abs(moved - found.innovation).max()
    assert np.abs(after - moved).max() < (1e-3 if not noisy else 0.05) * size


@pytest.mark.parametrize("dim", [1, 2])
def test_the_score_of_variances_is_the_gradient_of_the_likelihood(dim):
    """Central differences of the filter's own likelihood by g and by v, gains and all."""
    data, eq = series(dim, irregular=True), equation(dim)
    score, _ = variance_score(data, eq)
    for c in range(dim):
        for k, name in enumerate(("rate", "noise")):
            ends, step = [], 1e-5 * (RATE if name == "rate" else NOISE)[c]
            for sign in (1, -1):
                value = getattr(eq, name).copy()
                value[..., c] += sign * step
                ends.append(predict(data, replace(eq, **{name: value})).likelihood)
            assert score[c, k] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-5, abs=1e-4)


def test_the_score_of_g_is_the_gradient_for_every_function_of_its_basis():
    """The filter asks g at the mean state, the sums average it over the spread, which is made small here."""
    noise = np.array([1e-5])
    data = linear_series(PULL[:1, :1], RATE[:1], noise, lengths=(150,), gap=1e-3)
    eq = spline_equation(data, noise)
    score, matrix = variance_score(data, eq)
    error = np.sqrt(matrix[0].diagonal()[eq.rate_basis.num_terms : -1].max())
    for k in range(eq.rate_basis.size):
        ends, step = [], 1e-5
        for sign in (1, -1):
            rate = eq.rate.copy()
            rate[k] += sign * step
            ends.append(predict(data, replace(eq, rate=rate)).likelihood)
        assert abs(score[0, k] - (ends[0] - ends[1]) / (2 * step)) < 0.2 * max(error, np.sqrt(matrix[0, k, k]))


@pytest.mark.parametrize("noisy", [False, True], ids=["exact", "noisy"])
def test_information_is_symmetric_and_positive(noisy):
    data = series(noisy=noisy, lengths=(150,))
    eq = spline_equation(data, noisy * NOISE[:1])
    for _, matrices in (drift_score(data, eq), variance_score(data, eq)):
        scale = np.sqrt(np.diag(matrices[0])) + 1e-300
        unit = matrices[0] / np.outer(scale, scale)
        np.testing.assert_allclose(unit, unit.T, atol=1e-12)
        assert np.linalg.eigvalsh(unit).min() > -1e-10


# ---- laws of scores ------------------------------------------------------------------------------------------------


def many_scores(score_of, eq, noisy, num=250):
    scores, matrices = zip(
        *(score_of(series(noisy=noisy, lengths=(40,), gap=0.1, seed=s), eq) for s in range(num)), strict=True
    )
    return np.array(scores)[:, 0], np.mean(matrices, axis=0)[0]


def p_of_mean(scores):
    """Hotelling's test of mean zero."""
    num, size = scores.shape
    square = num * scores.mean(axis=0) @ np.linalg.solve(np.cov(scores.T), scores.mean(axis=0))
    return stats.f.sf(square * (num - size) / (size * (num - 1)), size, num - size)


def p_of_covariance(scores, information):
    """Mean square of whitened scores is one: a t-test, each direction of the information."""
    values, vectors = np.linalg.eigh(information)
    squares = (scores @ vectors) ** 2 / values
    return min(stats.ttest_1samp(squares, 1.0).pvalue) * squares.shape[1]


@pytest.mark.parametrize(
    ("score_of", "noisy"),
    [(drift_score, False), (drift_score, True), (variance_score, True)],
    ids=["drift", "drift, noisy", "variances"],
)
def test_at_the_truth_scores_have_mean_zero_and_the_information_as_covariance(score_of, noisy):
    """250 data sets, exactly drawn. A false alarm in 1e-6 of runs; at wrong parameters the test says no."""
    right = equation(noisy=noisy, drift_degree=1)
    scores, information = many_scores(score_of, right, noisy)
    assert p_of_mean(scores) > FALSE_ALARM
    assert p_of_covariance(scores, information) > FALSE_ALARM
    wrong = replace(right, drift=right.drift + np.array([[0.0], [1.5]]), rate=1.3 * right.rate)
    scores, information = many_scores(score_of, wrong, noisy)
    assert p_of_mean(scores) < FALSE_ALARM


# ---- noise and g apart ---------------------------------------------------------------------------------------------


def test_g_alone_is_what_is_left_when_a_flat_noise_is_integrated_out():
    """Schur's complement: the block of the inverse; where there is no noise, g's own block."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((2, 6, 4))
    told = VarianceInformation(np.swapaxes(root, 1, 2) @ root, rng.standard_normal((2, 4)))
    found = told.of_rate(np.array([0.3, 0.0]))
    inverse = np.linalg.inv(told.matrix[0])
    np.testing.assert_allclose(np.linalg.inv(found.matrix[0]), inverse[:3, :3], rtol=1e-9)
    mean = np.linalg.solve(told.matrix[0], told.right[0])
    np.testing.assert_allclose(np.linalg.solve(found.matrix[0], found.right[0]), mean[:3], rtol=1e-9)
    np.testing.assert_array_equal(found.matrix[1], told.matrix[1, :3, :3])


def test_mean_and_error_of_the_noise_are_those_of_the_normal_posterior():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((1, 6, 4))
    told = VarianceInformation(np.swapaxes(root, 1, 2) @ root, rng.standard_normal((1, 4)))
    mean, error = told.noise(np.array([2.0]))
    cov = np.linalg.inv(told.matrix[0] + np.diag([0.25, 0.25, 0.25, 0.0]))
    assert mean[0] == pytest.approx((cov @ told.right[0])[-1], rel=1e-9)
    assert error[0] == pytest.approx(np.sqrt(cov[-1, -1]), rel=1e-9)


def test_parameters_that_a_fit_has_spent_are_the_trace_of_the_shrunk_information():
    """With a normal prior of precision P: tr(A (A + P)⁻¹). Of the 12 columns the data tell some and others not."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((80, 12)) * np.logspace(-2, 1, 12)
    matrix, right = x.T @ x, x.T @ rng.standard_normal(80)
    data, warmth = Information(matrix[None], right[None]), 0.999

    def log_evidence(factor):
        total = factor * matrix + np.eye(12)
        mean = factor * np.linalg.solve(total, right)
        return np.array([0.5 * factor * right @ mean - 0.5 * np.linalg.slogdet(total)[1]])

    mean = np.linalg.solve(matrix + np.eye(12), right)[:, None]
    found = spent_parameters(data, mean, log_evidence(1.0), log_evidence(warmth), warmth)
    exact = np.trace(np.linalg.solve(matrix + np.eye(12), matrix))
    assert 4.0 < exact < 11.0
    assert found[0] == pytest.approx(exact, rel=1e-2)


def test_coefficients_that_the_data_tell_nothing_of_stay_at_zero_however_much_they_tell_of_others():
    """A = 1e18 v v' loses a prior of 1 in its rounding: (A + P)⁻¹ r is r along v over 1e18, and r itself across it."""
    along, across = np.array([0.6, 0.8]), np.array([-0.8, 0.6])
    matrix = 1e18 * np.outer(along, along)
    found = most_likely(matrix, 3e18 * along + 2.0 * across, np.ones(2))
    np.testing.assert_allclose(found @ along, 3.0, rtol=1e-9)
    assert abs(found @ across) < 1e3  # rounding of r, 1e2, not of A
    assert np.isfinite(Information(matrix[None], (3e18 * along)[None]).log_evidence(np.ones((1, 2)))).all()


def test_a_ridge_is_the_solution_of_its_equations():
    rng = np.random.default_rng(0)
    root, right, precision = rng.normal(size=(2, 9, 4)), rng.normal(size=(2, 4)), rng.uniform(0.1, 3, (2, 4))
    matrix = np.swapaxes(root, 1, 2) @ root
    found = most_likely(matrix, right, precision)
    np.testing.assert_allclose(np.einsum("cij,cj->ci", matrix, found) + precision * found, right, atol=1e-12)
