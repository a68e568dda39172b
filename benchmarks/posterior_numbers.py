"""Intervals of numbers that people read off an equation, against the truth; and SFI's intervals beside ours.

    python benchmarks/posterior_numbers.py exit-times --sets 200 --seed 7 --store
    python benchmarks/posterior_numbers.py entropy --sets 20 --seed 7 --store
    python benchmarks/posterior_numbers.py sfi --sets 10 --seed 7 --store     # needs the extra `peers`

Exit times: the mean time from one well of dx = (x - x³) dt + 0.5 dW to the top of the barrier, 2000 observations with a
gap of 0.1, about ten crossings. Entropy production: the driven trap of the gallery of StochasticForceInference, exactly
0.18, 20 000 observations. SFI: coverage of `predict_ci` of its linear estimator and of our bands for the drift, at
observed states of three systems of that gallery. Seeds from 1000000 on are for development.
"""

import argparse
import time
import warnings

import numpy as np
from record import FOLDER, load, store

import fimsde
from fimsde.equations.sde import FunctionSDE
from fimsde.systems.gallery import GALLERY, gallery_sample
from fimsde.systems.heun import heun_paths

LEVEL = 0.9
WELL = FunctionSDE(1, lambda x: x - x**3, lambda x: np.full_like(x, 0.5))
TRAP = FunctionSDE(2, lambda x: -x + 0.3 * x[:, ::-1] * [-1, 1], np.ones_like)
EXACT_ENTROPY = 0.18  # 2 w² / θ with w = 0.3, θ = 1
SFI_SYSTEMS = ("ou", "double_well_diag", "limit_cycle")
PASSAGE = {"start": -1.0, "level": 0.0, "walls": (-2.0, 2.0)}


def exit_time_sets(sets: int, seed: int) -> dict[str, float]:
    """Share of data sets whose interval holds the mean time from -1 to 0."""
    exact = fimsde.result(WELL).first_passage(**PASSAGE, num_cells=4000).at(-1.0)[0]
    inside, ratios, spent = [], [], []
    for number in range(sets):
        path = heun_paths(WELL, np.array([[-1.0]]), 0.1, 2000, 20, np.random.default_rng([seed, number]))[0]
        result = fimsde.fit(fimsde.read(path, dt=0.1), "evidence")
        before = time.process_time()
        ends = result.first_passage(**PASSAGE, num_cells=100).interval(-1.0, LEVEL)
        spent.append(time.process_time() - before)
        inside.append(ends.low[0] <= exact <= ends.high[0])
        ratios.append(ends.high[0] / ends.low[0])
    seconds = {"upper end over lower end": float(np.median(ratios)), "CPU seconds": float(np.median(spent))}
    return _share(inside) | {"exact": float(exact)} | seconds


def entropy_sets(sets: int, seed: int) -> dict[str, float]:
    """Share of data sets whose interval holds the entropy production rate of the driven trap."""
    inside, found = [], []
    for number in range(sets):
        rng = np.random.default_rng([seed, number])
        path = heun_paths(TRAP, rng.standard_normal((1, 2)) / 2**0.5, 0.01, 20_000, 4, rng)[0]
        current = fimsde.fit(fimsde.read(path, dt=0.01), "evidence").current(num_cells=40)
        ends = current.interval(LEVEL)
        inside.append(ends.low <= EXACT_ENTROPY <= ends.high)
        found.append(current.entropy_production)
    return _share(inside) | {"exact": EXACT_ENTROPY, "median estimate": float(np.median(found))}


def sfi_sets(sets: int, seed: int) -> dict[str, dict[str, float]]:
    """Coverage of the drift at observed states by SFI's linear estimator with `predict_ci`, and by our bands."""
    from fimsde.baselines.peers_sfi import LINEAR, fit_with_inference

    out = {}
    for name in SFI_SYSTEMS:
        system, shares = GALLERY[name], {"ours": [], "sfi": []}
        for repetition in range(sets):
            observations = gallery_sample(system, repetition, seed=seed).observations
            x = observations.values[:: max(1, len(observations.values) // 60)][:60]
            truth = system.drift(x)
            band = fimsde.fit(observations, "evidence").band(x, level=LEVEL)
            shares["ours"].append(np.mean((band.drift_low <= truth) & (truth <= band.drift_high)))
            inference = fit_with_inference(observations, LINEAR)[1]
            inference.compute_force_error()
            theirs = inference.force_inferred.predict_ci(x, alpha=LEVEL)
            low, high = np.asarray(theirs["lower"]), np.asarray(theirs["upper"])
            shares["sfi"].append(np.mean((low <= truth) & (truth <= high)))
        out[system.title] = {"data sets": sets} | {key: float(np.mean(part)) for key, part in shares.items()}
    return out


def _share(inside: list[bool]) -> dict[str, float]:
    return {"data sets": len(inside), "coverage": float(np.mean(inside))}


MEASURES = {"exit-times": exit_time_sets, "entropy": entropy_sets, "sfi": sfi_sets}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=MEASURES)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1_000_000)
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    found = MEASURES[arguments.what](arguments.sets, arguments.seed)
    print(found)
    if arguments.store:
        kept = FOLDER / "posterior_numbers.json"
        numbers = load("posterior_numbers")["numbers"] if kept.exists() else {}
        store("posterior_numbers", numbers | {arguments.what: found | {"seed": arguments.seed}})


if __name__ == "__main__":
    main()
