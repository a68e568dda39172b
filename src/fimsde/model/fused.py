"""The kernels of `attention_kernels.py` on torch tensors: inference on a CPU, on as many threads as torch uses."""

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from fimsde.model.attention_kernels import BLOCK, attend
from fimsde.model.tiles import WIDTH


@dataclass(frozen=True)
class BlockedKeysValues:
    """Keys and values of one functional layer in the order in which the compiled attention reads them."""

    keys: Float[Tensor, "batch heads blocks head_dim width"]  # behind the end of the context its last key is repeated
    values: Float[Tensor, "batch heads n head_dim"]

    def plain_keys(self) -> Float[Tensor, "batch heads n head_dim"]:
        """The keys one after another, as torch's attention takes them."""
        return self.keys.mT.flatten(2, 3)[:, :, : self.values.shape[2]]


def is_applicable(encoded: Float[Tensor, "batch n embed"], head_dim: int) -> bool:
    """Whether the compiled attention can stand in for torch's: float32 on a CPU, no gradients, wide enough heads."""
    on_cpu = encoded.dtype == torch.float32 and encoded.device.type == "cpu"
    return on_cpu and head_dim % WIDTH == 0 and not torch.is_grad_enabled()


def to_blocks(
    keys: Float[Tensor, "batch heads n head_dim"], values: Float[Tensor, "batch heads n head_dim"]
) -> BlockedKeysValues:
    """Rearrange, once per context, what every query reads."""
    repeated = keys[:, :, -1:].expand(-1, -1, -keys.shape[2] % BLOCK, -1)
    blocks = torch.cat([keys, repeated], dim=2).unflatten(2, (-1, BLOCK)).mT
    return BlockedKeysValues(blocks.contiguous(), values.contiguous())


def fused_attention(
    queries: Float[Tensor, "batch heads queries head_dim"], context: BlockedKeysValues
) -> Float[Tensor, "batch heads queries head_dim"]:
    """Softmax attention without gradients; each thread takes its share of the heads."""
    read = torch.empty(queries.shape)
    threads = min(torch.get_num_threads(), queries.shape[1])
    arrays = [t.numpy() for t in (queries.contiguous(), context.keys, context.values, read)]
    cuts = [queries.shape[1] * i // threads for i in range(threads + 1)]
    shares = [[a[b, i:j] for a in arrays] for b in range(len(queries)) for i, j in pairwise(cuts)]
    helpers = [_pool(os.getpid(), threads - 1).submit(_work, shares[t::threads]) for t in range(1, threads)]
    _work(shares[::threads])
    for helper in helpers:
        helper.result()
    return read


def _work(shares: list[list[np.ndarray]]) -> None:
    for share in shares:
        attend(*share)


@cache
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    """Threads that help the calling one; a forked process, in which they do not exist, makes its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix=f"fimsde-{process}")
