"""Remainders: what data leave open beside the terms that a polynomial has.

The evidence prefers few terms while data say little, and then a polynomial is not the truth but what can be seen of it:
a drift that goes up and down between wells, or a weak rotation, leaves a path of a few hundred steps as likely as their
absence does. An interval that believes in the terms that were chosen does not know, and no equation is exact. So
f = p + h, with p drawn from the posterior of polynomials, and h a random polynomial of all terms or, as likely, a
Gaussian process. Kind, length and size of h are weighed by their evidence given p. Where data tell, h is as small as
they ask for.

p is drawn as if h were zero. Of what both can be, their sum has the variance (1 - k + k²) / A instead of 1 / A, where A
is the information and k, between 0 and 1, the share of it that h takes: never less than three quarters.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import factorial

import numpy as np
from scipy.linalg import cho_solve, solve_triangular
from scipy.special import logsumexp

from fimsde.evidence.basis import Basis
from fimsde.evidence.draws import CoefficientDraws, first_after_smooth, stand_in
from fimsde.evidence.hypotheses import Weighed
from fimsde.evidence.smooth import LENGTHS, given_size, kernel_root
from fimsde.shapes import Array, Float64, Int

_SIZES = (0.1, 0.3, 1.0, 3.0)  # standard deviations of h in natural sizes of the field, all as likely before
_LONGEST = 1.0  # standard deviations of the data: longer processes are nearly polynomials; by hand
_MOST_LENGTHS = 3  # by hand: bounds the time
_REACH = 2.0  # standard deviations of the data: length of random polynomials


@dataclass(frozen=True, eq=False)
class _Kind:
    """h = sum over some of the basis functions, with coefficients R u, u ~ N(0, size²).

    Attributes:
        part: Which functions.
        root: R.
        length: Of a process; 0 for polynomials.
    """

    part: slice
    root: Float64[Array, "some columns"]
    length: float


def add_remainders(drawn: CoefficientDraws, weighed: Weighed, stream: tuple[int, ...]) -> CoefficientDraws:
    """The same draws, those of polynomials with a remainder; draw i is a function of the stream and i."""
    num, size, dim = drawn.coefficients.shape
    choice, normal = (np.random.default_rng([*stream, purpose]) for purpose in range(2))
    chance, white = choice.random((num, dim)), normal.standard_normal((num, dim, size))
    kinds = list(_kinds(weighed.basis))
    out = replace(drawn, coefficients=drawn.coefficients.copy(), size=drawn.size.copy(), length=drawn.length.copy())
    for c in range(dim):
        rows = np.flatnonzero(drawn.terms[:, :, c].any(axis=1) & (drawn.size[:, c] == 0))
        if len(rows):
            _add(out, rows, c, weighed, kinds, chance[rows, c], white[rows, c])
    return out


def _kinds(basis: Basis) -> Iterator[_Kind]:
    """Random polynomials with the kernel exp(x x' / length²), and processes of lengths that the grid can hold."""
    exponents = basis.exponents
    size = np.prod([[factorial(k) for k in own] for own in exponents.tolist()], axis=1) ** -0.5
    yield _Kind(slice(0, basis.num_terms), np.diag(size / _REACH ** exponents.sum(axis=1)), 0.0)
    if basis.grid is not None:
        held = [length for length in LENGTHS if basis.grid.spacing <= length <= _LONGEST]
        for length in held[:_MOST_LENGTHS]:
            root = kernel_root(basis.grid, length)
            yield _Kind(slice(basis.num_terms, basis.size), root, length)


def _typical(weighed: Weighed, c: int) -> Float64[Array, " terms"]:
    """E[p | data] of a component, where it is a polynomial; what stands in for none counts as often as it is drawn."""
    kept, terms = weighed.kept, weighed.basis.num_terms
    weights = weighed.weights[: len(kept.searches) * kept.num_priors, c].copy()
    if len(weighed.weights) > first_after_smooth(kept):
        weights[stand_in(kept)] += weighed.weights[first_after_smooth(kept), c]
    return np.asarray(weights @ weighed.coefficients[: len(weights), c, :terms] / max(weights.sum(), 1e-300))


def _add(
    out: CoefficientDraws,
    rows: Int[Array, " some"],
    c: int,
    weighed: Weighed,
    kinds: list[_Kind],
    chance: Float64[Array, " some"],
    white: Float64[Array, "some size"],
) -> None:
    """h given p for each of the rows; its kind and size by their evidence at a typical p."""
    terms, data = weighed.basis.num_terms, weighed.kept.data
    polynomials = out.coefficients[rows, :terms, c]
    left = data.right[c, :, None] - data.matrix[c, :, :terms] @ polynomials.T  # (size, some): scores given each p
    typical = data.right[c] - data.matrix[c, :, :terms] @ _typical(weighed, c)
    found, logs = [], []
    for kind in kinds:
        inner = kind.root.T @ data.matrix[c, kind.part, kind.part] @ kind.root
        score = kind.root.T @ typical[kind.part]
        prior = 1.0 if kind.length == 0 else 1.0 / (len(kinds) - 1)  # polynomials are as likely as all processes
        for size in _SIZES:
            given = given_size(inner, score, (size * weighed.kept.width[c]) ** 2)
            found.append((kind, given))
            logs.append(given.evidence + np.log(prior))
    cumulative = np.cumsum(np.exp(np.array(logs) - logsumexp(logs)))
    chosen = np.minimum(np.searchsorted(cumulative, chance), len(found) - 1)
    for k in np.unique(chosen).tolist():
        own = np.flatnonzero(chosen == k)
        kind, given = found[k]
        mean = given.scale * cho_solve((given.root, True), kind.root.T @ left[kind.part, own])
        normals = white[own, : kind.root.shape[1]].T
        spread = given.scale**0.5 * solve_triangular(given.root, normals, lower=True, trans="T")
        out.coefficients[rows[own], kind.part, c] += (kind.root @ (mean + spread)).T
        if kind.length:
            out.size[rows[own], c], out.length[rows[own], c] = given.scale**0.5, kind.length
