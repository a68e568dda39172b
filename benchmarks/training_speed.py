"""CPU-seconds of one training step of the smaller presets of the paper's recipe: before and after it was looked at.

    python benchmarks/training_speed.py [--batches 6] [--rounds 3] [--store]

`making` draws the equations and contexts of a batch. `torch` is the step (forward, backward, AdamW) with the published
dropout as torch makes it, `compiled` the same step as it is, `without` has no dropout, as the presets. One thread;
CPU-seconds of the process, for every batch the fastest of several rounds, then the mean over batches: other processes
can only make a round slower. Operations are those of all matrix products, with the sizes of these batches.
"""

import argparse
import time
from collections.abc import Callable
from dataclasses import replace

import torch
from record import store
from torch import nn

from fimsde.benchmark.scaling.cost import forward_operations
from fimsde.model import attention, dropout
from fimsde.train.config import TrainConfig
from fimsde.train.pretrain.batches import Batch, StreamedBatches
from fimsde.train.pretrain.objectives import choose_objective
from fimsde.train.pretrain.start import new_model

PUBLISHED = TrainConfig.preset("paper").model.dropout
PRESETS = ("paper-0.1m", "paper-0.4m", "paper-1.6m")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("preset       making     torch  compiled   ratio   without   10^9 operations/s")
    rows = []
    for preset in PRESETS:
        row = measure(TrainConfig.preset(preset), options.batches, options.rounds)
        rows.append({"preset": preset, **row})
        numbers = (row["making"], row["torch"], row["compiled"], row["torch"] / row["compiled"], row["without"])
        print(f"{preset}  {' '.join(f'{n:9.3f}' for n in numbers)}  {row['operations'] / row['without'] / 1e9:9.0f}")
    if options.store:
        store("training_speed", {"rows": rows})


def measure(config: TrainConfig, number: int, rounds: int) -> dict[str, float]:
    """Means over batches."""
    stream = StreamedBatches(config)
    batches = [stream[i] for i in range(number)]  # also compiles
    making = fastest(lambda i: stream[i], number, rounds)
    step, without = (_step(replace(config, model=replace(config.model, dropout=p)), batches) for p in (PUBLISHED, 0.0))
    compiled = fastest(step, number, rounds)
    usual = dropout.is_compiled
    for module in (attention, dropout):
        module.is_compiled = lambda x, p: False
    plain = fastest(step, number, rounds)
    for module in (attention, dropout):
        module.is_compiled = usual
    free = fastest(without, number, rounds)
    operations = sum(3 * batch_operations(config, batch) for batch in batches) / number
    return {"making": making, "torch": plain, "compiled": compiled, "without": free, "operations": operations}


def _step(config: TrainConfig, batches: list[Batch]) -> Callable[[int], None]:
    model, objective = new_model(config).train(), choose_objective(config)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-6)

    def step(i: int) -> None:
        optimiser.zero_grad()
        objective(model, batches[i]).total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    step(0)
    return step


def batch_operations(config: TrainConfig, batch: Batch) -> int:
    """Operations of the forward pass."""
    tokens = batch.source.mask.shape[1]
    return batch.num_systems * forward_operations(config.model, tokens, config.num_queries)


def fastest(work: Callable[[int], object], number: int, rounds: int) -> float:
    """CPU-seconds: for every item the fastest round, then the mean."""
    found = []
    for item in range(number):
        seconds = []
        for _ in range(rounds):
            before = time.process_time()
            work(item)
            seconds.append(time.process_time() - before)
        found.append(min(seconds))
    return sum(found) / number


if __name__ == "__main__":
    main()
