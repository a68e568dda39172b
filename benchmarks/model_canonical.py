"""A model on the canonical systems with development seeds: errors of drift and diffusion beside the published FIM-SDE.

    python benchmarks/model_canonical.py [WEIGHTS] [--repetitions 5] [--told]

Without a folder of weights, those of the package. Reported results come from `fimsde bench canonical`, with other
seeds; this is for choosing between models. With --told the model knows that zero is a special place.
"""

import argparse
import time

import numpy as np
import torch
from bank_canonical import PUBLISHED

from fimsde.estimation import bundled_model
from fimsde.model.fim import FIMSDE
from fimsde.results.make import estimate
from fimsde.systems.canonical import CANONICAL, DEV_SEED, context, grid


def errors(model: FIMSDE, system, noise_std: float, gap: float, repetition: int, told: bool) -> tuple[float, float]:
    """Mean square errors of drift and diffusion on the system's grid."""
    obs = context(system, repetition, noise_std=noise_std, stride=round(gap / 0.002), seed=DEV_SEED)
    sde = estimate(obs, model, origin=np.zeros(system.dim) if told else None)
    x = grid(system)
    drift, diffusion = sde.fields(x)
    return float(np.mean((drift - system.drift(x)) ** 2)), float(np.mean((diffusion - system.diffusion(x)) ** 2))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("weights", nargs="?")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--told", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model = FIMSDE.from_pretrained(arguments.weights).eval() if arguments.weights else bundled_model()
    start, wins = time.process_time(), 0
    for (noise_std, gap), published in PUBLISHED.items():
        runs = [
            [errors(model, s, noise_std, gap, r, arguments.told) for r in range(arguments.repetitions)]
            for s in CANONICAL
        ]
        means = np.array(runs).mean(axis=1)  # (systems, 2)
        for k, name in enumerate(("drift", "diffusion")):
            ratios = means[:, k] / np.array(published[k])
            wins += int((ratios < 1).sum())
            cells = " ".join(f"{r:8.3g}" for r in ratios)
            print(f"{noise_std:4g} {gap:5g} {name:9s} ÷ published: {cells} | {np.exp(np.mean(np.log(ratios))):.4f}")
    print(f"better than published in {wins} of 56 cells; {time.process_time() - start:.0f} CPU-s")


if __name__ == "__main__":
    main()
