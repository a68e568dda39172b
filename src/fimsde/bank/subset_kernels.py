"""numba kernels: averages over all linear models with some of the terms, each with the weight of its evidence.

A model keeps some terms, whose coefficients are independently normal around zero a priori (the slab), and sets the
others to zero. Its evidence, relative to that of the empty model, is prod_k sqrt(slab_k / a_k) exp(z_k² / 2 a_k) with
the pivots a and the reduced right side z of Gaussian elimination on its terms. So the models are made by doubling: with
each term, all models so far without it, and once more with it, eliminated. The averages come back the same way.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit

_ROUNDING = 1e-13  # share of its diagonal that a pivot keeps when the other terms explain it all
_FEW = 6  # terms of which all subsets are visited without asking
_SURE = 40.0  # log evidence by which all models without a term are worse: these are not visited


@njit(cache=True, error_model="numpy")
def average_subsets(precision, right, slab, odds, most_free, averages):
    """Average the coefficients over models; returns the logarithms of the summed evidence, one per row of `odds`.

    Args:
        precision: Of the posterior with all terms, of which the slab is a part.
        right: precision @ mean of that posterior.
        slab: Precision of each coefficient a priori.
        odds: Prior odds of each term to be kept (rows, terms); zero in the first row: never kept.
        most_free: With more terms than this that are neither sure nor impossible, the least significant ones are
            dropped, one by one.
        averages: Receives the averages (rows, terms).
    """
    sure, free = _sort_terms(precision, right, slab, odds[0], most_free)
    order = np.concatenate((sure, free))
    num, first, rows = len(order), len(sure), len(odds)
    models = 1 << (num - first)
    least = max(models // 2, 1)  # the last term finds half of the models
    matrix, reduced, smallest = np.empty((num, num, least)), np.empty((num, least)), np.empty(num)
    for i in range(num):
        smallest[i] = _ROUNDING * precision[order[i], order[i]]
        reduced[i, 0] = right[order[i]]
        for k in range(i, num):
            matrix[i, k, 0] = precision[order[i], order[k]]
    evidence, weights = np.zeros(models), np.ones((rows, models))
    for i in range(num):
        have = 1 << max(i - first, 0)
        to = have if i >= first else 0  # where the models with the term go: a sure term is in all of them
        _include(matrix, reduced, smallest, evidence, i, have, to, slab[order[i]])
        for p in range(rows):
            for t in range(have):
                weights[p, to + t] = weights[p, t] * odds[p, order[i]]
    sums, total = np.empty((rows, num, models)), np.full(rows, -np.inf)
    averages[:] = 0.0
    for p in range(rows):
        most = -np.inf
        for t in range(models):
            if weights[p, t] > 0.0:
                most = max(most, evidence[t])
        if most == -np.inf:  # a sure term that this row never keeps: the data exclude it
            continue
        for t in range(models):
            if weights[p, t] > 0.0:
                weights[p, t] *= np.exp(evidence[t] - most)
        for i in range(num - 1, -1, -1):
            have = 1 << max(i - first, 0)
            _fold(matrix, reduced, weights[p], sums[p], i, have, have if i >= first else 0)
        total[p] = np.log(weights[p, 0]) + most
        for i in range(num):
            averages[p, order[i]] = sums[p, i, 0] / weights[p, 0]
    return total


@njit(cache=True, error_model="numpy")
def _include(matrix, reduced, smallest, evidence, i, have, to, slab):
    """Eliminate term i from the later ones, for each of the models that we have, and add its part of the evidence."""
    num = len(reduced)
    ratio = np.empty(have)
    for j in range(i + 1, num):
        for t in range(have):
            ratio[t] = matrix[i, j, t] / matrix[i, i, t]
            reduced[j, to + t] = reduced[j, t] - ratio[t] * reduced[i, t]
            matrix[j, j, to + t] = max(matrix[j, j, t] - ratio[t] * matrix[i, j, t], smallest[j])
        for k in range(j + 1, num):
            for t in range(have):
                matrix[j, k, to + t] = matrix[j, k, t] - ratio[t] * matrix[i, k, t]
    for t in range(have):
        share = slab / matrix[i, i, t]
        evidence[to + t] = evidence[t] + 0.5 * (reduced[i, t] ** 2 / matrix[i, i, t] + np.log(share))


@njit(cache=True, error_model="numpy")
def _fold(matrix, reduced, weights, sums, i, have, to):
    """Sums over the models with and without term i, of weights and of weights times coefficients."""
    num = len(reduced)
    own = sums[i]
    for t in range(have):
        own[t] = reduced[i, t] * weights[to + t]
    for k in range(i + 1, num):
        for t in range(have):
            own[t] -= matrix[i, k, t] * sums[k, to + t]
    for t in range(have):
        own[t] /= matrix[i, i, t]
    if to > 0:
        for k in range(i + 1, num):
            for t in range(have):
                sums[k, t] += sums[k, to + t]
        for t in range(have):
            weights[t] += weights[to + t]


@njit(cache=True, error_model="numpy")
def _sort_terms(precision, right, slab, odds, most_free):
    """Terms that every model worth a visit has, and those that it may have or not."""
    possible = np.flatnonzero(odds > 0.0)
    num, none = len(possible), possible[:0]
    if num <= _FEW:
        return none, possible
    covariance, mean, spread = np.empty((num, num)), np.zeros(num), _SURE
    for i in range(num):
        spread += 0.5 * np.log(precision[possible[i], possible[i]] / slab[possible[i]])
        for k in range(num):
            covariance[i, k] = precision[possible[i], possible[k]]
    _invert(covariance)
    for i in range(num):
        for k in range(num):
            mean[i] += covariance[i, k] * right[possible[k]]
    sure, free = np.zeros(num, np.bool_), np.ones(num, np.bool_)
    for i in range(num):
        sure[i] = 0.5 * mean[i] ** 2 > spread * covariance[i, i]
        free[i] = not sure[i]
    for _ in range(free.sum() - most_free):
        out, least = -1, np.inf
        for i in range(num):
            if free[i] and (out < 0 or mean[i] ** 2 < least * covariance[i, i]):
                out, least = i, mean[i] ** 2 / covariance[i, i]
        free[out] = False
        for i in range(num):
            if free[i]:
                ratio = covariance[i, out] / covariance[out, out]
                mean[i] -= ratio * mean[out]
                for k in range(num):
                    covariance[i, k] -= ratio * covariance[out, k]
    return possible[sure], possible[free]


@njit(cache=True, error_model="numpy")
def _invert(matrix):
    """Invert a positive definite matrix in place, by sweeps."""
    num = len(matrix)
    smallest = _ROUNDING * np.diag(matrix)
    for i in range(num):
        pivot = 1.0 / max(matrix[i, i], smallest[i])
        for j in range(num):
            if j != i:
                ratio = matrix[j, i] * pivot
                for k in range(num):
                    matrix[j, k] -= ratio * matrix[i, k]
                matrix[j, i] = -ratio
        for k in range(num):
            matrix[i, k] *= pivot
        matrix[i, i] = pivot


@njit(cache=True, error_model="numpy")
def average_at_places(informations, rights, slabs, odds, most_free, rows, columns, factors, powers, places):
    """`average_subsets` for polynomials in (x - place), for each place and slab; all components share the place.

    `informations` (dim, terms, terms) and `rights` (dim, terms) are the data's normal equations for the coefficients in
    x, `slabs` (slabs, dim, terms) prior precisions in (x - place); the shift matrix has the entries of
    `monomials.shift_terms`. Returns log evidences (places, slabs, rows of odds, dim) and the coefficients in x,
    (places, slabs, rows, dim, terms).
    """
    num, (dim, terms) = len(slabs), rights.shape
    evidence = np.zeros((len(places), num, len(odds), dim))
    out = np.zeros((len(places), num, len(odds), dim, terms))
    half, there, precision = np.empty((terms, terms)), np.empty((terms, terms)), np.empty((terms, terms))
    right, reach, averages = np.empty(terms), np.empty(terms), np.empty((len(odds), terms))
    for i in range(len(places)):
        back = shift_values(-places[i], factors, powers)  # coefficients in x are T(-place)' those in (x - place)
        for d in range(dim):
            _shifted_rows(rows, columns, back, informations[d], half)
            _shifted_rows(rows, columns, back, np.ascontiguousarray(half.T), there)
            right[:], reach[:] = 0.0, 0.0
            for e in range(len(back)):
                right[rows[e]] += back[e] * rights[d, columns[e]]
                reach[rows[e]] += np.abs(back[e]) * np.sqrt(max(informations[d, columns[e], columns[e]], 0.0))
            for k in range(terms):  # what rounding may have taken away: states too few to tell all terms apart
                there[k, k] = max(there[k, k], _ROUNDING * reach[k] ** 2)
            for s in range(num):
                precision[:] = there
                for k in range(terms):
                    precision[k, k] += slabs[s, d, k]
                evidence[i, s, :, d] = average_subsets(precision, right, slabs[s, d], odds, most_free, averages)
                for e in range(len(back)):
                    for p in range(len(odds)):
                        out[i, s, p, d, columns[e]] += back[e] * averages[p, rows[e]]
    return evidence, out


@njit(cache=True)
def shift_values(shift, factors, powers):
    """Entries of the matrix T with monomials(u + shift) = T monomials(u), in the order of `monomials.shift_terms`."""
    dim, out = len(shift), np.empty(len(factors))
    table = np.ones((dim, powers.max() + 1))
    for j in range(dim):
        for p in range(1, table.shape[1]):
            table[j, p] = shift[j] * table[j, p - 1]
    for e in range(len(factors)):
        value = factors[e]
        for j in range(dim):
            value *= table[j, powers[e, j]]
        out[e] = value
    return out


@njit(cache=True)
def _shifted_rows(rows, columns, values, matrix, out):
    """out = T matrix: every entry of T adds a row."""
    out[:] = 0.0
    for e in range(len(values)):
        value, source, target = values[e], columns[e], rows[e]
        for q in range(matrix.shape[1]):
            out[target, q] += value * matrix[source, q]
