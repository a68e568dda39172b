"""Equations to begin with: the best polynomial ones without measurement noise and with it.

Noise that is small beside what a gap adds looks like a drift that bends within the gap. Where the data do not decide at
once, both hypotheses are carried on, and the evidence decides in the end.
"""

from dataclasses import replace

import numpy as np

from fimsde.bank import window_kernels
from fimsde.bank.scales import Motion, measure_motion
from fimsde.bank.windows import Series
from fimsde.evidence.filter import turn_of
from fimsde.evidence.information import variance_information
from fimsde.evidence.settle import Settled, mean_rate, random_walk, settle
from fimsde.evidence.start import local_level
from fimsde.shapes import Array, Float64

_BLOCKS = 10  # stretches of long data
_TURN = 0.2  # of the state in a gap: from there on a drift may look like noise
_EVIDENT = 6.0  # standard errors: a likelihood ratio of exp(18)
_DECIDED = 20.0  # nats by which polynomial equations decide whether there is noise
_LAGS = tuple(range(4, 12))  # steps: beyond those within which a path forgets; by hand
_CHANCE = 4.0  # standard errors of a correlation where there is none: of 1500 data sets without such noise two had more


def motion_of(series: Series) -> Motion:
    """How far paths move, and whether a step is all that data know: not where there is a memory under much noise.

    Neighbouring observations know little of each other where gaps are long, or where noise is larger than all motion.
    In the former case correlations fall with the power of the lag, rho_k = rho_1^k; in the latter they last. Means over
    some lags tell, which of white data have the error 1 / sqrt(lags observations).
    """
    motion = measure_motion(series)
    if not motion.coarse:
        return motion
    found = [
        window_kernels.mean_square_displacement(series.y, series.dtau, series.path_starts, lag) for lag in (1, *_LAGS)
    ]
    if not all(pairs > 0 for pairs, _, _ in found):  # short paths
        return motion
    correlation = 1.0 - 0.5 * np.stack([square for _, _, square in found])
    of_gaps = np.mean([correlation[0] ** lag for lag in _LAGS], axis=0)
    lasts = correlation[1:].mean(axis=0) > of_gaps + _CHANCE / np.sqrt(len(_LAGS) * len(series.y))
    return replace(motion, coarse=not lasts.any())


def starts(series: Series, motion: Motion) -> list[Settled]:
    """The best polynomial equations without noise and with it; one of them where the other is out of the question.

    Noise that is small beside what a gap adds looks like a drift that bends within the gap. So both hypotheses are
    carried on, and the evidence decides between them in the end.
    """
    if motion.coarse:
        return [settle(series, random_walk(local_level(series, noisy=False)), motion.speed, euler=True)]
    level = local_level(series)
    noisy = settle(series, random_walk(level), motion.speed) if (level.noise > 0).any() else None
    if noisy is not None and _is_evident(noisy):
        return [noisy]
    clean = settle(series, random_walk(local_level(series, noisy=False)), motion.speed, keep_noise=True)
    if noisy is None:
        possible = _possible_noise(clean)
        if not (possible > 0).any():
            return [clean]
        noisy = settle(series, replace(clean.equation, noise=possible), motion.speed)
    gain = noisy.predictions.likelihood - clean.predictions.likelihood
    if not (noisy.equation.noise > 0).any() or not gain > 0:  # or no number
        return [clean]
    return [noisy] if gain > _DECIDED else [clean, noisy]


def _is_evident(noisy: Settled) -> bool:
    """Whether noise stands out in every component, and is no drift that bends within the gap."""
    equation, found = noisy.equation, noisy.predictions
    told = variance_information(found, equation, found.innovation)
    if not np.isfinite(told.matrix).all() or turn_of(found) > _TURN:
        return False
    mean, error = told.noise(10.0 * mean_rate(equation, found))
    return bool((mean > _EVIDENT * error).all() and (equation.noise > 0).all())


def _possible_noise(clean: Settled) -> Float64[Array, " dim"]:
    """The noise variance that data may have where an equation without noise was found; zero where they cannot.

    It can be where its best value is larger than its error, of which the drift has taken a part: an error of an
    observation looks like one of the drift as far as the equation forgets within a gap.
    """
    equation, found = clean.equation, clean.predictions
    told = variance_information(found, equation, found.innovation)
    if not np.isfinite(told.matrix).all():
        return np.zeros_like(equation.noise)
    mean, error = told.noise(10.0 * mean_rate(equation, found))
    left = np.clip(np.median(np.diagonal(found.carried[0], axis1=1, axis2=2), axis=0), 0.0, 1.0)
    return np.maximum(mean, error) * (mean > left * error).any()


def blocks(series: Series, most: int) -> Series:
    """Some of the observations, in stretches spread evenly over the data; all if there are no more."""
    if len(series.y) <= most:
        return series
    length = most // _BLOCKS
    begins = np.linspace(0, len(series.y) - length, _BLOCKS).astype(np.int64)
    chosen = np.concatenate([np.arange(a, a + length) for a in begins])
    cuts = np.concatenate([np.arange(0, len(chosen), length), np.flatnonzero(np.isin(chosen, series.path_starts))])
    cuts = np.append(np.unique(cuts), len(chosen))
    whole = np.flatnonzero(np.diff(cuts) > 1)  # a path of one observation has no step
    kept = np.concatenate([np.arange(cuts[k], cuts[k + 1]) for k in whole])
    return Series(series.y[chosen[kept]], series.dtau[chosen[kept]], np.append(0, np.cumsum(np.diff(cuts)[whole])))
