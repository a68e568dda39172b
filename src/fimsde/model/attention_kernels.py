"""Softmax attention of few queries to many keys, compiled: the inner loop of simulation.

One pass over the keys in blocks that stay in the cache, with a running sum per query, so that no array of queries times
keys ever exists. On a CPU it takes three quarters of the time of torch's own fused attention: products run in tiles
held in registers, and the exponential is a polynomial that vectorises.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

# mypy: disable-error-code="call-arg"
# (an intrinsic takes one argument less than its definition shows)

import numpy as np

from fimsde.compiler import njit
from fimsde.model.tiles import LANES, LINE, ROWS, WIDTH, add_tile, prefetch, score_tile

BLOCK = 128  # keys per block
_COMFORT = np.float32(32)  # weights stay within 2**±32 of the first block's largest, far from over- and underflow
_LOWEST = np.float32(-126)  # exponent of the smallest normal number
_LOG2_E = 1.4426950408889634
_MATH = {"contract", "reassoc", "arcp", "nsz"}  # everything fast except what would hide NaN and infinity


@njit(nogil=True, fastmath=_MATH, error_model="numpy", cache=True)
def attend(q, blocks, v, out):
    """Write softmax(q k' / sqrt(head_dim)) v into `out`. NaN and infinity in the input give NaN.

    Args:
        q, out: float32 (heads, queries, head_dim).
        blocks: The keys, float32 (heads, blocks, head_dim, BLOCK), contiguous; behind the last key it is repeated.
        v: float32 (heads, n, head_dim), contiguous.
    """
    heads, queries, dim = q.shape
    n = v.shape[1]
    groups = (queries + ROWS - 1) // ROWS
    rows = np.zeros(groups * ROWS * dim, np.float32)
    read = np.empty(groups * ROWS * dim, np.float32)
    total = np.empty(groups * ROWS, np.float32)
    base = np.empty(groups * ROWS, np.float32)  # scores count in powers of two, relative to this
    scores = np.empty(ROWS * BLOCK, np.float32)
    peaks = np.empty(ROWS * LANES, np.float32)
    scale = np.float32(_LOG2_E / np.sqrt(dim))
    lines = (BLOCK * dim // LINE + groups - 1) // groups  # of the next block, fetched while one group is worked on
    for h in range(heads):
        for i in range(queries):
            for c in range(dim):
                rows[i * dim + c] = q[h, i, c] * scale
        keys, values = blocks[h].reshape(-1), v[h].reshape(-1)
        read[:] = 0
        total[:] = 0
        base[:] = 0
        for first in range(0, n, BLOCK):
            count = min(BLOCK, n - first)
            for g in range(groups):
                for line in range(g * lines, (g + 1) * lines):
                    prefetch(keys, (first + BLOCK) * dim + line * LINE)
                    prefetch(values, (first + BLOCK) * dim + line * LINE)
                row = g * ROWS
                peaks[:] = -np.inf
                for j in range(0, count, WIDTH):
                    score_tile(
                        rows, row * dim, dim, keys, first * dim + j, BLOCK, scores, j, BLOCK, dim, base, row, peaks
                    )
                if first == 0 or _largest(peaks, 0, ROWS * LANES) > _COMFORT:
                    _move_base(scores, peaks, base, total, read, row, dim)
                for j in range(ROWS * BLOCK):
                    scores[j] = _exp2(scores[j])
                for r in range(ROWS):
                    weight = np.float32(0)
                    for j in range(count):
                        weight += scores[r * BLOCK + j]
                    total[row + r] += weight
                for c in range(0, dim, WIDTH):
                    add_tile(scores, 0, BLOCK, values, first * dim + c, dim, read, row * dim + c, dim, count)
        for i in range(queries):
            for c in range(dim):
                out[h, i, c] = read[i * dim + c] / total[i]


@njit(nogil=True, fastmath=_MATH, error_model="numpy", inline="always")
def _move_base(scores, peaks, base, total, read, row, dim):
    """Take scores that left the comfortable range relative to their largest, and rescale what was summed before."""
    for r in range(ROWS):
        i = row + r
        peak = _largest(peaks, r * LANES, (r + 1) * LANES)
        if peak > _COMFORT or (total[i] == 0 and peak < -_COMFORT):
            for j in range(r * BLOCK, (r + 1) * BLOCK):
                scores[j] -= peak
            shrink = _exp2(min(-peak, np.float32(0)))  # a peak below zero: nothing was summed before
            for c in range(i * dim, (i + 1) * dim):
                read[c] *= shrink
            total[i] *= shrink
            base[i] += peak


@njit(nogil=True, fastmath=_MATH, error_model="numpy", inline="always")
def _largest(x, first, last):
    largest = x[first]
    for i in range(first + 1, last):
        largest = x[i] if x[i] > largest else largest
    return largest


@njit(nogil=True, fastmath=_MATH, error_model="numpy", inline="always")
def _exp2(x):
    """2**x up to a relative error of 1e-7; the polynomial is the best fit to 2**f on |f| <= 1/2. NaN stays NaN."""
    x = _LOWEST if x < _LOWEST else x
    whole = np.floor(x + np.float32(0.5))
    f = x - whole
    p = np.float32(1.327647182e-3)
    p = p * f + np.float32(9.675541368e-3)
    p = p * f + np.float32(5.550713274e-2)
    p = p * f + np.float32(2.402211972e-1)
    p = p * f + np.float32(6.931469671e-1)
    p = p * f + np.float32(1.000000072)
    exponent = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
    return p * exponent.view(np.float32)
