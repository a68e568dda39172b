"""Local summaries: what no polynomial of low degree explains, collected in cells of the state space.

Windows are gathered in cubes of a fixed width (in standard deviations). Each occupied cell keeps its mean place, its
time, the sum of the drift residuals and of the second moments.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.priming import compiled
from fimsde.shapes import Array, Float64

BANDWIDTHS = (0.12, 0.3, 0.75)  # standard deviations of the state
MAX_CELLS = 192  # the heaviest ones are kept
_WIDTHS = (0.08, 0.15, 0.25, 0.4, 0.6, 1.0, 1.6)  # the finest one that keeps all cells is taken


@dataclass(frozen=True)
class Cells:
    """Occupied cells in normalised coordinates.

    Attributes:
        place: Mean place of the windows in the cell.
        time: Time spent in the cell.
        residual: Sum of the increments that the reference drift does not explain.
        variation: Sum of the second moments of the residuals, free of measurement noise.
        expected: What the reference diffusion expects of `variation`.
    """

    place: Float64[Array, "cells dim"]
    time: Float64[Array, " cells"]
    residual: Float64[Array, "cells dim"]
    variation: Float64[Array, "cells dim"]
    expected: Float64[Array, "cells dim"]


def gather_cells(
    place: Float64[Array, "windows dim"],
    time: Float64[Array, " windows"],
    residual: Float64[Array, "windows dim"],
    variation: Float64[Array, "windows dim"],
    expected: Float64[Array, "windows dim"],
) -> Cells:
    """Sum windows over the finest cubes that are not more than `MAX_CELLS`."""
    for width in _WIDTHS:
        index = np.floor(np.clip(place, -20.0, 20.0) / width + 0.5).astype(np.int64) + 1000
        key = index @ (2048 ** np.arange(place.shape[1]))
        _, label = np.unique(key, return_inverse=True)
        if label.max() < MAX_CELLS:
            break
    num = int(label.max()) + 1
    total = np.bincount(label, time, num)

    def summed(values: Float64[Array, "windows dim"]) -> Float64[Array, "cells dim"]:
        return np.stack([np.bincount(label, values[:, j], num) for j in range(values.shape[1])], axis=1)

    cells = Cells(
        summed(place * time[:, None]) / total[:, None], total, summed(residual), summed(variation), summed(expected)
    )
    heaviest = np.sort(np.argsort(-total, kind="stable")[:MAX_CELLS])
    return Cells(*(getattr(cells, name)[heaviest] for name in ("place", "time", "residual", "variation", "expected")))


def kernel_time(cells: Cells, x: Float64[Array, "queries dim"]) -> Float64[Array, "queries widths"]:
    """Kernel-weighted time around each location, for each bandwidth."""
    return compiled.kernel_sums(x, cells.place, cells.time[:, None], np.array(BANDWIDTHS))[..., 0]
