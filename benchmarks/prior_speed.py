"""Accepted equations per CPU-second of the prior, beside the authors' generator.

Run: python benchmarks/prior_speed.py [--store]

`ours` is timed over what the authors' figures cover: drawing polynomials, simulating all proposals, rejecting, and
evaluating drift and diffusion at the whole grid of locations and at every observation; nothing is written to disk.
Ours also draws the corruption and the stored locations. `paths` stops after rejection. Each cell is the fastest of
several rounds over the same equations, in CPU time of this process: other processes can only make a round slower.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from record import store

from fimsde.prior.config import PriorConfig
from fimsde.prior.equation import draw_equation
from fimsde.prior.noise_kernels import derive
from fimsde.prior.paths import draw_clean_paths

# Accepted equations per CPU-second of the authors' generator on one core of a comparable machine, by (dimension, gap).
AUTHORS = {
    (1, 0.1): 10.156,
    (1, 0.01): 38.874,
    (1, 0.001): 140.456,
    (2, 0.1): 1.1084,
    (2, 0.01): 9.1466,
    (2, 0.001): 49.791,
    (3, 0.1): 0.056455,
    (3, 0.01): 1.2883,
    (3, 0.001): 13.319,
}
TRAINING_SET = {1: 100_000, 2: 200_000, 3: 300_000}  # equations by dimension in the paper, a third for each gap


def make_everything(config: PriorConfig, index: int) -> None:
    equation = draw_equation(config, seed=0, index=index)
    for x in (equation.grid(config.locations), equation.values.reshape(-1, equation.dim)):
        equation.sde.drift(x)
        equation.sde.diffusion(x)


def make_paths(config: PriorConfig, index: int) -> None:
    draw_clean_paths(config, config.dims[0], config.settings[0], np.uint64(derive(np.uint64(0), index)))


def cpu_seconds(make: Callable[[PriorConfig, int], None], config: PriorConfig, num_equations: int) -> float:
    start = time.process_time()
    for index in range(num_equations):
        make(config, index)
    return time.process_time() - start


def measure(make: Callable[[PriorConfig, int], None], config: PriorConfig, rounds: int, seconds: float) -> float:
    """Accepted equations per CPU-second: fastest of `rounds` rounds over the same equations."""
    make(config, 0)  # compiles, or loads what was compiled before
    num_equations = max(10, round(10 * seconds / cpu_seconds(make, config, 10)))
    return num_equations / min(cpu_seconds(make, config, num_equations) for _ in range(rounds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU time of a round")
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    print("dim     gap   authors      ours   ratio     paths   (accepted equations per CPU-second)")
    ratios, rows, core_seconds = [], [], 0.0
    for (dim, gap), authors in AUTHORS.items():
        config = PriorConfig().restrict(dims=[dim], gaps=[gap])
        ours, paths = (measure(make, config, options.rounds, options.seconds) for make in (make_everything, make_paths))
        ratios.append(ours / authors)
        rows.append({"dim": dim, "gap": gap, "authors": authors, "ours": ours, "paths": paths})
        core_seconds += TRAINING_SET[dim] / 3 / ours
        print(f"{dim:>3}  {gap:>6g}  {authors:>8.4g}  {ours:>8.4g}  {ratios[-1]:>6.4g}  {paths:>8.4g}", flush=True)
    print(f"mean ratio {sum(ratios) / len(ratios):.0f}, smallest {min(ratios):.0f}")
    print(f"the paper's 600 000 equations: {core_seconds / 3600:.2f} core-hours")
    if options.store:
        store("prior_speed", {"rows": rows})


if __name__ == "__main__":
    main()
