"""The stationary density of an equation, by the Fokker-Planck equation on a grid, beside the histogram of the data."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from fimsde.analysis.cells import BoxCells
from fimsde.analysis.draws import LEVEL, Interval, interval_of
from fimsde.analysis.generator import factorise, make_generator
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.shapes import Array, Float64

_BINS = {1: 50, 2: 25}  # of the histogram, per axis, at most; by hand: the look of the picture
_SHIFT = 1e-10  # of the fastest rate; by hand: far above rounding, far below the rate at which a box comes to rest
_MOST_ROUNDS = 200  # by hand: bounds the time where parts of a box hardly exchange paths
# change of the density in one round, total variation; by hand: a tenth of the 1e-9 to which laws hold
_CONVERGED = 1e-10

CellValues = Float64[Array, " cells"] | Float64[Array, "cells cells"]


@dataclass(frozen=True, eq=False)
class StationaryDensity:
    """Where an equation spends its time in the long run, with reflecting walls around the box.

    Attributes:
        axes: Centres of the cells along each axis.
        density: Probability per volume at each cell; positive, sums to one times the inverse volume of a cell.
        bin_edges: Edges of the bins of the histogram along each axis; every bin is made of whole cells.
        histogram: Share of the data per volume in each bin; None if there are no data.
        edge_share: Probability in the outermost fiftieth of the box; if it is not small, walls shape the answer.
        unsupported_share: Probability where no data support the equation; 0 if there are no data.
        drawn: Densities of draws of the posterior; None without one.
    """

    axes: tuple[Float64[Array, " cells"], ...]
    density: CellValues
    bin_edges: tuple[Float64[Array, " edges"], ...]
    histogram: Float64[Array, "..."] | None
    edge_share: float
    unsupported_share: float
    cells: BoxCells = field(repr=False)
    drawn: Callable[[], Float64[Array, "draws ..."]] | None = field(default=None, repr=False)

    def interval(self, level: float = LEVEL) -> Interval:
        """Where the density is at each cell, by draws of the posterior; a second of work in one dimension, more in two.

        Args:
            level: Probability that it is inside.
        """
        if self.drawn is None:
            raise ConfigError("this equation has no posterior, so that its density has no interval.")
        return interval_of(self.drawn(), level)

    def marginal(self, component: int) -> Float64[Array, " cells"]:
        """Integral of the density over the other components, at `axes[component]`."""
        others = tuple(j for j in range(self.density.ndim) if j != component)
        return self.density.sum(axis=others) * float(np.prod(np.delete(self.cells.width, component)))

    def mean(self) -> Float64[Array, " dim"]:
        """Mean state: the integral of x p(x)."""
        return np.array([self._moment(j, 1) for j in range(self.density.ndim)])

    def variance(self) -> Float64[Array, " dim"]:
        """Variance of each component: the integral of x_j² p(x), minus the square of the mean."""
        return np.array([self._moment(j, 2) - self._moment(j, 1) ** 2 for j in range(self.density.ndim)])

    def distance(self) -> float:
        """Total variation 1/2 sum abs(h - p) v over the bins, 0 to 1; NaN if there are no data.

        h is the histogram, p the mean density in a bin and v the volume of a bin.
        """
        if self.histogram is None:
            return float("nan")
        merge = self.cells.num // self.histogram.shape[0]
        bins = self.density
        for axis in range(bins.ndim):
            bins = np.stack(np.split(bins, bins.shape[axis] // merge, axis=axis)).mean(axis=axis + 1)
            bins = np.moveaxis(bins, 0, axis)
        volume = float(np.prod(self.cells.width * merge))
        return float(np.abs(bins - self.histogram).sum() * volume / 2)

    def _moment(self, component: int, power: int) -> float:
        return float(np.sum(self.marginal(component) * self.axes[component] ** power) * self.cells.width[component])


def stationary_density(
    sde: SDE, cells: BoxCells, observations: Observations | None, inside: Array | None
) -> StationaryDensity:
    """Solve the Fokker-Planck equation at rest: 0 = -sum_i d_i (f_i p) + 1/2 sum_ij d_i d_j (g_ij p).

    d_i is the derivative along axis i and p the density. No probability crosses the walls of the box.

    Args:
        sde: Any equation in one or two dimensions.
        cells: Where.
        observations: Data for the histogram.
        inside: Whether data support each cell.
    """
    mass = stationary_mass(sde, cells)
    shape = (cells.num,) * cells.dim
    merge = next(m for m in range(1, cells.num + 1) if cells.num % m == 0 and cells.num // m <= _BINS[cells.dim])
    edges = tuple(np.linspace(a, b, cells.num // merge + 1) for a, b in zip(cells.low, cells.high, strict=True))
    histogram = None
    if observations is not None:
        counts, _ = np.histogramdd(observations.values, bins=edges)
        histogram = counts / (observations.num_points * np.prod(cells.width * merge))
    return StationaryDensity(
        axes=cells.axes,
        density=mass.reshape(shape) / float(np.prod(cells.width)),
        bin_edges=edges,
        histogram=histogram,
        edge_share=_edge_share(mass.reshape(shape)),
        unsupported_share=0.0 if inside is None else float(mass[~inside].sum()),
        cells=cells,
    )


def stationary_mass(sde: SDE, cells: BoxCells) -> Float64[Array, " cells"]:
    """Probability m of each cell at rest: R' m = 0 with the rates R of the jumps, m positive, its sum one.

    Inverse iteration with a shift that is tiny against the fastest rate. The matrix is an M-matrix and is factorised
    without pivoting, so that no entry is ever the difference of two positive numbers: tails keep their relative size.
    """
    generator = make_generator(sde, cells)
    rates = generator.rates
    shift = _SHIFT * np.abs(rates.diagonal()).max()
    factors = factorise((shift * sparse.eye(rates.shape[0]) - rates.T).tocsc())
    mass = np.full(rates.shape[0], 1 / rates.shape[0])
    for _ in range(_MOST_ROUNDS):
        ahead = factors.solve(mass)
        ahead /= ahead.sum()
        change = np.abs(ahead - mass).sum() / 2
        mass = ahead
        if change < _CONVERGED:
            return mass
    raise InvalidObservationsError(
        f"the stationary density did not settle: the last of {_MOST_ROUNDS} rounds still moved {change:.1e} of the "
        "probability. Parts of the box hardly exchange paths; choose a box around one of them."
    )


def _edge_share(mass: Float64[Array, "..."]) -> float:
    ring = max(1, len(mass) // 50)
    inner = mass[(slice(ring, -ring),) * mass.ndim]
    return float(max(0.0, 1 - inner.sum()))
