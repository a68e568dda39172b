"""The level of g beside measurement noise: its likelihood with drift and noise integrated out.

Beside noise of variance v, n steps tell log g apart with the information n sqrt(q) / 8, where q = g h / v and h is a
gap (a random walk with noise, q small). That is much less than n: the parameters of a drift, few beside n, take a good
part of it away, and make g too small and too sure unless the drift is integrated out. Where it is little, the
likelihood is flat towards zero, where estimates pile up, and says only how large g may be. So it is looked at along a
ladder of levels.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.interpolate import PchipInterpolator

from fimsde.bank.windows import Series
from fimsde.evidence.basis import Basis
from fimsde.evidence.filter import Equation, Predictions, predict
from fimsde.evidence.infer import Inference
from fimsde.evidence.information import drift_information
from fimsde.evidence.settle import mean_rate
from fimsde.shapes import Array, Bool, Float64

_HIDDEN = 10.0  # information of log g below which its law is not nearly normal: a relative error of a third
_KNOWN = 300.0  # above which a dozen parameters of the drift do not matter
_RUNGS = 8  # levels that are looked at; by hand: log likelihoods are interpolated between them
_DOWN, _UP = 4.0, 6.0  # standard errors that the ladder reaches: upwards farther, where the drift has taken from g
_FINE = 400  # levels between the first and the last at which the law is kept
_LARGEST = 3.0  # times the variance of increments: no g is larger
_WIDTH = 3.0  # prior widths of the terms of a drift in natural sizes, as in `smooth`
_NONE = 1e-2  # of the least level: stands for zero


@dataclass(frozen=True, eq=False)
class Levels:
    """Law of the level of g in one component, its mean along the paths, and the noise beside it.

    Attributes:
        logs: Logarithms of levels, evenly spaced.
        cumulative: Probability of a smaller level, given that there is any.
        noise: Variance of the noise that fits best beside each level.
        features: Mean of the functions of the basis along the paths: times coefficients, these are the level.
        is_hidden: Whether nothing else is known of g than its level.
        none: Probability that g is zero, or so small that it cannot be told from zero.
    """

    logs: Float64[Array, " levels"]
    cumulative: Float64[Array, " levels"]
    noise: Float64[Array, " levels"]
    features: Float64[Array, " size"]
    is_hidden: bool = True
    none: float = 0.0

    @property
    def median(self) -> float:
        """The level in the middle."""
        return float(np.exp(np.interp(0.5, self.cumulative, self.logs)))

    @property
    def least(self) -> float:
        """The smallest level: of hidden ones, what is smaller cannot be told from zero."""
        return float(np.exp(self.logs[0]))

    def noise_beside(self, level: Float64[Array, " some"]) -> Float64[Array, " some"]:
        """The noise variance that fits best beside levels."""
        return np.interp(np.log(level), self.logs, self.noise)

    def draw(self, chance: Float64[Array, " draws"], spread: float) -> Float64[Array, " draws"]:
        """Levels for uniform numbers, their logarithms spread around the median by a factor; small ones for none."""
        middle = np.log(self.median)
        there = (chance - self.none) / max(1.0 - self.none, 1e-9)
        found = np.exp(middle + spread * (np.interp(there, self.cumulative, self.logs) - middle))
        return np.where(there > 0, found, _NONE * self.least)


def rate_levels(series: Series, inference: Inference, found: Predictions) -> tuple[Levels | None, ...]:
    """The law of the level of g, for every component with noise beside which it is not well known; None for others.

    Noise that may not be there hides nothing: what is then not known is whether it is there.

    p(level | data) ∝ p(data | level) level^(1/4), with the best noise for every level and the drift integrated out. The
    prior is Jeffreys's for a random walk with noise, whose information of log g grows as the root of g.

    Args:
        series: Normalised observations.
        inference: What was learnt of them.
        found: Predictions of some of them.
    """
    equation = inference.equation
    dim = len(equation.noise)
    if inference.is_coarse or inference.noise_probability < 1 or not (equation.noise > 0).any():
        return (None,) * dim
    gap = series.median_gap
    level = np.maximum(mean_rate(equation, found), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = gap * level / equation.noise  # of what a gap adds to the noise
        information = inference.num_steps * ratio**0.5 / 8.0
    asked = (equation.noise > 0) & (information < _KNOWN)
    if not asked.any():
        return (None,) * dim
    hidden = asked & (information < _HIDDEN)
    rungs = np.stack(
        [_rungs(series, gap, c, level, information, equation.noise, hidden=bool(hidden[c])) for c in range(dim)], axis=1
    )
    width = _WIDTH * np.maximum(inference.speed, level)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        scores = [_score(series, _at_levels(equation, level, rung, asked, hidden), width) for rung in rungs]
    likelihood, factor = (np.stack(part) for part in zip(*scores, strict=True))  # (rungs, dim) each
    if not (np.isfinite(likelihood).all() and (factor > 0).all()):  # too few data to tell any level from another
        return (None,) * dim
    features = equation.rate_basis.features(found.places[0]).mean(axis=0)
    return tuple(
        _law(rungs[:, c], likelihood[:, c], factor[:, c], equation.noise[c], features, is_hidden=bool(hidden[c]))
        if asked[c]
        else None
        for c in range(dim)
    )


def with_levels(equation: Equation, levels: Sequence[Levels | None], found: Predictions) -> Equation:
    """The equation with g at the middle of its law, and the noise beside it; constant where g is hidden."""
    rate, floor, noise = equation.rate.copy(), equation.floor.copy(), equation.noise.copy()
    mean = mean_rate(equation, found)
    for c, law in enumerate(levels):
        if law is None:
            continue
        noise[c] = law.noise_beside(np.array([law.median]))[0]
        if law.is_hidden:
            rate[:, c] = 0.0
            rate[0, c], floor[c] = law.median, law.least
        else:
            rate[:, c], floor[c] = rate[:, c] * law.median / mean[c], floor[c] * law.median / mean[c]
    return replace(equation, rate=rate, floor=floor, noise=noise)


def _rungs(
    series: Series,
    gap: float,
    c: int,
    level: Float64[Array, " dim"],
    information: Float64[Array, " dim"],
    noise: Float64[Array, " dim"],
    *,
    hidden: bool,
) -> Float64[Array, " rungs"]:
    """Levels to look at: around the estimate, or all that are possible where it is hidden."""
    if not hidden:
        error = max(information[c], 1.0) ** -0.5
        return max(level[c], 1e-300) * np.exp(error * np.linspace(-_DOWN, _UP, _RUNGS))
    least = noise[c] / gap * (8.0 / len(series.y)) ** 2  # of information one
    return np.geomspace(least, max(_LARGEST * _mean_square(series, c) / gap, 100.0 * least), _RUNGS)


def _law(
    rungs: Float64[Array, " rungs"],
    likelihood: Float64[Array, " rungs"],
    factor: Float64[Array, " rungs"],
    noise: float,
    features: Float64[Array, " size"],
    *,
    is_hidden: bool,
) -> Levels | None:
    """The law of the level; None where the best noise makes one level of all."""
    keys = np.log(rungs * factor)
    keys = np.maximum.accumulate(keys + 1e-9 * np.arange(len(keys)))  # factors fall slower than levels grow
    keep = np.concatenate([[True], np.diff(keys) > 1e-9])
    if np.count_nonzero(keep) < 2:
        return None
    fine = np.linspace(keys[0], keys[-1], _FINE)
    logs = PchipInterpolator(keys[keep], likelihood[keep])(fine)
    prior = np.exp(0.25 * (fine - fine[-1]))
    mass = prior / prior.sum() * np.exp(logs - logs.max())
    total = np.cumsum(mass)
    beside = np.interp(fine, keys[keep], (noise * factor)[keep])
    none = 0.5 * float(np.exp(logs[0] - logs.max())) if is_hidden else 0.0  # half, if the least level is the best
    return Levels(fine, (total - 0.5 * mass) / total[-1], beside, features, is_hidden, none)


def _mean_square(series: Series, c: int) -> float:
    """Of the increments of a component."""
    inside = np.ones(len(series.y) - 1, bool)
    inside[series.path_starts[1:-1] - 1] = False
    return float(np.mean(np.diff(series.y[:, c])[inside] ** 2))


def _at_levels(
    equation: Equation,
    level: Float64[Array, " dim"],
    rung: Float64[Array, " dim"],
    asked: Bool[Array, " dim"],
    hidden: Bool[Array, " dim"],
) -> Equation:
    """The same equation with g at other levels, the same everywhere where it is hidden."""
    rate, floor = equation.rate.copy(), equation.floor.copy()
    for c in np.flatnonzero(asked):
        if hidden[c]:
            rate[:, c] = 0.0
            rate[0, c], floor[c] = rung[c], 0.5 * rung[c]
        else:
            rate[:, c], floor[c] = rate[:, c] * rung[c] / level[c], floor[c] * rung[c] / level[c]
    return replace(equation, rate=rate, floor=floor)


def _score(
    series: Series, equation: Equation, width: Float64[Array, " dim"]
) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
    """Log likelihood of every component by itself, the drift integrated out, at the best factor of g and v; and that.

    Scaled together, g and v scale all variances S, so that their common factor is known in closed form: the mean of
    ν² / S. The drift deviates by a polynomial e ~ N(0, w²) of all terms, whichever the hypotheses have chosen: few
    terms that were chosen among many fit too well. The log likelihood r' e - e' A e / 2 integrates to
    r' (A + w⁻²)⁻¹ r / 2 - log det(1 + w² A) / 2.
    """
    found = predict(series, equation)
    polynomial = Basis(equation.drift_basis.dim, equation.drift_basis.degree)
    none = np.zeros((polynomial.size, polynomial.dim))
    told = drift_information(found, replace(equation, drift_basis=polynomial, drift=none))
    squares, logs = (found.innovation**2 / found.variance).sum(axis=0), np.log(found.variance).sum(axis=0)
    num, one = len(found.gaps), np.eye(polynomial.size)
    likelihood, factor = np.empty(len(width)), np.empty(len(width))
    for c, own in enumerate(width):
        inner, score = own**2 * told.matrix[c], own * told.right[c]
        explained = float(score @ np.linalg.solve(one + inner, score))
        factor[c] = max(squares[c] - explained, 1e-3 * squares[c]) / num
        penalty = 0.5 * float(np.linalg.slogdet(one + inner / factor[c])[1])
        likelihood[c] = -0.5 * (logs[c] + num * np.log(factor[c])) - penalty
    return likelihood, factor
