"""Basis: polynomials and quadratic B-splines, in which drift and variance rate are linear.

A field is f_c(x) = sum_k b_kc φ_k(x). φ are the monomials up to a degree and, if there is a grid, one product of
B-splines for every node near data. B-splines are smooth, reach one and a half spacings, and add up to one, so that sums
over thousands of observations touch few of them.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import comb

import numpy as np

from fimsde.bank import monomials
from fimsde.evidence import basis_kernels
from fimsde.shapes import Array, Float64, Int

# in standard deviations; each a square root of two: the finest with few enough nodes is taken
_SPACINGS = tuple(0.05 * 2.0 ** (k / 2) for k in range(14))
_FARTHEST = 6.0  # standard deviations; states beyond are no place to put nodes

KernelArrays = tuple[
    Int[Array, " terms"],
    Int[Array, " terms"],
    Int[Array, " terms"],
    float,
    Int[Array, " axes"],
    Int[Array, " axes"],
    Int[Array, " cells"],
]


@dataclass(frozen=True, eq=False)
class SplineGrid:
    """Nodes on a regular grid around zero, in normalised coordinates; those that data are near to.

    Attributes:
        nodes: Index of each node along each axis; its place is the index times the spacing.
        spacing: Distance of neighbours.
    """

    nodes: Int[Array, "nodes dim"]
    spacing: float

    @property
    def places(self) -> Float64[Array, "nodes dim"]:
        """Where the nodes are."""
        return self.nodes * self.spacing


@dataclass(frozen=True, eq=False)
class Basis:
    """Monomials up to a degree, and the B-splines of a grid if there is one."""

    dim: int
    degree: int
    grid: SplineGrid | None = None

    @property
    def exponents(self) -> Int[Array, "terms dim"]:
        """Of the monomials."""
        return monomials.exponents(self.dim, self.degree)

    @property
    def num_terms(self) -> int:
        """Number of monomials."""
        return len(self.exponents)

    @property
    def num_nodes(self) -> int:
        """Number of B-splines."""
        return 0 if self.grid is None else len(self.grid.nodes)

    @property
    def size(self) -> int:
        """Number of functions."""
        return self.num_terms + self.num_nodes

    @cached_property
    def arrays(self) -> KernelArrays:
        """The basis as compiled code takes it."""
        steps = monomials.products_of_lower(self.dim, self.degree)
        lowest, sizes = (np.full(basis_kernels.MOST_AXES, value, np.int64) for value in (0, 1))
        if self.grid is None:
            return *steps, 1.0, lowest, sizes, np.zeros(0, np.int64)
        lowest[-self.dim :] = self.grid.nodes.min(axis=0)
        sizes[-self.dim :] = self.grid.nodes.max(axis=0) + 1 - lowest[-self.dim :]
        table = np.full(int(np.prod(sizes)), -1, np.int64)
        places = tuple((self.grid.nodes - lowest[-self.dim :]).T)
        table[np.ravel_multi_index(places, tuple(sizes[-self.dim :]))] = np.arange(self.num_nodes)
        return *steps, self.grid.spacing, lowest, sizes, table

    def slopes(self, coefficients: Float64[Array, "outputs size"]) -> Float64[Array, "outputs dim lower_terms"]:
        """Coefficients of the slopes of the polynomial part along every axis, in the monomials of lower degree."""
        lower = max(comb(self.dim + self.degree - 1, self.dim), 1)
        matrices = [monomials.derivative(self.dim, self.degree, j)[:lower] for j in range(self.dim)]
        return np.ascontiguousarray(np.einsum("jlk,ck->cjl", matrices, coefficients[:, : self.num_terms]))

    def field(self, coefficients: Float64[Array, "size outputs"], x: Float64[Array, "queries dim"]) -> Array:
        """sum_k b_kc φ_k(x) at every location."""
        rows = np.ascontiguousarray(coefficients.T)
        return basis_kernels.fields_at(np.ascontiguousarray(x), self.arrays, rows, self.degree)

    def features(
        self, x: Float64[Array, "queries dim"], var: Float64[Array, "queries dim"] | None = None
    ) -> Float64[Array, "queries size"]:
        """φ_k(x), or E[φ_k(x + e)] for normal e with these variances."""
        var = np.zeros_like(x) if var is None else var
        return basis_kernels.features_at(np.ascontiguousarray(x), var, self.arrays, self.degree, self.size)


def choose_grid(points: Float64[Array, "points dim"], most_nodes: int, least_spacing: float) -> SplineGrid | None:
    """The finest grid that has at most so many nodes near the points; None if even the coarsest has more.

    Nodes are those whose B-splines a point may touch. Measurement noise of this size blurs what is finer than the least
    spacing.
    """
    dim = points.shape[1]
    if most_nodes == 0:
        return None
    around = np.array(list(product((-1, 0, 1), repeat=dim)))
    inside = np.clip(points, -_FARTHEST, _FARTHEST)
    for spacing in _SPACINGS:
        if spacing < least_spacing:
            continue
        occupied = _unique_rows(np.floor(inside / spacing + 0.5).astype(np.int64))
        if len(occupied) > most_nodes:
            continue
        nodes = _unique_rows((occupied[:, None] + around).reshape(-1, dim))
        if len(nodes) <= most_nodes:
            return SplineGrid(nodes, spacing)
    return None


def _unique_rows(rows: Int[Array, "rows dim"]) -> Int[Array, "some dim"]:
    """Each row once, in order."""
    span = np.int64(2 * _FARTHEST / _SPACINGS[0] + 8)
    key = (rows + span // 2) @ (span ** np.arange(rows.shape[1] - 1, -1, -1))
    _, first = np.unique(key, return_index=True)
    return rows[first]
