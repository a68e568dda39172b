"""Polynomial drift and diffusion by weighted instrumental regression of the weak form, with their full posteriors.

Two fits of the same equation: `step` trusts every observation (best without measurement noise), `block` knows the
noise: it averages over blocks and removes the noise from all moments.
"""

import numpy as np

from fimsde.bank.diffusion_regression import diffusion_posterior, regress_diffusion
from fimsde.bank.drift_regression import fit_drift
from fimsde.bank.posterior import PolynomialFit, Posterior
from fimsde.bank.scales import BlockNoise, Scales, block_lengths, measure_motion, measure_noise
from fimsde.bank.windows import Series, Windows, hat_windows, held, step_windows
from fimsde.shapes import Array, Float64

_WINDOWS_PER_TERM = 3  # fewer do not tell the terms of a cubic apart


def fit_step(series: Series) -> tuple[PolynomialFit, Scales]:
    """The fit that trusts every observation, and the scales of the data, which its residuals tell."""
    motion = measure_motion(series)
    windows = held(lambda: step_windows(series, coarse=motion.coarse))
    drift = fit_drift(windows, motion.rough, motion.speed, None, None)
    rate, noise_var, noise_error = measure_noise(windows, drift.mean, motion.rough, coarse=motion.coarse)
    fit = _alternate(windows, motion.rough, motion.speed, drift, None)
    return fit, Scales(motion.speed, motion.reach, rate, noise_var, noise_error, motion.coarse)


def fit_block(series: Series, scales: Scales, step: PolynomialFit) -> PolynomialFit:
    """The fit that knows the noise; a component without enough windows keeps its `step` fit, and so do coarse data.

    There noise cannot be told from motion.
    """
    if scales.coarse:
        return step
    lengths = block_lengths(scales, series)
    fits: dict[int, PolynomialFit | None] = {}
    for m in sorted(set(lengths.tolist())):
        windows = held(lambda m=m: hat_windows(series, m, scales.noise_var))  # type: ignore[misc]
        if sum(len(c.length) for c in windows()) < _WINDOWS_PER_TERM * step.drift.mean.shape[1]:
            fits[m] = None
            continue
        noise = BlockNoise(scales.noise_var, scales.noise_error, m)
        drift = fit_drift(windows, scales.diffusion_rate, scales.speed, None, noise)
        fits[m] = _alternate(windows, scales.diffusion_rate, scales.speed, drift, noise)
    chosen = [fits[m] or step for m in lengths.tolist()]
    return PolynomialFit(
        _by_component([f.drift for f in chosen]),
        _by_component([f.diffusion_sq for f in chosen]),
        min(f.num_windows for f in chosen),
    )


def _by_component(posts: list[Posterior]) -> Posterior:
    """Component d of the d-th posterior, for all d."""
    return Posterior(
        np.stack([post.mean[d] for d, post in enumerate(posts)]),
        np.stack([post.precision[d] for d, post in enumerate(posts)]),
    )


def _alternate(
    windows: Windows,
    rate: Float64[Array, " dim"],
    speed: Float64[Array, " dim"],
    drift: Posterior,
    noise: BlockNoise | None,
) -> PolynomialFit:
    """Fit the diffusion from the residuals, then the drift anew with weights 1/g, then the diffusion once more."""
    first = regress_diffusion(windows, rate, drift.mean, None, noise).mean
    drift = fit_drift(windows, rate, speed, first, noise)
    g = diffusion_posterior(regress_diffusion(windows, rate, drift.mean, first, noise), rate, noise)
    return PolynomialFit(drift, g, sum(len(c.length) for c in windows()))
