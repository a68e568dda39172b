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
_MOST = 16  # B-splines of an axis within 3.5 √(2² + 1/4) spacings


@njit(cache=True, error_model="numpy", inline="always")
def fill_powers(x, var, powers):
    """powers[j, p] = E[(x_j + e)^p] for normal e of variance var_j: x_j E[p - 1] + (p - 1) var_j E[p - 2]."""
    for j in range(len(x)):
        powers[j, 0] = 1.0
        for p in range(1, powers.shape[1]):
            powers[j, p] = x[j] * powers[j, p - 1]
            if p > 1:
                powers[j, p] += (p - 1) * var[j] * powers[j, p - 2]


@njit(cache=True, error_model="numpy", inline="always")
def fill_monomials(powers, lower, component, power, out):
    """Each monomial as a lower one times a power of one component."""
    out[0] = 1.0
    for k in range(1, len(lower)):
        out[k] = out[lower[k]] * powers[component[k], power[k]]


@njit(cache=True, error_model="numpy")
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


@njit(cache=True, error_model="numpy", inline="always")
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


@njit(cache=True, error_model="numpy", inline="always")
def num_products(widths):
    """Number of products of B-splines near a place."""
    out = 1
    for j in range(len(widths)):
        out *= widths[j]
    return out


@njit(cache=True, error_model="numpy", inline="always")
def node_of(number, first, widths, sizes, table):
    """The node of one of the products of B-splines, counted axis by axis; -1 if there is none."""
    flat = 0
    for j in range(len(first)):
        index = first[j] + number % widths[j]
        number //= widths[j]
        if index < 0 or index >= sizes[j]:
            return -1
        flat = flat * sizes[j] + index
    return table[flat]


@njit(cache=True, error_model="numpy", inline="always")
def product_of(number, widths, values):
    """The product of B-splines with this number."""
    out = 1.0
    for j in range(len(widths)):
        out *= values[j, number % widths[j]]
        number //= widths[j]
    return out


@njit(cache=True, error_model="numpy")
def scratch(dim, degree, terms):
    """Arrays that the kernels below work in: made once for a walk through the data."""
    return (
        np.empty(terms),
        np.empty((dim, degree + 1)),
        np.empty(dim, np.int64),
        np.empty(dim, np.int64),
        np.empty((dim, _MOST)),
        np.empty((dim, _MOST)),
    )


@njit(cache=True, error_model="numpy")
def field_at(x, var, basis, coefficients, work, out):
    """out_c = sum_k b_kc E[φ_k(x + e)] with e ~ N(0, diag var)."""
    exponents, lower, component, power, spacing, lowest, sizes, table = basis
    terms_at, powers, first, widths, values, slopes = work
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
    fill_axes(x, var, spacing, lowest, first, widths, values, slopes)
    for number in range(num_products(widths)):
        node = node_of(number, first, widths, sizes, table)
        if node >= 0:
            value = product_of(number, widths, values)
            for c in range(len(out)):
                out[c] += coefficients[terms + node, c] * value


@njit(cache=True, error_model="numpy")
def jacobian_at(x, var, basis, coefficients, work, out):
    """out_cj = sum_k b_kc E[∂φ_k / ∂x_j (x + e)] with e ~ N(0, diag var)."""
    exponents, _, _, _, spacing, lowest, sizes, table = basis
    _, powers, first, widths, values, slopes = work
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
    for number in range(num_products(widths)):
        node = node_of(number, first, widths, sizes, table)
        if node < 0:
            continue
        for j in range(dim):
            slope, rest = 1.0, number
            for i in range(dim):
                slope *= slopes[i, rest % widths[i]] if i == j else values[i, rest % widths[i]]
                rest //= widths[i]
            for c in range(out.shape[0]):
                out[c, j] += coefficients[terms + node, c] * slope


@njit(cache=True, error_model="numpy")
def fields_at(x, basis, coefficients, degree):
    """The field at every row of x."""
    out = np.empty((len(x), coefficients.shape[1]))
    work, none = scratch(x.shape[1], degree, len(basis[0])), np.zeros(x.shape[1])
    for i in range(len(x)):
        field_at(x[i], none, basis, coefficients, work, out[i])
    return out


@njit(cache=True, error_model="numpy")
def features_at(x, var, basis, degree, size):
    """E[φ_k(x + e)] for every row of x with its variances."""
    exponents, lower, component, power, spacing, lowest, sizes, table = basis
    terms, dim = exponents.shape
    out = np.zeros((len(x), size))
    _, powers, first, widths, values, slopes = scratch(dim, degree, terms)
    for i in range(len(x)):
        fill_powers(x[i], var[i], powers)
        fill_monomials(powers, lower, component, power, out[i])
        if size > terms:
            fill_axes(x[i], var[i], spacing, lowest, first, widths, values, slopes)
            for number in range(num_products(widths)):
                node = node_of(number, first, widths, sizes, table)
                if node >= 0:
                    out[i, terms + node] = product_of(number, widths, values)
    return out
