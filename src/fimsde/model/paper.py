"""The paper's way to read: single transitions become tokens, locations become queries by a linear map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from fimsde.bank.identity import Identity
from fimsde.data.transitions import Transitions
from fimsde.errors import InvalidObservationsError
from fimsde.model.arrays import TOKEN_AXES, token_inputs
from fimsde.model.reader import Limits, Queries
from fimsde.shapes import Array, Float64

_FARTHEST = 1e12  # standard deviations; float32 cannot hold the squares of much larger numbers


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


def to_tokens(contexts: Sequence[Transitions], max_dim: int, dtype: torch.dtype = torch.float32) -> Tokens:
    """Stack normalised transitions of several systems, of any dimension up to `max_dim`, into one batch."""
    for k, tr in enumerate(contexts):
        if not len(tr):
            raise InvalidObservationsError(
                f"context {k} has no transitions; the model needs at least one step to read."
            )
        if tr.dim > max_dim:
            raise InvalidObservationsError(
                f"context {k} has {tr.dim} components; this model reads at most {max_dim}. Choose some of them."
            )
    shape = (len(contexts), max((len(tr) for tr in contexts), default=0))
    y, dy = np.zeros((*shape, max_dim)), np.zeros((*shape, max_dim))
    dtau, mask = np.zeros(shape), np.zeros(shape, dtype=bool)
    for k, tr in enumerate(contexts):
        rows = slice(len(tr))
        y[k, rows, : tr.dim], dy[k, rows, : tr.dim] = tr.y, tr.dy
        dtau[k, rows], mask[k, rows] = tr.dtau, True
    y_, dy_, dtau_ = (torch.from_numpy(a).to(dtype) for a in (y, dy, dtau))
    return Tokens(y_, dy_, dtau_, torch.from_numpy(mask))


class TransitionFeatures(nn.Module):
    """One token per transition: gap, state, increment and squared increment, a quarter of the width each."""

    def __init__(self, max_dim: int, embed: int) -> None:
        super().__init__()
        quarter = embed // 4
        self.dtau = nn.Linear(1, quarter)
        self.y = nn.Linear(max_dim, quarter)
        self.dy = nn.Linear(max_dim, quarter)
        self.dy_sq = nn.Linear(max_dim, quarter)

    def forward(self, tokens: Tokens) -> tuple[Float[Tensor, "batch n embed"], Bool[Tensor, "batch n"]]:
        parts = (self.dtau(tokens.dtau[..., None]), self.y(tokens.y), self.dy(tokens.dy), self.dy_sq(tokens.dy**2))
        return torch.cat(parts, dim=-1), tokens.mask


class PlainQueries(nn.Linear, Queries):
    """h_0(x), shared by the three stacks."""

    def prepare(self, source: object) -> None:
        """Plain queries know nothing of the context before they read it."""

    def limits(self, source: object) -> Limits:
        """The same whatever was read."""
        return Limits(farthest=_FARTHEST)

    def forward(self, prepared: None, x: Float[Tensor, "batch queries max_dim"]) -> "PlainQueryState":  # type: ignore[override]
        return PlainQueryState(F.linear(x, self.weight, self.bias))


@dataclass(frozen=True)
class PlainQueryState:
    """Queries whose outputs are the fields themselves."""

    h: Float[Tensor, "batch queries embed"]

    def drift(self, raw: Float[Tensor, "batch queries max_dim"]) -> Float[Tensor, "batch queries max_dim"]:
        return raw

    def diffusion(self, raw: Float[Tensor, "batch queries max_dim"]) -> Float[Tensor, "batch queries max_dim"]:
        return F.softplus(raw)

    def log_variance(self, raw: Float[Tensor, "batch queries 1"]) -> Float[Tensor, "batch queries"]:
        return raw[..., 0]


@dataclass(frozen=True)
class PaperReader:
    """Reads single transitions; see `fimsde.model.reader.Reader`."""

    max_dim: int
    embed: int
    uses_origin = False
    joins_dims = True
    is_cacheable = False
    tells_error_scales = False
    preferred_choices = None
    axes = TOKEN_AXES
    token_axis = "n"
    asks_arrays = False

    @property
    def num_outputs(self) -> tuple[int, int, int]:
        """The fields themselves, and one log variance."""
        return self.max_dim, self.max_dim, 1

    @property
    def num_weights(self) -> int:
        """Four maps of a quarter of the width, and the map of locations."""
        d, e = self.max_dim, self.embed
        return e // 4 * (1 + 3 * d + 4) + e * (d + 1)

    @property
    def identity(self) -> Identity:
        """Shapes say it all."""
        return {}

    def read_one(self, tr: Transitions, origin: Float64[Array, " dim"] | None) -> Transitions:
        return tr

    def is_finite(self, reading: Transitions) -> bool:
        """Normalised transitions always are."""
        return True

    def collate(self, readings: Sequence[Transitions], dtype: torch.dtype) -> Tokens:
        return to_tokens(readings, self.max_dim, dtype)

    def read(
        self, contexts: Sequence[Transitions], origin: Float64[Array, " dim"] | None, dtype: torch.dtype
    ) -> Tokens:
        return self.collate(contexts, dtype)

    def arrays(self, tr: Transitions, origin: Float64[Array, " dim"] | None) -> dict[str, Array]:
        return token_inputs(tr, self.max_dim)

    def source(self, arrays: Mapping[str, Tensor]) -> Tokens:
        batch = {name: tensor[None] for name, tensor in arrays.items()}
        return Tokens(**batch, mask=torch.ones_like(batch["dtau"], dtype=torch.bool))

    def features(self) -> TransitionFeatures:
        return TransitionFeatures(self.max_dim, self.embed)

    def queries(self) -> PlainQueries:
        return PlainQueries(self.max_dim, self.embed)
