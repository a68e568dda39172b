"""Compiled kernel of the filter: one Kalman recursion over all paths."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit


@njit(cache=True)
def factor(matrix, lower):
    """Cholesky's factor of a positive definite matrix into `lower`; False if a pivot is not positive."""
    dim = len(matrix)
    for i in range(dim):
        for j in range(i + 1):
            left = matrix[i, j]
            for k in range(j):
                left -= lower[i, k] * lower[j, k]
            if i == j:
                if not left > 0.0:
                    return False
                lower[i, i] = np.sqrt(left)
            else:
                lower[i, j] = left / lower[j, j]
    return True


@njit(cache=True)
def symmetrise(matrix):
    """The mean of a matrix and its transpose, in place: what rounding adds to the difference would grow with chaos."""
    for i in range(len(matrix)):
        for j in range(i):
            matrix[i, j] = matrix[j, i] = 0.5 * (matrix[i, j] + matrix[j, i])


@njit(cache=True)
def run(y, path_starts, start, ahead, matrix, covariance, noise_var, innovation, white, factors, mean, variance):
    """Fill innovations, whitened ones, their factors, filtered means and variances; the log-likelihood of each step.

    A path begins at its first observation, known up to the noise. Components without noise are known afterwards.
    Steps whose covariance is singular have the likelihood minus infinity, and zeros for innovations.
    """
    dim = y.shape[1]
    likelihood = np.empty(len(ahead))
    p, s, lower = np.zeros((dim, dim)), np.zeros((dim, dim)), np.zeros((dim, dim))
    carried, gain = np.zeros((dim, dim)), np.zeros((dim, dim))
    m, v, z = np.zeros(dim), np.zeros(dim), np.zeros(dim)
    step = 0
    for path in range(len(path_starts) - 1):
        first = path_starts[path]
        for i in range(dim):
            m[i] = y[first, i]
            for j in range(dim):
                p[i, j] = noise_var[i] if i == j else 0.0
            mean[first, i], variance[first, i] = m[i], p[i, i]
        for row in range(first + 1, path_starts[path + 1]):
            for i in range(dim):  # the mean ahead of the observation
                v[i] = ahead[step, i]
                for k in range(dim):
                    v[i] += matrix[step, i, k] * (m[k] - start[step, k])
                    carried[i, k] = 0.0
                    for l in range(dim):  # noqa: E741
                        carried[i, k] += matrix[step, i, l] * p[l, k]
            for i in range(dim):
                m[i] = v[i]
                v[i] = y[row, i] - m[i]
                for j in range(dim):
                    p[i, j] = covariance[step, i, j]
                    for k in range(dim):
                        p[i, j] += carried[i, k] * matrix[step, j, k]
                    s[i, j] = p[i, j]
                s[i, i] += noise_var[i]
            good = factor(s, lower)
            likelihood[step] = -0.5 * dim * np.log(2 * np.pi) if good else -np.inf
            for i in range(dim):
                left = v[i]
                for k in range(i):
                    left -= lower[i, k] * z[k]
                z[i] = left / lower[i, i] if good else 0.0
                innovation[step, i], white[step, i] = v[i], z[i]
                for j in range(i + 1):
                    factors[step, i, j] = lower[i, j] if good else np.nan
                if good:
                    likelihood[step] -= 0.5 * z[i] ** 2 + np.log(lower[i, i])
            for i in range(dim):  # gain' = L^-1 p, so that mean and covariance need no inverse
                for j in range(dim):
                    left = p[i, j]
                    for k in range(i):
                        left -= lower[i, k] * gain[k, j]
                    gain[i, j] = left / lower[i, i] if good else 0.0
            for i in range(dim):
                for k in range(dim):
                    m[i] += gain[k, i] * z[k]
                    for j in range(dim):
                        p[i, j] -= gain[k, i] * gain[k, j]
            symmetrise(p)
            for i in range(dim):
                if noise_var[i] == 0.0:
                    m[i] = y[row, i]
                    for j in range(dim):
                        p[i, j], p[j, i] = 0.0, 0.0
                p[i, i] = max(p[i, i], 0.0)
                mean[row, i], variance[row, i] = m[i], p[i, i]
            step += 1
    return likelihood


@njit(cache=True)
def respond(path_starts, matrix, factors, covariance, noise_var, inputs):
    """What further drift would do to whitened innovations: inputs (n, dim, k) move the state, the filter knows nothing.

    `inputs` are displacements over each step; `factors` those of `run`. Linear in the inputs.
    """
    n, dim, num = inputs.shape
    out = np.zeros((n, dim, num))
    missed, ahead = np.zeros((dim, num)), np.zeros((dim, num))
    p, carried, gain = np.zeros((dim, dim)), np.zeros((dim, dim)), np.zeros((dim, dim))
    step = 0
    for path in range(len(path_starts) - 1):
        missed[:] = 0.0
        for i in range(dim):
            for j in range(dim):
                p[i, j] = noise_var[i] if i == j else 0.0
        for _ in range(path_starts[path] + 1, path_starts[path + 1]):
            lower = factors[step]
            for i in range(dim):
                for k in range(num):
                    ahead[i, k] = inputs[step, i, k]
                    for j in range(dim):
                        ahead[i, k] += matrix[step, i, j] * missed[j, k]
                for j in range(dim):
                    carried[i, j] = 0.0
                    for k in range(dim):
                        carried[i, j] += matrix[step, i, k] * p[k, j]
            for i in range(dim):
                for j in range(dim):
                    p[i, j] = covariance[step, i, j]
                    for k in range(dim):
                        p[i, j] += carried[i, k] * matrix[step, j, k]
            for i in range(dim):
                for k in range(num):
                    left = ahead[i, k]
                    for j in range(i):
                        left -= lower[i, j] * out[step, j, k]
                    out[step, i, k] = left / lower[i, i]
                for j in range(dim):
                    left = p[i, j]
                    for k in range(i):
                        left -= lower[i, k] * gain[k, j]
                    gain[i, j] = left / lower[i, i]
            for i in range(dim):
                for k in range(num):
                    missed[i, k] = ahead[i, k]
                    for j in range(dim):
                        missed[i, k] -= gain[j, i] * out[step, j, k]
                    if noise_var[i] == 0.0:
                        missed[i, k] = 0.0
            for i in range(dim):
                for j in range(dim):
                    for k in range(dim):
                        p[i, j] -= gain[k, i] * gain[k, j]
            symmetrise(p)
            for i in range(dim):
                if noise_var[i] == 0.0:
                    for j in range(dim):
                        p[i, j], p[j, i] = 0.0, 0.0
            step += 1
    return out
