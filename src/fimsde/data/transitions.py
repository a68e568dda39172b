"""Observations become transitions, one row per observed step; rows never join different paths."""

from dataclasses import dataclass

import numpy as np

from fimsde.data.observations import Observations
from fimsde.shapes import Array, Bool, Float64, Int


@dataclass(frozen=True, eq=False)
class Transitions:
    """Steps (y, dy, dtau) between neighbouring observations: path after path, in time order inside a path.

    Attributes:
        y: State at the start of the step.
        dy: Increment over the step.
        dtau: Length of the step; a gap in the data is one longer step.
        path: Number of the path each row belongs to.
    """

    y: Float64[Array, "n dim"]
    dy: Float64[Array, "n dim"]
    dtau: Float64[Array, " n"]
    path: Int[Array, " n"]

    def __len__(self) -> int:
        return len(self.dtau)

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.y.shape[1]

    def ends_path(self) -> Bool[Array, " n"]:
        """True for the last row of each path."""
        last = np.ones(len(self), bool)
        last[:-1] = self.path[1:] != self.path[:-1]
        return last

    def observations(self) -> Float64[Array, "points dim"]:
        """All observed states that take part in a step: the starts, and the end of every path."""
        last = self.ends_path()
        return np.concatenate([self.y, self.y[last] + self.dy[last]])


def to_transitions(obs: Observations) -> Transitions:
    """One row per observed step. A path with a single observation gives none."""
    path = np.repeat(np.arange(obs.num_paths), np.diff(obs.path_starts))  # (points,)
    inside = path[1:] == path[:-1]
    return Transitions(
        y=obs.values[:-1][inside],
        dy=np.diff(obs.values, axis=0)[inside],
        dtau=np.diff(obs.times)[inside],
        path=path[:-1][inside],
    )
