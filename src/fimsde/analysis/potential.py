"""Potentials: landscapes whose valleys are the states an equation prefers.

Three conventions, none of them the same:
drift potential (1-D): V(x) = -∫ f dx, squared state per time; its minima are the stable fixed points of the drift.
effective potential (1-D): Φ(x) = ln g(x) - ∫ 2 f / g dx = -ln p(x) + const, no unit; its minima are the most likely
states. For constant g it is 2 V / g.
quasi-potential (1-D, 2-D): -ln p(x) + const for the stationary density p inside a box; in 1-D the effective potential.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.integrate import cumulative_simpson

from fimsde.analysis.box import finite_fields
from fimsde.analysis.cells import BoxCells
from fimsde.analysis.density import CellValues, stationary_mass
from fimsde.analysis.draws import LEVEL, Draws, Interval, interval_of
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
        drawn: Both potentials in draws of the posterior; None without one.
    """

    x: Float64[Array, " nodes"]
    drift_potential: Float64[Array, " nodes"]
    effective_potential: Float64[Array, " nodes"]
    drawn: Callable[[], tuple[Float64[Array, "draws nodes"], Float64[Array, "draws nodes"]]] | None = field(
        default=None, repr=False
    )

    def interval(self, level: float = LEVEL) -> tuple[Interval, Interval]:
        """Where drift potential and effective potential are at each node, by draws of the posterior."""
        return interval_of(self._draws()[0], level), interval_of(self._draws()[1], level)

    def barriers(self, level: float = LEVEL) -> "tuple[Barrier, ...]":
        """The way up from every valley of the drift potential to the hills beside it, with intervals if there are any.

        In a draw the valley is the lowest place between the same two hills, the hill the highest one between the same
        two valleys.
        """
        tops, wells = _extrema(self.drift_potential)
        drawn = None if self.drawn is None else self._draws()
        found = []
        for well in wells:
            for top in (
                max([t for t in tops if t < well], default=None),
                min([t for t in tops if t > well], default=None),
            ):
                if top is not None:
                    found.append(self._barrier(well, top, tops, wells, drawn, level))
        return tuple(found)

    def _barrier(
        self, well: int, top: int, tops: list[int], wells: list[int], drawn: tuple[Array, Array] | None, level: float
    ) -> "Barrier":
        sides = [t for t in tops if t < well], [t for t in tops if t > well]
        basin = slice(max(sides[0], default=0), min(sides[1], default=len(self.x) - 1) + 1)
        beyond = [w for w in wells if (w - top) * (top - well) > 0]
        other = min(beyond, key=lambda w: abs(w - top)) if beyond else (0 if top < well else len(self.x) - 1)
        ridge = slice(min(well, other), max(well, other) + 1)
        both = []
        for k, own in enumerate((self.drift_potential, self.effective_potential)):
            heights = None if drawn is None else drawn[k][:, ridge].max(axis=1) - drawn[k][:, basin].min(axis=1)
            both.append((float(own[ridge].max() - own[basin].min()), heights))
        intervals = [None if heights is None else interval_of(heights, level) for _, heights in both]
        return Barrier(float(self.x[well]), float(self.x[top]), both[0][0], both[1][0], intervals[0], intervals[1])

    def _draws(self) -> tuple[Array, Array]:
        if self.drawn is None:
            raise ConfigError("this equation has no posterior, so that its potential has no interval.")
        return self.drawn()


@dataclass(frozen=True)
class Barrier:
    """The way from a valley of the potential to a hill beside it.

    Attributes:
        well, top: Where they are.
        height: In the drift potential, squared state per time.
        effective: In the effective potential, no unit: exit times grow as its exponential.
        interval, effective_interval: Of both, by draws of the posterior; None without one.
    """

    well: float
    top: float
    height: float
    effective: float
    interval: Interval | None = None
    effective_interval: Interval | None = None


def _extrema(values: Float64[Array, " nodes"]) -> tuple[list[int], list[int]]:
    """Inner nodes that are higher, and that are lower, than both neighbours."""
    inner = values[1:-1]
    tops = np.flatnonzero((inner > values[:-2]) & (inner >= values[2:])) + 1
    wells = np.flatnonzero((inner < values[:-2]) & (inner <= values[2:])) + 1
    return tops.tolist(), wells.tolist()


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


def drawn_potentials(
    draws: Draws, x: Float64[Array, " nodes"]
) -> tuple[Float64[Array, "draws nodes"], Float64[Array, "draws nodes"]]:
    """Both potentials of all draws, each with minimum 0."""
    drift, diffusion = draws.fields(x[:, None])
    f, g = drift[:, :, 0], diffusion[:, :, 0] ** 2
    g = np.maximum(g, _LEAST_NOISE * g.max(axis=1, keepdims=True))
    plain = -cumulative_simpson(f, x=x, initial=0.0, axis=1)
    effective = np.log(g) - cumulative_simpson(2 * f / g, x=x, initial=0.0, axis=1)
    return plain - plain.min(axis=1, keepdims=True), effective - effective.min(axis=1, keepdims=True)


def quasi_potential(sde: SDE, cells: BoxCells) -> QuasiPotential:
    """-ln p(x) + const for the stationary density p, with minimum 0."""
    mass = np.maximum(stationary_mass(sde, cells), np.finfo(np.float64).tiny)
    values = -np.log(mass).reshape((cells.num,) * cells.dim)
    return QuasiPotential(cells.axes, values - values.min())
