"""Do simulations look like the data? Statistics of the data against those of the equation on the same grid.

t = (s - median of the replicates) / (their spread on that side sqrt(1 + pi / 2 replicates)): Student's law, nearly, if
data and replicates come from one equation and either half of the statistic is near to normal. Replicates come from
draws of the posterior where the method has one, so that an equation known roughly is not blamed for it.
"""

from collections.abc import Iterator

import numpy as np
from scipy import stats

from fimsde.analysis.diagnosis.case import Case
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict
from fimsde.analysis.replay import Replay
from fimsde.shapes import Array, Float64
from fimsde.simulate import simulate

_LAGS = (0.5, 0.1)  # autocorrelations of the data at which those of simulations are compared; by hand
_TRIFLE = 0.02  # of the spread of the data, and of correlations: differences nobody sees; by hand
_SIMULATED, _STEPS = 50, 250  # paths and steps for the share of extrapolation; by hand: bounds seconds
_SUBSTEPS = 4  # per step; by hand: a quarter of the error of one Euler step
_BEYOND = 0.5  # of the range of the data, on every side: from there on nothing is known; by hand
_VISIBLE, _LARGE = 0.15, 0.4  # shares of states beyond that; by hand: a short record may be left by chance


def simulated_like_observed(case: Case) -> Verdict:
    """Density, autocorrelation, cross-correlation and extremes; the worst of them."""
    played = case.played
    worst, p, count, score = "", 1.0, 0, 0.0
    for name, own, others, trifle in compared(played):
        known = others[np.isfinite(others)]
        count += 1
        if len(known) < max(3, len(others) // 2):
            continue
        t, freedom = _score(own, known, trifle)
        found = 2 * float(stats.t.sf(abs(t), freedom))
        if found < p:
            worst, p, score = name, found, t
    p = min(1.0, p * max(count, 1))
    shown = p < FALSE_ALARM
    status: Status = "good" if not shown else "bad" if p < FALSE_ALARM**2 else "caution"
    more = "more" if score > 0 else "less"
    sentence = f"simulations look like the data in density, correlations and extremes, p = {p:.2g}."
    if shown:
        sentence = f"{worst} of the data is {more} than in simulations, p = {p:.1g}."
    advice = "Do not simulate with this equation before the reason is known." if shown else ""
    return Verdict("simulated like observed", status, score, sentence, advice, "fit", p)


def _score(own: float, known: Float64[Array, " replicates"], trifle: float) -> tuple[float, int]:
    """Student's t of the data among replicates, and its degrees of freedom.

    Extremes and correlations are skew: the spread is that of the replicates on the side of the data, around the median.
    """
    centre = float(np.median(known))
    side = known[known >= centre] if own >= centre else known[known <= centre]
    spread = max(float(np.sqrt(np.mean((side - centre) ** 2))), trifle)
    return (own - centre) / (spread * np.sqrt(1 + np.pi / 2 / len(known))), max(len(side) - 1, 1)


def compared(played: Replay) -> Iterator[tuple[str, float, Float64[Array, " replicates"], float]]:
    """Name, value of the data, values of the replicates, and the least spread of them, of everything compared."""
    observed, names = played.observed, played.observed.names
    with np.errstate(all="ignore"):
        for j, name in enumerate(names):
            own, others = observed.values[:, j], played.values[:, :, j]
            least = _TRIFLE * float(own.std())
            yield f"the mean of {name}", float(own.mean()), others.mean(axis=1), least
            yield f"the spread of {name}", float(np.log(own.std())), np.log(others.std(axis=1)), _TRIFLE
            yield f"the largest value of {name}", float(own.max()), others.max(axis=1), least
            yield f"minus the smallest value of {name}", float(-own.min()), -others.min(axis=1), least
            for lag in _lags(played, j):
                at = f"the autocorrelation of {name} over {played.lags[lag]} observations"
                known = _fisher(played.observed_correlation[lag : lag + 1, j])
                yield at, float(known[0]), _fisher(played.correlation[:, lag, j]), _TRIFLE
        for i in range(len(names)):
            for j in range(i + 1, len(names)):
                own = _fisher(np.corrcoef(observed.values[:, i], observed.values[:, j])[:1, 1])
                others = _fisher(np.array([np.corrcoef(v[:, i], v[:, j])[0, 1] for v in played.values]))
                yield f"the correlation of {names[i]} and {names[j]}", float(own[0]), others, _TRIFLE


def extrapolation(case: Case) -> Verdict:
    """Share of simulated states beyond the data, from observed states over as many steps as a path was observed."""
    found, rng = case.found, np.random.default_rng(case.seed)
    starts = found.state[rng.integers(len(found.state), size=_SIMULATED)]
    longest = int(np.diff(case.observations.path_starts).max()) - 1
    times = np.arange(min(_STEPS, longest) + 1) * float(np.median(found.dtau))
    paths = simulate(case.sde, starts, times, substeps=_SUBSTEPS, seed=case.seed)
    low, high = case.observations.box(_BEYOND)
    states = paths.values[paths.mask]
    beyond = 1 - float(np.mean(np.all((states >= low) & (states <= high), axis=1))) * float(paths.mask.mean())
    alone = 1 - float(np.mean(case.inside(states))) if len(states) else 1.0
    status: Status = "bad" if beyond > _LARGE else "caution" if beyond > _VISIBLE else "good"
    sentence = (
        f"{beyond:.1%} of simulated states lie farther outside the data than half their range, {alone:.1%} where no "
        "data are near" + (f", and {paths.num_diverged} of {_SIMULATED} paths diverge." if paths.num_diverged else ".")
    )
    advice = "Do not trust simulations, densities and exit times there: record data that reach these states."
    return Verdict("extrapolation", status, beyond, sentence, advice if status != "good" else "", "fit")


def _lags(played: Replay, component: int) -> list[int]:
    """Where the autocorrelation of the data has fallen to a half and to a tenth."""
    own = played.observed_correlation[:, component]
    lags = set()
    for level in _LAGS:
        below = np.flatnonzero(own < level)
        if len(below):
            lags.add(int(below[0]))
    return sorted(lag for lag in lags if lag < len(own))


def _fisher(rho: Float64[Array, "*lead"]) -> Float64[Array, "*lead"]:
    """artanh: differences of correlations near one count as much as others."""
    return np.arctanh(np.clip(rho, -0.99, 0.99))
