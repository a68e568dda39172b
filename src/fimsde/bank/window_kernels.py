"""numba kernels that walk along paths: displacements, single steps, and windows of hat functions."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit


@njit(cache=True)
def mean_square_displacement(y, dtau, path_starts, lag):
    """Number of pairs of points of a path that are `lag` steps apart, their mean time and mean square displacement."""
    dim = y.shape[1]
    square, span, pairs = np.zeros(dim), 0.0, 0
    for p in range(len(path_starts) - 1):
        ahead = 0.0
        for i in range(path_starts[p], path_starts[p + 1] - 1):
            ahead += dtau[i]
            start = i + 1 - lag
            if start >= path_starts[p]:
                span += ahead
                ahead -= dtau[start]
                pairs += 1
                for j in range(dim):
                    square[j] += (y[i + 1, j] - y[start, j]) ** 2
    return pairs, span / max(pairs, 1), square / max(pairs, 1)


@njit(cache=True)
def fill_steps(y, dtau, features, rows, coarse, increment, integral, instrument, before, centre):
    """Single steps that begin at the given points; the integral by the trapezoidal rule, or Euler's if coarse."""
    for c in range(len(rows)):
        s = rows[c]
        for j in range(y.shape[1]):
            increment[c, j] = y[s + 1, j] - y[s, j]
            centre[c, j] = 0.5 * (y[s, j] + y[s + 1, j])
            before[c, j] = y[s, j]
        for q in range(features.shape[1]):
            end = features[s, q] if coarse else features[s + 1, q]
            integral[c, q] = dtau[c] * (0.5 * (features[s, q] + end))
            instrument[c, q] = features[s, q]


@njit(cache=True)
def count_windows(path_starts, m):
    """Number of windows of 2m - 1 steps, one every m steps, with m points before them and one after them."""
    total = 0
    for p in range(len(path_starts) - 1):
        room = path_starts[p + 1] - path_starts[p] - (3 * m + 1)
        if room >= 0:
            total += room // m + 1
    return total


@njit(cache=True)
def fill_windows(y, dtau, path_starts, features, m, increment, integral, length, before, at, centre, first):
    """Weak form of the equation against hat functions: sum w dy = sum w ∫ f dt + noise, w = 1/m, 2/m, ..., 1, ..., 1/m.

    Row c gets the weighted increment, the weighted integrals of the features, the weighted time, the mean of the m
    observations before the window, the mean of the m observations up to its first (the instrument's place), the
    weighted mean place inside, and the first step.
    Integrals over a step use the two points of the step and, on regular grids, their neighbours.
    """
    dim, terms = y.shape[1], features.shape[1]
    c = 0
    for p in range(len(path_starts) - 1):
        i = path_starts[p] + m
        while i + 2 * m <= path_starts[p + 1] - 1:
            first[c] = i
            total = 0.0
            for k in range(2 * m - 1):
                s = i + k
                w = (k + 1 if k < m else 2 * m - 1 - k) / m
                h = dtau[s]
                total += w
                length[c] += w * h
                for j in range(dim):
                    increment[c, j] += w * (y[s + 1, j] - y[s, j])
                    centre[c, j] += 0.5 * w * (y[s, j] + y[s + 1, j])
                regular = abs(dtau[s - 1] - h) < 1e-3 * h and abs(dtau[s + 1] - h) < 1e-3 * h
                if regular:
                    u = w * h / 24.0
                    for q in range(terms):
                        integral[c, q] += u * (
                            13.0 * (features[s, q] + features[s + 1, q]) - features[s - 1, q] - features[s + 2, q]
                        )
                else:
                    u = 0.5 * w * h
                    for q in range(terms):
                        integral[c, q] += u * (features[s, q] + features[s + 1, q])
            for j in range(dim):
                centre[c, j] /= total
                for k in range(m):
                    before[c, j] += y[i - 1 - k, j] / m
                    at[c, j] += y[i - k, j] / m
            c += 1
            i += m
