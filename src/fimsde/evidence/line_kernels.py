"""numba kernels of the filter of one component: mean and variance of the state after a gap, exact for any drift.

From x, after a time t, the state has the mean x + d(x, t) and the variance v(x, t), which solve

    d_t = L d + f,    v_t = L v + g (1 + d_x)²,    L = f ∂x + g ∂xx / 2,    d = v = 0 at t = 0

(Kolmogorov's backward equation for the mean and the mean square). A Gaussian law that follows the path forgets what
bends it within the gap: of a bistable drift half a natural time is enough for variances to be off by a tenth. Tables of
d and v hold times a quarter of an octave apart; a solution serves all observations.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import math

import numpy as np

from fimsde.compiler import njit

OCTAVE = 4  # times of a table in an octave; by hand: interpolation by cubics then errs by 1e-5
_FIRST, _NEXT = 8, 4  # steps to the first time, and from each time to the next; by hand: errors of 1e-5
# Gauss and Hermite's five nodes and their weights: expectations under a normal law
_NODES = np.array([0.0, 1.3556261799742659, -1.3556261799742659, 2.8569700138728056, -2.8569700138728056])
_WEIGHTS = np.array([8 / 15, 0.22207592200561266, 0.22207592200561266, 0.011257411327720691, 0.011257411327720691])
_LARGEST = 50.0  # factor by which an error may grow in a gap, as in the filter of several components


@njit(cache=True, error_model="numpy")
def moment_tables(f, g, spacing, first, num):
    """d and v at the nodes of a regular grid, at the times first * 2^(k / OCTAVE): (times, nodes) each.

    Crank and Nicolson's steps and central differences. At both ends of the grid paths do not leave it.
    """
    nodes = len(f)
    moved, spread = np.zeros((num, nodes)), np.zeros((num, nodes))
    lower, upper = np.zeros(nodes), np.zeros(nodes)  # L, off its diagonal; rows add up to zero
    for i in range(1, nodes - 1):
        lower[i] = 0.5 * (g[i] / spacing - f[i]) / spacing
        upper[i] = 0.5 * (g[i] / spacing + f[i]) / spacing
    upper[0], lower[-1] = max(f[0], 0.0) / spacing, max(-f[-1], 0.0) / spacing
    source = f.copy()
    source[0], source[-1] = max(f[0], 0.0), min(f[-1], 0.0)
    d, v = np.zeros(nodes), np.zeros(nodes)
    old, new, right, work = np.empty(nodes), np.empty(nodes), np.empty(nodes), np.empty(nodes)
    _fill_source(d, g, spacing, old)
    time = 0.0
    for k in range(num):
        ahead = first * 2.0 ** (k / OCTAVE)
        steps = _FIRST if k == 0 else _NEXT
        step = (ahead - time) / steps
        for _ in range(steps):
            for i in range(nodes):
                right[i] = step * source[i]
            _advance(lower, upper, step, d, right, work)
            _fill_source(d, g, spacing, new)
            for i in range(nodes):
                right[i] = 0.5 * step * (old[i] + new[i])
                old[i] = new[i]
            _advance(lower, upper, step, v, right, work)
        time = ahead
        moved[k], spread[k] = d, v
    return moved, spread


@njit(cache=True, allocates=False, error_model="numpy")
def _fill_source(d, g, spacing, out):
    """g (1 + d_x)²."""
    last = len(d) - 1
    for i in range(len(d)):
        low, high = max(i - 1, 0), min(i + 1, last)
        out[i] = g[i] * (1.0 + (d[high] - d[low]) / (spacing * (high - low))) ** 2


@njit(cache=True, allocates=False, error_model="numpy")
def _advance(lower, upper, step, values, right, work):
    """(1 - h L / 2) new = (1 + h L / 2) old + right, in place: elimination of a tridiagonal matrix."""
    last, half = len(values) - 1, 0.5 * step
    before = values[0]
    for i in range(last + 1):
        here = values[i]
        change = upper[i] * (values[i + 1] - here) if i < last else 0.0
        change += lower[i] * (before - here)
        before = here
        diagonal = 1.0 + half * (lower[i] + upper[i])
        total = here + half * change + right[i]
        if i > 0:
            diagonal += half * lower[i] * work[i - 1]
            total += half * lower[i] * values[i - 1]
        work[i] = -half * upper[i] / diagonal
        values[i] = total / diagonal
    for i in range(last - 1, -1, -1):
        values[i] -= work[i] * values[i + 1]


@njit(cache=True, allocates=False, error_model="numpy")
def _fill_cubic(u, weights, slopes):
    """Weights of four neighbours of a number between the second and the third, and those of the slope."""
    a, b, c, e = u + 1.0, u, u - 1.0, u - 2.0
    weights[0], weights[1], weights[2], weights[3] = (
        -b * c * e / 6.0,
        a * c * e / 2.0,
        -a * b * e / 2.0,
        a * b * c / 6.0,
    )
    slopes[0] = -(c * e + b * e + b * c) / 6.0
    slopes[1] = (c * e + a * e + a * c) / 2.0
    slopes[2] = -(b * e + a * e + a * b) / 2.0
    slopes[3] = (b * c + a * c + a * b) / 6.0


@njit(cache=True, allocates=False, error_model="numpy")
def _moments_at(x, time, lowest, spacing, moved, spread, weights, out):
    """Mean, variance, and slope of the mean after a time, from a place; `time` counts rows of the tables."""
    nodes, rows = moved.shape[1], moved.shape[0]
    place = (x - lowest) / spacing
    if not place > 1.0:  # or no number
        place = 1.0
    place = min(place, nodes - 2.0)
    i, k = min(int(place), nodes - 3), min(max(int(time), 1), rows - 3)
    _fill_cubic(place - i, weights[0], weights[1])
    _fill_cubic(time - k, weights[2], weights[3])
    d, v, slope = 0.0, 0.0, 0.0
    for a in range(4):
        for b in range(4):
            both = weights[2, a] * weights[0, b]
            d += both * moved[k - 1 + a, i - 1 + b]
            v += both * spread[k - 1 + a, i - 1 + b]
            slope += weights[2, a] * weights[1, b] * moved[k - 1 + a, i - 1 + b]
    out[0] = x + d
    out[1] = max(v, 0.0)
    out[2] = min(max(1.0 + slope / spacing, -_LARGEST), _LARGEST)


@njit(cache=True, allocates=False, error_model="numpy")
def _expected(x, var, time, lowest, spacing, moved, spread, weights, at, out):
    """Mean, variance and slope after a time, for a normal state at the beginning."""
    if var == 0.0:
        _moments_at(x, time, lowest, spacing, moved, spread, weights, out)
        return
    size, square = math.sqrt(var), 0.0
    out[0], out[1], out[2] = 0.0, 0.0, 0.0
    for q in range(len(_NODES)):
        _moments_at(x + size * _NODES[q], time, lowest, spacing, moved, spread, weights, at)
        out[0] += _WEIGHTS[q] * at[0]
        out[1] += _WEIGHTS[q] * at[1]
        out[2] += _WEIGHTS[q] * at[2]
        square += _WEIGHTS[q] * (at[0] - x) ** 2
    out[1] += max(square - (out[0] - x) ** 2, 0.0)


@njit(cache=True, error_model="numpy")
def filter_line(y, dtau, starts, noise, lowest, spacing, first, moved, spread):
    """Filter along paths of one component; returns what `filter_kernels.filter_paths` does, row by row.

    The state is normal after an observation; what it is after a gap, `moment_tables` know.
    """
    rows = len(y) - (len(starts) - 1)
    places, spreads, carried = np.empty((3, rows, 1)), np.empty((3, rows, 1)), np.empty((2, rows, 1, 1))
    gain, variance, whiten = np.empty((rows, 1, 1)), np.empty((rows, 1)), np.empty((rows, 1, 1))
    innovation, begins, loglik = np.empty((rows, 1)), np.zeros(rows, np.bool_), np.empty(rows)
    weights, at, out, row = np.empty((4, 4)), np.empty(3), np.empty(3), 0
    for p in range(len(starts) - 1):
        state, var = y[starts[p], 0], noise
        for i in range(starts[p], starts[p + 1] - 1):
            time = OCTAVE * math.log2(dtau[i] / first)
            begins[row] = i == starts[p]
            places[0, row, 0], spreads[0, row, 0] = state, var
            _expected(state, var, time - OCTAVE, lowest, spacing, moved, spread, weights, at, out)
            places[1, row, 0], spreads[1, row, 0] = out[0], out[1]
            _expected(out[0], out[1], time - OCTAVE, lowest, spacing, moved, spread, weights, at, out)
            carried[1, row, 0, 0] = out[2]
            _expected(state, var, time, lowest, spacing, moved, spread, weights, at, out)
            places[2, row, 0], spreads[2, row, 0], carried[0, row, 0, 0] = out[0], out[1], out[2]
            total = out[1] + noise
            error = y[i + 1, 0] - out[0]
            innovation[row, 0], variance[row, 0] = error, total
            gain[row, 0, 0], whiten[row, 0, 0] = out[1] / total, 1.0 / math.sqrt(total)
            loglik[row] = -0.5 * (error * error / total + math.log(2.0 * math.pi * total))
            state = out[0] + gain[row, 0, 0] * error
            var = out[1] * noise / total
            if noise == 0.0:
                state = y[i + 1, 0]
            row += 1
    return places, spreads, carried, gain, variance, whiten, innovation, begins, loglik
