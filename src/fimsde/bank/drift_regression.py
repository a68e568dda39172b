"""The drift by weighted instrumental regression of the weak form."""

import numpy as np

from fimsde.bank import monomials, regression_kernels
from fimsde.bank.posterior import Posterior, solve
from fimsde.bank.scales import BlockNoise, variance_rate
from fimsde.bank.windows import DRIFT_DEGREE, Windows
from fimsde.shapes import Array, Float64

PRIOR_WIDTH = 10.0  # of coefficients, in natural units: wide, only against singular matrices


def fit_drift(
    windows: Windows,
    rate: Float64[Array, " dim"],
    speed: Float64[Array, " dim"],
    g: Float64[Array, "dim terms2"] | None,
    noise: BlockNoise | None,
) -> Posterior:
    """(sum W F') b = sum W dL + error of covariance sum W W' v T, with W = z / v: the posterior of b.

    dL is the weighted increment of a window and F the weighted integral of the features along it.
    z, the instrument, are the features where the window begins; with v they are the optimal linear instruments.
    v is the variance rate before the window, and T the weighted time; sums of W W' v T are made of moments of twice the
    degree. Neighbouring hats overlap, but summed against slowly varying instruments their noise is that of independent
    windows.
    The instrument knows the noise of the first observation, by its slope over m; so both sums are freed of the product
    of that with what the same noise does to the increment, -1/m, and to the integral, (gap / 2m) times the slopes. The
    standard error of the noise variance enters the covariance.

    Args:
        windows: The windows, walked through once.
        rate: Mean variance rate, per component.
        speed: Natural size of the drift; the prior of b is ten times as wide.
        g: Coefficients of the variance rate, if it was fitted already.
        noise: The measurement noise in the windows; None if there is none.
    """
    dim = len(rate)
    terms = len(monomials.exponents(dim, DRIFT_DEGREE))
    cross, spread = np.zeros((dim, terms, terms)), np.zeros((dim, terms, terms))
    right, sums = np.zeros((dim, terms)), np.zeros((dim, terms))
    for c in windows():
        weight = np.ones((len(c.length), 1)) if g is None else 1.0 / variance_rate(c.before, rate, g)
        moments = regression_kernels.product_sums(
            weight * c.length[:, None], c.instrument, monomials.factors(dim, DRIFT_DEGREE)
        )
        spread += moments[:, monomials.products(dim, DRIFT_DEGREE)]
        own_cross, own_right = regression_kernels.instrumental_sums(
            weight, c.instrument, c.integral, c.increment, terms
        )
        cross, right, sums = cross + own_cross, right + own_right, sums + weight.T @ c.instrument
    if g is None:  # the weight is the same everywhere
        cross, right, spread, sums = (s / rate.reshape(dim, *[1] * (s.ndim - 1)) for s in (cross, right, spread, sums))
    if noise is not None:
        slopes = [monomials.derivative(dim, DRIFT_DEGREE, j) for j in range(dim)]
        cross -= sum(0.5 * v / noise.m**3 * (a.T @ spread @ a) for v, a in zip(noise.var, slopes, strict=True))
        known = np.stack([s @ a for s, a in zip(sums, slopes, strict=True)]) / noise.m**2
        right += noise.var[:, None] * known
        spread = spread + (noise.error[:, None] * known)[:, :, None] * (noise.error[:, None] * known)[:, None, :]
    prior = np.eye(terms) / (PRIOR_WIDTH * speed[:, None, None]) ** 2
    return solve(cross, right, spread, prior)
