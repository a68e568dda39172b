"""Monomials in up to three variables: evaluation, deconvolution of measurement noise, derivatives and shifts."""

from functools import cache
from itertools import combinations_with_replacement, product
from math import comb

import numpy as np

from fimsde.bank import monomial_kernels
from fimsde.shapes import Array, Float64, Int


@cache
def exponents(dim: int, degree: int) -> Int[Array, "terms dim"]:
    """Exponents of all monomials up to a degree: degree ascending, then x1x1, x1x2, x1x3, x2x2, ..."""
    rows = [
        np.bincount(c, minlength=dim) for m in range(degree + 1) for c in combinations_with_replacement(range(dim), m)
    ]
    return np.array(rows, dtype=np.int64)


def evaluate(
    x: Float64[Array, "points dim"], degree: int, noise_var: Float64[Array, " dim"] | None = None
) -> Float64[Array, "points terms"]:
    """Monomials at x; with `noise_var`, at noisy x, polynomials whose expectation is the monomial at the true state.

    For x = u + e with normal e of variance v: E[x² - v] = u² and E[x³ - 3 v x] = u³.
    """
    dim = x.shape[1]
    lower, component, power = products_of_lower(dim, degree)
    out = np.empty((len(x), len(lower)))
    noise_var = np.zeros(dim) if noise_var is None else noise_var
    monomial_kernels.fill_monomials(np.ascontiguousarray(x), noise_var, lower, component, power, out)
    return out


@cache
def products_of_lower(dim: int, degree: int) -> tuple[Int[Array, " terms"], Int[Array, " terms"], Int[Array, " terms"]]:
    """Each monomial as a lower one times a power of its last component: which one, which component, which power."""
    exps = exponents(dim, degree)
    index = {tuple(e): k for k, e in enumerate(exps)}
    component = np.array([max(np.flatnonzero(e), default=0) for e in exps])
    lower = np.array([index[tuple(np.where(np.arange(dim) == j, 0, e))] for e, j in zip(exps, component, strict=True)])
    return lower, component, exps[np.arange(len(exps)), component]


@cache
def derivative(dim: int, degree: int, j: int) -> Float64[Array, "terms terms"]:
    """Matrix A with d/dx_j (b · monomials) = (A b) · monomials."""
    exps = exponents(dim, degree)
    index = {tuple(e): k for k, e in enumerate(exps)}
    out = np.zeros((len(exps), len(exps)))
    for k, e in enumerate(exps):
        if e[j]:
            lower = e.copy()
            lower[j] -= 1
            out[index[tuple(lower)], k] = e[j]
    return out


@cache
def products(dim: int, degree: int) -> Int[Array, "terms terms"]:
    """Which monomial of twice the degree the product of two is."""
    exps = exponents(dim, degree)
    index = {tuple(e): k for k, e in enumerate(exponents(dim, 2 * degree))}
    return np.array([[index[tuple(a + b)] for b in exps] for a in exps])


@cache
def factors(dim: int, degree: int) -> Int[Array, "terms6 2"]:
    """Two monomials up to a degree whose product it is, for each monomial up to twice the degree."""
    _, first = np.unique(products(dim, degree), return_index=True)
    return np.stack(np.divmod(first, len(exponents(dim, degree))), axis=1)


@cache
def shift_terms(
    dim: int, degree: int
) -> tuple[Int[Array, " entries"], Int[Array, " entries"], Float64[Array, " entries"], Int[Array, "entries dim"]]:
    """Entries of the shift matrix: row, column, binomial factor, and the powers of the shift."""
    exps = exponents(dim, degree)
    index = {tuple(e): k for k, e in enumerate(exps)}
    rows, columns, factors, powers = [], [], [], []
    for k, e in enumerate(exps):
        for lower in product(*(range(p + 1) for p in e)):
            rows.append(k)
            columns.append(index[lower])
            factors.append(float(np.prod([comb(int(p), q) for p, q in zip(e, lower, strict=True)])))
            powers.append(e - np.array(lower))
    return np.array(rows), np.array(columns), np.array(factors), np.array(powers)
