"""The optimisation loop, for pretraining and finetuning: exact resume, averaged weights, no silent repairs."""

import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import cos, inf, pi, sqrt
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset
from tqdm import tqdm

from fimsde.errors import CheckpointError, FimsdeError
from fimsde.train import checkpoint
from fimsde.train.checkpoint import State
from fimsde.train.config import LoopConfig, ScheduleConfig
from fimsde.train.log import Log
from fimsde.train.losses import Loss
from fimsde.train.processes import Processes


@runtime_checkable
class Item(Protocol):
    """What one step reads, whatever the objective makes of it."""

    @property
    def num_systems(self) -> int: ...

    def to(self, device: torch.device) -> "Item": ...


ItemT = TypeVar("ItemT", bound=Item)
Objective = Callable[[Any, ItemT], Loss]  # of the module that learns, and a batch


@dataclass(frozen=True)
class RunOptions:
    """What changes neither losses nor weights."""

    workers: int = 0  # processes that make batches; 0: this one does
    show_progress: bool = False
    tensorboard: bool = False
    unit: str = " equations"  # of the progress bar


def run(
    model: nn.Module,
    batches: TorchDataset[ItemT],
    objective: Objective[ItemT],
    config: LoopConfig,
    out: Path,
    *,
    settings: Mapping[str, Any],
    resume: bool = False,
    processes: Processes | None = None,
    milestone: Callable[[State], bool | None] | None = None,
    options: RunOptions | None = None,
) -> State:
    """Train until `config.steps` steps are done, or until an interrupt (Ctrl-C, SIGTERM) asks to save and stop.

    Args:
        model: Trained in place, as far as its parameters ask for gradients.
        batches: Batch number i is used in step i.
        objective: What to minimise.
        config: How.
        out: Folder for checkpoints and log.jsonl.
        settings: All that the run depends on, stored in checkpoints and compared on resume.
        resume: Go on from the last checkpoint in `out`; without it `out` must not hold any.
        processes: Where to run.
        milestone: Called by the main process after every checkpoint, and with the one that is resumed from, in case
            the process was killed in between. True ends training.
        options: Conveniences.

    Returns:
        The state at the end; `step` is below `config.steps` if the run was interrupted or ended by the milestone.
    """
    processes, options = processes or Processes(config.precision), options or RunOptions()
    module = processes.prepare(_Step(model, objective))
    state = _start(model, config, out / "checkpoints", settings, resume)
    model.train()
    began, before = time.perf_counter(), state.seconds

    def reach() -> bool:
        ends = bool(milestone(state)) if milestone is not None and processes.is_main else False
        processes.wait()
        return processes.mean(torch.tensor([float(ends)], device=processes.device)).item() > 0

    def save() -> bool:
        if processes.is_main:
            state.seconds = before + time.perf_counter() - began
            checkpoint.save(out / "checkpoints", state, settings)
        return reach()

    ended = reach() if resume else False
    with (
        _interrupts() as interrupted,
        Log(out, state.step, options.tensorboard, processes.is_main) as log,
        _bar(state.step, config.steps, options, processes.is_main) as bar,
    ):
        for batch in _loader(batches, state.step, state.step if ended else config.steps, options.workers):
            reached = _train_step(module, state, batch.to(processes.device), config, processes, interrupted)
            if (state.step - 1) % config.log_interval == 0 or reached.skipped:
                log.write(state.step - 1, reached.numbers)
            if state.step == config.steps or reached.stop or state.step % config.checkpoint_interval == 0:
                ended = save()
            bar.unit_scale = batch.num_systems * processes.part.world  # counts steps, shows equations
            bar.set_postfix(loss=reached.numbers["loss"], skipped=state.skipped, refresh=False)
            bar.update()
            if reached.stop or ended:
                break
    model.eval()
    return state


class _Step(nn.Module):
    """Model and objective as one module, because a wrapped module shares gradients only through its forward."""

    def __init__(self, model: nn.Module, objective: Objective[Any]) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Item) -> tuple[Tensor, dict[str, Tensor]]:
        loss: Loss = self.objective(self.model, batch)
        return loss.total, {name: part.detach() for name, part in loss.parts.items()}


@dataclass(frozen=True)
class _Reached:
    numbers: dict[str, float | bool | None]
    skipped: bool
    stop: bool


