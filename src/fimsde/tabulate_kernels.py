"""Compiled kernels of the road: cubic interpolation in tables."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit


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
