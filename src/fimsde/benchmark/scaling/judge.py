"""What arms are judged by: the same held-out equations of the paper's prior, for all models and seeds.

For an equation, error = sum of |f(x_i) - f̂(x_i)|² over some of its locations / sum of |f(x_i)|² over them, and the same
for the diffusion: an answer of zero has error 1. Locations near the data, within three standard deviations of the
context in every component, are judged apart from those farther away. Errors span many orders of magnitude, and fields
too small to be seen under the noise have enormous ones, so what is averaged over batches is the logarithm for the
typical equation of a batch (the median), and for an easy one (a quarter has smaller errors).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float

from fimsde.errors import ConfigError
from fimsde.model.fim import FIMSDE
from fimsde.train.config import TrainConfig
from fimsde.train.losses import supervised_loss
from fimsde.train.pretrain.batches import Batch, gather
from fimsde.train.pretrain.validation import validation_stream

BATCHES = 64  # of 16 equations; by hand: a tenth of the time of training
HELD = TrainConfig.preset("paper-0.4m").location_clip  # c of the held loss, for all arms
NEAR = 3.0  # standard deviations of the context, in every component; by hand: where people ask
ERRORS = {  # of a judgement: of which errors, and which quantile
    "drift": ("drift", 0.5),
    "diffusion": ("diffusion", 0.5),
    "easy_drift": ("drift", 0.25),
    "easy_diffusion": ("diffusion", 0.25),
    "far_drift": ("far_drift", 0.5),
    "far_diffusion": ("far_diffusion", 0.5),
}
_SMALLEST = 1e-6  # error below which nothing is gained: as far as float32 goes


@dataclass(frozen=True)
class Judgement:
    """Numbers of every held-out batch, so that intervals can be made by drawing batches again.

    Attributes:
        loss: The paper's loss (authors' reductions), mean over the equations of a batch; None for models that minimise
            another.
        typical_loss: Its median over the equations of a batch. A few equations with enormous fields decide the mean.
        held_loss: The loss whose gradient is the one of training, mean over the equations of a batch: weighted square
            errors above `HELD` count c (1 + log(error / c)), so that no equation decides it.
        drift, diffusion: log10 of the relative error near the data, median over the equations of a batch.
        easy_drift, easy_diffusion: The lower quartile in place of the median.
        far_drift, far_diffusion: The median at all other locations.
    """

    loss: tuple[float, ...] | None
    typical_loss: tuple[float, ...] | None
    held_loss: tuple[float, ...] | None
    drift: tuple[float, ...]
    diffusion: tuple[float, ...]
    easy_drift: tuple[float, ...]
    easy_diffusion: tuple[float, ...]
    far_drift: tuple[float, ...]
    far_diffusion: tuple[float, ...]


def held_out(config: TrainConfig, *, quick: bool = False) -> list[list[Batch]]:
    """The held-out equations as the model of these settings reads them.

    A model that cannot read dimensions together gets every batch in parts of one dimension.
    """
    reference = TrainConfig.preset("paper-tiny" if quick else "paper-0.4m")
    joins = config.model.reader.joins_dims
    stream = validation_stream(replace(reference, model=config.model))
    batches = []
    for index in range(4 if quick else BATCHES):
        examples = stream.examples(index)
        dims = [0 if joins else read.example.x.shape[1] for read in examples]
        groups = [[read for read, d in zip(examples, dims, strict=True) if d == dim] for dim in sorted(set(dims))]
        batches.append([gather(stream.config, group) for group in groups])
    return batches


@torch.no_grad()
def judge(model: FIMSDE, batches: Sequence[Sequence[Batch]], config: TrainConfig) -> Judgement:
    """Loss and errors of a model on held-out batches, without dropout."""
    if not batches:
        raise ConfigError("no held-out batches; a judgement needs at least one.")
    model = model.eval()
    numbers = [_judged(model, parts) for parts in batches]
    has_loss = config.objective != "primed"
    losses, held = ([found[name] for found in numbers] for name in ("loss", "held_loss"))
    return Judgement(
        loss=tuple(float(loss.mean()) for loss in losses) if has_loss else None,
        typical_loss=tuple(float(loss.median()) for loss in losses) if has_loss else None,
        held_loss=tuple(float(loss.mean()) for loss in held) if has_loss else None,
        **{name: tuple(_quantile(found[of], level) for found in numbers) for name, (of, level) in ERRORS.items()},
    )


def _judged(model: FIMSDE, parts: Sequence[Batch]) -> dict[str, torch.Tensor]:
    """Losses and logarithms of errors of the equations of a batch; an equation without such locations has none."""
    found: dict[str, list[torch.Tensor]] = {}
    for batch in parts:
        drift, diffusion, log_variance = model(batch.source, batch.x)
        near = (batch.x.abs() <= NEAR).all(dim=-1)  # padding is zero
        errors = {
            "loss": _losses(drift, diffusion, log_variance, batch),
            "held_loss": _held_losses(drift, diffusion, log_variance, batch),
            "drift": _log_errors(drift, batch.drift, batch, near),
            "diffusion": _log_errors(diffusion, batch.diffusion, batch, near),
            "far_drift": _log_errors(drift, batch.drift, batch, ~near),
            "far_diffusion": _log_errors(diffusion, batch.diffusion, batch, ~near),
        }
        for name, values in errors.items():
            found.setdefault(name, []).append(values)
    return {name: torch.cat(values) for name, values in found.items()}


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


def _held_losses(
    drift: torch.Tensor, diffusion: torch.Tensor, log_variance: torch.Tensor, batch: Batch
) -> Float[torch.Tensor, " batch"]:
    """Sum over locations of h(exp(-U) |error|²) + U, where h(r) is r up to c, and c (1 + log(r / c)) above."""
    errors = torch.stack([drift - batch.drift, diffusion - batch.diffusion]).double()
    squares = torch.where(batch.dims[:, None], errors, 0.0).square().sum(dim=(0, 3)) / batch.dims.sum(dim=1)[:, None]
    u = log_variance.double()
    weighted = torch.exp(-u) * squares
    held = torch.where(weighted > HELD, HELD * (1 + torch.log(weighted.clamp(min=HELD) / HELD)), weighted)
    return (held + u).sum(dim=1)


def _log_errors(
    found: torch.Tensor, truth: torch.Tensor, batch: Batch, where: Bool[torch.Tensor, "batch queries"]
) -> Float[torch.Tensor, " judged"]:
    """log10 of the error of every equation whose field is not zero at all these locations."""
    counted = (batch.scored & where)[..., None] & batch.dims[:, None]
    error = torch.where(counted, found - truth, 0.0).double().square().sum(dim=(1, 2))
    size = torch.where(counted, truth, 0.0).double().square().sum(dim=(1, 2))
    return (error[size > 0] / size[size > 0]).clamp(min=_SMALLEST).log10()


def _quantile(values: Float[torch.Tensor, " judged"], level: float) -> float:
    """Between two equations for some numbers of them; as good as zero if there is nothing to judge."""
    return float(values.quantile(level)) if len(values) else 0.0
