"""Regular grids of locations: the one place where nodes are laid out."""

from collections.abc import Sequence

import numpy as np

from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float, Float64


def nodes_per_axis(dim: int, budget: int, most: int, alone: int | None = None) -> int:
    """Nodes along each axis of a grid that has at most `budget` nodes in all, and at most `most` along an axis.

    A single axis may have `alone` of them. At least two, the ends of the axis: 256 nodes in eight dimensions.
    """
    most = alone if dim == 1 and alone is not None else most
    return max(2, min(most, int(budget ** (1 / dim) + 1e-9)))


def regular_grid(
    low: Float[Array, " dim"] | Sequence[float], high: Float[Array, " dim"] | Sequence[float], num_per_axis: int
) -> Float64[Array, "queries dim"]:
    """Nodes of a regular grid over a box, both ends of every axis included, the last axis fastest.

    Args:
        low: Lower corner of the box, in the units of the state.
        high: Upper corner.
        num_per_axis: Nodes along each axis.
    """
    if num_per_axis < 2 or len(low) == 0 or len(low) != len(high) or not np.all(np.less(low, high)):
        raise ConfigError(
            f"a grid of {num_per_axis} nodes per axis from {low} to {high} is not possible; "
            "give at least 2 nodes, and a lower and a larger upper end for every axis."
        )
    axes = [np.linspace(a, b, num_per_axis) for a, b in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
