"""Euler-Maruyama: the only stepper in the package.

`euler_step` is the one line that moves a state. It is written so that NumPy, torch (with gradients) and numba all run
it: `simulate` calls it for any SDE, finetuning for gradients, and the prior compiles it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fimsde.errors import InvalidObservationsError
from fimsde.sde import SDE
from fimsde.shapes import Array, Bool, Float, Float64

T = TypeVar("T")
_BLOCK = 256  # noise is drawn for this many steps at a time; bounds memory, does not change results


def euler_step(x: T, drift: T, diffusion: T, dt: T, noise: T) -> T:
    """x after one Euler-Maruyama step of length `dt`, driven by standard normal `noise`."""
    return x + drift * dt + diffusion * dt**0.5 * noise  # type: ignore[operator]


@dataclass(frozen=True)
class Paths:
    """Simulated paths.

    Attributes:
        times: Grid of each path; `padding` entries repeat the last time.
        values: States; NaN from the moment a path diverged.
        mask: True where the value is a valid state.
        diverged_at: First grid time at which a path was no longer valid, NaN for good paths.
    """

    times: Float64[Array, "paths times"]
    values: Float64[Array, "paths times dim"]
    mask: Bool[Array, "paths times"]
    diverged_at: Float64[Array, " paths"]

    @property
    def num_diverged(self) -> int:
        """How many paths left the finite (or allowed) range."""
        return int(np.sum(~np.isnan(self.diverged_at)))
