"""numba kernels that sum what innovations tell of the coefficients of the drift: score and information, row by row."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit
from fimsde.evidence.basis_kernels import (
    field_at,
    fill_monomials,
    fill_powers,
    list_nodes,
    scratch,
)

SIMPSON = (1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0)  # weights of beginning, middle and end
FAINT = 1e-7  # of the gap: B-splines that the filter has forgotten to this share are left out of the sums


@njit(cache=True, allocates=False, error_model="numpy")
def list_features(place, spread, basis, work, monomials, nodes, values):
    """E[φ(place + e)]: monomials, and the B-splines that are not zero, node by node. Returns how many there are."""
    fill_powers(place, spread, work[1])
    fill_monomials(work[1], basis, len(basis[0]), monomials)
    if len(basis[6]) == 0:
        return 0
    num = list_nodes(place, spread, basis, work, nodes, values)
    for a in range(num):
        nodes[a] += len(monomials)
    return num


@njit(cache=True, allocates=False, error_model="numpy")
def remaining(carried, gain, begins, out):
    """E (1 - K): what an observation and a gap leave of an error of the predicted state before it."""
    dim = len(out)
    for i in range(dim):
        for j in range(dim):
            out[i, j] = 0.0
            if not begins:
                out[i, j] = carried[i, j]
                for k in range(dim):
                    out[i, j] -= carried[i, k] * gain[k, j]


@njit(cache=True, allocates=False, error_model="numpy")
def _forget(kept, is_exact, faint, terms, total, listed, active, num, before):
    """Multiply sums by a matrix; nodes whose sums become faint are no longer listed. Returns how many are left."""
    dim, left = len(kept), terms
    for a in range(num):
        k = active[a]
        most = 0.0
        for i in range(dim):
            before[i], total[i, k] = total[i, k], 0.0
        if not is_exact:
            for i in range(dim):
                for j in range(dim):
                    total[i, k] += kept[i, j] * before[j]
                most = max(most, abs(total[i, k]))
        if a < terms:
            continue
        if most > faint:
            active[left] = k
            left += 1
        else:
            listed[k] = False
            for i in range(dim):
                total[i, k] = 0.0
    return left


@njit(cache=True, allocates=False, error_model="numpy")
def _add(weights, terms, monomials, nodes, values, count, total, listed, active, num):
    """total_i += weight_i φ; nodes that were not listed are. Returns how many are now."""
    for i in range(len(weights)):
        for k in range(terms):
            total[i, k] += weights[i] * monomials[k]
    for a in range(count):
        k = nodes[a]
        if not listed[k]:
            listed[k] = True
            active[num] = k
            num += 1
        for i in range(len(weights)):
            total[i, k] += weights[i] * values[a]
    return num


@njit(cache=True, error_model="numpy")
def drift_sums(places, spreads, carried, gain, whiten, innovation, begins, gaps, basis, degree, size):
    """sum Ψ' S⁻¹ Ψ and sum Ψ' S⁻¹ ν for every component, Ψ being what its coefficients add to the predicted mean.

    Ψ_t = E_t (1 - K_t-1) Ψ_t-1 + ∫ e^{J (h - s)} E[φ(x_s)] ds: an error of the drift moves all components, and stays
    until the filter forgets it. The integral is Simpson's rule over the gap.
    """
    terms, dim = len(basis[0]), places.shape[2]
    information, score = np.zeros((dim, size, size)), np.zeros((dim, size))
    active = np.empty((dim, size), np.int64)
    active[:, :terms] = np.arange(terms)
    lists = np.zeros((dim, size), np.bool_), active, np.full(dim, terms)
    features = np.empty((3, terms)), np.empty((3, size), np.int64), np.empty((3, size)), np.empty(3, np.int64)
    total, shown, vectors = np.zeros((dim, dim, size)), np.empty((dim + 1, size)), np.empty((3, dim))
    found = places, spreads, carried, gain, whiten, innovation, begins, gaps
    work, kept = scratch(dim, degree, terms), np.empty((dim, dim))
    _add_rows(found, basis, work, features, lists, total, kept, shown, vectors, information, score)
    for c in range(dim):
        for k in range(size):
            for q in range(k):
                both = information[c, k, q] + information[c, q, k]
                information[c, k, q], information[c, q, k] = both, both
    return information, score


@njit(cache=True, allocates=False, error_model="numpy")
def _add_rows(found, basis, work, features, lists, total, kept, shown, vectors, information, score):
    """The sums, row by row. Of every pair of functions one entry is made, in either triangle."""
    places, spreads, carried, gain, whiten, innovation, begins, gaps = found
    monomials, nodes, values, count = features
    listed, active, num = lists
    weights, white, before = vectors[0], vectors[1], vectors[2]
    terms, dim, products = len(basis[0]), len(kept), shown[len(kept)]
    for t in range(len(gaps)):
        for s in range(3):
            count[s] = list_features(places[s, t], spreads[s, t], basis, work, monomials[s], nodes[s], values[s])
        remaining(carried[0, t], gain[t - 1], begins[t], kept)
        is_exact = True
        for i in range(dim):
            white[i] = 0.0
            for j in range(dim):
                is_exact &= kept[i, j] == 0.0
                if j <= i:
                    white[i] += whiten[t, i, j] * innovation[t, j]
        for c in range(dim):
            sums, known, which = total[c], listed[c], active[c]
            here = _forget(kept, is_exact, FAINT * gaps[t], terms, sums, known, which, num[c], before)
            for s in range(3):
                for i in range(dim):
                    weights[i] = gaps[t] * SIMPSON[s] * (carried[s, t, i, c] if s < 2 else (1.0 if i == c else 0.0))
                here = _add(weights, terms, monomials[s], nodes[s], values[s], count[s], sums, known, which, here)
            num[c] = here
            for j in range(dim):
                for a in range(here):
                    shown[j, a] = 0.0
                for i in range(j + 1):
                    for a in range(here):
                        shown[j, a] += whiten[t, j, i] * sums[i, which[a]]
                for a in range(here):
                    score[c, which[a]] += shown[j, a] * white[j]
            matrix = information[c]
            for a in range(here):
                for b in range(a + 1):
                    products[b] = shown[0, a] * shown[0, b]
                for j in range(1, dim):
                    for b in range(a + 1):
                        products[b] += shown[j, a] * shown[j, b]
                row = matrix[which[a]]
                for b in range(a + 1):
                    row[which[b]] += products[b]


@njit(cache=True, error_model="numpy")
def joint_drift_sums(places, spreads, carried, gain, whiten, innovation, begins, gaps, basis, degree):
    """The sums of `drift_sums` for polynomials, with what coefficients of different components have in common.

    Coefficients are listed component by component. Returns the lower triangle of the information, and the score.
    """
    terms, dim = len(basis[0]), places.shape[2]
    size = dim * terms
    information, score, total = np.zeros((size, size)), np.zeros(size), np.zeros((dim, size))
    features = np.empty((3, terms)), np.empty(0, np.int64), np.empty(0)
    found = places, spreads, carried, gain, whiten, innovation, begins, gaps
    kept, vectors, shown = np.empty((dim, dim)), np.empty((2, dim)), np.empty((dim, size))
    work = scratch(dim, degree, terms)
    _add_joint_rows(found, basis, work, features, total, kept, shown, vectors, information, score)
    return information, score


@njit(cache=True, allocates=False, error_model="numpy")
def _add_joint_rows(found, basis, work, features, total, kept, shown, vectors, information, score):
    """The sums of all components together, row by row."""
    places, spreads, carried, gain, whiten, innovation, begins, gaps = found
    monomials, nodes, values = features
    terms, dim, size = len(basis[0]), len(kept), len(score)
    before, white = vectors[0], vectors[1]
    for t in range(len(gaps)):
        remaining(carried[0, t], gain[t - 1], begins[t], kept)
        for k in range(size):
            for i in range(dim):
                before[i], total[i, k] = total[i, k], 0.0
            for i in range(dim):
                for j in range(dim):
                    total[i, k] += kept[i, j] * before[j]
        for s in range(3):
            list_features(places[s, t], spreads[s, t], basis, work, monomials[s], nodes, values)
            for i in range(dim):
                for c in range(dim):
                    share = carried[s, t, i, c] if s < 2 else (1.0 if i == c else 0.0)
                    weight = gaps[t] * SIMPSON[s] * share
                    for k in range(terms):
                        total[i, c * terms + k] += weight * monomials[s, k]
        for j in range(dim):
            white[j] = 0.0
            for k in range(size):
                shown[j, k] = 0.0
            for i in range(j + 1):
                white[j] += whiten[t, j, i] * innovation[t, i]
                for k in range(size):
                    shown[j, k] += whiten[t, j, i] * total[i, k]
            for k in range(size):
                value, row = shown[j, k], information[k]
                score[k] += value * white[j]
                for q in range(k + 1):
                    row[q] += value * shown[j, q]


@njit(cache=True, error_model="numpy")
def responses(places, spreads, carried, gain, begins, gaps, basis, degree, change):
    """Ψ_t b for every row: what a change b of the drift would add to the predicted mean."""
    rows, dim = places.shape[1:]
    out, field, kept = np.zeros((rows, dim)), np.empty(dim), np.empty((dim, dim))
    found = places, spreads, carried, gain, begins, gaps
    _respond(found, basis, scratch(dim, degree, len(basis[0])), change, field, kept, out)
    return out


@njit(cache=True, allocates=False, error_model="numpy")
def _respond(found, basis, work, change, field, kept, out):
    """The responses, row by row."""
    places, spreads, carried, gain, begins, gaps = found
    rows, dim = out.shape
    for t in range(rows):
        for s in range(3):
            field_at(places[s, t], spreads[s, t], basis, change, work, field)
            for i in range(dim):
                for c in range(dim):
                    share = carried[s, t, i, c] if s < 2 else (1.0 if i == c else 0.0)
                    out[t, i] += gaps[t] * SIMPSON[s] * share * field[c]
        if not begins[t]:
            remaining(carried[0, t], gain[t - 1], False, kept)
            for i in range(dim):
                for c in range(dim):
                    out[t, i] += kept[i, c] * out[t - 1, c]
