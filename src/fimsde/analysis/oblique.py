"""Jumps between the cells of a plane for noise whose components are correlated: rates that are never negative.

In units of the cells the variance rate is M = H^-1 g H^-1 and the drift b = H^-1 f, with H the sides of a cell. Any
such M is a sum of w_k e_k e_k' over three pairs of whole steps ±e_k with weights w_k >= 0 (Selling's algorithm;
Fehrenbach and Mirebeau, Sparse non-negative stencils for anisotropic diffusion, 2014). With m = M^-1 b the drift is the
sum of w_k (e_k . m) e_k, so that each pair is a one-dimensional equation of its own, with the rates

    (w_k / 2) B(-2 e_k . m) along e_k    and    (w_k / 2) B(2 e_k . m) against it,    B(z) = z / (exp z - 1).

For diagonal M these are the rates of Scharfetter and Gummel at the centre of the cell. A jump that would cross an open
wall ends there, and is as much more frequent as it is shorter; one across a closed wall slides along it.
"""

import numpy as np
from scipy import sparse

from fimsde.analysis.box import finite_fields
from fimsde.analysis.cells import BoxCells, bernoulli
from fimsde.equations.sde import SDE, correlation
from fimsde.errors import InvalidObservationsError
from fimsde.shapes import Array, Float64, Int

_LEAST_NOISE = 1e-9  # of the largest variance rate: keeps M positive where the noise vanishes; as in `generator`
# correlation: nearer to one the steps e_k become longer than the grid is wide; by hand: the axes of the noise are then
# as sqrt(1.999 / 0.001) = 45 to 1, on 100 cells
_LARGEST = 0.999
_ROUNDS = 200  # of Selling's algorithm; a correlation of 0.999 on cells of any shape takes fewer; by hand


def oblique_jumps(
    sde: SDE, cells: BoxCells, open_low: Array, open_high: Array
) -> tuple[sparse.coo_matrix, Float64[Array, " cells"]]:
    """Rates of all jumps from cell to cell, and out of the box through walls that let paths out."""
    matrix, drift = _in_cells(sde, cells)
    weights, steps = selling(matrix)
    pull = np.linalg.solve(matrix, drift[..., None])[..., 0]  # m
    start = np.stack(np.unravel_index(np.arange(cells.num**cells.dim), (cells.num,) * cells.dim), axis=1)
    size = len(start)
    exits = np.zeros(size)
    rows, columns, values = [], [], []
    for k in range(steps.shape[1]):
        along = 2 * np.einsum("ci,ci->c", steps[:, k], pull)
        for sign in (1, -1):
            rate = weights[:, k] / 2 * bernoulli(-sign * along)
            step = sign * steps[:, k]
            share = _share_inside(start, step, cells.num, open_low, open_high)
            exits += np.where(share < 1, rate / share, 0.0)
            end = np.clip(start + step, 0, cells.num - 1)
            stays = (share == 1) & np.any(end != start, axis=1) & (rate > 0)
            rows.append(np.flatnonzero(stays))
            columns.append(end[stays] @ cells.num ** np.arange(cells.dim - 1, -1, -1))
            values.append(rate[stays])
    jumps = sparse.coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (size, size))
    return jumps, exits


def selling(
    matrix: Float64[Array, "cells 2 2"],
) -> tuple[Float64[Array, "cells 3"], Int[Array, "cells 3 2"]]:
    """Weights w_k >= 0 and whole steps e_k with sum_k w_k e_k e_k' = matrix, for positive definite matrices.

    Three vectors that sum to zero are changed until all their products v_i' M v_j are at most zero; the weights are
    minus these products, the steps the third vectors turned by a right angle.
    """
    base = np.tile(np.array([[1, 0], [0, 1], [-1, -1]]), (len(matrix), 1, 1))
    for _ in range(_ROUNDS):
        products = np.einsum("kai,kij,kbj->kab", base, matrix, base)[:, [1, 2, 0], [2, 0, 1]]  # opposite 0, 1, 2
        worst = products.argmax(axis=1)
        wrong = np.flatnonzero(products[np.arange(len(base)), worst] > 0)
        if not len(wrong):
            break
        first, second = (worst[wrong] + 1) % 3, (worst[wrong] + 2) % 3
        u, v = base[wrong, first], base[wrong, second]
        base[wrong] = np.stack([-u, v, u - v], axis=1)
    else:
        raise InvalidObservationsError(
            "the noise of two components is so nearly the same that no grid shows it. Choose a box whose sides are to "
            "each other as the noise is, or simulate (simulate, simulate_exit)."
        )
    return np.maximum(-products, 0.0), np.stack([-base[..., 1], base[..., 0]], axis=-1)


def _in_cells(sde: SDE, cells: BoxCells) -> tuple[Float64[Array, "cells 2 2"], Float64[Array, "cells 2"]]:
    """Variance rate and drift at the centres, in units of the cells."""
    x = cells.centres()
    drift, diffusion = finite_fields(sde, x)
    spread = diffusion / cells.width
    largest = spread.max(axis=0, initial=0.0)
    drift = drift / cells.width
    if not np.all(largest > 0):  # a component without noise: as little as keeps the scheme upwind
        largest = np.where(largest > 0, largest, np.sqrt(_LEAST_NOISE * np.abs(drift).max(axis=0) + 1e-300))
    spread = np.maximum(spread, np.sqrt(_LEAST_NOISE) * largest)
    rho = correlation(sde, x)
    off = np.clip(rho[:, 0, 1], -_LARGEST, _LARGEST)
    matrix = spread[:, :, None] * spread[:, None, :]
    matrix[:, 0, 1] *= off
    matrix[:, 1, 0] *= off
    return matrix, drift


def _share_inside(
    start: Int[Array, "cells dim"], step: Int[Array, "cells dim"], num: int, open_low: Array, open_high: Array
) -> Float64[Array, " cells"]:
    """Share of a jump that lies before the first open wall it crosses; 1 if it crosses none.

    The centre of cell i is i + 1/2 sides from the lower wall.
    """
    share = np.ones(len(start))
    for j in range(start.shape[1]):
        ahead, size = start[:, j] + step[:, j], np.maximum(np.abs(step[:, j]), 1)
        if open_low[j]:
            share = np.where(ahead < 0, np.minimum(share, (start[:, j] + 0.5) / size), share)
        if open_high[j]:
            share = np.where(ahead >= num, np.minimum(share, (num - start[:, j] - 0.5) / size), share)
    return share
