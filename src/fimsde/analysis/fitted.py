"""FittedSDE: any equation as a result, so that baselines and textbook systems can be analysed like estimates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fimsde.analysis.result import Fields, Locations, Result
from fimsde.errors import ConfigError
from fimsde.normalise import Normaliser, fit_normaliser
from fimsde.observations import Observations
from fimsde.sde import SDE
from fimsde.sde import fields as fields_of
from fimsde.shapes import Array, Bool, Float
from fimsde.support import Support, fit_support, to_locations
from fimsde.transitions import to_transitions


@dataclass(frozen=True, eq=False)
class FittedSDE(Result):
    """Any equation as a `Result`: a fitted baseline, a textbook system, two functions.

    Attributes:
        sde: The equation.
        refit: From other observations and a seed to an equation of the same kind; None if it was not fitted.
        recipe: Name and seed of the method, if it was fitted by name; such results can be saved.
    """

    sde: SDE
    refit: Callable[[Observations, int], SDE] | None = field(default=None, repr=False)
    recipe: tuple[str, int] | None = field(default=None, repr=False)

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

    @property
    def _can_refit(self) -> bool:
        return self.refit is not None

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
