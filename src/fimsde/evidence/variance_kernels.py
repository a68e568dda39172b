"""numba kernels that sum what innovations tell of g and of the measurement noise: score and information, row by row."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit
from fimsde.evidence.basis_kernels import dot, scratch
from fimsde.evidence.drift_kernels import FAINT, SIMPSON, remaining
from fimsde.evidence.sum_kernels import add_features, carry, end_row, list_features, make_symmetric, show, slots

_ROOT_HALF = 0.5**0.5


@njit(cache=True, error_model="numpy")
def variance_sums(
    places, spreads, carried, gain, whiten, innovation, begins, gaps, basis, degree, size, coefficients, floor, noise
):
    """Information and score of the coefficients of g and, last, of the noise variance v, for every component.

    A parameter a changes the covariance S = L L' of an innovation by S_a and, through the gain, the innovation ν by
    -m_a. Whitened, s_a = L⁻¹ S_a L'⁻¹, u_a = L⁻¹ m_a and w = L⁻¹ ν, the information is sum tr(s_a s_b) / 2 + u_a' u_b
    and the score sum tr(s_a (w w' - 1)) / 2 + u_a' w. Derivatives follow the filter,

        P_a = M P_a M' + q v_a q' + ∫ e^{J s} φ e^{J' s} ds,   m_a = M (m_a + P_a S⁻¹ ν) - q v_a S⁻¹ ν,

    with M = E (1 - K), q the component's column of E K, and v_a one for the noise of the component itself. Lists hold
    the lower triangle of P_a and then m_a. Where g is below its floor, the filter has more than g: what the floor adds
    counts as one more function in the information, whose coefficient is one, and its part of the score is given back.
    """
    terms, dim = len(basis[0]), places.shape[2]
    num_squares = dim * (dim + 1) // 2
    entries, is_exact = num_squares + dim, noise.max() == 0.0
    information, score = np.zeros((dim, size + 2, size + 2)), np.zeros((dim, size + 2))
    vectors, lists = np.zeros((6, dim)), np.zeros((4, entries))
    matrices = np.empty((dim, dim)), np.zeros((entries, entries)), np.zeros((entries, entries))
    found = places, spreads, carried, gain, whiten, innovation, begins, gaps
    rate, held = (basis, coefficients, floor), slots(dim, terms + 2, size - terms, entries)
    work = scratch(dim, degree, terms)
    _add_rows(found, rate, is_exact, work, held, vectors, lists, matrices, information, score)
    make_symmetric(information)
    order = np.concatenate((np.arange(terms), np.arange(terms + 2, size + 2), np.array([terms])))
    matrix, right = np.empty((dim, size + 1, size + 1)), np.empty((dim, size + 1))
    for c in range(dim):
        for i in range(size + 1):
            right[c, i] = score[c, order[i]] + information[c, terms + 1, order[i]]
            for j in range(size + 1):
                matrix[c, i, j] = information[c, order[i], order[j]]
    return matrix, right


@njit(cache=True, allocates=False, error_model="numpy")
def _add_rows(found, rate, is_exact, work, held, vectors, lists, matrices, information, score):
    """The sums, row by row: the noise and what the floor adds stand after the monomials, and before B-splines.

    Without noise nothing is left of a row in the next one.
    """
    places, spreads, carried, gain, whiten, innovation, begins, gaps = found
    basis, coefficients, floor = rate
    white, pull, column = vectors[0], vectors[1], vectors[2]
    target, squares = lists[0], lists[1:]
    kept, moves, whitens = matrices
    terms, dim, features = len(basis[0]), len(kept), held[8]
    last, added, fixed = terms, terms + 1, terms + 2
    for t in range(len(gaps)):
        list_features(places, spreads, t, basis, work, fixed, held)
        if not is_exact:
            remaining(carried[0, t], gain[t - 1], begins[t], kept)
            _map_derivatives(kept, pull, moves)
        _map_derivatives(whiten[t], None, whitens)
        for i in range(dim):  # derivatives are shown as lists like that of `_list_surprises`
            for e in range(len(whitens)):
                whitens[i * (i + 1) // 2 + i, e] *= _ROOT_HALF
        _whitened(whiten[t], innovation[t], white)
        _list_surprises(white, target)
        for c in range(dim):
            change = held[0][c]
            carry(c, moves, is_exact, FAINT * gaps[t], fixed, held)
            _add_noise(carried[0, t], gain[t - 1], begins[t], pull, c, column, change, last)
            for s in range(3):
                for i in range(dim):
                    column[i] = carried[s, t, i, c] if s < 2 else (1.0 if i == c else 0.0)
                _list_square(gaps[t] * SIMPSON[s], column, squares[s])
                field = dot(coefficients[c], features[s], terms)
                for k in range(fixed, fixed if coefficients.shape[1] == terms else held[5][0]):
                    field += coefficients[c, held[2][k] - 2] * features[s, k]
                if field < floor[c]:
                    for e in range(len(target)):
                        change[e, added] += (floor[c] - field) * squares[s, e]
            add_features(c, squares, held)
            own = c * (c + 1) // 2 + c
            change[own, last] += 1.0  # the noise of this observation itself, for this row only
            show(c, whitens, target, held)
            change[own, last] -= 1.0
        for i in range(dim):
            pull[i] = 0.0
            for j in range(i, dim):
                pull[i] += whiten[t, j, i] * white[j]
        end_row(len(target), fixed, t == len(gaps) - 1, held, information, score)


@njit(cache=True, allocates=False, error_model="numpy")
def _map_derivatives(matrix, pull, out):
    """M as a map of lists: M P M' of lower triangles, and M (m + P pull) of means; without pull M m."""
    dim = len(matrix)
    row, first_mean = 0, dim * (dim + 1) // 2
    for i in range(dim):
        for j in range(i + 1):
            entry = 0
            for a in range(dim):
                for b in range(a + 1):
                    out[row, entry] = matrix[i, a] * matrix[j, b]
                    if a != b:
                        out[row, entry] += matrix[i, b] * matrix[j, a]
                    entry += 1
            row += 1
    for i in range(dim):
        for a in range(dim):
            out[first_mean + i, first_mean + a] = matrix[i, a]
        if pull is not None:
            entry = 0
            for a in range(dim):
                for b in range(a + 1):
                    out[first_mean + i, entry] = matrix[i, a] * pull[b]
                    if a != b:
                        out[first_mean + i, entry] += matrix[i, b] * pull[a]
                    entry += 1


@njit(cache=True, allocates=False, error_model="numpy")
def _add_noise(carried, gain, begins, pull, c, column, change, last):
    """q q' and -q (S⁻¹ ν)_c with the column q of E K; the first state of a path is its first observation: K is one."""
    dim = len(column)
    for i in range(dim):
        column[i] = carried[i, c] if begins else 0.0
        if not begins:
            for k in range(dim):
                column[i] += carried[i, k] * gain[k, c]
    e = 0
    for i in range(dim):
        for j in range(i + 1):
            change[e, last] += column[i] * column[j]
            e += 1
    if not begins:
        for i in range(dim):
            change[e + i, last] -= column[i] * pull[c]


@njit(cache=True, allocates=False, error_model="numpy")
def _whitened(whiten, innovation, out):
    """L⁻¹ ν."""
    for j in range(len(innovation)):
        out[j] = 0.0
        for i in range(j + 1):
            out[j] += whiten[j, i] * innovation[i]


@njit(cache=True, allocates=False, error_model="numpy")
def _list_surprises(white, out):
    """w w' - 1 and w as a list, the diagonal over √2: then products of lists are halves of traces of products."""
    e, dim = 0, len(white)
    for i in range(dim):
        for j in range(i):
            out[e] = white[i] * white[j]
            e += 1
        out[e] = _ROOT_HALF * (white[i] ** 2 - 1.0)
        e += 1
    for i in range(dim):
        out[e + i] = white[i]


@njit(cache=True, allocates=False, error_model="numpy")
def _list_square(weight, column, out):
    """The lower triangle of weight e e'."""
    e = 0
    for i in range(len(column)):
        for j in range(i + 1):
            out[e] = weight * column[i] * column[j]
            e += 1
