"""What pretraining minimises: the paper's weighted squared errors, or, for primed models, a likelihood of errors.

An objective is a function (model, batch) -> Loss. All are means over the equations of the batch, so that the mean over
equal parts of a batch is the loss of the whole.
"""

from collections.abc import Callable
from functools import partial

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fimsde.errors import ConfigError
from fimsde.model.banks import Banks
from fimsde.model.fim import CHUNK, FIMSDE
from fimsde.model.primed import PrimedQueryState
from fimsde.train.config import TrainConfig
from fimsde.train.losses import Loss, Reduction, supervised_loss
from fimsde.train.pretrain.batches import Batch

# Set by hand for the runs of docs/training-log.md.
_FREEDOM = 4.0  # degrees of freedom of Student's t: a few large errors must not decide everything
_VARIANCE = _FREEDOM / (_FREEDOM - 2.0)  # of Student's t
_OUTLYING = 10.0  # mean square, in units of the expected one, beyond which only its logarithm counts
_SMALLEST = 1e-5  # relative mean square error below which nothing is gained
_LOG_SCALES = (-6.0, 5.0)  # of errors, as a model may state them: 1/400 to 150 times the natural size


Objective = Callable[[FIMSDE, Batch], Loss]


def choose_objective(config: TrainConfig) -> Objective:
    """The objective that the settings name."""
    if config.objective == "primed":
        if not config.model.reader.tells_error_scales:
            raise ConfigError(
                f"objective is primed and variant is {config.model.variant}; expected a primed model, whose candidates "
                'give the errors their natural sizes. Choose objective = "authors" or a primed model.'
            )
        return primed_objective
    return partial(supervised_objective, reduction=config.objective, location_clip=config.location_clip)


def supervised_objective(model: FIMSDE, batch: Batch, reduction: Reduction, location_clip: float = 0.0) -> Loss:
    """The paper's loss. Locations that are not scored have neither error nor U."""
    drift, diffusion, log_variance = model(batch.source, batch.x)
    scored = batch.scored[..., None]
    loss = supervised_loss(
        drift,
        diffusion,
        torch.where(batch.scored, log_variance, 0.0),
        torch.where(scored, batch.drift, drift.detach()),
        torch.where(scored, batch.diffusion, diffusion.detach()),
        batch.dims,
        reduction,
        location_clip,
    )
    parts = {"drift": loss.drift, "diffusion": loss.diffusion, "log_variance": loss.log_variance}
    return Loss(loss.total, parts)


def primed_objective(model: FIMSDE, batch: Batch) -> Loss:
    """Negative log-likelihood of the errors in natural units, and what benchmarks report: mean squares over locations.

    The likelihood is Student's t with the model's own scales. The logarithm of the mean square counts factors: halving
    a small error is worth as much as halving a large one, so that easy contexts are not forgotten over hard ones. But
    it rewards bets: of two continuations far outside the data it takes the likelier one, where a mean over data sets
    asks for their average. So half of it, for the drift, is the mean square itself, in units of what the model expects.
    """
    context = model.encode(batch.source)
    state = model.locations(context.queries, batch.x)
    assert isinstance(state, PrimedQueryState), "checked by choose_objective"
    drift, diffusion, log_variance = (
        operator(h, keys_values, context.mask, CHUNK)
        for operator, h, keys_values in (
            (model.drift_operator, state.h, context.drift),
            (model.diffusion_operator, state.h, context.diffusion),
            (model.log_variance_operator, state.h.detach(), context.log_variance),
        )
    )
    log_scales, dim = state.log_scales(log_variance), state.known.drift.shape[2]
    assert isinstance(batch.source, Banks), "checked by choose_objective"
    least = {"drift": batch.source.speed**2, "diffusion": 0.1 * batch.source.rate}  # truth may be zero everywhere
    parts: dict[str, Float[Tensor, ""]] = {}
    for name, answer, truth, size, log_scale in (
        ("drift", state.drift(drift), batch.drift, state.known.drift_size, log_scales[..., 0]),
        ("diffusion", state.diffusion(diffusion), batch.diffusion, state.known.diffusion_size, log_scales[..., 1]),
    ):
        error = torch.where(batch.scored[..., None], (answer - truth)[..., :dim] / size, 0.0)
        parts[f"{name}_likelihood"] = _mean(_student(error, log_scale), batch.scored).mean()
        square, whole = _mean((error * size) ** 2, batch.scored), _mean(truth[..., :dim] ** 2, batch.scored)
        whole = whole + least[name]
        parts[f"{name}_log_error"] = torch.log(square / whole + _SMALLEST).mean()
        if name == "drift":
            scale = torch.exp(log_scale.clamp(*_LOG_SCALES)).detach()
            expected = _VARIANCE * _mean((size * scale) ** 2, batch.scored) + _SMALLEST * whole
            parts["drift_log_error"] = 0.5 * parts["drift_log_error"]
            parts["drift_error"] = 0.5 * _OUTLYING * torch.log1p(square / (_OUTLYING * expected)).mean()
    return Loss(torch.stack(list(parts.values())).sum(), parts)


def _student(
    error: Float[Tensor, "batch queries dim"], log_scale: Float[Tensor, "batch queries dim"]
) -> Float[Tensor, "batch queries dim"]:
    """Negative log density up to a constant."""
    log_scale = log_scale.clamp(*_LOG_SCALES)
    return log_scale + 0.5 * (_FREEDOM + 1) * torch.log1p(error**2 / (_FREEDOM * torch.exp(2 * log_scale)))


def _mean(
    values: Float[Tensor, "batch queries dim"], scored: Bool[Tensor, "batch queries"]
) -> Float[Tensor, "batch dim"]:
    """Mean over the scored locations of each equation; zero if there are none."""
    kept = torch.where(scored[..., None], values, 0.0)
    return kept.sum(dim=1) / scored.sum(dim=1, keepdim=True).clamp(min=1)
