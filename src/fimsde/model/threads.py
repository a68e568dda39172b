"""How many threads a computation is worth."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_WORTH_SHARING = 1e9  # multiplications: some ten milliseconds


@contextmanager
def threads_for(multiplications: float) -> Iterator[None]:
    """Torch on one thread inside this block if there is little to compute.

    Threads that share small products gain nothing on an idle machine, and on a busy one they wait for each other: the
    bundled model then took a hundred times as long.
    """
    before = torch.get_num_threads()
    if multiplications >= _WORTH_SHARING or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
