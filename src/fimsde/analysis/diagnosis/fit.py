"""The fit: are innovations white, normal and of size one?"""

import numpy as np
from scipy import stats

from fimsde.analysis.diagnosis.case import Case
from fimsde.analysis.diagnosis.order import Memory
from fimsde.analysis.diagnosis.tails import SURE, Tails
from fimsde.analysis.diagnosis.verdict import Verdict, status_of
from fimsde.analysis.residuals import Residuals, autocorrelation


def whiteness(case: Case, r: Residuals, found: Memory) -> Verdict:
    """Ljung and Box's test."""
    evidence = autocorrelation(r)
    status = status_of(evidence.p_value, abs(evidence.size), 0.03, 0.2)
    name = case.names[evidence.component]
    sentence = (
        f"the largest autocorrelation of the innovations is {evidence.size:.3f} ({name}), p = {evidence.p_value:.2g}."
    )
    advice = ""
    if status != "good":
        advice = (
            "What the equation expects lags behind the data: the drift or the measurement noise is off."
            if found.first > 0
            else "Neighbouring innovations pull against each other: the drift or the measurement noise is off."
        )
    return Verdict("white innovations", status, evidence.size, sentence, advice, "fit", evidence.p_value)


def normality(case: Case, found: Tails) -> Verdict:
    """D'Agostino and Pearson's test, and the steps of the equation itself where these are not normal either."""
    status = status_of(found.p_value, abs(found.kurtosis), 0.2, 1.0, SURE)
    name = case.names[found.component]
    sentence = f"excess kurtosis of the innovations {found.kurtosis:.2f} ({name}), p = {found.p_value:.2g}."
    advice = "Steps have other tails than the equation gives them: do not trust extremes." if status != "good" else ""
    return Verdict("normal innovations", status, found.kurtosis, sentence, advice, "fit", found.p_value)


def variance(case: Case) -> Verdict:
    """The factor on the diffusion that makes the data most likely: one for all states, or one that depends on them."""
    scale, sizes = case.noise.scale, case.sizes
    judged = [j for j in range(len(scale)) if j not in case.exact]
    if not judged:
        return Verdict("size of the noise", "good", 1.0, "the drift explains all steps up to 1 %.", "", "fit")
    off = np.hypot(np.log(scale), sizes.spread)
    worst = max(judged, key=lambda j: off[j])
    n = len(case.z)
    # ln of the root mean square of n normal numbers has the deviation 1 / sqrt(2 n); noise makes it wider
    known = np.mean(
        np.diagonal(case.found.steps.covariance, axis1=1, axis2=2)[:, worst] / case.found.std[:, worst] ** 2
    )
    error = 1 / np.sqrt(2 * n) / max(float(known), 1e-3)
    p = min(1.0, len(scale) * 2 * float(stats.norm.sf(abs(np.log(scale[worst])) / error)))
    p = min(1.0, 2 * min(p, float(sizes.p_value[worst])))
    status = status_of(p, float(off[worst]), 0.4, 0.7)
    low, high = np.quantile(scale[worst] * sizes.factor[:, worst], (0.05, 0.95))
    times = f"{scale[worst]:.3g}" if sizes.spread[worst] == 0 else f"{low:.2g} to {high:.2g}, depending on the state"
    sentence = f"the diffusion of {case.names[worst]} fits best times {times}, p = {p:.2g}."
    advice = (
        "The diffusion is off by that factor: other methods may do better (fimsde compare)." if status != "good" else ""
    )
    return Verdict("size of the noise", status, float(np.exp(off[worst])), sentence, advice, "fit", p)
