"""Smooth functions of the state that explain what the cells leave over, and the evidence that there is anything.

A Gaussian process for every length: the mean square of the cells' residuals in excess of their noise gives its size,
and the gain in log marginal likelihood over "nothing is left over" says how much it is worth.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fimsde.priming.cells import BANDWIDTHS, Cells
from fimsde.priming.fit import LeftOver
from fimsde.shapes import Array, Float64, Int

_SIZES = (0.5, 2.0)  # of the process, relative to the excess; the better one is taken
_LEAST_RATE = 0.1  # of the mean variance rate: no cell is surer than that
_ALIKE = 10.0  # windows in a cell at which their own spread counts as much as that of all windows


@dataclass(frozen=True)
class Smooth:
    """Corrections sum_c weights_c exp(-|x - place_c|² / (2 b²)) for each bandwidth b, and their gains."""

    weights: Float64[Array, "cells dim widths"]
    gain: Float64[Array, "dim widths"]


def local_corrections(
    cells: Cells, label: Int[Array, " windows"], left_over: LeftOver, rate: Float64[Array, " dim"], *, noisy: bool
) -> tuple[Smooth, Smooth]:
    """Smooth corrections of drift and g, with the errors that the fitted g expects of windows, scaled by what is seen.

    With measurement noise every cell has a scale of its own for the drift: noise, and what a steep drift makes of it,
    is not everywhere the same share of the error.
    """
    time, own_time = cells.time[:, None], left_over.time[:, None]
    g = np.maximum(cells.expected / time, _LEAST_RATE * rate)
    own = np.maximum(left_over.expected / own_time, _LEAST_RATE * rate)
    scale = (
        _spread(left_over.residual**2 / (own * own_time), label, len(time))
        if noisy
        else np.maximum((left_over.residual**2).sum(axis=0) / (own * own_time).sum(axis=0), 1.0)
    )
    moment = ((left_over.variation - left_over.expected) ** 2).sum(axis=0) / (own**2 * own_time).sum(axis=0)
    return (
        smooth(cells.place, cells.residual / time, scale * g / time),
        smooth(cells.place, (cells.variation - cells.expected) / time, moment * g**2 / time),
    )


def _spread(
    square: Float64[Array, "windows dim"], label: Int[Array, " windows"], num: int
) -> Float64[Array, "cells dim"]:
    """Mean squares of the windows of each cell, few of them drawn towards the mean of all."""
    inside = label >= 0
    count = np.bincount(label[inside], minlength=num)[:, None]
    sums = np.stack([np.bincount(label[inside], column[inside], num) for column in square.T], axis=1)
    return (sums + _ALIKE * square.mean(axis=0)) / (count + _ALIKE)


def smooth(
    place: Float64[Array, "cells dim"], value: Float64[Array, "cells dim"], variance: Float64[Array, "cells dim"]
) -> Smooth:
    """Posterior means given noisy values at places, every component by itself."""
    num, dim = value.shape
    distance = ((place[:, None] - place[None]) ** 2).sum(axis=-1)
    kernels = [np.exp(-distance / (2.0 * bandwidth**2)) for bandwidth in BANDWIDTHS]
    weights, gain = np.zeros((num, dim, len(BANDWIDTHS))), np.zeros((dim, len(BANDWIDTHS)))
    for d in range(dim):
        scale = 1.0 / np.sqrt(variance[:, d])
        whitened = value[:, d] * scale
        excess = max(whitened @ whitened - num, np.sqrt(2.0 * num)) / (scale @ scale)
        for w, kernel in enumerate(kernels):
            correlation = kernel * (scale[:, None] * scale)
            solutions = [_solve(correlation * (size * excess), whitened) for size in _SIZES]
            best = int(np.argmax([found for found, _ in solutions]))
            gain[d, w], solved = solutions[best]
            weights[:, d, w] = _SIZES[best] * excess * scale * solved
    return Smooth(weights, gain)


def _solve(
    covariance: Float64[Array, "cells cells"], whitened: Float64[Array, " cells"]
) -> tuple[float, Float64[Array, " cells"]]:
    """Gain in log marginal likelihood of a process over white noise of variance one, and (1 + covariance)^-1 values."""
    covariance.flat[:: len(covariance) + 1] += 1.0
    root = cho_factor(covariance.T, lower=True, overwrite_a=True, check_finite=False)  # turned: no copy is made
    solved = cho_solve(root, whitened, check_finite=False)
    return float(0.5 * whitened @ (whitened - solved) - np.log(np.diag(root[0])).sum()), solved
