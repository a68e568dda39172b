"""What else an equation could be: draws of its posterior, bands, and analyses of every draw."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from functools import cache, cached_property
from typing import Any, TypeVar

import numpy as np

from fimsde.analysis.band import Band, Redraws, posterior_band
from fimsde.analysis.draws import NUM_DRAWS, CorrelatedDraws, Draws, separate
from fimsde.analysis.second_opinion import SecondOpinion, compare_bands
from fimsde.data.support import to_locations
from fimsde.equations.sde import SDE, CorrelatedSDE
from fimsde.errors import ConfigError, FimsdeError
from fimsde.filter.correlation import EstimatedCorrelation
from fimsde.results.posterior import Draw, Locations, Method, Posterior
from fimsde.shapes import Array, Float, Float64

T = TypeVar("T")
S = TypeVar("S", bound="Uncertain")
_FEW_DRAWS = 40  # behind intervals of densities, times and currents in the plane: each takes a tenth of a second


class Uncertain:
    """The part of a `Result` that knows what else is possible."""

    sde: SDE
    names: tuple[str, ...]
    method: str

    @property
    @abstractmethod
    def dim(self) -> int: ...

    @abstractmethod
    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]: ...

    @abstractmethod
    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]: ...

    @property
    @abstractmethod
    def fitted(self) -> SDE: ...

    @property
    @abstractmethod
    def _redraws(self) -> Redraws: ...

    @property
    def has_posterior(self) -> bool:
        """Whether the estimator says by itself what else is possible; others are asked by bootstrap."""
        return hasattr(self.fitted, "draws")

    def posterior(self: S, num: int = NUM_DRAWS, seed: int = 0, *, method: Method | None = None) -> "Posterior[S]":
        """Equations that the data leave possible, all equally likely, each a result with every analysis.

        Draw i is a function of (seed, i). Draws are kept, so that further calls are quick.

        Args:
            num: How many.
            seed: Of the draws.
            method: "posterior": from the posterior of the estimator, in milliseconds; "bootstrap": estimates of
                redrawn data, which every method has, as a second opinion. By default the first if there is one.
        """
        chosen = ("posterior" if self.has_posterior else "bootstrap") if method is None else method
        draws = self._draws(chosen, num, seed)

        def one(i: int) -> Any:  # a result like this one
            title = f"{self.method}, draw {i}"
            return replace(self, sde=draws[i], method=title, refit=None, draw=Draw(chosen, seed, i, self))  # type: ignore[type-var]

        return Posterior(draws, chosen, seed, one)

    def band(
        self,
        x: Locations,
        *,
        level: float = 0.9,
        simultaneous: bool = False,
        method: Method | None = None,
        resamples: int = 50,
        seed: int = 0,
    ) -> Band:
        """Intervals for drift and diffusion; see `fimsde.analysis.band`.

        Args:
            x: Locations.
            level: Probability that the truth is inside: at each location, or at all of them.
            simultaneous: Whether the whole curve of a component is inside with this probability, not each point of it.
            method: "posterior", which is quick, or "bootstrap", which estimates again from redrawn data; by default
                the first if the estimator has one. See `posterior`.
            resamples: Of the bootstrap: number of resamples of the data, each estimated again. These are kept.
            seed: Seed of the draws.
        """
        places = to_locations(x, self.dim)
        if method == "bootstrap" or not (method or self.has_posterior):
            found = self._redraws.band(self, places, level, resamples, seed, simultaneous=simultaneous)
        else:
            draws = self._draws("posterior", NUM_DRAWS, seed)
            found = posterior_band(draws, self, places, level, simultaneous=simultaneous)
        return replace(found, names=self.names)

    def second_opinion(self, x: Locations, *, resamples: int = 50, seed: int = 0) -> SecondOpinion:
        """Whether a bootstrap, which knows no hypotheses, says the same as the posterior; seconds of work.

        Args:
            x: Locations, where data are.
            resamples: Of the bootstrap.
            seed: Of both.
        """
        bands = [self.band(x, method=method, resamples=resamples, seed=seed) for method in ("posterior", "bootstrap")]
        return compare_bands(*bands)

    def resampled(self, resamples: int = 50, seed: int = 0, *, for_band: bool = False) -> tuple[SDE | None, ...]:
        """Estimates of redrawn data: draw i depends on (seed, i) alone. Kept.

        None for a draw that cannot be estimated, for instance because a component does not move in it.

        Args:
            resamples: How many.
            seed: Seed of the draws.
            for_band: The material of `band`: the same, but draws of very long data are smaller than these.
        """
        return self._redraws.take(resamples, seed, for_band=for_band)

    def _draws(self, method: Method, num: int, seed: int) -> Draws:
        """Draws of the equation, kept."""
        if not (isinstance(num, int | np.integer) and num >= 1):
            raise ConfigError(f"num is {num!r}; expected a whole number of draws, at least 1.")
        if (method, num, seed) not in self._kept_draws:
            self._kept_draws[method, num, seed] = self._make_draws(method, num, seed)
        return self._kept_draws[method, num, seed]

    def _each(self, solve: Callable[[SDE], T]) -> Callable[[], list[T | None]] | None:
        """What draws of the posterior give, each by itself, kept; None where it cannot be computed, or no posterior."""
        if not self.has_posterior:
            return None

        @cache
        def found() -> list[T | None]:
            draws = self._draws("posterior", NUM_DRAWS, 0)
            out: list[T | None] = []
            for i in range(NUM_DRAWS if self.dim == 1 else _FEW_DRAWS):
                try:
                    out.append(solve(draws[i]))
                except FimsdeError:  # parts of the box exchange no paths, perhaps; counted by the interval
                    out.append(None)
            return out

        return found

    def _solved(
        self, solve: Callable[[SDE], Array], shape: tuple[int, ...]
    ) -> Callable[[], Float64[Array, "draws ..."]] | None:
        """The same for arrays of one shape; NaN where there is none."""
        each = self._each(solve)
        if each is None:
            return None
        return lambda: np.stack([np.full(shape, np.nan) if one is None else one for one in each()])

    def _make_draws(self, method: Method, num: int, seed: int) -> Draws:
        match method:
            case "posterior":
                if not self.has_posterior:
                    raise ConfigError(f"{self.method} has no posterior of its own; use method='bootstrap'.")
                drawn = self.fitted.draws(num, seed)  # type: ignore[attr-defined]
                rho = self._drawn_correlations(num, seed)
                return drawn if rho is None else CorrelatedDraws(drawn, rho)
            case "bootstrap":
                return separate(self.resampled(max(num, 2), seed))
            case _:
                raise ConfigError(f"method is {method!r}; expected 'posterior' or 'bootstrap'.")

    def _drawn_correlations(self, num: int, seed: int) -> Float64[Array, "draws dim dim"] | None:
        """The correlation of every draw: its own if data told it, the same if it was set; None without any."""
        match self.sde:
            case EstimatedCorrelation() as told:
                return told.drawn(num, seed)
            case CorrelatedSDE(rho=rho):
                return np.tile(rho, (num, 1, 1))
            case _:
                return None

    @cached_property
    def _kept_draws(self) -> dict[tuple[str, int, int], Draws]:
        return {}
