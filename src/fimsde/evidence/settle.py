"""From a random walk to an equation: Gauss-Newton steps on the likelihood of the filter, with polynomials.

Hypotheses are weighed by a quadratic log likelihood around an equation; here that equation is found. A cubic drift, a
quadratic g and the noise change together until the likelihood no longer grows. A step that makes it fall is halved.
"""

from dataclasses import dataclass, replace

import numpy as np

from fimsde.bank.windows import Series
from fimsde.evidence.basis import Basis
from fimsde.evidence.filter import Equation, Predictions, predict
from fimsde.evidence.information import drift_information, innovations_after, variance_information
from fimsde.evidence.start import Level
from fimsde.shapes import Array, Float64

DRIFT_DEGREE, RATE_DEGREE = 3, 2  # the families of the paper's prior: cubic drifts, quadratic g
FLOOR = 0.02  # of the mean variance rate: g is nowhere smaller, so that no region gets all the weight
_MOST_PASSES = 16
_SETTLED = 0.5  # nats that a pass must gain to be followed by another one
_MOST_HALVINGS = 4
_FALL = 5.0  # times by which the mean variance rate may fall in a pass: an equation too sure of itself loses the data
_NOISE_STEP = 3.0  # times by which the noise variance may change in a pass
_ABSENT, _PRESENT = 2.0, 4.0  # standard errors below which noise goes, and above which it comes
_WIDTH = 3.0  # prior widths of coefficients in natural sizes, as in `smooth`


@dataclass(frozen=True, eq=False)
class Settled:
    """An equation and what it predicts of the data."""

    equation: Equation
    predictions: Predictions


def random_walk(level: Level) -> Equation:
    """The equation to begin with: no drift, constant g, in polynomial bases."""
    dim = len(level.rate)
    drift_basis, rate_basis = Basis(dim, DRIFT_DEGREE), Basis(dim, RATE_DEGREE)
    rate = np.zeros((rate_basis.size, dim))
    rate[0] = level.rate
    return Equation(drift_basis, np.zeros((drift_basis.size, dim)), rate_basis, rate, FLOOR * level.rate, level.noise)


def settle(series: Series, start: Equation, speed: Float64[Array, " dim"], *, euler: bool = False) -> Settled:
    """The polynomial equation that fits best.

    Args:
        series: Normalised observations.
        start: Where to begin.
        speed: Natural size of the drift.
        euler: Whether the data are a Markov chain of Euler steps, without noise.
    """
    best = Settled(start, predict(series, start, euler=euler))
    for _ in range(_MOST_PASSES):
        before = best.predictions.likelihood
        best = advance(series, best, _improved(best, speed, euler=euler), euler=euler)
        if best.predictions.likelihood < before + _SETTLED:
            break
    return best


def advance(series: Series, settled: Settled, proposal: Equation, *, euler: bool) -> Settled:
    """Go to another equation, or only as far towards it as the likelihood does not fall; else stay."""
    for _ in range(_MOST_HALVINGS + 1):
        found = predict(series, proposal, euler=euler)
        if found.likelihood > settled.predictions.likelihood - _SETTLED:  # False if it is no number
            return Settled(proposal, found)
        proposal = _between(settled.equation, proposal)
    return settled


def _improved(settled: Settled, speed: Float64[Array, " dim"], *, euler: bool) -> Equation:
    """One Gauss-Newton step of all coefficients and the noise."""
    equation, found = settled.equation, settled.predictions
    drift = _ridge_drift(settled, speed)
    told = variance_information(found, equation, innovations_after(found, equation, drift))
    level = mean_rate(equation, found)
    noise = equation.noise if euler else next_noise(equation.noise, *told.noise(10.0 * level))
    data = told.of_rate(noise)
    prior = 1.0 / (_WIDTH * level) ** 2
    rate = np.stack(
        [np.linalg.solve(a + p * np.eye(len(a)), r) for a, r, p in zip(data.matrix, data.right, prior, strict=True)],
        axis=1,
    )
    return limited(replace(equation, drift=drift, rate=rate, noise=noise), found, level)


def limited(equation: Equation, found: Predictions, level: Float64[Array, " dim"]) -> Equation:
    """The equation, its g constant where it would fall too fast on average, and its floor at a share of the mean."""
    new = mean_rate(equation, found)
    least = level / _FALL
    rate = equation.rate.copy()
    for c in np.flatnonzero(new < least):
        rate[:, c] = 0.0
        rate[0, c] = least[c]
    return replace(equation, rate=rate, floor=FLOOR * np.maximum(new, least))


def mean_rate(equation: Equation, found: Predictions) -> Float64[Array, " dim"]:
    """Mean of g along the paths."""
    return equation.rate_basis.field(equation.rate, found.places[0]).mean(axis=0)


def next_noise(
    noise: Float64[Array, " dim"], mean: Float64[Array, " dim"], error: Float64[Array, " dim"]
) -> Float64[Array, " dim"]:
    """The noise variance after a step: gone if lost in its error, there if it stands out, else not too far away."""
    near = np.clip(mean, noise / _NOISE_STEP, noise * _NOISE_STEP)
    fading = np.where(noise < _PRESENT * error, 0.0, noise / _NOISE_STEP)
    present = np.where(noise > 0, near, np.where(mean > _PRESENT * error, mean, 0.0))
    return np.where(mean < _ABSENT * error, fading, present)


def _ridge_drift(settled: Settled, speed: Float64[Array, " dim"]) -> Float64[Array, "size dim"]:
    """(A + P)⁻¹ r with normal priors, as wide as is natural, narrower for steeper terms."""
    data = drift_information(settled.predictions, settled.equation)
    degrees = settled.equation.drift_basis.exponents.sum(axis=1)
    width = _WIDTH * speed[:, None] / _WIDTH ** np.maximum(degrees - 1, 0)
    parts = zip(data.matrix, data.right, width, strict=True)
    return np.stack([np.linalg.solve(a + np.diag(w**-2.0), r) for a, r, w in parts], axis=1)


def _between(one: Equation, other: Equation) -> Equation:
    """Halfway from an equation to another."""
    return replace(
        one,
        drift=0.5 * (one.drift + other.drift),
        rate=0.5 * (one.rate + other.rate),
        floor=0.5 * (one.floor + other.floor),
        noise=0.5 * (one.noise + other.noise),
    )
