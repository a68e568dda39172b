"""Are innovations as large as expected, wherever the state is? Their size as a smooth function of the state.

ln E z² = b_0 + sum_k b_k h_k(x): hats over the ranks of each component, by maximum likelihood

A diffusion that is off in some places makes tails, clusters of large steps and differences between paths that are no
property of the class; innovations are divided by the size that is found here before the class is judged.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from fimsde.analysis.diagnosis.verdict import FALSE_ALARM
from fimsde.shapes import Array, Float64

_NODES = 5  # hats per component: quartiles of the states; by hand
_ROUNDS = 20  # of Newton's method; by hand: it converges in five
_FARTHEST = 5.0  # robust deviations at which innovations are cut off, so that single ones decide nothing
_FEWEST = 20  # innovations per hat; by hand: the law of the test is a limit


@dataclass(frozen=True, eq=False)
class Sizes:
    """Sizes of innovations by state.

    Attributes:
        factor: Root mean square that the state explains, per innovation; 1 where it explains nothing.
        p_value: That the state explains nothing, per component.
        spread: Root mean square of ln factor, per component.
    """

    factor: Float64[Array, "n dim"]
    p_value: Float64[Array, " dim"]
    spread: Float64[Array, " dim"]


def find_sizes(z: Float64[Array, "n dim"], state: Float64[Array, "n dim"]) -> Sizes:
    """Fit and test, per component; what is not significant counts as nothing."""
    n, dim = z.shape
    factor, p_value, spread = np.ones((n, dim)), np.ones(dim), np.zeros(dim)
    hats = _hats(state)
    if n < _FEWEST * hats.shape[1]:
        return Sizes(factor, p_value, spread)
    for j in range(dim):
        scale = 1.4826 * float(np.median(np.abs(z[:, j])))
        if scale == 0.0:
            continue
        squares = np.minimum((z[:, j] / scale) ** 2, _FARTHEST**2)
        squares /= squares.mean()
        log_size = _fit(squares, hats)
        relative = squares * np.exp(-log_size)
        gain = float((squares - relative - log_size).sum())  # twice that in log-likelihood
        dispersion = max(float(relative.var()) / 2, 1e-300)  # 1 for normal numbers, more with heavy tails
        p_value[j] = min(1.0, dim * float(stats.chi2.sf(gain / dispersion, hats.shape[1] - 1)))
        if p_value[j] < FALSE_ALARM:
            factor[:, j] = np.exp(log_size / 2)
            spread[j] = float(np.sqrt(np.mean((log_size / 2) ** 2)))
    return Sizes(factor, p_value, spread)


def _hats(state: Float64[Array, "n dim"]) -> Float64[Array, "n hats"]:
    """1, and piecewise linear functions of the rank of each component, all but one of them."""
    n = len(state)
    parts = [np.ones((n, 1))]
    for column in state.T:
        rank = (stats.rankdata(column) - 0.5) / n * (_NODES - 1)
        parts.append(np.maximum(0.0, 1 - np.abs(rank[:, None] - np.arange(1, _NODES))))
    return np.concatenate(parts, axis=1)


def _fit(squares: Float64[Array, " n"], hats: Float64[Array, "n hats"]) -> Float64[Array, " n"]:
    """ln of the mean of exponentially distributed squares, by Newton's method; the information is that of H0."""
    b = np.zeros(hats.shape[1])
    ridge = 1e-6 * len(hats) * np.eye(len(b))
    for _ in range(_ROUNDS):
        log_size = hats @ b
        relative = squares * np.exp(-log_size)
        step = np.linalg.solve(hats.T @ (hats * np.maximum(relative, 0.1)[:, None]) + ridge, hats.T @ (relative - 1))
        b = b + np.clip(step, -2.0, 2.0)
        if float(np.abs(step).max()) < 1e-6:
            break
    return np.clip(hats @ b, -20.0, 20.0)
