"""Do simulations look like the data? Statistics of the data against those of the equation on the same grid.

T_i = max_k abs(s_ik - median_k) / spread_k, both over the other data sets;  p = (1 + #{T_i >= T_0}) / (1 + replicates)

for the data (i = 0) and replicates of the equation: a Monte Carlo test, exact whatever the laws of the statistics s_k,
and over all of them at once. The spread is the one on the side of s_ik. Replicates come from the equation first. More
of them are simulated as long as the data are the most extreme of all (Besag and Clifford 1991), up to as many as a
verdict needs; the next ones come from draws of the posterior, where there are some, so that an equation known roughly
is not blamed for it.
"""

from collections.abc import Iterator

import numpy as np

from fimsde.analysis.diagnosis.case import Case
from fimsde.analysis.diagnosis.verdict import Status, Verdict
from fimsde.analysis.replay import Replay
from fimsde.shapes import Array, Float64, Int

_LAGS = (0.5, 0.1)  # autocorrelations at which those of data and simulations are compared; by hand
_TRIFLE = 0.02  # of the spread of the data, and of correlations: differences nobody sees; by hand
_NEEDED = 199  # replicates of which the data must be the most extreme: a right equation fails once in 200 data sets
# times as far away as any of so many replicates: then fewer will do, and the verdict is bad; by hand
_FARTHER, _SOME = 2.0, 59
_FEWEST = 5  # replicates that stay finite; by hand: of fewer nothing is compared
_BEYOND = 1.0  # ranges of the data, on every side: from there on nothing is known; by hand
_PROBES = 5000  # simulated states at which the data are asked for; by hand: a share is then known to a percent
_VISIBLE, _LARGE = 0.15, 0.4  # shares of states beyond that; by hand: a short record may be left by chance


def simulated_like_observed(case: Case, *, explained: bool = False) -> Verdict:
    """Mean, spread, extremes, auto- and cross-correlations of the data among those of simulations.

    Args:
        case: The case.
        explained: Whether another verdict names a reason already, so that a first look will do.
    """
    lags = _lags(case.played)
    names, least, rows = _statistics(case.played, lags)
    far, which, batch = *_distances(rows, least), 1
    while _is_open(far) and not explained:
        more = _statistics(case.replayed(batch), lags)[2][1:]
        rows, batch = np.concatenate([rows, more]), batch + 1
        far, which = _distances(rows, least) if len(more) else (far[:1], which)  # all diverge: nothing to compare
    others = far[1:]
    p = (1 + int(np.sum(others >= far[0]))) / len(far)
    clear = len(others) >= _FEWEST and far[0] > _FARTHER * float(others.max())
    shown = p == 1 / len(far) and (clear or len(others) >= _NEEDED)
    worst, larger = names[which[0]], rows[0, which[0]] > float(np.median(rows[1:, which[0]])) if shown else False
    sentence = f"simulations look like the data in density, correlations and extremes, p = {p:.2g}."
    if shown:
        sentence = (
            f"{worst} is {'larger' if larger else 'smaller'} in the data than in all of {len(others)} simulations."
        )
    advice = "Do not simulate with this equation before the reason is known." if shown else ""
    status: Status = "good" if not shown else "bad" if clear else "caution"
    return Verdict("simulated like observed", status, float(far[0]), sentence, advice, "fit", p)


def _is_open(far: Float64[Array, " sets"]) -> bool:
    """Whether more replicates may tell: the data are the most extreme of all, and not yet among enough of them."""
    others = far[1:]
    if len(others) < _FEWEST or len(others) >= _NEEDED or far[0] <= float(others.max()):
        return False
    return len(others) < _SOME or bool(far[0] <= _FARTHER * float(others.max()))


def _statistics(
    played: Replay, lags: list[list[int]]
) -> tuple[list[str], Float64[Array, " statistics"], Float64[Array, "sets statistics"]]:
    """Names, least spreads, and a row for the data and for every replicate that stays finite."""
    found = list(compared(played, lags))
    rows = np.stack([np.concatenate([[own], others]) for _, own, others, _ in found], axis=1)
    known = np.isfinite(rows[0])
    rows, names = rows[:, known], [name for (name, *_), keep in zip(found, known, strict=True) if keep]
    finite = np.isfinite(rows).all(axis=1)
    if finite[1:].sum() < len(played.values) / 2:
        finite[1:] = False
    return names, np.array([least for *_, least in found])[known], rows[finite]


