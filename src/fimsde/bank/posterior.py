"""Normal posteriors of polynomial coefficients: made from moment conditions, shrunk, conditioned on missing terms."""

from dataclasses import dataclass

import numpy as np

from fimsde.shapes import Array, Bool, Float64

_LEAST_EIGENVALUE = 1e-6  # of the largest: keeps the matrix invertible in float64
_RIDGE = 1e-12  # of the mean variance: lets rounding errors pass, changes nothing that float64 can hold


@dataclass(frozen=True)
class Posterior:
    """b ~ N(mean, precision⁻¹): coefficients of a polynomial, independently for every state component."""

    mean: Float64[Array, "dim terms"]
    precision: Float64[Array, "dim terms terms"]


@dataclass(frozen=True)
class PolynomialFit:
    """Drift (degree 3) and variance rate g (degree 2) with posteriors, in normalised coordinates."""

    drift: Posterior
    diffusion_sq: Posterior
    num_windows: int


def solve(
    cross: Float64[Array, "dim terms terms"],
    right: Float64[Array, "dim terms"],
    noise: Float64[Array, "dim terms terms"],
    prior: Float64[Array, "dim terms terms"],
) -> Posterior:
    """precision = C' N⁻¹ C + P and mean = precision⁻¹ C' N⁻¹ r, the posterior of b given C b = r + noise.

    Args:
        cross: C, sums of instruments times integrated features.
        right: r, sums of instruments times responses.
        noise: N, the covariance of the errors of r.
        prior: P, the precision of b before the data.
    """
    terms = cross.shape[1]
    ridge = _RIDGE * np.trace(noise, axis1=1, axis2=2)[:, None, None] / terms * np.eye(terms)
    whitened = np.linalg.solve(noise + ridge, np.concatenate([cross, right[..., None]], axis=2))
    transposed = np.swapaxes(cross, 1, 2)
    precision = transposed @ whitened[..., :-1] + prior
    precision = _definite(0.5 * (precision + np.swapaxes(precision, 1, 2)))
    mean = np.linalg.solve(precision, (transposed @ whitened[..., -1:]))[..., 0]
    return Posterior(mean, precision)


def _definite(precision: Float64[Array, "dim terms terms"]) -> Float64[Array, "dim terms terms"]:
    """The precision; where rounding took a direction away that the data do not see, rounding is what is known of it."""
    try:
        np.linalg.cholesky(precision)
        return precision
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(precision)
        least = precision.shape[1] * np.finfo(np.float64).eps * values[:, -1:]
        return np.einsum("dij,dj,dkj->dik", vectors, np.maximum(values, least), vectors)


def positive(noise: Float64[Array, "dim terms terms"]) -> Float64[Array, "dim terms terms"]:
    """V max(Λ, 1e-6 λ_max) V', the nearest matrix with no eigenvalue below a millionth of the largest."""
    values, vectors = np.linalg.eigh(noise)
    values = np.maximum(values, _LEAST_EIGENVALUE * values[:, -1:])
    return np.einsum("dij,dj,dkj->dik", vectors, values, vectors)


def shrunk(post: Posterior, width: Float64[Array, " dim"]) -> Posterior:
    """(P + I / width²)⁻¹ P m: the posterior after a further prior N(0, width²): few data give no large terms."""
    precision = post.precision + np.eye(post.mean.shape[1]) / width[:, None, None] ** 2
    return Posterior(np.linalg.solve(precision, post.precision @ post.mean[..., None])[..., 0], precision)


def conditioned(post: Posterior, kept: Bool[Array, " terms"]) -> Float64[Array, "dim terms"]:
    """P_kk⁻¹ (P m)_k: the posterior mean given that the terms not kept are zero."""
    out = np.zeros_like(post.mean)
    right = (post.precision @ post.mean[..., None])[:, kept]
    out[:, kept] = np.linalg.solve(post.precision[:, kept][:, :, kept], right)[..., 0]
    return out
