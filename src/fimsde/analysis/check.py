"""Verdicts on an equation and its data, each with a number, a sentence and the next step.

A statistical verdict leaves "good" with a probability of at most 1 % if the equation is right and steps are short; it
becomes "bad" only if the effect is also large. Thresholds of size keep long records from failing for trifles.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Literal, no_type_check

import numpy as np
from scipy import stats

from fimsde.analysis.residuals import (
    Evidence,
    Residuals,
    autocorrelation,
    measurement_noise,
    memory,
    non_normality,
    residuals,
)
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import SDE, fields
from fimsde.errors import ConfigError, FimsdeError
from fimsde.shapes import Array, Bool, Float64
from fimsde.simulate import euler_step, simulate
from fimsde.tabulate import table_around

FALSE_ALARM = 0.01  # per verdict: 5 % over the five that are tests (Bonferroni)
_FACTORS = (2, 4)  # of subsampling; by hand: the first is tested, the second shows where it leads
# transitions after subsampling: the null spread 1 / sqrt(2 n) of twice as many is 5 %, the least change reported
_FEWEST = 100
_FEW, _SOME = 128, 1000  # transitions: the smallest context of the paper's training, and by hand: bands are wide below
_MOST_STATES = 2000  # at which estimates are compared; by hand: bounds seconds
_SIMULATED, _STEPS = 50, 250  # paths and steps for the share of extrapolation; by hand: bounds seconds
_SUBSTEPS = 4  # per step; one where no table makes them cheap; by hand: a quarter of the error of one Euler step

# of the noise in a step: an Euler step that is off by more leaves residuals that are not noise; by hand: 1 % of the
# variance
_LONG_STEP = 0.1
_OF_EULER_STEPS = ("residual whiteness", "residual normality", "Markov property", "sampling interval")

Status = Literal["good", "caution", "bad"]


@dataclass(frozen=True)
class Verdict:
    """One question about a result, answered.

    Attributes:
        name: Short name.
        status: "good", "caution" or "bad".
        number: The number behind it; its meaning is in the sentence.
        sentence: What was found.
        next_step: What to do about it; empty if nothing.
    """

    name: str
    status: Status
    number: float
    sentence: str
    next_step: str = ""

    def record(self) -> dict[str, str | float | None]:
        """Ready for JSON: a number that is none is null."""
        return asdict(self) | {"number": float(self.number) if np.isfinite(self.number) else None}


@dataclass(frozen=True)
class Checks:
    """All verdicts on a result; iterate, or ask for one by name."""

    verdicts: tuple[Verdict, ...]

    @property
    def status(self) -> Status:
        """The worst status."""
        order: tuple[Status, ...] = ("good", "caution", "bad")
        return order[max(order.index(v.status) for v in self.verdicts)]

    def __iter__(self) -> Iterator[Verdict]:
        return iter(self.verdicts)

    def __len__(self) -> int:
        return len(self.verdicts)

    def __getitem__(self, name: str) -> Verdict:
        for verdict in self.verdicts:
            if verdict.name == name:
                return verdict
        raise KeyError(f"no verdict {name!r}; there are {', '.join(v.name for v in self.verdicts)}")

    def __str__(self) -> str:
        lines = [f"[{v.status:7}] {v.name}: {v.sentence} {v.next_step}".rstrip() for v in self.verdicts]
        return "\n".join(lines)


def check(
    sde: SDE,
    observations: Observations,
    inside: Callable[[Float64[Array, "queries dim"]], Bool[Array, " queries"]],
    refit: Callable[[Observations], SDE] | None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Checks:
    """Look at residuals, history, sampling interval, measurement noise, extrapolation and the amount of data.

    Args:
        sde: The equation.
        observations: The data.
        inside: Whether data support locations.
        refit: The same method on other data, for the sensitivity to the sampling interval; without it that is left out.
        seed: Of the simulation behind the share of extrapolation.
        progress: Called with the name of every verdict; see `num_verdicts`.
    """
    r = residuals(sde, observations)
    if len(r.values) < 20:
        raise ConfigError(f"{len(r.values)} transitions are too few to check anything; at least 20 are needed.")
    names, miss = observations.names, step_error(sde, observations)
    verdicts: list[Verdict] = []
    for judge in (
        lambda: _amount(observations),
        lambda: _whiteness(autocorrelation(r), names),
        lambda: _normality(non_normality(r), names),
        lambda: _markov(memory(r), names),
        lambda: _noise(r, names),
        *([lambda: sampling_interval(sde, observations, refit)] if refit is not None else []),
        lambda: _extrapolation(sde, observations, inside, seed),
    ):
        verdicts.append(_with_long_steps(judge(), miss))
        if progress is not None:
            progress(verdicts[-1].name)
    return Checks(tuple(verdicts))


def num_verdicts(can_refit: bool) -> int:
    """How many verdicts there are for an equation that can, or cannot, be fitted again."""
    return 7 if can_refit else 6


def subsampled(observations: Observations, factor: int) -> Observations:
    """Every `factor`-th observation of each path; paths that then have one observation are left out."""
    ends = observations.path_starts
    rows = [np.arange(start, stop, factor) for start, stop in pairwise(ends)]
    rows = [kept for kept in rows if len(kept) > 1]
    if not rows:
        raise ConfigError(f"no path has two observations left after keeping every {factor}-th.")
    return observations.as_paths(rows)


def step_error(sde: SDE, observations: Observations) -> float:
    """abs(f(y + f dtau) - f(y)) dtau / 2 / sqrt(g dtau): root mean square over the steps, in the worst component.

    How far an Euler step over an observed gap is off: half the change of the drift along it, what a step in two halves
    would add, in standard deviations of its noise.
    """
    steps = to_transitions(observations)
    rows = slice(None, None, -(-len(steps) // _MOST_STATES))
    y, dtau = steps.y[rows], steps.dtau[rows, None]
    drift, diffusion = fields(sde, y)
    later, _ = fields(sde, euler_step(y, drift, diffusion, dtau, np.zeros_like(y)))
    with np.errstate(divide="ignore", invalid="ignore"):
        miss = np.abs(later - drift) / 2 * np.sqrt(dtau) / diffusion  # (n, dim)
    known = np.isfinite(miss)
    squares = np.where(known, miss, 0.0) ** 2
    return float(np.sqrt(squares.sum(axis=0) / np.maximum(known.sum(axis=0), 1)).max())


def _with_long_steps(verdict: Verdict, miss: float) -> Verdict:
    """The verdict; where steps are too long for it, that is the next step, whatever else may be the matter."""
    if miss <= _LONG_STEP or verdict.status == "good" or verdict.name not in _OF_EULER_STEPS:
        return verdict
    advice = (
        f"Observations may be too far apart for this test: one Euler step is off by {miss:.2g} standard deviations of "
        "its noise. Observe more often, or finetune, which takes sub-steps."
    )
    return replace(verdict, next_step=advice)


def _amount(observations: Observations) -> Verdict:
    n = observations.num_transitions
    status: Status = "bad" if n < _FEW else "caution" if n < _SOME else "good"
    sentence = f"{n} transitions in {observations.num_paths} path(s)."
    advice = f"Below {_SOME} bands are wide: record longer, or more paths." if status != "good" else ""
    return Verdict("amount of data", status, float(n), sentence, advice)


def _whiteness(found: Evidence, names: tuple[str, ...]) -> Verdict:
    status = _status(found.p_value, abs(found.size), 0.02, 0.2)
    sentence = (
        f"the largest autocorrelation of the residuals is {found.size:.3f} ({names[found.component]}), "
        f"p = {found.p_value:.2g}."
    )
    advice = (
        "Neighbouring residuals pull against each other: measurement noise. See that verdict."
        if found.size < 0
        else "Something beside the state drives the data: add a component, or observe at longer intervals."
    )
    return Verdict("residual whiteness", status, found.size, sentence, advice if status != "good" else "")


def _normality(found: Evidence, names: tuple[str, ...]) -> Verdict:
    status = _status(found.p_value, abs(found.size), 0.1, 1.0)
    sentence = (
        f"the excess kurtosis of the residuals is {found.size:.2f} ({names[found.component]}), p = {found.p_value:.2g}."
    )
    advice = "Jumps, a missed dependence of the noise on the state, or steps too long for one Gaussian step."
    return Verdict("residual normality", status, found.size, sentence, advice if status != "good" else "")


def _markov(found: Evidence, names: tuple[str, ...]) -> Verdict:
    status = _status(found.p_value, abs(found.size), 0.02, 0.2)
    sentence = (
        f"the past predicts the next residual with correlation {found.size:.3f} ({names[found.component]}), "
        f"p = {found.p_value:.2g} over lags up to 16."
    )
    advice = "The present state is not all that matters: add a component (a velocity, a delay), or subsample."
    return Verdict("Markov property", status, found.size, sentence, advice if status != "good" else "")


def _noise(r: Residuals, names: tuple[str, ...]) -> Verdict:
    std, share, p = measurement_noise(r)
    j = int(np.argmax(np.where(p * len(p) < FALSE_ALARM, share, -1.0)))
    status = _status(min(1.0, float(p[j]) * len(p)), float(share[j]), 0.1, 1.0)
    sentence = (
        f"measurement noise of {names[j]} has a standard deviation of about {std[j]:.3g}, "
        f"{share[j]:.2f} of what the diffusion moves in a step."
    )
    advice = "Drift and diffusion at short intervals are blurred by it: subsample until the estimate stops changing."
    return Verdict("measurement noise", status, float(std[j]), sentence, advice if status != "good" else "")


def sampling_interval(sde: SDE, observations: Observations, refit: Callable[[Observations], SDE]) -> Verdict:
    """z = abs(ln(s_2 / s_1)) sqrt(2 n): mean diffusion s_2 with every second observation against s_1 with all n steps.

    Under the null the logarithm has the standard deviation 1 / sqrt(2 n): steps in pairs give half as many squares,
    made of the same increments.
    """
    n = observations.num_transitions
    if n < 2 * _FEWEST:
        return _not_subsampled(f"{n} transitions are too few to subsample; {2 * _FEWEST} are needed.")
    x = observations.values[:: -(-observations.num_points // _MOST_STATES)]
    drift, diffusion = fields(sde, x)
    changes, moved = [], []
    for factor in _FACTORS:
        try:
            thin = subsampled(observations, factor)
            if thin.num_transitions < _FEWEST:
                continue
            other_drift, other = fields(refit(thin), x)
        except FimsdeError as error:  # no path is that long, or a component does not move between the rest
            return _not_subsampled(f"every {factor}th observation alone cannot be estimated: {error}")
        changes.append(np.log(_ratio(np.nanmean(other, axis=0), np.nanmean(diffusion, axis=0))))
        moved.append(float(np.sqrt(_ratio(np.nanmean((other_drift - drift) ** 2), np.nanmean(drift**2)))))
    if not changes:
        return _not_subsampled(f"the paths are too short to subsample; {_FEWEST} transitions must be left.")
    z = np.abs(changes[0]) * np.sqrt(2 * n)
    j = int(np.argmax(z))
    p = min(1.0, float(2 * stats.norm.sf(z[j])) * len(z))
    shares = ", ".join(f"{np.expm1(c[j]):+.1%}" for c in changes)
    status = _status(p, abs(float(np.expm1(changes[0][j]))), 0.05, 0.2)
    sentence = (
        f"with every 2nd (4th) observation the diffusion of {observations.names[j]} changes by {shares}, "
        f"the drift by {', '.join(f'{m:.0%}' for m in moved)} of its size."
    )
    down = changes[0][j] < 0
    advice = (
        "It falls with the interval: measurement noise, or intervals too long for the dynamics."
        if down
        else "It grows with the interval: the increments are correlated at short intervals; subsample."
    )
    number = float(np.expm1(changes[0][j]))
    return Verdict("sampling interval", status, number, sentence, advice if status != "good" else "")


def _not_subsampled(sentence: str) -> Verdict:
    return Verdict("sampling interval", "caution", float("nan"), sentence, "Record longer, or more paths.")


@no_type_check  # numbers and arrays alike
def _ratio(a: Float64[Array, " dim"], b: Float64[Array, " dim"]) -> Float64[Array, " dim"]:
    """a / b of sizes, of which one that rounding cannot tell from zero counts as rounding; 1 if both are zero."""
    largest = np.maximum(a, b)
    least = np.finfo(np.float64).eps * np.where(largest > 0, largest, 1.0)
    return np.maximum(a, least) / np.maximum(b, least)


def _extrapolation(
    sde: SDE,
    observations: Observations,
    inside: Callable[[Float64[Array, "queries dim"]], Bool[Array, " queries"]],
    seed: int,
) -> Verdict:
    """Share of simulated states that data do not support, from observed states over as many steps as were observed."""
    steps = to_transitions(observations)
    rng = np.random.default_rng(seed)
    starts = steps.y[rng.integers(len(steps), size=_SIMULATED)]
    num = min(_STEPS, len(steps))
    table, _ = table_around(sde, observations)
    times = np.arange(num + 1) * float(np.median(steps.dtau))
    paths = simulate(table, starts, times, substeps=1 if table is sde else _SUBSTEPS, seed=seed)
    states = paths.values[paths.mask]
    share = 1 - float(np.mean(inside(states))) * paths.mask.mean()  # states that no longer exist are outside, too
    status: Status = "bad" if share > 0.25 else "caution" if share > 0.05 else "good"
    sentence = f"{share:.1%} of simulated states lie where no data support the equation" + (
        f", and {paths.num_diverged} of {_SIMULATED} paths diverge." if paths.num_diverged else "."
    )
    advice = "Do not trust simulations, densities and exit times there; record data that reach these states."
    return Verdict("extrapolation", status, share, sentence, advice if status != "good" else "")


def _status(p_value: float, size: float, visible: float, large: float) -> Status:
    """Good unless the effect is both significant and visible; bad if it is large."""
    if p_value >= FALSE_ALARM or size < visible:
        return "good"
    return "bad" if size >= large else "caution"
