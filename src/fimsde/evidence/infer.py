"""Inference: from normalised observations to weighed hypotheses about drift, diffusion and measurement noise."""

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from scipy.special import expit

from fimsde.bank.scales import Motion
from fimsde.bank.windows import Series, to_series
from fimsde.data.transitions import Transitions
from fimsde.evidence.basis import Basis, choose_grid
from fimsde.evidence.beginnings import blocks, motion_of, starts
from fimsde.evidence.filter import Equation, Predictions, predict
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
    rate_degree,
    settle,
)
from fimsde.shapes import Array, Float64

MOST_COMPONENTS = 8
# of the drift, and of g, of which data tell less; by hand: bounds the time. More components have polynomials alone.
_MOST_NODES, _MOST_RATE_NODES = {1: 120, 2: 250, 3: 250}, {1: 24, 2: 40, 3: 40}
_BLURRED = 0.5  # of the variance that a gap adds: with that of the noise, nodes finer than its root are blurred
# observations on which the first equation is found, and on which hypotheses are weighed first, in blocks spread over
# longer data; by hand: bounds the time
_SETTLE_ON, _WEIGH_FIRST = 20_000, 100_000
_MANY = 4000  # steps; beside so many, a dozen parameters of the drift do not matter to g
_WARM = 0.9  # the other temperature of the likelihood; by hand: near enough to one, far from rounding
_MOST_WEIGHINGS = 5  # by hand: half of the data sets are done after two, nearly all after four
_UNLIKELY = 1e-4  # probability of smooth drifts below which they are not asked again
ODDS_OF_NOISE = 3.0  # before the data are seen; by hand: measurements have errors
_DECADES = 5.0  # of v / g h that are equally likely, if there is noise
_RARE = 0.05  # probability of noise, or of none, below which it is left out
# what a weighing does with the noise: it is found anew; or stays, and every other size is possible; or is known
NoiseRule = Literal["free", "kept", "known"]


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
        noise_probability: That there is measurement noise at all, where noise was found.
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
    noise_probability: float = 1.0


def infer(tr: Transitions, origin: Origin) -> Inference:
    """Weigh all hypotheses by what the observations say.

    A polynomial equation is settled on first. Then hypotheses are weighed on the quadratic log likelihood around it,
    and again around their average until the likelihood of that is settled. The first time g is its own mean everywhere:
    whether it depends on the state is asked where that is not assumed, for around a g that follows the noise of few
    data every other one looks unlikely.

    Where data cannot tell whether there is measurement noise, its variance is what is expected: size times probability.
    """
    series = to_series(tr)
    motion = motion_of(series)
    begun = starts(blocks(series, _SETTLE_ON), motion)
    found = [_weighed(series, s, motion, origin, noise_known=not (s.equation.noise > 0).any()) for s in begun]
    if len(found) == 1:
        return found[0]
    clean, noisy = found
    share = float(expit(np.log(ODDS_OF_NOISE) + noisy.log_evidence - clean.log_evidence))
    if not (noisy.equation.noise > 0).any() or not share > _RARE:
        return clean
    if share > 1.0 - _RARE:
        return noisy
    between = replace(begun[1].equation, noise=share * noisy.equation.noise)
    start = settle(blocks(series, _SETTLE_ON), between, motion.speed, keep_noise=True)
    return replace(_weighed(series, start, motion, origin, noise_known=True), noise_probability=share)


def _weighed(series: Series, start: Settled, motion: Motion, origin: Origin, *, noise_known: bool) -> Inference:
    """Hypotheses weighed around an equation, and around what follows from that, until nothing changes.

    Long data are weighed in part first: what is out of the question there is not asked again.
    """
    some = blocks(series, _WEIGH_FIRST)
    equation = _with_constant_rate(_on_grids(series, start.equation), start.predictions)
    here = Settled(equation, predict(some, equation, euler=motion.coarse))
    if not np.isfinite(here.predictions.likelihood):  # few data, and a drift that explodes between them
        walk = replace(equation, drift=np.zeros_like(equation.drift))
        here = Settled(walk, predict(some, walk, euler=motion.coarse))
    found = _weighed_again(some, here, motion, origin, noise_known=noise_known, is_first=True)
    if some is series:
        return found
    here = Settled(found.equation, predict(series, found.equation, euler=motion.coarse))
    return _weighed_again(series, here, motion, origin, noise_known=noise_known, is_first=False)


def _weighed_again(
    series: Series, here: Settled, motion: Motion, origin: Origin, *, noise_known: bool, is_first: bool
) -> Inference:
    """Turns of weighing, until the likelihood of the average is settled."""
    for turn in range(_MOST_WEIGHINGS):
        beginning = is_first and turn == 0
        rule: NoiseRule = "known" if noise_known else "kept" if beginning else "free"
        found, change = _weigh(here, motion.speed, origin, euler=motion.coarse, noise_rule=rule)
        before = here.predictions.likelihood
        here = advance(series, here, found.equation, euler=motion.coarse, expected=change)
        gain = here.predictions.likelihood - before
        if not beginning and min(abs(gain), abs(gain - change)) < SETTLED:  # no change, or just the one that was meant
            break
        if beginning:
            here = _without_unlikely_nodes(series, here, found, euler=motion.coarse)
    return replace(found, equation=here.equation, likelihood=here.predictions.likelihood)


def drift_beside(tr: Transitions, origin: Origin, found: Inference, equation: Equation) -> Inference:
    """The drift weighed once more, beside g and noise of another equation, which are kept."""
    series = to_series(tr)
    here = Settled(equation, predict(series, equation, euler=found.is_coarse))
    drift = _weigh(here, found.speed, origin, euler=found.is_coarse, noise_rule="kept")[0].drift
    after = advance(series, here, replace(equation, drift=drift.mean), euler=found.is_coarse)
    return replace(found, drift=drift, equation=after.equation, likelihood=after.predictions.likelihood)


def _without_unlikely_nodes(series: Series, here: Settled, found: Inference, *, euler: bool) -> Settled:
    """The same equation without B-splines that no hypothesis asks for: they only take time."""
    old = here.equation
    fields: dict[str, Any] = {}
    for name, weighed in (("drift", found.drift), ("rate", found.rate)):
        basis: Basis = getattr(old, f"{name}_basis")
        if basis.grid is not None and weighed.smooth_share < _UNLIKELY:
            plain = Basis(basis.dim, basis.degree)
            fields |= {f"{name}_basis": plain, name: getattr(old, name)[: plain.size]}
    if not fields:
        return here
    equation = replace(old, **fields)
    return Settled(equation, predict(series, equation, euler=euler))


def _weigh(
    here: Settled, speed: Float64[Array, " dim"], origin: Origin, *, euler: bool, noise_rule: NoiseRule
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
    is_free = noise_rule == "free" and not euler
    noise = next_noise(equation.noise, noise_mean, noise_error) if is_free else equation.noise
    of_rate = told.given(noise) if noise_rule == "known" else told.of_rate(noise)
    rate = weigh_rate(of_rate, equation.rate_basis, level, origin)
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
    gap = series.median_gap
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
