"""Dropout and attention weights under dropout, compiled: masks that are made again rather than stored.

Whether an element is kept follows from (seed, its number) by a hash of 32 bits, of which each element uses 16. So the
way back makes the same mask once more, and no array of random numbers ever exists. torch draws one number at a time,
which is a third of a training step of a small model on a CPU.
"""
# mypy: ignore-errors
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit

u32, f32 = np.uint32, np.float32
_HALF = 1024  # hashes made at a time: their factors stay in the fastest cache


@njit(nogil=True, cache=True, inline="always")
def _hash(number, first, second):
    """32 mixed bits: multiplications and shifts that let every bit of the input reach every bit of the output."""
    h = u32(number) ^ first
    h = u32((h ^ (h >> u32(16))) * u32(0x7FEB352D))
    h = u32((h ^ (h >> u32(15))) + second)
    h = u32(h * u32(0x846CA68B))
    return u32(h ^ (h >> u32(16)))


@njit(nogil=True, error_model="numpy", cache=True)
def drop(first, second, threshold, scale, x, out):
    """out = scale * x where 16 bits of the hash are at least `threshold`, else 0; x and out may be the same array."""
    n = len(x)
    factors = np.empty(2 * _HALF, np.float32)
    for start in range(0, n, 2 * _HALF):
        _fill(u32(start // 2), first, second, threshold, scale, factors)
        for i in range(min(2 * _HALF, n - start)):
            out[start + i] = x[start + i] * factors[i]


@njit(nogil=True, error_model="numpy", cache=True)
def _fill(base, first, second, threshold, scale, factors):
    """The first half takes the low 16 bits of the hashes, the second half the high ones: both run over neighbours."""
    for i in range(_HALF):
        h = _hash(base + u32(i), first, second)
        factors[i] = scale if (h & u32(0xFFFF)) >= threshold else f32(0)
        factors[i + _HALF] = scale if (h >> u32(16)) >= threshold else f32(0)


@njit(nogil=True, fastmath={"contract", "reassoc", "nsz"}, error_model="numpy", cache=True)
def softmax_backward(weights, gradient):
    """gradient = weights * (gradient - sum of weights * gradient), row by row and in place; float32 (rows, n)."""
    rows, n = weights.shape
    for r in range(rows):
        total = f32(0)
        for j in range(n):
            total += weights[r, j] * gradient[r, j]
        for j in range(n):
            gradient[r, j] = weights[r, j] * (gradient[r, j] - total)
