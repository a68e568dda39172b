"""The likelihood of sparse and noisy data: a Gaussian filter through simulated sub-steps.

Between observations a Gaussian is carried along by its sigma points, each moved by the one stepper; at an observation
it is compared with what was seen and updated. With neither noise nor sub-steps this is the dense likelihood. Noise and
diffusion are told apart because a window holds several observations: noise does not grow with time.

Sub-steps are midpoint steps: plain ones bend the path by half their length times the change of the drift, and a drift
that is learnt through them bends back.
"""

from collections.abc import Callable
from math import log, pi

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from fimsde.simulate import euler_step
from fimsde.train.losses import ScoredSteps

Fields = Callable[[Tensor], tuple[Tensor, Tensor]]  # normalised locations (batch, queries, max_dim) to both fields
_SMALLEST = 1e-8  # variance, in normalised units: far below what an observation can tell


def filtered_nll(
    fields: Fields, steps: ScoredSteps, noise_var: Float[Tensor, " dim"], *, substeps: int
) -> Float[Tensor, ""]:
    """Negative log-likelihood of the observations after each start, in nats per observed component.

    The state at the start is taken to be the observation there, up to its noise.

    Args:
        fields: Drift and diffusion.
        steps: Windows of one or more gaps. All systems of the batch have the dimension of `noise_var`.
        noise_var: Variance of the measurement noise of each component.
        substeps: Steps per gap: one Euler step, or several of the midpoint rule.
    """
    return window_nll(fields, steps, noise_var, substeps=substeps).sum() / num_scored(steps, len(noise_var)).sum()


def num_scored(steps: ScoredSteps, dim: int) -> Int[Tensor, "batch starts"]:
    """Observed components that each window scores: those before its first observation that does not count."""
    return dim * steps.valid.int().cumprod(-1).sum(-1)


def window_nll(
    fields: Fields, steps: ScoredSteps, noise_var: Float[Tensor, " dim"], *, substeps: int
) -> Float[Tensor, "batch starts"]:
    """What `filtered_nll` is the mean of: the sum of nats in each window."""
    dim = len(noise_var)
    mean = steps.start[..., :dim]
    noise = torch.diag(noise_var + _SMALLEST)
    covariance = noise.expand(*mean.shape[:-1], dim, dim)
    is_open = torch.ones_like(steps.valid[..., 0])
    total = torch.zeros_like(mean[..., 0])
    for k in range(steps.gaps.shape[-1]):
        is_open = is_open & steps.valid[..., k]
        dt = torch.where(is_open, steps.gaps[..., k], 0.0) / substeps  # nothing moves in gaps that do not count
        for _ in range(substeps):
            mean, covariance = _predict(fields, mean, covariance, dt, steps.start.shape[-1], substeps > 1)
        miss = torch.where(is_open[..., None], steps.target[..., k, :dim] - mean, 0.0)
        root = _root(covariance + noise)
        whitened = torch.linalg.solve_triangular(root, miss[..., None], upper=False)[..., 0]
        logs = torch.log(torch.diagonal(root, dim1=-2, dim2=-1)).sum(-1)
        nll = 0.5 * whitened.square().sum(-1) + logs + 0.5 * dim * log(2 * pi)
        total = total + torch.where(is_open, nll, 0.0)
        mean, covariance = _update(mean, covariance, miss, root, noise)
    return total


def advance(
    fields: Fields, x: Float[Tensor, "batch queries max_dim"], dt: Float[Tensor, "batch queries 1"], midpoint: bool
) -> tuple[Float[Tensor, "batch queries max_dim"], Float[Tensor, "batch queries max_dim"]]:
    """States one step later without noise, and the diffusion before it. The midpoint rule asks the drift half-way."""
    drift, diffusion = fields(x)
    still = torch.zeros_like(x)
    if midpoint:
        drift, _ = fields(euler_step(x, drift, diffusion, dt / 2, still))
    return euler_step(x, drift, diffusion, dt, still), diffusion


def _predict(
    fields: Fields,
    mean: Float[Tensor, "batch starts dim"],
    covariance: Float[Tensor, "batch starts dim dim"],
    dt: Float[Tensor, "batch starts"],
    max_dim: int,
    midpoint: bool,
) -> tuple[Float[Tensor, "batch starts dim"], Float[Tensor, "batch starts dim dim"]]:
    """Mean and covariance after one step, exact for affine drift and constant diffusion."""
    dim = mean.shape[-1]
    reach = max(3.0, dim)  # squared distance of the sigma points: fourth moments of a normal law for up to 3 dimensions
    weight = mean.new_tensor([1 - dim / reach] + [0.5 / reach] * (2 * dim))[:, None]
    arms = reach**0.5 * _root(covariance).mT  # (batch, starts, dim, dim): one arm per row
    points = mean[..., None, :] + torch.cat([torch.zeros_like(arms[..., :1, :]), arms, -arms], dim=-2)
    every_dt = dt.repeat_interleave(points.shape[2], dim=1)[..., None]
    moved, diffusion = advance(fields, F.pad(points.flatten(1, 2), (0, max_dim - dim)), every_dt, midpoint)
    moved, diffusion = (value[..., :dim].unflatten(1, points.shape[1:3]) for value in (moved, diffusion))
    dt = dt[..., None, None]
    mean = (weight * moved).sum(-2)
    away = moved - mean[..., None, :]
    spread = (weight * diffusion.square() * dt).sum(-2)
    return mean, (away.mT * weight[:, 0]) @ away + torch.diag_embed(spread)


def _update(
    mean: Float[Tensor, "batch starts dim"],
    covariance: Float[Tensor, "batch starts dim dim"],
    miss: Float[Tensor, "batch starts dim"],
    root: Float[Tensor, "batch starts dim dim"],
    noise: Float[Tensor, "dim dim"],
) -> tuple[Float[Tensor, "batch starts dim"], Float[Tensor, "batch starts dim dim"]]:
    """Kalman's update; the covariance in the form that stays positive under rounding."""
    gain = torch.cholesky_solve(covariance, root).mT
    kept = torch.eye(len(noise), dtype=noise.dtype, device=noise.device) - gain
    return mean + (gain @ miss[..., None])[..., 0], kept @ covariance @ kept.mT + gain @ noise @ gain.mT


def _root(covariance: Float[Tensor, "batch starts dim dim"]) -> Float[Tensor, "batch starts dim dim"]:
    if covariance.shape[-1] == 1:
        return covariance.clamp_min(_SMALLEST).sqrt()
    size = torch.diagonal(covariance, dim1=-2, dim2=-1).mean(-1)
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    root, failed = torch.linalg.cholesky_ex(covariance + (1e-6 * size + _SMALLEST)[..., None, None] * eye)
    return torch.where(failed[..., None, None] > 0, torch.nan, root)  # a step with such a loss is skipped and counted
