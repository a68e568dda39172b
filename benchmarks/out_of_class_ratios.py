"""How far estimates are off where the data are, on systems that no cubic describes: ours divided by another method.

    fimsde bench out-of-class --methods ours,kramers-moyal,sfi-linear --no-paths --out benchmarks/results
    python benchmarks/out_of_class_ratios.py sfi-linear [--method evidence]

Geometric means over the tasks that both methods have finished, from stored results; below 1 ours is better.
"""

import argparse
from collections import defaultdict
from pathlib import Path

import numpy as np

from fimsde.benchmark.results import Measurement, read_all

Ratios = dict[tuple[str, str], dict[str, list[float]]]


def log_ratios(results: list[Measurement], other: str, method: str = "ours") -> Ratios:
    """By field and setting, then by system: the log of our error over the other's, one for every data set of both."""
    errors: dict = defaultdict(dict)
    for r in results:
        if r.data_error is not None:
            errors[r.task.setting, r.task.system, r.task.repetition][r.method] = r.data_error
    logs: dict = defaultdict(lambda: defaultdict(list))
    for (setting, system, _), by_method in errors.items():
        for field in ("drift", "diffusion"):
            if {method, other} <= by_method.keys():
                ours, theirs = (getattr(by_method[name], field) for name in (method, other))
                logs[field, setting][system].append(np.log(ours / theirs))
    return logs


def mean_ratio(by_system: dict[str, list[float]]) -> float:
    """Geometric mean over all data sets."""
    return float(np.exp(np.concatenate(list(by_system.values())).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", help="name of the other method")
    parser.add_argument("--method", default="ours", help="ours: the bundled model; evidence: the default estimate")
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    found = log_ratios(read_all(arguments.results, "out-of-class", seed=0), arguments.other, arguments.method)
    for (field, setting), systems in sorted(found.items(), key=lambda entry: (entry[0][0] != "drift", entry[0][1])):
        num = sum(map(len, systems.values()))
        cells = ", ".join(f"{system} {np.exp(np.mean(values)):.2g}" for system, values in sorted(systems.items()))
        print(f"{field:9s} {setting:22s} {mean_ratio(systems):.3f} over {num} data sets: {cells}")


if __name__ == "__main__":
    main()
