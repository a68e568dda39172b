"""Potentials: landscapes whose valleys are the states an equation prefers.

Three conventions, none of them the same:
drift potential (1-D): V(x) = -∫ f dx, squared state per time; its minima are the stable fixed points of the drift.
effective potential (1-D): Φ(x) = ln g(x) - ∫ 2 f / g dx = -ln p(x) + const, no unit; its minima are the most likely
states. For constant g it is 2 V / g.
quasi-potential (1-D, 2-D): -ln p(x) + const for the stationary density p inside a box; in 1-D the effective potential.
"""

from dataclasses import dataclass

import numpy as np
from scipy.integrate import cumulative_simpson

from fimsde.analysis.box import finite_fields
from fimsde.analysis.cells import BoxCells
from fimsde.analysis.density import CellValues, stationary_mass
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float64

_LEAST_NOISE = 1e-9  # of the largest g; as in `generator`


@dataclass(frozen=True, eq=False)
class Potential:
    """Potentials of an equation in one dimension; both have minimum 0.

    Attributes:
        x: States.
        drift_potential: -∫ f dx, squared state per time.
        effective_potential: ln g - ∫ 2 f / g dx, no unit: minus the logarithm of the stationary density.
    """

    x: Float64[Array, " nodes"]
    drift_potential: Float64[Array, " nodes"]
    effective_potential: Float64[Array, " nodes"]


@dataclass(frozen=True, eq=False)
class QuasiPotential:
    """-ln of the stationary density inside a box with reflecting walls, minimum 0, no unit.

    Attributes:
        axes: Centres of the cells along each axis.
        values: The quasi-potential at each cell; not above 708, beyond which the density is no float64.
    """

    axes: tuple[Float64[Array, " cells"], ...]
    values: CellValues


def potential(sde: SDE, low: float, high: float, num: int = 801) -> Potential:
    """V = -∫ f dx and Φ = ln g - ∫ 2 f / g dx of a one-dimensional equation on `num` nodes (Simpson's rule)."""
    if sde.dim != 1:
        raise ConfigError(
            f"the equation has {sde.dim} dimensions; a drift is the slope of a potential in one only. "
            "quasi_potential() gives minus the logarithm of the stationary density in two."
        )
    x = np.linspace(low, high, num)
    if not (np.diff(x) > 0).all():
        raise ConfigError(
            f"{num} nodes from {low!r} to {high!r} are no {num} different numbers: the state is too far from zero for "
            "its range. Subtract an offset, e.g. with observations.with_units(offset=...), or pass fewer nodes."
        )
    drift, diffusion = finite_fields(sde, x[:, None])
    f, g = drift[:, 0], diffusion[:, 0] ** 2
    g = np.maximum(g, _LEAST_NOISE * g.max())
    if not g.max() > 0:
        raise ConfigError("the diffusion is zero everywhere, so there is no effective potential.")
    plain = -cumulative_simpson(f, x=x, initial=0.0)
    effective = np.log(g) - cumulative_simpson(2 * f / g, x=x, initial=0.0)
    if not (np.isfinite(plain).all() and np.isfinite(effective).all()):
        raise ConfigError(
            "the potential is larger than a float64 in parts of the box: the drift is too strong against the noise "
            "there. Choose a smaller box."
        )
    return Potential(x, plain - plain.min(), effective - effective.min())


def quasi_potential(sde: SDE, cells: BoxCells) -> QuasiPotential:
    """-ln p(x) + const for the stationary density p, with minimum 0."""
    mass = np.maximum(stationary_mass(sde, cells), np.finfo(np.float64).tiny)
    values = -np.log(mass).reshape((cells.num,) * cells.dim)
    return QuasiPotential(cells.axes, values - values.min())
