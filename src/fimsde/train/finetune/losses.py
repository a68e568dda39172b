"""The likelihood of sparse and noisy data: a Gaussian filter through simulated sub-steps.

Between observations a Gaussian is carried along by its sigma points, each moved by the one stepper; at an observation
it is compared with what was seen and updated. With neither noise nor sub-steps this is the dense likelihood. Noise and
diffusion are told apart because a window holds several observations: noise does not grow with time.

Sub-steps are of second order: plain ones bend the path by half their length times the change of the drift, and a drift
that is learnt through them bends back; so does a diffusion whose noise is not carried along.
"""

from collections.abc import Callable
from math import log, pi

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional as F

from fimsde.simulate import euler_step
from fimsde.train.losses import ScoredSteps

# from normalised locations (batch, queries, max_dim) to drift and diffusion there
FieldFunction = Callable[[Tensor], tuple[Tensor, Tensor]]
_SMALLEST = 1e-8  # variance, in normalised units: 1e-4 of a standard deviation is far below what data tell; by hand


def filtered_nll(
    fields: FieldFunction, steps: ScoredSteps, noise_var: Float[Tensor, " dim"], *, substeps: int
) -> Float[Tensor, ""]:
    """Negative log-likelihood of the observations after each start, in nats per observed component.

    The state at the start is taken to be the observation there, up to its noise.

    Args:
        fields: Drift and diffusion.
        steps: Windows of one or more gaps. All systems of the batch have the dimension of `noise_var`.
        noise_var: Variance of the measurement noise of each component.
        substeps: Steps per gap: one Euler step, or several of second order, see `predict`.
    """
    return window_nll(fields, steps, noise_var, substeps=substeps).sum() / num_scored(steps, len(noise_var)).sum()


def num_scored(steps: ScoredSteps, dim: int) -> Int[Tensor, "batch starts"]:
    """Observed components that each window scores: those before its first observation that does not count."""
    return dim * steps.valid.int().cumprod(-1).sum(-1)


def window_nll(
    fields: FieldFunction, steps: ScoredSteps, noise_var: Float[Tensor, " dim"], *, substeps: int
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
        gap = torch.where(is_open, steps.gaps[..., k], 0.0)  # nothing moves in gaps that do not count
        mean, covariance = predict(fields, mean, covariance, gap, steps.start.shape[-1], substeps)
        miss = torch.where(is_open[..., None], steps.target[..., k, :dim] - mean, 0.0)
        root = _root(covariance + noise)
        whitened = torch.linalg.solve_triangular(root, miss[..., None], upper=False)[..., 0]
        logs = torch.log(torch.diagonal(root, dim1=-2, dim2=-1)).sum(-1)
        nll = 0.5 * whitened.square().sum(-1) + logs + 0.5 * dim * log(2 * pi)
        total = total + torch.where(is_open, nll, 0.0)
        mean, covariance = _update(mean, covariance, miss, root, noise)
    return total


def predict(
    fields: FieldFunction,
    mean: Float[Tensor, "batch starts dim"],
    covariance: Float[Tensor, "batch starts dim dim"],
    gap: Float[Tensor, "batch starts"],
    max_dim: int,
    substeps: int,
) -> tuple[Float[Tensor, "batch starts dim"], Float[Tensor, "batch starts dim dim"]]:
    """Mean and covariance after a gap: one Euler step, or several steps of second order.

    Each of those adds half of its noise, moves by the midpoint rule, and adds the other half, so that noise that comes
    early is moved along. Halves that meet are added at once.
    """
    points, weight = _sigma_points(mean, covariance, max_dim)
    dt = gap / substeps
    every_dt = dt.repeat_interleave(len(weight), dim=1)[..., None]
    if substeps == 1:
        moved, diffusion = advance(fields, points, every_dt, midpoint=False)
        mean, covariance = _moments(moved, weight, mean.shape)
        return mean, covariance + _spread(diffusion, weight, dt, mean.shape)
    covariance = covariance + _spread(fields(points)[1], weight, dt / 2, mean.shape)
    for k in range(substeps):
        points, _ = _sigma_points(mean, covariance, max_dim)
        moved, _ = advance(fields, points, every_dt, midpoint=True)
        mean, covariance = _moments(moved, weight, mean.shape)
        share = dt if k < substeps - 1 else dt / 2
        covariance = covariance + _spread(fields(moved)[1], weight, share, mean.shape)
    return mean, covariance


def advance(
    fields: FieldFunction,
    x: Float[Tensor, "batch queries max_dim"],
    dt: Float[Tensor, "batch queries 1"],
    midpoint: bool,
) -> tuple[Float[Tensor, "batch queries max_dim"], Float[Tensor, "batch queries max_dim"]]:
    """States one step later without noise, and the diffusion before it. The midpoint rule asks the drift half-way."""
    drift, diffusion = fields(x)
    still = torch.zeros_like(x)
    if midpoint:
        drift, _ = fields(euler_step(x, drift, diffusion, dt / 2, still))
    return euler_step(x, drift, diffusion, dt, still), diffusion


def _sigma_points(
    mean: Float[Tensor, "batch starts dim"], covariance: Float[Tensor, "batch starts dim dim"], max_dim: int
) -> tuple[Float[Tensor, "batch queries max_dim"], Float[Tensor, " points"]]:
    """A few states with this mean and covariance, side by side and padded, and their weights."""
    dim = mean.shape[-1]
    reach = max(3.0, dim)  # squared distance of the sigma points: fourth moments of a normal law for up to 3 dimensions
    weight = mean.new_tensor([1 - dim / reach] + [0.5 / reach] * (2 * dim))
    arms = reach**0.5 * _root(covariance).mT  # (batch, starts, dim, dim): one arm per row
    points = mean[..., None, :] + torch.cat([torch.zeros_like(arms[..., :1, :]), arms, -arms], dim=-2)
    return F.pad(points.flatten(1, 2), (0, max_dim - dim)), weight


def _moments(
    points: Float[Tensor, "batch queries max_dim"], weight: Float[Tensor, " points"], shape: torch.Size
) -> tuple[Float[Tensor, "batch starts dim"], Float[Tensor, "batch starts dim dim"]]:
    """Mean and covariance of sigma points that have moved."""
    each = points[..., : shape[-1]].unflatten(1, (shape[1], len(weight)))
    mean = (weight[:, None] * each).sum(-2)
    away = each - mean[..., None, :]
    return mean, (away.mT * weight) @ away


def _spread(
    diffusion: Float[Tensor, "batch queries max_dim"],
    weight: Float[Tensor, " points"],
    dt: Float[Tensor, "batch starts"],
    shape: torch.Size,
) -> Float[Tensor, "batch starts dim dim"]:
    """The covariance that noise adds in a time."""
    each = diffusion[..., : shape[-1]].unflatten(1, (shape[1], len(weight)))
    return torch.diag_embed((weight[:, None] * each.square()).sum(-2) * dt[..., None])


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
