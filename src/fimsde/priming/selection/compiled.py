"""numba kernels: selection of the terms of a polynomial on small matrices, and averages over its origin."""

import numpy as np
from numba import njit

_ROUNDING = 1e-13  # share of a variance that is left when the other terms explain it all
_TIE = 1e-6  # differences of log evidence below this are rounding
_NEGLIGIBLE = 60.0  # twice the logarithm of a weight that changes nothing


@njit(cache=True, error_model="numpy")
def eliminate(mean, covariance, order, most, penalties, averages):
    """Backward elimination of the terms of a normal posterior, one by one, least significant first.

    A model that sets terms to zero loses chi2 = the misfit in the posterior's metric and costs a penalty per term kept.
    `mean` and `covariance` are used up; their terms have the numbers `order`, and only the first `most` are allowed:
    the others go first. `averages` (penalties, terms) gets, for each penalty, the average over all models on the way
    with weights exp(-score / 2); returned are the logarithms of the sums of the weights. The way ends where all models
    to come weigh nothing.
    """
    terms, order, dearest = len(mean), order.copy(), penalties.max()
    models, misfits = np.zeros((terms + 1, terms)), np.full(terms + 1, np.inf)  # by the number of terms left
    ratio, column, least = np.empty(terms), np.empty(terms), np.empty(terms)
    for k in range(terms):
        least[k] = _ROUNDING * covariance[k, k]
    chi2, hopeless = 0.0, np.inf
    for left in range(terms, -1, -1):
        if left < terms:
            out, square, variance = -1, np.inf, 1.0
            for k in range(most if left >= most else 0, left + 1):
                own = max(covariance[k, k], least[k])
                if mean[k] * mean[k] * variance < square * own:  # t² = square / variance is smaller
                    out, square, variance = k, mean[k] * mean[k], own
            chi2 += square / variance
            if out < 0 or chi2 > hopeless:  # out < 0: not finite, nothing sensible to select
                break
            value = mean[out]
            for k in range(left + 1):
                ratio[k], column[k] = covariance[out, k] * (1.0 / variance), covariance[k, out]
            ratio[out], column[out] = ratio[left], column[left]
            _move(mean, covariance, order, least, left, out)
            for k in range(left):
                mean[k] -= ratio[k] * value
                for q in range(left):
                    covariance[k, q] -= column[k] * ratio[q]
        if left <= most:
            misfits[left] = chi2
            for k in range(left):
                models[left, order[k]] = mean[k]
            hopeless = min(hopeless, chi2 + dearest * left + _NEGLIGIBLE)
    evidence = np.empty(len(penalties))
    for p in range(len(penalties)):
        evidence[p] = _average(models, misfits, penalties[p], averages[p])
    return evidence


@njit(cache=True)
def _move(mean, covariance, order, least, source, target):
    """Put one term of a normal distribution in the place of another."""
    mean[target], order[target], least[target] = mean[source], order[source], least[source]
    for k in range(len(mean)):
        covariance[target, k] = covariance[source, k]
    for k in range(len(mean)):
        covariance[k, target] = covariance[k, source]


@njit(cache=True)
def _average(models, misfits, penalty, average):
    """Average of models, by number of terms, with weights exp(-score / 2); returns the logarithm of their sum."""
    best = np.inf
    for num in range(len(models)):
        best = min(best, misfits[num] + penalty * num)
    total = 0.0
    average[:] = 0.0
    for num in range(len(models)):
        worse = misfits[num] + penalty * num - best
        if worse < _NEGLIGIBLE:
            weight = np.exp(-0.5 * worse)
            total += weight
            for k in range(len(average)):
                average[k] += weight * models[num, k]
    average *= 1.0 / total
    return np.log(total) - 0.5 * best


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
def _shifted(rows, columns, values, coefficients):
    """T' coefficients: those of the same polynomial in u, where monomials(u + shift) = T monomials(u)."""
    out = np.zeros_like(coefficients)
    for e in range(len(values)):
        out[columns[e]] += values[e] * coefficients[rows[e]]
    return out


@njit(cache=True)
def _shifted_rows(rows, columns, values, matrix, out):
    """out = T' matrix: every entry of T moves a row."""
    out[:] = 0.0
    for e in range(len(values)):
        value, source, target = values[e], rows[e], columns[e]
        for q in range(matrix.shape[1]):
            out[target, q] += value * matrix[source, q]


@njit(cache=True)
def average_over_origins(
    means, covariances, allowed, penalties, rows, columns, factors, powers, places, spacing, rounds
):
    """Average over models that are sparse in allowed monomials of (x - origin), and over the origin.

    All components share the origin: a place weighs the product of their evidences. After `places`, a grid with this
    spacing, finer and finer ones around the best place so far; a place stands for its share of the volume.
    Returns (penalties, dim, terms).
    """
    dim, terms = means.shape
    out = np.zeros((len(penalties), dim, terms))
    best, total = np.full(len(penalties), np.inf), np.zeros(len(penalties))
    own, half, covariance = np.empty((dim, len(penalties), terms)), np.empty((terms, terms)), np.empty((terms, terms))
    order = np.concatenate((np.flatnonzero(allowed), np.flatnonzero(~allowed)))
    most, targets = allowed.sum(), np.argsort(order)[columns]  # allowed terms first
    around, highest = places[0].copy(), -np.inf
    for turn in range(rounds + 1):
        if turn > 0:
            spacing *= 0.5
            places = _neighbours(around, spacing)
        price = 2.0 * turn * dim * np.log(2.0)
        for i in range(len(places)):
            forth, back = shift_values(places[i], factors, powers), shift_values(-places[i], factors, powers)
            evidence = np.zeros(len(penalties))
            for d in range(dim):
                _shifted_rows(rows, targets, forth, covariances[d], half)
                _shifted_rows(rows, targets, forth, np.ascontiguousarray(half.T), covariance)
                mean = _shifted(rows, targets, forth, means[d])
                evidence += eliminate(mean, covariance, order, most, penalties, own[d])
            if evidence[0] > highest + _TIE:  # places are often equally good: rounding must not choose
                highest, around = evidence[0], places[i].copy()
            for p in range(len(penalties)):
                score = price - 2.0 * evidence[p]
                if score - best[p] < _NEGLIGIBLE:
                    lower = min(score, best[p])
                    keep, weight = np.exp(0.5 * (lower - best[p])), np.exp(0.5 * (lower - score))
                    best[p], total[p] = lower, keep * total[p] + weight
                    for d in range(dim):
                        out[p, d] = keep * out[p, d] + weight * _shifted(rows, columns, back, own[d, p])
    for p in range(len(penalties)):
        out[p] /= total[p]
    return out


@njit(cache=True)
def _neighbours(place, spacing):
    """The places around a place on a grid: all 3**dim - 1, but in three dimensions those along the axes only."""
    dim = len(place)
    if dim == 3:
        along = np.empty((2 * dim, dim))
        for j in range(2 * dim):
            along[j] = place
            along[j, j // 2] += spacing if j % 2 else -spacing
        return along
    out = np.empty((3**dim - 1, dim))
    row = 0
    for number in range(3**dim):
        if number != 3**dim // 2:
            rest = number
            for j in range(dim):
                out[row, j] = place[j] + (rest % 3 - 1) * spacing
                rest //= 3
            row += 1
    return out
