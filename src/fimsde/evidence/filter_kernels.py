"""numba kernels of the filter: from one observation to the next along every path, and the local-level model."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import math

import numpy as np

from fimsde.compiler import njit
from fimsde.evidence.basis_kernels import field_at, jacobian_at, scratch

_FASTEST = 2.0  # J h / 2 of errors that grow: by a factor of fifty in a step; natural times are longer
_ROUNDING = 1e-12  # of a variance: what is left where components move together


@njit(cache=True, error_model="numpy")
def filter_paths(
    y, dtau, starts, drift, drift_coefficients, slopes, rate, rate_coefficients, floor, noise, reach, steps, euler
):
    """Extended Kalman filter along paths; one row for every step from an observation to the next.

    Between observations dm/dt = E[f] and dP/dt = E[J] P + P E[J]' + g, in one step or an even number of steps: the mean
    by Runge-Kutta steps, f and its Jacobian averaged over the spread of the state; the covariance by the exponential
    of the Jacobian in the middle of each step and Simpson's rule. With `euler`, one Euler step.

    Returns places and variances of the state at the beginning, middle and end of the gap, transition matrices from
    beginning and middle to the end, gains, variances of the innovations, inverse Cholesky factors of their covariance,
    innovations, whether a row begins a path, and the log likelihood of every row.
    """
    dim, rows = y.shape[1], len(y) - (len(starts) - 1)
    out = (
        np.empty((3, rows, dim)),
        np.empty((3, rows, dim)),
        np.zeros((2, rows, dim, dim)),
        np.zeros((rows, dim, dim)),
        np.empty((rows, dim)),
        np.zeros((rows, dim, dim)),
        np.empty((rows, dim)),
        np.zeros(rows, np.bool_),
        np.empty(rows),
    )
    work = scratch(dim, max(drift[2].max(), rate[2].max(), 1), max(len(drift[0]), len(rate[0])))
    vectors, matrices = np.empty((14, dim)), np.empty((13, dim, dim))
    equation = drift, drift_coefficients, slopes, rate, rate_coefficients, floor, noise
    _follow(y, dtau, starts, equation, noise.max() == 0.0, reach, steps, euler, work, vectors, matrices, out)
    return out


@njit(cache=True, allocates=False, error_model="numpy")
def _follow(y, dtau, starts, equation, exact, reach, steps, euler, work, vectors, matrices, out):
    """The filter itself, row by row."""
    drift, drift_coefficients, drift_slopes, rate, rate_coefficients, floor, noise = equation
    places, spreads, carried, gain, variance, whiten, innovation, begins, loglik = out
    dim = y.shape[1]
    slopes, rates, small = vectors[:6], vectors[6:9], vectors[9]
    state, mean, middle, end = vectors[10], vectors[11], vectors[12], vectors[13]
    spread, predicted, whole = matrices[7], matrices[8], matrices[9]
    later, once, half = matrices[10], matrices[11], matrices[12]
    row = 0
    for p in range(len(starts) - 1):
        for j in range(dim):
            state[j] = y[starts[p], j]
            for k in range(dim):
                spread[j, k] = noise[j] if j == k else 0.0
        for i in range(starts[p], starts[p + 1] - 1):
            gap = dtau[i]
            begins[row] = i == starts[p]
            for j in range(dim):
                places[0, row, j], spreads[0, row, j] = state[j], spread[j, j]
                small[j] = 0.0 if euler else spread[j, j]
            _rate_at(state, small, rate, rate_coefficients, floor, work, rates[0])
            if euler:
                _euler(state, spread, rates[0], gap, drift, drift_coefficients, work, small, mean, predicted)
                for j in range(dim):
                    for s in range(2):
                        places[s + 1, row, j], spreads[s + 1, row, j] = state[j], spread[j, j]
                        carried[s, row, j, j] = 1.0
            else:
                for j in range(dim):
                    mean[j] = state[j]
                    for k in range(dim):
                        predicted[j, k] = spread[j, k]
                        whole[j, k] = 1.0 if j == k else 0.0
                        later[j, k] = whole[j, k]
                step = gap / steps
                for s in range(steps):
                    _flow(mean, predicted, rates[0], step, drift, drift_coefficients, work, reach, slopes, end, middle)
                    for j in range(dim):
                        small[j] = predicted[j, j] + 0.5 * step * rates[0, j]
                    jacobian_at(middle, small, drift, drift_coefficients, drift_slopes, work, matrices[0])
                    _rate_at(middle, small, rate, rate_coefficients, floor, work, rates[1])
                    for j in range(dim):
                        small[j] += 0.5 * step * rates[1, j]
                    _rate_at(end, small, rate, rate_coefficients, floor, work, rates[2])
                    _exponential(step, matrices, once, half)
                    if steps == 1:
                        _note_middle(middle, predicted, half, rates[1], gap, places[1, row], spreads[1, row])
                        _copy(half, later)
                    _predict(predicted, once, half, rates, step, matrices[1])
                    _copy(matrices[1], predicted)
                    _multiply(once, whole, matrices[2])
                    _copy(matrices[2], whole)
                    if 2 * (s + 1) > steps > 1:
                        if 2 * s == steps:
                            _copy(once, later)
                        else:
                            _multiply(once, later, matrices[2])
                            _copy(matrices[2], later)
                    for j in range(dim):
                        mean[j], rates[0, j] = end[j], rates[2, j]
                    if 2 * (s + 1) == steps:
                        for j in range(dim):
                            places[1, row, j], spreads[1, row, j] = mean[j], predicted[j, j]
                _copy(whole, carried[0, row])
                _copy(later, carried[1, row])
                for j in range(dim):
                    places[2, row, j], spreads[2, row, j] = mean[j], predicted[j, j]
            for j in range(dim):
                innovation[row, j] = y[i + 1, j] - mean[j]
                variance[row, j] = predicted[j, j] + noise[j]
            loglik[row] = _update(
                mean, predicted, noise, innovation[row], exact, state, spread, gain[row], whiten[row], matrices
            )
            if exact:
                for j in range(dim):
                    state[j] = y[i + 1, j]
            row += 1


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def _rate_at(x, var, rate, coefficients, floor, work, out):
    """max(E[g(x + e)], floor) for normal e with these variances."""
    field_at(x, var, rate, coefficients, work, out)
    for j in range(len(x)):
        out[j] = max(out[j], floor[j])


@njit(cache=True, allocates=False, error_model="numpy")
def _euler(state, spread, rate, gap, drift, coefficients, work, small, mean, predicted):
    """One Euler step of mean and covariance."""
    for j in range(len(state)):
        small[j] = 0.0
    field_at(state, small, drift, coefficients, work, mean)
    for j in range(len(state)):
        mean[j] = state[j] + gap * mean[j]
        for k in range(len(state)):
            predicted[j, k] = spread[j, k]
        predicted[j, j] += gap * rate[j]


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def _flow(start, spread, rate, step, drift, coefficients, work, reach, slopes, end, middle):
    """The mean at the end of a step and in its middle, along E[f], by a classical Runge-Kutta step.

    The spread grows by the rate. In the middle the path is a cubic with the slopes at both ends.
    """
    dim = len(start)
    var, at = slopes[4], slopes[5]
    for j in range(dim):
        var[j], at[j] = spread[j, j], start[j]
    for stage in range(4):
        field_at(at, var, drift, coefficients, work, slopes[stage])
        ahead = 0.5 * step if stage < 2 else step
        for j in range(dim):
            at[j] = start[j] + ahead * slopes[stage, j]
            if stage != 1:
                var[j] += 0.5 * step * rate[j]
    for j in range(dim):
        k1, k2, k3, k4 = slopes[0, j], slopes[1, j], slopes[2, j], slopes[3, j]
        moved = start[j] + step / 6.0 * (k1 + 2.0 * k2 + 2.0 * k3 + k4)
        end[j] = min(max(moved, -reach), reach)
        inside = 0.5 * (start[j] + end[j]) + 0.125 * step * (k1 - k4)
        middle[j] = min(max(inside, -reach), reach)


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def _note_middle(middle, spread, half, rate, gap, place, variance):
    """Mean and variances of the state in the middle of a gap of one step."""
    dim = len(middle)
    for j in range(dim):
        place[j], variance[j] = middle[j], 0.5 * gap * rate[j]
        for a in range(dim):
            for b in range(dim):
                variance[j] += half[j, a] * spread[a, b] * half[j, b]


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def _copy(source, target):
    """One small matrix onto another."""
    for i in range(len(source)):
        for j in range(len(source)):
            target[i, j] = source[i, j]


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def _exponential(gap, matrices, whole, half):
    """exp(J h) and exp(J h / 2) of the Jacobian in the first matrix: a Taylor polynomial of a small part, squared.

    Errors grow in a step by a bounded factor: those of an equation that explodes tell nothing of its coefficients.
    """
    jacobian, part, term, other = matrices[0], matrices[1], matrices[2], matrices[3]
    dim = len(jacobian)
    if dim == 1:
        half[0, 0] = math.exp(min(0.5 * gap * jacobian[0, 0], _FASTEST))
        whole[0, 0] = half[0, 0] ** 2
        return
    norm = 0.0
    for i in range(dim):
        total = 0.0
        for j in range(dim):
            total += abs(gap * jacobian[i, j])
        norm = max(norm, total)
    squarings = 1
    while norm > 0.25 * 2.0**squarings and squarings < 20:
        squarings += 1
    size = norm / 2.0**squarings
    for i in range(dim):
        for j in range(dim):
            part[i, j] = gap * jacobian[i, j] / 2.0**squarings
            term[i, j] = part[i, j]
            half[i, j] = part[i, j] + (1.0 if i == j else 0.0)
    left, order = size, 1
    while left > 1e-10 and order < 12:
        order += 1
        left *= size / order
        _multiply(term, part, other)
        for i in range(dim):
            for j in range(dim):
                term[i, j] = other[i, j] / order
                half[i, j] += term[i, j]
    for _ in range(squarings - 1):
        _multiply(half, half, other)
        for i in range(dim):
            for j in range(dim):
                half[i, j] = other[i, j]
    _multiply(half, half, whole)
    most = 0.0
    for i in range(dim):
        for j in range(dim):
            most = max(most, abs(whole[i, j]))
    if not most <= math.exp(2.0 * _FASTEST):  # True if it is no number
        ratio = math.exp(_FASTEST) / math.sqrt(most)
        for i in range(dim):
            for j in range(dim):
                half[i, j] *= ratio
                whole[i, j] *= ratio**2


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def _multiply(a, b, out):
    """The product of two small matrices."""
    dim = len(a)
    for i in range(dim):
        for j in range(dim):
            out[i, j] = 0.0
            for k in range(dim):
                out[i, j] += a[i, k] * b[k, j]


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def _predict(spread, whole, half, rates, gap, out):
    """E P E' + ∫ e^{J s} g e^{J' s} ds, the integral by Simpson's rule."""
    dim = len(spread)
    for j in range(dim):
        for k in range(j + 1):
            total = gap / 6.0 * rates[2, j] if j == k else 0.0
            for a in range(dim):
                total += gap / 6.0 * whole[j, a] * rates[0, a] * whole[k, a]
                total += gap / 1.5 * half[j, a] * rates[1, a] * half[k, a]
                for b in range(dim):
                    total += whole[j, a] * spread[a, b] * whole[k, b]
            out[j, k] = total
            out[k, j] = total


