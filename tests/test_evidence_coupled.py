"""Components that move each other: scores are gradients, and joint information is the covariance of scores."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.linalg import expm

from fimsde.bank.windows import Series
from fimsde.evidence.basis import Basis
from fimsde.evidence.filter import Equation, predict
from fimsde.evidence.information import (
    drift_information,
    innovations_after,
    joint_drift_information,
    variance_information,
)
from linear_filter import linear_equation, linear_series

# a quick rotation with noise mostly in one component: a gap of 0.3 turns it by 0.9, and mixes all noise
TURN, RATE, NOISE = np.array([[-0.4, 3.0], [-3.0, -0.4]]), np.array([0.05, 0.6]), np.array([0.02, 0.01])
NOISY = pytest.mark.parametrize("noisy", [False, True], ids=["exact", "noisy"])
FALSE_ALARM = 1e-6


def turning(noisy, lengths=(60, 30), gap=0.15, seed=0):
    data = linear_series(TURN, RATE, noisy * NOISE, lengths=lengths, irregular=True, gap=gap, seed=seed)
    return data, linear_equation(TURN, RATE, noisy * NOISE)


def held_innovations(data, found, matrix, constant):
    """Innovations of dx = (constant + matrix x) dt + ..., gains those of `found`."""
    rows, dim = [], len(matrix)
    block = np.zeros((dim + 1, dim + 1))
    block[:dim, :dim], block[:dim, dim] = matrix, constant
    for a, b in zip(data.path_starts[:-1], data.path_starts[1:], strict=True):
        state = data.y[a]
        for i in range(a, b - 1):
            whole = expm(block * data.dtau[i])
            mean = whole[:dim, :dim] @ state + whole[:dim, dim]
            error = data.y[i + 1] - mean
            state = mean + found.gain[len(rows)] @ error
            rows.append(error)
    return np.array(rows)


def held_likelihood(data, found, matrix, constant):
    """-sum ν' S⁻¹ ν / 2, covariances those of `found`."""
    white = np.einsum("tij,tj->ti", found.whiten, held_innovations(data, found, matrix, constant))
    return -0.5 * np.sum(white**2)


@NOISY
def test_the_score_of_the_drift_is_the_gradient_with_gains_held(noisy):
    """Exact flows and differences of 1e-5; Simpson's rule over 0.9 radians misses a share of 1e-3."""
    data, eq = turning(noisy)
    found = predict(data, eq)
    single = drift_information(found, eq)
    score = single.right - np.einsum("cij,jc->ci", single.matrix, eq.drift)
    matrix, right = joint_drift_information(found, eq)
    joint = (right - matrix @ eq.drift.T.ravel()).reshape(score.shape)
    size = np.sqrt(np.diag(matrix)).reshape(score.shape)  # standard deviations of scores
    step = 1e-5
    for c in range(2):
        for k in range(3):
            ends = []
            for sign in (1, -1):
                pull, constant = TURN.copy(), np.zeros(2)
                if k == 0:
                    constant[c] += sign * step
                else:
                    pull[c, k - 1] += sign * step
                ends.append(held_likelihood(data, found, pull, constant))
            exact = (ends[0] - ends[1]) / (2 * step)
            assert abs(score[c, k] - exact) < 0.03 * size[c, k]
            assert joint[c, k] == pytest.approx(score[c, k], rel=1e-9, abs=1e-9 * size[c, k])


@NOISY
def test_the_information_of_a_component_is_its_block_of_the_joint_one(noisy):
    data, eq = turning(noisy)
    found = predict(data, eq)
    single = drift_information(found, eq).matrix
    joint, _ = joint_drift_information(found, eq)
    for c in range(2):
        part = slice(3 * c, 3 * c + 3)
        np.testing.assert_allclose(joint[part, part], single[c], rtol=1e-9)
    shared = joint[:3, 3:] / np.sqrt(np.outer(np.diag(joint)[:3], np.diag(joint)[3:]))
    assert np.abs(shared).max() > 0.1  # components have something in common here


