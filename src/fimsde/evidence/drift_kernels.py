"""numba kernels that sum what innovations tell of the coefficients of the drift: score and information, row by row."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit
from fimsde.evidence.basis_kernels import field_at, fill_monomials, fill_powers, scratch
from fimsde.evidence.sum_kernels import add_features, carry, end_row, list_features, make_symmetric, show, slots

SIMPSON = (1.0 / 6.0, 4.0 / 6.0, 1.0 / 6.0)  # weights of beginning, middle and end
FAINT = 1e-7  # of the gap: B-splines that the filter has forgotten to this share are left out of the sums


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


@njit(cache=True, error_model="numpy")
def drift_sums(places, spreads, carried, gain, whiten, innovation, begins, gaps, basis, degree, size):
    """sum Ψ' S⁻¹ Ψ and sum Ψ' S⁻¹ ν for every component, Ψ being what its coefficients add to the predicted mean.

    Ψ_t = E_t (1 - K_t-1) Ψ_t-1 + ∫ e^{J (h - s)} E[φ(x_s)] ds: an error of the drift moves all components, and stays
    until the filter forgets it. The integral is Simpson's rule over the gap.
    """
    terms, dim = len(basis[0]), places.shape[2]
    information, score = np.zeros((dim, size, size)), np.zeros((dim, size))
    found = places, spreads, carried, gain, whiten, innovation, begins, gaps
    work, kept, weights, white = scratch(dim, degree, terms), np.empty((dim, dim)), np.empty((3, dim)), np.empty(dim)
    _add_rows(found, basis, work, kept, weights, white, slots(dim, terms, size - terms, dim), information, score)
    make_symmetric(information)
    return information, score


@njit(cache=True, allocates=False, error_model="numpy")
def _add_rows(found, basis, work, kept, weights, white, held, information, score):
    """The sums, row by row."""
    places, spreads, carried, gain, whiten, innovation, begins, gaps = found
    terms, dim = len(basis[0]), len(kept)
    for t in range(len(gaps)):
        list_features(places, spreads, t, basis, work, terms, held)
        remaining(carried[0, t], gain[t - 1], begins[t], kept)
        is_exact = True
        for i in range(dim):
            white[i] = 0.0
            for j in range(dim):
                is_exact &= kept[i, j] == 0.0
                if j <= i:
                    white[i] += whiten[t, i, j] * innovation[t, j]
        for c in range(dim):
            carry(c, kept, is_exact, FAINT * gaps[t], terms, held)
            for s in range(3):
                for i in range(dim):
                    weights[s, i] = gaps[t] * SIMPSON[s] * (carried[s, t, i, c] if s < 2 else (1.0 if i == c else 0.0))
            add_features(c, weights, held)
            show(c, whiten[t], white, held)
        end_row(dim, terms, t == len(gaps) - 1, held, information, score)


@njit(cache=True, error_model="numpy")
def joint_drift_sums(places, spreads, carried, gain, whiten, innovation, begins, gaps, basis, degree):
    """The sums of `drift_sums` for polynomials, with what coefficients of different components have in common.

    Coefficients are listed component by component. Returns the information, and the score.
    """
    terms, dim = len(basis[0]), places.shape[2]
    size = dim * terms
    information, score, held = np.zeros((1, size, size)), np.zeros((1, size)), slots(1, size, 0, dim)
    found = places, spreads, carried, gain, whiten, innovation, begins, gaps
    work, kept, white = scratch(dim, degree, terms), np.empty((dim, dim)), np.empty(dim)
    _add_joint_rows(found, basis, work, kept, white, held, information, score)
    make_symmetric(information)
    return information[0], score[0]


@njit(cache=True, allocates=False, error_model="numpy")
def _add_joint_rows(found, basis, work, kept, white, held, information, score):
    """The sums of all components together, row by row."""
    places, spreads, carried, gain, whiten, innovation, begins, gaps = found
    monomials, change = work[0], held[0][0]
    terms, dim, size = len(basis[0]), len(kept), score.shape[1]
    for t in range(len(gaps)):
        remaining(carried[0, t], gain[t - 1], begins[t], kept)
        carry(0, kept, begins[t], 0.0, size, held)
        for s in range(3):
            fill_powers(places[s, t], spreads[s, t], work[1])
            fill_monomials(work[1], basis, terms, monomials)
            for i in range(dim):
                for c in range(dim):
                    share = carried[s, t, i, c] if s < 2 else (1.0 if i == c else 0.0)
                    weight, row = gaps[t] * SIMPSON[s] * share, change[i, c * terms : (c + 1) * terms]
                    if weight != 0.0:
                        for k in range(terms):
                            row[k] += weight * monomials[k]
        for j in range(dim):
            white[j] = 0.0
            for i in range(j + 1):
                white[j] += whiten[t, j, i] * innovation[t, i]
        show(0, whiten[t], white, held)
        end_row(dim, size, t == len(gaps) - 1, held, information, score)


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
