"""How far estimates are off where the data are, on systems that no cubic describes: ours divided by another method.

    fimsde bench out-of-class --methods ours,kramers-moyal,sfi-linear --no-paths --out benchmarks/results
    python benchmarks/out_of_class_ratios.py sfi-linear

Geometric means over the tasks that both methods have finished, from stored results; below 1 ours is better.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from fimsde.benchmark.results import read_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", help="name of the other method")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    errors: dict = defaultdict(dict)
    for result in read_all(arguments.results, "out-of-class", seed=0):
        if result.data_error is not None:
            errors[result.task.setting, result.task.system, result.task.repetition][result.method] = result.data_error
    for field in ("drift", "diffusion"):
        logs = defaultdict(lambda: defaultdict(list))
        for (setting, system, _), by_method in errors.items():
            if {"ours", arguments.other} <= by_method.keys():
                ours, theirs = (getattr(by_method[name], field) for name in ("ours", arguments.other))
                logs[setting][system].append(np.log(ours / theirs))
        for setting, systems in sorted(logs.items()):
            every = np.concatenate(list(systems.values()))
            cells = ", ".join(f"{system} {np.exp(np.mean(values)):.2g}" for system, values in sorted(systems.items()))
            print(f"{field:9s} {setting:22s} {np.exp(every.mean()):.3f} over {len(every)} data sets: {cells}")


if __name__ == "__main__":
    main()
