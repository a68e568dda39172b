"""Steps that are too large for normal noise: jumps, heavy tails, or a volatility that remembers.

dx = f(x) dt + sigma(x) dW + jumps of a rate and a size
dx = f(x) dt + sigma(x) dL with noise L of Student's law
dx = f(x) dt + s sigma(x) dW with a volatility s of its own equation
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize
from scipy.ndimage import median_filter

from fimsde import distributions as stats
from fimsde.analysis.diagnosis.case import Case, without_memory
from fimsde.analysis.diagnosis.sizes import unexplained
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict, chance
from fimsde.analysis.residuals import Residuals, lagged, non_normality
from fimsde.shapes import Array, Float64

# p-value of tests on sizes of steps: where an estimate is off, steps look larger, which mixes sizes. Fields
# from a few hundred observations are off by more than a level of a thousandth lets pass; by hand
SURE = 1e-5
_ROUNDS = 60  # of expectation and maximisation for the mixture; by hand: converged to a percent
_FREEDOMS = (2.1, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 25.0, 50.0)  # of Student's law; by hand: a factor of 1.5
_NARROWEST = 1e-4  # of the typical square: the smaller size of a mixture, which shrinks to nothing on equal values
_WIDEST = 1e6  # typical steps: larger ones count as this large; by hand
_MOST_JUMPS = 0.15  # of steps; where more are large they are no exceptions; by hand
_LEAST_JUMP = 3.0  # standard deviations of a step: size of jumps; by hand: smaller ones cannot be told from noise
_LAGS = (1, 2, 3, 4, 5, 8, 12, 20, 30, 50)  # of the memory of the volatility; by hand: growing by a half
_VISIBLE, _LARGE = 0.2, 1.0  # excess kurtosis; by hand: steps beyond four deviations are then four times as frequent
_BEYOND, _MEDIAN = (3.5, 4.5), 1.4826  # deviations from which steps are counted; one over the median of abs(normal)
_NEAR = 50  # neighbours on either side by the state, whose median is the typical size; by hand: known to a tenth
_NO_NOISE, _FEWEST_JUMPS = 5.0, 4  # deviations, one in two million; large steps of which a size is read; by hand
_REMEMBERED = 0.05  # correlation of sizes; by hand: a quarter of a percent of their variance
_FARTHEST = 6.0  # deviations at which steps are cut off for a comparison of moments, so that these have errors


@dataclass(frozen=True)
class Tails:
    """What large steps look like, in one component.

    Attributes:
        component: Its number.
        p_value: That steps are those of the equation, over all components.
        kurtosis: Excess over that of the steps of the equation.
        share: Of steps that are jumps, if they are a mixture.
        size: Standard deviation of jumps, in standard deviations of a step.
        freedom: Degrees of freedom, if steps follow Student's law.
        gain: In log-likelihood of the mixture, and of Student's law, over the normal one.
        volatility_p: That sizes of steps do not depend on sizes before.
        volatility: Correlation of sizes over one step.
    """

    component: int
    p_value: float
    kurtosis: float
    share: float
    size: float
    freedom: float
    gain: tuple[float, float]
    volatility_p: float
    volatility: float


def find_tails(case: Case, r: Residuals) -> Tails:
    """Look at the component whose steps are the least like those of the equation."""
    normal = non_normality(r)
    p, j, kurtosis = normal.p_value, normal.component, normal.size
    z = case.z[:, j]
    if not z.any():
        return Tails(j, 1.0, 0.0, 0.0, 1.0, np.inf, (0.0, 0.0), *_volatility(case, r))
    share, size, mixture = _mixture(z)
    share, size = _beyond(_without_places(z, case.found.state[:, j]), share, size)
    freedom, student = _student(z)
    if p < FALSE_ALARM:  # steps of the equation itself may be no more normal
        drawn = case.drawn[:, j]
        p, kurtosis = max(p, _unlike(z, drawn)), normal.size - _kurtosis(drawn)
        if kurtosis > 0:  # what wider tails gain in log-likelihood beyond what they gain on steps of the equation
            gain = max(mixture, student) - max(_mixture(drawn)[2], _student(drawn)[1]) * len(z) / len(drawn)
            p = min(p, 2 * case.z.shape[1] * float(stats.chi2.sf(2 * max(gain, 0.0), 2)))
    volatility_p, volatility = _volatility(case, r)
    return Tails(j, p, kurtosis, share, size, freedom, (mixture, student), volatility_p, volatility)


def verdicts(case: Case, found: Tails) -> tuple[Verdict, Verdict, Verdict]:
    """Jumps, heavy tails and volatility: at most one of the first two is named."""
    heavy = found.p_value < SURE and found.kurtosis > _VISIBLE
    remembers = found.volatility_p < SURE and found.volatility > _REMEMBERED
    jumps = heavy and found.gain[0] > found.gain[1] and found.share < _MOST_JUMPS and found.size > _LEAST_JUMP
    return _jumps(case, found, jumps), _heavy(case, found, heavy and not jumps), _remembers(case, found, remembers)


def _jumps(case: Case, found: Tails, shown: bool) -> Verdict:
    name, gap = case.names[found.component], float(np.mean(case.found.dtau))
    raw = np.abs(case.found.plain * case.found.std)[:, found.component]
    step = float(np.median(raw)) * _MEDIAN  # of the steps that are no jumps
    rate = found.share / gap
    sentence = f"no step is out of line, {chance(found.p_value, 2)}."
    advice = "Take them out (split the paths there), or simulate them on top: their rate and size are known now."
    if shown:
        sentence = (
            f"{name} jumps about {rate:.3g} times per unit of time, by {found.size * step:.3g} (standard "
            f"deviation){_others(case, found.component)}: {chance(found.p_value)}."
        )
    wider = "dx = f(x) dt + σ(x) dW + dJ with a Poisson process J" if shown else ""
    number = rate if shown else 0.0
    status: Status = "bad" if shown else "good"
    return Verdict("jumps", status, number, sentence, advice if shown else "", "class", found.p_value, wider)


def _others(case: Case, component: int) -> str:
    """Which other components jump, and whether at the same moments."""
    size = np.maximum(_MEDIAN * np.median(np.abs(case.z), axis=0), 1e-300)
    large = (np.abs(case.z) > _NO_NOISE * size) & case.z.any(axis=0)
    parts = []
    for k, name in enumerate(case.names):
        num, together = int(large[:, k].sum()), int((large[:, k] & large[:, component]).sum())
        if k != component and num >= _FEWEST_JUMPS:
            parts.append(f"{name} {'at the same moments' if 2 * together > num else 'at others'}")
    return f", {' and '.join(parts)} as well" if parts else ""


def _heavy(case: Case, found: Tails, shown: bool) -> Verdict:
    name = case.names[found.component]
    law = f": those of Student's law with {found.freedom:.2g} degrees of freedom" if np.isfinite(found.freedom) else ""
    sentence = (
        "steps have the tails of the equation."
        if not shown
        else f"steps of {name} have heavy tails{law} (excess kurtosis {found.kurtosis:.2g}), {chance(found.p_value)}."
    )
    advice = "Trust drift and typical sizes, not extremes: simulations have fewer large steps than the data."
    wider = "dx = f(x) dt + σ(x) dL with noise L of Student's law" if shown else ""
    status: Status = "good" if not shown else "bad" if found.kurtosis >= _LARGE else "caution"
    return Verdict(
        "heavy tails", status, found.kurtosis, sentence, advice if shown else "", "class", found.p_value, wider
    )


def _remembers(case: Case, found: Tails, shown: bool) -> Verdict:
    sentence = f"sizes of steps do not depend on sizes before, {chance(found.volatility_p, 2)}."
    advice = (
        "Quiet and wild times are no property of the state: estimate them apart, or add a volatility as a component."
    )
    if shown:
        sentence = (
            f"the volatility remembers: large steps follow large ones (correlation of sizes {found.volatility:.2f}, "
            f"{chance(found.volatility_p)})."
        )
    wider = "dx = f(x) dt + s σ(x) dW with a volatility s of its own equation (GARCH)" if shown else ""
    status: Status = "bad" if shown else "good"
    p = found.volatility_p
    return Verdict("volatility", status, found.volatility, sentence, advice if shown else "", "class", p, wider)


def _without_places(z: Float64[Array, " n"], state: Float64[Array, " n"]) -> Float64[Array, " n"]:
    """Innovations over their typical size where the state is, by medians, which jumps hardly move.

    An estimate takes jumps for diffusion where they happened, so that steps there look smaller than they are.
    """
    order = np.argsort(state, kind="stable")
    typical = np.empty(len(z))
    typical[order] = median_filter(np.abs(z[order]), 2 * _NEAR + 1, mode="nearest")
    return z * (float(np.median(np.abs(z))) / np.maximum(typical, 0.1 * float(np.median(np.abs(z))) + 1e-300))


def _unlike(z: Float64[Array, " n"], drawn: Float64[Array, " draws"]) -> float:
    """p-value that third and fourth powers, and numbers of large steps, are the same in both samples."""
    p = []
    for power in (3, 4):
        a, b = (np.clip(s, -_FARTHEST, _FARTHEST) ** power for s in (z, drawn))
        error = np.sqrt(b.var() * (1 / len(a) + 1 / len(b)))  # the spread that the equation gives
        p.append(2 * float(stats.norm.sf(abs(a.mean() - b.mean()) / max(error, 1e-300))))
    own, others = (np.abs(s) / max(float(np.median(np.abs(s))), 1e-300) for s in (z, drawn))
    for far in _BEYOND:  # of all large steps, each belongs to the data by their share of all steps
        num, more = int(np.sum(own > far * _MEDIAN)), int(np.sum(others > far * _MEDIAN))
        p.append(float(stats.binom.sf(num - 1, num + more, len(own) / (len(own) + len(others)))) if num else 1.0)
    return min(1.0, len(p) * min(p))


def _kurtosis(z: Float64[Array, " n"]) -> float:
    return float(stats.kurtosis(z))


def _mixture(z: Float64[Array, " n"]) -> tuple[float, float, float]:
    """(1 - w) N(0, 1) + w N(0, s²), both of unknown size: w, s over the smaller size, gain in log-likelihood."""
    scale = 1.4826 * float(np.median(np.abs(z)))
    if scale == 0:
        return 0.0, 1.0, 0.0
    z = np.clip(z / scale, -_WIDEST, _WIDEST)
    share, small, large = 0.02, 1.0, max(float(np.mean(z**2)), 9.0)
    for _ in range(_ROUNDS):
        quiet = (1 - share) / np.sqrt(small) * np.exp(-0.5 * z**2 / small)
        wild = share / np.sqrt(large) * np.exp(-0.5 * z**2 / large)
        belongs = wild / np.maximum(quiet + wild, 1e-300)
        share = float(np.clip(belongs.mean(), 1e-6, 0.5))
        small = max(float(((1 - belongs) * z**2).sum() / (1 - belongs).sum()), _NARROWEST)
        large = max(float((belongs * z**2).sum() / max(belongs.sum(), 1e-300)), small)
    fitted = np.log(np.maximum(quiet + wild, 1e-300)).sum()
    plain = -0.5 * len(z) * (1 + np.log(np.mean(z**2)))
    return share, float(np.sqrt(max(large - small, 0.0) / small)), float(fitted - plain)


def _beyond(z: Float64[Array, " n"], share: float, size: float) -> tuple[float, float]:
    """Share and size of jumps by the steps that no normal noise makes; those of the mixture if there are too few.

    E[z² | abs(z) > u] = τ² (1 + a φ(a) / Φ(-a)) with a = u / τ gives τ² = 1 + size², and the share of jumps is that of
    large steps over 2 Φ(-a). Typical steps have no say, whatever their law.
    """
    large = np.abs(z) / max(_MEDIAN * float(np.median(np.abs(z))), 1e-300)
    large = large[large > _NO_NOISE]
    if len(large) < _FEWEST_JUMPS:
        return share, size
    mean = float(np.mean(large**2))

    def excess(log_spread: float) -> float:
        a = _NO_NOISE * np.exp(-log_spread)
        return float(np.exp(2 * log_spread) * (1 + a * stats.norm.pdf(a) / stats.norm.sf(a))) - mean

    if excess(np.log(1.1)) > 0 or excess(np.log(1e6)) < 0:
        return share, size
    spread = float(np.exp(optimize.brentq(excess, np.log(1.1), np.log(1e6))))
    share = len(large) / len(z) / (2 * float(stats.norm.sf(_NO_NOISE / spread)))
    return min(share, 1.0), float(np.sqrt(spread**2 - 1))


def _student(z: Float64[Array, " n"]) -> tuple[float, float]:
    """The most likely degrees of freedom of Student's law, and the gain in log-likelihood."""
    best = (np.inf, 0.0)
    plain = float(stats.norm.logpdf(z, 0, np.sqrt(np.mean(z**2))).sum())
    for freedom in _FREEDOMS:
        variance = float(np.median(z**2)) + 1e-300
        for _ in range(20):  # the scale by weights (nu + 1) / (nu + z² / variance)
            variance = float(np.mean((freedom + 1) / (freedom + z**2 / variance) * z**2)) + 1e-300
        gain = float(stats.t.logpdf(z, freedom, 0, np.sqrt(variance)).sum()) - plain
        if gain > best[1]:
            best = (freedom, gain)
    return best


