"""What learns in finetuning: a copy of the model with some of its weights set free, and the noise of the data."""

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils import parametrize

from fimsde.model.fim import FIMSDE
from fimsde.shapes import Array, Float64
from fimsde.train.finetune.config import Parameters

# 100 steps of Adam at 3e-4 move a number by 0.03 at most: so the log of the noise can move by 0.3, a factor of 1.35
_NOISE_GAIN = 10.0


class LowRank(nn.Module):
    """A weight matrix plus a product of two thin ones; the second starts at zero, so nothing changes at first."""

    def __init__(self, weight: Float[Tensor, "rows columns"], rank: int, generator: torch.Generator) -> None:
        super().__init__()
        rows, columns = weight.shape
        rank = min(rank, rows, columns)
        down = torch.randn(rank, columns, generator=generator) / sqrt(columns)
        self.down = nn.Parameter(down.to(weight))
        self.up = nn.Parameter(weight.new_zeros(rows, rank))

    def forward(self, weight: Float[Tensor, "rows columns"]) -> Float[Tensor, "rows columns"]:
        return weight + self.up @ self.down


class Learner(nn.Module):
    """A model that learns one data set.

    Args:
        model: Its weights are learnt in place, as far as they ask for gradients.
        noise_var: Variance of the measurement noise to start from; None if there is none.
    """

    def __init__(self, model: FIMSDE, noise_var: Float64[Array, " dim"] | None) -> None:
        super().__init__()
        self.model = model
        weight = next(model.parameters())
        self.noise = None if noise_var is None else nn.Parameter(weight.new_zeros(len(noise_var)))
        start = np.zeros(0) if noise_var is None else 0.5 * np.log(noise_var)
        self.register_buffer("start", torch.from_numpy(start).to(weight), persistent=False)

    def noise_var(self, dim: int) -> Float[Tensor, " dim"]:
        """Variance of the measurement noise, normalised; zeros if there is none."""
        if self.noise is None:
            return next(self.model.parameters()).new_zeros(dim)
        start = self.get_buffer("start")
        return torch.exp(2 * (start + _NOISE_GAIN * self.noise))


def free(model: FIMSDE, parameters: Parameters, rank: int, seed: int) -> None:
    """Let some of the weights learn. No data say anything about U, so its stack never does.

    Args:
        model: Changed in place.
        parameters: Which ones, beside a correction, which always learns.
        rank: Of low-rank changes.
        seed: Of their first factors.
    """
    model.requires_grad_(parameters == "all")
    model.log_variance_operator.requires_grad_(False)
    if model.correction is not None:
        model.correction.requires_grad_(True)
    if parameters == "heads":
        for operator in (model.drift_operator, model.diffusion_operator):
            operator.head.requires_grad_(True)
    elif parameters == "low-rank":
        generator = torch.Generator().manual_seed(seed)
        for linear in _learning_maps(model):
            parametrize.register_parametrization(linear, "weight", LowRank(linear.weight, rank, generator))


def _learning_maps(model: FIMSDE) -> Iterator[nn.Linear]:
    for part in (model.encoder, model.locations, model.drift_operator, model.diffusion_operator):
        yield from (module for module in part.modules() if isinstance(module, nn.Linear))


def merged(model: FIMSDE) -> FIMSDE:
    """A plain copy: low-rank changes become part of the weights."""
    state = {name: tensor for name, tensor in model.state_dict().items() if ".parametrizations." not in name}
    for name, module in model.named_modules():
        if parametrize.is_parametrized(module, "weight"):
            assert isinstance(module.weight, Tensor), "only weights are changed"
            state[f"{name}.weight"] = module.weight
    plain = FIMSDE(model.config, seed=None)
    plain.load_state_dict({name: tensor.detach().cpu().clone() for name, tensor in state.items()}, assign=True)
    plain.training_record = model.training_record
    return plain.requires_grad_(True).eval()


def with_correction(
    model: FIMSDE, states: Float64[Array, "points max_dim"], size: Float64[Array, " max_dim"]
) -> FIMSDE:
    """A copy of the model that carries a correction of zero in the coordinates of the data; see `Correction`.

    A model that has been finetuned before goes on from the correction it has.
    """
    if model.correction is not None:
        return merged(model)
    weight = next(model.parameters())
    corrected = FIMSDE(replace(model.config, correction=True), seed=0).to(weight)
    corrected.load_state_dict(model.state_dict() | _correction_state(corrected))
    assert corrected.correction is not None, "asked for in the settings"
    corrected.correction.fit(states, size)
    corrected.training_record = model.training_record
    return corrected.eval()


def _correction_state(model: FIMSDE) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in model.state_dict().items() if name.startswith("correction.")}
