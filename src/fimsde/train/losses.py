"""What training minimises, in normalised coordinates: the supervised loss, and two losses for finetuning on data.

The supervised one has two reductions. "paper": squared norms, i.e. sums over components. "authors": means over the real
components, as the published weights were trained. Those for finetuning have the authors' only.
"""

from dataclasses import dataclass, fields
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fimsde.model.fim import FIMSDE, Context
from fimsde.model.rollout import rollout
from fimsde.simulate import euler_step

Reduction = Literal["paper", "authors"]
_FLOOR = 1e-10  # of diffusion and step length inside the likelihood, normalised units: that of the authors' code


@dataclass(frozen=True)
class Loss:
    """What is minimised, and its parts by name for the log."""

    total: Float[Tensor, ""]
    parts: dict[str, Float[Tensor, ""]]


@dataclass(frozen=True)
class SupervisedLoss:
    """The loss and its three parts, `total = drift + diffusion + log_variance`."""

    total: Float[Tensor, ""]
    drift: Float[Tensor, ""]
    diffusion: Float[Tensor, ""]
    log_variance: Float[Tensor, ""]


@dataclass(frozen=True)
class ScoredSteps:
    """Observed steps to be predicted, normalised.

    Attributes:
        start: Observed states.
        gaps: Lengths of the observation gaps that follow each start, one or several.
        target: The state observed after each of those gaps.
        valid: False where an end of the gap was not observed, and for padding.
        dims: True for the real components of each system.
    """

    start: Float[Tensor, "batch starts max_dim"]
    gaps: Float[Tensor, "batch starts gaps"]
    target: Float[Tensor, "batch starts gaps max_dim"]
    valid: Bool[Tensor, "batch starts gaps"]
    dims: Bool[Tensor, "batch max_dim"]

    @property
    def num_systems(self) -> int:
        """Systems in the batch."""
        return len(self.start)

    def to(self, device: torch.device) -> "ScoredSteps":
        """The same on another device."""
        return ScoredSteps(**{field.name: getattr(self, field.name).to(device) for field in fields(self)})


def supervised_loss(
    drift: Float[Tensor, "batch queries max_dim"],
    diffusion: Float[Tensor, "batch queries max_dim"],
    log_variance: Float[Tensor, "batch queries"],
    target_drift: Float[Tensor, "batch queries max_dim"],
    target_diffusion: Float[Tensor, "batch queries max_dim"],
    dims: Bool[Tensor, "batch max_dim"],
    reduction: Reduction = "authors",
    location_clip: float = 0.0,
) -> SupervisedLoss:
    """Squared errors of drift and diffusion at given locations, weighted by exp(-U), plus U.

    "authors" sums over locations and takes the mean over components and batch; "paper" sums over components and
    takes the mean over locations and batch. Padded components have no influence.

    With `location_clip` c the value stays, but where a weighted error exceeds c, its gradient is multiplied by c over
    it: a few enormous fields, of which U knows nothing yet, do not decide a step.
    """
    weight = torch.exp(-log_variance)
    of_drift = weight * _squared_error(drift, target_drift, dims[:, None], reduction)
    of_diffusion = weight * _squared_error(diffusion, target_diffusion, dims[:, None], reduction)
    if location_clip:
        both = (of_drift + of_diffusion).detach()
        share = location_clip / both.clamp(min=location_clip)
        of_drift, of_diffusion = (_with_gradient(part, share) for part in (of_drift, of_diffusion))
    per_location = (of_drift, of_diffusion, log_variance)
    parts = [part.sum(dim=1).mean() if reduction == "authors" else part.mean() for part in per_location]
    return SupervisedLoss(parts[0] + parts[1] + parts[2], *parts)


