"""Equal cells that fill a box, in one and two dimensions: where densities and mean times are solved for."""

from dataclasses import dataclass

import numpy as np

from fimsde.data.grid import regular_grid
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float64

# per axis; by hand: errors fall as one over its square, and a solution takes a fraction of a second
NUM_CELLS = {1: 400, 2: 100}
_MOST_CELLS = 250_000  # by hand: bounds the memory of the factors; 500 by 500 in two dimensions


@dataclass(frozen=True, eq=False)
class BoxCells:
    """Equal cells that fill a box.

    Attributes:
        low, high: Corners of the box.
        num: BoxCells per axis.
    """

    low: Float64[Array, " dim"]
    high: Float64[Array, " dim"]
    num: int

    @property
    def dim(self) -> int:
        """Dimension of the box."""
        return len(self.low)

    @property
    def width(self) -> Float64[Array, " dim"]:
        """Sides of a cell."""
        return (self.high - self.low) / self.num

    @property
    def axes(self) -> tuple[Float64[Array, " cells"], ...]:
        """Centres of the cells along each axis."""
        steps = np.arange(self.num) + 0.5
        return tuple(a + w * steps for a, w in zip(self.low, self.width, strict=True))

    def centres(self) -> Float64[Array, "queries dim"]:
        """Centre of every cell, last axis fastest."""
        half = self.width / 2
        return regular_grid(self.low + half, self.high - half, self.num)


def make_cells(low: Float64[Array, " dim"], high: Float64[Array, " dim"], num: int | None) -> BoxCells:
    """BoxCells over a box: 400 in one dimension, 100 by 100 in two, unless asked otherwise."""
    dim = len(low)
    if dim not in NUM_CELLS:
        raise ConfigError(
            f"the equation has {dim} dimensions; equations for densities and mean times are solved on grids in one or "
            "two. Simulate instead: simulate(...) for densities, simulate_exit(...) for exit times."
        )
    num = NUM_CELLS[dim] if num is None else num
    if not num >= 4 or num**dim > _MOST_CELLS:
        raise ConfigError(f"num_cells is {num}; expected at least 4 per axis and at most {_MOST_CELLS} in all.")
    return BoxCells(low, high, num)


def bernoulli(z: Float64[Array, "..."]) -> Float64[Array, "..."]:
    """z / (exp z - 1), which is 1 at 0 and -z for very negative z."""
    small = np.abs(z) < 1e-8
    safe = np.where(small, 1.0, np.clip(z, -700, 700))
    exact = safe / np.expm1(safe)
    return np.where(small, 1 - z / 2, np.where(z < -700, -z, exact))
