"""numba kernel of monomials at many places."""
# mypy: allow-untyped-defs, allow-incomplete-defs
# (numba infers the types of kernels)

import numpy as np

from fimsde.compiler import njit


@njit(cache=True)
def fill_monomials(x, noise_var, lower, component, power, out):
    """Each monomial as a lower one times a power of a component, where h_p(x) has the expectation u^p if x = u + noise.

    These powers are Hermite polynomials: h_p = x h_{p-1} - (p - 1) v h_{p-2} with the variance v of the noise.
    """
    dim, degree = x.shape[1], power.max()
    powers = np.ones((dim, degree + 1))
    for i in range(len(x)):
        for j in range(dim):
            powers[j, 1:2] = x[i, j]
            for p in range(2, degree + 1):
                powers[j, p] = x[i, j] * powers[j, p - 1] - (p - 1) * noise_var[j] * powers[j, p - 2]
        out[i, 0] = 1.0
        for k in range(1, len(lower)):
            out[i, k] = out[i, lower[k]] * powers[component[k], power[k]]
