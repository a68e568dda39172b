"""numba kernels of a basis: monomials and quadratic B-splines at a place, and their expectations around it.

A basis comes as the tuple `Basis.arrays`: exponents (terms, dim); for each monomial a lower one, a component and its
power, of which it is the product; and of the splines the spacing, the lowest index and the number of indices of each
axis, and a table from index to node (-1: there is none).
"""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import math

import numpy as np

from fimsde.compiler import njit

_ROOT3 = math.sqrt(3.0)
_BELL = 1.0 / math.sqrt(2.0 * math.pi)
_FOURTH = -1.0 / 960.0  # fourth cumulant of three uniform numbers, -3 / 120, over 4!
_NARROW = 0.08  # spread in spacings up to which B'' counts as constant; then E[B] is missed by at most 0.005
_WIDE = 0.22  # spread in spacings from which Edgeworth's series is closer; both miss E[B] by at most 0.003 there
_WIDEST = 2.0  # spread that is allowed for; more is blurred beyond use
_TAIL = 3.5  # standard deviations that are kept
_MOST_AXES = 3  # that a grid of nodes may have
_MOST = 16  # B-splines of an axis within 3.5 √(2² + 1/4) spacings


@njit(cache=True, allocates=False, error_model="numpy", inline="always")
def fill_powers(x, var, powers):
    """powers[j, p] = E[(x_j + e)^p] for normal e of variance var_j: x_j E[p - 1] + (p - 1) var_j E[p - 2]."""
    for j in range(len(x)):
        powers[j, 0] = 1.0
        for p in range(1, powers.shape[1]):
            powers[j, p] = x[j] * powers[j, p - 1]
            if p > 1:
                powers[j, p] += (p - 1) * var[j] * powers[j, p - 2]


@njit(cache=True, allocates=False, error_model="numpy", inline="always")
def fill_monomials(powers, lower, component, power, out):
    """Each monomial as a lower one times a power of one component."""
    out[0] = 1.0
    for k in range(1, len(lower)):
        out[k] = out[lower[k]] * powers[component[k], power[k]]


@njit(cache=True, allocates=False, error_model="numpy")
def fill_axes(x, var, spacing, lowest, first, widths, values, slopes):
    """Of every axis the index of the first B-spline near x, how many there are, and E[B(x + e)] and E[B'(x + e)].

    With hardly any spread B'' is the same where e may be, and E[B(x + e)] = B + B'' s² / 2; with little of it a mean
    over x and x ± √3 s, with the weights of Gauss and Hermite; with more of it the density of the sum of e and of three
    uniform numbers, by Edgeworth's series.
    """
    for j in range(len(x)):
        u, s = x[j] / spacing, min(math.sqrt(var[j]) / spacing, _WIDEST)
        if s < _WIDE:
            reach = 1 if s < _NARROW else 2
            low = math.floor(u + 0.5) - reach
            first[j], widths[j] = int(low) - lowest[j], 2 * reach + 1
            for k in range(widths[j]):
                values[j, k], slopes[j, k] = 0.0, 0.0
            if reach == 1:
                _add_splines(u, 1.0, low, spacing, values[j], slopes[j])
                bend = 0.5 * s * s
                values[j, 0] += bend
                values[j, 1] -= 2.0 * bend
                values[j, 2] += bend
            else:
                _add_splines(u - _ROOT3 * s, 1.0 / 6.0, low, spacing, values[j], slopes[j])
                _add_splines(u, 4.0 / 6.0, low, spacing, values[j], slopes[j])
                _add_splines(u + _ROOT3 * s, 1.0 / 6.0, low, spacing, values[j], slopes[j])
            continue
        square = s * s + 0.25
        root = math.sqrt(square)
        low, high = math.ceil(u - _TAIL * root), math.floor(u + _TAIL * root)
        first[j], widths[j] = int(low) - lowest[j], int(high - low) + 1
        fourth, inverse = _FOURTH / square**2, 1.0 / root
        away = u - low
        bell = math.exp(-0.5 * away * away / square) * inverse * _BELL
        ratio, shrink = math.exp((away - 0.5) / square), math.exp(-1.0 / square)
        for k in range(widths[j]):  # bells at equal distances: each is the one before times a ratio that shrinks
            t = away * inverse
            t2 = t * t
            values[j, k] = bell * (1.0 + fourth * (t2 * t2 - 6.0 * t2 + 3.0))
            slopes[j, k] = -bell * inverse * t * (1.0 + fourth * (t2 * t2 - 10.0 * t2 + 15.0)) / spacing
            bell *= ratio
            ratio *= shrink
            away -= 1.0


