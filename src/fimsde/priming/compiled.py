"""numba kernels of the priming stage: windows over paths, and selection of terms on small matrices."""

import numpy as np
from numba import njit

_ROUNDING = 1e-13  # share of a variance that is left when the other terms explain it all
_TIE = 1e-6  # differences of log evidence below this are rounding
_NEGLIGIBLE = 60.0  # twice the logarithm of a weight that changes nothing


@njit(cache=True)
def count_windows(path_starts, m, stride, margin):
    """Number of windows of 2m - 1 steps with m points before them and `margin` points after them."""
    total = 0
    for p in range(len(path_starts) - 1):
        room = path_starts[p + 1] - path_starts[p] - (3 * m + margin)
        if room >= 0:
            total += room // stride + 1
    return total


@njit(cache=True)
def fill_windows(
    y, dtau, path_starts, features, m, stride, margin, increment, integral, length, before, at, centre, first
):
    """Weak form of the equation against hat functions: sum w dy = sum w ∫ f dt + noise, w = 1/m, 2/m, ..., 1, ..., 1/m.

    Row c gets the weighted increment, the weighted integrals of the features, the weighted time, the mean of the m
    observations before the window, the mean of the m observations up to its first (the instrument's place), the
    weighted mean place inside, and the first step.
    Integrals over a step use the two points of the step and, on regular grids and with margin 1, their neighbours.
    """
    dim, terms = y.shape[1], features.shape[1]
    c = 0
    for p in range(len(path_starts) - 1):
        i = path_starts[p] + m
        while i + 2 * m - 1 + margin <= path_starts[p + 1] - 1:
            first[c] = i
            total = 0.0
            for k in range(2 * m - 1):
                s = i + k
                w = (k + 1 if k < m else 2 * m - 1 - k) / m
                h = dtau[s]
                total += w
                length[c] += w * h
                for j in range(dim):
                    increment[c, j] += w * (y[s + 1, j] - y[s, j])
                    centre[c, j] += 0.5 * w * (y[s, j] + y[s + 1, j])
                regular = margin == 1 and abs(dtau[s - 1] - h) < 1e-3 * h and abs(dtau[s + 1] - h) < 1e-3 * h
                if regular:
                    u = w * h / 24.0
                    for q in range(terms):
                        integral[c, q] += u * (
                            13.0 * (features[s, q] + features[s + 1, q]) - features[s - 1, q] - features[s + 2, q]
                        )
                else:
                    u = 0.5 * w * h
                    for q in range(terms):
                        integral[c, q] += u * (features[s, q] + features[s + 1, q])
            for j in range(dim):
                centre[c, j] /= total
                for k in range(m):
                    before[c, j] += y[i - 1 - k, j] / m
                    at[c, j] += y[i - k, j] / m
            c += 1
            i += stride


@njit(cache=True, error_model="numpy")
def eliminate(mean, covariance, allowed, penalties, averages):
    """Backward elimination of the terms of a normal posterior, one by one, least significant first.

    A model that sets terms to zero loses chi2 = the misfit in the posterior's metric and costs a penalty per term kept.
    Terms that are not allowed go first. `averages` (penalties, terms) gets, for each penalty, the average over all
    models on the way with weights exp(-score / 2); returned are the logarithms of the sums of the weights. `mean` and
    `covariance` are used up.
    """
    terms, most = len(mean), allowed.sum()
    kept, least = np.ones(terms, np.bool_), _ROUNDING * np.diag(covariance)
    best, total = np.full(len(penalties), np.inf), np.zeros(len(penalties))
    averages[:] = 0.0
    chi2 = 0.0
    if most == terms:
        for p in range(len(penalties)):
            _add(averages, total, best, p, mean, penalties[p] * terms)
    for left in range(terms - 1, -1, -1):
        out, smallest = -1, np.inf
        for k in range(terms):
            if kept[k] and (left < most or not allowed[k]):
                covariance[k, k] = max(covariance[k, k], least[k])
                t2 = mean[k] * mean[k] / covariance[k, k]
                if t2 < smallest:
                    smallest, out = t2, k
        if out < 0:  # not finite: nothing sensible to select
            break
        chi2 += smallest
        kept[out] = False
        for k in range(terms):
            if kept[k]:
                ratio = covariance[k, out] / covariance[out, out]
                mean[k] -= ratio * mean[out]
                for q in range(terms):
                    covariance[k, q] -= ratio * covariance[out, q]
        mean[out] = 0.0
        if left <= most:
            for p in range(len(penalties)):
                _add(averages, total, best, p, mean, chi2 + penalties[p] * left)
    for p in range(len(penalties)):
        averages[p] /= total[p]
    return np.log(total) - 0.5 * best


