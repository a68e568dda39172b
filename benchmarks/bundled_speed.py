"""CPU-seconds of the bundled model beside the authors' code: one path of 5000 observations of the Duffing oscillator.

    python benchmarks/bundled_speed.py [--store]

Measured: importing the package in a fresh interpreter; estimating and answering at 1024 locations; 100 paths of 500
Euler steps, by the model itself and from a table of its fields. CPU-seconds of the process with torch's default number
of threads, the best of several repetitions. The authors' figures: OpenFIM, commit cee2bb5, one thread.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import torch
from record import store

import fimsde
from fimsde.systems.canonical import DUFFING, context, grid

AUTHORS = {"locations": 8.3, "paths": 366.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    observations, x = context(DUFFING), grid(DUFFING)
    start, times = observations.values[:100], np.arange(501) * 0.002
    sde = fimsde.estimate(observations)
    table = sde.tabulate(tolerance=0.01)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), load average {os.getloadavg()[0]:.1f}")
    print(f"{'CPU-seconds':42s}{'ours':>8s}{'authors':>9s}{'bar':>7s}")
    found = {}
    for name, seconds, authors, bar in (
        ("import of the package", import_seconds(), None, 3.0),
        ("estimate and 1024 locations", best(lambda: fimsde.estimate(observations).fields(x)), "locations", 0.2),
        ("100 paths of 500 steps", best(lambda: sde.simulate(start, times), repeats=3), "paths", 4.0),
        ("the same from a table, which took", best(lambda: sde.tabulate(tolerance=0.01), repeats=2), None, None),
        ("  and then", best(lambda: fimsde.simulate(table, start, times)), "paths", None),
    ):
        found[name.strip()] = seconds
        figures = [None if authors is None else AUTHORS[authors], bar]
        print(f"{name:42s}{seconds:8.3f}" + "".join(f"{'' if f is None else f'{f:g}':>8s}" for f in figures))
    if options.store:
        numbers = {
            "import": found["import of the package"],
            "locations": found["estimate and 1024 locations"],
            "paths": found["100 paths of 500 steps"],
            "tabulated": found["the same from a table, which took"] + found["and then"],
            "authors": AUTHORS,
        }
        store("bundled_speed", numbers)


def best(work: Callable[[], object], repeats: int = 5) -> float:
    """CPU-seconds of the quickest of several repetitions, after one that does not count."""
    work()
    spent = []
    for _ in range(repeats):
        begin = time.process_time()
        work()
        spent.append(time.process_time() - begin)
    return min(spent)


def import_seconds() -> float:
    """Wall time of `import fimsde` in a fresh interpreter, the quickest of three."""
    command = [
        sys.executable,
        "-c",
        "import time; t = time.perf_counter(); import fimsde; print(time.perf_counter() - t)",
    ]
    return min(float(subprocess.run(command, capture_output=True, check=True, text=True).stdout) for _ in range(3))


if __name__ == "__main__":
    main()
