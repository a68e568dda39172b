"""The bank of one context: closed-form candidates for drift and diffusion, and evidence of which to trust.

Everything is in normalised coordinates. The cost is linear in the context: milliseconds for thousands of observations.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cache

import numpy as np
from threadpoolctl import ThreadpoolController

from fimsde.bank import cell_kernels, monomials
from fimsde.bank.cells import BANDWIDTHS, Cells, gather_cells, kernel_time
from fimsde.bank.fit import fit_block, fit_step
from fimsde.bank.hypotheses import DIFFUSION, DRIFT, FieldPosteriors, candidates
from fimsde.bank.posterior import Posterior
from fimsde.bank.residuals import has_noisy_windows, residual_windows
from fimsde.bank.scales import Scales, block_lengths
from fimsde.bank.smooth import local_corrections
from fimsde.bank.windows import DIFFUSION_DEGREE, DRIFT_DEGREE, to_series
from fimsde.data.transitions import Transitions
from fimsde.shapes import Array, Float64

COARSE = 2  # the reference of coarse data
NOISY = 3.0  # score of the noise variance above which the block fit is the reference: three standard errors
NUM_DESCRIPTORS = 15
NOISE_DESCRIPTOR, LEAST_NOISE = 2, 1e-9  # its place is that of log(v + 1e-9), v the variance of the noise
_LEAST_RATE = 0.1  # of the mean variance rate, in the lack of fit: as in the weights of the fits
_KEPT = 2**23  # bytes: more than any array of a context of thousands of observations
_MANY = 200_000  # observations from which threads of linear algebra are worth their price


@dataclass(frozen=True)
class Bank:
    """Candidates of one context.

    Attributes:
        drift: Coefficients of the drift candidates, cubic.
        diffusion_sq: Coefficients of the candidates for g, quadratic.
        misfit: chi-square of each drift candidate against both posteriors, per component.
        diffusion_misfit: The same for the candidates for g.
        covariance: Of the full drift fits, `step` and `block`; for standard errors at a location.
        reference: Which fit holds, and the cells are residuals of: 0 the full `step` fit, 1 the full `block` fit; 2 if
            the data are coarse, for which both are the same.
        cells: Local residuals.
        local_drift: Weights of the smooth functions that may be added to the full drift of the reference.
        local_diffusion_sq: The same for its g.
        gain: What these functions gain in log marginal likelihood over adding nothing.
        diffusion_gain: The same for g.
        speed: Natural size of the drift, per component.
        rate: Natural size of g, per component.
        descriptors: What kind of data this is, per component.
    """

    drift: Float64[Array, "candidates dim terms"]
    diffusion_sq: Float64[Array, "candidates2 dim terms2"]
    misfit: Float64[Array, "candidates dim 2"]
    diffusion_misfit: Float64[Array, "candidates2 dim 2"]
    covariance: Float64[Array, "2 dim terms terms"]
    reference: int
    cells: Cells
    local_drift: Float64[Array, "cells dim widths"]
    local_diffusion_sq: Float64[Array, "cells dim widths"]
    gain: Float64[Array, "dim widths"]
    diffusion_gain: Float64[Array, "dim widths"]
    speed: Float64[Array, " dim"]
    rate: Float64[Array, " dim"]
    descriptors: Float64[Array, "dim descriptors"]


@dataclass(frozen=True)
class Primed:
    """The bank's answer at locations, per component.

    Attributes:
        drift: Drift candidates.
        diffusion_sq: Candidates for g, not below zero.
        error: Standard errors of the two full drift fits.
        time: Kernel-weighted time near the location, per bandwidth.
        residual: Local drift to add to the reference, per bandwidth.
        excess: Local g to add to the reference, per bandwidth.
    """

    drift: Float64[Array, "queries dim candidates"]
    diffusion_sq: Float64[Array, "queries dim candidates2"]
    error: Float64[Array, "queries dim 2"]
    time: Float64[Array, "queries widths"]
    residual: Float64[Array, "queries dim widths"]
    excess: Float64[Array, "queries dim widths"]


def make_bank(tr: Transitions, origin: Float64[Array, " dim"] | None = None) -> Bank:
    """Read a context of normalised transitions.

    Args:
        tr: Normalised transitions.
        origin: A place known to be special (in normalised coordinates), around which the equation is likely to be
            sparse. Without it the place is averaged over, so that a shift of the data changes nothing.
    """
    _keep_freed_memory()
    with blas_threads_for(len(tr)):
        return _make_bank(tr, origin)


def _make_bank(tr: Transitions, origin: Float64[Array, " dim"] | None) -> Bank:
    series = to_series(tr)
    step, scales = fit_step(series)
    block = fit_block(series, scales, step)
    fits = (step, block)
    speed, rate = scales.speed, scales.diffusion_rate
    drift = candidates(DRIFT, FieldPosteriors(step.drift, block.drift, DRIFT_DEGREE, speed, origin))
    diffusion_sq = candidates(
        DIFFUSION, FieldPosteriors(step.diffusion_sq, block.diffusion_sq, DIFFUSION_DEGREE, rate, origin)
    )
    noisy = bool(scales.noise_score.max() > NOISY) and has_noisy_windows(series, scales)
    residuals = residual_windows(series, scales, fits[noisy], noisy=noisy)
    cells, label = gather_cells(residuals)
    drift_left, diffusion_left = local_corrections(cells, label, residuals, rate, noisy=noisy)
    return Bank(
        drift=drift,
        diffusion_sq=diffusion_sq,
        misfit=np.stack([_misfit(drift, f.drift) for f in fits], axis=-1),
        diffusion_misfit=np.stack([_misfit(diffusion_sq, f.diffusion_sq) for f in fits], axis=-1),
        covariance=np.stack([np.linalg.inv(f.drift.precision) for f in fits]),
        reference=COARSE if scales.coarse else int(noisy),
        cells=cells,
        local_drift=drift_left.weights,
        local_diffusion_sq=diffusion_left.weights,
        gain=drift_left.gain,
        diffusion_gain=diffusion_left.gain,
        speed=speed,
        rate=rate,
        descriptors=_descriptors(tr, scales, block_lengths(scales, series), cells, origin is not None),
    )


def blas_threads_for(num_observations: int) -> AbstractContextManager[object]:
    """Linear algebra of NumPy and SciPy on one thread inside this block, unless there is much to compute.

    Matrices of some hundred rows are not worth sharing: two threads took three times the CPU time of one.
    """
    if num_observations >= _MANY:
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    """Of the libraries that are loaded at the first call: by then those of the fits are."""
    return ThreadpoolController()


def _keep_freed_memory() -> None:
    """Let the C library keep freed arrays of some megabytes for the next ones instead of giving them back.

    Fresh pages may cost more than what is computed on them: up to a fifth of the CPU time of a bank. glibc keeps twice
    the size of the largest block that was ever freed (mallopt(3), M_MMAP_THRESHOLD); elsewhere nothing happens.
    """
    np.empty(_KEPT, np.uint8)  # freed at once and never touched, so that it takes no memory itself


def ask(bank: Bank, x: Float64[Array, "queries dim"]) -> Primed:
    """b' φ(x) for every candidate b, sqrt(φ' Σ φ) for the errors of the full fits, and the local sums around x."""
    cubic, quadratic = monomials.evaluate(x, DRIFT_DEGREE), monomials.evaluate(x, DIFFUSION_DEGREE)
    return Primed(
        drift=np.einsum("qt,cdt->qdc", cubic, bank.drift),
        diffusion_sq=np.maximum(np.einsum("qt,cdt->qdc", quadratic, bank.diffusion_sq), 0.0),
        error=np.sqrt(np.maximum(np.einsum("qs,fdst,qt->qdf", cubic, bank.covariance, cubic, optimize=True), 0.0)),
        time=kernel_time(bank.cells, x),
        residual=_smoothed(bank, bank.local_drift, x),
        excess=_smoothed(bank, bank.local_diffusion_sq, x),
    )


def _smoothed(
    bank: Bank, weights: Float64[Array, "cells dim widths"], x: Float64[Array, "queries dim"]
) -> Float64[Array, "queries dim widths"]:
    out = np.empty((*x.shape, len(BANDWIDTHS)))
    for w, bandwidth in enumerate(BANDWIDTHS):
        out[..., w] = cell_kernels.kernel_sums(
            x, bank.cells.place, np.ascontiguousarray(weights[..., w]), np.array([bandwidth])
        )[:, 0]
    return out


def _misfit(candidates: Float64[Array, "candidates dim terms"], post: Posterior) -> Float64[Array, "candidates dim"]:
    """(b - m)' P (b - m): the chi-square of each candidate b against a posterior."""
    away = candidates - post.mean
    return np.einsum("cds,dst,cdt->cd", away, post.precision, away)


