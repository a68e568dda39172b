"""Smooth functions of the state that explain what the cells leave over, and the evidence that there is anything.

A Gaussian process for every length: the mean square of the cells' residuals in excess of their noise gives its size,
and the gain in log marginal likelihood over "nothing is left over" says how much it is worth.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fimsde.priming.cells import BANDWIDTHS
from fimsde.shapes import Array, Float64

_SIZES = (0.5, 2.0)  # of the process, relative to the excess; the better one is taken


@dataclass(frozen=True)
class Smooth:
    """Corrections sum_c weights_c exp(-|x - place_c|² / (2 b²)) for each bandwidth b, and their gains."""

    weights: Float64[Array, "cells dim widths"]
    gain: Float64[Array, "dim widths"]


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
    covariance[np.diag_indices_from(covariance)] += 1.0
    root = cho_factor(covariance, lower=True, overwrite_a=True, check_finite=False)
    solved = cho_solve(root, whitened, check_finite=False)
    return float(0.5 * whitened @ (whitened - solved) - np.log(np.diag(root[0])).sum()), solved
