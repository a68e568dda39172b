"""The fit: are innovations white, normal and of size one? Does a linear equation predict the data better?"""

import numpy as np

from fimsde import distributions as stats
from fimsde.analysis.diagnosis.case import Case
from fimsde.analysis.diagnosis.order import Memory
from fimsde.analysis.diagnosis.tails import SURE, Tails
from fimsde.analysis.diagnosis.verdict import Verdict, chance, status_of
from fimsde.analysis.residuals import Residuals, autocorrelation
from fimsde.filter.flow import Flow
from fimsde.filter.kalman import run_filter

_ODDS = 10.0  # nats beyond the price of its terms by which a linear equation must be better; by hand
_LEAST_SHARE = 1e-3  # of the variance of its steps that is noise of the equation, beside that of the instrument


def whiteness(case: Case, r: Residuals, found: Memory) -> Verdict:
    """Ljung and Box's test."""
    evidence = autocorrelation(r)
    status = status_of(evidence.p_value, abs(evidence.size), 0.03, 0.2)
    name = case.names[evidence.component]
    said = chance(evidence.p_value, 2)
    sentence = f"the largest autocorrelation of the innovations is {evidence.size:.3f} ({name}), {said}."
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
    sentence = f"excess kurtosis of the innovations {found.kurtosis:.2f} ({name}), {chance(found.p_value, 2)}."
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
    sentence = f"the diffusion of {case.names[worst]} fits best times {times}, {chance(p, 2)}."
    advice = (
        "The diffusion is off by that factor: other methods may do better (fimsde compare)." if status != "good" else ""
    )
    return Verdict("size of the noise", status, float(np.exp(off[worst])), sentence, advice, "fit", p)


def prediction(case: Case) -> Verdict:
    """Log-likelihood of a linear equation with constant noise, less Schwarz's price of its terms, beside that of ours.

    Every linear equation is one of the class: if it is better, the estimate is off, whatever else may be.
    """
    n, dim = case.z.shape
    terms = dim * (dim + 2)
    rival = float(run_filter(_linear(case), case.observations, case.noise.std).likelihood.sum())
    own = float(np.nan_to_num(case.found.likelihood.sum(), nan=-np.inf))
    gain = rival - 0.5 * terms * np.log(n) - own
    judged = len(case.exact) < dim and gain > _ODDS
    sentence = "no linear equation of the same components predicts the next observation better."
    advice = ""
    if judged:
        sentence = (
            f"a linear equation predicts the next observation better, by {gain / n:.2g} nats: the estimate is off."
        )
        advice = "Take another method (fimsde compare), or leave out components that hardly move by themselves."
    number = gain / n if np.isfinite(gain) else float("inf")
    return Verdict("prediction", "bad" if judged else "good", number, sentence, advice, "fit")


def _linear(case: Case) -> Flow:
    """dx = (a + B x) dt + constant noise of each component, by least squares over the steps."""
    found, y = case.found, case.observations.values
    rows = np.delete(np.arange(len(y)), case.observations.path_starts[1:] - 1)
    x, h = y[rows], found.dtau[:, None]
    known = np.concatenate([np.ones(h.shape), x], axis=1)
    rate = np.linalg.lstsq(known * np.sqrt(h), (y[rows + 1] - x) / np.sqrt(h), rcond=None)[0]  # (1 + dim, dim)
    matrix = np.eye(x.shape[1]) + h[:, :, None] * rate[1:].T
    ahead = x + h * (known @ rate)
    own = np.mean((y[rows + 1] - ahead) ** 2 / h, axis=0)
    instrument = np.mean((1 + (matrix**2).sum(axis=2)) / h, axis=0) * case.noise.std**2
    covariance = np.diag(np.maximum(own - instrument, _LEAST_SHARE * own)) * h[:, :, None]
    return Flow(x, ahead, matrix, covariance, np.zeros(x.shape), np.zeros(x.shape[1]))
