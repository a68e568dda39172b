"""Sparse polynomials, and the origin around which they are sparse.

Equations are usually written around a place of their own (an equilibrium, a symmetry), and there they have few terms.
The estimate must not depend on the zero of the user's scale, so the place is unknown and averaged over.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from math import comb

import numpy as np

from fimsde.bank import monomials
from fimsde.bank.posterior import Posterior
from fimsde.bank.subset_kernels import average_at_places
from fimsde.data.grid import nodes_per_axis
from fimsde.shapes import Array, Float64

# The search was made as small as costs no accuracy on development seeds: docs/training-log.md, "All models instead of
# a few" (24 places in full for 60, within three standard deviations, five halvings for six: errors 0.462 for 0.460).
_REACH = 2.25  # standard deviations from the mean within which origins are looked for, on each axis
_FARTHEST = 3.0  # the same in all
_PLACES, _PER_AXIS = 169, 31  # of the grid: in all, and on a line
_ROUNDS = 5  # halvings of the spacing around the best place
_ALL_FREE, _MOST_FREE = 10, 6  # terms that models may have or not: all if a cubic has so many, else six, for the cost
_FIRST_LOOK = 5  # the same, when the whole grid is looked at for the first time
_WINDOW = 6.0  # log evidence that a place may lack to the best one at the first look
_MOST_PLACES = 24  # places of the grid that are looked at again
_NARROWEST = 1e-200  # variance of coefficients of data that do not move
_TIE = 1e-6  # differences of log evidence below this are rounding

Averages = tuple[Float64[Array, "places scales scores"], Float64[Array, "places scales shares dim terms"]]


_READ = (1, 2, 3)  # dimensions of recognition models; with more components the search begins at the mean


def _num_per_axis(dim: int) -> int:
    return nodes_per_axis(dim, _PLACES, _PER_AXIS) if dim <= _READ[-1] else 3


def _most_free(dim: int) -> int:
    num_terms = comb(dim + 3, 3)  # of a cubic
    return num_terms if num_terms <= _ALL_FREE else _MOST_FREE


SEARCH = (  # all that decides the averages besides priors and data, as text
    f"reach {_REACH:g} {_FARTHEST:g}, grid { {dim: _num_per_axis(dim) for dim in _READ} }, rounds {_ROUNDS}, "
    f"free { {dim: _most_free(dim) for dim in _READ} }, first look {_FIRST_LOOK} within {_WINDOW:g} of {_MOST_PLACES}"
)


@dataclass(frozen=True)
class SpikeSlabPrior:
    """b_k = 0 with probability 1 - share, else b_k ~ N(0, (width / scale^(deg k - 1))²): before the data are seen.

    Attributes:
        share: Probability of a term to be there.
        scales: Sizes of the equation, in standard deviations of the data, all equally likely. A coefficient of degree k
            is as wide as the natural one divided by scale**(k - 1): where data reach a small part of what an equation
            describes, its higher terms hardly matter.
    """

    share: float
    scales: tuple[float, ...] = (1.0,)

    def __str__(self) -> str:
        return f"{self.share:g}" + (" wide" if len(self.scales) > 1 else "")


def sparse_averages(
    post: Posterior,
    degree: int,
    priors: Sequence[SpikeSlabPrior],
    width: Float64[Array, " dim"],
    origin: Float64[Array, " dim"] | None,
    parity: int | None = None,
) -> Float64[Array, "priors dim terms"]:
    """sum_o sum_M p(o, M | data) E[b | o, M, data]: averages over sparse models M and over origins o.

    M has some of the monomials of (x - o), each with the prior probability of a term; its evidence is exact, with a
    normal prior of the coefficients. o is the place around which the polynomial is sparse: given, or on a grid that
    gets finer around the best place. All priors share one search for the origin, so they are averaged together.

    Args:
        post: What the data say of the coefficients of a polynomial.
        degree: Its degree.
        priors: What was believed before; an average for each.
        width: Natural size of the coefficients that are there, per component.
        origin: The place around which the polynomial is sparse; None: unknown.
        parity: Only terms of odd (1) or even (0) degree: equations that a reflection at the origin leaves alone.
    """
    dim = len(post.mean)
    degrees = monomials.exponents(dim, degree).sum(axis=1)
    allowed = np.ones(len(degrees), np.bool_) if parity is None else degrees % 2 == parity
    shares = sorted({b.share for b in priors})
    scales = sorted({scale for b in priors for scale in b.scales})
    odds = np.array([s / (1.0 - s) for s in shares])[:, None] * allowed
    steepness = np.array(scales)[:, None] ** (2 * np.maximum(degrees - 1, 0))
    slabs = steepness[:, None, :] / np.maximum(width[:, None] ** 2, _NARROWEST)
    right = (post.precision @ post.mean[..., None])[..., 0]
    shifts = monomials.shift_terms(dim, degree)

    def average(places: Float64[Array, "places dim"], most_free: int, num_scales: int) -> Averages:
        evidence, found = average_at_places(post.precision, right, slabs[:num_scales], odds, most_free, *shifts, places)
        return evidence.sum(axis=-1), found

    scores, found, _ = search_origin(average, dim, len(scales), origin, first_look=degree > 2)
    return np.stack(
        [
            _weighted(scores[:, chosen, shares.index(b.share)], found[:, chosen, shares.index(b.share)])
            for b in priors
            for chosen in [[scales.index(scale) for scale in b.scales]]
        ]
    )


def search_origin(
    average: Callable[[Float64[Array, "places dim"], int, int], Averages],
    dim: int,
    num_scales: int,
    origin: Float64[Array, " dim"] | None,
    *,
    first_look: bool,
) -> tuple[*Averages, int]:
    """Log evidences and averages at an origin, or on a grid of origins that gets finer around the best place.

    Args:
        average: Averages over sparse models at places, with so many terms free and so many sizes of the equation.
        dim: State dimension.
        num_scales: Number of sizes.
        origin: The place, if it is known.
        first_look: Whether places are chosen by a quick look first. Diffusions are often constant, and then as good
            around any place.

    Returns:
        Log evidences, averages, and the number of places that share the prior.
    """

    def average_fully(places: Float64[Array, "places dim"]) -> Averages:
        return average(places, _most_free(dim), num_scales)

    if origin is not None:
        return *average_fully(origin[None]), 1
    places, num = _grid(dim), len(_grid(dim))
    if first_look:
        places = _best_of(places, average(places, _FIRST_LOOK, 1)[0][:, 0])
    return *_around_the_best(places, average_fully), num


def _best_of(
    places: Float64[Array, "places dim"], evidence: Float64[Array, "places shares"]
) -> Float64[Array, "some dim"]:
    """The places that are worth a second look, best ones first."""
    known = np.isfinite(evidence)
    best = evidence.max(axis=0, where=known, initial=-np.inf)
    lacking = np.where(known, best - evidence, np.inf).min(axis=1)
    order = np.argsort(lacking, kind="stable")[:_MOST_PLACES]
    return places[order[: max(1, int(np.sum(lacking[order] < _WINDOW)))]]


def _around_the_best(
    places: Float64[Array, "first dim"], average: Callable[[Float64[Array, "places dim"]], Averages]
) -> Averages:
    """Log evidences and averages at places of the grid, and on finer and finer grids around the best place so far.

    A place stands for its share of the volume.
    """
    dim = places.shape[1]
    spacing = 2 * _REACH / (_num_per_axis(dim) - 1)
    around, highest = places[0], -np.inf
    scores, averages = [], []
    for turn in range(_ROUNDS + 1):
        if turn > 0:
            places = around + 0.5**turn * spacing * _neighbours(dim)
        evidence, found = average(places)
        scores.append(evidence - turn * dim * np.log(2.0))
        averages.append(found)
        for place, value in zip(places, evidence[..., -1].max(axis=1), strict=True):
            if value > highest + _TIE:  # places are often equally good: rounding must not choose
                highest, around = value, place
    return np.concatenate(scores), np.concatenate(averages)


def _weighted(
    scores: Float64[Array, "places scales"], averages: Float64[Array, "places scales dim terms"]
) -> Float64[Array, "dim terms"]:
    weights = np.exp(scores - scores.max())
    return np.einsum("is,isdt->dt", weights / weights.sum(), averages)


@cache
def _grid(dim: int) -> Float64[Array, "places dim"]:
    """Places around the mean of the data, in normalised coordinates; with many components the mean alone."""
    if dim > _READ[-1]:
        return np.zeros((1, dim))
    axis = np.linspace(-_REACH, _REACH, _num_per_axis(dim))
    places = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    return places[np.linalg.norm(places, axis=1) <= _FARTHEST]


@cache
def _neighbours(dim: int) -> Float64[Array, "places dim"]:
    """The places around zero on a grid: all 3**dim - 1, but from three dimensions on those along the axes only."""
    steps = np.array([s for s in product((-1.0, 0.0, 1.0), repeat=dim) if any(s)])
    return steps if dim < 3 else steps[np.abs(steps).sum(axis=1) == 1]
