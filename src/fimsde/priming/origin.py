"""Sparse polynomials, and the origin around which they are sparse.

Equations are usually written around a place of their own (an equilibrium, a symmetry), and there they have few terms.
The estimate must not depend on the zero of the user's scale, so the place is unknown and averaged over.
"""

from collections.abc import Callable, Sequence
from functools import cache
from itertools import product

import numpy as np

from fimsde.priming import monomials
from fimsde.priming.fit import Posterior
from fimsde.priming.subsets.compiled import average_at_places
from fimsde.shapes import Array, Float64

_REACH = 2.25  # standard deviations from the mean within which origins are looked for
_PER_AXIS = {1: 31, 2: 13, 3: 5}
_ROUNDS = 6  # halvings of the spacing around the best place
_MOST_FREE = {1: 4, 2: 10, 3: 8}  # terms that models may have or not: all but in three dimensions
_FIRST_LOOK = 5  # the same, when the whole grid is looked at for the first time
_WINDOW = 6.0  # log evidence that a place may lack to the best one at the first look
_NARROWEST = 1e-200  # variance of coefficients of data that do not move
_TIE = 1e-6  # differences of log evidence below this are rounding

_Averages = tuple[Float64[Array, "places shares"], Float64[Array, "places shares dim terms"]]


def sparse_averages(
    post: Posterior,
    degree: int,
    shares: Sequence[float],
    width: Float64[Array, " dim"],
    origin: Float64[Array, " dim"] | None,
    parity: int | None = None,
) -> Float64[Array, "shares dim terms"]:
    """Averages over all models with some of the monomials of (x - origin), and over unknown origins, by evidence.

    Args:
        post: What the data say of the coefficients of a polynomial.
        degree: Its degree.
        shares: Probabilities of a term to be there a priori; an average for each.
        width: Standard deviation of the coefficients that are there, a priori, per component.
        origin: The place around which the polynomial is sparse; None: unknown.
        parity: Only terms of odd (1) or even (0) degree: equations that a reflection at the origin leaves alone.
    """
    dim = len(post.mean)
    degrees = monomials.exponents(dim, degree).sum(axis=1)
    allowed = np.ones(len(degrees), np.bool_) if parity is None else degrees % 2 == parity
    odds = np.array([s / (1.0 - s) for s in shares])[:, None] * allowed
    right = (post.precision @ post.mean[..., None])[..., 0]
    slab = np.repeat(1.0 / np.maximum(width[:, None] ** 2, _NARROWEST), len(degrees), axis=1)
    shifts = monomials.shift_terms(dim, degree)

    def average(places: Float64[Array, "places dim"], most_free: int) -> _Averages:
        return average_at_places(post.precision, right, slab, odds, most_free, *shifts, places)

    if origin is not None:
        return average(origin[None], _MOST_FREE[dim])[1][0]
    places = _grid(dim)
    if degree > 2:  # diffusions are often constant, and then as good around any place
        evidence = average(places, _FIRST_LOOK)[0]
        places = places[(evidence > evidence.max(axis=0) - _WINDOW).any(axis=1)]
    return _average_over(places, lambda places: average(places, _MOST_FREE[dim]))


def _average_over(
    places: Float64[Array, "places dim"], average: Callable[[Float64[Array, "places dim"]], _Averages]
) -> Float64[Array, "shares dim terms"]:
    """Average over places of the grid, and over finer and finer grids around the best place so far.

    A place stands for its share of the volume.
    """
    dim = places.shape[1]
    spacing = 2 * _REACH / (_PER_AXIS[dim] - 1)
    around, highest = places[0], -np.inf
    scores, coefficients = [], []
    for turn in range(_ROUNDS + 1):
        if turn > 0:
            places = around + 0.5**turn * spacing * _neighbours(dim)
        evidence, found = average(places)
        scores.append(evidence - turn * dim * np.log(2.0))
        coefficients.append(found)
        for place, value in zip(places, evidence[:, 0], strict=True):
            if value > highest + _TIE:  # places are often equally good: rounding must not choose
                highest, around = value, place
    score = np.concatenate(scores)
    weights = np.exp(score - score.max(axis=0))
    return np.einsum("is,isdt->sdt", weights / weights.sum(axis=0), np.concatenate(coefficients))


@cache
def _grid(dim: int) -> Float64[Array, "places dim"]:
    """Places around the mean of the data, in normalised coordinates."""
    axis = np.linspace(-_REACH, _REACH, _PER_AXIS[dim])
    return np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)


@cache
def _neighbours(dim: int) -> Float64[Array, "places dim"]:
    """The places around zero on a grid: all 3**dim - 1, but in three dimensions those along the axes only."""
    steps = np.array([s for s in product((-1.0, 0.0, 1.0), repeat=dim) if any(s)])
    return steps if dim < 3 else steps[np.abs(steps).sum(axis=1) == 1]


def shrunk(post: Posterior, width: Float64[Array, " dim"]) -> Posterior:
    """The posterior after a further normal prior around zero: few data must not give large coefficients."""
    precision = post.precision + np.eye(post.mean.shape[1]) / width[:, None, None] ** 2
    return Posterior(np.linalg.solve(precision, post.precision @ post.mean[..., None])[..., 0], precision)
