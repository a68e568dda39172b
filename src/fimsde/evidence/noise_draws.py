"""Draws of the variance of the measurement noise, and what they change of the variance rate g."""

import numpy as np
from scipy.special import expit, log_ndtr, ndtr, ndtri

from fimsde.evidence.infer import Inference
from fimsde.shapes import Array, Float64

_GAP = 0.01  # normalised: the geometric mean of all gaps


def draw_noise(
    inference: Inference,
    rates: Float64[Array, "draws size dim"],
    chances: Float64[Array, "draws dim 2"],
) -> tuple[Float64[Array, "draws dim"], Float64[Array, "draws dim"]]:
    """Draws of v, and what to add to the constant of g.

    Where noise was found, v ~ N((r_v - A_vg g) / A_vv, 1 / A_vv) given a draw of g, not below zero. Where none was,
    there may be some that does not stand out: v = 0 or v > 0, with even odds and a half-normal prior as wide as what a
    gap adds to the variance. Such noise was taken for motion, so that g is smaller by A_gv / A_gg times v.

    Args:
        inference: What was learnt.
        rates: Draws of the coefficients of g.
        chances: Uniform numbers: whether there is noise, and how much.
    """
    told, found = inference.told, inference.equation.noise
    noise, change = np.zeros(chances.shape[:2]), np.zeros(chances.shape[:2])
    for c in range(len(found)):
        matrix, right = told.matrix[c], told.right[c]
        if found[c] > 0:
            own = matrix[-1, -1]
            mean = (right[-1] - rates[:, :, c] @ matrix[-1, :-1]) / own
            noise[:, c] = _positive(mean, own**-0.5, chances[:, c, 1])
        elif not inference.is_coarse:
            noise[:, c] = _hidden(inference, c, chances[:, c])
            change[:, c] = -noise[:, c] * matrix[0, -1] / matrix[0, 0]
    return noise, change


def _hidden(inference: Inference, c: int, chances: Float64[Array, "draws 2"]) -> Float64[Array, " draws"]:
    """Noise where none was found: zero, or what the data allow."""
    width = inference.rate.kept.width
    means, errors = inference.told.noise(10.0 * width)
    mean, error, slab = means[c], errors[c], _GAP * width[c]
    if not (np.isfinite(mean) and error > 0):
        return np.zeros(len(chances))
    precision = error**-2.0 + slab**-2.0
    std = precision**-0.5
    mean = mean * error**-2.0 / precision
    gain = np.log(2.0 * std / slab) + 0.5 * mean**2 * precision + log_ndtr(mean / std)  # log odds that there is some
    drawn = _positive(np.full(len(chances), mean), std, chances[:, 1])
    return np.where(chances[:, 0] < expit(gain), drawn, 0.0)


def _positive(mean: Float64[Array, " draws"], std: float, chance: Float64[Array, " draws"]) -> Float64[Array, " draws"]:
    """Normal numbers that are not below zero."""
    below = np.minimum(ndtr(-mean / std), 1.0 - 1e-12)
    return np.maximum(mean + std * ndtri(below + (1.0 - below) * chance), 0.0)
