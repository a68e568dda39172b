"""What arms are judged by: the same held-out equations of the paper's prior and contexts, for all models and seeds.

For an equation, error = sum of |f(x_i) - f̂(x_i)|² over its locations / sum of |f(x_i)|², and the same for the
diffusion. Errors span many orders of magnitude, so what is averaged is their logarithm.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float

from fimsde.errors import ConfigError
from fimsde.model.fim import FIMSDE
from fimsde.train.config import TrainConfig
from fimsde.train.losses import supervised_loss
from fimsde.train.pretrain.batches import Batch
from fimsde.train.pretrain.validation import validation_batches

BATCHES = 32  # of 16 equations; by hand: a few seconds per judgement
_SMALLEST = 1e-6  # error below which nothing is gained: as far as float32 goes


@dataclass(frozen=True)
class Judgement:
    """Numbers of every held-out batch, so that intervals can be made by drawing batches again.

    Attributes:
        loss: The paper's loss (authors' reductions), mean over the equations of a batch; None for models that minimise
            another.
        typical_loss: Its median over the equations of a batch. A few equations with enormous fields decide the mean.
        drift, diffusion: Mean of log10 of the relative error over the equations of a batch.
    """

    loss: tuple[float, ...] | None
    typical_loss: tuple[float, ...] | None
    drift: tuple[float, ...]
    diffusion: tuple[float, ...]


def held_out(config: TrainConfig, *, quick: bool = False) -> list[Batch]:
    """The held-out equations as the model of these settings reads them."""
    reference = TrainConfig.preset("paper-tiny" if quick else "paper-0.4m")
    return validation_batches(replace(reference, model=config.model, validation_batches=4 if quick else BATCHES))


@torch.no_grad()
def judge(model: FIMSDE, batches: Sequence[Batch], config: TrainConfig) -> Judgement:
    """Loss and errors of a model on held-out batches, without dropout."""
    if not batches:
        raise ConfigError("no held-out batches; a judgement needs at least one.")
    model = model.eval()
    has_loss = config.objective != "primed"
    losses, drifts, diffusions = [], [], []
    for batch in batches:
        drift, diffusion, log_variance = model(batch.source, batch.x)
        if has_loss:
            losses.append(_losses(drift, diffusion, log_variance, batch))
        drifts.append(_mean_log_error(drift, batch.drift, batch))
        diffusions.append(_mean_log_error(diffusion, batch.diffusion, batch))
    means = tuple(float(loss.mean()) for loss in losses) if has_loss else None
    medians = tuple(float(loss.median()) for loss in losses) if has_loss else None
    return Judgement(means, medians, tuple(drifts), tuple(diffusions))


def _losses(
    drift: torch.Tensor, diffusion: torch.Tensor, log_variance: torch.Tensor, batch: Batch
) -> Float[torch.Tensor, " batch"]:
    """The loss of every equation by itself."""
    found = []
    for i in range(batch.num_systems):
        one = slice(i, i + 1)
        answers = (drift[one].double(), diffusion[one].double(), log_variance[one].double())
        truth = (batch.drift[one].double(), batch.diffusion[one].double())
        found.append(supervised_loss(*answers, *truth, batch.dims[one]).total)
    return torch.stack(found)


def _mean_log_error(found: torch.Tensor, truth: torch.Tensor, batch: Batch) -> float:
    """Mean of log10 over the equations whose field is not zero everywhere; such a field has no relative error."""
    counted = batch.scored[..., None] & batch.dims[:, None]
    error = torch.where(counted, found - truth, 0.0).double().square().sum(dim=(1, 2))
    size = torch.where(counted, truth, 0.0).double().square().sum(dim=(1, 2))
    relative = (error[size > 0] / size[size > 0]).clamp(min=_SMALLEST)
    return float(relative.log10().mean()) if len(relative) else 0.0
