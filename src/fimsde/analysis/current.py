"""Probability currents at rest, and the entropy they produce: how far an equation is from equilibrium.

J_i = f_i p - 1/2 sum_j d_j (g_ij p) is the current of the stationary density p. It vanishes everywhere if paths look
the same forwards and backwards. Otherwise entropy is produced at the rate S = ∫ J' D^-1 J / p dx, D = g / 2, in units
of Boltzmann's constant per time: the rate at which one can tell the direction of time. On the cells of a grid S is
Schnakenberg's sum over all pairs of neighbours, 1/2 sum (m_i r_ij - m_j r_ji) ln(m_i r_ij / m_j r_ji).
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy import sparse

from fimsde.analysis.cells import BoxCells
from fimsde.analysis.density import stationary_mass
from fimsde.analysis.draws import LEVEL, Interval, interval_of
from fimsde.analysis.generator import make_generator
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float64


@dataclass(frozen=True, eq=False)
class ProbabilityCurrent:
    """Stationary currents inside a box with reflecting walls, in the plane.

    Attributes:
        axes: Centres of the cells along each axis.
        density: Stationary density at each cell.
        current: J at each cell, probability per length and time; the last axis is the component.
        entropy_production: S, per time.
        drawn: Entropy production of draws of the posterior; None without one.
    """

    axes: tuple[Float64[Array, " cells"], ...]
    density: Float64[Array, "cells cells"]
    current: Float64[Array, "cells cells 2"]
    entropy_production: float
    drawn: Callable[[], Float64[Array, " draws"]] | None = field(default=None, repr=False)

    def interval(self, level: float = LEVEL) -> Interval:
        """Where the entropy production is, by draws of the posterior; seconds of work."""
        if self.drawn is None:
            raise ConfigError("this equation has no posterior, so that its entropy production has no interval.")
        return interval_of(self.drawn(), level)


def probability_current(sde: SDE, cells: BoxCells) -> ProbabilityCurrent:
    """Currents between neighbouring cells, averaged over the two faces of a cell along each axis."""
    if cells.dim != 2:
        raise ConfigError(
            f"the equation has {cells.dim} dimensions; currents are computed in two. In one there are none at rest, "
            "inside walls."
        )
    mass = stationary_mass(sde, cells)
    ahead = _flux(sde, cells, mass)
    net = (ahead - ahead.T).tocsr()
    shape = (cells.num, cells.num)
    number = np.arange(mass.size).reshape(shape)
    current = np.zeros((*shape, 2))
    for axis in range(2):
        lower, upper = (np.moveaxis(number, axis, 0)[part].ravel() for part in (slice(None, -1), slice(1, None)))
        flux = np.asarray(net[lower, upper]).ravel().reshape(cells.num - 1, cells.num)  # ahead through inner faces
        faces = np.zeros((cells.num + 1, cells.num))
        faces[1:-1] = flux
        middle = 0.5 * (faces[1:] + faces[:-1]) / np.prod(np.delete(cells.width, axis))
        current[..., axis] = np.moveaxis(middle, 0, axis)
    density = mass.reshape(shape) / float(np.prod(cells.width))
    return ProbabilityCurrent(cells.axes, density, current, entropy_production(sde, cells, mass))


def entropy_production(sde: SDE, cells: BoxCells, mass: Float64[Array, " cells"] | None = None) -> float:
    """Schnakenberg's sum over all pairs of cells that exchange paths, per time."""
    ahead = _flux(sde, cells, stationary_mass(sde, cells) if mass is None else mass).tocoo()
    there, back = ahead.data, np.asarray(ahead.T.tocsr()[ahead.row, ahead.col]).ravel()
    both = (there > 0) & (back > 0)
    return float(0.5 * np.sum((there - back)[both] * np.log(there[both] / back[both])))


def _flux(sde: SDE, cells: BoxCells, mass: Float64[Array, " cells"]) -> sparse.csr_matrix:
    """Probability per time that goes from cell i to cell j."""
    rates = make_generator(sde, cells).rates
    return (sparse.diags(mass) @ (rates - sparse.diags(rates.diagonal()))).tocsr()
