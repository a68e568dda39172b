"""Sparse polynomials: averages over all subsets of the terms, over sizes of the equation and over its origin.

Equations are usually written around a place of their own (an equilibrium, a symmetry), and there they have few terms.
All components share the place and the size; which terms they have is their own affair.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fimsde.bank import monomials
from fimsde.bank.origin import search_origin
from fimsde.bank.subset_kernels import average_at_places
from fimsde.distributions import logsumexp
from fimsde.evidence.information import Information
from fimsde.shapes import Array, Float64

_NARROWEST = 1e-200  # variance of coefficients of data that do not move


@dataclass(frozen=True)
class SparsePrior:
    """b_k = 0 with probability 1 - share, else b_k ~ N(0, (width / scale^(deg k - 1))²), for some of the terms.

    At least one of them is there.

    Attributes:
        name: Short and unique.
        share: Probability of a term to be there.
        degrees: Degrees of the terms that may be there.
        weight: Probability of the prior itself, relative to others.
    """

    name: str
    share: float
    degrees: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Search:
    """The places and sizes that were looked at, and what each is worth: all that draws need besides the data.

    Attributes:
        places: Origins, in normalised coordinates.
        scores: Log weight of each place and size to all components together.
        evidence: log p(data | place, size, prior), per component.
        of_all: The same, averaged over priors and what else a component may follow.
        slabs: Prior precisions of the coefficients in (x - place).
        odds: Prior odds of each term.
    """

    places: Float64[Array, "places dim"]
    scores: Float64[Array, "places scales"]
    evidence: Float64[Array, "places scales priors dim"]
    of_all: Float64[Array, "places scales dim"]
    slabs: Float64[Array, "scales dim terms"]
    odds: Float64[Array, "priors terms"]


@dataclass(frozen=True, eq=False)
class SparsePosteriors:
    """What each prior makes of the data, given an origin, per component.

    Attributes:
        evidence: log p(data | prior), averaged over places and sizes as far as the other components believe in them.
        coefficients: E[b | data, prior].
        search: What the averages are over; None if there was nothing to look at.
    """

    evidence: Float64[Array, "priors dim"]
    coefficients: Float64[Array, "priors dim terms"]
    search: Search | None = None


def sparse_posteriors(
    data: Information,
    degree: int,
    priors: Sequence[SparsePrior],
    widths: Float64[Array, "widths dim"],
    scales: Sequence[float],
    origin: Float64[Array, " dim"] | None,
    otherwise: Float64[Array, " dim"],
) -> SparsePosteriors:
    """sum_o sum_M p(o, M | data) E[b | o, M, data] for every prior: averages over subsets M of the terms and origins o.

    The evidence of a subset is exact, with normal priors of its coefficients. A component may follow any of the priors,
    or none of them (`otherwise`): the weight of a place is the product over components of what they say of it.

    Args:
        data: The quadratic log likelihood of the coefficients of a polynomial.
        degree: Its degree.
        priors: What was believed before; the first one has all terms that others have.
        widths: Natural sizes of the coefficients that are there, per component; all equally likely.
        scales: Sizes of the equation, in standard deviations of the data, all equally likely: where data reach a small
            part of what an equation describes, its higher terms hardly matter.
        origin: The place around which the polynomial is sparse; None: unknown.
        otherwise: Log evidence of hypotheses that know no place, per component.
    """
    dim = len(data.right)
    degrees = monomials.exponents(dim, degree).sum(axis=1)
    allowed = np.array([np.isin(degrees, prior.degrees) for prior in priors])
    shares = np.array([prior.share for prior in priors])
    odds = (shares / (1.0 - shares))[:, None] * allowed
    absent = np.log1p(-shares) * allowed.sum(axis=1)  # log probability that no term is there
    steepness = np.array(scales)[:, None] ** (2 * np.maximum(degrees - 1, 0))
    precision = 1.0 / np.maximum(widths[:, None, :, None] ** 2, _NARROWEST)
    slabs = (steepness[:, None, :] * precision).reshape(-1, dim, len(degrees))
    shifts = monomials.shift_terms(dim, degree)
    visited: list[Float64[Array, "places dim"]] = []

    def average(places: Float64[Array, "places dim"], most_free: int, num_scales: int) -> tuple[Array, Array]:
        """Log evidence of places and sizes; averages with the log evidence of each prior as one more term."""
        visited.append(places)
        evidence, found = average_at_places(
            data.matrix, data.right, slabs[:num_scales], odds, most_free, *shifts, places
        )
        evidence, found = _without_the_empty(evidence + absent[:, None], found, absent[:, None])
        total = _of_all(evidence, otherwise).sum(axis=-1)
        return total[..., None], np.concatenate([found, evidence[..., None]], axis=-1)

    scores, found, num_places = search_origin(average, dim, len(slabs), origin, first_look=degree > 2)
    evidence, averages = found[..., -1], found[..., :-1]
    of_all = _of_all(evidence, otherwise)
    others = scores - of_all  # (places, scales, dim): what the place is worth to the others
    joint = (others - _mass(others, num_places * len(slabs)))[:, :, None] + evidence
    total = logsumexp(joint, axis=(0, 1))
    share = np.exp(joint - np.where(np.isfinite(total), total, 0.0))  # zero for a prior that the data exclude
    places = np.concatenate(visited)[-len(scores) :]  # a first look comes before
    search = Search(places, scores[..., 0], evidence, of_all, slabs, odds)
    return SparsePosteriors(total, np.einsum("isrd,isrdt->rdt", share, averages), search)


def _without_the_empty(
    evidence: Float64[Array, "places scales priors dim"], found: Array, empty: Float64[Array, "priors 1"]
) -> tuple[Array, Array]:
    """Log evidence and averages given that there is a term at all: p(data, M) summed over M that are not empty.

    A polynomial without terms has the log likelihood zero; that there is no field is a hypothesis of its own.
    """
    lost = -np.expm1(np.minimum(empty - evidence, 0.0))  # share of the evidence that is not the empty set's
    lost = np.maximum(lost, np.finfo(float).eps)
    return evidence + np.log(lost) - np.log1p(-np.exp(empty)), found / lost[..., None]


def _mass(others: Float64[Array, "places scales dim"], num: int) -> Float64[Array, " dim"]:
    """log of the sum over all places: those that were looked at, and the rest, each as good as the worst of these."""
    flat = others.reshape(-1, others.shape[-1])
    rest = np.log(max(num - len(flat), 1)) if num > len(flat) else -np.inf
    return np.logaddexp(logsumexp(flat, axis=0), rest + flat.min(axis=0))


def _of_all(evidence: Float64[Array, "places scales priors dim"], otherwise: Float64[Array, " dim"]) -> Array:
    """log of the mean evidence over priors, and over what else a component may follow: (places, scales, dim)."""
    inside = logsumexp(evidence, axis=2) - np.log(evidence.shape[2])
    return np.logaddexp(inside, otherwise) - np.log(2.0)
