"""numba kernels that sum what innovations tell of coefficients: scores and information, row by row, in flat memory."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit
from fimsde.evidence.basis_kernels import (
    field_at,
    fill_axes,
    fill_monomials,
    fill_powers,
    node_of,
    num_products,
    product_of,
    scratch,
)

_SIMPSON = (1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0)  # weights of beginning, middle and end
_FAINT = 1e-7  # of the gap: B-splines that the filter has forgotten to this share are left out of the sums


@njit(cache=True, error_model="numpy")
def _list_features(place, spread, basis, work, monomials, nodes, values):
    """E[φ(place + e)]: monomials, and the B-splines that are not zero, node by node. Returns how many there are."""
    exponents, lower, component, power, spacing, lowest, sizes, table = basis
    _, powers, first, widths, axes, slopes = work
    fill_powers(place, spread, powers)
    fill_monomials(powers, lower, component, power, monomials)
    if len(table) == 0:
        return 0
    num, terms = 0, len(exponents)
    fill_axes(place, spread, spacing, lowest, first, widths, axes, slopes)
    for number in range(num_products(widths)):
        node = node_of(number, first, widths, sizes, table)
        if node >= 0:
            nodes[num], values[num] = terms + node, product_of(number, widths, axes)
            num += 1
    return num


@njit(cache=True, error_model="numpy")
def _forget(kept, faint, terms, total, listed, active, num):
    """Multiply sums by a factor; nodes whose sums become faint are no longer listed. Returns how many are left."""
    for k in range(terms):
        total[k] *= kept
    left = terms
    for a in range(terms, num):
        k = active[a]
        total[k] *= kept
        if abs(total[k]) > faint:
            active[left] = k
            left += 1
        else:
            total[k], listed[k] = 0.0, False
    return left


@njit(cache=True, error_model="numpy")
def _add(weight, terms, monomials, nodes, values, count, total, listed, active, num):
    """total += weight φ; nodes that were not listed are. Returns how many are now."""
    for k in range(terms):
        total[k] += weight * monomials[k]
    for a in range(count):
        k = nodes[a]
        if not listed[k]:
            listed[k] = True
            active[num] = k
            num += 1
        total[k] += weight * values[a]
    return num


@njit(cache=True, error_model="numpy")
def drift_sums(places, spreads, carried, gain, variance, innovation, begins, gaps, basis, degree, size):
    """sum ψ ψ' / S and sum ψ ν / S for every component, where ψ is what a coefficient adds to the predicted mean.

    ψ_t = E_t (1 - K_t-1) ψ_t-1 + ∫ e^{J (h - s)} E[φ(x_s)] ds: an error of the drift stays until the filter forgets it.
    The integral is Simpson's rule over the gap; E and K are those of the component itself.
    """
    terms, dim = len(basis[0]), places.shape[2]
    information, score = np.zeros((dim, size, size)), np.zeros((dim, size))
    total, listed = np.zeros((dim, size)), np.zeros((dim, size), np.bool_)
    active, num = np.empty((dim, size), np.int64), np.full(dim, terms)
    active[:, :terms] = np.arange(terms)
    work, count = scratch(dim, degree, terms), np.empty(3, np.int64)
    monomials, nodes, values = np.empty((3, terms)), np.empty((3, size), np.int64), np.empty((3, size))
    for t in range(len(gaps)):
        for s in range(3):
            count[s] = _list_features(places[s, t], spreads[s, t], basis, work, monomials[s], nodes[s], values[s])
        for c in range(dim):
            kept = 0.0 if begins[t] else carried[0, t, c] * (1.0 - gain[t - 1, c])
            sums, known, which = total[c], listed[c], active[c]
            here = _forget(kept, _FAINT * gaps[t], terms, sums, known, which, num[c])
            for s in range(3):
                weight = gaps[t] * _SIMPSON[s] * (carried[s, t, c] if s < 2 else 1.0)
                here = _add(weight, terms, monomials[s], nodes[s], values[s], count[s], sums, known, which, here)
            num[c] = here
            precision = 1.0 / variance[t, c]
            scaled, matrix = innovation[t, c] * precision, information[c]
            for a in range(here):
                k = which[a]
                score[c, k] += sums[k] * scaled
                value = sums[k] * precision
                for b in range(min(a + 1, terms)):
                    matrix[k, b] += value * sums[b]
                for b in range(terms, a + 1):
                    matrix[k, which[b]] += value * sums[which[b]]
    for c in range(dim):
        for k in range(size):
            for q in range(k):
                both = information[c, k, q] + information[c, q, k]
                information[c, k, q], information[c, q, k] = both, both
    return information, score


@njit(cache=True, error_model="numpy")
def responses(places, spreads, carried, gain, begins, gaps, basis, degree, change):
    """ψ_t' b for every row and component: what a change b of the drift would add to the predicted mean."""
    rows, dim = places.shape[1:]
    out, field = np.zeros((rows, dim)), np.empty(dim)
    work = scratch(dim, degree, len(basis[0]))
    for t in range(rows):
        for s in range(3):
            field_at(places[s, t], spreads[s, t], basis, change, work, field)
            for c in range(dim):
                out[t, c] += gaps[t] * _SIMPSON[s] * (carried[s, t, c] if s < 2 else 1.0) * field[c]
        if not begins[t]:
            for c in range(dim):
                out[t, c] += carried[0, t, c] * (1.0 - gain[t - 1, c]) * out[t - 1, c]
    return out


