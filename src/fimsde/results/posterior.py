"""Posterior: equations drawn from what the data leave possible, each a result of its own."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar, overload

import numpy as np

from fimsde.analysis.draws import LEVEL, Draws, Interval, interval_of
from fimsde.data.support import to_locations
from fimsde.equations.sde import SDE
from fimsde.shapes import Array, Float, Float64

Locations = Float[Array, "queries dim"] | Float[Array, " queries"] | Sequence[float] | Sequence[Sequence[float]] | float
Method = Literal["posterior", "bootstrap"]
R = TypeVar("R", bound=SDE)  # a result


@dataclass(frozen=True, eq=False)
class Draw:
    """Where a drawn result comes from.

    Attributes:
        method: How it was drawn.
        seed: Of the draws.
        index: Its number.
        of: The result it was drawn from.
    """

    method: Method
    seed: int
    index: int
    of: SDE = field(repr=False)


@dataclass(frozen=True, eq=False)
class Posterior(Sequence[R], Generic[R]):
    """Equations that the data leave possible, all equally likely: `posterior[i]` is a result with every analysis.

    Attributes:
        draws: The equations; `fields(x)` evaluates all of them at once.
        method: "posterior": drawn from the posterior of the estimator; "bootstrap": estimates of redrawn data.
        seed: Of the draws.
    """

    draws: Draws = field(repr=False)
    method: Method
    seed: int
    _result: Callable[[int], R] = field(repr=False)

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.draws.dim

    def __len__(self) -> int:
        return len(self.draws)

    @overload
    def __getitem__(self, i: int) -> R: ...

    @overload
    def __getitem__(self, i: slice) -> list[R]: ...

    def __getitem__(self, i: int | slice) -> R | list[R]:
        """Draw i as a result, or several."""
        if isinstance(i, slice):
            return [self._result(k) for k in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"draw {i} of {len(self)}")
        return self._result(int(i) % len(self))

    def __iter__(self) -> Iterator[R]:
        return (self._result(i) for i in range(len(self)))

    def fields(self, x: Locations) -> tuple[Array, Array]:
        """Drift and diffusion of all draws at locations: two arrays (draws, queries, dim)."""
        return self.draws.fields(to_locations(x, self.dim))

    def drift(self, x: Locations) -> Float64[Array, "draws queries dim"]:
        """Drift of all draws at locations."""
        return self.fields(x)[0]

    def diffusion(self, x: Locations) -> Float64[Array, "draws queries dim"]:
        """Diffusion of all draws at locations."""
        return self.fields(x)[1]

    @property
    def noise_std(self) -> Float64[Array, "draws dim"]:
        """Standard deviation of the measurement noise in every draw; by bootstrap each draw fits its own."""
        own = getattr(self.draws, "noise_std", None)
        return np.stack([getattr(result, "noise_std") for result in self]) if own is None else own  # noqa: B009

    def interval(self, what: Callable[[R], float | Array], level: float = LEVEL) -> Interval:
        """Where any number or array made of an equation is, e.g. `interval(lambda r: r.first_passage(0, 1).at(0)[0])`.

        Args:
            what: From a result to numbers; NaN where there is none.
            level: Probability that it is inside.
        """
        return interval_of(np.stack([np.asarray(what(result), np.float64) for result in self]), level)
