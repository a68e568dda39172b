"""Are innovations as large as expected, wherever the state is? Their size as a smooth function of the state.

ln E z² = b_0 + sum_k b_k h_k(x) + c_cell(x): hats over the ranks of each component, then cells of states, by maximum
likelihood

A diffusion that is off in some places makes tails, clusters of large steps and differences between paths that are no
property of the class; innovations are divided by the size that is found here before the class is judged.
"""

from dataclasses import dataclass

import numpy as np

from fimsde import distributions as stats
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM
from fimsde.shapes import Array, Float64, Int

_NODES = 5  # hats per component: quartiles of the states; by hand
_ROUNDS = 20  # of Newton's method; by hand: it converges in five
_FARTHEST = 5.0  # robust deviations at which innovations are cut off, so that single ones decide nothing
_PER_CELL, _MOST_CELLS = 40, 64  # innovations of a cell of states, and cells; by hand: a mean is known to a sixth
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
    cell = cells(state)
    for j in range(dim):
        scale = 1.4826 * float(np.median(np.abs(z[:, j])))
        if scale == 0.0:
            continue
        squares = np.minimum((z[:, j] / scale) ** 2, _FARTHEST**2)
        log_size, chances = np.zeros(n), []
        for further in (lambda left: _fit(left, hats), lambda left: _fit_cells(left, cell)):
            left = squares * np.exp(-log_size)
            left /= left.mean()
            found, freedom = further(left)
            chances.append(_chance(left, found, freedom))
            if 2 * dim * chances[-1] < FALSE_ALARM:
                log_size = log_size + found
        p_value[j] = min(1.0, 2 * dim * min(chances))
        factor[:, j] = np.exp(log_size / 2)
        spread[j] = float(np.sqrt(np.mean((log_size / 2) ** 2)))
    return Sizes(factor, p_value, spread)


def _chance(squares: Float64[Array, " n"], log_size: Float64[Array, " n"], freedom: int) -> float:
    """P(such a gain in log-likelihood) if sizes are all the same: chi-square over the dispersion of the squares."""
    relative = squares * np.exp(-log_size)
    gain = float((squares - relative - log_size).sum())  # twice that in log-likelihood
    dispersion = max(float(relative.var()) / 2, 1e-300)  # 1 for normal numbers, more with heavy tails
    return float(stats.chi2.sf(gain / dispersion, freedom))


def _fit_cells(squares: Float64[Array, " n"], cell: Int[Array, " n"]) -> tuple[Float64[Array, " n"], int]:
    """ln of the mean square of every cell of states, and its degrees of freedom."""
    mean = np.bincount(cell, squares) / np.bincount(cell)
    return np.log(np.maximum(mean, 1e-8))[cell], max(len(mean) - 1, 1)


def _hats(state: Float64[Array, "n dim"]) -> Float64[Array, "n hats"]:
    """1, and piecewise linear functions of the rank of each component, all but one of them."""
    n = len(state)
    parts = [np.ones((n, 1))]
    for column in state.T:
        rank = (stats.rankdata(column) - 0.5) / n * (_NODES - 1)
        parts.append(np.maximum(0.0, 1 - np.abs(rank[:, None] - np.arange(1, _NODES))))
    return np.concatenate(parts, axis=1)


def _fit(squares: Float64[Array, " n"], hats: Float64[Array, "n hats"]) -> tuple[Float64[Array, " n"], int]:
    """ln of the mean of squares by Newton's method, the information being that of H0, and its degrees of freedom."""
    b = np.zeros(hats.shape[1])
    ridge = 1e-6 * len(hats) * np.eye(len(b))
    for _ in range(_ROUNDS):
        log_size = hats @ b
        relative = squares * np.exp(-log_size)
        step = np.linalg.solve(hats.T @ (hats * np.maximum(relative, 0.1)[:, None]) + ridge, hats.T @ (relative - 1))
        b = b + np.clip(step, -2.0, 2.0)
        if float(np.abs(step).max()) < 1e-6:
            break
    return np.clip(hats @ b, -20.0, 20.0), hats.shape[1] - 1


def unexplained(values: Float64[Array, " n"], state: Float64[Array, "n dim"]) -> Float64[Array, " n"]:
    """Values without what the state explains: a quadratic of its components, then the mean of each cell of states.

    Cells are halves of halves, with as many states each. Where a record passes every place once, state and time cannot
    be told apart, and nothing is left.
    """
    x = (state - state.mean(axis=0)) / np.maximum(state.std(axis=0), 1e-300)
    known = np.concatenate([np.ones((len(x), 1)), x, x**2, np.abs(x)], axis=1)
    left = values - known @ np.linalg.lstsq(known, values, rcond=None)[0]
    cell = cells(state)
    return left - (np.bincount(cell, left) / np.bincount(cell))[cell]


def cells(state: Float64[Array, "n dim"]) -> Int[Array, " n"]:
    """The number of the cell of each state: the widest axis is halved at the median, again and again."""
    num = int(np.clip(len(state) // _PER_CELL, 1, _MOST_CELLS))
    x = state / np.maximum(state.std(axis=0), 1e-300)
    cell, parts = np.zeros(len(x), np.int64), [np.arange(len(x))]
    while len(parts) < num:
        rows = parts.pop(0)
        axis = int(np.argmax(np.ptp(x[rows], axis=0)))
        order = rows[np.argsort(x[rows, axis], kind="stable")]
        parts += [order[: len(order) // 2], order[len(order) // 2 :]]
    for number, rows in enumerate(parts):
        cell[rows] = number
    return cell