@njit(cache=True)
def _add(averages, total, best, p, model, score):
    """Add a model with weight exp(-(score - best) / 2) to sum number p, where `best` is the best score so far."""
    if score < best[p]:
        shrink = np.exp(-0.5 * (best[p] - score))
        best[p], total[p] = score, shrink * total[p] + 1.0
        for k in range(len(model)):
            averages[p, k] = shrink * averages[p, k] + model[k]
    else:
        weight = np.exp(-0.5 * (score - best[p]))
        total[p] += weight
        for k in range(len(model)):
            averages[p, k] += weight * model[k]


@njit(cache=True)
def shift_matrix(shift, rows, columns, factors, powers, terms):
    """T with monomials(u + shift) = T monomials(u)."""
    out = np.zeros((terms, terms))
    for e in range(len(rows)):
        value = factors[e]
        for j in range(len(shift)):
            for _ in range(powers[e, j]):
                value *= shift[j]
        out[rows[e], columns[e]] += value
    return out


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
    out = np.zeros((len(penalties), dim * terms))
    best, total = np.full(len(penalties), np.inf), np.zeros(len(penalties))
    own, moved = np.empty((dim, len(penalties), terms)), np.empty(dim * terms)
    around, highest = places[0].copy(), -np.inf
    for turn in range(rounds + 1):
        if turn > 0:
            spacing *= 0.5
            places = _neighbours(around, spacing)
        price = 2.0 * turn * dim * np.log(2.0)
        for i in range(len(places)):
            forth = shift_matrix(places[i], rows, columns, factors, powers, terms)
            back = shift_matrix(-places[i], rows, columns, factors, powers, terms)
            evidence = np.zeros(len(penalties))
            for d in range(dim):
                evidence += eliminate(forth.T @ means[d], forth.T @ covariances[d] @ forth, allowed, penalties, own[d])
            if evidence[0] > highest + _TIE:  # places are often equally good: rounding must not choose
                highest, around = evidence[0], places[i].copy()
            for p in range(len(penalties)):
                score = price - 2.0 * evidence[p]
                if score - best[p] < _NEGLIGIBLE:
                    for d in range(dim):
                        moved[d * terms : (d + 1) * terms] = back.T @ own[d, p]
                    _add(out, total, best, p, moved, score)
    for p in range(len(penalties)):
        out[p] /= total[p]
    return out.reshape(len(penalties), dim, terms)


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


@njit(cache=True)
def kernel_sums(x, places, sums, bandwidths):
    """sum_c exp(-|x - place_c|² / (2 b²)) sums_c for every location and bandwidth."""
    out = np.zeros((len(x), len(bandwidths), sums.shape[1]))
    for i in range(len(x)):
        for c in range(len(places)):
            distance = 0.0
            for j in range(x.shape[1]):
                distance += (x[i, j] - places[c, j]) ** 2
            for b in range(len(bandwidths)):
                exponent = distance / (2.0 * bandwidths[b] ** 2)
                if exponent < 30.0:
                    w = np.exp(-exponent)
                    for s in range(sums.shape[1]):
                        out[i, b, s] += w * sums[c, s]
    return out