@NOISY
def test_innovations_after_a_change_of_the_drift_are_those_of_the_changed_equation(noisy):
    """To first order, and with the gains held; Simpson's rule over 0.9 radians misses a share of 1e-3."""
    data, eq = turning(noisy)
    change = 1e-5 * np.random.default_rng(0).standard_normal(eq.drift.shape)
    found = predict(data, eq)
    after = innovations_after(found, eq, eq.drift + change)
    drift = eq.drift + change
    moved = held_innovations(data, found, drift[1:].T, drift[0])
    before = held_innovations(data, found, TURN, np.zeros(2))
    assert np.abs((after - found.innovation) - (moved - before)).max() < 0.01 * np.abs(moved - before).max()


@NOISY
def test_the_score_of_variances_is_the_gradient_of_the_likelihood(noisy):
    """Central differences of the filter's own likelihood by g and by v, gains, covariances and all."""
    data, eq = turning(noisy, gap=0.04)
    found = predict(data, eq)
    told = variance_information(found, eq, found.innovation)
    score = told.right - np.einsum("cij,jc->ci", told.matrix, np.vstack([eq.rate, eq.noise]))
    for c in range(2):
        for k, name in enumerate(("rate", "noise") if noisy else ("rate",)):
            ends, step = [], 1e-5 * (RATE if name == "rate" else NOISE)[c]
            for sign in (1, -1):
                value = getattr(eq, name).copy()
                value[..., c] += sign * step
                ends.append(predict(data, replace(eq, **{name: value})).likelihood)
            assert score[c, k] == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=1e-3, abs=1e-2)


def test_at_the_truth_joint_scores_have_the_joint_information_as_covariance():
    """300 data sets, exactly drawn. A false alarm in 1e-6 of runs; twice the information is refused."""
    eq = linear_equation(TURN, RATE, NOISE)
    scores, matrices = [], []
    for seed in range(300):
        data, _ = turning(True, lengths=(60,), seed=seed)
        matrix, right = joint_drift_information(predict(data, eq), eq)
        scores.append(right - matrix @ eq.drift.T.ravel())
        matrices.append(matrix)
    information = np.mean(matrices, axis=0)
    assert p_of_covariance(np.array(scores), information) > FALSE_ALARM
    assert p_of_covariance(np.array(scores), 2.0 * information) < FALSE_ALARM


def p_of_covariance(scores, information):
    """Mean square of whitened scores is one: a t-test, each direction of the information."""
    values, vectors = np.linalg.eigh(information)
    squares = (scores @ vectors) ** 2 / values
    return min(stats.ttest_1samp(squares, 1.0).pvalue) * squares.shape[1]


def test_where_g_is_below_its_floor_the_equations_are_those_of_plain_squares():
    """Without drift and noise S = h max(g, floor), and r = sum h φ ν² / 2 S²: the floor is in the weights alone."""
    rng = np.random.default_rng(0)
    y, gap = rng.uniform(-1, 1, (301, 1)), 1e-3  # so short that no step feels the bend of g
    data = Series(y, np.append(np.full(300, gap), 0.0), np.array([0, 301]))
    basis, floor = Basis(1, 1), np.array([0.3])
    eq = Equation(Basis(1, 0), np.zeros((1, 1)), basis, np.array([[0.1], [0.9]]), floor, np.zeros(1))
    found = predict(data, eq)
    told = variance_information(found, eq, found.innovation)
    features = basis.features(y[:-1])
    g = features @ eq.rate[:, 0]
    assert 0.3 < np.mean(g < floor) < 0.8
    variance = gap * np.maximum(g, floor)
    weighted = gap * features / (2 * variance**2)[:, None]
    np.testing.assert_allclose(told.matrix[0, :2, :2], weighted.T @ (gap * features), rtol=1e-6)
    np.testing.assert_allclose(told.right[0, :2], weighted.T @ found.innovation[:, 0] ** 2, rtol=1e-6)
