"""Where a polynomial is simplest: the origin around which the fewest terms explain the data.

Equations are usually written around a place of their own (an equilibrium, a symmetry), and there they are sparse. The
estimate must not depend on the zero of the user's scale, so the place is searched for.
"""

import numpy as np

from fimsde.priming import compiled, monomials
from fimsde.priming.fit import Posterior
from fimsde.priming.windows import DRIFT_DEGREE
from fimsde.shapes import Array, Float64

_FAR = 3.0  # standard deviations from the mean beyond which no origin is looked for
_NEWTON_STEPS = 8


def around_origin(
    post: Posterior, origin: Float64[Array, " dim"] | None, penalty: float
) -> Float64[Array, "dim terms"]:
    """Average over models that are sparse in (x - origin); with None, around the sparsest origin that is found."""
    tables = monomials.shift_terms(len(post.mean), DRIFT_DEGREE)
    if origin is not None:
        averages = np.empty_like(post.mean)
        compiled.score_at(origin, post.mean, post.precision, penalty, *tables, averages)
        return averages
    return compiled.sparsest_origin(post.mean, post.precision, penalty, *tables, _starts(post))[2]


def _starts(post: Posterior) -> Float64[Array, "starts dim"]:
    """Places worth a look: a coarse grid, the centre of the cubic part, and the zeros of the drift."""
    dim = len(post.mean)
    axis = np.linspace(-1.5, 1.5, 7 if dim < 3 else 4)
    grid = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    special = np.concatenate([_cubic_centre(post)[None], _zeros_of_drift(post.mean, grid[:: max(1, len(grid) // 9)])])
    near = np.isfinite(special).all(axis=1) & (np.abs(special) <= _FAR).all(axis=1)
    return np.concatenate([special[near], np.zeros((1, dim)), grid])


def _cubic_centre(post: Posterior) -> Float64[Array, " dim"]:
    """The shift that makes the quadratic terms smallest in units of their errors; they depend on it linearly."""
    dim, terms = post.mean.shape
    tables = monomials.shift_terms(dim, DRIFT_DEGREE)
    quadratic = monomials.exponents(dim, DRIFT_DEGREE).sum(axis=1) == 2
    error = np.sqrt(np.diagonal(np.linalg.inv(post.precision), axis1=1, axis2=2))[:, quadratic]
    at_zero = post.mean[:, quadratic]
    slopes = [(post.mean @ compiled.shift_matrix(unit, *tables, terms))[:, quadratic] - at_zero for unit in np.eye(dim)]
    design = np.stack([(slope / error).ravel() for slope in slopes], axis=1)
    return np.linalg.lstsq(design, -(at_zero / error).ravel(), rcond=1e-9)[0]


def _zeros_of_drift(
    mean: Float64[Array, "dim terms"], starts: Float64[Array, "starts dim"]
) -> Float64[Array, "zeros dim"]:
    """Fixed points of the fitted drift, by Newton's method from a few starts; not found ones are NaN."""
    dim = len(mean)
    derivatives = [monomials.derivative(dim, DRIFT_DEGREE, j) @ mean.T for j in range(dim)]
    x = np.concatenate([np.zeros((1, dim)), starts])
    for _ in range(_NEWTON_STEPS):
        features = monomials.evaluate(x, DRIFT_DEGREE)
        jacobian = np.stack([features @ slope for slope in derivatives], axis=-1)  # (starts, dim, dim)
        damping = 1e-9 * np.abs(jacobian).max(axis=(1, 2), keepdims=True) + np.finfo(float).tiny
        step = np.linalg.solve(jacobian + damping * np.eye(dim), (features @ mean.T)[..., None])[..., 0]
        x = np.clip(x - np.clip(step, -1.0, 1.0), -2 * _FAR, 2 * _FAR)
    found = np.abs(step).max(axis=1) < 1e-3
    rounded, index = np.unique(np.round(x[found], 2), axis=0, return_index=True)
    return x[found][index] if len(rounded) else np.full((1, dim), np.nan)
