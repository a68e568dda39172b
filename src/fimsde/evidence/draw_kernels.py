"""numba kernels that draw sparse polynomials: a subset of the terms by its evidence, then its coefficients."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import math

import numpy as np

from fimsde.bank.subset_kernels import _include, _shifted_rows, _sort_terms, shift_values
from fimsde.compiler import njit

_ROUNDING = 1e-13  # share of its diagonal that a pivot keeps, as in the averages


@njit(cache=True, error_model="numpy")
def draw_sparse(
    information, right, slab, odds, first_odds, most_free, rows, columns, factors, powers, place, chances, normals
):
    """Draws of b with p(b) = sum_M p(M | data) N(b; P_M⁻¹ r_M, P_M⁻¹), subsets M of the terms in (x - place).

    The empty subset is not one of them.

    Args:
        information, right: The log likelihood r' b - b' A b / 2 of the coefficients in x.
        slab: Prior precision of each coefficient in (x - place).
        odds: Prior odds of each term to be there.
        first_odds: The same for the prior that has all terms: it decides which ones are sure, as in the averages.
        most_free: Terms that may be there or not, at most.
        rows, columns, factors, powers: Entries of the shift matrix, see `monomials.shift_terms`.
        place: The origin.
        chances: Uniform numbers (draws, 1 + steps): which subset, and steps of the chain where subsets are too many.
        normals: Standard normal numbers (draws, terms): which coefficients.

    Returns:
        Coefficients in x (draws, terms), and those in (x - place), zero for terms that are not there.
    """
    terms = len(right)
    back = shift_values(-place, factors, powers)
    half, precision = np.empty((terms, terms)), np.empty((terms, terms))
    _shifted_rows(rows, columns, back, information, half)
    _shifted_rows(rows, columns, back, np.ascontiguousarray(half.T), precision)
    there, reach = np.zeros(terms), np.zeros(terms)
    for e in range(len(back)):
        there[rows[e]] += back[e] * right[columns[e]]
        reach[rows[e]] += abs(back[e]) * math.sqrt(max(information[columns[e], columns[e]], 0.0))
    for k in range(terms):
        precision[k, k] = max(precision[k, k], _ROUNDING * reach[k] ** 2) + slab[k]
    order, first, weights = _subsets(precision, there, slab, odds, first_odds, most_free)
    total, possible = np.cumsum(weights), np.flatnonzero(odds > 0.0)
    local, out = np.zeros((len(chances), terms)), np.zeros((len(chances), terms))
    present = np.empty(terms, np.bool_)
    for n in range(len(chances)):
        model = min(np.searchsorted(total, chances[n, 0] * total[-1], side="right"), len(total) - 1)
        present[:] = False
        for i in range(len(order)):
            present[order[i]] = i < first or (model >> (i - first)) & 1
        if len(order) < len(possible):
            _walk(precision, there, slab, odds, possible, chances[n, 1:], present)
        _draw_normal(precision, there, np.flatnonzero(present), normals[n], local[n])
        for e in range(len(back)):
            out[n, columns[e]] += back[e] * local[n, rows[e]]
    return out, local


@njit(cache=True, error_model="numpy")
def _subsets(precision, right, slab, odds, first_odds, most_free):
    """Terms, those in all subsets first, how many these are, and the weight of every subset of the others."""
    sure, free = _sort_terms(precision, right, slab, first_odds, most_free)
    order = np.concatenate((sure, free))
    num, first = len(order), len(sure)
    models = 1 << (num - first)
    least = max(models // 2, 1)
    matrix, reduced, smallest = np.empty((num, num, least)), np.empty((num, least)), np.empty(num)
    for i in range(num):
        smallest[i] = _ROUNDING * precision[order[i], order[i]]
        reduced[i, 0] = right[order[i]]
        for k in range(i, num):
            matrix[i, k, 0] = precision[order[i], order[k]]
    evidence, weights = np.zeros(models), np.ones(models)
    for i in range(num):
        have = 1 << max(i - first, 0)
        to = have if i >= first else 0
        _include(matrix, reduced, smallest, evidence, i, have, to, slab[order[i]])
        for t in range(have):
            weights[to + t] = weights[t] * odds[order[i]]
    if first == 0 and num > 0:
        weights[0] = 0.0  # at least one term is there
    most = -np.inf
    for t in range(models):
        if weights[t] > 0.0:
            most = max(most, evidence[t])
    for t in range(models):
        if weights[t] > 0.0:
            weights[t] *= math.exp(evidence[t] - most)
    return order, first, weights


@njit(cache=True, error_model="numpy")
def _walk(precision, right, slab, odds, possible, chances, present):
    """Gibbs steps over all subsets: each term in turn comes or goes, by its odds given the others.

    Swept on the terms that are there, the matrix holds minus their covariance and their means, and for each of the
    others its pivot a and what is left of its right side z: odds sqrt(slab / a) exp(z² / 2 a) to come.
    """
    num = len(possible)
    swept = np.empty((num + 1, num + 1))
    for i in range(num):
        for j in range(num):
            swept[i, j] = precision[possible[i], possible[j]]
        swept[i, num], swept[num, i] = right[possible[i]], right[possible[i]]
    swept[num, num] = 0.0
    for i in range(num):
        if present[possible[i]]:
            _sweep(swept, i, max(swept[i, i], _ROUNDING * precision[possible[i], possible[i]]), 1.0)
    for step in range(len(chances)):
        i = step % num
        k = possible[i]
        if present[k]:
            pivot = 1.0 / max(-swept[i, i], 1.0 / precision[k, k])
            left = swept[i, num] * pivot
        else:
            pivot = max(swept[i, i], _ROUNDING * precision[k, k])
            left = swept[i, num]
        gain = math.log(odds[k]) + 0.5 * (math.log(slab[k] / pivot) + left * left / pivot)
        comes = chances[step] < 1.0 / (1.0 + math.exp(min(-gain, 700.0)))
        if present[k] and present.sum() == 1:
            comes = True  # at least one term is there
        if comes and not present[k]:
            _sweep(swept, i, pivot, 1.0)
        elif present[k] and not comes:
            _sweep(swept, i, -1.0 / pivot, -1.0)
        present[k] = comes


@njit(cache=True, error_model="numpy")
def _sweep(matrix, k, pivot, sign):
    """Include a term (sign 1), or leave it out again (sign -1)."""
    num = len(matrix)
    for i in range(num):
        if i != k:
            ratio = matrix[i, k] / pivot
            for j in range(num):
                if j != k:
                    matrix[i, j] -= ratio * matrix[k, j]
    for i in range(num):
        if i != k:
            matrix[i, k] *= sign / pivot
            matrix[k, i] = matrix[i, k]
    matrix[k, k] = -1.0 / pivot


@njit(cache=True, error_model="numpy")
def _draw_normal(precision, right, kept, normals, out):
    """out = P⁻¹ r + L'⁻¹ z on the terms that are kept, with P = L L'; zero elsewhere."""
    num = len(kept)
    root, white = np.zeros((num, num)), np.empty(num)
    for i in range(num):
        for j in range(i + 1):
            total = precision[kept[i], kept[j]]
            for k in range(j):
                total -= root[i, k] * root[j, k]
            if i == j:
                root[i, i] = math.sqrt(max(total, _ROUNDING * precision[kept[i], kept[i]]))
            else:
                root[i, j] = total / root[j, j]
        total = right[kept[i]]
        for k in range(i):
            total -= root[i, k] * white[k]
        white[i] = total / root[i, i]
    out[:] = 0.0
    for i in range(num - 1, -1, -1):
        total = white[i] + normals[kept[i]]
        for k in range(i + 1, num):
            total -= root[k, i] * out[kept[k]]
        out[kept[i]] = total / root[i, i]
