"""Compiled kernels of the prior: Euler paths with early rejection, corruption, locations, fields.

Paths are simulated in float32, as the authors did, 32 paths at a time (see `lanes`). No operation is reordered or
fused unless written so, hence results do not depend on the width of the machine's vectors.
"""
# mypy: ignore-errors
# (numba infers the types of kernels; intrinsics have no signature that mypy could read)

import inspect
from typing import NamedTuple

import numpy as np

from fimsde.compiler import njit
from fimsde.prior.lanes import WIDTH, clipped_root, fma, lanes_beyond, load, store
from fimsde.prior.law_kernels import draw_polynomials
from fimsde.prior.noise_kernels import BUFFER, below, derive, new_normals, restart, take, uniform
from fimsde.simulate import euler_step

u32, u64, f32 = np.uint32, np.uint64, np.float32

_QUERIES = 256  # locations evaluated together: 20 monomials in float64 are 40 kB, which stay in the second-level cache

_euler_step = njit(inspect.unwrap(euler_step))  # unwrap: under test, functions of the package carry shape checks


class StepProgram(NamedTuple):
    """The monomials present in the 2 dim polynomials of one equation: all that a step evaluates.

    Positions are places in the table `rows` that holds every monomial for 32 paths.
    """

    products: np.ndarray  # uint64 (terms, 3): position of a monomial, of its parent, and of the variable between them
    num_products: np.ndarray  # uint64 (1,)
    starts: np.ndarray  # uint64 (2 dim + 1,): the terms of each polynomial, drift components first
    terms: np.ndarray  # uint64: positions of the monomials
    coefficients: np.ndarray  # float32


class Grid(NamedTuple):
    """When a path is observed, and what makes it invalid."""

    dt: np.float32  # length of an Euler step
    substeps: int
    limit: np.float32


# ---------------------------------------------------------------------------------------------------- programs


@njit(cache=True)
def _new_program(dim, num_terms):
    size = 2 * dim * num_terms
    return StepProgram(
        np.empty((num_terms, 3), np.uint64),
        np.empty(1, np.uint64),
        np.empty(2 * dim + 1, np.uint64),
        np.empty(size, np.uint64),
        np.empty(size, np.float32),
    )


@njit(cache=True)
def _write_program(program, law, drift, diffusion):
    dim = drift.shape[0]
    needed = np.zeros(law.parent.size, np.bool_)
    size = 0
    for polynomial in range(2 * dim):
        program.starts[polynomial] = size
        coefficients = drift[polynomial] if polynomial < dim else diffusion[polynomial - dim]
        for monomial in range(coefficients.size):
            if coefficients[monomial] != 0.0:
                program.terms[size] = monomial * WIDTH
                program.coefficients[size] = coefficients[monomial]
                needed[monomial] = True
                size += 1
    program.starts[2 * dim] = size
    for monomial in range(needed.size - 1, dim, -1):  # a product needs its factors
        needed[law.parent[monomial]] |= needed[monomial]
    num_products = 0
    for monomial in range(dim + 1, needed.size):  # the constant and the variables themselves are always there
        if needed[monomial]:
            program.products[num_products, 0] = monomial * WIDTH
            program.products[num_products, 1] = law.parent[monomial] * WIDTH
            program.products[num_products, 2] = (1 + law.variable[monomial]) * WIDTH
            num_products += 1
    program.num_products[0] = num_products


# ------------------------------------------------------------------------------------------------------- paths


@njit(cache=True)
def draw_paths(key, law, grid, max_proposals, early, values, drift, diffusion):
    """Propose equations until one keeps all its paths inside the limit; returns the number of proposals, or -1.

    `values` (paths, times, dim), `drift` and `diffusion` (dim, terms) receive the accepted equation.

    Early rejection leaves the law of accepted equations unchanged: an equation is rejected if any path breaks the rule
    at any observation, so the first violation decides, whatever comes after it; and proposal number p draws all its
    random numbers from its own key, so where an earlier proposal was stopped has no influence on it. With `early`
    False every proposal runs to the end; a test compares the bytes.
    """
    num_paths, _, dim = values.shape
    normals = new_normals()
    program = _new_program(dim, law.parent.size)
    rows = np.ones(law.parent.size * WIDTH, np.float32)
    for proposal in range(max_proposals):
        draw_polynomials(derive(key, proposal), law, normals, drift, diffusion)
        _write_program(program, law, drift, diffusion)
        accepted = True
        for first in range(0, num_paths, WIDTH):
            accepted &= _run_paths(program, normals, grid, early, rows, values[first : first + WIDTH])
            if early and not accepted:
                break
        if accepted:
            return proposal + 1
    return -1


@njit(cache=True)
def _run_paths(program, normals, grid, early, rows, values):
    """Simulate up to 32 paths from standard normal states; False if any of them breaks the rule."""
    num_paths, num_times, dim = values.shape
    stride = (num_paths + 7) // 8 * 8  # normals drawn per component; spare lanes read their neighbours' and are ignored
    used_lanes = u32(0xFFFFFFFF) >> u32(WIDTH - num_paths)
    moved = np.empty(dim * WIDTH, np.float32)
    start = take(normals, dim * stride)
    for d in range(dim):
        store(rows, u64((1 + d) * WIDTH), load(normals.buffer, u64(start + d * stride)))
    inside = True
    for time in range(num_times):
        if time > 0:
            for _ in range(grid.substeps):
                noise = take(normals, dim * stride)
                _advance(program, rows, moved, u64(dim), grid.dt, normals.buffer, u64(noise), u64(stride))
        for d in range(dim):
            position = (1 + d) * WIDTH
            inside &= (lanes_beyond(load(rows, u64(position)), grid.limit) & used_lanes) == u32(0)
            for path in range(num_paths):
                values[path, time, d] = rows[position + path]
        if early and not inside:
            break
    return inside


