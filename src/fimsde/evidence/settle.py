"""From a random walk to an equation: Gauss-Newton steps on the likelihood of the filter, with polynomials.

Hypotheses are weighed by a quadratic log likelihood around an equation; here that equation is found. A cubic drift, a
quadratic g and the noise change together until the likelihood no longer grows. A step that makes it fall is halved.
"""

from dataclasses import dataclass, replace
from math import comb

import numpy as np

from fimsde.bank.windows import Series
from fimsde.evidence.basis import Basis
from fimsde.evidence.filter import Equation, Predictions, predict
from fimsde.evidence.information import (
    innovations_after,
    joint_drift_information,
    most_likely,
    variance_information,
)
from fimsde.evidence.start import Level
from fimsde.shapes import Array, Float64

_DRIFT_DEGREE, _RATE_DEGREE = 3, 2  # the families of the paper's prior: cubic drifts, quadratic g
# of all components together, by hand: bounds the time where there are many components
_MOST_COEFFICIENTS, _MOST_PRODUCTS = 400, 100_000
FLOOR = 0.02  # of the mean variance rate: g is nowhere smaller, so that no region gets all the weight
_MOST_PASSES = 16
SETTLED = 0.5  # nats that a pass must gain to be followed by another one
_MOST_HALVINGS = 4
_SLACK = 2.0  # times by which the likelihood may fall farther than a quadratic one; by hand
_FALL = 5.0  # times by which the mean variance rate may fall in a pass: an equation too sure of itself loses the data
_NOISE_STEP = 3.0  # times by which the noise variance may change in a pass
_ABSENT, _PRESENT = 2.0, 4.0  # standard errors below which noise goes, and above which it comes
_WIDTH = 3.0  # prior widths of coefficients in natural sizes, as in `smooth`


@dataclass(frozen=True, eq=False)
class Settled:
    """An equation and what it predicts of the data."""

    equation: Equation
    predictions: Predictions


def drift_degree(dim: int) -> int:
    """Of polynomial drifts: three up to five components, two up to eight, for the number of coefficients."""
    return next(n for n in range(_DRIFT_DEGREE, 0, -1) if n == 1 or dim * comb(dim + n, n) <= _MOST_COEFFICIENTS)


def rate_degree(dim: int) -> int:
    """Of polynomial g: two up to six components, then one: what a row of the filter costs, `variance_sums`."""
    entries = dim * (dim + 1) // 2
    row = dim * (entries**2 + dim**2)  # of products for each coefficient
    return next(n for n in range(_RATE_DEGREE, 0, -1) if n == 1 or row * comb(dim + n, n) <= _MOST_PRODUCTS)


def random_walk(level: Level) -> Equation:
    """The equation to begin with: no drift, constant g, in polynomial bases."""
    dim = len(level.rate)
    drift_basis, rate_basis = Basis(dim, drift_degree(dim)), Basis(dim, rate_degree(dim))
    rate = np.zeros((rate_basis.size, dim))
    rate[0] = level.rate
    return Equation(drift_basis, np.zeros((drift_basis.size, dim)), rate_basis, rate, FLOOR * level.rate, level.noise)


def settle(
    series: Series, start: Equation, speed: Float64[Array, " dim"], *, euler: bool = False, keep_noise: bool = False
) -> Settled:
    """The polynomial equation that fits best.

    Args:
        series: Normalised observations.
        start: Where to begin.
        speed: Natural size of the drift.
        euler: Whether the data are a Markov chain of Euler steps, without noise.
        keep_noise: Whether the noise stays as it is.
    """
    best = Settled(start, predict(series, start, euler=euler))
    for _ in range(_MOST_PASSES):
        before = best.predictions.likelihood
        if not np.isfinite(before):  # a drift that explodes between few data
            break
        best = advance(series, best, _improved(best, speed, keep_noise=euler or keep_noise), euler=euler)
        if best.predictions.likelihood < before + SETTLED:
            break
    return best


