"""Cost of simulating an estimate of the full-size model: directly, and from a table.

    python benchmarks/simulation_speed.py [--threads 1] [--steps 500] [--long 50000]

One 2-D path of 5000 observations is read by the model of the paper's size with random weights; 100 paths follow. All
figures are CPU seconds of the process. The authors' code takes 0.731 CPU-seconds per step of 100 paths, 366 for 500
steps, with the same sizes on one thread.
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from fimsde.data.observations import read
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.results.make import estimate
from fimsde.results.result import Result
from fimsde.tabulate import TabulatedSDE

AUTHORS_PER_STEP = 0.731
NUM_PATHS = 100


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--steps", type=int, default=500, help="steps of the short runs")
    parser.add_argument("--long", type=int, default=50_000, help="steps of the long run, from the table only")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"{options.threads} thread(s), {NUM_PATHS} paths, CPU seconds")

    model = FIMSDE(ModelConfig.preset("paper")).eval()
    sde, seconds = timed(lambda: estimate(observations(), model))
    print(f"estimate from 5000 observations {seconds:9.2f}")
    warm_up(sde)

    _, seconds = timed(lambda: run(sde, sde, options.steps))
    report(f"{options.steps} steps, direct", seconds, options.steps)
    for tolerance in (1e-2, 1e-3):
        table, tabulating = timed(partial(sde.tabulate, tolerance=tolerance))
        print(f"table, tolerance {tolerance:g}: {table.num_nodes} nodes, error bound {table.error_bound:.1e}")
        print(f"  making the table              {tabulating:9.2f}")
        for num_steps in (options.steps, options.long):
            inside, seconds = timed(partial(run, table, sde, num_steps))
            report(f"  {num_steps} steps", seconds, num_steps)
            report("    with making the table", seconds + tabulating, num_steps)
            print(f"    {seconds / num_steps * 1e6:.0f} us per step; {inside:.0%} of the paths never left the table")


def report(what: str, seconds: float, num_steps: int) -> None:
    authors = AUTHORS_PER_STEP * num_steps
    print(f"{what:<30}  {seconds:9.2f}   authors {authors:.0f}: {authors / seconds:.1f} x", flush=True)


def warm_up(sde: Result) -> None:
    """Compile what is compiled: kernels are cached on disk, so that users wait for it once."""
    sde.tabulate(box=(np.full(2, -0.1), np.full(2, 0.1)), tolerance=1.0).simulate(np.zeros(2), [0.0, 1e-6])


def observations() -> Any:
    """A damped rotation with noise: 5000 observations at gaps of 0.002."""
    noise = np.random.default_rng(0).standard_normal((5000, 2))
    values = np.zeros((5000, 2))
    for i in range(1, 5000):
        x, y = values[i - 1]
        values[i] = values[i - 1] + 0.02 * np.array([y - 0.5 * x, -x - 0.5 * y]) + 0.1 * noise[i]
    return read(values, dt=0.002)


def run(simulated: Result | TabulatedSDE, sde: Result, num_steps: int) -> float:
    """Simulate 100 paths from the mean of the data; share of them that stayed within its standard table.

    Random weights have no reason to keep paths near the data, so a run covers a fifth of a normalised time unit,
    however many steps it takes.
    """
    times = np.linspace(0.0, 0.2 / sde.normaliser.time_scale, num_steps + 1)
    values = simulated.simulate(sde.normaliser.offset, times, NUM_PATHS, seed=0).values
    if isinstance(simulated, Result):
        return 0.0
    return float(np.mean(np.all((values >= simulated.low) & (values <= simulated.high), axis=(1, 2))))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


if __name__ == "__main__":
    main()
