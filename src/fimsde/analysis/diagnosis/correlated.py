"""Is the noise of different components as correlated as the equation says, and everywhere the same?

dx = f(x) dt + S(x) dW,   (S S')_ij = sigma_i sigma_j rho_ij
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fimsde import distributions as stats
from fimsde.analysis.diagnosis.case import Case, state_terms
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict, chance
from fimsde.equations.sde import FunctionSDE, correlation, is_diagonal
from fimsde.filter.correlation import fit_correlation, standardised_sum, without_correlation
from fimsde.shapes import Array, Float64

_VISIBLE, _LARGE = 0.05, 0.3  # correlations; by hand: a few thousandths and a tenth of the variance
_VARIES = 0.15  # standard deviation over states of one that depends on them; by hand: likewise, but it is estimated too
_PROBES = 1000  # states at which the correlation of the equation is read; by hand: a mean to a percent
_EDGES = 0.05, 0.95  # quantiles over states between which a correlation is said to be
_POLAR = (
    "No constant correlation describes it: estimate in variables that have noise of their own each (polar ones for a "
    "ring, sums and differences for two that are alike), or do not trust simulations where both move together."
)


def correlated_noise(case: Case) -> Verdict:
    """Two tests of innovations, of all pairs: of their products, and of how these depend on the state."""
    dim = case.z.shape[1]
    if dim == 1:
        return Verdict("correlated noise", "good", 0.0, "there is one component.", "", "class")
    pairs = list(combinations(range(dim), 2))
    scores = [standardised_sum(case.z[:, i] * case.z[:, j]) for i, j in pairs]
    worst = int(np.argmax(np.abs(scores)))
    p = min(1.0, 2 * len(pairs) * 2 * float(stats.norm.sf(abs(scores[worst]))))
    varying = min((_dependence(case, i, j) for i, j in pairs), key=lambda found: found.p_value)
    if (q := min(1.0, 2 * len(pairs) * varying.p_value)) < min(p, FALSE_ALARM) and varying.spread >= _VARIES:
        return _verdict_on(case, varying, q)
    rho = _most_likely(case, scores) if p < FALSE_ALARM else np.eye(dim)
    (i, j), names = pairs[worst], case.names
    said = _said(case)
    if not (p < FALSE_ALARM and abs(rho[i, j] - said[i, j]) >= _VISIBLE):
        return _nothing_else(case, said, p)
    size = float(rho[i, j])
    status: Status = "bad" if abs(rho[i, j] - said[i, j]) >= _LARGE else "caution"
    rows = ", ".join("[" + ", ".join(f"{c:.2f}" for c in row) + "]" for row in rho.tolist())
    beside = f", not {said[i, j]:.2f}" if said[i, j] else ""
    return Verdict(
        "correlated noise",
        status,
        size,
        f"the noise of {names[i]} and {names[j]} is correlated: {size:.2f}{beside}, {chance(p)}.",
        f"Carry it: result.with_correlation([{rows}]) simulates, predicts and judges with it.",
        "class",
        p,
        "dx = f(x) dt + S(x) dW with correlated noise",
    )


def _nothing_else(case: Case, said: Float64[Array, "dim dim"], p: float) -> Verdict:
    """The noise is as the equation says."""
    apart = np.abs(said - np.eye(len(said)))
    i, j = sorted(np.unravel_index(int(np.argmax(apart)), apart.shape))
    size = float(said[i, j]) if i != j else 0.0
    sentence = f"the noise of different components is independent, {chance(p, 2)}."
    if size:
        between = f"{case.names[i]} and {case.names[j]}"
        sentence = f"the noise of {between} is correlated, {size:.2f}, and the equation carries it."
    return Verdict("correlated noise", "good", size, sentence, "", "class", p)


@dataclass(frozen=True)
class _Dependence:
    """How the correlation of two components depends on the state.

    Attributes:
        pair: The components.
        low, high: Between which it is at most states.
        spread: Its standard deviation over states, what chance adds taken away.
        p_value: Probability of as much dependence if there is none.
    """

    pair: tuple[int, int]
    low: float
    high: float
    spread: float
    p_value: float


def _dependence(case: Case, i: int, j: int) -> _Dependence:
    """z_i z_j = c_0 + sum_k c_k t_k(x) + noise: terms of the state are chi-square beside the constant.

    Squares of the residuals stand for its variance, so that tails of any kind are allowed (White).
    """
    product, n = case.z[:, i] * case.z[:, j], len(case.z)
    terms = state_terms(case.found.state, i)[:, 1:]
    terms = np.concatenate([terms, state_terms(case.found.state, j)[:, -1:]], axis=1)
    centred = terms - terms.mean(axis=0)
    basis, size, _ = np.linalg.svd(centred, full_matrices=False)
    basis = basis[:, size > 1e-8 * max(float(size.max(initial=0.0)), 1e-300)]  # of the state, the others are none
    left = product - product.mean()
    score = basis.T @ left
    variance = (basis * left[:, None] ** 2).T @ basis
    statistic = float(score @ np.linalg.lstsq(variance, score, rcond=None)[0])
    p = float(stats.chi2.sf(statistic, basis.shape[1]))
    fitted = product.mean() + basis @ score
    low, high = np.clip(np.quantile(fitted, _EDGES), -1.0, 1.0)
    by_chance = float(np.trace(variance)) / n
    spread = np.sqrt(max(float(np.mean((basis @ score) ** 2)) - by_chance, 0.0))
    return _Dependence((i, j), float(low), float(high), float(spread), p)


def _verdict_on(case: Case, found: _Dependence, p: float) -> Verdict:
    first, second = (case.names[k] for k in found.pair)
    sentence = (
        f"the correlation of the noise of {first} and {second} depends on the state: "
        f"{found.low:.2f} to {found.high:.2f}, {chance(p)}."
    )
    status: Status = "bad" if found.spread >= _LARGE else "caution"
    wider = "dx = f(x) dt + S(x) dW with a correlation that depends on the state"
    return Verdict("correlated noise", status, found.spread, sentence, _POLAR, "class", p, wider)


def _said(case: Case) -> Float64[Array, "dim dim"]:
    """The mean correlation of the equation at the data."""
    states = case.observations.values
    return correlation(case.sde, states[:: -(-len(states) // _PROBES)]).mean(axis=0)


def _most_likely(case: Case, scores: list[float]) -> Float64[Array, "dim dim"]:
    """The constant correlations beside this drift and diffusion, of pairs that show one or had one."""
    plain, diagonal = without_correlation(case.sde), is_diagonal(case.sde)
    if not is_diagonal(plain):
        plain = FunctionSDE(plain.dim, plain.drift, plain.diffusion)
    said = np.zeros((plain.dim, plain.dim)) if diagonal else _said(case)
    shown = [2 * float(stats.norm.sf(abs(s))) < FALSE_ALARM for s in scores]
    pairs = [
        pair for pair, there in zip(combinations(range(plain.dim), 2), shown, strict=True) if there or said[pair] != 0
    ]
    flow = case.found.steps if diagonal else None
    return fit_correlation(plain, case.observations, case.found.noise_std, np.array(pairs), flow).rho
