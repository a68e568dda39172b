"""Smooth fields: a polynomial of low degree and a Gaussian process on the nodes of a grid, with one posterior."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.linalg import cho_factor, cho_solve, qr
from scipy.linalg.lapack import dpotrf, dpotrs

from fimsde.distributions import logsumexp
from fimsde.evidence import smooth_kernels
from fimsde.evidence.basis import Basis, SplineGrid
from fimsde.evidence.information import Information
from fimsde.shapes import Array, Float64

LENGTHS = (0.15, 0.25, 0.42, 0.7, 1.2, 2.0, 3.5)  # standard deviations of the data: from fine to nearly linear
SIZES = (0.3, 1.0, 3.0, 10.0, 30.0)  # standard deviation of the process, in natural sizes of the field
_WIDTH = 1.0  # prior width of polynomial coefficients, in the same sizes
_LEFT_OUT = 1e-4  # share of the variance of the process that its factor may leave out at a node
_LEAST_PIVOT = 0.9  # of a factor of 1 + A: at least one where A is no less than zero; less is rounding


@dataclass(frozen=True)
class SmoothPrior:
    """f = polynomial + h with h ~ GP(0, (size width)² exp(-|x - x'|² / 2 length²)).

    Attributes:
        length: Standard deviations of the data over which the process changes.
        degree: Of the polynomial; -1: there is none.
    """

    length: float
    degree: int

    def __str__(self) -> str:
        return f"smooth {self.length:g}, mean {_MEANS[self.degree]}"


_MEANS = {-1: "zero", 0: "constant", 1: "linear"}


@dataclass(frozen=True, eq=False)
class SmoothPosteriors:
    """What each prior makes of the data, sizes integrated over.

    Attributes:
        evidence: log p(data | prior), per component; minus infinity for lengths that the grid cannot hold.
        coefficients: E[b | data, prior].
    """

    evidence: Float64[Array, "priors dim"]
    coefficients: Float64[Array, "priors dim size"]


def smooth_posteriors(
    data: Information, basis: Basis, priors: Sequence[SmoothPrior], width: Float64[Array, " dim"]
) -> SmoothPosteriors:
    """Posteriors of smooth fields.

    On the nodes of the grid h has the coefficients L u, u ~ N(0, (size width)²) with L L' the kernel there. The
    polynomial has a wide prior and is integrated out first; sizes are equally likely.
    """
    dim, size = data.right.shape
    evidence = np.full((len(priors), dim), -np.inf)
    coefficients = np.zeros((len(priors), dim, size))
    if basis.grid is None:
        return SmoothPosteriors(evidence, coefficients)
    nodes = basis.num_terms + np.arange(basis.num_nodes)
    low = {degree: np.flatnonzero(basis.exponents.sum(axis=1) <= degree) for degree in {p.degree for p in priors}}
    reduced = {
        degree: [_without_polynomial(data.matrix[c], data.right[c], kept, nodes, _WIDTH * width[c]) for c in range(dim)]
        for degree, kept in low.items()
    }
    roots = {
        length: kernel_root(basis.grid, length)
        for length in {p.length for p in priors if p.length >= basis.grid.spacing}
    }
    for i, prior in enumerate(priors):
        if prior.length not in roots:
            continue
        for c, part in enumerate(reduced[prior.degree]):
            evidence[i, c], process = _process(part, roots[prior.length], width[c])
            coefficients[i, c, nodes] = process
            coefficients[i, c, low[prior.degree]] = part.mean - part.slopes @ process
    return SmoothPosteriors(evidence, coefficients)


@lru_cache(maxsize=16)  # of one or two data sets: weighed several times, and drawn from
def kernel_root(grid: SplineGrid, length: float) -> Float64[Array, "nodes columns"]:
    """L with L L' the kernel of this length on the nodes of a grid."""
    return smooth_kernels.normal_kernel_root(grid.places, length, _LEFT_OUT)


@dataclass(frozen=True, eq=False)
class _Reduced:
    """The log likelihood of the nodes with the polynomial integrated out, and the polynomial given the nodes."""

    matrix: Float64[Array, "nodes nodes"]
    right: Float64[Array, " nodes"]
    constant: float
    mean: Float64[Array, " terms"]
    slopes: Float64[Array, "terms nodes"]


def _without_polynomial(
    matrix: Float64[Array, "size size"], right: Float64[Array, " size"], kept: Array, nodes: Array, width: float
) -> _Reduced:
    if len(kept) == 0:
        return _Reduced(matrix[np.ix_(nodes, nodes)], right[nodes], 0.0, np.zeros(0), np.zeros((0, len(nodes))))
    own = matrix[np.ix_(kept, kept)] + np.eye(len(kept)) / width**2
    shared = matrix[np.ix_(kept, nodes)]
    factor = cho_factor(own, lower=True)
    solved = cho_solve(factor, np.column_stack([shared, right[kept]]))
    slopes, mean = solved[:, :-1], solved[:, -1]
    constant = 0.5 * right[kept] @ mean - np.log(np.diag(factor[0])).sum() - len(kept) * np.log(width)
    return _Reduced(
        matrix[np.ix_(nodes, nodes)] - shared.T @ slopes, right[nodes] - shared.T @ mean, float(constant), mean, slopes
    )


def _process(
    part: _Reduced, root: Float64[Array, "nodes columns"], width: float
) -> tuple[float, Float64[Array, " nodes"]]:
    """Log evidence and posterior mean of the process at the nodes, averaged over sizes."""
    inner, score = root.T @ part.matrix @ root, root.T @ part.right
    given = [given_size(inner, score, (size * width) ** 2) for size in SIZES]
    values = np.array([one.evidence for one in given])
    total = float(logsumexp(values))
    mean = np.exp(values - total) @ np.stack([one.mean for one in given])
    return part.constant + total - np.log(len(SIZES)), root @ mean


@dataclass(frozen=True, eq=False)
class GivenSize:
    """u ~ N(mean, scale (L L')⁻¹), and the log evidence of the size."""

    scale: float
    mean: Float64[Array, " columns"]
    root: Float64[Array, "columns columns"]
    evidence: float


def given_size(matrix: Float64[Array, "columns columns"], right: Float64[Array, " columns"], scale: float) -> GivenSize:
    """The posterior of u ~ N(0, scale) under the log likelihood r' u - u' A u / 2."""
    total = scale * matrix
    total[np.diag_indices(len(total))] += 1.0
    root, failed = dpotrf(total, lower=1, clean=0)
    if failed or np.diag(root).min() < _LEAST_PIVOT:  # rounding: information is never negative
        told, vectors = np.linalg.eigh(matrix)
        root = qr(np.sqrt(1.0 + scale * np.maximum(told, 0.0))[:, None] * vectors.T, mode="r")[0].T
        root = root * np.sign(np.diag(root))
    mean = scale * dpotrs(root, right, lower=1)[0]
    return GivenSize(scale, mean, root, float(0.5 * right @ mean - np.log(np.diag(root)).sum()))