@njit(cache=True, allocates=False, error_model="numpy", inline="always")
def _add_splines(u, weight, low, spacing, values, slopes):
    """Add the three B-splines at u, and their slopes, to those of the nodes from `low` on."""
    nearest = math.floor(u + 0.5)
    k, q = int(nearest - low) - 1, u - nearest
    values[k] += weight * 0.5 * (0.5 - q) ** 2
    values[k + 1] += weight * (0.75 - q * q)
    values[k + 2] += weight * 0.5 * (0.5 + q) ** 2
    slopes[k] += weight * (q - 0.5) / spacing
    slopes[k + 1] -= weight * 2.0 * q / spacing
    slopes[k + 2] += weight * (q + 0.5) / spacing


@njit(cache=True, allocates=False, error_model="numpy")
def list_nodes(x, var, basis, work, nodes, values):
    """The nodes whose B-splines are not zero at x, and E[B(x + e)] of each. Returns how many there are."""
    spacing, lowest, sizes, table = basis[4], basis[5], basis[6], basis[7]
    first, widths, axes, slopes = work[2], work[3], work[4], work[5]
    fill_axes(x, var, spacing, lowest, first, widths, axes, slopes)
    num, last = 0, len(x) - 1
    for outer in range(_num_outer(widths)):
        flat = _outer_index(outer, first, widths, sizes)
        if flat < 0:
            continue
        product = _outer_product(outer, widths, axes, slopes, last)
        for k in range(max(0, -first[last]), min(widths[last], sizes[last] - first[last])):
            node = table[flat * sizes[last] + first[last] + k]
            if node >= 0:
                nodes[num], values[num] = node, product * axes[last, k]
                num += 1
    return num


@njit(cache=True, allocates=False, error_model="numpy", inline="always")
def _num_outer(widths):
    """Number of products of B-splines of all axes but the last one."""
    out = 1
    for j in range(len(widths) - 1):
        out *= widths[j]
    return out


@njit(cache=True, error_model="numpy")
def scratch(dim, degree, terms):
    """Arrays that the kernels below work in: made once for a walk through the data."""
    most_nodes = _MOST**dim if dim <= _MOST_AXES else 0
    return (
        np.empty(terms),
        np.empty((dim, degree + 1)),
        np.empty(dim, np.int64),
        np.empty(dim, np.int64),
        np.empty((dim, _MOST)),
        np.empty((dim, _MOST)),
        np.empty(most_nodes, np.int64),
        np.empty(most_nodes),
    )


@njit(cache=True, allocates=False, error_model="numpy")
def field_at(x, var, basis, coefficients, work, out):
    """out_c = sum_k b_kc E[φ_k(x + e)] with e ~ N(0, diag var)."""
    exponents, lower, component, power = basis[0], basis[1], basis[2], basis[3]
    terms_at, powers, nodes, values = work[0], work[1], work[6], work[7]
    terms = len(exponents)
    for c in range(len(out)):
        out[c] = 0.0
    fill_powers(x, var, powers)
    fill_monomials(powers, lower, component, power, terms_at)
    for k in range(terms):
        for c in range(len(out)):
            out[c] += coefficients[k, c] * terms_at[k]
    if len(coefficients) == terms:
        return
    for a in range(list_nodes(x, var, basis, work, nodes, values)):
        for c in range(len(out)):
            out[c] += coefficients[terms + nodes[a], c] * values[a]


