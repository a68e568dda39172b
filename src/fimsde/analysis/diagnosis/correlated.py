"""Is the noise of different components independent? A constant correlation is the wider equation.

dx = f(x) dt + S(x) dW,   (S S')_ij = sigma_i sigma_j rho_ij
"""

from dataclasses import replace

import numpy as np
from scipy import optimize

from fimsde import distributions as stats
from fimsde.analysis.diagnosis.case import Case
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict, chance
from fimsde.equations.sde import nearest_correlation
from fimsde.filter.kalman import run_filter
from fimsde.shapes import Array, Float64

_VISIBLE, _LARGE = 0.05, 0.3  # correlations; by hand: a few thousandths and a tenth of the variance
_MOST = 0.99  # of a correlation that is looked for; by hand


def correlated_noise(case: Case) -> Verdict:
    """sum z_i z_j / sqrt(sum z_i² z_j²): normal if components have noise of their own; the worst pair."""
    z = case.z
    dim = z.shape[1]
    if dim == 1:
        return Verdict("correlated noise", "good", 0.0, "there is one component.", "", "class")
    pairs = [(i, j) for i in range(dim) for j in range(i + 1, dim)]
    scores = np.array([_score(z[:, i] * z[:, j]) for i, j in pairs])
    worst = int(np.argmax(np.abs(scores)))
    p = min(1.0, len(pairs) * 2 * float(stats.norm.sf(abs(scores[worst]))))
    rho = estimate_correlation(case) if p < FALSE_ALARM else np.eye(dim)
    i, j = pairs[worst]
    size = float(rho[i, j])
    shown = p < FALSE_ALARM and abs(size) >= _VISIBLE
    names = case.names
    sentence = f"the noise of different components is independent, {chance(p, 2)}."
    advice = wider = ""
    if shown:
        sentence = f"the noise of {names[i]} and {names[j]} is correlated: {size:.2f}, {chance(p)}."
        rows = ", ".join("[" + ", ".join(f"{c:.2f}" for c in row) + "]" for row in rho.tolist())
        advice = f"Carry it: result.with_correlation([{rows}]) simulates, predicts and judges with it."
        wider = "dx = f(x) dt + S(x) dW with correlated noise"
    status: Status = "good" if not shown else "bad" if abs(size) >= _LARGE else "caution"
    return Verdict("correlated noise", status, size, sentence, advice, "class", p, wider)


def estimate_correlation(case: Case) -> Float64[Array, "dim dim"]:
    """The most likely constant correlation of the noise, pair by pair, measurement noise being known."""
    dim = case.z.shape[1]
    rho = np.eye(dim)
    for i in range(dim):
        for j in range(i + 1, dim):
            rho = _with(rho, i, j, _most_likely(case, rho, i, j))
    return nearest_correlation(rho)


def _most_likely(case: Case, rho: Float64[Array, "dim dim"], i: int, j: int) -> float:
    found = optimize.minimize_scalar(
        lambda c: -_likelihood(case, _with(rho, i, j, c)),
        bounds=(-_MOST, _MOST),
        method="bounded",
        options={"xatol": 1e-3},
    )
    return float(found.x)


def _likelihood(case: Case, rho: Float64[Array, "dim dim"]) -> float:
    flow = case.found.steps
    size = np.sqrt(np.diagonal(flow.covariance, axis1=1, axis2=2))
    further = size[:, :, None] * size[:, None, :] * (rho - np.eye(len(rho)))
    found = run_filter(replace(flow, covariance=flow.covariance + further), case.observations, case.found.noise_std)
    total = float(found.likelihood.sum())
    return total if np.isfinite(total) else -1e300


def _with(rho: Float64[Array, "dim dim"], i: int, j: int, value: float) -> Float64[Array, "dim dim"]:
    out = rho.copy()
    out[i, j] = out[j, i] = value
    return out


def _score(products: Float64[Array, " n"]) -> float:
    return float(products.sum() / max(np.sqrt((products**2).sum()), 1e-300))
