"""Inference: from normalised observations to weighed hypotheses about drift, diffusion and measurement noise."""

from dataclasses import dataclass, replace

import numpy as np

from fimsde.bank.scales import measure_motion
from fimsde.bank.windows import Series, to_series
from fimsde.data.transitions import Transitions
from fimsde.evidence.basis import Basis, choose_grid
from fimsde.evidence.filter import Equation, predict
from fimsde.evidence.hypotheses import Origin, Weighed, weigh_drift, weigh_rate
from fimsde.evidence.information import drift_information, innovations_after, variance_information
from fimsde.evidence.settle import (
    DRIFT_DEGREE,
    FLOOR,
    RATE_DEGREE,
    Settled,
    advance,
    limited,
    mean_rate,
    next_noise,
    settle,
)
from fimsde.evidence.start import local_level
from fimsde.shapes import Array, Float64

MOST_COMPONENTS = 3
_MOST_NODES = {1: 120, 2: 250, 3: 250}  # of the drift; by hand: bounds the time
_MOST_RATE_NODES = {1: 24, 2: 40, 3: 40}  # of g, of which data tell less
_BLURRED = 0.5  # of the variance that a gap adds: with that of the noise, nodes finer than its root are blurred
_SETTLE_ON = 20_000  # observations on which the first equation is found; longer data are thinned to blocks of them
_BLOCKS = 20


@dataclass(frozen=True, eq=False)
class Inference:
    """All that was learnt from one data set, in normalised coordinates.

    Attributes:
        drift, rate: Hypotheses about f and g.
        equation: Their averages, and the noise variance.
        noise_error: Standard error of the noise variance.
        likelihood: log p(data) under the equation around which hypotheses were weighed.
        speed: Natural size of the drift.
        is_coarse: Whether neighbouring observations know little of each other: then a step is an Euler step.
    """

    drift: Weighed
    rate: Weighed
    equation: Equation
    noise_error: Float64[Array, " dim"]
    likelihood: float
    speed: Float64[Array, " dim"]
    is_coarse: bool


def infer(tr: Transitions, origin: Origin) -> Inference:
    """Weigh all hypotheses by what the observations say.

    A polynomial equation is settled on first. Then hypotheses are weighed on the quadratic log likelihood around it,
    and once more around their average.
    """
    series = to_series(tr)
    motion = measure_motion(series)
    short = _blocks(series)
    settled = settle(short, local_level(short, noisy=not motion.coarse), motion.speed, euler=motion.coarse)
    equation = _on_grids(series, settled.equation)
    found = settled.predictions if short is series else predict(series, equation, euler=motion.coarse)
    here = Settled(equation, found)
    for last in (False, True):
        weighed = _weigh(here, motion.speed, origin, euler=motion.coarse)
        if not last:
            here = advance(series, here, weighed.equation, euler=motion.coarse)
    return weighed


def _weigh(here: Settled, speed: Float64[Array, " dim"], origin: Origin, *, euler: bool) -> Inference:
    """All hypotheses on the quadratic log likelihood around an equation."""
    equation, found = here.equation, here.predictions
    drift = weigh_drift(drift_information(found, equation), equation.drift_basis, speed, origin)
    told = variance_information(found, equation, innovations_after(found, equation, drift.mean))
    level = mean_rate(equation, found)
    noise_mean, noise_error = told.noise(10.0 * level)
    noise = equation.noise if euler else next_noise(equation.noise, noise_mean, noise_error)
    rate = weigh_rate(told.of_rate(noise), equation.rate_basis, level, origin)
    after = limited(replace(equation, drift=drift.mean, rate=rate.mean, noise=noise), found, level)
    return Inference(drift, rate, after, noise_error, found.likelihood, speed, euler)


def _on_grids(series: Series, equation: Equation) -> Equation:
    """The same equation in bases with B-splines."""
    dim = series.y.shape[1]
    gap = float(np.median(series.dtau[series.dtau > 0]))
    finest = float(np.sqrt((equation.noise + _BLURRED * gap * equation.floor / FLOOR).max()))
    drift = Basis(dim, DRIFT_DEGREE, choose_grid(series.y, _MOST_NODES[dim], finest))
    rate = Basis(dim, RATE_DEGREE, choose_grid(series.y, _MOST_RATE_NODES[dim], finest))
    return replace(
        equation,
        drift_basis=drift,
        drift=np.vstack([equation.drift, np.zeros((drift.num_nodes, dim))]),
        rate_basis=rate,
        rate=np.vstack([equation.rate, np.zeros((rate.num_nodes, dim))]),
    )


def _blocks(series: Series) -> Series:
    """Stretches of long data, evenly spread, with as many observations as the first equation needs; else all."""
    if len(series.y) <= _SETTLE_ON:
        return series
    length = _SETTLE_ON // _BLOCKS
    starts = np.linspace(0, len(series.y) - length, _BLOCKS).astype(np.int64)
    chosen = np.concatenate([np.arange(a, a + length) for a in starts])
    cuts = np.concatenate([np.arange(0, len(chosen), length), np.flatnonzero(np.isin(chosen, series.path_starts))])
    return Series(series.y[chosen], series.dtau[chosen], np.append(np.unique(cuts), len(chosen)))
