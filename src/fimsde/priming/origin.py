"""Sparse polynomials, and the origin around which they are sparse.

Equations are usually written around a place of their own (an equilibrium, a symmetry), and there they have few terms.
The estimate must not depend on the zero of the user's scale, so the place is unknown and averaged over.
"""

from collections.abc import Sequence
from functools import cache

import numpy as np

from fimsde.priming import monomials
from fimsde.priming.fit import Posterior
from fimsde.priming.selection.compiled import average_over_origins
from fimsde.shapes import Array, Float64

_REACH = 2.25  # standard deviations from the mean within which origins are looked for
_PER_AXIS = {1: 31, 2: 13, 3: 5}
_ROUNDS = 6  # halvings of the spacing around the best place


def sparse_averages(
    post: Posterior,
    degree: int,
    penalties: Sequence[float],
    origin: Float64[Array, " dim"] | None,
    parity: int | None = None,
) -> Float64[Array, "penalties dim terms"]:
    """For each penalty per term, the average over models that are sparse in (x - origin), and over unknown origins.

    With a parity, only terms of odd (1) or even (0) degree: equations that a reflection at the origin leaves alone.
    """
    dim = len(post.mean)
    degrees = monomials.exponents(dim, degree).sum(axis=1)
    allowed = np.ones(len(degrees), np.bool_) if parity is None else degrees % 2 == parity
    places, spacing = (_grid(dim), 2 * _REACH / (_PER_AXIS[dim] - 1)) if origin is None else (origin[None], 0.0)
    return average_over_origins(
        post.mean,
        np.linalg.inv(post.precision),
        allowed,
        np.array(penalties),
        *monomials.shift_terms(dim, degree),
        places,
        spacing,
        _ROUNDS if origin is None else 0,
    )


@cache
def _grid(dim: int) -> Float64[Array, "places dim"]:
    """Places around the mean of the data, in normalised coordinates."""
    axis = np.linspace(-_REACH, _REACH, _PER_AXIS[dim])
    return np.stack(np.meshgrid(*[axis] * dim, indexing="ij"), axis=-1).reshape(-1, dim)


def shrunk(post: Posterior, width: Float64[Array, "dim terms"]) -> Posterior:
    """The posterior after a further normal prior around zero: few data must not give large coefficients."""
    precision = post.precision + np.eye(post.mean.shape[1]) / width[:, :, None] ** 2
    return Posterior(np.linalg.solve(precision, post.precision @ post.mean[..., None])[..., 0], precision)
