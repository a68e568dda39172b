"""Whole functions drawn from the posterior of a field: a hypothesis by its weight, then its coefficients.

A hypothesis is drawn for every component by p(hypothesis | data); where that is "none", some polynomial that does not
stand out. Of sparse polynomials an origin and a size follow,
which components share, then a subset of the terms, then coefficients; of smooth functions the size of the process, its
values at the nodes and the polynomial beside it. All of it is exact on the quadratic log likelihood of the data.
Draw i of a seed depends on (seed, i) alone.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from fimsde.bank import monomials
from fimsde.bank.origin import _most_free
from fimsde.evidence import draw_kernels
from fimsde.evidence.basis import Basis
from fimsde.evidence.hypotheses import Kept, Weighed
from fimsde.evidence.smooth import _WIDTH, SIZES, SmoothPrior, given_size, kernel_root
from fimsde.evidence.sparse import Search
from fimsde.shapes import Array, Bool, Float64, Int

# through all terms, in which each may come or go, where subsets are too many to visit; by hand: a chain that begins at
# the best terms needs few, and 200 draws in space take 50 ms
_SWEEPS = 6


@dataclass(frozen=True, eq=False)
class CoefficientDraws:
    """Coefficients of a field in its basis, drawn from the posterior.

    Attributes:
        coefficients: Draws of b.
        hypotheses: Which hypothesis each component follows in each draw.
        terms: Which monomials are there: around zero for draws that are sparse around it, else those that make up the
            sparse ones of their origin. None for smooth draws.
        size, length: Standard deviation and length of the process of smooth draws; size 0 for others. Beyond the nodes
            of the grid nothing else tells how far such a function may go.
    """

    coefficients: Float64[Array, "draws size dim"]
    hypotheses: Int[Array, "draws dim"]
    terms: Bool[Array, "draws terms dim"]
    size: Float64[Array, "draws dim"]
    length: Float64[Array, "draws dim"]

    def only(self, i: int) -> "CoefficientDraws":
        """One of the draws."""
        names = ("coefficients", "hypotheses", "terms", "size", "length")
        return CoefficientDraws(*(getattr(self, name)[i : i + 1] for name in names))

    def moved(self, change: Float64[Array, "size dim"]) -> "CoefficientDraws":
        """The same draws around another mean."""
        return replace(self, coefficients=self.coefficients + change)

    def spread(self, mean: Float64[Array, "size dim"], factor: float) -> "CoefficientDraws":
        """Draws whose distances from a mean are so many times as large."""
        return replace(self, coefficients=mean + factor * (self.coefficients - mean), size=factor * self.size)


@dataclass(frozen=True, eq=False)
class _Chances:
    """Random numbers of every draw: uniform ones for choices, normal ones for coefficients."""

    hypothesis: Float64[Array, "draws dim"]
    place: Float64[Array, "draws places"]
    subset: Float64[Array, "draws dim steps"]
    normals: Float64[Array, "draws dim size"]

    @staticmethod
    def make(num: int, dim: int, steps: int, size: int, stream: tuple[int, ...]) -> "_Chances":
        """Row after row, so that draw i does not depend on how many follow it."""
        choices, subsets, normals = (np.random.default_rng([*stream, purpose]) for purpose in range(3))
        chosen, steps_of = choices.random((num, dim + 2)), subsets.random((num, dim, steps))
        return _Chances(chosen[:, :dim], chosen[:, dim:], steps_of, normals.standard_normal((num, dim, size)))


def draw_coefficients(weighed: Weighed, num: int, stream: tuple[int, ...]) -> CoefficientDraws:
    """Draws from the mixture of all posteriors of a field; their mean is `weighed.mean`, up to chance.

    Args:
        weighed: The hypotheses.
        num: How many draws.
        stream: Numbers that seed the draws; draw i is a function of these and i.
    """
    basis, kept = weighed.basis, weighed.kept
    dim = len(kept.width)
    steps = 1 + _SWEEPS * basis.num_terms if basis.num_terms > _most_free(dim) else 1
    chances = _Chances.make(num, dim, steps, basis.size + basis.num_terms, stream)
    chosen = _choose(np.cumsum(weighed.weights, axis=0), chances.hypothesis)
    chosen = np.where(chosen == first_after_smooth(kept), stand_in(kept), chosen)
    terms = np.zeros((num, basis.num_terms, dim), bool)
    out = CoefficientDraws(np.zeros((num, basis.size, dim)), chosen, terms, np.zeros((num, dim)), np.ones((num, dim)))
    for number, search in enumerate(kept.searches):
        if search is not None:
            _draw_sparse(out, chosen - number * kept.num_priors, kept, basis, search, chances, number)
    first = len(kept.searches) * kept.num_priors
    for h, prior in enumerate(kept.smooth):
        if (chosen == first + h).any():
            assert basis.grid is not None, "there are no smooth functions without nodes"
            root = kernel_root(basis.grid, prior.length)
            for c in range(dim):
                rows = np.flatnonzero(chosen[:, c] == first + h)
                if len(rows):
                    _draw_smooth(out, rows, c, kept, basis, prior, root, chances)
    return out


def first_after_smooth(kept: Kept) -> int:
    """Number of the hypothesis that there is no field; it comes after all others, if it is one."""
    return len(kept.searches) * kept.num_priors + len(kept.smooth)


def stand_in(kept: Kept) -> int:
    """What is drawn in place of no field at all: any polynomial.

    That a drift is exactly zero is how the estimate says that none was found. The truth may be whatever does not stand
    out, and that is the posterior of a polynomial, around an unknown origin if it was considered.
    """
    return kept.num_priors * max(number for number, search in enumerate(kept.searches) if search is not None)


def _choose(cumulative: Float64[Array, "choices dim"], chance: Float64[Array, "draws dim"]) -> Int[Array, "draws dim"]:
    """Of every component the first choice at which the cumulative weight passes the chance."""
    passed = chance[:, None] * cumulative[-1] >= cumulative  # (draws, choices, dim)
    return np.minimum(passed.sum(axis=1), len(cumulative) - 1)


def _draw_sparse(
    out: CoefficientDraws,
    prior: Int[Array, "draws dim"],  # of each component; outside 0 ... num_priors - 1 where it follows something else
    kept: Kept,
    basis: Basis,
    search: Search,
    chances: _Chances,
    number: int,
) -> None:
    num, terms = len(prior), basis.num_terms
    polynomial = kept.data.polynomial(terms)
    shifts = monomials.shift_terms(basis.dim, basis.degree)
    follows = (prior >= 0) & (prior < kept.num_priors)
    laws: dict[tuple[int, ...], Float64[Array, " choices"]] = {}
    groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for i in range(num):
        if not follows[i].any():
            continue
        key = tuple(np.where(follows[i], prior[i], -1).tolist())
        if key not in laws:
            laws[key] = _cumulative_of_places(search, key)
        law = laws[key]
        place = min(int(np.searchsorted(law, chances.place[i, number] * law[-1], side="right")), len(law) - 1)
        for c in np.flatnonzero(follows[i]).tolist():
            groups[place, key[c], c].append(i)
    num_scales = search.scores.shape[1]
    for (place, p, c), rows in groups.items():
        where, scale = divmod(place, num_scales)
        drawn, local = draw_kernels.draw_sparse(
            *(polynomial.matrix[c], polynomial.right[c], search.slabs[scale, c], search.odds[p], search.odds[0]),
            *(_most_free(basis.dim), *shifts, search.places[where]),
            *(chances.subset[rows, c], chances.normals[rows, c, :terms]),
        )
        out.coefficients[rows, :terms, c] = drawn
        out.terms[rows, :, c] = local != 0 if number == 0 else within(basis.exponents, local != 0)


def within(exponents: Int[Array, "terms dim"], there: Bool[Array, "draws terms"]) -> Bool[Array, "draws terms"]:
    """Monomials of x that polynomials with these monomials of (x - o) may have, for an o that is not zero."""
    part_of = np.all(exponents[None] <= exponents[:, None], axis=2)  # (terms, terms): column divides row
    return (there.astype(np.float64) @ part_of) > 0


def _cumulative_of_places(search: Search, priors: Iterable[int]) -> Float64[Array, " choices"]:
    """p(place, size | data) for components that follow these priors (-1: something else), up to a factor, summed up."""
    logs = search.scores.copy()
    for c, p in enumerate(priors):
        if p >= 0:
            logs += search.evidence[:, :, p, c] - search.of_all[:, :, c]
    return np.cumsum(np.exp(logs - logs.max()).ravel())


def _draw_smooth(
    out: CoefficientDraws,
    rows: Int[Array, " some"],
    c: int,
    kept: Kept,
    basis: Basis,
    prior: SmoothPrior,
    root: Float64[Array, "nodes columns"],
    chances: _Chances,
) -> None:
    """f = polynomial + h with h = L u on the nodes: sizes by their evidence, then u, then the polynomial given h."""
    matrix, right, width = kept.data.matrix[c], kept.data.right[c], kept.width[c]
    low = np.flatnonzero(basis.exponents.sum(axis=1) <= prior.degree)
    nodes = basis.num_terms + np.arange(basis.num_nodes)
    own = matrix[np.ix_(low, low)] + np.eye(len(low)) / (_WIDTH * width) ** 2
    shared = matrix[np.ix_(low, nodes)]
    factor = np.linalg.cholesky(own)
    solved = cho_solve((factor, True), np.column_stack([shared, right[low]]))
    slopes, mean = solved[:, :-1], solved[:, -1]
    inner = root.T @ (matrix[np.ix_(nodes, nodes)] - shared.T @ slopes) @ root
    score = root.T @ (right[nodes] - shared.T @ mean)
    posteriors = [given_size(inner, score, (size * width) ** 2) for size in SIZES]
    evidence = np.array([p.evidence for p in posteriors])
    cumulative = np.cumsum(np.exp(evidence - evidence.max()))
    chosen = _choose(cumulative[:, None], chances.subset[rows, c, :1])[:, 0]
    columns = root.shape[1]
    for s in np.unique(chosen).tolist():
        which, part = rows[chosen == s], posteriors[s]
        white = chances.normals[which, c]  # (some, size + terms)
        spread = part.scale**0.5 * solve_triangular(part.root, white[:, :columns].T, lower=True, trans="T")
        process = root @ (part.mean[:, None] + spread)  # (nodes, some)
        rest = solve_triangular(factor, white[:, columns : columns + len(low)].T, lower=True, trans="T")
        out.coefficients[which[:, None], nodes, c] = process.T
        out.coefficients[which[:, None], low, c] = (mean[:, None] - slopes @ process + rest).T
        out.size[which, c], out.length[which, c] = part.scale**0.5, prior.length