def remembers(case: Case, r: Residuals, z: Float64[Array, "n dim"]) -> bool:
    """Whether sizes of these innovations, in place of those of the case, depend on sizes before."""
    p, size = _volatility(case, r, z)
    return p < SURE and size > _REMEMBERED


def _volatility(case: Case, r: Residuals, z: Float64[Array, "n dim"] | None = None) -> tuple[float, float]:
    """Autocorrelations of normal scores of the sizes of steps, as far as the state does not explain them: chi-square.

    Scores by ranks have the same law whatever the tails.
    """
    z = case.z if z is None else z
    n, dim = z.shape
    best = (1.0, 0.0)
    for j in range(dim):
        if j in case.exact:
            continue
        scores = stats.norm.ppf((stats.rankdata(np.abs(without_memory(z[:, j], r.joined))) - 0.5) / n)
        scores = unexplained(scores, case.found.state)
        one = Residuals(scores[:, None], np.ones((n, 1)), r.joined)
        rho, counts = lagged(one, min(max(_LAGS), max(1, n // 10)))
        lags = [k - 1 for k in _LAGS if k <= len(rho)]
        p = min(1.0, dim * float(stats.chi2.sf((counts[lags] * rho[lags, 0] ** 2).sum(), len(lags))))
        if p < best[0]:
            best = (p, float(rho[lags[: min(3, len(lags))], 0].mean()))
    return best
