"""Short data: the canonical systems with the first 300 or 1000 observations, errors of drift and diffusion.

    python benchmarks/short_data.py [--repetitions 5] [--json] [--store]

Report seeds, bundled weights, the paper's grids. The published model has no figures for data this short; beside ours
stand Kramers-Moyal averages (polynomial least squares of degree 3 and 2, what most people would do) and, in the last
column, the geometric mean over systems of the ratio of our error to theirs.
"""

import argparse
import json
import warnings

import numpy as np
import torch
from record import store

from fimsde.baselines import kramers_moyal
from fimsde.data.observations import Observations, read
from fimsde.errors import DataWarning
from fimsde.results.make import estimate
from fimsde.systems.canonical import CANONICAL, context, grid

SETTINGS = ((0.0, 0.002), (0.0, 0.02), (0.05, 0.002), (0.05, 0.02))
LENGTHS = (300, 1000)
REPORT_SEED = 0


def shortened(obs: Observations, length: int) -> Observations:
    """The first observations of the first path, or the first paths if one is shorter than that."""
    ends = np.minimum(obs.path_starts[1:], length)
    kept = [k for k in range(obs.num_paths) if ends[k] - obs.path_starts[k] >= 2]
    paths = [obs.path(k) for k in kept]
    cut = [int(ends[k] - obs.path_starts[k]) for k in kept]
    return read(
        [v[:n] for (_, v), n in zip(paths, cut, strict=True)],
        times=[t[:n] for (t, _), n in zip(paths, cut, strict=True)],
    )


def errors(system, noise_std: float, gap: float, length: int, repetition: int) -> np.ndarray:
    """Mean square errors of drift and diffusion, of our model and of the baseline: (2, 2)."""
    obs = context(system, repetition, noise_std=noise_std, stride=round(gap / 0.002), seed=REPORT_SEED)
    x = grid(system)
    out = []
    for sde in (estimate(shortened(obs, length)), kramers_moyal.fit(shortened(obs, length))):
        with np.errstate(all="ignore"):
            found = (sde.drift(x), sde.diffusion(x))
        out.append([np.mean((f - t) ** 2) for f, t in zip(found, (system.drift(x), system.diffusion(x)), strict=True)])
    return np.array(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="one JSON object per row in place of the table")
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DataWarning)
    rows = []
    print("" if arguments.json else f"{'':34}" + " ".join(f"{s.name:>13}" for s in CANONICAL))
    for length in LENGTHS:
        for noise_std, gap in SETTINGS:
            runs = np.array(
                [[errors(s, noise_std, gap, length, r) for r in range(arguments.repetitions)] for s in CANONICAL]
            ).mean(axis=1)  # (systems, methods, fields)
            for k, name in enumerate(("drift", "diffusion")):
                ratio = float(np.exp(np.mean(np.log(runs[:, 0, k] / runs[:, 1, k]))))
                row = {"length": length, "noise": noise_std, "gap": gap, "field": name, "ratio": ratio}
                rows.append(row)
                if arguments.json:
                    print(json.dumps(row | {"ours": runs[:, 0, k].tolist(), "polynomial": runs[:, 1, k].tolist()}))
                    continue
                for m, method in enumerate(("ours", "polynomial")):
                    cells = " ".join(f"{v:13.3g}" for v in runs[:, m, k])
                    tail = f" | {ratio:.3f}" if m == 0 else ""
                    print(f"{length:5d} {noise_std:4g} {gap:5g} {name:9} {method:10}{cells}{tail}")
    if arguments.store:
        store("short_data", {"rows": rows})


if __name__ == "__main__":
    main()
