"""Random polynomials: which monomials an equation has, and their coefficients."""
# mypy: ignore-errors
# (numba infers the types of kernels)

from typing import NamedTuple

import numpy as np

from fimsde.compiler import njit
from fimsde.prior.noise_kernels import below, bits, choose, derive, new_normals, restart, take, uniform

f32 = np.float32

# Sparse equations are ours, not the paper's (docs/prior.md, "Two more families"); the shares were set by hand.
_SPARSE_DEGREES = np.array([0.1, 0.35, 0.2, 0.35])  # shares of the degrees of the terms of a sparse drift
_ODD_SHARE = 0.4  # of the sparse equations: unchanged by a reflection at the origin
_ODD_DEGREES = np.array([0.0, 0.5, 0.0, 0.5])  # the same where a reflection changes nothing: odd ones only
_RADIAL_SHARE = 0.15  # of the sparse equations in two and more dimensions: damped by -x |x|² in every component
_SPARSE_DIFFUSIONS = np.array([0.55, 0.2, 0.15, 0.1])  # shares: constant, one more term, growing, vanishing


class Law(NamedTuple):
    """The law of the polynomials for one dimension, and the table of their monomials, degree by degree."""

    drift_first: np.ndarray  # int64 (degrees + 1,): where the monomials of each degree begin
    drift_most: int  # largest number of degrees present at once
    diffusion_first: np.ndarray
    diffusion_most: int
    parent: np.ndarray  # int64 (terms,): monomial m is monomial parent[m] times variable[m]
    variable: np.ndarray
    sparse_share: float  # probability of an equation with few terms


@njit(cache=True)
def draw_polynomials(key, law, normals, drift, diffusion):
    """Draw all components of one equation; `drift` and `diffusion` (dim, terms) receive the coefficients."""
    counter = np.full(1, key, np.uint64)
    restart(normals, bits(counter))
    if law.sparse_share > 0.0 and uniform(counter) < law.sparse_share:
        _draw_sparse(counter, law, normals, drift, diffusion)
        return
    for component in range(drift.shape[0]):
        _draw_polynomial(counter, law.drift_first, law.drift_most, normals, drift[component])
        _draw_polynomial(counter, law.diffusion_first, law.diffusion_most, normals, diffusion[component])


@njit(cache=True)
def _draw_polynomial(counter, first, most_degrees, normals, coefficients):
    coefficients[:] = f32(0.0)
    degrees = np.empty(first.size - 1, np.int64)
    monomials = np.empty(coefficients.size, np.int64)
    num_degrees = 1 + below(counter, most_degrees)
    choose(counter, degrees.size, num_degrees, degrees)
    for degree in degrees[:num_degrees]:
        available = first[degree + 1] - first[degree]
        num_monomials = 1 + below(counter, available)
        choose(counter, available, num_monomials, monomials)
        for monomial in monomials[:num_monomials]:
            coefficients[first[degree] + monomial] = normals.buffer[take(normals, 1)]


@njit(cache=True)
def _draw_sparse(counter, law, normals, drift, diffusion):
    """Few terms per component, often a damping one, mostly constant diffusion; many that a reflection leaves alone."""
    drift[:], diffusion[:] = f32(0.0), f32(0.0)
    pace = 0.5 + 3.5 * uniform(counter) ** 2
    rough = pace * (0.002 + 2.0 * uniform(counter) ** 4)
    shared, odd = uniform(counter) < 0.5, uniform(counter) < _ODD_SHARE
    radial = drift.shape[0] > 1 and uniform(counter) < _RADIAL_SHARE
    damping = f32(pace) * abs(normals.buffer[take(normals, 1)])
    for component in range(drift.shape[0]):
        for _ in range(1 + below(counter, 4)):
            degree = draw_category(counter, _ODD_DEGREES if odd else _SPARSE_DEGREES)
            monomial = law.drift_first[degree] + below(counter, law.drift_first[degree + 1] - law.drift_first[degree])
            drift[component, monomial] = f32(pace) * normals.buffer[take(normals, 1)]
        if radial:
            for other in range(drift.shape[0]):
                drift[component, _square_times(law, other, component)] = -damping
        elif uniform(counter) < 0.8:
            power = 1 if below(counter, 3) == 0 else 3
            drift[component, _power(law, component, power)] = -f32(pace) * abs(normals.buffer[take(normals, 1)])
        own = rough if shared else pace * (0.002 + 2.0 * uniform(counter) ** 4)
        kind = draw_category(counter, _SPARSE_DIFFUSIONS)
        diffusion[component, 0] = f32(0.1 * own) if kind == 2 else f32(own)
        if kind == 1:
            first = law.diffusion_first[2 if odd else 1]
            monomial = first + below(counter, diffusion.shape[1] - first)
            diffusion[component, monomial] = f32(own) * normals.buffer[take(normals, 1)]
        elif kind >= 2:
            variable = below(counter, drift.shape[0])
            size = f32(own) * abs(normals.buffer[take(normals, 1)])
            diffusion[component, _power(law, variable, 2)] = size if kind == 2 else f32(-0.5) * size


@njit(cache=True)
def _times(law, monomial, variable):
    """Number of the monomial times a variable, which must not come before its own."""
    child = monomial + 1
    while law.parent[child] != monomial or law.variable[child] != variable:
        child += 1
    return child


@njit(cache=True)
def _power(law, variable, power):
    """Number of the monomial variable**power."""
    monomial = 0
    for _ in range(power):
        monomial = _times(law, monomial, variable)
    return monomial


@njit(cache=True)
def _square_times(law, squared, variable):
    """Number of the monomial squared**2 variable."""
    if squared <= variable:
        return _times(law, _power(law, squared, 2), variable)
    return _times(law, _times(law, _times(law, 0, variable), squared), squared)


@njit(cache=True)
def draw_many_polynomials(key, law, drift, diffusion):
    """One draw before any rejection for each row of `drift` and `diffusion` (draws, dim, terms)."""
    normals = new_normals()
    for draw in range(drift.shape[0]):
        draw_polynomials(derive(key, draw), law, normals, drift[draw], diffusion[draw])


@njit(cache=True)
def draw_category(counter, shares):
    """An index with probability proportional to its share."""
    point = uniform(counter) * shares.sum()
    for index in range(shares.size - 1):
        point -= shares[index]
        if point < 0.0:
            return index
    return shares.size - 1
