"""What can any equation reach on a real series? The training folds resampled, scored against the held-out fold.

Pieces of the training folds know everything but how the held-out years differ; single values forget their order;
normal values keep mean and standard deviation only. Scores are clipped at zero and averaged over seeds.

python benchmarks/real_world_floor.py oil --data folder/of/the/series
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.stats import t as student

from fimsde.benchmark.tasks import load, tasks
from fimsde.metrics.mmd import mmd

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def laws(x: np.ndarray) -> dict[str, Draw]:
    """Ways to draw paths of white increments from a training series (times,)."""
    degrees, middle, scale = student.fit(x)

    def pieces(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        starts = rng.integers(0, len(x) - shape[1], shape[0])
        return np.stack([x[s : s + shape[1], None] for s in starts])

    return {
        "pieces": pieces,
        "single values": lambda rng, shape: rng.choice(x, shape),
        "normal values": lambda rng, shape: rng.normal(x.mean(), x.std(), shape),
        "Student's t": lambda rng, shape: student.rvs(degrees, middle, scale, size=shape, random_state=rng),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("series", choices=("wind", "oil"))  # differences; levels cannot be drawn one by one
    parser.add_argument("--data", type=Path, default=None)
    parser.add_argument("--seeds", type=int, default=10)
    arguments = parser.parse_args()
    found: dict[str, list[float]] = {}
    for task in tasks("real-world", systems=[arguments.series]):
        problem = load(task, arguments.data)
        reference, x = problem.comparisons[0].reference, problem.observations.values[:, 0]
        print(f"fold {task.repetition}: standard deviation {x.std():.3f} in training, {reference.std():.3f} held out")
        for name, draw in laws(x).items():
            scores = []
            for seed in range(arguments.seeds):
                paths = draw(np.random.default_rng(seed), reference.shape)
                paths[:, 0] = reference[:, 0]
                scores.append(max(0.0, mmd(reference, paths, num_permutations=1, seed=seed).value))
            found.setdefault(name, []).append(float(np.mean(scores)))
    for name, values in found.items():
        print(f"{name:<14} mean {np.mean(values):.3f}, folds {' '.join(f'{v:.3f}' for v in values)}")


if __name__ == "__main__":
    main()
