"""The variance rate g by weighted instrumental regression of the second moments of residuals."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from fimsde.bank import monomials, regression_kernels
from fimsde.bank.drift_regression import PRIOR_WIDTH
from fimsde.bank.posterior import Posterior, positive, solve
from fimsde.bank.residuals import without_noise
from fimsde.bank.scales import BlockNoise, variance_rate
from fimsde.bank.windows import DIFFUSION_DEGREE, DRIFT_DEGREE, Chunk, Windows, held
from fimsde.shapes import Array, Float64

LEAST_ERROR = 1e-3  # relative error that a second moment has at least, also where the path is deterministic
_RIDGE = 1e-10  # of the mean diagonal: lets rounding errors pass


@dataclass(frozen=True)
class Moments:
    """Second moments of the residuals of some windows, and how to weigh them; zeros where the ends have none."""

    windows: Chunk
    moment: Float64[Array, "windows dim"]  # its mean is ∫ w g dt along the path: neighbouring hats add up to one
    weight: Float64[Array, "windows dim"]
    least: Float64[Array, "windows dim"]  # the score that it has at least


@dataclass(frozen=True)
class DiffusionRegression:
    """cross mean = right: second moments of the residuals against integrals of the features."""

    cross: Float64[Array, "dim terms2 terms2"]
    right: Float64[Array, "dim terms2"]
    mean: Float64[Array, "dim terms2"]
    moments: Callable[[], Iterator[Moments]]


def regress_diffusion(
    windows: Windows,
    rate: Float64[Array, " dim"],
    drift: Float64[Array, "dim terms"],
    g: Float64[Array, "dim terms2"] | None,
    noise: BlockNoise | None,
) -> DiffusionRegression:
    """(sum w z F') c = sum w z q, the coefficients c of g.

    q is the second moment of the residual of a window, and F the weighted integral of the features along it.
    z are the features where the window begins, as instruments: those inside it know the noise and the steps that make
    up the moment, and least squares on them would bend g.
    w is one over the variance of the moment, 1 / (T s²), with the variance s per unit of time, noise included.
    """
    dim = len(rate)
    terms = len(monomials.exponents(dim, DIFFUSION_DEGREE))
    cross, right = np.zeros((dim, terms, terms)), np.zeros((dim, terms))
    moments = held(lambda: (_moments(c, rate, drift, g, noise) for c in windows()))
    for part in moments():
        c = part.windows
        own_cross, own_right = regression_kernels.instrumental_sums(
            part.weight, c.instrument, c.integral, part.moment, terms
        )
        cross, right = cross + own_cross, right + own_right
    ridge = _RIDGE * np.trace(cross, axis1=1, axis2=2)[:, None, None] / terms * np.eye(terms)
    mean = np.linalg.solve(cross + ridge, right[..., None])[..., 0]
    return DiffusionRegression(cross, right, mean, moments)


def _moments(
    c: Chunk,
    rate: Float64[Array, " dim"],
    drift: Float64[Array, "dim terms"],
    g: Float64[Array, "dim terms2"] | None,
    noise: BlockNoise | None,
) -> Moments:
    """q = r² - 2 v of single steps, and r (r₋ + r + r₊) of longer windows, less what noise does through the drift."""
    length = c.length[:, None]
    r = c.increment - c.integral @ drift.T
    q = r * r if noise is None or noise.m == 1 else without_noise(r, c.joined)
    spread = variance_rate(c.before, rate, g)  # per unit of time
    if noise is not None:
        block_var = 2.0 * noise.var / noise.m
        q = q - _noise_through_drift(c, drift, noise.var) / noise.m - (block_var if noise.m == 1 else 0.0)
        spread = spread + block_var / length
    good = np.isfinite(q).all(axis=1)[:, None]
    return Moments(
        c,
        np.where(good, q, 0.0),
        np.where(good, 1.0 / (length * spread**2), 0.0),
        np.where(good, LEAST_ERROR / spread, 0.0),
    )


def diffusion_posterior(
    found: DiffusionRegression, rate: Float64[Array, " dim"], noise: BlockNoise | None
) -> Posterior:
    """The posterior of c given cross c = right + error of covariance sum s s' z z' + u u'.

    s = w (q - F' c) are the scores; those of windows within two steps of each other depend, and their products count.
    u is what one standard error of the noise variance does to the sums, where single steps are freed of the noise.
    The prior is ten times as wide as the mean variance rate.
    """
    terms = found.mean.shape[1]
    scatter, unsure = np.zeros_like(found.cross), np.zeros_like(found.right)
    for part in found.moments():
        c = part.windows
        score = part.weight * (part.moment - c.integral[:, :terms] @ found.mean.T)
        scatter += regression_kernels.score_sums(score, part.least, c.instrument, c.joined, terms)
        if noise is not None and noise.m == 1:
            unsure += 2.0 * noise.error[:, None] * (part.weight.T @ c.instrument[:, :terms])
    scatter = positive(scatter) + unsure[:, :, None] * unsure[:, None, :]
    prior = np.eye(terms) / (PRIOR_WIDTH * rate[:, None, None]) ** 2
    return solve(found.cross, found.right, scatter, prior)


def _noise_through_drift(
    c: Chunk, drift: Float64[Array, "dim terms"], noise_var: Float64[Array, " dim"]
) -> Float64[Array, "windows dim"]:
    """sum_j (∂f_i/∂x_j)² v_j T²: m times what the noise inside the integrated drift adds to the moments.

    T is the weighted time of the window, m gaps long. Small unless the drift is steep over a gap.
    """
    dim = len(noise_var)
    slopes = c.instrument @ np.hstack([monomials.derivative(dim, DRIFT_DEGREE, j) @ drift.T for j in range(dim)])
    return slopes**2 @ np.kron(noise_var[:, None], np.eye(dim)) * c.length[:, None] ** 2
