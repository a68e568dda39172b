"""The two halves of a model as graphs of arrays without a batch axis: what reads a data set, and what answers."""

from itertools import islice
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fimsde.model.attention import CrossAttention, KeysValues
from fimsde.model.fim import FIMSDE
from fimsde.model.operator import FunctionalLayer, Operator

ENCODED = ("keys", "values")
ANSWERS = ("drift", "diffusion", "log_variance")


class EncoderGraph(nn.Module):
    """A data set becomes keys and values of every functional layer: made once, read by every location."""

    def __init__(self, model: FIMSDE) -> None:
        super().__init__()
        self.reader, self.encoder = model.config.reader, model.encoder
        layers = [cast(FunctionalLayer, layer) for stack in _stacks(model) for layer in stack.layers]
        self.attentions = nn.ModuleList(layer.attention for layer in layers)

    def forward(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        encoded, _ = self.encoder(self.reader.source(inputs))
        made = [cast(CrossAttention, attention).project(encoded, masked=True) for attention in self.attentions]
        return torch.stack([kv.keys for kv in made]), torch.stack([kv.values for kv in made])


class HeadGraph(nn.Module):
    """Locations become drift, diffusion and log variance, in normalised coordinates.

    Args:
        model: The model.
        dim: Components of the state; `max_dim` for the paper's architecture, whose systems are padded.
    """

    def __init__(self, model: FIMSDE, dim: int) -> None:
        super().__init__()
        self.dim, self.max_dim = dim, model.config.max_dim
        self.reader, self.locations, self.correction = model.config.reader, model.locations, model.correction
        self.stacks = nn.ModuleList(_stacks(model))

    def forward(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        data = dict(inputs)
        x, keys, values = (data.pop(name) for name in ("x", *ENCODED))
        x = F.pad(x, (0, self.max_dim - self.dim))[None]
        source = self.reader.source(data) if self.reader.asks_arrays else None
        limits = self.locations.limits(source)
        known, x = limits.knows(x), limits.hold(x)
        state = self.locations(self.locations.prepare(source), x)
        layers = iter([KeysValues(k, v) for k, v in zip(keys.unbind(), values.unbind(), strict=True)])
        stacks = [cast(Operator, stack) for stack in self.stacks]
        raw = [stack.rows(state.h, tuple(islice(layers, len(stack.layers))), None) for stack in stacks]
        drift, diffusion = state.drift(raw[0]), state.diffusion(raw[1])
        if self.correction is not None:
            drift, diffusion = self.correction.drift(drift, x), self.correction.diffusion(diffusion, x)
        drift, diffusion = (torch.where(known[..., None], field, torch.nan) for field in (drift, diffusion))
        log_variance = torch.where(known, state.log_variance(raw[2]), torch.nan)
        return drift[0, :, : self.dim], diffusion[0, :, : self.dim], log_variance[0]


def _stacks(model: FIMSDE) -> tuple[Operator, Operator, Operator]:
    return model.drift_operator, model.diffusion_operator, model.log_variance_operator