@njit(cache=True, allocates=False, error_model="numpy")
def jacobian_at(x, var, basis, coefficients, work, out):
    """out_cj = sum_k b_kc E[∂φ_k / ∂x_j (x + e)] with e ~ N(0, diag var)."""
    exponents, _, _, _, spacing, lowest, sizes, table = basis
    powers, first, widths, values, slopes = work[1], work[2], work[3], work[4], work[5]
    terms, dim = exponents.shape
    for c in range(out.shape[0]):
        for j in range(dim):
            out[c, j] = 0.0
    fill_powers(x, var, powers)
    for k in range(terms):
        for j in range(dim):
            degree = exponents[k, j]
            if degree == 0:
                continue
            slope = degree * powers[j, degree - 1]
            for i in range(dim):
                if i != j:
                    slope *= powers[i, exponents[k, i]]
            for c in range(out.shape[0]):
                out[c, j] += coefficients[k, c] * slope
    if len(coefficients) == terms:
        return
    fill_axes(x, var, spacing, lowest, first, widths, values, slopes)
    last = dim - 1
    for outer in range(_num_outer(widths)):
        flat = _outer_index(outer, first, widths, sizes)
        if flat < 0:
            continue
        for j in range(dim):
            product = _outer_product(outer, widths, values, slopes, j)
            axis = slopes if j == last else values
            for k in range(max(0, -first[last]), min(widths[last], sizes[last] - first[last])):
                node = table[flat * sizes[last] + first[last] + k]
                if node >= 0:
                    for c in range(out.shape[0]):
                        out[c, j] += coefficients[terms + node, c] * product * axis[last, k]


@njit(cache=True, allocates=False, error_model="numpy", inline="always")
def _outer_index(outer, first, widths, sizes):
    """Where one of the products of all axes but the last one stands in the table; -1 if it has no nodes."""
    flat = 0
    for j in range(len(first) - 1):
        index = first[j] + outer % widths[j]
        outer //= widths[j]
        if index < 0 or index >= sizes[j]:
            return -1
        flat = flat * sizes[j] + index
    return flat


@njit(cache=True, allocates=False, error_model="numpy", inline="always")
def _outer_product(outer, widths, values, slopes, j):
    """The product of the values of all axes but the last one, of axis j the slope."""
    out = 1.0
    for i in range(len(widths) - 1):
        out *= slopes[i, outer % widths[i]] if i == j else values[i, outer % widths[i]]
        outer //= widths[i]
    return out


@njit(cache=True, error_model="numpy")
def fields_at(x, basis, coefficients, degree):
    """The field at every row of x."""
    out = np.empty((len(x), coefficients.shape[1]))
    work, none = scratch(x.shape[1], degree, len(basis[0])), np.zeros(x.shape[1])
    _fill_fields(x, none, basis, coefficients, work, out)
    return out


@njit(cache=True, allocates=False, error_model="numpy")
def _fill_fields(x, var, basis, coefficients, work, out):
    """The field at every row of x, into another array."""
    for i in range(len(x)):
        field_at(x[i], var, basis, coefficients, work, out[i])


@njit(cache=True, error_model="numpy")
def features_at(x, var, basis, degree, size):
    """E[φ_k(x + e)] for every row of x with its variances."""
    terms, dim = basis[0].shape
    out = np.zeros((len(x), size))
    work = scratch(dim, degree, terms)
    powers, nodes, values = work[1], work[6], work[7]
    for i in range(len(x)):
        fill_powers(x[i], var[i], powers)
        fill_monomials(powers, basis[1], basis[2], basis[3], out[i])
        if size > terms:
            for a in range(list_nodes(x[i], var[i], basis, work, nodes, values)):
                out[i, terms + nodes[a]] = values[a]
    return out
