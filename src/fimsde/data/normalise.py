"""Instance normalisation: unit scale for every component, gaps centred at a fixed size, and the exact way back.

z = (x - offset) / scale and s = time_scale * t. The map is affine, so Ito's correction vanishes:
drift in data units = scale * time_scale * drift of z, diffusion = scale * sqrt(time_scale) * diffusion of z.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from fimsde.data.transitions import Transitions
from fimsde.errors import InvalidObservationsError
from fimsde.shapes import Array, Float, Float64

Statistics = Literal["observations", "starts"]


@dataclass(frozen=True, eq=False)
class Normaliser:
    """Scales of one data set. Methods map into normalised coordinates, their `undo_` twins back."""

    offset: Float64[Array, " dim"]
    scale: Float64[Array, " dim"]
    time_scale: float

    def states(self, x: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        return (x - self.offset) / self.scale

    def undo_states(self, z: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        return z * self.scale + self.offset

    def times(self, t: Float[Array, "*lead"]) -> Float[Array, "*lead"]:
        return t * self.time_scale

    def transitions(self, tr: Transitions) -> Transitions:
        return replace(tr, y=self.states(tr.y), dy=tr.dy / self.scale, dtau=self.times(tr.dtau))

    def drift(self, f: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        return f / (self.scale * self.time_scale)

    def undo_drift(self, f: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        return f * (self.scale * self.time_scale)

    def diffusion(self, d: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        return d / (self.scale * np.sqrt(self.time_scale))

    def undo_diffusion(self, d: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        return d * (self.scale * np.sqrt(self.time_scale))


def fit_normaliser(tr: Transitions, statistics: Statistics = "observations", target_gap: float = 0.01) -> Normaliser:
    """Scales of the data: mean and population standard deviation per component, geometric mean of the gaps.

    Args:
        tr: Transitions in data units.
        statistics: Which states count. "observations": every observed one, as the published model was trained;
            "starts": the starts of the steps, so that cutting a path at an observation changes nothing.
        target_gap: Geometric mean of the gaps after normalisation.
    """
    points = tr.y if statistics == "starts" else tr.observations()
    low, spread = points.min(axis=0), np.ptp(points, axis=0)
    if not np.all(spread > 0):
        j = int(np.argmin(spread))
        raise InvalidObservationsError(f"component {j} is constant at {low[j]:g}; it has no scale. Remove it.")
    # In units of the range first: squares of values near 1e±200 would overflow or vanish. No absolute guard is needed.
    unit = (points - low) / spread
    offset = low + unit.mean(axis=0) * spread
    scale = unit.std(axis=0) * spread
    time_scale = target_gap * float(np.exp(-np.mean(np.log(tr.dtau))))
    return Normaliser(offset=offset, scale=scale, time_scale=time_scale)
