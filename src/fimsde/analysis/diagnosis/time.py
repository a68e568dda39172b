"""Does the equation change with time? A trend, or a change of regime: each a further term of the drift.

dx = (f(x) + b t) dt + ...
dx = f_1(x) dt + ... before some time, f_2(x) dt + ... after it

Both are tested beside all terms that the drift itself may have had, and chances are corrected by data drawn from the
equation: a state that wanders has wider laws than the limits (Dickey and Fuller).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy import special
from scipy.ndimage import uniform_filter1d

from fimsde import distributions as stats
from fimsde.analysis.diagnosis.case import Case, fit_terms, responses, state_terms
from fimsde.analysis.diagnosis.season import Season
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict, chance
from fimsde.filter.kalman import Innovations
from fimsde.shapes import Array, Float64, Int

_CUTS = 120  # candidates for the time of a change; by hand: it is then known to a hundredth of the record
_SHORTEST = 0.1  # share of the record on either side of a change; by hand
_FEWEST = 10  # steps, likewise
_CUT_OFF = 4.0  # standard deviations: larger innovations count as these; one in 16 000 normal ones is
_AROUND = 50  # steps before and after whose mean square is the size of a step; by hand: it is known to a tenth
_LEAST_SIZE = 0.2  # of the expected one: bounds the weight of quiet times; by hand
_LARGEST = 5.0  # likewise, where sizes are compared
_LONG_RUN = 60  # steps over which a volatility may come and go; by hand
_CHANGED = 2  # terms of the drift that may change: the constant, and the slope in the component itself
# mean of the largest chi-square over 120 cuts with two degrees of freedom, by simulation of 12 000 Brownian bridges
_MEAN_LARGEST = 6.05


@dataclass(frozen=True)
class Found:
    """The most conspicuous candidate.

    Attributes:
        p_value: Over all components and candidates.
        component: Its number.
        number: Slope, or time.
    """

    p_value: float
    component: int
    number: float


def trend(case: Case, season: Season) -> Verdict:
    """A drift that grows with time, beside a season if there is one."""
    found = find_trend(case, season.period if season.p_value < FALSE_ALARM else None)
    shown = found.p_value < FALSE_ALARM
    name = case.names[found.component]
    sentence = (
        f"the drift of {name} changes by {found.number:.3g} per unit of time: {chance(found.p_value)}."
        if shown
        else f"the drift does not change steadily with time, {chance(found.p_value, 2)}."
    )
    advice = "Subtract the trend (a line, a slow curve) before estimating, or estimate a shorter record."
    wider = "dx = (f(x) + b t) dt + ..." if shown else ""
    status: Status = "bad" if shown else "good"
    return Verdict("trend", status, found.number, sentence, advice if shown else "", "class", found.p_value, wider)


def regime(case: Case, remembers: Callable[[Float64[Array, "n dim"]], bool], rival: float = 1.0) -> Verdict:
    """Another drift, or other noise, from some time on.

    Args:
        case: The case.
        remembers: Whether the sizes of innovations depend on sizes before. If they still do when the two parts are
            brought to one size, the volatility comes and goes by itself, and one change does not explain it.
        rival: p-value of steps that are too large, or of volatility. A drift that changes with less evidence than these
            is one of their traces: they carry the state to where nothing is known.
    """
    drift, noise = find_drift_change(case), find_noise_change(case)
    if drift.p_value > rival:
        drift = replace(drift, p_value=1.0)
    if noise.p_value < FALSE_ALARM and remembers(_levelled(case, noise.number)):
        noise = replace(noise, p_value=1.0)
    found = min(drift, noise, key=lambda f: f.p_value)
    p = min(1.0, 2 * found.p_value)
    shown = p < FALSE_ALARM
    what = "drift" if found is drift else "noise"
    sentence = (
        f"the {what} of {case.names[found.component]} changes at time {found.number:.4g}: {chance(p)}."
        if shown
        else f"neither drift nor noise changes at some time, {chance(p, 2)}."
    )
    advice = "Split the record there, and estimate both parts."
    wider = "one equation before that time and another one after it" if shown else ""
    number = found.number if shown else float("nan")
    status: Status = "bad" if shown else "good"
    return Verdict("change of regime", status, number, sentence, advice if shown else "", "class", p, wider)


def find_trend(case: Case, period: float | None = None) -> Found:
    """b in the drift b t, beside all terms in the state, and beside a season of known period."""
    dim = case.z.shape[1]
    best = Found(1.0, 0, 0.0)
    for j in range(dim):
        slope, chi_square = _trend_of(case.found, j, period)
        p = min(1.0, dim * float(stats.chi2.sf(chi_square, 1)))
        if p < FALSE_ALARM:
            wider = case.corrected(lambda found, j=j: _trend_of(found, j, period)[1], 1.0)  # type: ignore[misc]
            p = min(1.0, dim * float(stats.chi2.sf(chi_square / wider, 1)))
        if p < best.p_value:
            best = Found(p, j, slope)
    return best


def _trend_of(found: Innovations, component: int, period: float | None) -> tuple[float, float]:
    """Slope b and its chi-square."""
    half = max(float(np.ptp(found.times)) / 2, 1e-300)
    later = (found.times - float(np.mean(found.times))) / half
    terms = np.column_stack([later, state_terms(found.state, component)])
    if period is not None:
        turn = 2 * np.pi * found.times / period
        terms = np.column_stack([terms, np.cos(turn), np.sin(turn)])
    z, response = _steady(found, responses(found, component, terms))
    response = response.reshape(-1, terms.shape[1])
    term = fit_terms(z.ravel(), response[:, :1], response[:, 1:])
    return float(term.coefficient[0]) / half, term.chi_square


def find_drift_change(case: Case) -> Found:
    """Another constant and another slope in the state from some time on."""
    dim = case.z.shape[1]
    best = Found(1.0, 0, float("nan"))
    for j in range(dim):
        time, chi_square = _change_of(case.found, j)
        p = min(1.0, dim * chance_of_change(chi_square, _CHANGED))
        if p < FALSE_ALARM:
            wider = case.corrected(lambda found, j=j: _change_of(found, j)[1], _MEAN_LARGEST)  # type: ignore[misc]
            p = min(1.0, dim * chance_of_change(chi_square / wider, _CHANGED))
        if p < best.p_value:
            best = Found(p, j, time)
    return best


def _change_of(found: Innovations, component: int) -> tuple[float, float]:
    """The most likely time of a change, and the largest chi-square: score tests beside all terms in the state."""
    order = np.argsort(found.times, kind="stable")
    cuts = _cuts(found.times[order])
    if not len(cuts):
        return float("nan"), 0.0
    z, response = _steady(found, responses(found, component, state_terms(found.state, component)))
    z, response = z[order], response[order]  # (n, dim), (n, dim, terms)
    flat = response.reshape(-1, response.shape[2])
    fit = np.linalg.lstsq(flat, z.ravel(), rcond=1e-10)[0]
    left = z - response @ fit
    starts = np.concatenate([[0], cuts])
    pieces = list(zip(starts, [*cuts, len(z)], strict=True))
    moments = np.stack([np.tensordot(response[a:b], response[a:b], ((0, 1), (0, 1))) for a, b in pieces])
    scores = np.stack([np.tensordot(response[a:b, :, :_CHANGED], left[a:b], ((0, 1), (0, 1))) for a, b in pieces])
    before, score = np.cumsum(moments, axis=0)[:-1], np.cumsum(scores, axis=0)[:-1]
    own = before[:, :_CHANGED, :]
    inverse = np.linalg.pinv(moments.sum(axis=0), rcond=1e-10, hermitian=True)
    spread = own[:, :, :_CHANGED] - own @ inverse @ np.swapaxes(own, 1, 2)
    chi_square = np.einsum("ci,cij,cj->c", score, np.linalg.pinv(spread, rcond=1e-6, hermitian=True), score)
    worst = int(np.argmax(chi_square))
    return float(found.times[order[cuts[worst]]]), float(chi_square[worst])


def chance_of_change(chi_square: float, freedom: int) -> float:
    """P(the largest chi-square over all times of a change exceeds a number): Vostrikova's approximation (1981).

    x^k exp(-x²/2) / (2^(k/2) Γ(k/2)) (L - k L / x² + 4 / x²),  x² the chi-square, L = 2 ln((1 - h) / h)

    for k degrees of freedom and changes between the shares h and 1 - h of the record. An upper bound where it is small.
    """
    if chi_square <= freedom + 4:
        return 1.0
    log_range = 2 * np.log((1 - _SHORTEST) / _SHORTEST)
    log_front = freedom / 2 * np.log(chi_square / 2) - chi_square / 2 - special.gammaln(freedom / 2)
    times = log_range * (1 - freedom / chi_square) + 4 / chi_square
    return min(1.0, float(np.exp(log_front) * times))


def find_noise_change(case: Case) -> Found:
    """Another mean square of the innovations from some time on, against the spread of their squares.

    That spread is the one over long times, so that a volatility that comes and goes is no change.
    """
    order = np.argsort(case.found.times, kind="stable")
    squares = np.minimum(case.z[order] ** 2, _LARGEST**2)  # single large steps are the business of other verdicts
    n, dim = squares.shape
    best = Found(1.0, 0, float("nan"))
    cuts = _cuts(case.found.times[order])
    for j in range(dim):
        total = np.cumsum(squares[:, j] - squares[:, j].mean())
        if not len(cuts) or not total.any():
            continue
        scores = total[cuts - 1] / np.sqrt(cuts * (n - cuts) / n)
        worst = int(np.argmax(np.abs(scores)))
        cut = cuts[worst]
        level = np.where(np.arange(n) < cut, squares[:cut, j].mean(), squares[cut:, j].mean())
        chi_square = float(scores[worst]) ** 2 / _long_run_variance(squares[:, j] - level)
        p = min(1.0, dim * chance_of_change(chi_square, 1))
        if p < best.p_value:
            best = Found(p, j, float(case.found.times[order[cut]]))
    return best


def _levelled(case: Case, time: float) -> Float64[Array, "n dim"]:
    """Innovations with the same mean square before and after a time."""
    later = case.found.times >= time
    squares = np.minimum(case.z**2, _LARGEST**2)
    level = np.where(later[:, None], squares[later].mean(axis=0), squares[~later].mean(axis=0))
    return case.z / np.sqrt(np.where(level > 0, level, 1.0))


def _steady(found: Innovations, response: Float64[Array, "n dim terms"]) -> tuple[Array, Array]:
    """Innovations and responses over the size of the innovations around them, single large ones cut off.

    Jumps are no trend, and wild times say less about the drift than quiet ones.
    """
    z = np.clip(found.values, -_CUT_OFF, _CUT_OFF)
    size = np.sqrt(np.maximum(uniform_filter1d(z**2, 2 * _AROUND + 1, axis=0, mode="nearest"), _LEAST_SIZE**2))
    return z / size, response / size[:, :, None]


def _long_run_variance(values: Float64[Array, " n"]) -> float:
    """Variance plus twice the covariances over the next steps, with Bartlett's weights; not below the variance."""
    variance = float(values @ values) / len(values)
    lags = min(_LONG_RUN, len(values) // 10)
    total = variance
    for k in range(1, lags + 1):
        total += 2 * (1 - k / (lags + 1)) * float(values[k:] @ values[:-k]) / len(values)
    return max(total, variance, 1e-300)


def _cuts(times: Float64[Array, " n"]) -> Int[Array, " cuts"]:
    """Numbers of steps at which a change may have happened: some before, some after, and another time."""
    n = len(times)
    rows = np.unique(np.linspace(_SHORTEST * n, (1 - _SHORTEST) * n, _CUTS).astype(np.int64))
    rows = rows[(rows >= _FEWEST) & (rows <= n - _FEWEST)]
    return rows[times[rows] > times[rows - 1]]
