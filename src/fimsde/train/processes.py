"""One process, or several that torchrun started and Accelerate ties together; the loop does not see the difference."""

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fimsde.errors import ConfigError


@dataclass(frozen=True)
class Part:
    """Which share of every batch this process makes: all, or one of several equal parts."""

    rank: int = 0
    world: int = 1

    def items(self, batch_size: int) -> range:
        """Positions in the batch."""
        if batch_size % self.world:
            raise ConfigError(
                f"batch_size is {batch_size} with {self.world} processes; expected a multiple, so that parts are equal."
            )
        size = batch_size // self.world
        return range(self.rank * size, (self.rank + 1) * size)


class Processes:
    """Where training runs: device, number and rank of processes, and what has to be done together.

    Args:
        precision: "bfloat16" computes in mixed precision on GPUs that have it.
    """

    def __init__(self, precision: str = "float32") -> None:
        has_bfloat16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
        self.mixed = precision == "bfloat16" and has_bfloat16
        self._accelerator: Any = None
        self.part = Part()
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            self._accelerator = _accelerator("bf16" if self.mixed else "no")
            self.part = Part(self._accelerator.process_index, self._accelerator.num_processes)
            self.device = self._accelerator.device

    @property
    def is_main(self) -> bool:
        """True for the process that writes files."""
        return self.part.rank == 0

    def prepare(self, module: nn.Module) -> nn.Module:
        """The module on its device; its gradients become the means over all processes."""
        module = module.to(self.device)
        return module if self._accelerator is None else self._accelerator.prepare_model(module)

    def mean(self, values: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
        """Mean over all processes."""
        return values if self._accelerator is None else self._accelerator.reduce(values, "mean")

    def wait(self) -> None:
        """Until all processes are here."""
        if self._accelerator is not None:
            self._accelerator.wait_for_everyone()

    def autocast(self) -> AbstractContextManager[object]:
        """Mixed precision, where it was asked for and is there."""
        return torch.autocast(self.device.type, torch.bfloat16) if self.mixed else nullcontext()

    @contextmanager
    def randomness(self, seed: int) -> Iterator[None]:
        """torch's random numbers inside follow from the seed; outside nothing is changed."""
        devices = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(seed)
            yield


def _accelerator(mixed_precision: str) -> Any:
    try:
        from accelerate import Accelerator  # type: ignore[import-untyped]
    except ImportError as error:
        raise ConfigError(
            "several processes need Accelerate; install it with `pip install fimsde[train]`, or run one process."
        ) from error
    return Accelerator(cpu=not torch.cuda.is_available(), mixed_precision=mixed_precision)
