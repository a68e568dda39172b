"""How often bands cover the truth where data are: the canonical systems, with development seeds.

    python benchmarks/band_coverage.py                       # the bundled weights, a quarter of an hour on one core
    python benchmarks/band_coverage.py --repetitions 2 --weights DIR
    python benchmarks/band_coverage.py --seed 0 --store      # the report seeds, for the pages (make tables)

The bar is 80 to 97 % at nominal 90 %, for each system, drift and diffusion, averaged over what was observed.
"""

import argparse
import time
import warnings
from collections import defaultdict

import numpy as np
from record import store

import fimsde
from fimsde.errors import DataWarning
from fimsde.systems import canonical

CONDITIONS = {"gap 0.002": (1, 0.0), "gap 0.02": (10, 0.0), "gap 0.02, 5 % noise": (10, 0.05)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=canonical.REPETITIONS, help="data sets per system, up to 5")
    parser.add_argument("--resamples", type=int, default=50)
    parser.add_argument("--level", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=canonical.DEV_SEED)
    parser.add_argument("--weights", help="folder of weights; the bundled ones by default")
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    args = parser.parse_args()
    model = None if args.weights is None else fimsde.FIMSDE.from_pretrained(args.weights)
    warnings.simplefilter("ignore", DataWarning)
    shares, seconds = defaultdict(list), []
    for system in canonical.CANONICAL:
        for condition, (stride, noise_std) in CONDITIONS.items():
            for repetition in range(args.repetitions):
                start = time.process_time()
                covered = coverage(system, repetition, stride, noise_std, model, args)
                seconds.append(time.process_time() - start)
                for field, share in zip(("drift", "diffusion"), covered, strict=True):
                    shares[system.title, field].append(share)
                    shares[condition, field].append(share)
    groups: dict[str, dict[str, list[float]]] = defaultdict(dict)
    for (group, field), values in shares.items():
        error = np.std(values) / np.sqrt(len(values))
        groups[group][field] = [float(np.mean(values)), float(error)]
        print(f"{group:26} {field:10} {100 * np.mean(values):5.1f} ± {100 * error:.1f} %  ({len(values)} data sets)")
    print(f"CPU seconds per band of {args.resamples} resamples, estimate included: median {np.median(seconds):.2f}")
    if args.store:
        numbers = {"groups": groups, "seconds": float(np.median(seconds)), "conditions": list(CONDITIONS)}
        store("band_coverage", numbers)


def coverage(system, repetition, stride, noise_std, model, args) -> tuple[float, float]:
    """Share of true states at which the bands cover the true drift and the true diffusion."""
    obs = canonical.context(system, repetition, stride=stride, noise_std=noise_std, seed=args.seed)
    x = canonical.context(system, repetition, stride=stride, seed=args.seed).values[12::25]
    band = fimsde.estimate(obs, model).band(x, level=args.level, resamples=args.resamples)
    drift, diffusion = system.drift(x), system.diffusion(x)
    return (
        float(np.mean((band.drift_low <= drift) & (drift <= band.drift_high))),
        float(np.mean((band.diffusion_low <= diffusion) & (diffusion <= band.diffusion_high))),
    )


if __name__ == "__main__":
    main()