@njit(cache=True, forceinline=True)
def _advance(program, rows, moved, dim, dt, noise, position, stride):
    """One Euler step of 32 paths, whose states are rows 1..dim of the table of monomials."""
    for j in range(program.num_products[0]):
        product = load(rows, program.products[j, u64(1)]) * load(rows, program.products[j, u64(2)])
        store(rows, program.products[j, u64(0)], product)
    for d in range(dim):
        drift = _polynomial(program, rows, d)
        diffusion = clipped_root(_polynomial(program, rows, dim + d))
        x = load(rows, (d + u64(1)) * u64(WIDTH))
        store(moved, d * u64(WIDTH), _euler_step(x, drift, diffusion, dt, load(noise, position + d * stride)))
    for d in range(dim):  # only now: every component steps from the old state
        store(rows, (d + u64(1)) * u64(WIDTH), load(moved, d * u64(WIDTH)))


@njit(cache=True, forceinline=True)
def _polynomial(program, rows, number):
    start = program.starts[number]
    total = program.coefficients[start] * load(rows, program.terms[start])
    for t in range(start + u64(1), program.starts[number + u64(1)]):
        total = fma(program.coefficients[t], load(rows, program.terms[t]), total)
    return total


# ------------------------------------------------------------------------------ items, corruption and locations


@njit(cache=True)
def bounds(values):
    """Smallest and largest value of each component of `values` (paths, times, dim): (2, dim)."""
    num_paths, _, dim = values.shape
    rows = values.reshape(num_paths, -1)
    low, high = rows[0].copy(), rows[0].copy()
    for path in range(1, num_paths):  # over paths first: these loops become vector instructions
        row = rows[path]
        for j in range(row.size):
            low[j] = row[j] if row[j] < low[j] else low[j]
            high[j] = row[j] if row[j] > high[j] else high[j]
    out = np.empty((2, dim), values.dtype)
    for d in range(dim):
        out[0, d], out[1, d] = low[d::dim].min(), high[d::dim].max()
    return out


@njit(cache=True)
def add_noise(key, noise_std, clean):
    """`clean` (paths, times, dim) plus normal noise of standard deviation `noise_std` (dim,)."""
    normals = new_normals()
    restart(normals, key)
    noisy = np.empty_like(clean)
    source, target = clean.reshape(-1), noisy.reshape(-1)
    portion = BUFFER // noise_std.size * noise_std.size  # whole states, so that all portions have the same scales
    scales = np.empty(portion, np.float32)
    for d in range(noise_std.size):
        scales[d :: noise_std.size] = noise_std[d]
    for first in range(0, source.size, portion):
        some, out = source[first : first + portion], target[first : first + portion]
        noise = normals.buffer[take(normals, some.size) :]
        for j in range(some.size):
            out[j] = some[j] + scales[j] * noise[j]
    return noisy


@njit(cache=True)
def keep_some(key, survival, mask):
    """Set each entry of `mask` (paths, times) with probability `survival`."""
    counter = np.full(1, key, np.uint64)
    for path in range(mask.shape[0]):
        for time in range(mask.shape[1]):
            mask[path, time] = uniform(counter) < survival


@njit(cache=True)
def choose_distinct(key, n, k):
    """k different numbers of 0..n-1, every set equally likely (Floyd's algorithm)."""
    counter = np.full(1, key, np.uint64)
    is_chosen = np.zeros(n, np.bool_)
    chosen = np.empty(k, np.int64)
    for j in range(k):
        last = n - k + j
        candidate = below(counter, last + 1)
        chosen[j] = last if is_chosen[candidate] else candidate
        is_chosen[chosen[j]] = True
    return chosen


@njit(cache=True)
def grid_nodes(box, per_axis, numbers):
    """The nodes with these numbers of the regular grid over `box` (2, dim), the last axis fastest: (nodes, dim)."""
    dim = box.shape[1]
    out = np.empty((numbers.size, dim))
    for row in range(numbers.size):
        rest = numbers[row]
        for d in range(dim - 1, -1, -1):
            share = (rest % per_axis) / max(1, per_axis - 1)
            out[row, d] = box[0, d] + (box[1, d] - box[0, d]) * share
            rest //= per_axis
    return out


@njit(cache=True)
def evaluate(coefficients, parent, variable, x):
    """Polynomials with `coefficients` (polynomials, terms) at x (queries, dim), in float64: (queries, polynomials)."""
    num_polynomials, num_terms = coefficients.shape
    num_queries, dim = x.shape
    out = np.empty((num_queries, num_polynomials))
    rows = np.ones((num_terms, _QUERIES))
    total = np.empty(_QUERIES)
    for first in range(0, num_queries, _QUERIES):
        n = min(_QUERIES, num_queries - first)
        for m in range(1, num_terms):
            row, factor, last = rows[m], rows[parent[m]], rows[1 + variable[m]]
            for q in range(n):  # explicit loops: array expressions would allocate
                row[q] = x[first + q, m - 1] if m <= dim else factor[q] * last[q]
        for polynomial in range(num_polynomials):
            total[:] = 0.0
            for m in range(num_terms):
                coefficient, row = coefficients[polynomial, m], rows[m]
                if coefficient != 0.0:
                    for q in range(n):
                        total[q] += coefficient * row[q]
            for q in range(n):
                out[first + q, polynomial] = total[q]
    return out
