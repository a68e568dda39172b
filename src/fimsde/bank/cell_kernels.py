"""numba kernels around cells of the state space: how many there are, sums around places, covariances."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit


@njit(cache=True)
def has_more_than(most, keys):
    """Whether there are more different keys than that: hashed into a table that is never more than half full."""
    size = 2 * most + 1
    table, used, found = np.empty(size, np.int64), np.zeros(size, np.bool_), 0
    for key in keys:
        slot = key % size
        while used[slot] and table[slot] != key:
            slot = (slot + 1) % size
        if not used[slot]:
            if found == most:
                return True
            table[slot], used[slot] = key, True
            found += 1
    return False


@njit(cache=True)
def kernel_sums(x, places, sums, bandwidths):
    """sum_c exp(-|x - place_c|² / (2 b²)) sums_c for every location and bandwidth."""
    out = np.zeros((len(x), len(bandwidths), sums.shape[1]))
    for i in range(len(x)):
        for c in range(len(places)):
            distance = 0.0
            for j in range(x.shape[1]):
                distance += (x[i, j] - places[c, j]) ** 2
            for b in range(len(bandwidths)):
                exponent = distance / (2.0 * bandwidths[b] ** 2)
                if exponent < 30.0:
                    w = np.exp(-exponent)
                    for s in range(sums.shape[1]):
                        out[i, b, s] += w * sums[c, s]
    return out


@njit(cache=True)
def fill_total_covariance(kernel, scale, size, out):
    """Upper triangle of 1 + size s_i k_ij s_j: errors 1 / s are the units, and a process has this size."""
    for i in range(len(scale)):
        for j in range(i, len(scale)):
            out[i, j] = kernel[i, j] * (scale[i] * scale[j]) * size
        out[i, i] += 1.0
