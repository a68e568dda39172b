"""numba kernels of a basis: monomials and quadratic B-splines at a place, and their expectations around it.

A basis comes as the tuple `Basis.arrays`: for each monomial a lower one, a component and its power, of which it is the
product; and of the splines the spacing, and for three axes, of which the first may be empty, the lowest index and the
number of indices, and a table from index to node (-1: there is none). Coefficients are rows, one for each output.

What is called for every observation is small, and made part of its caller: handing over so many arrays would take
longer than the work.
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
_FARTHEST = 1e6  # spacings from zero: there are no nodes
_TAIL = 3.5  # standard deviations that are kept
MOST_AXES = 3  # that a grid of nodes may have
_MOST = 16  # B-splines of an axis within 3.5 √(2² + 1/4) spacings
SUMS = {"contract", "reassoc", "nsz"}  # freedom to add in any order, and nothing else


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def fill_powers(x, var, powers):
    """powers[j, p] = E[(x_j + e)^p] for normal e of variance var_j: x_j E[p - 1] + (p - 1) var_j E[p - 2]."""
    for j in range(len(x)):
        powers[j, 0] = 1.0
        for p in range(1, powers.shape[1]):
            powers[j, p] = x[j] * powers[j, p - 1]
            if p > 1:
                powers[j, p] += (p - 1) * var[j] * powers[j, p - 2]


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def fill_monomials(powers, basis, num, out):
    """The first monomials, each as a lower one times a power of one component."""
    lower, component, power = basis[0], basis[1], basis[2]
    out[0] = 1.0
    for k in range(1, num):
        out[k] = out[lower[k]] * powers[component[k], power[k]]


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True, fastmath=SUMS)
def dot(one, other, num):
    """The sum of the first products."""
    total = 0.0
    for k in range(num):
        total += one[k] * other[k]
    return total


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def fill_axes(x, var, basis, first, widths, values, slopes):
    """Of every axis the index of the first B-spline near x, how many there are, and E[B(x + e)] and E[B'(x + e)].

    With hardly any spread B'' is the same where e may be, and E[B(x + e)] = B + B'' s² / 2; with little of it a mean
    over x and x ± √3 s, with the weights of Gauss and Hermite; with more of it the density of the sum of e and of three
    uniform numbers, by Edgeworth's series. The axes are the last ones of three.
    """
    spacing, lowest = basis[3], basis[4]
    for i in range(len(x)):
        j = MOST_AXES - len(x) + i
        u, s = x[i] / spacing, math.sqrt(var[i]) / spacing
        if not abs(u) < _FARTHEST:  # or no number: an equation that explodes leads anywhere
            u = _FARTHEST
        if not s < _WIDEST:
            s = _WIDEST
        if s < _WIDE:
            nearest = math.floor(u + 0.5)
            if s < _NARROW:
                q, bend = u - nearest, 0.5 * s * s
                first[j], widths[j] = int(nearest) - 1 - lowest[j], 3
                values[j, 0], values[j, 1] = 0.5 * (0.5 - q) ** 2 + bend, 0.75 - q * q - 2.0 * bend
                values[j, 2] = 0.5 * (0.5 + q) ** 2 + bend
                slopes[j, 0], slopes[j, 1] = (q - 0.5) / spacing, -2.0 * q / spacing
                slopes[j, 2] = (q + 0.5) / spacing
            else:
                low = math.floor(u - _ROOT3 * s + 0.5) - 1.0
                first[j], widths[j] = int(low) - lowest[j], int(math.floor(u + _ROOT3 * s + 0.5) - low) + 2
                for k in range(widths[j]):
                    values[j, k], slopes[j, k] = 0.0, 0.0
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


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
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


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def list_nodes(x, var, basis, work, nodes, values):
    """The nodes whose B-splines are not zero at x, and E[B(x + e)] of each. Returns how many there are."""
    sizes, table = basis[5], basis[6]
    first, widths, axes, slopes = work[2], work[3], work[4], work[5]
    fill_axes(x, var, basis, first, widths, axes, slopes)
    num = 0
    for a in range(max(0, -first[0]), min(widths[0], sizes[0] - first[0])):
        for b in range(max(0, -first[1]), min(widths[1], sizes[1] - first[1])):
            product = axes[0, a] * axes[1, b]
            begin = ((first[0] + a) * sizes[1] + first[1] + b) * sizes[2] + first[2]
            for c in range(max(0, -first[2]), min(widths[2], sizes[2] - first[2])):
                if table[begin + c] >= 0:
                    nodes[num], values[num] = table[begin + c], product * axes[2, c]
                    num += 1
    return num


@njit(cache=True, error_model="numpy")
def scratch(dim, degree, terms):
    """Arrays that the kernels below work in: made once for a walk through the data."""
    most_nodes = _MOST**dim if dim <= MOST_AXES else 0
    return (
        np.empty(terms),
        np.empty((dim, degree + 1)),
        np.zeros(MOST_AXES, np.int64),
        np.ones(MOST_AXES, np.int64),
        np.ones((MOST_AXES, _MOST)),
        np.zeros((MOST_AXES, _MOST)),
        np.empty(most_nodes, np.int64),
        np.empty(most_nodes),
    )


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def field_at(x, var, basis, coefficients, work, out):
    """out_c = sum_k b_ck E[φ_k(x + e)] with e ~ N(0, diag var)."""
    terms = len(basis[0])
    fill_powers(x, var, work[1])
    fill_monomials(work[1], basis, terms, work[0])
    for c in range(len(out)):
        out[c] = dot(coefficients[c], work[0], terms)
    if coefficients.shape[1] > terms:
        _add_splines_of_field(x, var, basis, coefficients, work, out)


@njit(cache=True, allocates=False, error_model="numpy", fastmath=SUMS, forceinline=True)
def _add_splines_of_field(x, var, basis, coefficients, work, out):
    """The part of a field that is made of B-splines."""
    sizes, table, terms = basis[5], basis[6], len(basis[0])
    first, widths, axes = work[2], work[3], work[4]
    fill_axes(x, var, basis, first, widths, axes, work[5])
    low, high = max(0, -first[2]), min(widths[2], sizes[2] - first[2])
    for i in range(0, len(out), 3):  # three outputs at once: looking for nodes takes longest
        j, k = min(i + 1, len(out) - 1), min(i + 2, len(out) - 1)
        one, two, three = 0.0, 0.0, 0.0
        for a in range(max(0, -first[0]), min(widths[0], sizes[0] - first[0])):
            for b in range(max(0, -first[1]), min(widths[1], sizes[1] - first[1])):
                begin = ((first[0] + a) * sizes[1] + first[1] + b) * sizes[2] + first[2]
                u, v, w = 0.0, 0.0, 0.0
                for c in range(low, high):
                    node = table[begin + c]
                    if node >= 0:
                        u += coefficients[i, terms + node] * axes[2, c]
                        v += coefficients[j, terms + node] * axes[2, c]
                        w += coefficients[k, terms + node] * axes[2, c]
                product = axes[0, a] * axes[1, b]
                one += product * u
                two += product * v
                three += product * w
        out[i] += one
        if j > i:
            out[j] += two
        if k > j:
            out[k] += three


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def jacobian_at(x, var, basis, coefficients, slopes, work, out):
    """out_cj = sum_k b_ck E[∂φ_k / ∂x_j (x + e)] with e ~ N(0, diag var).

    `slopes` (outputs, dim, lower terms) has the coefficients of the slopes of the polynomial part; see `Basis.slopes`.
    """
    num = slopes.shape[2]
    fill_powers(x, var, work[1])
    fill_monomials(work[1], basis, num, work[0])
    for c in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[c, j] = dot(slopes[c, j], work[0], num)
    if coefficients.shape[1] > len(basis[0]):
        _add_splines_of_jacobian(x, var, basis, coefficients, work, out)


@njit(cache=True, allocates=False, error_model="numpy", fastmath=SUMS, forceinline=True)
def _add_splines_of_jacobian(x, var, basis, coefficients, work, out):
    """The part of a Jacobian that is made of B-splines."""
    sizes, table, terms, dim = basis[5], basis[6], len(basis[0]), len(x)
    first, widths, axes, slopes = work[2], work[3], work[4], work[5]
    fill_axes(x, var, basis, first, widths, axes, slopes)
    low, high = max(0, -first[2]), min(widths[2], sizes[2] - first[2])
    for i in range(out.shape[0]):
        along0, along1, along2 = 0.0, 0.0, 0.0
        for a in range(max(0, -first[0]), min(widths[0], sizes[0] - first[0])):
            for b in range(max(0, -first[1]), min(widths[1], sizes[1] - first[1])):
                begin = ((first[0] + a) * sizes[1] + first[1] + b) * sizes[2] + first[2]
                value, slope = 0.0, 0.0
                for c in range(low, high):
                    node = table[begin + c]
                    if node >= 0:
                        value += coefficients[i, terms + node] * axes[2, c]
                        slope += coefficients[i, terms + node] * slopes[2, c]
                along0 += slopes[0, a] * axes[1, b] * value
                along1 += axes[0, a] * slopes[1, b] * value
                along2 += axes[0, a] * axes[1, b] * slope
        out[i, dim - 1] += along2
        if dim > 1:
            out[i, dim - 2] += along1
        if dim > 2:
            out[i, 0] += along0


@njit(cache=True, error_model="numpy")
def fields_at(x, basis, coefficients, degree):
    """The field at every row of x."""
    out = np.empty((len(x), coefficients.shape[0]))
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
    terms, dim = len(basis[0]), x.shape[1]
    out = np.zeros((len(x), size))
    work = scratch(dim, degree, terms)
    powers, nodes, values = work[1], work[6], work[7]
    for i in range(len(x)):
        fill_powers(x[i], var[i], powers)
        fill_monomials(powers, basis, terms, out[i])
        if size > terms:
            for a in range(list_nodes(x[i], var[i], basis, work, nodes, values)):
                out[i, terms + nodes[a]] = values[a]
    return out
