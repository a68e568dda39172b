"""Regular grids of locations: the one place where nodes are laid out."""

from collections.abc import Sequence

import numpy as np

from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float, Float64


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
