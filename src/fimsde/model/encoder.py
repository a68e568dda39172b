"""Transitions become tokens, tokens become encoded transitions."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fimsde.data.transitions import Transitions
from fimsde.errors import InvalidObservationsError
from fimsde.model.attention import LinearAttention, ResidualBlock
from fimsde.model.banks import Banks
from fimsde.model.config import ModelConfig
from fimsde.model.primed import CellFeatures


@dataclass(frozen=True)
class Tokens:
    """A batch of contexts in normalised coordinates, padded to one length and to the components of the model.

    Attributes:
        y, dy, dtau: Start, increment and length of each step; padding holds zeros.
        mask: True for real transitions, at least one per context.
    """

    y: Float[Tensor, "batch n max_dim"]
    dy: Float[Tensor, "batch n max_dim"]
    dtau: Float[Tensor, "batch n"]
    mask: Bool[Tensor, "batch n"]

    def to(self, device: torch.device) -> "Tokens":
        """The same on another device."""
        return Tokens(*(part.to(device) for part in (self.y, self.dy, self.dtau, self.mask)))


def to_tokens(contexts: Sequence[Transitions], config: ModelConfig, dtype: torch.dtype = torch.float32) -> Tokens:
    """Stack normalised transitions of several systems, of any dimension up to `config.max_dim`, into one batch."""
    for k, tr in enumerate(contexts):
        if not len(tr):
            raise InvalidObservationsError(
                f"context {k} has no transitions; the model needs at least one step to read."
            )
        if tr.dim > config.max_dim:
            raise InvalidObservationsError(
                f"context {k} has {tr.dim} components; this model reads at most {config.max_dim}. Choose some of them."
            )
    shape = (len(contexts), max((len(tr) for tr in contexts), default=0))
    y, dy = np.zeros((*shape, config.max_dim)), np.zeros((*shape, config.max_dim))
    dtau, mask = np.zeros(shape), np.zeros(shape, dtype=bool)
    for k, tr in enumerate(contexts):
        rows = slice(len(tr))
        y[k, rows, : tr.dim], dy[k, rows, : tr.dim] = tr.y, tr.dy
        dtau[k, rows], mask[k, rows] = tr.dtau, True
    y_, dy_, dtau_ = (torch.from_numpy(a).to(dtype) for a in (y, dy, dtau))
    return Tokens(y_, dy_, dtau_, torch.from_numpy(mask))


class TransitionFeatures(nn.Module):
    """One token per transition: gap, state, increment and squared increment, a quarter of the width each."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        quarter = config.embed // 4
        self.dtau = nn.Linear(1, quarter)
        self.y = nn.Linear(config.max_dim, quarter)
        self.dy = nn.Linear(config.max_dim, quarter)
        self.dy_sq = nn.Linear(config.max_dim, quarter)

    def forward(self, tokens: Tokens) -> tuple[Float[Tensor, "batch n embed"], Bool[Tensor, "batch n"]]:
        parts = (self.dtau(tokens.dtau[..., None]), self.y(tokens.y), self.dy(tokens.dy), self.dy_sq(tokens.dy**2))
        return torch.cat(parts, dim=-1), tokens.mask


class EncoderLayer(nn.Module):
    """Linear self-attention over the transitions and the block around it."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = LinearAttention(config)
        self.block = ResidualBlock(config)

    def forward(
        self, x: Float[Tensor, "batch n embed"], mask: Bool[Tensor, "batch n"]
    ) -> Float[Tensor, "batch n embed"]:
        return self.block(x, self.attention(x, mask))


class Encoder(nn.Module):
    """Tokens to encoded transitions or cells. Their order carries no meaning: there is no positional information."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.features = CellFeatures(config) if config.variant == "primed" else TransitionFeatures(config)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))

    def forward(self, source: Tokens | Banks) -> tuple[Float[Tensor, "rows n embed"], Bool[Tensor, "rows n"]]:
        """Encoded tokens, and which of them are real."""
        x, mask = self.features(source)
        for layer in self.layers:
            x = layer(x, mask)
        return x, mask
