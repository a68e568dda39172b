"""Does the past matter beside the state? Memory, and the memory that is a velocity nobody recorded.

x'' = -c x' - k x + noise: the position alone has no equation of first order
"""

from dataclasses import dataclass

import numpy as np

from fimsde.analysis.diagnosis.case import Case
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict, chance
from fimsde.analysis.residuals import Evidence, Residuals, autocorrelation, lagged, memory
from fimsde.shapes import Array, Float64, Int

_OSCILLATES = 0.25  # k / c² above which x'' = -c x' - k x oscillates: its roots are complex
_LAGS = 60  # up to which the correlation of innovations is followed; by hand
_NOTICED = 3.0  # standard errors of an autocorrelation
_VISIBLE, _LARGE = 0.03, 0.15  # correlations with the past; by hand: a thousandth and a fiftieth of the variance
_CLEAR = 8.0  # times its measurement noise: variance of the increments from which velocities are read; by hand
_LAGGED = 2  # observations by which instruments lie before what they explain, so that they share no noise with it


@dataclass(frozen=True)
class Memory:
    """How innovations depend on earlier ones.

    Attributes:
        evidence: That they do, over all components.
        first: Autocorrelation over one step.
        time: Correlation time, in units of time.
        markov: From which number of observations on the data are Markov.
    """

    evidence: Evidence
    first: float
    time: float
    markov: int


def find_memory(case: Case, r: Residuals) -> Memory:
    """Correlations of innovations with sums of past ones and with each of the last ten; how far they reach."""
    evidence = min(memory(r), autocorrelation(r), key=lambda e: e.p_value)
    rho, counts = lagged(r, min(_LAGS, max(1, len(r.values) // 10)))
    own = rho[:, evidence.component]
    noticed = np.abs(own) * np.sqrt(counts) > _NOTICED
    reach = int(np.flatnonzero(noticed)[-1]) + 1 if noticed.any() else 0
    run = int(np.argmin(noticed)) if not noticed.all() else len(noticed)  # lags noticed without a break
    gap = float(np.median(case.found.dtau))
    total = float(np.abs(own[: max(run, 1)]).sum())
    return Memory(evidence, float(own[0]), gap * total / max(abs(float(own[0])), 1e-300), max(run, min(reach, 1)) + 1)


def memory_verdict(case: Case, found: Memory) -> Verdict:
    """The last steps predict the next one: they carry on. Those that pull against each other speak of the fit."""
    p = min(1.0, 2 * found.evidence.p_value)
    size = found.evidence.size
    shown = p < FALSE_ALARM and size >= _VISIBLE
    name = case.names[found.evidence.component]
    sentence = f"given the state, past steps do not predict the next one, {chance(p, 2)}."
    advice = wider = ""
    if shown:
        sentence = (
            f"past steps of {name} predict the next one (correlation {found.evidence.size:.2f}, {chance(p)}) over a "
            f"correlation time of {found.time:.3g}."
        )
        advice = (
            f"A component that matters was not recorded, or the noise is coloured: add it, or estimate every "
            f"{_nth(found.markov)} observation, from which on the data are Markov."
        )
        wider = "dx = (f(x) + u) dt + ... with a hidden u of its own equation"
    status: Status = "good" if not shown else "bad" if size >= _LARGE else "caution"
    return Verdict("memory", status, found.evidence.size, sentence, advice, "class", p, wider)


def second_order(case: Case, found: Memory) -> Verdict:
    """A memory that is a velocity: increments carry on, and they turn round by themselves."""
    p = min(1.0, 2 * found.evidence.p_value)
    j = found.evidence.component
    damping, stiffness = read_oscillator(case, j)
    ratio = stiffness / max(damping**2, _OSCILLATES * stiffness / 1e3) if stiffness > 0 else 0.0
    shown = p < FALSE_ALARM and found.first > _LARGE and ratio > _OSCILLATES
    sentence = "nothing points to a velocity that was not recorded."
    advice = wider = ""
    if shown:
        sentence = (
            f"{case.names[j]} moves like a position whose velocity was not recorded: x'' = -{max(damping, 0):.2g} x' - "
            f"{stiffness:.2g} x + ..., {chance(p)}."
        )
        advice = "Add the velocity as a component (differences of neighbouring positions over their gaps)."
        wider = "dx = v dt, dv = f(x, v) dt + ..."
    status: Status = "bad" if shown else "good"
    return Verdict("second order", status, ratio, sentence, advice, "class", p, wider)


def read_oscillator(case: Case, component: int) -> tuple[float, float]:
    """c and k of x'' = -c x' - k x + noise, by instruments two observations earlier: no noise is shared with these.

    Velocities are differences over as many observations as make their noise small.
    """
    obs = case.observations
    y, noise = obs.values[:, component], float(case.found.noise_std[component]) ** 2
    for stride in (1, 2, 4, 8, 16):
        rows = _windows(obs.path_starts, obs.times, stride, _LAGGED + 3)
        if len(rows) < 20:
            return 0.0, 0.0
        if float(np.mean((y[rows[:, -1]] - y[rows[:, -2]]) ** 2)) > _CLEAR * 2 * noise or noise == 0:
            break
    gap = np.diff(obs.times[rows], axis=1)
    velocity = np.diff(y[rows], axis=1) / gap  # (windows, _LAGGED + 2)
    centre = y.mean()
    acceleration = (velocity[:, -1] - velocity[:, -2]) / gap[:, -1]
    explain = np.stack([velocity[:, -2], y[rows[:, -2]] - centre, np.ones(len(rows))], axis=1)
    instrument = np.stack([velocity[:, 0], y[rows[:, 0]] - centre, np.ones(len(rows))], axis=1)
    try:
        found = np.linalg.solve(instrument.T @ explain, instrument.T @ acceleration)
    except np.linalg.LinAlgError:
        return 0.0, 0.0
    return -float(found[0]), -float(found[1])


def _windows(
    path_starts: Int[Array, " _"], times: Float64[Array, " points"], stride: int, length: int
) -> Int[Array, "windows length"]:
    """Numbers of `length` observations of one path, `stride` apart."""
    path = np.repeat(np.arange(len(path_starts) - 1), np.diff(path_starts))
    last = (length - 1) * stride
    first = np.arange(max(len(times) - last, 0))
    first = first[path[first] == path[first + last]]
    return first[:, None] + stride * np.arange(length)


def _nth(number: int) -> str:
    return {1: "", 2: "2nd", 3: "3rd"}.get(number, f"{number}th")
