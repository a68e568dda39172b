"""numba kernels of the priming stage: windows over paths, sums over windows, and kernels around cells."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit


@njit(cache=True)
def fill_monomials(x, noise_var, lower, component, power, out):
    """Each monomial as a lower one times a power of a component, where h_p(x) has the expectation u^p if x = u + noise.

    These powers are Hermite polynomials: h_p = x h_{p-1} - (p - 1) v h_{p-2} with the variance v of the noise.
    """
    dim, degree = x.shape[1], power.max()
    powers = np.ones((dim, degree + 1))
    for i in range(len(x)):
        for j in range(dim):
            powers[j, 1:2] = x[i, j]
            for p in range(2, degree + 1):
                powers[j, p] = x[i, j] * powers[j, p - 1] - (p - 1) * noise_var[j] * powers[j, p - 2]
        out[i, 0] = 1.0
        for k in range(1, len(lower)):
            out[i, k] = out[i, lower[k]] * powers[component[k], power[k]]


@njit(cache=True)
def mean_square_displacement(y, dtau, path_starts, lag):
    """Number of pairs of points of a path that are `lag` steps apart, their mean time and mean square displacement."""
    dim = y.shape[1]
    square, span, pairs = np.zeros(dim), 0.0, 0
    for p in range(len(path_starts) - 1):
        ahead = 0.0
        for i in range(path_starts[p], path_starts[p + 1] - 1):
            ahead += dtau[i]
            start = i + 1 - lag
            if start >= path_starts[p]:
                span += ahead
                ahead -= dtau[start]
                pairs += 1
                for j in range(dim):
                    square[j] += (y[i + 1, j] - y[start, j]) ** 2
    return pairs, span / max(pairs, 1), square / max(pairs, 1)


@njit(cache=True)
def fill_steps(y, dtau, features, rows, coarse, increment, integral, instrument, before, centre):
    """Single steps that begin at the given points; the integral by the trapezoidal rule, or Euler's if coarse."""
    for c in range(len(rows)):
        s = rows[c]
        for j in range(y.shape[1]):
            increment[c, j] = y[s + 1, j] - y[s, j]
            centre[c, j] = 0.5 * (y[s, j] + y[s + 1, j])
            before[c, j] = y[s, j]
        for q in range(features.shape[1]):
            end = features[s, q] if coarse else features[s + 1, q]
            integral[c, q] = dtau[c] * (0.5 * (features[s, q] + end))
            instrument[c, q] = features[s, q]


@njit(cache=True)
def count_windows(path_starts, m):
    """Number of windows of 2m - 1 steps, one every m steps, with m points before them and one after them."""
    total = 0
    for p in range(len(path_starts) - 1):
        room = path_starts[p + 1] - path_starts[p] - (3 * m + 1)
        if room >= 0:
            total += room // m + 1
    return total


@njit(cache=True)
def fill_windows(y, dtau, path_starts, features, m, increment, integral, length, before, at, centre, first):
    """Weak form of the equation against hat functions: sum w dy = sum w ∫ f dt + noise, w = 1/m, 2/m, ..., 1, ..., 1/m.

    Row c gets the weighted increment, the weighted integrals of the features, the weighted time, the mean of the m
    observations before the window, the mean of the m observations up to its first (the instrument's place), the
    weighted mean place inside, and the first step.
    Integrals over a step use the two points of the step and, on regular grids, their neighbours.
    """
    dim, terms = y.shape[1], features.shape[1]
    c = 0
    for p in range(len(path_starts) - 1):
        i = path_starts[p] + m
        while i + 2 * m <= path_starts[p + 1] - 1:
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
                regular = abs(dtau[s - 1] - h) < 1e-3 * h and abs(dtau[s + 1] - h) < 1e-3 * h
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
            i += m


@njit(cache=True)
def instrumental_sums(weight, instrument, integral, response, terms):
    """cross_d = sum_i w_id z_i F_i' and right_d = sum_i w_id z_i r_id over windows i, of the first terms.

    One column of weights may stand for all components d; then there is one cross matrix for all.
    """
    columns, dim = weight.shape[1], response.shape[1]
    cross, right = np.zeros((columns, terms, terms)), np.zeros((dim, terms))
    for i in range(len(weight)):
        for d in range(columns):
            for k in range(terms):
                scaled = weight[i, d] * instrument[i, k]
                for q in range(terms):
                    cross[d, k, q] += scaled * integral[i, q]
        for d in range(dim):
            scaled = weight[i, d % columns] * response[i, d]
            for k in range(terms):
                right[d, k] += scaled * instrument[i, k]
    return cross, right


@njit(cache=True)
def product_sums(weight, features, pairs):
    """sum_i w_id times the product of each pair of features."""
    products, out = np.empty(len(pairs)), np.zeros((weight.shape[1], len(pairs)))
    for i in range(len(weight)):
        for k in range(len(pairs)):
            products[k] = features[i, pairs[k, 0]] * features[i, pairs[k, 1]]
        for d in range(weight.shape[1]):
            for k in range(len(pairs)):
                out[d, k] += weight[i, d] * products[k]
    return out


@njit(cache=True)
def score_sums(score, least, instrument, joined, terms):
    """Covariance of sum_i s_id z_i, where scores of windows that follow each other within two steps depend.

    sum_i (s_i² + l_i²) z_i z_i' + sum_ij s_i s_j (z_i z_j' + z_j z_i') over neighbours j = i - 1, i - 2 of i.
    """
    dim = score.shape[1]
    out, row = np.zeros((dim, terms, terms)), np.empty(terms)
    for i in range(len(score)):
        near = 0
        while near < 2 and near < i and joined[i - 1 - near]:
            near += 1
        for d in range(dim):
            own = score[i, d] ** 2 + least[i, d] ** 2
            for q in range(terms):
                row[q] = own * instrument[i, q]
            for lag in range(1, near + 1):
                both = 2.0 * score[i, d] * score[i - lag, d]
                for q in range(terms):
                    row[q] += both * instrument[i - lag, q]
            for k in range(terms):
                z = instrument[i, k]
                for q in range(terms):
                    out[d, k, q] += z * row[q]
    return 0.5 * (out + out.transpose((0, 2, 1)))


@njit(cache=True)
def fill_total_covariance(kernel, scale, size, out):
    """Upper triangle of 1 + size s_i k_ij s_j: errors 1 / s are the units, and a process has this size."""
    for i in range(len(scale)):
        for j in range(i, len(scale)):
            out[i, j] = kernel[i, j] * (scale[i] * scale[j]) * size
        out[i, i] += 1.0


@njit(cache=True)
def has_more_than(most, keys):
    """Whether there are more different keys than that: hashed into a table that is never more than half full."""
    size = 2 * most + 1
    table, used, found = np.empty(size, np.int64), np.zeros(size, np.bool_), 0
    for key in keys:
        slot = key % size
        while used[slot] and table[slot] != key:
            slot = (slot + 1) % size
        if not used[slot]:
            if found == most:
                return True
            table[slot], used[slot] = key, True
            found += 1
    return False


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
