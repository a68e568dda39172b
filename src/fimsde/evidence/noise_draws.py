"""Draws of the variance of the measurement noise, and what they change of the variance rate g."""

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from fimsde.evidence.infer import ODDS_OF_NOISE, Inference
from fimsde.shapes import Array, Float64

_GAP = 0.01  # normalised: the geometric mean of all gaps
_RATIOS = np.geomspace(0.03, 10.0, 51)  # of unseen noise to what a gap adds to the variance: less changes little
_LEAST = 0.1  # share of g that is left beside the largest noise; by hand: draws stay positive


def draw_noise(
    inference: Inference,
    rates: Float64[Array, "draws size dim"],
    chances: Float64[Array, "draws dim"],
) -> tuple[Float64[Array, "draws dim"], Float64[Array, "draws dim"]]:
    """Draws of v, and factors of g.

    Where noise was found, v ~ N((r_v - A_vg g) / A_vv, 1 / A_vv) given a draw of g, not below zero. Where the data do
    not tell whether there is any, v is zero or a positive normal number with the errors of v, and g, which was drawn
    beside the expected v, moves along: by -A_gv / A_gg times the difference, g being the same everywhere. Where none
    was found, there may be some that does not stand out, which was taken for motion: increments have the variance
    g h + 2 v, so that with v = ρ g h the variance rate is smaller by 1 + 2 ρ.

    Args:
        inference: What was learnt.
        rates: Draws of the coefficients of g.
        chances: Uniform numbers.
    """
    told, found, level = inference.told, inference.equation.noise, inference.rate.kept.width
    noise, factor = np.zeros(chances.shape), np.ones(chances.shape)
    for c in range(len(found)):
        if found[c] > 0 and inference.noise_probability < 1:
            noise[:, c] = _undecided(inference, c, chances[:, c])
            moved = told.matrix[c, 0, -1] / told.matrix[c, 0, 0] * (noise[:, c] - found[c])
            factor[:, c] = np.maximum(1.0 - moved / level[c], _LEAST)
        elif found[c] > 0:
            matrix, right = told.matrix[c], told.right[c]
            own = matrix[-1, -1]
            mean = (right[-1] - rates[:, :, c] @ matrix[-1, :-1]) / own
            noise[:, c] = _positive(mean, own**-0.5, chances[:, c])
        elif not inference.is_coarse:
            ratio = _unseen(inference, c, chances[:, c])
            factor[:, c] = 1.0 / (1.0 + 2.0 * ratio)
            noise[:, c] = ratio * factor[:, c] * _GAP * level[c]
    return noise, factor


def _undecided(inference: Inference, c: int, chance: Float64[Array, " draws"]) -> Float64[Array, " draws"]:
    """Zero, or with the probability of noise a positive normal number."""
    there = inference.noise_probability
    mean = inference.equation.noise[c] / there  # the expected variance is this times the probability
    drawn = _positive(np.full(len(chance), mean), inference.noise_error[c], (chance - 1.0 + there) / there)
    return np.where(chance > 1.0 - there, drawn, 0.0)


def _unseen(inference: Inference, c: int, chance: Float64[Array, " draws"]) -> Float64[Array, " draws"]:
    """v / g h where no noise was found: zero, or any size.

    The log likelihood is m t - t² / 2 with t = log(1 + 2 ρ) / 2 ε, where m is the estimate of v at v = 0 in standard
    errors and ε that error over g h: normal for small ρ, and as flat as that of increments for large ones.
    """
    level = inference.rate.kept.width
    means, errors = inference.told.noise(10.0 * level)
    error = errors[c] / (_GAP * level[c])
    if not (np.isfinite(means[c]) and error > 0):
        return np.zeros(len(chance))
    t = np.log1p(2.0 * _RATIOS) / (2.0 * error)
    logs = np.concatenate([[0.0], means[c] / errors[c] * t - 0.5 * t**2 + np.log(ODDS_OF_NOISE / len(_RATIOS))])
    cumulative = np.cumsum(np.exp(logs - logsumexp(logs)))
    return np.concatenate([[0.0], _RATIOS])[np.minimum(np.searchsorted(cumulative, chance), len(_RATIOS))]


def _positive(mean: Float64[Array, " draws"], std: float, chance: Float64[Array, " draws"]) -> Float64[Array, " draws"]:
    """Normal numbers that are not below zero."""
    below = np.minimum(ndtr(-mean / std), 1.0 - 1e-12)
    return np.maximum(mean + std * ndtri(below + (1.0 - below) * np.clip(chance, 0.0, 1.0 - 1e-12)), 0.0)
