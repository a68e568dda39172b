"""numba kernels that sum what innovations tell of g and of the measurement noise: score and information, row by row."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit
from fimsde.evidence.basis_kernels import field_at, scratch
from fimsde.evidence.drift_kernels import FAINT, SIMPSON, list_features, remaining

_ROOT_HALF = 0.5**0.5


@njit(cache=True, error_model="numpy")
def variance_sums(
    places, spreads, carried, gain, whiten, innovation, begins, gaps, basis, degree, coefficients, floor, noise
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
    terms, dim, size = len(basis[0]), places.shape[2], coefficients.shape[1]
    num_squares = dim * (dim + 1) // 2
    entries, is_exact = num_squares + dim, noise.max() == 0.0
    information, score = np.zeros((dim, size + 2, size + 2)), np.zeros((dim, size + 2))
    change, is_live = np.zeros((dim, size + 2, entries)), np.zeros((dim, size + 2), np.bool_)
    features = np.empty((3, terms)), np.empty((3, size), np.int64), np.empty((3, size)), np.empty(3, np.int64)
    vectors, lists, squares = np.zeros((6, dim)), np.empty((2, entries)), np.empty((3, num_squares))
    matrices = np.empty((dim, dim)), np.zeros((entries, entries)), np.zeros((entries, entries))
    shown, active = np.empty((entries + 1, size + 2)), np.empty(size + 2, np.int64)
    found = places, spreads, carried, gain, whiten, innovation, begins, gaps
    rate = basis, coefficients, floor
    _add_rows(
        *(found, rate, is_exact, scratch(dim, degree, terms), features, change, is_live, vectors, lists),
        *(squares, matrices, shown, active, information, score),
    )
    added = size + 1
    for c in range(dim):
        for k in range(size + 1):
            score[c, k] += information[c, added, k]
            for q in range(k):
                information[c, q, k] = information[c, k, q]
    return information[:, : size + 1, : size + 1].copy(), score[:, : size + 1].copy()


@njit(cache=True, allocates=False, error_model="numpy")
def _add_rows(
    found,
    rate,
    is_exact,
    work,
    features,
    change,
    is_live,
    vectors,
    lists,
    squares,
    matrices,
    shown,
    active,
    information,
    score,
):
    """The sums, row by row. Without noise nothing is left of a row in the next one."""
    places, spreads, carried, gain, whiten, innovation, begins, gaps = found
    basis, coefficients, floor = rate
    monomials, nodes, values, count = features
    white, pull, column, field = vectors[0], vectors[1], vectors[2], vectors[3:6]
    target, before = lists[0], lists[1]
    kept, moves, whitens = matrices
    terms, dim, size = len(basis[0]), len(kept), coefficients.shape[1]
    last, added, num_squares = size, size + 1, squares.shape[1]
    entries = num_squares + dim
    products = shown[len(shown) - 1]
    for t in range(len(gaps)):
        for s in range(3):
            count[s] = list_features(places[s, t], spreads[s, t], basis, work, monomials[s], nodes[s], values[s])
            field_at(places[s, t], spreads[s, t], basis, coefficients, work, field[s])
        if not is_exact:
            remaining(carried[0, t], gain[t - 1], begins[t], kept)
            _map_derivatives(kept, pull, moves)
        _map_derivatives(whiten[t], None, whitens)
        _whitened(whiten[t], innovation[t], white)
        _list_surprises(white, target)
        for c in range(dim):
            for k in range(size + 2):
                if is_live[c, k]:
                    is_live[c, k] = _move(moves, is_exact, FAINT * gaps[t], change[c, k], before)
            _add_noise(carried[0, t], gain[t - 1], begins[t], pull, c, column, change[c, last])
            for s in range(3):
                for i in range(dim):
                    column[i] = carried[s, t, i, c] if s < 2 else (1.0 if i == c else 0.0)
                _list_square(gaps[t] * SIMPSON[s], column, squares[s])
                for k in range(terms):
                    _add_multiple(monomials[s, k], squares[s], change[c, k])
                for a in range(count[s]):
                    is_live[c, nodes[s, a]] = True
                    _add_multiple(values[s, a], squares[s], change[c, nodes[s, a]])
                if field[s, c] < floor[c]:
                    is_live[c, added] = True
                    _add_multiple(floor[c] - field[s, c], squares[s], change[c, added])
            for k in range(terms):
                is_live[c, k] = True
            is_live[c, last] = True
            own = c * (c + 1) // 2 + c
            change[c, last, own] += 1.0  # the noise of this observation itself, for this row only
            num = 0
            for k in range(size + 2):
                if is_live[c, k]:
                    active[num] = k
                    _show(dim, whitens, change[c, k], shown, num)
                    num += 1
            change[c, last, own] -= 1.0
            for a in range(num):
                k = active[a]
                for b in range(a + 1):
                    products[b] = shown[0, a] * shown[0, b]
                for e in range(1, entries):
                    for b in range(a + 1):
                        products[b] += shown[e, a] * shown[e, b]
                for e in range(entries):
                    score[c, k] += shown[e, a] * target[e]
                row = information[c, k]
                for b in range(a + 1):
                    row[active[b]] += products[b]
        for i in range(dim):
            pull[i] = 0.0
            for j in range(i, dim):
                pull[i] += whiten[t, j, i] * white[j]


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
def _move(moves, is_exact, faint, change, before):
    """Take a derivative over an observation and a gap, in place; False if next to nothing is left of it."""
    most = 0.0
    for e in range(len(change)):
        before[e], change[e] = change[e], 0.0
    if is_exact:
        return False
    for e in range(len(change)):
        for b in range(len(change)):
            change[e] += moves[e, b] * before[b]
        most = max(most, abs(change[e]))
    if most > faint:
        return True
    for e in range(len(change)):
        change[e] = 0.0
    return False


@njit(cache=True, allocates=False, error_model="numpy")
def _add_noise(carried, gain, begins, pull, c, column, out):
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
            out[e] += column[i] * column[j]
            e += 1
    if not begins:
        for i in range(dim):
            out[e + i] -= column[i] * pull[c]


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
def _show(dim, whitens, change, out, place):
    """A derivative, whitened, as a list like that of `_list_surprises`: one column."""
    first_mean = dim * (dim + 1) // 2
    for e in range(first_mean + dim):
        total = 0.0
        for b in range(0 if e < first_mean else first_mean, first_mean if e < first_mean else first_mean + dim):
            total += whitens[e, b] * change[b]
        out[e, place] = total
    for i in range(dim):
        out[i * (i + 1) // 2 + i, place] *= _ROOT_HALF


@njit(cache=True, allocates=False, error_model="numpy")
def _list_square(weight, column, out):
    """The lower triangle of weight e e'."""
    e = 0
    for i in range(len(column)):
        for j in range(i + 1):
            out[e] = weight * column[i] * column[j]
            e += 1


@njit(cache=True, allocates=False, error_model="numpy")
def _add_multiple(factor, values, out):
    """Add a multiple of the first entries."""
    for e in range(len(values)):
        out[e] += factor * values[e]
