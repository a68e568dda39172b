"""Where an equation leads: fixed points, potentials, stationary densities and currents, exit times."""

from abc import abstractmethod
from dataclasses import replace
from functools import cache, cached_property, partial

import numpy as np

from fimsde.analysis import density, exit_time, fixed_points, potential
from fimsde.analysis.box import Box, to_box, to_open_box, to_walls
from fimsde.analysis.cells import BoxCells, make_cells
from fimsde.analysis.current import ProbabilityCurrent, entropy_production, probability_current
from fimsde.analysis.density import StationaryDensity, stationary_mass
from fimsde.analysis.draws import NUM_DRAWS
from fimsde.analysis.exit_time import ExitTime, SimulatedExit
from fimsde.analysis.fixed_point_draws import with_errors
from fimsde.analysis.fixed_points import FixedPoint
from fimsde.analysis.potential import Potential, QuasiPotential, drawn_potentials
from fimsde.data.observations import Observations
from fimsde.errors import ConfigError
from fimsde.results.posterior import Locations
from fimsde.results.uncertain import Uncertain
from fimsde.shapes import Array, Bool, Float
from fimsde.tabulate import tabulate


class Landscape(Uncertain):
    """The part of a `Result` that follows the equation in the long run; with a posterior, with its intervals."""

    observations: Observations | None

    @abstractmethod
    def inside(self, x: Locations) -> Bool[Array, " queries"]: ...

    def fixed_points(self, box: Box | None = None) -> tuple[FixedPoint, ...]:
        """States at which the drift vanishes, with their stability; with a posterior, also how sure that is (`.error`).

        Args:
            box: Lower and upper corner of where to look; by default those of the data.
        """
        low, high = to_box(box, self.dim, self.observations)
        if (key := (*low.tolist(), *high.tolist())) not in self._kept_points:
            found = fixed_points.find(self, low, high, self.inside)
            if self.has_posterior:
                found = with_errors(found, self._draws("posterior", NUM_DRAWS, 0), low, high)
            self._kept_points[key] = found
        return self._kept_points[key]

    def stationary_density(self, box: Box | None = None, num_cells: int | None = None) -> StationaryDensity:
        """Where paths spend their time in the long run, beside the histogram of the data. One or two dimensions.

        Args:
            box: Reflecting walls; by default around the data, a tenth of their range away.
            num_cells: Per axis; 400 in one dimension and 100 in two by default.
        """
        cells = self._cells(box, num_cells)
        inside = None if self.observations is None else self.inside(cells.centres())
        found = density.stationary_density(self, cells, self.observations, inside)
        shape, volume = (cells.num,) * cells.dim, float(np.prod(cells.width))
        return replace(
            found, drawn=self._solved(lambda sde: stationary_mass(sde, cells).reshape(shape) / volume, shape)
        )

    def potential(self, box: Box | None = None, num: int = 801) -> Potential:
        """Drift potential -∫ f dx and effective potential ln g - ∫ 2 f / g dx of an equation in one dimension.

        Args:
            box: From where to where; by default the range of the data.
            num: Nodes.
        """
        low, high = to_box(box, self.dim, self.observations)
        found = potential.potential(self, float(low[0]), float(high[0]), num)
        if not self.has_posterior:
            return found
        return replace(found, drawn=cache(partial(drawn_potentials, self._draws("posterior", NUM_DRAWS, 0), found.x)))

    def current(self, box: Box | None = None, num_cells: int | None = None) -> ProbabilityCurrent:
        """Stationary currents and the rate of entropy production, in two dimensions; see `fimsde.analysis.current`.

        Args:
            box: Reflecting walls; by default around the data, a tenth of their range away.
            num_cells: Per axis; 100 by default.
        """
        cells = self._cells(box, num_cells)
        found = probability_current(self, cells)
        return replace(found, drawn=self._solved(lambda sde: np.asarray(entropy_production(sde, cells)), ()))

    def quasi_potential(self, box: Box | None = None, num_cells: int | None = None) -> QuasiPotential:
        """Minus the logarithm of the stationary density, minimum 0; arguments as for `stationary_density`."""
        return potential.quasi_potential(self, self._cells(box, num_cells))

    def exit_time(self, box: Box, *, walls: Box | None = None, num_cells: int | None = None) -> ExitTime:
        """Mean time until a path leaves a box, by the backward equation. One or two dimensions.

        Args:
            box: Lower and upper corner. An infinite number means that there is no way out on that side.
            walls: Reflecting walls for infinite sides; by default around the data, a quarter of their range away.
            num_cells: Per axis; 400 in one dimension and 100 in two by default.
        """
        low, high = to_open_box(box, self.dim)
        inner = to_walls(walls, low, high, self.observations)
        found = exit_time.exit_time(self, low, high, inner, num_cells)
        again = self._each(lambda sde: exit_time.exit_time(sde, low, high, inner, num_cells))
        return replace(found, drawn=again)

    def first_passage(
        self, start: float, level: float, *, walls: Box | None = None, num_cells: int | None = None
    ) -> ExitTime:
        """Mean time until a path from `start` first reaches `level`, in one dimension: `.at(start)` is the number.

        The same as `exit_time` of everything on the side of the start.
        """
        if self.dim != 1:
            raise ConfigError(f"the equation has {self.dim} components; a level is passed in one. See exit_time.")
        box = (-np.inf, level) if start < level else (level, np.inf)
        return self.exit_time(box, walls=walls, num_cells=num_cells)

    def simulate_exit(
        self,
        x0: float | Float[Array, " dim"],
        box: Box,
        *,
        num_paths: int = 1000,
        dt: float | None = None,
        max_time: float | None = None,
        seed: int = 0,
    ) -> SimulatedExit:
        """Exit times of simulated paths, with the standard error of their mean: a check of `exit_time`, or 3-D.

        Args:
            x0: Start of all paths.
            box: As for `exit_time`; no walls are needed.
            num_paths: Number of paths.
            dt: Step; by default one over which paths move by a fiftieth of the box.
            max_time: When to stop waiting; by default 50 times what the backward equation says (not in 3-D).
            seed: Seed of the noise.
        """
        low, high = to_open_box(box, self.dim)
        start = np.atleast_1d(np.array(x0, np.float64))
        inner = to_walls(None, low, high, self.observations)
        if max_time is None:
            if self.dim > 2:
                raise ConfigError(f"in {self.dim} dimensions the time to wait must be given: pass max_time.")
            max_time = 50 * float(exit_time.exit_time(self, low, high, inner).at(start[None])[0])
        corners = np.where(np.isfinite(low), low, inner[0]), np.where(np.isfinite(high), high, inner[1])
        sde = tabulate(self, *corners) if self.dim <= 2 else self
        dt = exit_time.suggested_step(sde, *corners) if dt is None else dt
        return exit_time.simulate_exit(sde, start, low, high, max_time=max_time, dt=dt, num_paths=num_paths, seed=seed)

    @cached_property
    def _kept_points(self) -> dict[tuple[float, ...], tuple[FixedPoint, ...]]:
        return {}

    def _cells(self, box: Box | None, num_cells: int | None) -> BoxCells:
        return make_cells(*to_box(box, self.dim, self.observations, widen=0.1), num_cells)
