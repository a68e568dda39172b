"""Fresh seeds: the canonical systems on random numbers that nothing was chosen by, beside the published errors.

    python benchmarks/fresh_seeds.py [--seeds 2000000,3000000,4000000] [--repetitions 5] [--store]

Errors of the default estimate on the paper's grids, means over repetitions divided by the published means; geometric
means over the seven systems, and in how many of the 56 cells of drift and diffusion the published model is worse.
"""

import argparse

import numpy as np
from record import store

from fimsde.benchmark.published import find
from fimsde.evidence.estimate import fit
from fimsde.systems.canonical import CANONICAL, context, grid

SETTINGS = {f"{noise:g}/{gap:g}": (noise, gap) for noise in (0.0, 0.05) for gap in (0.002, 0.02)}
FIELDS = ("drift", "diffusion")


def errors(system, noise_std: float, gap: float, repetition: int, seed: int) -> np.ndarray:
    """Mean square errors of drift and diffusion on the grid."""
    sde, x = fit(context(system, repetition, noise_std=noise_std, stride=round(gap / 0.002), seed=seed)), grid(system)
    return np.array(
        [np.mean((sde.drift(x) - system.drift(x)) ** 2), np.mean((sde.diffusion(x) - system.diffusion(x)) ** 2)]
    )


def ratios(seed: int, repetitions: int) -> np.ndarray:
    """Our errors over the published ones: (fields, settings, systems)."""
    out = np.empty((len(FIELDS), len(SETTINGS), len(CANONICAL)))
    for j, (noise, gap) in enumerate(SETTINGS.values()):
        for k, system in enumerate(CANONICAL):
            mean = np.mean([errors(system, noise, gap, r, seed) for r in range(repetitions)], axis=0)
            for i, field in enumerate(FIELDS):
                published = find("canonical", system.name, f"rho={noise:g},dtau={gap:g}", "", f"{field}_mse", "fim")
                assert published is not None, "the paper has a number for every cell"
                assert published.mean is not None, "the paper has a number for every cell"
                out[i, j, k] = mean[i] / published.mean
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="2000000,3000000,4000000")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    arguments = parser.parse_args()
    rows = []
    for seed in map(int, arguments.seeds.split(",")):
        found = ratios(seed, arguments.repetitions)
        means = np.exp(np.log(found).mean(axis=2))
        rows.append({"seed": seed, "better": int((found < 1).sum()), "of": found.size})
        rows[-1] |= {field: means[i].round(6).tolist() for i, field in enumerate(FIELDS)}
        print(
            seed, *(f"{field} {' '.join(f'{v:.3g}' for v in rows[-1][field])}" for field in FIELDS), rows[-1]["better"]
        )
    if arguments.store:
        store("fresh_seeds", {"settings": list(SETTINGS), "repetitions": arguments.repetitions, "rows": rows})


if __name__ == "__main__":
    main()
