"""An equation judged by its data: measurement noise, likelihood of paths, verdicts, and a few lines that sum it up."""

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import numpy as np

import fimsde  # the answer is made of all analyses, above: found by its table of names
from fimsde.analysis.draws import Draws
from fimsde.analysis.equation import Equation
from fimsde.analysis.replay import REPLICATES
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.errors import InvalidObservationsError
from fimsde.filter.kalman import innovations, tabulated
from fimsde.filter.noise import fit_noise
from fimsde.results.posterior import Method
from fimsde.shapes import Array, Bool, Float, Float64

if TYPE_CHECKING:
    from fimsde import Answer
    from fimsde.analysis.check import Checks


class Judged:
    """What `Result` says about an equation and its data together."""

    sde: SDE
    observations: Observations | None
    method: str

    @property
    @abstractmethod
    def dim(self) -> int: ...

    @property
    @abstractmethod
    def fitted(self) -> SDE: ...

    @abstractmethod
    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]: ...

    @abstractmethod
    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]: ...

    @abstractmethod
    def inside(self, x: Float[Array, "queries dim"]) -> Bool[Array, " queries"]: ...

    @abstractmethod
    def equation(self) -> Equation: ...

    @abstractmethod
    def _data(self, purpose: str) -> Observations: ...

    @property
    @abstractmethod
    def has_posterior(self) -> bool: ...

    @abstractmethod
    def _draws(self, method: Method, num: int, seed: int) -> Draws: ...

    @cached_property
    def noise_std(self) -> Float64[Array, " dim"]:
        """Standard deviation of the measurement noise, per component, in the units of the data.

        By maximum likelihood for this equation and its data; 0 where they show none, and without data. Methods that
        find equation and noise together are believed.
        """
        if self.observations is None:
            return np.zeros(self.dim)
        if (known := self._known_noise()) is not None:
            return known
        return fit_noise(tabulated(self.sde, self.observations), self.observations, scales=False).std

    def log_likelihood(self, observations: Observations, *, noise_std: Float[Array, " dim"] | None = None) -> float:
        """Log density of whole paths, given their first observations: by a filter that knows the measurement noise.

        Args:
            observations: Paths of any kind, for instance some that took no part in the estimate.
            noise_std: Standard deviation of the measurement noise; by default that of this result.
        """
        if observations.dim != self.dim:
            raise InvalidObservationsError(
                f"the observations have {observations.dim} component(s), the equation has {self.dim}."
            )
        std = self.noise_std if noise_std is None else np.asarray(noise_std, np.float64)
        return float(innovations(tabulated(self.sde, observations), observations, std).likelihood.sum())

    def score(self, observations: Observations, *, noise_std: Float[Array, " dim"] | None = None) -> float:
        """`log_likelihood` per step and component: larger is better, on the same data and in the same units."""
        total = self.log_likelihood(observations, noise_std=noise_std)
        return total / (observations.num_transitions * self.dim)

    def check(self, seed: int = 0, *, progress: Callable[[str], None] | None = None) -> "Checks":
        """Verdicts on the equation and its data, each with a number and a next step; see `fimsde.analysis.check`.

        Args:
            seed: Of the simulations behind verdicts.
            progress: Called after every part.
        """
        from fimsde.analysis import check  # scipy's statistics take a while to import

        known = self._known_noise()
        draws = (lambda: self._draws("posterior", REPLICATES, 0)) if self.has_posterior else None
        data = self._data("check")
        return check.check(self.sde, data, self.inside, seed, progress, noise_std=known, draws=draws)

    def _known_noise(self) -> Float64[Array, " dim"] | None:
        """The noise beside which the equation was estimated; None if the method knows none."""
        from fimsde.evidence.estimate import PosteriorSDE

        return self.fitted.noise_std if isinstance(self.fitted, PosteriorSDE) else None

    def __str__(self) -> str:
        """The answer in five lines; the method alone where there are no data."""
        if self.observations is None:
            return f"an equation of dimension {self.dim} ({self.method})"
        return str(self._answer())

    def _repr_html_(self) -> str:
        return escape(str(self)) if self.observations is None else self._answer().html

    def _answer(self) -> "Answer":
        return fimsde.answer(self)  # type: ignore[arg-type]  # whatever is judged is a Result
