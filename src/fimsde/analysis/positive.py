"""A variance rate must be positive: polynomials that are so at every observed state."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fimsde.analysis.selection import Floor, fit_above, select_above
from fimsde.bank import monomials
from fimsde.shapes import Array, Bool, Float64

# of the field: below it a single state costs about as much in log-likelihood as a term, ln n: twice the logarithm falls
# by 10 - 1 - ln 10 = 6.7, and ln 1000 = 6.9
_LEAST_SHARE = 0.1
# of the mean floor: where the field vanishes and the polynomial would not be positive; by hand: little, and doubled
_LEAST_LEVEL = 0.01
# of the sum of the sizes of all terms: a value below it is one of rounding; by hand: that to which laws hold
_ROUNDING = 1e-9
_MOST_WORST = 20  # states that are added at a time; by hand: few problems to solve, and small ones
_CHUNK = 100_000  # states at a time; by hand: bounds memory


@dataclass(frozen=True, eq=False)
class ObservedStates:
    """All observed states, not only those at which the fields were read.

    Attributes:
        x: The states.
        degree: Of the polynomials.
        size: By which the monomials are divided.
        diffusion_sq: The variance rate of the field at states.
    """

    x: Float64[Array, "states dim"]
    degree: int
    size: Float64[Array, " terms"]
    diffusion_sq: Callable[[Float64[Array, "states dim"]], Float64[Array, " states"]]

    def are_positive(self, coefficients: Float64[Array, " terms"]) -> bool:
        """Whether the polynomial is positive at every state, or zero where the field is."""
        return not len(self._worst(coefficients))

    def make_positive(
        self,
        gram: Float64[Array, "terms terms"],
        right: Float64[Array, " terms"],
        penalty: float,
        phi: Float64[Array, "queries terms"],
        field: Float64[Array, " queries"],
        kept: Bool[Array, " terms"],
    ) -> tuple[Bool[Array, " terms"], Float64[Array, " terms"]]:
        """Terms and coefficients with the smallest criterion of all polynomials that are positive at the states.

        The polynomial is held above a share of the field, first where that was read, then also at the worst of all
        states.
        """
        floor = Floor(phi, _LEAST_SHARE * field)
        least = _LEAST_LEVEL * floor.level.mean()
        kept, coefficients = select_above(gram, right, penalty, floor, kept)
        while True:
            worst = self._worst(coefficients)
            if not len(worst):
                return kept, coefficients
            level = np.maximum(_LEAST_SHARE * self.diffusion_sq(worst), least)
            floor = Floor(np.vstack([floor.phi, self._phi(worst)]), np.concatenate([floor.level, level]))
            least *= 2  # an end is reached even if large terms cancel: a constant is above every floor
            again = fit_above(gram, right, kept, floor)  # with the same terms, if that is possible
            if again is None:
                kept, coefficients = select_above(gram, right, penalty, floor, kept)
            else:
                coefficients = again

    def _worst(self, coefficients: Float64[Array, " terms"]) -> Float64[Array, "states dim"]:
        """Some of the states at which the polynomial is not positive, or only by rounding; the most negative first."""
        worst = [self.x[:0]]
        for i in range(0, len(self.x), _CHUNK):
            x = self.x[i : i + _CHUNK]
            phi = self._phi(x)
            size = np.abs(phi) @ np.abs(coefficients)
            share = np.divide(phi @ coefficients, size, out=np.zeros(len(x)), where=size > 0)
            order = np.argsort(share)[:_MOST_WORST]
            order = order[share[order] < _ROUNDING]
            if len(order):
                worst.append(x[order[(size[order] > 0) | (self.diffusion_sq(x[order]) > 0)]])
        return np.concatenate(worst)[:_MOST_WORST]

    def _phi(self, x: Float64[Array, "states dim"]) -> Float64[Array, "states terms"]:
        return monomials.evaluate(x, self.degree) / self.size
