"""Linear equations dx = A x dt + sqrt(g) dW seen through noise: their exact Kalman filter, and data drawn from them."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import expm
from scipy.stats import multivariate_normal

from fimsde.bank.windows import Series
from fimsde.evidence.basis import Basis
from fimsde.evidence.filter import Equation


def transition(pull, rate, gap):
    """e^{A h} and ∫ e^{A s} G e^{A' s} ds over a gap, by Van Loan's exponential of a block matrix."""
    dim = len(pull)
    block = expm(gap * np.block([[-pull, np.diag(rate)], [np.zeros((dim, dim)), pull.T]]))
    whole = block[dim:, dim:].T
    return whole, whole @ block[:dim, dim:]


@dataclass
class Kalman:
    """Innovations, their variances, diagonals of gains and log densities, one row for every gap."""

    innovation: np.ndarray
    variance: np.ndarray
    gain: np.ndarray
    loglik: np.ndarray


def kalman(series, pull, rate, noise):
    """The exact filter; each path begins with N(y0, v)."""
    rows = []
    for a, b in zip(series.path_starts[:-1], series.path_starts[1:], strict=True):
        state, spread = series.y[a], np.diag(noise)
        for i in range(a, b - 1):
            whole, cov = transition(pull, rate, series.dtau[i])
            mean, predicted = whole @ state, whole @ spread @ whole.T + cov
            total, error = predicted + np.diag(noise), series.y[i + 1] - mean
            gain = predicted @ np.linalg.inv(total)
            rows.append((error, np.diag(total), np.diag(gain), multivariate_normal(cov=total).logpdf(error)))
            state, spread = mean + gain @ error, predicted - gain @ predicted
    return Kalman(*(np.array(column) for column in zip(*rows, strict=True)))


def linear_equation(pull, rate, noise, drift_degree=1):
    """The same equation in the bases of the package."""
    dim = len(pull)
    basis = Basis(dim, drift_degree)
    drift = np.zeros((basis.size, dim))
    drift[1 : dim + 1] = pull.T
    return Equation(basis, drift, Basis(dim, 0), rate[None].copy(), np.full(dim, 1e-12), np.asarray(noise, float))


def linear_series(pull, rate, noise, *, lengths=(100,), irregular=False, gap=0.02, seed=0, first=0.5):
    """Exact draws; every path begins at the same observation, its first state is this less its noise."""
    rng = np.random.default_rng(seed)
    dim, values, gaps, known = len(pull), [], [], {}
    for length in lengths:
        x = np.full(dim, first) + np.sqrt(noise) * rng.standard_normal(dim)
        values.append(np.full(dim, first))
        for _ in range(length - 1):
            step = gap * (rng.uniform(0.2, 2.0) if irregular else 1.0)
            if step not in known:
                whole, cov = transition(pull, rate, step)
                known[step] = whole, np.linalg.cholesky(cov)
            whole, root = known[step]
            x = whole @ x + root @ rng.standard_normal(dim)
            values.append(x + np.sqrt(noise) * rng.standard_normal(dim))
            gaps.append(step)
        gaps.append(0.0)
    return Series(np.array(values), np.array(gaps), np.cumsum([0, *lengths]))