def _descriptors(
    tr: Transitions, scales: Scales, lengths: Array, cells: Cells, origin_known: bool
) -> Float64[Array, "dim descriptors"]:
    dim = tr.dim
    gap = float(np.exp(np.mean(np.log(tr.dtau))))
    total = float(tr.dtau.sum())
    shared = [
        np.log(len(tr)),
        np.log1p(len(np.unique(tr.path))),
        float(np.std(np.log(tr.dtau))),
        *np.eye(3)[dim - 1],
        float(origin_known),
    ]
    own = np.stack(
        [
            np.log(scales.speed * total),
            np.log(scales.rate_share),
            np.log(scales.noise_var + LEAST_NOISE),
            np.log(scales.noise_var / (scales.diffusion_rate * gap) + 1e-4),
            np.log1p(scales.noise_score),
            np.log2(lengths),
            np.log(scales.speed * gap),
            np.log(_lack_of_fit(cells, scales.diffusion_rate)),
        ],
        axis=1,
    )
    return np.concatenate([own, np.tile(shared, (dim, 1))], axis=1)


def _lack_of_fit(cells: Cells, rate: Float64[Array, " dim"]) -> Float64[Array, " dim"]:
    """mean_c(r_c² / (g T)_c): squared residuals of cells over their variances; about 1 if the cubic explains all."""
    variance = np.maximum(cells.expected, _LEAST_RATE * rate * cells.time[:, None])
    least = np.finfo(np.float64).eps ** 2  # a residual of exactly zero is known no better than others
    return np.maximum((cells.residual**2 / variance).mean(axis=0), least)
