"""Gaussian processes on radial functions at places spread over the data, their length and size chosen by evidence.

    h(x) = sum_k w_k phi_k(x),  w ~ N(0, a I),  phi(x) = L⁻¹ k(C, x),  L L' = k(C, C)

with the normal kernel k of some length and centres C: h has the covariance a k between centres (Nystroem). States are
in standard deviations.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular
from scipy.spatial.distance import cdist
from scipy.special import logsumexp

from fimsde.shapes import Array, Float64

LENGTHS = tuple(np.geomspace(0.15, 8.0, 9).tolist())  # standard deviations: finest structure to nearly linear
NUM_CENTRES = {1: 60, 2: 150, 3: 150}  # by dimension; by hand: a fit of 5000 observations takes about a second
_MOST_CENTRES = 150  # in more dimensions
_JITTER = 1e-8  # of the variance of the process; lets the longest lengths pass
_NUM_SIZES = 40  # in a grid over about ten decades: steps of a factor 1.8, finer than any evidence can tell
_NEWTON_STEPS = 5  # of the search for log g; the second is within a percent of the last
_STEP = 2.0  # by which log g moves in one of them at most; by hand
_LEAST_SHIFT = 1e-3  # of the level, as a factor; by hand: moments may have a negative mean


@dataclass(frozen=True)
class RadialBasis:
    """phi at any place; see the head of this module.

    Attributes:
        centres: C.
        length: Of the kernel.
        root: L.
    """

    centres: Float64[Array, "centres dim"]
    length: float
    root: Float64[Array, "centres centres"]

    def __call__(
        self, x: Float64[Array, "queries dim"], noise_var: Float64[Array, " dim"] | None = None
    ) -> Float64[Array, "queries centres"]:
        """phi(x); with `noise_var`, functions of noisy x whose expectation is phi at the true state.

        A normal kernel of squared length l² - v, times (l² / (l² - v))^(1/2), has the expectation of one of length l.
        """
        square = np.full(x.shape[1], self.length**2)
        narrow = square if noise_var is None else np.maximum(square - noise_var, 0.5 * square)
        kernel = np.exp(-0.5 * cdist(x / np.sqrt(narrow), self.centres / np.sqrt(narrow), "sqeuclidean"))
        return solve_triangular(self.root, np.sqrt(np.prod(square / narrow)) * kernel.T, lower=True).T


def radial_basis(centres: Float64[Array, "centres dim"], length: float) -> RadialBasis:
    """The basis of a length."""
    kernel = np.exp(-0.5 * cdist(centres, centres, "sqeuclidean") / length**2)
    return RadialBasis(centres, length, cholesky(kernel + _JITTER * np.eye(len(centres)), lower=True))


def spread_out(y: Float64[Array, "n dim"]) -> Float64[Array, "centres dim"]:
    """Observed states, each the one that is farthest from all before it; the first is the one nearest to the mean."""
    num = min(NUM_CENTRES.get(y.shape[1], _MOST_CENTRES), len(y))
    chosen = [int(np.argmin(((y - y.mean(axis=0)) ** 2).sum(axis=1)))]
    away = ((y - y[chosen[0]]) ** 2).sum(axis=1)
    while len(chosen) < num and away.max() > 0:
        chosen.append(int(np.argmax(away)))
        away = np.minimum(away, ((y - y[chosen[-1]]) ** 2).sum(axis=1))
    return y[chosen]


def sizes(least: float, most: float) -> Float64[Array, " sizes"]:
    """No process at all, and a grid of variances around the range between hardly visible and larger than the noise."""
    return np.append(0.0, np.geomspace(0.1 * least, 10.0 * most, _NUM_SIZES))


@dataclass(frozen=True)
class Weights:
    """Posterior mean of w at the best size, and the gain in log evidence over a = 0, all other sizes alike likely."""

    mean: Float64[Array, " centres"]
    gain: float


def posterior(
    gram: Float64[Array, "centres centres"], right: Float64[Array, " centres"], grid: Float64[Array, " sizes"]
) -> Weights:
    """(A + I / a)⁻¹ b at the size a of the largest evidence, for the log likelihood b w - w A w / 2.

    log evidence(a) - log evidence(0) = sum_k [a c_k² / (1 + a s_k) - log(1 + a s_k)] / 2, with the eigenvalues s of A
    and b in the basis of its eigenvectors, c.
    """
    values, vectors = np.linalg.eigh(gram)
    values, turned = np.maximum(values, 0.0), vectors.T @ right
    scaled = 1.0 + grid[:, None] * values  # (sizes, centres)
    gains = 0.5 * (grid[:, None] * turned**2 / scaled - np.log(scaled)).sum(axis=1)
    best = int(np.argmax(gains))
    gain = float(logsumexp(gains[1:]) - np.log(len(grid) - 1))
    return Weights(vectors @ (grid[best] * turned / scaled[best]), gain)


@dataclass(frozen=True)
class LogRate:
    """g(x) = exp(level + phi(x) w): a variance rate that is positive everywhere and constant far from the data."""

    level: float
    basis: RadialBasis
    weights: Float64[Array, " centres"]

    def __call__(self, x: Float64[Array, "queries dim"]) -> Float64[Array, " queries"]:
        return np.exp(self.level + self.basis(x) @ self.weights)


def log_rate(
    features: list[tuple[RadialBasis, Float64[Array, "n centres"]]],
    moment: Float64[Array, " n"],
    time: Float64[Array, " n"],
    floor: float,
) -> LogRate:
    """The process log g from moments q with mean g T: Newton's method on their quasi-likelihood, length by evidence.

    Near a current log g = h, the working response h + q / (T e^h) - 1 has mean log g. Its variance is the spread of
    q / (T g) at the best constant g, the covariance with two neighbours on each side included.
    The length comes from the evidence at the first step, where h is constant; g is constant if that is the likelier.

    Args:
        features: Bases, and their functions at the places of the moments.
        moment: q; single ones may be negative.
        time: T.
        floor: A rate below which a constant g is not believed.
    """
    level = float(np.log(max(moment.sum() / time.sum(), floor)))
    ratio = moment / (time * np.exp(level))
    excess = ratio - 1.0
    lags = sum(float(np.mean(excess[k:] * excess[:-k])) for k in (1, 2))
    variance = max(float(np.mean(excess**2)) + 2.0 * lags, 0.1)
    grid = sizes(variance / len(ratio), 10.0)
    grams = [(basis, phi, phi.T @ phi / variance) for basis, phi in features]
    first = [posterior(gram, phi.T @ excess / variance, grid) for _, phi, gram in grams]
    best = int(np.argmax([weights.gain for weights in first]))
    basis, phi, gram = grams[best]
    w = first[best].mean
    if logsumexp([weights.gain for weights in first]) <= np.log(len(first)):  # a constant is the likelier
        return LogRate(level, basis, np.zeros_like(w))
    shift = 0.0  # of the level
    for _ in range(_NEWTON_STEPS):
        shift = float(np.log(max(np.mean(ratio * np.exp(-phi @ w)), _LEAST_SHIFT)))
        here = phi @ w + shift
        response = here - shift + np.clip(ratio * np.exp(-here) - 1.0, -_STEP, _STEP)
        w = posterior(gram, phi.T @ response / variance, grid).mean
    shift = float(np.log(max(np.mean(ratio * np.exp(-phi @ w)), _LEAST_SHIFT)))
    return LogRate(level + shift, basis, w)
