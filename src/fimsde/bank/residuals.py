"""What a fit leaves over, window by window: increments that the drift does not explain, and their second moments."""

from dataclasses import dataclass

import numpy as np

from fimsde.bank import monomials
from fimsde.bank.posterior import PolynomialFit
from fimsde.bank.scales import Scales, block_lengths
from fimsde.bank.windows import DIFFUSION_DEGREE, Series, hat_windows, step_windows
from fimsde.shapes import Array, Bool, Float64


@dataclass(frozen=True)
class WindowResiduals:
    """r = dL - ∫ f dt of every window, and q, whose mean is ∫ g dt.

    Attributes:
        place: Where the window begins, free of the noise inside it.
        time: Its weighted length.
        residual: r, the increment that the drift does not explain.
        variation: q, the second moment of the residual, free of measurement noise.
        expected: What the fitted g expects of `variation`.
    """

    place: Float64[Array, "windows dim"]
    time: Float64[Array, " windows"]
    residual: Float64[Array, "windows dim"]
    variation: Float64[Array, "windows dim"]
    expected: Float64[Array, "windows dim"]


def residual_windows(series: Series, scales: Scales, fit: PolynomialFit, *, noisy: bool) -> WindowResiduals:
    """Residuals of a fit: of single steps, or of hats as long as the noise demands."""
    m = _noisy_length(scales, series) if noisy else 1
    chunks = hat_windows(series, m, scales.noise_var) if noisy else step_windows(series, coarse=scales.coarse)
    rows = []
    for c in chunks:
        r = c.increment - c.integral @ fit.drift.mean.T
        q = without_noise(r, c.joined) if noisy else r * r
        g = np.maximum(monomials.evaluate(c.centre, DIFFUSION_DEGREE) @ fit.diffusion_sq.mean.T, 0.0)
        expected = np.where(np.isfinite(q), g * c.length[:, None], 0.0)
        rows.append((c.before, c.length, r, np.where(np.isfinite(q), q, 0.0), expected))
    return WindowResiduals(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def has_noisy_windows(series: Series, scales: Scales) -> bool:
    """Whether any path is long enough for the hats that the noise demands."""
    windows = hat_windows(series, _noisy_length(scales, series), scales.noise_var)
    return any(len(c.length) > 0 for c in windows)


def _noisy_length(scales: Scales, series: Series) -> int:
    """Steps of one block that suits all components."""
    return int(np.median(block_lengths(scales, series)))


def without_noise(r: Float64[Array, "windows dim"], joined: Bool[Array, " windows"]) -> Float64[Array, "windows dim"]:
    """r_j² + r_j (r_{j-1} + r_{j+1}), whose mean is g times the length: neighbours cancel the noise in the square.

    NaN at the ends of paths, where a neighbour is missing.
    """
    q = np.full_like(r, np.nan)
    both = joined[1:-1] & joined[:-2]
    q[1:-1][both] = (r[1:-1] * (r[1:-1] + r[2:] + r[:-2]))[both]
    return q
