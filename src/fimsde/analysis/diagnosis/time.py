"""Does the equation change with time? A season, a trend, a change of regime: each a further term of the drift.

dx = (f(x) + a cos(2 pi t / period) + b sin(2 pi t / period)) dt + ...
dx = (f(x) + b t) dt + ...
dx = f_1(x) dt + ... before some time, f_2(x) dt + ... after it
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from fimsde.analysis.diagnosis.case import Case, fit_terms
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict
from fimsde.shapes import Array, Float64

# by which scores of trends, and of changes, are divided: their laws have wider tails than the normal one if the state
# itself wanders (Dickey and Fuller). Ratios of the 99.9 % quantiles for Brownian motion, the worst case, by simulation
# of 3000 records: 1.32 and 1.14
WANDERING, CHANGING = 1.35, 1.15
_FEWEST_CYCLES = 3.0  # in the record: of fewer nobody knows that they come back; by hand
# from and to how many resolved frequencies away is the background of a line; by hand: Hann's window spreads a line over
# two on each side
_BACKGROUND = (3, 15)
_COLOURED = 1.5  # times the power of white noise: background from which it is estimated instead of known; by hand
_NEIGHBOURS = 16  # independent ones among these: 24, of which Hann's window makes two out of three alike
_POWERS = 4  # of the state, from the constant on, that are fitted beside a change: those of the bank
_CUTS = 40  # candidates for the time of a change, between a tenth and nine tenths of the record; by hand
_SHORTEST = 0.1
_LONG_RUN = 60  # steps over which a volatility may come and go; by hand
_MOST_BINS = 2**18  # of time, in the periodogram: bounds memory; by hand


@dataclass(frozen=True)
class Found:
    """The most conspicuous candidate.

    Attributes:
        p_value: Over all components and candidates.
        gain: In log-likelihood.
        component: Its number.
        number: Period, slope or time.
    """

    p_value: float
    gain: float
    component: int
    number: float


def season(case: Case) -> Verdict:
    """A line in the spectrum of the innovations."""
    found = find_season(case)
    shown = found.p_value < FALSE_ALARM
    name = case.names[found.component]
    sentence = (
        f"{name} is driven with a period of {found.number:.4g}: p = {found.p_value:.1g}."
        if shown
        else f"no period stands out of the innovations, p = {found.p_value:.2g}."
    )
    advice = "Subtract the mean course over the period before estimating, or estimate each part of the period apart."
    wider = "dx = (f(x) + a cos(2πt/T) + b sin(2πt/T)) dt + ... with a period T" if shown else ""
    status: Status = "bad" if shown else "good"
    number = found.number if shown else float("nan")
    return Verdict("season", status, number, sentence, advice if shown else "", "class", found.p_value, wider)


def trend(case: Case) -> Verdict:
    """A drift that grows with time."""
    found = find_trend(case)
    shown = found.p_value < FALSE_ALARM
    name = case.names[found.component]
    sentence = (
        f"the drift of {name} changes by {found.number:.3g} per unit of time: p = {found.p_value:.1g}."
        if shown
        else f"the drift does not change steadily with time, p = {found.p_value:.2g}."
    )
    advice = "Subtract the trend (a line, a slow curve) before estimating, or estimate a shorter record."
    wider = "dx = (f(x) + b t) dt + ..." if shown else ""
    status: Status = "bad" if shown else "good"
    return Verdict("trend", status, found.number, sentence, advice if shown else "", "class", found.p_value, wider)


def regime(case: Case) -> Verdict:
    """Another drift, or other noise, from some time on."""
    drift, noise = find_drift_change(case), find_noise_change(case)
    found = min(drift, noise, key=lambda f: f.p_value)
    p = min(1.0, 2 * found.p_value)
    shown = p < FALSE_ALARM
    what = "drift" if found is drift else "noise"
    sentence = (
        f"the {what} of {case.names[found.component]} changes at time {found.number:.4g}: p = {p:.1g}."
        if shown
        else f"neither drift nor noise changes at some time, p = {p:.2g}."
    )
    advice = "Split the record there, and estimate both parts."
    wider = "one equation before that time and another one after it" if shown else ""
    number = found.number if shown else float("nan")
    status: Status = "bad" if shown else "good"
    return Verdict("change of regime", status, number, sentence, advice if shown else "", "class", p, wider)


def find_season(case: Case) -> Found:
    """max over frequencies of abs(sum w z exp(2 pi i f t))² / sum w² z²: exponential for each, if nothing is periodic.

    The background around a line is that of its neighbours if these are raised as well: noise may prefer a frequency
    without keeping its phase, which is no season.
    """
    found = case.found
    span = float(found.times.max() - found.times.min())
    width = max(float(np.median(found.dtau)), span / _MOST_BINS)
    bins = np.round((found.times - found.times.min()) / width).astype(np.int64)
    num = int(bins.max()) + 1
    size = 1 << (4 * num - 1).bit_length()  # twice as fine as resolved at least
    frequency = np.fft.rfftfreq(size, width)
    allowed = frequency * span >= _FEWEST_CYCLES
    best = Found(1.0, 0.0, 0, float("nan"))
    if not allowed.any():
        return best
    per_bin = size / num  # frequencies of the transform per resolved one
    for j in range(case.z.shape[1]):
        z = case.z[:, j] - case.z[:, j].mean()
        window = 1 - np.cos(2 * np.pi * (bins + 0.5) / num)  # Hann's
        power = np.abs(np.fft.rfft(np.bincount(bins, window * z, num), size)) ** 2
        power /= max(float((window * z) @ (window * z)), 1e-300)
        peak = int(np.argmax(np.where(allowed, power, 0.0)))
        gain = float(power[peak])
        chance = np.exp(-gain)
        if (level := _background(power, peak, per_bin)) > _COLOURED:
            gain /= level
            chance = (1 + gain / _NEIGHBOURS) ** -_NEIGHBOURS  # Fisher's law: the level is a mean of so many
        p = min(1.0, case.z.shape[1] * num * float(chance))
        if p < best.p_value or best.gain == 0:
            best = Found(p, gain, j, 1 / float(frequency[peak]))
    return best


def _background(power: Float64[Array, " frequencies"], peak: int, per_bin: float) -> float:
    """Mean power of the neighbours of a line; that of white noise is one."""
    near, far = (round(per_bin * k) for k in _BACKGROUND)
    away = np.abs(np.arange(len(power)) - peak)
    neighbours = power[(away >= near) & (away <= far)]
    return float(neighbours.mean()) if len(neighbours) else 1.0


def find_trend(case: Case) -> Found:
    """b in the drift b t, beside changes of the constant and of the slope in the state."""
    found, dim = case.found, case.z.shape[1]
    middle, half = float(np.mean(found.times)), float(np.ptp(found.times)) / 2
    best = Found(1.0, 0.0, 0, 0.0)
    for j in range(dim):
        terms = np.zeros((len(found.dtau), dim, 3))
        terms[:, j, 0], terms[:, j, 1] = 1.0, found.state[:, j] - found.state[:, j].mean()
        terms[:, j, 2] = (found.times - middle) / max(half, 1e-300)
        response = found.response(terms).reshape(-1, 3)
        term = fit_terms(case.z.ravel(), response[:, 2:], response[:, :2])
        p = min(1.0, dim * 2 * stats.norm.sf(np.sqrt(term.chi_square) / WANDERING))
        if p < best.p_value:
            best = Found(p, term.chi_square / 2, j, float(term.coefficient[0]) / max(half, 1e-300))
    return best


def find_drift_change(case: Case) -> Found:
    """Another constant, or another slope in the state, from some time on: the largest of their scores."""
    found, dim = case.found, case.z.shape[1]
    order = np.argsort(found.times, kind="stable")
    cuts = _cuts(found.times[order])
    best = Found(1.0, 0.0, 0, float("nan"))
    for j in range(dim):
        x = (found.state[:, j] - found.state[:, j].mean()) / max(float(found.state[:, j].std()), 1e-300)
        terms = np.zeros((len(found.dtau), dim, _POWERS))
        terms[:, j] = x[:, None] ** np.arange(_POWERS)
        response = found.response(terms)[order]  # (n, dim, powers)
        moments = np.cumsum(np.einsum("ndk,ndl->nkl", response, response), axis=0)
        inverse = np.linalg.pinv(moments[-1], rcond=1e-12)
        fit = inverse @ np.einsum("ndk,nd->k", response, case.z[order])
        scores = np.cumsum(np.einsum("ndk,nd->nk", response, case.z[order] - response @ fit), axis=0)
        for cut in cuts:
            before = moments[cut - 1]
            spread = np.diagonal(before - before @ inverse @ before)[:2]
            z = np.divide(scores[cut - 1, :2], np.sqrt(np.maximum(spread, 0)), out=np.zeros(2), where=spread > 0)
            size = float(np.abs(z).max()) / CHANGING
            p = min(1.0, dim * len(cuts) * 4 * float(stats.norm.sf(size)))
            if p < best.p_value:
                best = Found(p, size**2 / 2, j, float(found.times[order[cut]]))
    return best


def find_noise_change(case: Case) -> Found:
    """Another mean square of the innovations from some time on, against the spread of their squares.

    That spread is the one over long times, so that a volatility that comes and goes is no change.
    """
    order = np.argsort(case.found.times, kind="stable")
    squares = np.minimum(case.z[order] ** 2, 25.0)  # single large steps are the business of other verdicts
    n, dim = squares.shape
    best = Found(1.0, 0.0, 0, float("nan"))
    cuts = _cuts(case.found.times[order])
    for j in range(dim):
        total = np.cumsum(squares[:, j] - squares[:, j].mean())
        if not cuts or not total.any():
            continue
        rows = np.array(cuts)
        scores = total[rows - 1] / np.sqrt(rows * (n - rows) / n)
        worst = int(np.argmax(np.abs(scores)))
        cut = cuts[worst]
        level = np.where(np.arange(n) < cut, squares[:cut, j].mean(), squares[cut:, j].mean())
        z = abs(float(scores[worst])) / np.sqrt(_long_run_variance(squares[:, j] - level))
        p = min(1.0, dim * len(cuts) * 2 * float(stats.norm.sf(z)))
        if p < best.p_value:
            best = Found(p, z**2 / 2, j, float(case.found.times[order[cut]]))
    return best


def _long_run_variance(values: Float64[Array, " n"]) -> float:
    """Variance plus twice the covariances over the next steps, with Bartlett's weights; not below the variance."""
    variance = float(values @ values) / len(values)
    lags = min(_LONG_RUN, len(values) // 10)
    total = variance
    for k in range(1, lags + 1):
        total += 2 * (1 - k / (lags + 1)) * float(values[k:] @ values[:-k]) / len(values)
    return max(total, variance, 1e-300)


def _cuts(times: Float64[Array, " n"]) -> list[int]:
    """Numbers of steps at which a change may have happened: some before, some after, and another time."""
    n = len(times)
    rows = np.unique(np.linspace(_SHORTEST * n, (1 - _SHORTEST) * n, _CUTS).astype(int))
    return [int(row) for row in rows if 10 <= row <= n - 10 and times[row] > times[row - 1]]
