"""Result: an equation with the data behind it and a way to fit it again; all analyses are its methods."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import fimsde  # verbs that draw or write are in its table of names imported on first use
from fimsde.analysis import readout
from fimsde.analysis.band import Redraws
from fimsde.analysis.box import WIDEN, Box, checked, to_box, warn_outside
from fimsde.analysis.draws import NUM_DRAWS
from fimsde.analysis.equation import Equation
from fimsde.analysis.equation_draws import with_intervals
from fimsde.data.grid import nodes_per_axis, regular_grid
from fimsde.data.normalise import Normaliser, fit_normaliser
from fimsde.data.observations import Observations
from fimsde.data.support import Support, fit_support, to_locations, to_starts
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import SDE, CorrelatedSDE, is_diagonal
from fimsde.equations.sde import correlation as correlation_of
from fimsde.equations.sde import fields as fields_of
from fimsde.errors import ConfigError
from fimsde.filter.correlation import without_correlation
from fimsde.results.forecasts import Forecasts
from fimsde.results.judged import Judged
from fimsde.results.landscape import Landscape
from fimsde.results.posterior import Draw, Locations
from fimsde.shapes import Array, Bool, Float, Float64
from fimsde.simulate import Paths, simulate
from fimsde.tabulate import MAX_NODES, TabulatedSDE, tabulate

if TYPE_CHECKING:
    from fimsde import Kind, Picture

FieldValues = Float64[Array, "queries dim"] | Float64[Array, " queries"] | Float64[Array, ""]
Refit = Callable[[Observations, int], SDE]
# where a formula without data is fitted: in all, per axis, on a line; by hand: bounds seconds
_NODES, _MOST_NODES, _ALONE = 3500, 41, 401


@dataclass(frozen=True, eq=False)
class Result(Landscape, Judged, Forecasts):
    """An equation dx = f(x) dt + S(x) dW (Ito) with what is known about where it came from.

    `drift` is f, `diffusion` the square root of the diagonal of S S', `correlation` the correlation of the noise.

    Locations are arrays (queries, dim) in the units of the data; fields have the same shape. A single location (dim,)
    will do, and if the state is a single component, the shape (queries,) or a number. What has one number per location
    (`inside`, `uncertainty`) has the shape (queries,), (1,) for a single one.

    Attributes:
        sde: The equation: an `EstimatedSDE`, a fitted baseline, a textbook system, two functions.
        names: One name per state component.
        time_unit: Unit of time, for labels; None if unknown.
        observations: The data behind the equation; None for a textbook system.
        method: How the equation was obtained, for labels.
        refit: From other observations and a seed to an equation of the same kind; None if it was not fitted.
        recipe: Name and seed of the method, if it was fitted by name; such results can be saved.
        draw: Where it comes from, if the equation is a draw of a posterior.
    """

    sde: SDE
    names: tuple[str, ...]
    time_unit: str | None
    observations: Observations | None = field(repr=False)
    method: str = field(repr=False)
    refit: Refit | None = field(default=None, repr=False)
    recipe: tuple[str, int] | None = field(default=None, repr=False)
    draw: Draw | None = field(default=None, repr=False)

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.names)

    @property
    def fitted(self) -> SDE:
        """Drift and diffusion as their method gave them: without a constant correlation of their noise."""
        return without_correlation(self.sde)

    def with_correlation(self, rho: Float[Array, "dim dim"]) -> "Result":
        """The same drift and diffusion with noise of this correlation, everywhere, in place of any that was found.

        Args:
            rho: Correlation of the noise of each two components.
        """
        matrix = np.array(rho, np.float64)
        refit = self.refit

        def again(observations: Observations, seed: int) -> SDE:
            assert refit is not None, "it was fitted"
            return CorrelatedSDE(without_correlation(refit(observations, seed)), matrix)

        return replace(self, sde=CorrelatedSDE(self.fitted, matrix), refit=None if refit is None else again)

    def drift(self, x: Locations) -> FieldValues:
        """Drift f, state per time. Warns once if data do not support some of the locations."""
        locations = to_locations(x, self.dim)
        self._warn_if_outside(locations)
        return np.asarray(self.sde.drift(locations), np.float64).reshape(np.shape(x))

    def diffusion(self, x: Locations) -> FieldValues:
        """Diffusion sqrt(g), state per square root of time. Warns once if data do not support some of the locations."""
        locations = to_locations(x, self.dim)
        self._warn_if_outside(locations)
        return np.asarray(self.sde.diffusion(locations), np.float64).reshape(np.shape(x))

    def fields(self, x: Float[Array, "queries dim"]) -> tuple[FieldValues, FieldValues]:
        """Drift and diffusion without checks or warnings."""
        return tuple(np.asarray(part, np.float64) for part in fields_of(self.sde, x))  # type: ignore[return-value]

    def inside(self, x: Locations) -> Bool[Array, " queries"]:
        """True where data support the location; elsewhere drift and diffusion are extrapolated. See `Support`.

        Everywhere if there are no data.
        """
        locations = to_locations(x, self.dim)
        own = getattr(self.fitted, "supports", None)
        if own is not None:
            return own(locations)
        if self.observations is None:
            return np.ones(len(locations), bool)
        normaliser, support = self._support
        return support.contains(normaliser.states(locations))

    @property
    def is_diagonal(self) -> bool:
        """Whether the noise of different components is independent."""
        return is_diagonal(self.sde)

    def correlation(self, x: Locations) -> Float64[Array, "queries dim dim"]:
        """Correlation of the noise of each two components; the identity for diagonal noise. Never warns."""
        return correlation_of(self.sde, to_locations(x, self.dim))

    def diffusion_sq(self, x: Locations) -> FieldValues:
        """Variance rate g, squared state per time. Warns as `diffusion` does."""
        return self.diffusion(x) ** 2

    def uncertainty(self, x: Locations) -> Float64[Array, " queries"]:
        """A log variance of drift and diffusion together, in normalised units, to compare locations.

        Of a posterior that of its draws, log sum_j (var f_j + var sqrt(g_j)); of a recognition model its own statement.
        """
        places = to_locations(x, self.dim)
        own = getattr(self.fitted, "uncertainty", None)
        if own is not None:
            return own(places)
        if not self.has_posterior:
            raise ConfigError(f"{self.method} states no uncertainty of its own; band(x) measures it by bootstrap.")
        normaliser: Normaliser = self.fitted.normaliser  # type: ignore[attr-defined]  # what has draws was normalised
        drift, diffusion = self._draws("posterior", NUM_DRAWS, 0).fields(places)
        spread = normaliser.drift(drift).var(axis=0) + normaliser.diffusion(diffusion).var(axis=0)
        return np.log(np.maximum(spread.sum(axis=-1), np.finfo(float).tiny))

    def tabulate(
        self,
        box: tuple[Float[Array, " dim"], Float[Array, " dim"]] | None = None,
        tolerance: float = 1e-3,
        max_nodes: int = MAX_NODES,
    ) -> TabulatedSDE:
        """A table of the fields that answers thousands of times faster; see `fimsde.tabulate`.

        Args:
            box: Lower and upper corner; by default those of the data, widened by a quarter of the range on every side.
            tolerance: Largest error of interpolation, as a share of the size of the field.
            max_nodes: Give up refining before the table has more nodes than this.
        """
        low, high = to_box(box, self.dim, self.observations, widen=WIDEN)
        return replace(tabulate(self.sde, low, high, tolerance, max_nodes), names=self.names)

    def simulate(
        self,
        x0: Float[Array, " dim"] | Float[Array, "paths dim"] | Sequence[float] | float,
        times: Float[Array, " times"] | Float[Array, "_ times"] | Sequence[Float[Array, " _"]] | Sequence[float],
        num_paths: int | None = None,
        *,
        substeps: int = 1,
        dt: float | None = None,
        seed: int = 0,
    ) -> Paths:
        """Simulate by Euler-Maruyama; see `fimsde.simulate`.

        Args:
            x0: One initial state (dim,) for all paths, or one per path (paths, dim); in one dimension also a number.
            times: One grid for all paths, or one per path.
            num_paths: Number of paths from a single initial state.
            substeps: Equal steps per gap of the grid.
            dt: In place of `substeps`: the longest step allowed.
            seed: Seed of the noise.
        """
        starts = to_starts(np.atleast_1d(x0), self.dim, num_paths)
        paths = simulate(self, starts, times, substeps=substeps, dt=dt, seed=seed)
        return replace(paths, names=self.names)

    def equation(self, max_degree: int = 3, *, diffusion_degree: int = 2, box: Box | None = None) -> Equation:
        """A formula: sparse polynomials for drift and variance rate, fitted where data are; see `Equation`.

        Args:
            max_degree: Largest total degree of the terms of the drift.
            diffusion_degree: The same for the variance rate g.
            box: Where to fit, for a textbook system without data.
        """
        nodes = None
        if self.observations is None and box is not None:
            num = nodes_per_axis(self.dim, _NODES, _MOST_NODES, _ALONE)
            nodes = regular_grid(*to_box(box, self.dim, None), num)
        moving = getattr(self.fitted, "has_drift", None)
        found = readout.read_out(self, self.names, self.observations, nodes, max_degree, diffusion_degree, moving)
        if not self.has_posterior or self.observations is None:
            return found
        return with_intervals(found, self, self._draws("posterior", NUM_DRAWS, 0), self.observations)

    def save(self, folder: str | Path, *, overwrite: bool = False) -> None:
        """Write the result into a new folder, without pickle; `fimsde.load` reads it.

        Estimates are saved with their data and weights, baselines fitted by name (`fimsde.fit`) with their data.

        Args:
            folder: Where to; must not exist unless `overwrite` is set.
            overwrite: Replace a folder of that name that this package made. What others put there stays.
        """
        fimsde.save(self, folder, overwrite=overwrite)

    def plot(
        self,
        kind: "Kind" = "fields",
        *,
        box: Box | None = None,
        truth: SDE | None = None,
        level: float = 0.9,
        resamples: int = 50,
        seed: int = 0,
    ) -> "Picture":
        """A figure, shown by notebooks as it is and saved with `.savefig("figure.pdf")`; see `fimsde.plots.plot`.

        Args:
            kind: "fields", "drift", "diffusion", "potential", "density", "paths" or "statistics".
            box: Lower and upper corner of what is shown; by default where the data are.
            truth: Another equation, drawn beside curves.
            level, resamples: Of the bands; no bands with 0 resamples.
            seed: Of bands and simulated paths.
        """
        bands = fimsde.BandSettings(level, resamples, seed)
        return fimsde.plot(self, kind, box=box, bands=bands, truth=truth, seed=seed)

    def report(
        self, path: str | Path, *, level: float = 0.9, resamples: int = 50, seed: int = 0, overwrite: bool = True
    ) -> Path:
        """Write one self-contained HTML page about the equation and its data; see `fimsde.report`.

        Args:
            path: The file.
            level, resamples: Of the bands; no bands with 0 resamples.
            seed: Of bands, simulations and checks.
            overwrite: Whether an earlier report of that name may be replaced; any other file stays.
        """
        bands = fimsde.BandSettings(level, resamples, seed)
        return fimsde.write_report(self, path, bands=bands, seed=seed, overwrite=overwrite)

    def _refitted(self, observations: Observations, seed: int) -> SDE:
        if self.refit is None:
            raise ConfigError(
                f"this equation ({self.method}) was not fitted to the data, so it cannot be fitted again and has no "
                "band. Pass refit=, a function of observations and a seed, to fimsde.result."
            )
        return self.refit(observations, seed)

    @cached_property
    def _support(self) -> tuple[Normaliser, Support]:
        transitions = to_transitions(self._data("inside"))
        normaliser = fit_normaliser(transitions)
        return normaliser, fit_support(normaliser.transitions(transitions))

    @cached_property
    def _redraws(self) -> Redraws:
        return Redraws(self._data("a band"), self._refitted)

    def _data(self, purpose: str) -> Observations:
        if self.observations is None:
            raise ConfigError(
                f"{purpose} needs observations, and this equation ({self.method}) has none. "
                "Pass them: fimsde.result(sde, observations)."
            )
        checked(*self.observations.box())
        return self.observations

    def _warn_if_outside(self, x: Float64[Array, "queries dim"]) -> None:
        warn_outside(x, self.inside(x), stacklevel=4)
