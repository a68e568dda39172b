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
    """Places worth a look, the better ones first: the mean, the centre of the cubic part, and a coarse grid."""
    dim = len(post.mean)
    axis = np.linspace(-1.5, 1.5, 7 if dim < 3 else 4)
    grid = np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)
    centre = _cubic_centre(post)[None]
    near = np.isfinite(centre).all() and np.abs(centre).max() <= _FAR
    return np.concatenate([np.zeros((1, dim)), centre if near else centre[:0], grid])


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