@njit(cache=True, error_model="numpy")
def variance_sums(places, spreads, carried, gain, variance, innovation, begins, gaps, basis, degree, size, noise):
    """Information and score of the coefficients of g and, last, of the noise variance v, for every component.

    A parameter a changes the variance S of an innovation and, through the gain, the innovation ν itself:
    information sum S_a S_b / 2 S² + ν_a ν_b / S and score sum S_a (ν² - S) / 2 S² - ν_a ν / S.
    Before an observation P_a = E² (1 - K)² P_a + ∫ e^{2 J (h - s)} φ ds, and v adds K² to what is left after one;
    K_a = (v P_a - P v_a) / S² for P_a before and S = P + v; the predicted mean changes by
    x_a = E ((1 - K) x_a + K_a ν), and ν_a = -x_a.
    """
    terms, dim, last = len(basis[0]), places.shape[2], size
    information, score = np.zeros((dim, size + 1, size + 1)), np.zeros((dim, size + 1))
    spread_by, mean_by = np.zeros((dim, size + 1)), np.zeros((dim, size + 1))
    work, count = scratch(dim, degree, terms), np.empty(3, np.int64)
    monomials, nodes, values = np.empty((3, terms)), np.empty((3, size), np.int64), np.empty((3, size))
    is_noisy = noise.max() > 0.0
    for t in range(len(gaps)):
        for s in range(3):
            count[s] = _list_features(places[s, t], spreads[s, t], basis, work, monomials[s], nodes[s], values[s])
        for c in range(dim):
            spread, mean, whole = spread_by[c], mean_by[c], carried[0, t, c]
            if begins[t]:
                spread[:], mean[:] = 0.0, 0.0
                spread[last] = whole**2  # the first state is the first observation
            else:
                _after_observation(
                    whole,
                    gain[t - 1, c],
                    variance[t - 1, c],
                    spreads[2, t - 1, c],
                    innovation[t - 1, c],
                    noise[c],
                    spread,
                    mean,
                )
            for s in range(3):
                weight = gaps[t] * _SIMPSON[s] * (carried[s, t, c] ** 2 if s < 2 else 1.0)
                for k in range(terms):
                    spread[k] += weight * monomials[s, k]
                for a in range(count[s]):
                    spread[nodes[s, a]] += weight * values[s, a]
            total, error, matrix = variance[t, c], innovation[t, c], information[c]
            spread[last] += 1.0  # the noise of this observation itself, for this row only
            surprise = (error * error - total) / (2.0 * total**2)
            for k in range(size + 1):
                if spread[k] == 0.0 and mean[k] == 0.0:
                    continue
                score[c, k] += spread[k] * surprise + mean[k] * error / total
                first, second = spread[k] / (2.0 * total**2), mean[k] / total
                if is_noisy or k == last:
                    for q in range(k + 1):
                        matrix[k, q] += first * spread[q] + second * mean[q]
                else:
                    for q in range(k + 1):
                        matrix[k, q] += first * spread[q]
            spread[last] -= 1.0
    for c in range(dim):
        for k in range(size + 1):
            for q in range(k):
                information[c, q, k] = information[c, k, q]
    return information, score


@njit(cache=True, error_model="numpy")
def _after_observation(whole, gain, variance, before, innovation, noise, spread, mean):
    """What parameters do to spread and mean at the end of a gap, by way of the observation at its beginning."""
    kept, last = whole * (1.0 - gain), len(spread) - 1
    for k in range(last + 1):
        by_gain = noise * spread[k] / variance**2
        if k == last:
            by_gain -= before / variance**2
        mean[k] = kept * mean[k] + whole * by_gain * innovation
        spread[k] *= kept**2
    spread[last] += (whole * gain) ** 2
