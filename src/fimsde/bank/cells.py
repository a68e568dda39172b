"""Local summaries: what no polynomial of low degree explains, collected in cells of the state space.

Windows are gathered in cubes of a fixed width (in standard deviations). Each occupied cell keeps its mean place, its
time, the sum of the drift residuals and of the second moments.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.bank import cell_kernels
from fimsde.bank.residuals import WindowResiduals
from fimsde.shapes import Array, Float64, Int

BANDWIDTHS = (0.12, 0.3, 0.75)  # standard deviations of the state; three lengths: docs/training-log.md, "Gaussian"
MAX_CELLS = 192  # the heaviest ones are kept; bounds the work of the model, which reads a token for each
_WIDTHS = (0.08, 0.15, 0.25, 0.4, 0.6, 1.0, 1.6)  # the finest one that keeps all cells is taken
_FARTHEST = 20.0  # standard deviations; places beyond are counted with those there
SETTINGS = f"bandwidths {BANDWIDTHS}, cells {MAX_CELLS} of widths {_WIDTHS} within {_FARTHEST:g}"


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


def gather_cells(residuals: WindowResiduals) -> tuple[Cells, Int[Array, " windows"]]:
    """sum_{windows in cell} of time, r, q and what is expected of q, over the finest cubes that are few enough.

    At most `MAX_CELLS` are kept. Also each window's cell, -1 for none.
    """
    place, time = residuals.place, residuals.time
    for width in _WIDTHS:
        index = np.floor(np.clip(place, -_FARTHEST, _FARTHEST) / width + 0.5).astype(np.int64) + 1000
        key = index @ (2048 ** np.arange(place.shape[1]))
        if not cell_kernels.has_more_than(MAX_CELLS, key):
            break
    _, label = np.unique(key, return_inverse=True)
    num = int(label.max()) + 1
    total = np.bincount(label, time, num)
    heaviest = np.sort(np.argsort(-total, kind="stable")[:MAX_CELLS])

    def summed(values: Float64[Array, "windows dim"]) -> Float64[Array, "cells dim"]:
        return np.stack([np.bincount(label, column, num)[heaviest] for column in values.T], axis=1)

    number = np.full(num, -1)
    number[heaviest] = np.arange(len(heaviest))
    cells = Cells(
        place=summed(place * time[:, None]) / total[heaviest, None],
        time=total[heaviest],
        residual=summed(residuals.residual),
        variation=summed(residuals.variation),
        expected=summed(residuals.expected),
    )
    return cells, number[label]


def kernel_time(cells: Cells, x: Float64[Array, "queries dim"]) -> Float64[Array, "queries widths"]:
    """sum_c exp(-|x - place_c|² / (2 b²)) time_c around each location, for each bandwidth b."""
    return cell_kernels.kernel_sums(x, cells.place, cells.time[:, None], np.array(BANDWIDTHS))[..., 0]
