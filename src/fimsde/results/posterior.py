"""Posterior: equations drawn from what the data leave possible, each a result of its own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from fimsde.analysis.draws import LEVEL, Draws, Interval, interval_of
from fimsde.data.support import to_locations
from fimsde.shapes import Array, Float64

if TYPE_CHECKING:
    from fimsde.results.result import Locations, Result

Method = Literal["posterior", "bootstrap"]


@dataclass(frozen=True, eq=False)
class Posterior(Sequence["Result"]):
    """Equations that the data leave possible, all equally likely: `posterior[i]` is a result with every analysis.

    Attributes:
        draws: The equations; `fields(x)` evaluates all of them at once.
        method: "posterior": drawn from the posterior of the estimator; "bootstrap": estimates of redrawn data.
        seed: Of the draws.
    """

    draws: Draws = field(repr=False)
    method: Method
    seed: int
    _result: Callable[[int], "Result"] = field(repr=False)

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.draws.dim

    def __len__(self) -> int:
        return len(self.draws)

    def __getitem__(self, i):  # type: ignore[no-untyped-def]  # an index, or a slice as of any sequence
        """Draw i as a result."""
        if isinstance(i, slice):
            return [self._result(k) for k in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"draw {i} of {len(self)}")
        return self._result(int(i) % len(self))

    def __iter__(self) -> Iterator["Result"]:
        return (self._result(i) for i in range(len(self)))

    def fields(self, x: "Locations") -> tuple[Array, Array]:
        """Drift and diffusion of all draws at locations: two arrays (draws, queries, dim)."""
        return self.draws.fields(to_locations(x, self.dim))

    def drift(self, x: "Locations") -> Float64[Array, "draws queries dim"]:
        """Drift of all draws at locations."""
        return self.fields(x)[0]

    def diffusion(self, x: "Locations") -> Float64[Array, "draws queries dim"]:
        """Diffusion of all draws at locations."""
        return self.fields(x)[1]

    @property
    def noise_std(self) -> Float64[Array, "draws dim"]:
        """Standard deviation of the measurement noise in every draw; by bootstrap each draw fits its own."""
        own = getattr(self.draws, "noise_std", None)
        return np.stack([result.noise_std for result in self]) if own is None else own

    def interval(self, what: Callable[["Result"], float | Array], level: float = LEVEL) -> Interval:
        """Where any number or array made of an equation is, e.g. `interval(lambda r: r.first_passage(0, 1).at(0)[0])`.

        Args:
            what: From a result to numbers; NaN where there is none.
            level: Probability that it is inside.
        """
        return interval_of(np.stack([np.asarray(what(result), np.float64) for result in self]), level)