def _distances(
    rows: Float64[Array, "sets statistics"], least: Float64[Array, " statistics"]
) -> tuple[Float64[Array, " sets"], Int[Array, " sets"]]:
    """How far each data set is from all others in its most extreme statistic, and which one that is."""
    away = np.zeros(rows.shape)
    for i in range(len(rows) if len(rows) > 2 else 0):
        others = np.delete(rows, i, axis=0)
        apart = others - (centre := np.median(others, axis=0))
        side = np.where(rows[i] >= centre, apart >= 0, apart <= 0)
        spread = np.sqrt(np.sum(apart**2 * side, axis=0) / side.sum(axis=0))
        away[i] = np.abs(rows[i] - centre) / np.maximum(spread, least)
    return away.max(axis=1, initial=0.0), away.argmax(axis=1)


def compared(
    played: Replay, lags: list[list[int]]
) -> Iterator[tuple[str, float, Float64[Array, " replicates"], float]]:
    """Name, value of the data, values of the replicates, and the least spread of them, of everything compared."""
    observed, names = played.observed, played.observed.names
    with np.errstate(all="ignore"):
        for j, name in enumerate(names):
            own, others = observed.values[:, j], played.values[:, :, j]
            least = _TRIFLE * float(own.std())
            yield f"the mean of {name}", float(own.mean()), others.mean(axis=1), least
            yield f"the spread of {name}", float(np.log(own.std())), np.log(others.std(axis=1)), _TRIFLE
            yield f"the largest value of {name}", float(own.max()), others.max(axis=1), least
            yield f"the smallest value of {name}", float(own.min()), others.min(axis=1), least
            for lag in lags[j]:
                at = f"the autocorrelation of {name} over {played.lags[lag]} observations"
                known = _fisher(played.observed_correlation[lag : lag + 1, j])
                yield at, float(known[0]), _fisher(played.correlation[:, lag, j]), _TRIFLE
        for i in range(len(names)):
            for j in range(i + 1, len(names)):
                own = _fisher(np.corrcoef(observed.values[:, i], observed.values[:, j])[:1, 1])
                others = _fisher(np.array([np.corrcoef(v[:, i], v[:, j])[0, 1] for v in played.values]))
                yield f"the correlation of {names[i]} and {names[j]}", float(own[0]), others, _TRIFLE


def extrapolation(case: Case) -> Verdict:
    """Share of simulated states beyond the data, when the record is simulated again from its starts.

    It counts if records of the equation do not leave each other as far: a short one is left by chance.
    """
    played = case.played
    finite = [values[np.isfinite(values).all(axis=-1)] for values in (played.observed.values, *played.values)]
    known = sum(map(len, finite[1:])) / max(played.values.shape[0] * played.values.shape[1], 1)
    inside = [_within(finite, i) for i in range(len(finite)) if len(finite[i])]
    beyond = 1 - known * inside[0]
    left = 1 - known if inside[0] >= min(inside[1:], default=0.0) else beyond  # paths that diverge are no chance
    states = np.concatenate(finite[1:])
    alone = 1 - float(np.mean(case.inside(states[:: -(-len(states) // _PROBES)]))) if len(states) else 1.0
    status: Status = "bad" if left > _LARGE else "caution" if left > _VISIBLE else "good"
    lost = f", and {played.num_diverged} of {played.num_simulated} paths diverge." if played.num_diverged else "."
    sentence = (
        f"{beyond:.1%} of simulated states lie farther outside the data than these are wide, {alone:.1%} where no "
        f"data are near{lost}"
    )
    advice = "Do not trust simulations, densities and exit times there: record data that reach these states."
    return Verdict("extrapolation", status, beyond, sentence, advice if status != "good" else "", "fit")


def _within(sets: list[Float64[Array, "_ dim"]], number: int) -> float:
    """Share of the states of all simulated data sets but one within the range of that one, and as much around it."""
    low, high = sets[number].min(axis=0), sets[number].max(axis=0)
    around = _BEYOND * (high - low)
    others = np.concatenate([states for k, states in enumerate(sets) if k not in (0, number)] or [sets[number]])
    return float(np.mean(np.all((others >= low - around) & (others <= high + around), axis=1))) if len(others) else 0.0


def _lags(played: Replay) -> list[list[int]]:
    """Where the mean autocorrelation of data and simulations has fallen to a half and to a tenth, per component."""
    everyone = np.concatenate([played.observed_correlation[None], played.correlation])
    with np.errstate(all="ignore"):
        mean = np.nan_to_num(np.nanmean(everyone, axis=0), nan=1.0)  # (lags, dim)
    falls = [[np.flatnonzero(column < level) for level in _LAGS] for column in mean.T]
    return [sorted({int(below[0]) for below in levels if len(below)}) for levels in falls]


def _fisher(rho: Float64[Array, "*lead"]) -> Float64[Array, "*lead"]:
    """artanh: differences of correlations near one count as much as others."""
    return np.arctanh(np.clip(rho, -0.99, 0.99))
