"""Frame: axes in an order, and pointing in directions, that the data themselves choose.

What is computed in it cannot depend on the order in which components were listed, or on the sign of their scales.
"""

from dataclasses import dataclass, replace

import numpy as np

from fimsde.data.transitions import Transitions
from fimsde.shapes import Array, Float64, Int


@dataclass(frozen=True, eq=False)
class Frame:
    """Component k of the frame is component order[k] of the data, times signs[k]. Methods map into it, twins back."""

    order: Int[Array, " dim"]
    signs: Float64[Array, " dim"]

    def states(self, z: Float64[Array, "*lead dim"]) -> Float64[Array, "*lead dim"]:
        """States, their differences, and drifts."""
        return z[..., self.order] * self.signs

    def transitions(self, tr: Transitions) -> Transitions:
        """The same steps."""
        return replace(tr, y=self.states(tr.y), dy=self.states(tr.dy))

    def undo_states(self, z: Float64[Array, "*lead dim"]) -> Float64[Array, "*lead dim"]:
        """The way back: also of drifts."""
        return self.undo_sizes(z * self.signs)

    def undo_sizes(self, sizes: Float64[Array, "*lead dim"]) -> Float64[Array, "*lead dim"]:
        """The way back of what has no sign: diffusions, variances, probabilities."""
        return sizes[..., np.argsort(self.order)]


def choose_frame(tr: Transitions) -> Frame:
    """Axes by growing fourth moment of the normalised states, each so that its third moment is positive.

    Moments that are exactly equal, or zero, leave axes as they are.
    """
    order = np.argsort((tr.y**4).mean(axis=0), kind="stable")
    signs = np.where((tr.y**3).mean(axis=0) < 0, -1.0, 1.0)[order]
    return Frame(order, signs)