@njit(cache=True, allocates=False, error_model="numpy", forceinline=True)
def _update(mean, predicted, noise, innovation, exact, state, spread, gain, inverse, matrices):
    """Take in an observation; returns log N(innovation; 0, predicted + noise).

    By a Cholesky factor L of the variance of the innovation: with U = L⁻¹ P and w = L⁻¹ ν the state moves by U' w, and
    P - U' U is left. The gain P S⁻¹ = U' L⁻¹ and L⁻¹ are kept.
    """
    dim = len(mean)
    root, carried, white = matrices[4], matrices[5], matrices[6, 0]
    square, logdet = 0.0, 0.0
    for i in range(dim):
        for j in range(i + 1):
            total = predicted[i, j] + (noise[i] if i == j else 0.0)
            for k in range(j):
                total -= root[i, k] * root[j, k]
            if i == j:
                root[i, i] = math.sqrt(max(total, _ROUNDING * (predicted[i, i] + noise[i])))
            else:
                root[i, j] = total / root[j, j]
        logdet += math.log(root[i, i])
        total = innovation[i]
        for k in range(i):
            total -= root[i, k] * white[k]
        white[i] = total / root[i, i]
        square += white[i] ** 2
        for j in range(i + 1):
            unit = 1.0 if i == j else 0.0
            for k in range(j, i):
                unit -= root[i, k] * inverse[k, j]
            inverse[i, j] = unit / root[i, i]
    if exact:
        for i in range(dim):
            gain[i, i] = 1.0
            for j in range(dim):
                spread[i, j] = 0.0
        return -0.5 * square - logdet - 0.5 * dim * math.log(2.0 * math.pi)
    for i in range(dim):
        for j in range(dim):
            total = predicted[i, j]
            for k in range(i):
                total -= root[i, k] * carried[k, j]
            carried[i, j] = total / root[i, i]
    for i in range(dim):
        state[i] = mean[i]
        for k in range(dim):
            state[i] += carried[k, i] * white[k]
        for j in range(dim):
            left, gain[i, j] = predicted[i, j], 0.0
            for k in range(dim):
                left -= carried[k, i] * carried[k, j]
                gain[i, j] += carried[k, i] * inverse[k, j]
            spread[i, j] = max(left, 0.0) if i == j else left
    return -0.5 * square - logdet - 0.5 * dim * math.log(2.0 * math.pi)


@njit(cache=True, error_model="numpy")
def level_likelihood(y, dtau, starts, ratio):
    """Log likelihood of y = x + e, dx = sqrt(g) dW with var e = ratio g, at the best g; and that g."""
    squares, logs, num = 0.0, 0.0, 0
    for p in range(len(starts) - 1):
        state, spread = y[starts[p]], ratio
        for i in range(starts[p], starts[p + 1] - 1):
            predicted = spread + dtau[i]
            total = predicted + ratio
            error, gain = y[i + 1] - state, predicted / total
            squares += error * error / total
            logs += math.log(total)
            state += gain * error
            spread = (1.0 - gain) * predicted
            num += 1
    rate = squares / num
    return -0.5 * (num * math.log(rate) + logs + num), rate