def advance(series: Series, settled: Settled, proposal: Equation, *, euler: bool, expected: float = 0.0) -> Settled:
    """Go to another equation, or only as far towards it as the likelihood does not fall; else stay.

    Where the way to it leads downhill, drift and variances are tried one without the other. An equation that was chosen
    for its terms is expected to make the data less likely than the best one with all terms; it may fall that far, but
    hardly farther, for then it is too far away for a quadratic log likelihood.
    """
    least = settled.predictions.likelihood + min(_SLACK * expected, 0.0) - SETTLED
    here = settled.equation
    drift_alone = replace(proposal, rate=here.rate, floor=here.floor, noise=here.noise)
    for goal in (proposal, drift_alone, replace(proposal, drift=here.drift)):
        tried = goal
        for _ in range(_MOST_HALVINGS + 1):
            found = predict(series, tried, euler=euler)
            if found.likelihood > least:  # False if it is no number
                return Settled(tried, found)
            tried = _between(here, tried)
    return settled


def _improved(settled: Settled, speed: Float64[Array, " dim"], *, keep_noise: bool) -> Equation:
    """One Gauss-Newton step of all coefficients and the noise."""
    equation, found = settled.equation, settled.predictions
    level = mean_rate(equation, found)
    drift = _ridge_drift(settled, np.maximum(speed, level))
    told = variance_information(found, equation, innovations_after(found, equation, drift))
    noise = equation.noise if keep_noise else next_noise(equation.noise, *told.noise(10.0 * level))
    data = told.given(noise) if keep_noise else told.of_rate(noise)
    prior = 1.0 / (_WIDTH * level) ** 2
    rate = most_likely(data.matrix, data.right, np.broadcast_to(prior[:, None], data.right.shape)).T
    return limited(replace(equation, drift=drift, rate=rate, noise=noise), found, level)


def limited(equation: Equation, found: Predictions, level: Float64[Array, " dim"]) -> Equation:
    """The equation, its g constant where it would fall too fast on average, and its floor at a share of the mean.

    Under noise of variance v a g below v / h N² cannot be seen in N observations h apart: what it adds to a path in all
    that time is less than the error of the mean of the observations. Nor does g fall below the share of it that a drift
    with as many terms as there are observations can explain by chance.
    """
    new = mean_rate(equation, found)
    by_chance = min(1.0, equation.drift_basis.num_terms / len(found.gaps))
    unseen = equation.noise / (np.median(found.gaps) * len(found.gaps) ** 2)
    least = np.maximum(max(1.0 / _FALL, by_chance) * level, unseen)
    rate = equation.rate.copy()
    for c in np.flatnonzero(new < least):
        rate[:, c] = 0.0
        rate[0, c] = least[c]
    return replace(equation, rate=rate, floor=FLOOR * np.maximum(new, least))


def mean_rate(equation: Equation, found: Predictions) -> Float64[Array, " dim"]:
    """Mean of g, where it is at least its floor, along the paths."""
    return np.maximum(equation.rate_basis.field(equation.rate, found.places[0]), equation.floor).mean(axis=0)


def next_noise(
    noise: Float64[Array, " dim"], mean: Float64[Array, " dim"], error: Float64[Array, " dim"]
) -> Float64[Array, " dim"]:
    """The noise variance after a step: gone if lost in its error, there if it stands out, else not too far away."""
    near = np.clip(mean, noise / _NOISE_STEP, noise * _NOISE_STEP)
    fading = np.where(noise < _PRESENT * error, 0.0, noise / _NOISE_STEP)
    present = np.where(noise > 0, near, np.where(mean > _PRESENT * error, mean, 0.0))
    return np.where(mean < _ABSENT * error, fading, present)


def _ridge_drift(settled: Settled, natural: Float64[Array, " dim"]) -> Float64[Array, "size dim"]:
    """(A + P)⁻¹ r with normal priors, so wide that data decide; all components together."""
    matrix, right = joint_drift_information(settled.predictions, settled.equation)
    prior = np.repeat((_WIDTH * natural) ** -2.0, len(settled.equation.drift))
    return most_likely(matrix, right, prior).reshape(len(natural), -1).T


def _between(one: Equation, other: Equation) -> Equation:
    """Halfway from an equation to another."""
    return replace(
        one,
        drift=0.5 * (one.drift + other.drift),
        rate=0.5 * (one.rate + other.rate),
        floor=0.5 * (one.floor + other.floor),
        noise=0.5 * (one.noise + other.noise),
    )
