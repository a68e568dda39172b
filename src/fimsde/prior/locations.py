"""Where the model is asked for drift and diffusion: a regular grid around the clean paths, and states on them."""

import numpy as np

from fimsde.prior import path_kernels
from fimsde.prior.config import LocationConfig
from fimsde.prior.noise_kernels import derive
from fimsde.prior.paths import CleanPaths
from fimsde.shapes import Array, Float, Float64


def widened_box(config: LocationConfig, clean: CleanPaths) -> Float64[Array, "2 dim"]:
    """Lower and upper corner of the clean paths, each side moved out by a share of the range."""
    low, high = clean.bounds.astype(np.float64)
    margin = config.widen * (high - low)
    return np.array([low - margin, high + margin])


def nodes_per_axis(config: LocationConfig, dim: int) -> int:
    """2048, 45 and 13 nodes for a grid size of 2048 in one, two and three dimensions."""
    return max(1, round(config.grid_size ** (1 / dim)))


def grid_nodes(config: LocationConfig, box: Float64[Array, "2 dim"]) -> Float64[Array, "queries dim"]:
    """All nodes of the regular grid over a box, the last axis fastest."""
    per_axis = nodes_per_axis(config, box.shape[1])
    return path_kernels.grid_nodes(box, per_axis, np.arange(per_axis ** box.shape[1]))


def stored_locations(
    config: LocationConfig, box: Float64[Array, "2 dim"], clean: CleanPaths, key: np.uint64
) -> Float[Array, "queries dim"]:
    """Different random nodes of the grid, then different random states of the clean paths, in float32."""
    dim = clean.sde.dim
    per_axis = nodes_per_axis(config, dim)
    num_nodes, states = per_axis**dim, clean.values.reshape(-1, dim)
    chosen = path_kernels.choose_distinct(np.uint64(derive(key, 0)), num_nodes, min(config.stored_nodes, num_nodes))
    nodes = path_kernels.grid_nodes(box, per_axis, chosen).astype(np.float32)
    visited = path_kernels.choose_distinct(
        np.uint64(derive(key, 1)), len(states), min(config.stored_states, len(states))
    )
    return np.concatenate([nodes, states[visited]])
