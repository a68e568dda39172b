"""numba kernel of what drawn functions do beyond the nodes of their grid."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import math

import numpy as np

from fimsde.compiler import njit


@njit(cache=True, error_model="numpy")
def add_beyond(x, rows, known, places, heights, sizes, lengths, waves, phases, out):
    """Add sqrt((1 - known²) (k² h² + (1 - k²) s²)) sqrt(2 / W) sum_w cos(w' x / l + phase) to out, per component.

    k = exp(-d² / 2 l²), d the distance to the nearest node and h the value there; nothing is added for a size of zero.

    Args:
        x: Locations (some, dim).
        rows: The draw that each of them asks.
        known: What B-splines add up to there.
        places: Of the nodes (nodes, dim).
        heights: Coefficients of the nodes (draws, nodes, dim).
        sizes, lengths: Of the process, s and l (draws, dim).
        waves, phases: Of the random functions (draws, dim, waves, axes) and (draws, dim, waves).
        out: Sums (some, dim).
    """
    nodes, dim = places.shape
    num = waves.shape[2]
    for n in range(len(x)):
        row, nearest, least = rows[n], 0, np.inf
        for k in range(nodes):
            away = 0.0
            for a in range(dim):
                away += (x[n, a] - places[k, a]) ** 2
            if away < least:
                nearest, least = k, away
        left = 1.0 - known[n] ** 2
        for c in range(dim):
            size, length = sizes[row, c], lengths[row, c]
            if size <= 0.0:
                continue
            kept = math.exp(-least / length**2)
            total = 0.0
            for w in range(num):
                turn = 0.0
                for a in range(dim):
                    turn += waves[row, c, w, a] * x[n, a]
                total += math.cos(turn / length + phases[row, c, w])
            spread = left * (kept * heights[row, nearest, c] ** 2 + (1.0 - kept) * size**2)
            out[n, c] += math.sqrt(spread * 2.0 / num) * total
