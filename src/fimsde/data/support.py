"""Where an equation is asked: checked locations and starts, and whether a location is supported by data."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from fimsde.data.arrays import to_numpy
from fimsde.data.transitions import Transitions
from fimsde.errors import ConfigError, InvalidObservationsError, ObservationTypeError
from fimsde.shapes import Array, Bool, Float, Float64

_MAX_POINTS = 4096  # states kept to measure distances to; by hand: bounds time and memory
# of them, states whose own distances set the radius; by hand: bounds time, and five are beyond the quantile
_MAX_RADII = 512
_SHARE_INSIDE = 0.99  # of the observed states; by hand: a few outliers support nothing


def to_locations(x: Any, dim: int) -> Float64[Array, "queries dim"]:
    """Query locations as a float64 array (queries, dim), all finite.

    One location may come as (dim,), and an equation in one dimension takes a number or the shape (queries,).
    """
    array = _numbers(x, "x")
    if dim == 1 and array.ndim <= 1:
        array = array.reshape(-1, 1)
    elif array.shape == (dim,):
        array = array[None]
    if array.ndim != 2 or array.shape[1] != dim:
        short = " or (queries,)" if dim == 1 else f" or ({dim},)"
        raise InvalidObservationsError(f"x has shape {array.shape}; expected (queries, {dim}){short}.")
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        i, j = bad[0]
        raise InvalidObservationsError(
            f"x has the value {array[i, j]} at index {i}, component {j}; expected finite locations. Leave it out."
        )
    return array


def to_starts(x0: Any, dim: int, num_paths: int | None) -> Float64[Array, "paths dim"]:
    """Initial states (paths, dim): one of shape (dim,) for `num_paths` paths (one by default), or one per path."""
    array = _numbers(x0, "x0")
    if array.ndim not in (1, 2) or array.shape[-1] != dim:
        raise InvalidObservationsError(f"x0 has shape {array.shape}; expected ({dim},) or (paths, {dim}).")
    if num_paths is not None and not (isinstance(num_paths, int | np.integer) and num_paths >= 1):
        raise ConfigError(f"num_paths is {num_paths!r}; expected a whole number, at least 1.")
    if array.ndim == 1:
        return np.tile(array, (1 if num_paths is None else num_paths, 1))
    if num_paths not in (None, len(array)):
        raise InvalidObservationsError(
            f"num_paths is {num_paths}, but x0 has {len(array)} rows. Pass one start of shape ({dim},), or leave "
            "num_paths out."
        )
    return array


def _numbers(x: Any, what: str) -> Float64[Array, "..."]:
    array = to_numpy(x, what)
    if array.dtype.kind not in "fiu":
        raise ObservationTypeError(f"{what} holds values of type {array.dtype}; expected real numbers.")
    return array.astype(np.float64, copy=False)


@dataclass(frozen=True, eq=False)
class Support:
    """Where data were: all in normalised coordinates, so that the answer does not depend on units.

    A location is supported if its `num_neighbours`-th nearest observed state is no farther than `radius`, a distance
    that all but one in a hundred of the observed states keep to their own neighbours. A hole in the data is outside.

    Attributes:
        points: Distinct states from which a step was observed, thinned if there are very many.
        num_neighbours: Which neighbour is looked at: about the cube root of the number of points.
        radius: Largest distance to that neighbour.
        low, high: Corners of the box around all states.
    """

    points: Float64[Array, "points dim"]
    num_neighbours: int
    radius: float
    low: Float64[Array, " dim"]
    high: Float64[Array, " dim"]

    def contains(self, z: Float[Array, "queries dim"]) -> Bool[Array, " queries"]:
        """True where data support the location."""
        near = np.clip(z, -1e100, 1e100)  # the square of a distance must not overflow
        distance, _ = self._tree.query(near, k=[self.num_neighbours])
        return distance[:, 0] <= self.radius

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.points)


def fit_support(tr: Transitions) -> Support:
    """The support of normalised transitions. Repeated states count once, and the order of the rows does not matter."""
    distinct = _distinct(tr.y)  # sorted, so that thinning does not depend on the order of the paths
    points = _thin(distinct, _MAX_POINTS)
    num_neighbours = max(1, min(round(len(points) ** (1 / 3)), len(points) - 1))
    tree = cKDTree(points)
    itself = 1 if len(points) > 1 else 0  # the nearest observed state of an observed state
    distance, _ = tree.query(_thin(points, _MAX_RADII), k=[num_neighbours + itself])
    radius = float(np.quantile(distance, _SHARE_INSIDE, method="higher"))
    return Support(points, num_neighbours, radius, distinct.min(axis=0), distinct.max(axis=0))


def _distinct(rows: Float64[Array, "n dim"]) -> Float64[Array, "points dim"]:
    """Rows that differ, sorted by the first component, then by the second, ...; ten times faster than np.unique."""
    if rows.shape[1] == 1:
        return np.unique(rows[:, 0])[:, None]
    ordered = rows[np.lexsort(rows.T[::-1])]
    is_new = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    return ordered[is_new]


def _thin(points: Float64[Array, "points dim"], at_most: int) -> Float64[Array, "kept dim"]:
    return points[:: -(-len(points) // at_most)]
