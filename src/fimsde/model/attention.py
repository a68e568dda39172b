"""The two kinds of attention of the model, and the residual block around them.

The encoder mixes transitions by linear attention, so its cost and memory grow linearly with the context. Queries read
the encoded transitions by ordinary softmax attention; the keys and values they read do not depend on the query and are
projected once per context.
"""

from dataclasses import dataclass
from math import sqrt

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.nn import functional as F

from fimsde.model.config import ModelConfig
from fimsde.model.dropout import Dropout, attention_with_dropout, is_compiled
from fimsde.model.fused import BlockedKeysValues, fused_attention, is_applicable, to_blocks


@dataclass(frozen=True)
class KeysValues:
    """What the queries of one functional layer attend to."""

    keys: Float[Tensor, "batch heads n head_dim"]
    values: Float[Tensor, "batch heads n head_dim"]


class LinearAttention(nn.Module):
    """Self-attention at linear cost: queries softmaxed over their features, keys over the sequence."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.heads
        self.query = nn.Linear(config.embed, config.embed)
        self.key = nn.Linear(config.embed, config.embed)
        self.value = nn.Linear(config.embed, config.embed)
        self.out = nn.Linear(config.embed, config.embed)

    def forward(
        self, x: Float[Tensor, "batch n embed"], mask: Bool[Tensor, "batch n"]
    ) -> Float[Tensor, "batch n embed"]:
        """Mix the tokens. Masked tokens are not read; what is returned in their place has no meaning."""
        unread = ~mask[:, None, :, None]
        queries = _split_heads(self.query(x), self.num_heads).softmax(dim=-1)  # (batch, heads, n, head_dim)
        keys = _split_heads(self.key(x), self.num_heads).masked_fill(unread, -torch.inf).softmax(dim=-2)
        values = _split_heads(self.value(x), self.num_heads).masked_fill(unread, 0.0)
        summary = keys.mT @ values  # (batch, heads, head_dim, head_dim): all that any query sees of the sequence
        # Published weights were trained with this division although the softmaxes are normalised already.
        mixed = queries @ summary / (sqrt(queries.shape[-1]) + 1e-8)
        return self.out(_join_heads(mixed))


class CrossAttention(nn.Module):
    """Softmax attention of query locations to encoded transitions."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.num_heads = config.heads
        self.dropout = config.dropout
        self.query = nn.Linear(config.embed, config.embed)
        self.key_value = nn.Linear(config.embed, 2 * config.embed)
        self.out = nn.Linear(config.embed, config.embed)

    def project(self, encoded: Float[Tensor, "batch n embed"], *, masked: bool) -> KeysValues | BlockedKeysValues:
        """Keys and values of the context; in blocks for the compiled attention where that applies."""
        keys, values = (_split_heads(t, self.num_heads) for t in self.key_value(encoded).chunk(2, dim=-1))
        if not masked and is_applicable(encoded, keys.shape[-1]):
            return to_blocks(keys, values)
        return KeysValues(keys.contiguous(), values.contiguous())

    def forward(
        self,
        h: Float[Tensor, "batch queries embed"],
        context: KeysValues | BlockedKeysValues,
        mask: Bool[Tensor, "batch n"] | None,
    ) -> Float[Tensor, "batch queries embed"]:
        """Read the context for each query; `mask` is None when every token is real."""
        queries = _split_heads(self.query(h), self.num_heads)
        if isinstance(context, BlockedKeysValues) and not (self.training or torch.is_grad_enabled()):
            return self.out(_join_heads(fused_attention(queries, context)))
        keys = context.keys if isinstance(context, KeysValues) else context.plain_keys()
        if self.training and is_compiled(queries, self.dropout):
            return self.out(_join_heads(attention_with_dropout(queries, keys, context.values, mask, self.dropout)))
        read = F.scaled_dot_product_attention(
            queries,
            keys,
            context.values,
            attn_mask=None if mask is None else mask[:, None, None, :],
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.out(_join_heads(read))


class ResidualBlock(nn.Module):
    """The rest of a layer around its attention, normalised after each sum: LN(x + attended), then LN(h + FF(h))."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.norm_attended = nn.LayerNorm(config.embed)
        self.widen = nn.Linear(config.embed, config.feed_forward)
        self.narrow = nn.Linear(config.feed_forward, config.embed)
        self.norm = nn.LayerNorm(config.embed)
        self.dropout = Dropout(config.dropout)

    def forward(
        self, x: Float[Tensor, "batch length embed"], attended: Float[Tensor, "batch length embed"]
    ) -> Float[Tensor, "batch length embed"]:
        h = self.norm_attended(x + self.dropout(attended))
        hidden = self.dropout(F.gelu(self.widen(h)))
        return self.norm(h + self.dropout(self.narrow(hidden)))


def _split_heads(
    x: Float[Tensor, "batch length embed"], num_heads: int
) -> Float[Tensor, "batch heads length head_dim"]:
    return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)


def _join_heads(x: Float[Tensor, "batch heads length head_dim"]) -> Float[Tensor, "batch length embed"]:
    return x.transpose(1, 2).flatten(2)
