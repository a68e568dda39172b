"""Sparse Bayesian regression: the single-output form of multiple-response sparse Bayesian learning (Wipf, Rao 2007).

Model: target = Phi w + e with e ~ N(0, noise I) and w_i ~ N(0, gamma_i). Expectation-maximisation finds gamma and
noise; columns whose gamma vanishes are pruned for good. One thin QR of Phi makes an iteration independent of the number
of rows.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float64

_INITIAL_NOISE = 1.0  # variance; learnt from there, as in the MATLAB code of BISDE's authors
_NOISE_FLOOR = 1e-16  # in the denominators S² + noise: float64's rounding of S² = 1; a noise-free problem stays finite


@dataclass(frozen=True)
class MsblSettings:
    """How the evidence is maximised. Defaults reproduce the BISDE numbers of the FIM-SDE paper."""

    initial_gamma: float = 0.5  # prior variance of every coefficient at the start
    prune_below: float = 1e-4  # a column leaves when its prior variance falls below
    max_iterations: int = 700  # often reached: the published stock equations are not converged
    tolerance: float = 1e-8  # stop when no posterior mean moves more than this

    def __post_init__(self) -> None:
        if not self.initial_gamma > self.prune_below >= 0:
            raise ConfigError(
                f"initial_gamma is {self.initial_gamma} and prune_below {self.prune_below}; "
                f"the first must be larger and the second not negative, or every column is pruned at once."
            )
        if self.max_iterations < 1:
            raise ConfigError(f"max_iterations is {self.max_iterations}; it must be at least 1.")


DEFAULTS = MsblSettings()


@dataclass(frozen=True)
class MsblFit:
    """Posterior of the coefficients; pruned ones are exactly zero with variance zero.

    Attributes:
        mean: Posterior mean.
        variance: Posterior variance of each coefficient.
        noise: Variance of the residuals.
        iterations: Iterations done.
        converged: False if the iteration cap stopped the fit.
    """

    mean: Float64[Array, " terms"]
    variance: Float64[Array, " terms"]
    noise: float
    iterations: int
    converged: bool


def msbl(phi: Float64[Array, "n terms"], target: Float64[Array, " n"], settings: MsblSettings = DEFAULTS) -> MsblFit:
    """Regress the target on the columns of phi. No centring, no scaling, no special intercept."""
    num_rows, num_terms = phi.shape
    assert num_rows >= num_terms, "callers refuse data with fewer rows than terms"
    basis, triangle = np.linalg.qr(phi)
    projected = basis.T @ target
    unexplained = max(target @ target - projected @ projected, 0.0)  # |target|² outside the span of phi

    kept = np.arange(num_terms)
    gamma, noise = np.full(num_terms, settings.initial_gamma), _INITIAL_NOISE
    mean = variance = np.zeros(num_terms)
    iteration, converged = 0, False
    while iteration < settings.max_iterations and not converged:
        iteration += 1
        relevant = gamma > settings.prune_below
        if not relevant.all():
            kept, gamma, mean = kept[relevant], gamma[relevant], mean[relevant]
        if len(kept) == 0:
            variance, noise, converged = np.zeros(0), (unexplained + projected @ projected) / num_rows, True
            break
        previous = mean
        mean, shrinkage = _posterior(triangle[:, kept], projected, gamma, noise)
        variance = gamma * shrinkage
        residual = projected - triangle[:, kept] @ mean
        noise = (unexplained + residual @ residual) / (num_rows - len(kept) + shrinkage.sum())
        gamma = mean**2 + variance
        converged = bool(relevant.all() and np.abs(mean - previous).max() < settings.tolerance)
    return MsblFit(
        _scatter(mean, kept, num_terms), _scatter(variance, kept, num_terms), float(noise), iteration, converged
    )


def _posterior(triangle: Array, projected: Array, gamma: Array, noise: float) -> tuple[Array, Array]:
    """Posterior mean, and the posterior variance as a share of the prior variance."""
    root = np.sqrt(gamma)
    u, s, vt = np.linalg.svd(triangle * root, full_matrices=False)
    denominator = s**2 + noise + _NOISE_FLOOR
    mean = root * (vt.T @ (s / denominator * (u.T @ projected)))
    # 1 - V² S²/(S² + noise) without the cancellation; V is square because there are at least as many rows as columns.
    return mean, (vt.T**2) @ ((noise + _NOISE_FLOOR) / denominator)


def _scatter(values: Float64[Array, " kept"], kept: Array, num_terms: int) -> Float64[Array, " terms"]:
    full = np.zeros(num_terms)
    full[kept] = values
    return full
