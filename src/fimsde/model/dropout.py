"""Dropout that costs little on a CPU, and attention with dropout on its weights; elsewhere torch's own.

The random numbers follow from torch's generator, from which every call draws one seed.
"""

from math import sqrt
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from fimsde.model.dropout_kernels import drop, softmax_backward

_STEPS = 1 << 16  # probabilities are multiples of one in so many


def is_compiled(x: Tensor, p: float) -> bool:
    """Whether the compiled way applies: float32 on a CPU, and something to drop."""
    return p > 0 and x.device.type == "cpu" and x.dtype == torch.float32


class Dropout(nn.Module):
    """Each element is zero with probability p, and otherwise divided by 1 - p; in training mode only.

    On a CPU it overwrites what it is given, so that must be the result of an operation which does not need it.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        if not self.training or not self.p:
            return x
        if is_compiled(x, self.p) and x.is_contiguous():
            return _InPlace.apply(x, self.p, _seed())
        return F.dropout(x, self.p)


def attention_with_dropout(
    queries: Float[Tensor, "batch heads queries head_dim"],
    keys: Float[Tensor, "batch heads n head_dim"],
    values: Float[Tensor, "batch heads n head_dim"],
    mask: Bool[Tensor, "batch n"] | None,
    p: float,
) -> Float[Tensor, "batch heads queries head_dim"]:
    """softmax(q k' / sqrt(head_dim)) v with dropout on the weights of the softmax, float32 on a CPU."""
    return _Attention.apply(queries, keys, values, mask, p, _seed())


def _seed() -> tuple[np.uint32, np.uint32]:
    a, b = torch.randint(2**32, (2,)).tolist()
    return np.uint32(a), np.uint32(b)


def _drop(x: Tensor, p: float, seed: tuple[np.uint32, np.uint32], out: Tensor) -> None:
    threshold = round(p * _STEPS)
    scale = np.float32(_STEPS / (_STEPS - threshold))
    drop(*seed, np.uint32(threshold), scale, x.detach().view(-1).numpy(), out.detach().view(-1).numpy())


class _InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, p: float, seed: tuple[np.uint32, np.uint32]) -> Tensor:
        ctx.p, ctx.seed = p, seed
        ctx.mark_dirty(x)
        _drop(x, p, seed, x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        gradient = gradient.contiguous()
        left = torch.empty_like(gradient)
        _drop(gradient, ctx.p, ctx.seed, left)
        return left, None, None


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        p: float,
        seed: tuple[np.uint32, np.uint32],
    ) -> Tensor:
        q, k, v = (t.flatten(0, 1) for t in (queries / sqrt(queries.shape[-1]), keys, values))
        scores = torch.bmm(q, k.mT).unflatten(0, queries.shape[:2])  # (batch, heads, queries, n)
        if mask is not None:
            scores.masked_fill_(~mask[:, None, None, :], -torch.inf)
        weights = scores.softmax(dim=-1)
        dropped = scores  # its numbers are used no more
        _drop(weights, p, seed, dropped)
        dropped = dropped.flatten(0, 1)
        ctx.save_for_backward(q, k, v, weights, dropped)
        ctx.shape, ctx.p, ctx.seed = queries.shape, p, seed
        return torch.bmm(dropped, v).unflatten(0, queries.shape[:2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None, None, None]:
        q, k, v, weights, dropped = ctx.saved_tensors
        gradient = gradient.flatten(0, 1)
        of_weights = torch.bmm(gradient, v.mT)  # (batch * heads, queries, n)
        _drop(of_weights, ctx.p, ctx.seed, of_weights)
        n = weights.shape[-1]
        softmax_backward(weights.view(-1, n).numpy(), of_weights.view(-1, n).numpy())
        lead = ctx.shape[:2]
        of_q = torch.bmm(of_weights, k) / sqrt(ctx.shape[-1])
        of_k, of_v = torch.bmm(of_weights.mT, q), torch.bmm(dropped.mT, gradient)
        return of_q.unflatten(0, lead), of_k.unflatten(0, lead), of_v.unflatten(0, lead), None, None, None
