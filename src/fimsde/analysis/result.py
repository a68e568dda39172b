"""Result: what an estimate, a fitted baseline and a textbook system have in common: all can be analysed alike."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fimsde.analysis import band as bands
from fimsde.analysis import fixed_points
from fimsde.analysis.band import Band
from fimsde.analysis.box import Box, to_box
from fimsde.analysis.fixed_points import FixedPoint
from fimsde.errors import ConfigError, DataWarning
from fimsde.normalise import Normaliser, fit_normaliser
from fimsde.observations import Observations
from fimsde.sde import SDE
from fimsde.sde import fields as fields_of
from fimsde.shapes import Array, Bool, Float, Float64
from fimsde.simulate import Paths, simulate
from fimsde.support import Support, fit_support, to_locations, to_starts
from fimsde.transitions import to_transitions

Locations = Float[Array, "queries dim"] | Float[Array, " queries"]
Fields = Float64[Array, "queries dim"] | Float64[Array, " queries"]


@dataclass(frozen=True, eq=False)
class Result(ABC):
    """An equation dx = drift(x) dt + diag(diffusion(x)) dW (Ito) with what is known about where it came from.

    Locations are arrays (queries, dim) in the units of the data; results have the same shape. If the state is a single
    component, the shape (queries,) will do.

    Attributes:
        names: One name per state component.
        time_unit: Unit of time, for labels; None if unknown.
        observations: The data behind the equation; None for a textbook system.
        method: How the equation was obtained, for labels.
    """

    names: tuple[str, ...]
    time_unit: str | None
    observations: Observations | None = field(repr=False)
    method: str = field(repr=False)

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.names)

    @abstractmethod
    def drift(self, x: Locations) -> Fields:
        """Drift f, state per time. Warns once if data do not support some of the locations."""

    @abstractmethod
    def diffusion(self, x: Locations) -> Fields:
        """Diffusion sqrt(g), state per square root of time. Warns once if data do not support some of the locations."""

    @abstractmethod
    def fields(self, x: Float[Array, "queries dim"]) -> tuple[Fields, Fields]:
        """Drift and diffusion without checks or warnings."""

    @abstractmethod
    def inside(self, x: Locations) -> Bool[Array, " queries"]:
        """True where data support the location; elsewhere drift and diffusion are extrapolated. See `Support`."""

    @abstractmethod
    def _refitted(self, observations: Observations, seed: int) -> SDE:
        """The same method on other data."""

    def diffusion_sq(self, x: Locations) -> Fields:
        """Variance rate g, squared state per time. Warns as `diffusion` does."""
        return self.diffusion(x) ** 2

    def simulate(
        self,
        x0: Float[Array, " dim"] | Float[Array, "paths dim"],
        times: Float[Array, " times"] | Float[Array, "_ times"] | Sequence[Float[Array, " _"]] | Sequence[float],
        num_paths: int | None = None,
        *,
        substeps: int = 1,
        dt: float | None = None,
        seed: int = 0,
    ) -> Paths:
        """Simulate by Euler-Maruyama; see `fimsde.simulate`.

        Args:
            x0: One initial state (dim,) for all paths, or one per path (paths, dim).
            times: One grid for all paths, or one per path.
            num_paths: Number of paths from a single initial state.
            substeps: Equal steps per gap of the grid.
            dt: In place of `substeps`: the longest step allowed.
            seed: Seed of the noise.
        """
        return simulate(self, to_starts(x0, self.dim, num_paths), times, substeps=substeps, dt=dt, seed=seed)

    def band(self, x: Locations, *, level: float = 0.9, resamples: int = 50, seed: int = 0) -> Band:
        """Pointwise intervals for drift and diffusion by bootstrap over the data; see `fimsde.analysis.band`.

        Estimates of redrawn data are kept, so that further calls with the same seed are quick.

        Args:
            x: Locations.
            level: Share of the intervals that should cover the truth.
            resamples: Number of times the data are drawn again and estimated.
            seed: Seed of the draws.
        """
        return bands.make_band(self.resampled(resamples, seed), self, to_locations(x, self.dim), level)

    def resampled(self, resamples: int = 50, seed: int = 0) -> tuple[SDE, ...]:
        """Estimates of redrawn data, the material of every band: draw i depends on (seed, i) alone. Kept."""
        if not (isinstance(resamples, int | np.integer) and resamples >= 2):
            raise ConfigError(f"resamples is {resamples!r}; expected a whole number, at least 2.")
        kept = self._draws.setdefault(seed, [])
        observations = self._data("a band")
        for i in range(len(kept), resamples):
            drawn = bands.resample(observations, np.random.default_rng([seed, i]))
            kept.append(self._refitted(drawn, i))
        return tuple(kept[:resamples])

    def fixed_points(self, box: Box | None = None) -> tuple[FixedPoint, ...]:
        """States at which the drift vanishes, with their stability. Up to three dimensions.

        Args:
            box: Lower and upper corner of where to look; by default those of the data.
        """
        low, high = to_box(box, self.dim, self.observations)
        roots = fixed_points.find_roots(self, low, high)
        inside = self.inside(roots)
        return tuple(
            fixed_points.describe(self, x, high - low, bool(near)) for x, near in zip(roots, inside, strict=True)
        )

    @cached_property
    def _draws(self) -> dict[int, list[SDE]]:
        return {}

    def _data(self, purpose: str) -> Observations:
        if self.observations is None:
            raise ConfigError(
                f"{purpose} needs observations, and this equation ({self.method}) has none. "
                "Pass them: fimsde.result(sde, observations)."
            )
        return self.observations

    def _warn_if_outside(self, x: Float64[Array, "queries dim"]) -> None:
        outside = np.flatnonzero(~self.inside(x))
        if len(outside):
            i = outside[0]
            warnings.warn(
                f"{len(outside)} of {len(x)} locations are outside the data (the first is index {i}, "
                f"{np.array2string(x[i], precision=4)}): the values there are extrapolated. "
                "inside(x) tells which; fields(x) does not warn.",
                DataWarning,
                stacklevel=3,
            )


@dataclass(frozen=True, eq=False)
class FittedSDE(Result):
    """Any equation as a `Result`: a fitted baseline, a textbook system, two functions.

    Attributes:
        sde: The equation.
        refit: From other observations and a seed to an equation of the same kind; None if it was not fitted.
    """

    sde: SDE
    refit: Callable[[Observations, int], SDE] | None = field(default=None, repr=False)

    def drift(self, x: Locations) -> Fields:
        """Drift f, state per time. Warns once if data do not support some of the locations."""
        locations = to_locations(x, self.dim)
        self._warn_if_outside(locations)
        return np.asarray(self.sde.drift(locations), np.float64).reshape(np.shape(x))

    def diffusion(self, x: Locations) -> Fields:
        """Diffusion sqrt(g), state per square root of time. Warns once if data do not support some of the locations."""
        locations = to_locations(x, self.dim)
        self._warn_if_outside(locations)
        return np.asarray(self.sde.diffusion(locations), np.float64).reshape(np.shape(x))

    def fields(self, x: Float[Array, "queries dim"]) -> tuple[Fields, Fields]:
        """Drift and diffusion without checks or warnings."""
        drift, diffusion = fields_of(self.sde, x)
        return np.asarray(drift, np.float64), np.asarray(diffusion, np.float64)

    def inside(self, x: Locations) -> Bool[Array, " queries"]:
        """True where data support the location; everywhere if there are no data."""
        locations = to_locations(x, self.dim)
        if self.observations is None:
            return np.ones(len(locations), bool)
        normaliser, support = self._support
        return support.contains(normaliser.states(locations))

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


def result(
    sde: SDE,
    observations: Observations | None = None,
    *,
    names: Sequence[str] | None = None,
    method: str = "given equation",
    refit: Callable[[Observations, int], SDE] | None = None,
) -> FittedSDE:
    """Any equation as a result with all analyses.

    Args:
        sde: The equation.
        observations: The data it was fitted to, or is to be compared with.
        names: One name per component; by default those of the observations, or x1, x2, ...
        method: How the equation was obtained, for labels.
        refit: How to fit it to other data, for bands: from observations and a seed to an equation.
    """
    if observations is not None and observations.dim != sde.dim:
        raise ConfigError(f"the equation has {sde.dim} components, the observations {observations.dim}.")
    if names is None:
        names = observations.names if observations is not None else [f"x{j + 1}" for j in range(sde.dim)]
    if len(names) != sde.dim:
        raise ConfigError(f"{len(names)} names given for {sde.dim} components. Pass one name per component.")
    time_unit = None if observations is None else observations.time_unit
    return FittedSDE(tuple(names), time_unit, observations, method, sde, refit)
