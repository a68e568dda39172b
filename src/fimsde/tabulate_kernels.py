"""Compiled kernels of the road: cubic interpolation in tables, and paths through them."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit
from fimsde.simulate import euler_step

_step = njit(euler_step)


@njit(cache=True)
def stencil(u, num_nodes, weights):
    """First of the four nodes around position u (in steps from node 0); fills their Lagrange weights."""
    first = min(max(int(u) - 1, 0), num_nodes - 4)
    t = u - first
    weights[0] = (t - 1) * (t - 2) * (3 - t) / 6
    weights[1] = t * (t - 2) * (t - 3) / 2
    weights[2] = t * (t - 1) * (3 - t) / 2
    weights[3] = t * (t - 1) * (t - 2) / 6
    return first


@njit(cache=True)
def interpolate_1d(values, low, step, x):
    """values (nodes, outputs) at x (queries, 1), all inside the table."""
    num_outputs = values.shape[1]
    result = np.zeros((len(x), num_outputs))
    w = np.empty(4)
    for q in range(len(x)):
        i = stencil((x[q, 0] - low[0]) / step[0], values.shape[0], w)
        for a in range(4):
            for c in range(num_outputs):
                result[q, c] += w[a] * values[i + a, c]
    return result


@njit(cache=True)
def interpolate_2d(values, low, step, x):
    """values (nodes, nodes, outputs) at x (queries, 2), all inside the table."""
    num_outputs = values.shape[2]
    result = np.zeros((len(x), num_outputs))
    v, w = np.empty(4), np.empty(4)
    for q in range(len(x)):
        i = stencil((x[q, 0] - low[0]) / step[0], values.shape[0], v)
        j = stencil((x[q, 1] - low[1]) / step[1], values.shape[1], w)
        for a in range(4):
            for b in range(4):
                for c in range(num_outputs):
                    result[q, c] += v[a] * w[b] * values[i + a, j + b, c]
    return result


@njit(cache=True)
def interpolate_3d(values, low, step, x):
    """values (nodes, nodes, nodes, outputs) at x (queries, 3), all inside the table."""
    num_outputs = values.shape[3]
    result = np.zeros((len(x), num_outputs))
    u, v, w = np.empty(4), np.empty(4), np.empty(4)
    for q in range(len(x)):
        i = stencil((x[q, 0] - low[0]) / step[0], values.shape[0], u)
        j = stencil((x[q, 1] - low[1]) / step[1], values.shape[1], v)
        k = stencil((x[q, 2] - low[2]) / step[2], values.shape[2], w)
        for a in range(4):
            for b in range(4):
                for d in range(4):
                    for c in range(num_outputs):
                        result[q, c] += u[a] * v[b] * w[d] * values[i + a, j + b, k + d, c]
    return result


@njit(cache=True)
def march(values, shape, low, high, half, x, length, noise):
    """Euler-Maruyama steps of every path inside a table: states, and how many steps each path has taken.

    A path stops before a step from outside the table, or to a place that is no number. The sums are those of
    `simulate.euler_step` and `interpolate_1d` to `interpolate_3d`, in their order, so the states are the same bit for
    bit.

    Args:
        values: Drift and diffusion at the nodes, (nodes, outputs).
        shape: Number of nodes per axis.
        low, high: Corners of the table.
        half: The drift is asked half a step ahead, at x + half f(x); 0: at x.
        x: First states, (paths, dim).
        length: Of the steps, (paths, steps).
        noise: Standard normal numbers, (paths, steps, dim).
    """
    num_paths, num_steps, dim = noise.shape
    states, done = np.zeros(noise.shape), np.full(num_paths, num_steps)
    here, ahead, middle = np.empty(dim), np.empty(dim), np.empty(dim)
    field, again = np.empty(2 * dim), np.empty(2 * dim)
    weights, first = np.empty((3, 4)), np.zeros(3, np.int64)
    for p in range(num_paths):
        for j in range(dim):
            here[j] = x[p, j]
        for b in range(num_steps):
            good = _fields(values, shape, low, high, here, weights, first, field)
            if good and half > 0:
                for j in range(dim):
                    middle[j] = here[j] + half * field[j]
                good = _fields(values, shape, low, high, middle, weights, first, again)
                for j in range(dim):
                    field[j] = again[j]
            for j in range(dim):
                diffusion = 0.0 if field[dim + j] < 0 else field[dim + j]
                ahead[j] = _step(here[j], field[j], diffusion, length[p, b], noise[p, b, j])
                good = good and np.isfinite(ahead[j])
            if not good:
                done[p] = b
                break
            for j in range(dim):
                here[j] = states[p, b, j] = ahead[j]
    return states, done


@njit(cache=True)
def _fields(values, shape, low, high, x, weights, first, out):
    """Drift and diffusion at one place; False, and nothing, outside the table."""
    dim = len(x)
    for j in range(dim):
        if not (low[j] <= x[j] <= high[j]):
            return False
        step = (high[j] - low[j]) / (shape[0] - 1)
        first[j] = stencil((x[j] - low[j]) / step, shape[j], weights[j])
    for c in range(len(out)):
        out[c] = 0.0
    for a in range(4):
        row_a = first[0] + a
        if dim == 1:
            for c in range(len(out)):
                out[c] += weights[0, a] * values[row_a, c]
            continue
        for b in range(4):
            row_b = row_a * shape[1] + first[1] + b
            if dim == 2:
                for c in range(len(out)):
                    out[c] += weights[0, a] * weights[1, b] * values[row_b, c]
                continue
            for d in range(4):
                row_d = row_b * shape[2] + first[2] + d
                for c in range(len(out)):
                    out[c] += weights[0, a] * weights[1, b] * weights[2, d] * values[row_d, c]
    return True
