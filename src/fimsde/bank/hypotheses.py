"""The bank: closed-form candidates for drift and diffusion at any location, and evidence of which to trust.

Everything is in normalised coordinates. The cost is linear in the context: milliseconds for thousands of observations.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.bank import monomials, window_kernels
from fimsde.bank.cells import BANDWIDTHS, Cells, gather_cells, kernel_time
from fimsde.bank.fit import (
    Posterior,
    Scales,
    block_lengths,
    fit_block,
    fit_step,
    has_noisy_windows,
    residual_windows,
)
from fimsde.bank.memory import keep_freed_memory
from fimsde.bank.origin import Belief, shrunk, sparse_averages
from fimsde.bank.smooth import local_corrections
from fimsde.bank.threads import blas_threads_for
from fimsde.bank.windows import DIFFUSION_DEGREE, DRIFT_DEGREE, to_series
from fimsde.data.transitions import Transitions
from fimsde.shapes import Array, Float64

# What is believed of polynomials that are averaged over their terms.
_SIZES = (1.0, 3.0, 9.0)
STEP = (Belief(0.3), Belief(0.1))  # `step` drifts that are sparse around the mean
MEAN = (Belief(0.3), Belief(0.1))  # `block` drifts that are sparse around the mean
ORIGIN = (Belief(0.3), Belief(0.3, _SIZES), Belief(0.1, _SIZES))  # `block` drifts, sparse around an origin of their own
ODD = (Belief(0.4), Belief(0.15))  # `block` drifts that turn their sign under a reflection at the origin
STEP_DIFFUSION = (Belief(0.05),)  # `step` diffusions that are sparse around an origin of their own
DIFFUSION = (Belief(0.3), Belief(0.05))  # `block` diffusions of this kind
EVEN = (Belief(0.1),)  # `block` diffusions that a reflection leaves alone
COARSE = 2
_NOISY = 3.0  # score of the noise variance above which the block fit is the reference

DRIFT_KINDS = (
    *("step full", "step ridge"),
    *(f"step mean {b}" for b in STEP),
    *("block full", "block ridge", "block linear"),
    *(f"block mean {b}" for b in MEAN),
    *(f"block origin {b}" for b in ORIGIN),
    *(f"block odd {b}" for b in ODD),
)
DIFFUSION_KINDS = (
    *("step full", "step constant"),
    *(f"step origin {b}" for b in STEP_DIFFUSION),
    *("block full", "block constant"),
    *(f"block origin {b}" for b in DIFFUSION),
    *(f"block even {b}" for b in EVEN),
)
NUM_DRIFT, NUM_DIFFUSION = len(DRIFT_KINDS), len(DIFFUSION_KINDS)
NUM_DESCRIPTORS = 15
NUM_LOCAL = len(BANDWIDTHS)


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
    keep_freed_memory()
    with blas_threads_for(len(tr)):
        return _make_bank(tr, origin)


def _make_bank(tr: Transitions, origin: Float64[Array, " dim"] | None) -> Bank:
    series = to_series(tr)
    step, scales = fit_step(series)
    block = fit_block(series, scales, step)
    fits = (step, block)
    drift = _drift_candidates(step.drift, block.drift, scales.speed, origin)
    diffusion_sq = _diffusion_candidates(step.diffusion_sq, block.diffusion_sq, scales.diffusion_rate, origin)
    noisy = bool(scales.noise_score.max() > _NOISY) and has_noisy_windows(series, scales)
    left_over = residual_windows(series, scales, fits[noisy], noisy=noisy)
    cells, label = gather_cells(left_over)
    drift_left, diffusion_left = local_corrections(cells, label, left_over, scales.diffusion_rate, noisy=noisy)
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
        speed=scales.speed,
        rate=scales.diffusion_rate,
        descriptors=_descriptors(tr, scales, block_lengths(scales, series), cells, origin is not None),
    )


def ask(bank: Bank, x: Float64[Array, "queries dim"]) -> Primed:
    """All candidates at each location."""
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
        out[..., w] = window_kernels.kernel_sums(
            x, bank.cells.place, np.ascontiguousarray(weights[..., w]), np.array([bandwidth])
        )[:, 0]
    return out


def _drift_candidates(
    step: Posterior, block: Posterior, speed: Float64[Array, " dim"], origin: Float64[Array, " dim"] | None
) -> Float64[Array, "candidates dim terms"]:
    dim, centre = len(speed), np.zeros(len(speed))
    step_ridge, ridge = shrunk(step, speed), shrunk(block, speed)
    linear = monomials.exponents(dim, DRIFT_DEGREE).sum(axis=1) <= 1
    return np.concatenate(
        [
            [step.mean, step_ridge.mean],
            sparse_averages(step, DRIFT_DEGREE, STEP, speed, centre),
            [block.mean, ridge.mean, _conditioned(ridge, linear)],
            sparse_averages(block, DRIFT_DEGREE, MEAN, speed, centre),
            sparse_averages(block, DRIFT_DEGREE, ORIGIN, speed, origin),
            sparse_averages(block, DRIFT_DEGREE, ODD, speed, origin, parity=1),
        ]
    )


def _diffusion_candidates(
    step: Posterior, block: Posterior, rate: Float64[Array, " dim"], origin: Float64[Array, " dim"] | None
) -> Float64[Array, "candidates dim terms2"]:
    constant = monomials.exponents(len(block.mean), DIFFUSION_DEGREE).sum(axis=1) == 0
    return np.concatenate(
        [
            [step.mean, _conditioned(step, constant)],
            sparse_averages(step, DIFFUSION_DEGREE, STEP_DIFFUSION, rate, origin),
            [block.mean, _conditioned(block, constant)],
            sparse_averages(block, DIFFUSION_DEGREE, DIFFUSION, rate, origin),
            sparse_averages(block, DIFFUSION_DEGREE, EVEN, rate, origin, parity=0),
        ]
    )


def _conditioned(post: Posterior, kept: Array) -> Float64[Array, "dim terms"]:
    """Posterior mean given that the terms not kept are zero."""
    out = np.zeros_like(post.mean)
    right = (post.precision @ post.mean[..., None])[:, kept]
    out[:, kept] = np.linalg.solve(post.precision[:, kept][:, :, kept], right)[..., 0]
    return out


def _misfit(candidates: Float64[Array, "candidates dim terms"], post: Posterior) -> Float64[Array, "candidates dim"]:
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
            np.log(scales.noise_var + 1e-9),
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
    """Mean square of the cells' residuals in units of their standard errors: about 1 if the cubic explains the data."""
    variance = np.maximum(cells.expected, 0.1 * rate * cells.time[:, None])
    least = np.finfo(np.float64).eps ** 2  # a residual of exactly zero is known no better than others
    return np.maximum((cells.residual**2 / variance).mean(axis=0), least)
