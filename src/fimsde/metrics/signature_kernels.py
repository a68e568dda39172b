"""Numba kernels of the truncated signature kernel: many pairs of paths at once, row after row of their Gram matrix.

Let M[i, j] be the static Gram matrix of two paths, differenced once along both. Level k sums products of M over
strictly increasing index tuples on both sides: R_1 = M, R_{k+1}[i, j] = M[i, j] * sum of R_k over i' < i, j' < j, and
level k = sum of R_k. No R_k is stored. Row i carries row_k = sum of R_k[i, :j], column j carries
above_k = sum of R_k[:i, :j], and a visit to cell (i, j) is

    R_{k+1} = M * above_k,    above_k += row_k,    row_k += R_k    (all on the old values),

so one pair needs O(levels * length) memory and about 3 operations per level and cell.

The recursion has no parallel direction along a row, hence LANES pairs run side by side: one path x against LANES paths
y, with the lane as the fastest axis, which the compiler turns into vector instructions. Columns are cut into tiles so
that the column sums stay in the first-level cache. A pair's numbers depend on neither its lane nor its neighbours.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

from math import factorial
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from fimsde.compiler import njit
from fimsde.shapes import Array, Float64, Int

LEVELS = 5  # the paper's; a constant, because the compiler has to unroll the level loop to vectorise over lanes
LANES = 16  # wide enough for any vector unit; a shorter loop would be unrolled into scalar code instead; by hand
# columns per tile: 4 levels * 16 lanes * 32 columns of float64 are 16 kB, half of a first-level cache of 32 kB
_TILE = 32
_SUMS = (LEVELS - 1) * LANES  # column sums of a cell: levels 1 to LEVELS - 1 of every lane

# Fused multiply-add may be used, reordering of sums may not: `_exp_minus` rounds by adding and subtracting 1.5 * 2^52.
_compile = njit(cache=True, nogil=True, fastmath={"contract"})


@_compile
def signature_levels(
    x: Float64[Array, "paths times dim"],
    y: Float64[Array, "others length dim"],
    rows: Int[Array, " blocks"],
    columns: Int[Array, "blocks lanes"],
    is_rbf: bool,
    out: Float64[Array, "blocks levels lanes"],
) -> None:
    """Write levels 1 to LEVELS of the pairs (x[rows[b]], y[columns[b, lane]]) to out[b, :, lane].

    The static kernel is exp(-|a - b|²) or a·b: the bandwidth is in the units of the paths.
    """
    num_times, dim = y.shape[1:]
    others = np.empty((dim, num_times * LANES))
    sums = np.empty((x.shape[1] - 1, LEVELS * LANES))
    for b in range(rows.size):
        for lane in range(LANES):
            for j in range(num_times):
                for d in range(dim):
                    others[d, j * LANES + lane] = y[columns[b, lane], j, d]
        _levels_of_block(x[rows[b]], others, is_rbf, sums)
        for k in range(LEVELS):
            for lane in range(LANES):
                out[b, k, lane] = sums[:, k * LANES + lane].sum()


@_compile
def _levels_of_block(path: Array, others: Array, is_rbf: bool, row_sums: Array) -> None:
    """Sum of R_k over each row of M; the lanes of level k are row_sums[:, (k - 1) * LANES : k * LANES]."""
    above = np.empty((_TILE + 1) * LANES)
    here = np.empty((_TILE + 1) * LANES)
    column_sums = np.empty(_TILE * _SUMS)
    num_columns = others.shape[1] // LANES - 1
    row_sums[:] = 0.0
    for start in range(0, num_columns, _TILE):
        width = min(_TILE, num_columns - start)
        column_sums[:] = 0.0
        _static_row(path[0], others, start, width + 1, is_rbf, above)
        for i in range(path.shape[0] - 1):
            _static_row(path[i + 1], others, start, width + 1, is_rbf, here)
            _visit_row(above, here, width, row_sums[i], column_sums)
            above, here = here, above


@_compile
def _visit_row(above: Array, here: Array, width: int, row: Array, column_sums: Array) -> None:
    """Visit the cells of one row of M inside a tile, given the static kernels on the two sides of that row."""
    for j in range(width):
        a = above[j * LANES : (j + 2) * LANES]
        h = here[j * LANES : (j + 2) * LANES]
        column = column_sums[j * _SUMS : (j + 1) * _SUMS]
        for lane in range(LANES):
            m = (h[lane + LANES] - h[lane]) - (a[lane + LANES] - a[lane])
            r = m
            for k in range(LEVELS - 1):
                s = k * LANES + lane
                block, before = column[s], row[s]
                column[s] = block + before
                row[s] = before + r
                r = m * block
            row[_SUMS + lane] += r


@_compile
def _static_row(point: Array, others: Array, start: int, width: int, is_rbf: bool, out: Array) -> None:
    """Static kernel of one point with `width` points of every lane."""
    size = width * LANES
    out[:size] = 0.0
    for d in range(point.size):
        value = point[d]
        other = others[d][start * LANES : start * LANES + size]
        if is_rbf:
            for u in range(size):
                gap = value - other[u]
                out[u] += gap * gap
        else:
            for u in range(size):
                out[u] += value * other[u]
    if is_rbf:
        for u in range(size):
            out[u] = _exp_minus(out[u])


_LOG2_E = 1.4426950408889634  # 1 / ln 2
_LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts (fdlibm's); the first has 21 zero bits at its end, so that
_LN2_LOW = 1.90821492927058770002e-10  # a whole number times it is exact
_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest whole number in the low bits of the sum
# Taylor's coefficients; the first one left out, r^13 / 13!, is below 2e-16 for |r| <= ln(2) / 2
_C2, _C3, _C4, _C5, _C6, _C7, _C8, _C9, _C10, _C11, _C12 = (1.0 / factorial(k) for k in range(2, 13))


@_compile
def _exp_minus(z: float) -> float:
    """exp(-z) for z >= 0 to 4e-16, free of branches and calls so that it vectorises; constant (2e-35) beyond z = 80.

    2e-35 is nineteen orders below the rounding error of the kernel's largest value; stopping there also keeps five-fold
    products clear of denormal numbers, which are slow.
    """
    minus = max(-z, -80.0)
    shifted = minus * _LOG2_E + _ROUND
    power = shifted - _ROUND
    r = (minus - power * _LN2_HIGH) - power * _LN2_LOW  # |r| <= ln(2) / 2
    s = r * r
    even = ((((_C12 * s + _C10) * s + _C8) * s + _C6) * s + _C4) * s + _C2
    odd = (((_C11 * s + _C9) * s + _C7) * s + _C5) * s + _C3
    mantissa = 1.0 + (r + s * (even + r * odd))
    return _as_float(_as_bits(mantissa) + (_as_bits(shifted) << 52))  # times 2^power


def _reinterpret(source: Any, target: Any) -> Any:
    """A compiled function that reads the 64 bits of one type as another."""

    @intrinsic
    def cast(_typing: Any, _value: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
            return builder.bitcast(args[0], context.get_value_type(target))

        return target(source), generate

    return cast


_as_bits = _reinterpret(types.float64, types.int64)
_as_float = _reinterpret(types.int64, types.float64)
