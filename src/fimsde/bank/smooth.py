"""Smooth functions of the state that explain what the cells leave over, and the evidence that there is anything.

A Gaussian process for every length: the mean square of the cells' residuals in excess of their noise gives its size,
and the gain in log marginal likelihood over "nothing is left over" says how much it is worth.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs

from fimsde.bank import cell_kernels
from fimsde.bank.cells import BANDWIDTHS, Cells
from fimsde.bank.residuals import WindowResiduals
from fimsde.shapes import Array, Float64, Int

_SIZES = (0.5, 2.0)  # of the process, relative to the excess; the better one is taken
_LEAST_RATE = 0.1  # of the mean variance rate: no cell is surer than that, as in the weights of the fits
_SMALLEST = 1e-200  # variance of values of data that do not move
_ALIKE = 10.0  # windows in a cell at which their own spread counts as much as that of all windows
SETTINGS = f"sizes {_SIZES}, least rate {_LEAST_RATE:g}, alike {_ALIKE:g}"


@dataclass(frozen=True)
class Smooth:
    """Corrections sum_c weights_c exp(-|x - place_c|² / (2 b²)) for each bandwidth b, and their gains."""

    weights: Float64[Array, "cells values widths"]
    gain: Float64[Array, "values widths"]


def local_corrections(
    cells: Cells,
    label: Int[Array, " windows"],
    residuals: WindowResiduals,
    rate: Float64[Array, " dim"],
    *,
    noisy: bool,
) -> tuple[Smooth, Smooth]:
    """Posterior means of r / T and (q - expected) / T with variances s g / T and k g² / T: corrections of drift and g.

    r, q and T are residuals, second moments and times of the cells; g is what the fit expects there.
    s = sum r² / sum g T over all windows, not below 1, and k = sum (q - expected)² / sum g² T scale these errors.
    With measurement noise every cell has a scale of its own for the drift: noise, and what a steep drift makes of it,
    is not everywhere the same share of the error.
    """
    time, own_time = cells.time[:, None], residuals.time[:, None]
    g = np.maximum(cells.expected / time, _LEAST_RATE * rate)
    own = np.maximum(residuals.expected / own_time, _LEAST_RATE * rate)
    scale = (
        _spread(residuals.residual**2 / (own * own_time), label, len(time))
        if noisy
        else np.maximum((residuals.residual**2).sum(axis=0) / (own * own_time).sum(axis=0), 1.0)
    )
    moment = ((residuals.variation - residuals.expected) ** 2).sum(axis=0) / (own**2 * own_time).sum(axis=0)
    both = smooth(
        cells.place,
        np.hstack([cells.residual, cells.variation - cells.expected]) / time,
        np.hstack([scale * g, moment * g**2]) / time,
    )
    dim = len(rate)
    return Smooth(both.weights[:, :dim], both.gain[:dim]), Smooth(both.weights[:, dim:], both.gain[dim:])


def _spread(
    square: Float64[Array, "windows dim"], label: Int[Array, " windows"], num: int
) -> Float64[Array, "cells dim"]:
    """Mean squares of the windows of each cell, few of them drawn towards the mean of all."""
    inside = label >= 0
    count = np.bincount(label[inside], minlength=num)[:, None]
    sums = np.stack([np.bincount(label[inside], column[inside], num) for column in square.T], axis=1)
    return (sums + _ALIKE * square.mean(axis=0)) / (count + _ALIKE)


def smooth(
    place: Float64[Array, "cells dim"], value: Float64[Array, "cells values"], variance: Float64[Array, "cells values"]
) -> Smooth:
    """a K (a K + V)⁻¹ y: means of a Gaussian process given values y with variances V at places, column by column.

    K is the normal kernel of a bandwidth. The size a is the mean square of y in excess of V, at least the standard
    deviation of a chi-square, times the better of two factors. The gain is log N(y; 0, a K + V) - log N(y; 0, V).
    """
    num, columns = value.shape
    distance = ((place[:, None] - place[None]) ** 2).sum(axis=-1)
    kernels = [np.exp(-distance / (2.0 * bandwidth**2)) for bandwidth in BANDWIDTHS]
    weights, gain = np.zeros((num, columns, len(BANDWIDTHS))), np.full((columns, len(BANDWIDTHS)), -np.inf)
    total = np.empty((num, num))
    for d in range(columns):
        scale = 1.0 / np.sqrt(np.maximum(variance[:, d], _SMALLEST))
        whitened = value[:, d] * scale
        excess = max(whitened @ whitened - num, np.sqrt(2.0 * num)) / (scale @ scale)
        for w, kernel in enumerate(kernels):
            for size in _SIZES:
                cell_kernels.fill_total_covariance(kernel, scale, size * excess, total)
                found, solved = _solve(total, whitened)
                if found > gain[d, w]:
                    gain[d, w], weights[:, d, w] = found, size * excess * scale * solved
    return Smooth(weights, gain)


def _solve(
    total: Float64[Array, "cells cells"], whitened: Float64[Array, " cells"]
) -> tuple[float, Float64[Array, " cells"]]:
    """Gain in log marginal likelihood of a covariance over white noise of variance one, and its inverse times values.

    The covariance is used up, and only its upper triangle is read.
    """
    root, failed = dpotrf(total.T, lower=True, clean=False, overwrite_a=True)  # turned: no copy is made
    if failed:
        raise np.linalg.LinAlgError("the covariance of the cells is not positive")
    solved, _ = dpotrs(root, whitened, lower=True)
    return float(0.5 * whitened @ (whitened - solved) - np.log(np.diag(root)).sum()), solved