def transition_nll(
    model: FIMSDE,
    context: Context,
    steps: ScoredSteps,
    noise: Float[Tensor, "substeps batch starts max_dim"],
    *,
    substeps: int = 1,
) -> Float[Tensor, ""]:
    """Negative log-likelihood of observed steps under the Gaussian Euler transition, for densely observed data.

    With several sub-steps per gap only the last one is scored, from the state simulated up to it; with one gap and one
    sub-step nothing is simulated. Constants are dropped. It is a mean over the scored components, as in the authors'
    code; the paper prints a sum.
    """
    dt = _substep_lengths(steps.gaps, substeps)
    before = rollout(model, context, steps.start, dt[..., :-1], noise[: dt.shape[-1] - 1], steps.dims)
    x = before[..., substeps - 1 :: substeps, :].flatten(1, 2)  # (batch, starts * gaps, max_dim)
    drift, diffusion = model.evaluate(context, x)
    diffusion, dt = diffusion.clamp(min=_FLOOR), dt[..., ::substeps].flatten(1, 2)[..., None].clamp(min=_FLOOR)
    mean = euler_step(x, drift, diffusion, dt, torch.zeros_like(x))
    scored = _scored(steps.valid, steps.dims)
    miss = torch.where(scored, steps.target.flatten(1, 2) - mean, 0.0)
    nll = miss**2 / (2 * diffusion**2 * dt) + torch.where(scored, torch.log(diffusion), 0.0)
    return nll.sum() / scored.sum()


def simulation_mse(
    model: FIMSDE,
    context: Context,
    steps: ScoredSteps,
    noise: Float[Tensor, "substeps batch samples max_dim"],
    *,
    substeps: int = 10,
) -> Float[Tensor, ""]:
    """Squared distance of simulated to observed states after each gap, with gradients through the simulation.

    For sparsely observed data. `noise` fixes the number of samples per start: its third axis is a multiple of the
    number of starts, the samples of one start side by side. It is a mean over components, as in the authors' code (the
    paper prints a squared norm), and over all gaps, starts and samples, in which invalid ones count as zero.
    """
    return simulation_errors(model, context, steps, noise, substeps=substeps).mean()


def simulation_errors(
    model: FIMSDE,
    context: Context,
    steps: ScoredSteps,
    noise: Float[Tensor, "substeps batch samples max_dim"],
    *,
    substeps: int = 10,
) -> Float[Tensor, "batch samples gaps"]:
    """What `simulation_mse` is the mean of."""
    count = noise.shape[2] // steps.start.shape[1]
    dt = _substep_lengths(steps.gaps, substeps)
    start, target, dt, valid = (t.repeat_interleave(count, dim=1) for t in (steps.start, steps.target, dt, steps.valid))
    ends = rollout(model, context, start, dt, noise, steps.dims)[..., substeps::substeps, :]
    errors = _squared_error(ends.flatten(1, 2), target.flatten(1, 2), _scored(valid, steps.dims), "authors")
    return errors.unflatten(1, valid.shape[1:])


def _with_gradient(
    value: Float[Tensor, "batch queries"], share: Float[Tensor, "batch queries"]
) -> Float[Tensor, "batch queries"]:
    """The same numbers, with a share of their gradient."""
    return share * value + ((1 - share) * value).detach()


def _squared_error(
    estimate: Float[Tensor, "batch rows max_dim"],
    target: Float[Tensor, "batch rows max_dim"],
    scored: Bool[Tensor, "batch _ max_dim"],
    reduction: Reduction,
) -> Float[Tensor, "batch rows"]:
    """Sum ("paper") or mean ("authors") over the scored components."""
    total = (torch.where(scored, estimate - target, 0.0) ** 2).sum(dim=-1)
    return total if reduction == "paper" else total / scored.sum(dim=-1).clamp(min=1)


def _scored(
    valid: Bool[Tensor, "batch starts gaps"], dims: Bool[Tensor, "batch max_dim"]
) -> Bool[Tensor, "batch rows max_dim"]:
    return valid.flatten(1, 2)[..., None] & dims[:, None, :]


def _substep_lengths(gaps: Float[Tensor, "batch starts gaps"], substeps: int) -> Float[Tensor, "batch starts steps"]:
    return (gaps / substeps).repeat_interleave(substeps, dim=-1)