def _start(model: nn.Module, config: LoopConfig, folder: Path, settings: Mapping[str, Any], resume: bool) -> State:
    optimiser = torch.optim.AdamW(
        [parameter for parameter in model.parameters() if parameter.requires_grad],
        lr=config.optimiser.learning_rate,
        betas=config.optimiser.betas,
        weight_decay=config.optimiser.weight_decay,
    )
    ema = {name: t.detach().clone() for name, t in model.state_dict().items()} if config.ema_decay else {}
    state = State(model, optimiser, ema)
    if resume:
        checkpoint.restore(folder, state, settings)
    elif found := checkpoint.steps(folder):
        raise CheckpointError(
            f"{folder} holds a run that got to step {found[-1]}. Resume it with --resume, or choose a new folder."
        )
    return state


def _train_step(
    module: nn.Module,
    state: State,
    batch: Item,
    config: LoopConfig,
    processes: Processes,
    interrupted: threading.Event,
) -> _Reached:
    rate = config.optimiser.learning_rate * learning_rate_share(config.schedule, state.step, config.steps)
    for group in state.optimiser.param_groups:
        group["lr"] = rate
    key = np.random.SeedSequence([config.seed, state.step, processes.part.rank])
    state.optimiser.zero_grad()
    with processes.randomness(int(key.generate_state(1)[0])):
        with processes.autocast():
            total, parts = module(batch)
        total.backward()
    norm = nn.utils.clip_grad_norm_(list(state.model.parameters()), config.clip or inf)
    together = torch.stack([total.detach(), total.new_tensor(float(interrupted.is_set())), *parts.values()])
    loss, stop, *values = processes.mean(together.float()).tolist()
    is_finite = bool(np.isfinite(loss)) and bool(torch.isfinite(norm))
    if is_finite:
        state.optimiser.step()
        _average(state, config.ema_decay, config.ema_part)
    elif config.non_finite == "stop":
        raise FimsdeError(
            f"step {state.step}: the loss is {loss:g} and the norm of its gradient {float(norm):g}. Lower the learning "
            'rate, clip the gradient, or set non_finite = "skip"; checkpoints before this step are intact.'
        )
    state.step += 1
    state.skipped += not is_finite
    numbers = {"loss": loss, **dict(zip(parts, values, strict=True)), "gradient_norm": float(norm)}
    shown: dict[str, float | bool | None] = {
        name: value if np.isfinite(value) else None for name, value in numbers.items()
    }
    return _Reached(shown | {"learning_rate": rate, "skipped": not is_finite}, not is_finite, stop > 0)


@torch.no_grad()
def _average(state: State, decay: float, part: int) -> None:
    """Exponential averages; early on over a part of the steps done, so that random weights are forgotten."""
    done = state.step - state.skipped + 1
    weight = 1 - min(decay, done / (done + part))
    weights = state.model.state_dict()
    for name, average in state.ema.items():
        average.lerp_(weights[name], weight)


def learning_rate_share(schedule: ScheduleConfig, step: int, steps: int) -> float:
    """Learning rate of a step as a share of the largest one."""
    warm = min(1.0, (step + 1) / (schedule.warm_up + 1))
    if schedule.kind == "constant":
        return warm
    if schedule.kind == "root":
        return min(warm, sqrt((schedule.warm_up + 1) / (step + 1)))
    return warm * (schedule.final + (1 - schedule.final) * 0.5 * (1 + cos(pi * step / steps)))


def _bar(start: int, steps: int, options: RunOptions, is_main: bool) -> "tqdm[None]":
    is_shown = options.show_progress and is_main
    return tqdm(total=steps, initial=start, unit=options.unit, delay=2, disable=None if is_shown else True)


def _loader(batches: TorchDataset[ItemT], start: int, steps: int, workers: int) -> DataLoader[ItemT]:
    """Batches from `start` on, in order."""
    return DataLoader(
        batches,
        batch_size=None,
        sampler=range(start, steps),
        num_workers=workers,
        generator=torch.Generator(),  # otherwise the loader draws from torch's global one
        multiprocessing_context="spawn" if workers else None,  # forking a process with threads can hang
        worker_init_fn=_ignore_interrupts if workers else None,
    )


def _ignore_interrupts(worker: int) -> None:
    """The main process decides when to stop; until then it needs its batches."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; the second one acts as usual. Main thread only."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, frame: object) -> None:
        asked.set()
        signal.signal(number, usual[signal.Signals(number)])

    for number in usual:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
