"""Inference: from normalised observations to weighed hypotheses about drift, diffusion and measurement noise."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from fimsde.bank.scales import Motion, measure_motion
from fimsde.bank.windows import Series, to_series
from fimsde.data.transitions import Transitions
from fimsde.evidence.basis import Basis, choose_grid
from fimsde.evidence.filter import Equation, Predictions, predict, turn_of
from fimsde.evidence.hypotheses import Origin, Weighed, weigh_drift, weigh_rate
from fimsde.evidence.information import (
    VarianceInformation,
    drift_information,
    innovations_after,
    spent_parameters,
    variance_information,
)
from fimsde.evidence.settle import (
    FLOOR,
    SETTLED,
    Settled,
    advance,
    drift_degree,
    limited,
    mean_rate,
    next_noise,
    random_walk,
    rate_degree,
    settle,
)
from fimsde.evidence.start import Level, local_level
from fimsde.shapes import Array, Float64

MOST_COMPONENTS = 8
# of the drift, and of g, of which data tell less; by hand: bounds the time. More components have polynomials alone.
_MOST_NODES, _MOST_RATE_NODES = {1: 120, 2: 250, 3: 250}, {1: 24, 2: 40, 3: 40}
_BLURRED = 0.5  # of the variance that a gap adds: with that of the noise, nodes finer than its root are blurred
_SETTLE_ON = 20_000  # observations on which the first equation is found, in blocks spread over longer data
_BLOCKS = 10
_CLEAR = 1.0  # times what a gap adds to the variance: more noise is no motion
_MANY = 4000  # steps; beside so many, a dozen parameters of the drift do not matter to g
_WARM = 0.9  # the other temperature of the likelihood; by hand: near enough to one, far from rounding
_MOST_WEIGHINGS = 5  # by hand: half of the data sets are done after two, nearly all after four
_UNLIKELY = 1e-4  # probability of smooth drifts below which they are not asked again
_TURN = 0.2  # of the state in a gap: from there on a drift may look like noise
_EVIDENT = 6.0  # standard errors: a likelihood ratio of exp(18)
_DECADES = 5.0  # of v / g h that are equally likely, if there is noise
_DECIDED = 20.0  # nats by which polynomial equations decide whether there is noise
_RARE = 0.05  # probability of noise, or of none, below which it is left out


@dataclass(frozen=True, eq=False)
class Inference:
    """All that was learnt from one data set, in normalised coordinates.

    Attributes:
        drift, rate: Hypotheses about f and g.
        equation: Their averages, and the noise variance, as far as the data are likely with them.
        noise_error: Standard error of the noise variance.
        told: The log likelihood of the coefficients of g and of the noise variance.
        likelihood: log p(data) under the equation.
        log_evidence: log p(data), over all hypotheses with such noise, or without any.
        speed: Natural size of the drift.
        num_steps: From an observation to the next.
        is_coarse: Whether neighbouring observations know little of each other: then a step is an Euler step.
    """

    drift: Weighed
    rate: Weighed
    equation: Equation
    noise_error: Float64[Array, " dim"]
    told: VarianceInformation
    likelihood: float
    log_evidence: float
    speed: Float64[Array, " dim"]
    num_steps: int
    is_coarse: bool


def infer(tr: Transitions, origin: Origin) -> Inference:
    """Weigh all hypotheses by what the observations say.

    A polynomial equation is settled on first. Then hypotheses are weighed on the quadratic log likelihood around it,
    and again around their average until the likelihood of that is settled. The first time g is its own mean everywhere:
    whether it depends on the state is asked where that is not assumed, for around a g that follows the noise of few
    data every other one looks unlikely.

    Where data cannot tell whether there is measurement noise, its variance is what is expected: size times probability.
    """
    series = to_series(tr)
    motion = measure_motion(series)
    starts = _starts(_blocks(series), motion)
    found = [_weighed(series, s, motion, origin, keep_noise=not (s.equation.noise > 0).any()) for s in starts]
    if len(found) == 1:
        return found[0]
    clean, noisy = found
    share = float(expit(noisy.log_evidence - clean.log_evidence))
    if not (noisy.equation.noise > 0).any() or not share > _RARE:
        return clean
    if share > 1.0 - _RARE:
        return noisy
    between = replace(starts[1].equation, noise=share * noisy.equation.noise)
    start = settle(_blocks(series), between, motion.speed, keep_noise=True)
    return _weighed(series, start, motion, origin, keep_noise=True)


def _weighed(series: Series, start: Settled, motion: Motion, origin: Origin, *, keep_noise: bool) -> Inference:
    """Hypotheses weighed around an equation, and around what follows from that, until nothing changes."""
    equation = _with_constant_rate(_on_grids(series, start.equation), start.predictions)
    here = Settled(equation, predict(series, equation, euler=motion.coarse))
    if not np.isfinite(here.predictions.likelihood):  # few data, and a drift that explodes between them
        walk = replace(equation, drift=np.zeros_like(equation.drift))
        here = Settled(walk, predict(series, walk, euler=motion.coarse))
    for turn in range(_MOST_WEIGHINGS):
        keep = turn == 0 or keep_noise
        found, change = _weigh(here, motion.speed, origin, euler=motion.coarse, keep_noise=keep)
        before, here = here, advance(series, here, found.equation, euler=motion.coarse, expected=change)
        if turn > 0 and abs(here.predictions.likelihood - before.predictions.likelihood) < SETTLED:
            break
        if turn == 0 and found.drift.smooth_share < _UNLIKELY:
            here = _without_nodes(series, here, euler=motion.coarse)
    return replace(found, equation=here.equation, likelihood=here.predictions.likelihood)


def drift_beside(tr: Transitions, origin: Origin, found: Inference, equation: Equation) -> Inference:
    """The drift weighed once more, beside g and noise of another equation, which are kept."""
    series = to_series(tr)
    here = Settled(equation, predict(series, equation, euler=found.is_coarse))
    drift = _weigh(here, found.speed, origin, euler=found.is_coarse, keep_noise=True)[0].drift
    after = advance(series, here, replace(equation, drift=drift.mean), euler=found.is_coarse)
    return replace(found, drift=drift, equation=after.equation, likelihood=after.predictions.likelihood)


def _without_nodes(series: Series, here: Settled, *, euler: bool) -> Settled:
    """The same equation with a polynomial drift: B-splines that no hypothesis asks for only take time."""
    basis = Basis(here.equation.drift_basis.dim, here.equation.drift_basis.degree)
    equation = replace(here.equation, drift_basis=basis, drift=here.equation.drift[: basis.size])
    return Settled(equation, predict(series, equation, euler=euler))


def _starts(series: Series, motion: Motion) -> list[Settled]:
    """The best polynomial equations without noise and with it; one of them where the other is out of the question.

    Noise that is small beside what a gap adds looks like a drift that bends within the gap. So both hypotheses are
    carried on, and the evidence decides between them in the end.
    """
    if motion.coarse:
        return [settle(series, random_walk(local_level(series, noisy=False)), motion.speed, euler=True)]
    level = local_level(series)
    noisy = settle(series, random_walk(level), motion.speed) if (level.noise > 0).any() else None
    if noisy is not None and _is_evident(noisy, level):
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


def _is_evident(noisy: Settled, level: Level) -> bool:
    """Whether noise stands out in every component, and is no drift that bends within the gap.

    It is none where noise is more than what a gap adds, or the drift hardly turns in a gap.
    """
    equation, found = noisy.equation, noisy.predictions
    if (level.noise > _CLEAR * np.median(found.gaps) * level.rate).all():
        return True
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


def _weigh(
    here: Settled, speed: Float64[Array, " dim"], origin: Origin, *, euler: bool, keep_noise: bool = False
) -> tuple[Inference, float]:
    """All hypotheses on the quadratic log likelihood around an equation, and by how much it says that this changes."""
    equation, found = here.equation, here.predictions
    data = drift_information(found, equation)
    _check_finite(data.matrix, data.right)
    level = mean_rate(equation, found)
    drift = weigh_drift(data, equation.drift_basis, speed, level, origin)
    left = innovations_after(found, equation, drift.mean)
    if len(left) < _MANY:  # innovations around a fitted drift are too small, by what the fit has spent
        warm = weigh_drift(data.times(_WARM), equation.drift_basis, speed, level, origin)
        spent = spent_parameters(data, drift.mean, drift.log_evidence, warm.log_evidence, _WARM)
        squares = np.maximum((left**2 / found.variance).sum(axis=0), 1.0)
        left = left * np.sqrt(1.0 + np.clip(spent, 0.0, 0.5 * len(left)) / squares)
    told = variance_information(found, equation, left)
    _check_finite(told.matrix, told.right)
    noise_mean, noise_error = told.noise(10.0 * level)
    noise = equation.noise if euler or keep_noise else next_noise(equation.noise, noise_mean, noise_error)
    rate = weigh_rate(told.of_rate(noise), equation.rate_basis, level, origin)
    after = limited(replace(equation, drift=drift.mean, rate=rate.mean, noise=noise), found, level)
    change = data.change(equation.drift, drift.mean) + told.change(
        np.vstack([equation.rate, equation.noise]), np.vstack([after.rate, after.noise])
    )
    log_evidence = (
        found.likelihood
        + (drift.log_evidence.sum() - data.at(equation.drift))
        + (rate.log_evidence.sum() + told.log_noise(noise) - told.at(np.vstack([equation.rate, equation.noise])))
        - np.log(_DECADES * np.log(10.0) * noise[noise > 0]).sum()  # of noise that is there, each size is as likely
    )
    return Inference(
        drift,
        rate,
        after,
        noise_error,
        told,
        found.likelihood,
        float(log_evidence),
        drift.kept.width,
        len(found.gaps),
        euler,
    ), change


def _check_finite(*parts: Float64[Array, "..."]) -> None:
    """A likelihood that is no number anywhere near the equation tells nothing of its coefficients."""
    if not all(np.isfinite(part).all() for part in parts):
        raise np.linalg.LinAlgError("the likelihood is not finite")


def _with_constant_rate(equation: Equation, found: Predictions) -> Equation:
    """The same equation, g being everywhere what it is on average along the paths."""
    rate = np.zeros_like(equation.rate)
    rate[0] = np.maximum(mean_rate(equation, found), equation.floor)
    return replace(equation, rate=rate)


def _on_grids(series: Series, equation: Equation) -> Equation:
    """The same equation in bases with B-splines."""
    dim = series.y.shape[1]
    gap = float(np.median(series.dtau[series.dtau > 0]))
    finest = float(np.sqrt((equation.noise + _BLURRED * gap * equation.floor / FLOOR).max()))
    drift = Basis(dim, drift_degree(dim), choose_grid(series.y, _MOST_NODES.get(dim, 0), finest))
    rate = Basis(dim, rate_degree(dim), choose_grid(series.y, _MOST_RATE_NODES.get(dim, 0), finest))
    return replace(
        equation,
        drift_basis=drift,
        drift=np.vstack([equation.drift, np.zeros((drift.num_nodes, dim))]),
        rate_basis=rate,
        rate=np.vstack([equation.rate, np.zeros((rate.num_nodes, dim))]),
    )


def _blocks(series: Series) -> Series:
    """Some of the observations, in stretches spread evenly over the data; all if there are no more."""
    if len(series.y) <= _SETTLE_ON:
        return series
    length = _SETTLE_ON // _BLOCKS
    starts = np.linspace(0, len(series.y) - length, _BLOCKS).astype(np.int64)
    chosen = np.concatenate([np.arange(a, a + length) for a in starts])
    cuts = np.concatenate([np.arange(0, len(chosen), length), np.flatnonzero(np.isin(chosen, series.path_starts))])
    cuts = np.append(np.unique(cuts), len(chosen))
    whole = np.flatnonzero(np.diff(cuts) > 1)  # a path of one observation has no step
    kept = np.concatenate([np.arange(cuts[k], cuts[k + 1]) for k in whole])
    return Series(series.y[chosen[kept]], series.dtau[chosen[kept]], np.append(0, np.cumsum(np.diff(cuts)[whole])))
