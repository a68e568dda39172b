"""Does finetuning worsen the likelihood of held-out steps? Paired over tasks, from stored results.

fimsde bench canonical --methods ours,ours-finetuned --no-paths --out benchmarks/results
python benchmarks/finetune_likelihood.py canonical
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from fimsde.benchmark.results import Measurement, read_all

BEFORE, AFTER = "ours", "ours-finetuned"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=("canonical", "lorenz", "real-world", "out-of-class"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    stored = read_all(arguments.results, arguments.experiment, seed=arguments.seed)
    before, after = (_by_task(stored, name) for name in (BEFORE, AFTER))
    both = sorted(before.keys() & after.keys())
    gains = np.array([after[key] - before[key] for key in both])
    for key, gain in zip(both, gains, strict=True):
        print(f"{' '.join(map(str, key)):<44} {before[key]:>10.4f} {gain:>+9.4f}")
    finite = gains[np.isfinite(gains)]
    if len(finite) > 1:
        half = student.ppf(0.975, len(finite) - 1) * finite.std(ddof=1) / len(finite) ** 0.5
        print(
            f"\nmean gain {finite.mean():+.4f} nats per step and component, 95 % interval "
            f"{finite.mean() - half:+.4f} to {finite.mean() + half:+.4f}, "
            f"median {np.median(finite):+.4f}, unchanged up to rounding in {int((abs(finite) < 1e-6).sum())} and "
            f"worse by more than 0.001 in {int((finite < -1e-3).sum())} of {len(finite)} tasks "
            f"({len(gains) - len(finite)} without a number)"
        )


def _by_task(results: list[Measurement], method: str) -> dict[tuple[str, str, int], float]:
    """Mean log density of the steps at which both fields are valid."""
    return {
        (r.task.system, r.task.setting, r.task.repetition): r.likelihood.mean_of_valid
        for r in results
        if r.method == method and r.likelihood is not None
    }


if __name__ == "__main__":
    main()
