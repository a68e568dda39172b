"""numba kernels of the priming stage: windows over paths, and selection of terms on small matrices."""

import numpy as np
from numba import njit

_TIE = 1e-6  # differences of chi-square below this are rounding


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
def fill_windows(y, dtau, path_starts, features, m, stride, margin, increment, integral, length, before, centre, first):
    """Weak form of the equation against hat functions: sum w dy = sum w ∫ f dt + noise, w = 1/m, 2/m, ..., 1, ..., 1/m.

    Row c gets the weighted increment, the weighted integrals of the features, the weighted time, the mean of the m
    observations before the window (the instrument's place), the weighted mean place inside, and the first step.
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
            c += 1
            i += stride


@njit(cache=True)
def eliminate(mean, precision, penalty):
    """Backward elimination of the terms of a normal posterior, one by one, least significant first.

    A model that sets terms to zero loses chi2 = the misfit in the posterior's metric and costs `penalty` per term kept.

    Returns:
        The best score, the coefficients of the best model, and the average over all models on the way with weights
        exp(-score / 2).
    """
    terms = len(mean)
    kept = np.ones(terms, np.bool_)
    covariance = np.linalg.inv(precision)
    b = mean.copy()
    chi2, left = 0.0, terms
    best_score, best = penalty * terms, b.copy()
    reference, average, total = best_score, b.copy(), 1.0
    while left > 0:
        out, smallest = -1, np.inf
        for k in range(terms):
            if kept[k]:
                t2 = b[k] * b[k] / covariance[k, k]
                if t2 < smallest:
                    smallest, out = t2, k
        if out < 0:  # not finite: nothing sensible to select
            break
        chi2 += smallest
        pull = b[out] / covariance[out, out]
        for k in range(terms):
            if kept[k] and k != out:
                b[k] -= covariance[k, out] * pull
        for k in range(terms):
            if kept[k] and k != out:
                ratio = covariance[k, out] / covariance[out, out]
                for q in range(terms):
                    if kept[q] and q != out:
                        covariance[k, q] -= ratio * covariance[out, q]
        kept[out], b[out] = False, 0.0
        left -= 1
        score = chi2 + penalty * left
        if score < best_score:
            best_score, best = score, b.copy()
        if score < reference:
            shrink = np.exp(-0.5 * (reference - score))
            average, total, reference = average * shrink, total * shrink, score
        weight = np.exp(-0.5 * (score - reference))
        average, total = average + weight * b, total + weight
    return best_score, best, average / total


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
def score_at(origin, means, precisions, penalty, rows, columns, factors, powers, averages):
    """Sum over components of the best elimination score in monomials of (x - origin); fills `averages`."""
    dim, terms = means.shape
    forth = shift_matrix(origin, rows, columns, factors, powers, terms)
    back = shift_matrix(-origin, rows, columns, factors, powers, terms)
    total = 0.0
    for d in range(dim):
        score, _, average = eliminate(forth.T @ means[d], back @ precisions[d] @ back.T, penalty)
        total += score
        averages[d] = back.T @ average
    return total


@njit(cache=True)
def sparsest_origin(means, precisions, penalty, rows, columns, factors, powers, starts):
    """The origin around which the polynomial is sparsest, by coordinate search from the best three of `starts`."""
    dim, terms = means.shape
    averages = np.empty((dim, terms))
    scores = np.empty(len(starts))
    for k in range(len(starts)):
        scores[k] = score_at(starts[k], means, precisions, penalty, rows, columns, factors, powers, averages)
    # Scores are often equal, where the same terms survive; rounding must not decide which start comes first.
    order = np.argsort(np.round(scores / _TIE), kind="mergesort")
    best, origin = np.inf, starts[order[0]].copy()
    for o in range(min(3, len(order))):
        place, score, step = starts[order[o]].copy(), scores[order[o]], 0.25
        while step > 0.01:
            moved = False
            for j in range(dim):
                for sign in (-1.0, 1.0):
                    trial = place.copy()
                    trial[j] += sign * step
                    s = score_at(trial, means, precisions, penalty, rows, columns, factors, powers, averages)
                    if s < score - _TIE:
                        place, score, moved = trial, s, True
            if not moved:
                step *= 0.5
        if score < best - _TIE:
            best, origin = score, place
    best = score_at(origin, means, precisions, penalty, rows, columns, factors, powers, averages)
    return best, origin, averages


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
