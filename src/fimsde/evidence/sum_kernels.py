"""numba kernels that sum products of derivatives over rows, for functions of which few are at work at a time.

A row of data has the derivatives of all that was predicted with respect to the coefficients of monomials and of those
B-splines that are not zero, now or not long ago. These functions stand in slots: first those that always count, then
B-splines as they come. Derivatives of some rows are kept in a block, and multiplied together. Several sums share the
slots, one for every component.
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit
from fimsde.evidence.basis_kernels import SUMS, fill_monomials, fill_powers, list_nodes

_BLOCK, _AT_ONCE = 64, 4  # rows of a block, nearly, and those that are multiplied at once; by hand
_SPARE, _MORE = 4, 0.25  # slots that a block may have beyond those at work, and the share of these that may be added


@njit(cache=True, error_model="numpy")
def slots(sums, fixed, num_nodes, entries):
    """Room for derivatives with so many entries, of functions that always count and of B-splines.

    Returns derivatives of each sum, room for those before, the function in each slot, the slot of each function (-1:
    none), whether what is in a slot is at work, numbers (of slots, of rows in the block), the blocks with their right
    sides, features at three places, and two rows of products.
    """
    size, rows = fixed + num_nodes, max(_BLOCK // entries, 4) * entries + _AT_ONCE
    function, place = np.arange(size), np.full(size, -1)
    place[:fixed] = np.arange(fixed)
    return (
        np.zeros((sums, entries, size)),
        np.empty((entries, size)),
        function,
        place,
        np.ones(size, np.bool_),
        np.array([fixed, 0]),
        np.empty((sums, rows, size)),
        np.empty((sums, rows)),
        np.zeros((3, size)),
        np.empty((2, size)),
    )


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def list_features(places, spreads, t, basis, work, fixed, held):
    """E[φ(place + e)] of a row at all of its places, slot by slot: monomials, and B-splines after the fixed ones."""
    change, function, place, working, numbers, blocks, features = (
        held[0],
        held[2],
        held[3],
        held[4],
        held[5],
        held[6],
        held[8],
    )
    nodes, values, terms = work[6], work[7], len(basis[0])
    for s in range(3):
        fill_powers(places[s, t], spreads[s, t], work[1])
        fill_monomials(work[1], basis, terms, features[s])
        for k in range(fixed, numbers[0]):
            features[s, k], working[k] = 0.0, False
    if len(basis[6]) == 0:
        return
    for s in range(3):
        for a in range(list_nodes(places[s, t], spreads[s, t], basis, work, nodes, values)):
            node = fixed + nodes[a]
            k = place[node]
            if k < 0:
                k = numbers[0]
                numbers[0] += 1
                place[node], function[k] = k, node
                features[:, k], change[:, :, k], blocks[:, : numbers[1], k] = 0.0, 0.0, 0.0
            features[s, k], working[k] = values[a], True


@njit(cache=True, allocates=False, error_model="numpy", fastmath=SUMS, forceinline=True)
def carry(c, move, is_exact, faint, fixed, held):
    """Derivatives times a matrix; those of B-splines that become faint are zero from then on."""
    change, before, working, num = held[0][c], held[1], held[4], held[5][0]
    entries = len(change)
    for e in range(entries):
        row, old = change[e], before[e]
        for k in range(num):
            old[k], row[k] = row[k], 0.0
    if is_exact:
        return
    for e in range(entries):
        row = change[e]
        for b in range(entries):
            factor, old = move[e, b], before[b]
            if factor != 0.0:
                for k in range(num):
                    row[k] += factor * old[k]
    most = before[0]
    for k in range(fixed, num):
        most[k] = 0.0
    for e in range(entries):
        row = change[e]
        for k in range(fixed, num):
            most[k] = max(most[k], abs(row[k]))
    for k in range(fixed, num):
        if most[k] > faint:
            working[k] = True
        elif most[k] > 0.0:
            for e in range(entries):
                change[e, k] = 0.0


@njit(cache=True, allocates=False, error_model="numpy", fastmath=SUMS, forceinline=True)
def add_features(c, weights, held):
    """sum_s weight_se φ_s for all entries e of the derivatives."""
    one, two, three, num = held[8][0], held[8][1], held[8][2], held[5][0]
    for e in range(weights.shape[1]):
        row, first, second, third = held[0][c, e], weights[0, e], weights[1, e], weights[2, e]
        for k in range(num):
            row[k] += first * one[k] + second * two[k] + third * three[k]


@njit(cache=True, allocates=False, error_model="numpy", fastmath=SUMS, forceinline=True)
def show(c, whiten, target, held):
    """A matrix times the derivatives joins the block, and the target its right side."""
    change, num, first, block, right = held[0][c], held[5][0], held[5][1], held[6][c], held[7][c]
    for e in range(len(target)):
        row = block[first + e]
        right[first + e] = target[e]
        for k in range(num):
            row[k] = 0.0
        for b in range(len(change)):
            factor, own = whiten[e, b], change[b]
            if factor != 0.0:
                for k in range(num):
                    row[k] += factor * own[k]


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def end_row(entries, fixed, is_last, held, information, score):
    """Blocks that are full, or have many slots to spare, are summed."""
    working, numbers = held[4], held[5]
    numbers[1] += entries
    num, at_work = numbers[0], 0
    for k in range(fixed, num):
        at_work += working[k]
    is_full = numbers[1] + entries + _AT_ONCE > held[6].shape[1]
    if is_last or is_full or num - fixed - at_work > _SPARE + _MORE * at_work:
        _add_blocks(fixed, held, information, score)


@njit(cache=True, allocates=False, error_model="numpy")
def _add_blocks(fixed, held, information, score):
    """Sum what blocks hold, and give up slots that are not at work."""
    change, function, place, working, numbers = held[0], held[2], held[3], held[4], held[5]
    num, rows = numbers[0], numbers[1]
    for c in range(len(change)):
        _add_block(num, rows, held[6][c], held[7][c], function, held[9], information[c], score[c])
    left = fixed
    for k in range(fixed, num):
        if working[k]:
            for c in range(len(change)):
                for e in range(change.shape[1]):
                    change[c, e, left] = change[c, e, k]
            function[left], place[function[k]], working[left] = function[k], left, True
            left += 1
        else:
            place[function[k]] = -1
    numbers[0], numbers[1] = left, 0


@njit(cache=True, allocates=False, error_model="numpy", fastmath=SUMS)
def _add_block(num, rows, block, right, function, products, information, score):
    """Sum the products of all rows of a block, of every pair in one of the triangles."""
    one_row, other_row = products[0], products[1]
    while rows % _AT_ONCE > 0:
        block[rows, :num], right[rows] = 0.0, 0.0
        rows += 1
    for a in range(0, num, 2):  # two rows of the triangle at once
        last = min(a + 1, num - 1)
        one_total, other_total = 0.0, 0.0
        for b in range(last + 1):
            one_row[b], other_row[b] = 0.0, 0.0
        for r in range(0, rows, _AT_ONCE):
            w, x, y, z = block[r], block[r + 1], block[r + 2], block[r + 3]
            w1, x1, y1, z1, w2, x2, y2, z2 = w[a], x[a], y[a], z[a], w[last], x[last], y[last], z[last]
            one_total += w1 * right[r] + x1 * right[r + 1] + y1 * right[r + 2] + z1 * right[r + 3]
            other_total += w2 * right[r] + x2 * right[r + 1] + y2 * right[r + 2] + z2 * right[r + 3]
            for b in range(last + 1):
                one_row[b] += w1 * w[b] + x1 * x[b] + y1 * y[b] + z1 * z[b]
                other_row[b] += w2 * w[b] + x2 * x[b] + y2 * y[b] + z2 * z[b]
        row = information[function[a]]
        score[function[a]] += one_total
        for b in range(a + 1):
            row[function[b]] += one_row[b]
        if last > a:
            row = information[function[last]]
            score[function[last]] += other_total
            for b in range(last + 1):
                row[function[b]] += other_row[b]


@njit(cache=True, error_model="numpy")
def make_symmetric(information):
    """Add both triangles."""
    for c in range(len(information)):
        for k in range(information.shape[1]):
            for q in range(k):
                both = information[c, k, q] + information[c, q, k]
                information[c, k, q], information[c, q, k] = both, both
