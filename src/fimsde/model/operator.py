"""Functional attention: the value of an estimated function at any location, read from the encoded transitions."""

from itertools import pairwise
from typing import cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from fimsde.model.attention import CrossAttention, KeysValues, ResidualBlock
from fimsde.model.config import ModelConfig
from fimsde.model.dropout import Dropout
from fimsde.model.fused import BlockedKeysValues

LayerContext = KeysValues | BlockedKeysValues


class FunctionalLayer(nn.Module):
    """Queries read the context once; they never see each other."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = CrossAttention(config)
        self.block = ResidualBlock(config)

    def forward(
        self, h: Float[Tensor, "batch queries embed"], context: LayerContext, mask: Bool[Tensor, "batch n"] | None
    ) -> Float[Tensor, "batch queries embed"]:
        return self.block(h, self.attention(h, context, mask))


class OutputHead(nn.Module):
    """The network that turns a query's final embedding into numbers."""

    def __init__(self, config: ModelConfig, num_outputs: int) -> None:
        super().__init__()
        widths = (config.embed, *config.head_hidden)
        self.hidden = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise(widths))
        self.output = nn.Linear(widths[-1], num_outputs)
        self.dropout = Dropout(config.dropout)

    def forward(self, h: Float[Tensor, "batch queries embed"]) -> Float[Tensor, "batch queries outputs"]:
        for layer in self.hidden:
            h = self.dropout(F.gelu(layer(h)))
        return self.output(h)


class Operator(nn.Module):
    """A stack of functional layers with its head: one for drift, one for diffusion, one for the uncertainty."""

    def __init__(self, config: ModelConfig, num_outputs: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(FunctionalLayer(config) for _ in range(config.functional_layers))
        self.head = OutputHead(config, num_outputs)

    def project(self, encoded: Float[Tensor, "batch n embed"], *, masked: bool) -> tuple[LayerContext, ...]:
        """Keys and values of every layer, made once per context."""
        return tuple(cast(FunctionalLayer, layer).attention.project(encoded, masked=masked) for layer in self.layers)

    def forward(
        self,
        h: Float[Tensor, "batch queries embed"],
        context: tuple[LayerContext, ...],
        mask: Bool[Tensor, "batch n"] | None,
        chunk: int,
    ) -> Float[Tensor, "batch queries outputs"]:
        """Values at all queries, `chunk` of them at a time so that memory stays bounded."""
        if h.shape[1] <= chunk:
            return self.rows(h, context, mask)
        return torch.cat([self.rows(part, context, mask) for part in h.split(chunk, dim=1)], dim=1)

    def rows(
        self,
        h: Float[Tensor, "batch queries embed"],
        context: tuple[LayerContext, ...],
        mask: Bool[Tensor, "batch n"] | None,
    ) -> Float[Tensor, "batch queries outputs"]:
        """Values at all queries at once."""
        for layer, keys_values in zip(self.layers, context, strict=True):
            h = layer(h, keys_values, mask)
        return self.head(h)
