"""Does something drive the equation in a fixed rhythm? A season: a line in the spectrum of the innovations.

dx = (f(x) + a cos(2 pi t / period) + b sin(2 pi t / period)) dt + ...
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from fimsde.analysis.diagnosis.case import Case, without_memory
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict, chance
from fimsde.shapes import Array, Float64, Int

_FEWEST_CYCLES = 3.0  # in the record: of fewer nobody knows that they come back; by hand
_FINER = 4  # frequencies of the transform per resolved one, at least; by hand: peaks are met to 3 %
# from and to how many resolved frequencies away is the background of a line; by hand: a line is one wide on each side
_BACKGROUND = (2, 14)
_COLOURED = 1.5  # times the power of white noise: background from which it is estimated instead of known; by hand
_NEIGHBOURS = 24  # independent frequencies among these
_MOST_BINS = 2**18  # of time, in the periodogram: bounds memory; by hand
# peaks between resolved frequencies: sqrt(pi gain / 3) times as many chances (Baluev 2008, MNRAS 385, equation 6)
_BETWEEN = np.sqrt(np.pi / 3)


@dataclass(frozen=True)
class Season:
    """The most conspicuous line.

    Attributes:
        p_value: Over all components and frequencies.
        gain: In log-likelihood.
        component: Its number.
        period: In units of time.
    """

    p_value: float
    gain: float
    component: int
    period: float


def season(case: Case, found: Season) -> Verdict:
    """A line in the spectrum of the innovations."""
    shown = found.p_value < FALSE_ALARM
    name = case.names[found.component]
    sentence = (
        f"{name} is driven with a period of {found.period:.4g}: {chance(found.p_value)}."
        if shown
        else f"no period stands out of the innovations, {chance(found.p_value, 2)}."
    )
    advice = "Subtract the mean course over the period before estimating, or estimate each part of the period apart."
    wider = "dx = (f(x) + a cos(2πt/T) + b sin(2πt/T)) dt + ... with a period T" if shown else ""
    status: Status = "bad" if shown else "good"
    number = found.period if shown else float("nan")
    return Verdict("season", status, number, sentence, advice if shown else "", "class", found.p_value, wider)


def find_season(case: Case) -> Season:
    """max over frequencies of abs(sum z exp(2 pi i f t))² / sum z²: exponential for each, if nothing is periodic.

    That is what cosine and sine of a frequency gain in log-likelihood. A season keeps its phase: its line stands out of
    its neighbours, and is still there when everything that the last innovations say about the next one is taken away.
    Noise that swings back (second order) is not.
    """
    found = case.found
    clock = _Clock.of(found.times, found.dtau)
    best = Season(1.0, 0.0, 0, float("nan"))
    if clock is None:
        return best
    for j in range(case.z.shape[1]):
        if not case.z[:, j].any():  # nothing to judge
            continue
        z = _without_trend(case.z[:, j], found.times)
        left = _without_trend(without_memory(case.z[:, j], found.joined), found.times)
        gain, chance, peak = clock.line(z)
        swept = clock.line(left)[1] if chance < FALSE_ALARM else chance
        p = min(1.0, case.z.shape[1] * max(chance, swept))
        if p < best.p_value or best.gain == 0:
            best = Season(p, gain, j, 1 / _sharpened(z, found.times, peak, clock.span))
    return best


@dataclass(frozen=True, eq=False)
class _Clock:
    """Times in equal bins, and the frequencies that are looked at."""

    bins: Int[Array, " n"]
    num: int
    size: int
    span: float
    frequency: Float64[Array, " frequencies"]

    @staticmethod
    def of(times: Float64[Array, " n"], dtau: Float64[Array, " n"]) -> "_Clock | None":
        """None if the record is too short for any period."""
        span = float(times.max() - times.min())
        width = max(float(np.median(dtau)), span / _MOST_BINS)
        bins = np.round((times - times.min()) / width).astype(np.int64)
        num = int(bins.max()) + 1
        size = 1 << (_FINER * num - 1).bit_length()
        frequency = np.fft.rfftfreq(size, width)
        return _Clock(bins, num, size, span, frequency) if frequency[-1] * span >= _FEWEST_CYCLES else None

    def line(self, z: Float64[Array, " n"]) -> tuple[float, float, float]:
        """Gain, chance over all frequencies, and frequency of the largest line.

        The background is that of the neighbours if these are raised as well: noise may prefer a frequency.
        """
        power = np.abs(np.fft.rfft(np.bincount(self.bins, z, self.num), self.size)) ** 2 / max(float(z @ z), 1e-300)
        peak = int(np.argmax(np.where(self.frequency * self.span >= _FEWEST_CYCLES, power, 0.0)))
        gain = float(power[peak])
        chance = np.exp(-gain)
        if (level := _background(power, peak, self.size / self.num)) > _COLOURED:
            gain /= level
            chance = (1 + gain / _NEIGHBOURS) ** -_NEIGHBOURS  # Fisher's law: the level is a mean of so many
        between = max(1.0, _BETWEEN * np.sqrt(gain))
        return gain, min(1.0, self.num / 2 * between * float(chance)), float(self.frequency[peak])


def _without_trend(z: Float64[Array, " n"], times: Float64[Array, " n"]) -> Float64[Array, " n"]:
    """Innovations without mean and slope in time, which would leak into slow lines."""
    t = times - times.mean()
    z = z - z.mean()
    return z - t * float(t @ z) / max(float(t @ t), 1e-300)


def _background(power: Float64[Array, " frequencies"], peak: int, per_bin: float) -> float:
    """Mean power of the neighbours of a line; that of white noise is one."""
    near, far = (round(per_bin * k) for k in _BACKGROUND)
    away = np.abs(np.arange(len(power)) - peak)
    neighbours = power[(away >= near) & (away <= far)]
    return float(neighbours.mean()) if len(neighbours) else 1.0


def _sharpened(z: Float64[Array, " n"], times: Float64[Array, " n"], frequency: float, span: float) -> float:
    """The frequency at the top of the line."""

    def height(f: float) -> float:
        turn = np.exp(-2j * np.pi * f * times)
        return -float(np.abs(z @ turn))

    near = 0.5 / span
    bounds = (max(frequency - near, 0.5 * frequency), frequency + near)
    found = optimize.minimize_scalar(height, bounds=bounds, method="bounded", options={"maxiter": 20})
    return float(found.x)
