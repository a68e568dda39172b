"""Pinned answers: what the bundled model says in float64 about forty data sets, stored with the data themselves.

cd tests
python -m pinned                # the answers anew, from the stored data: a change of them needs a line in changelog/
python -m pinned --data         # the data of new sets as well: only when the list of data sets grows
python -m pinned --bits A.json  # digests of every bit of answers and simulated paths, to compare two commits by
"""

import argparse
import copy
import hashlib
import json
import warnings
from functools import cache
from pathlib import Path

import numpy as np

from fimsde.bank.bank import Bank, make_bank
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import Observations, read
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import DataWarning
from fimsde.estimation import bundled_model
from fimsde.model.fim import FIMSDE
from fimsde.results.make import estimate
from fimsde.simulate import simulate
from fimsde.systems.canonical import DAMPED_CUBIC, DAMPED_LINEAR, DOUBLE_WELL, DUFFING, GLYCOLYSIS, HOPF, WANG_2D
from fimsde.systems.lorenz import LORENZ
from fimsde.systems.out_of_class import FITZHUGH_NAGUMO, MULLER_BROWN, SQUARE_ROOT, TANH_SWITCH, VAN_DER_POL

FILE = Path(__file__).parent / "data" / "pinned_answers.npz"
FIELDS = ("drift", "diffusion", "uncertainty")
WELLS = FunctionSDE(1, lambda x: 3 * np.sin(3 * x) - 0.3 * x, lambda x: np.full_like(x, 1.5))
RELAXING = FunctionSDE(1, lambda x: 2 - x, lambda x: np.full_like(x, 0.4))
WANDERING = FunctionSDE(1, np.zeros_like, np.ones_like)
STILL = FunctionSDE(3, lambda x: -x @ np.diag([1.0, 2.0, 3.0]) + 0.5 * np.roll(x, 1, axis=1), np.ones_like)

# equation, paths, points per path, gap, spread of the gaps (log), noise (of the standard deviation), scale, offset
SETS = {
    "double well": (DOUBLE_WELL, 1, 1500, 0.02, 0.0, 0.0, 1.0, 0.0),
    "double well, noise": (DOUBLE_WELL, 4, 400, 0.01, 0.0, 0.1, 1.0, 0.0),
    "double well, too coarse": (DOUBLE_WELL, 1, 500, 2.0, 0.0, 0.0, 1.0, 0.0),
    "double well, short, in other units": (DOUBLE_WELL, 1, 60, 0.02, 0.3, 0.0, 1e-6, 273.15e-6),
    "wells that no cubic fits": (WELLS, 1, 2000, 0.02, 0.0, 0.0, 1.0, 0.0),
    "wang, many paths, irregular": (WANG_2D, 60, 14, 0.02, 0.5, 0.0, 1.0, 0.0),
    "damped cubic, noise": (DAMPED_CUBIC, 1, 1200, 0.02, 0.0, 0.05, 1.0, 0.0),
    "damped linear, large offset": (DAMPED_LINEAR, 2, 500, 0.02, 0.0, 0.02, 1e3, 1e6),
    "hopf, told an origin": (HOPF, 3, 300, 0.02, 0.0, 0.05, 1.0, 0.0),
    "duffing, irregular, noise": (DUFFING, 2, 600, 0.02, 0.4, 0.05, 1.0, 0.0),
    "lorenz, many paths, noise": (LORENZ, 40, 41, 0.025, 0.0, 0.05, 1.0, 0.0),
    "linear in three dimensions, told an origin": (STILL, 2, 500, 0.02, 0.2, 0.02, 1.0, 0.0),
    "double well, many short paths": (DOUBLE_WELL, 120, 5, 0.02, 0.0, 0.0, 1.0, 0.0),
    "double well, irregular, noise": (DOUBLE_WELL, 2, 300, 0.02, 0.6, 0.05, 1.0, 0.0),
    "double well, told an origin": (DOUBLE_WELL, 1, 600, 0.02, 0.0, 0.02, 1.0, 0.0),
    "double well, mostly noise": (DOUBLE_WELL, 1, 600, 0.01, 0.0, 0.8, 1.0, 0.0),
    "relaxation": (RELAXING, 1, 500, 0.05, 0.0, 0.0, 1.0, 0.0),
    "relaxation, short": (RELAXING, 1, 40, 0.1, 0.0, 0.0, 1.0, 0.0),
    "relaxation, noise, told an origin": (RELAXING, 3, 200, 0.05, 0.0, 0.1, 1.0, 0.0),
    "relaxation, too coarse": (RELAXING, 1, 300, 6.0, 0.0, 0.0, 1.0, 0.0),
    "a random walk": (WANDERING, 1, 400, 0.02, 0.0, 0.0, 1.0, 0.0),
    "a random walk in large units": (WANDERING, 5, 80, 3600.0, 0.2, 0.0, 1e9, -4e9),
    "wells that no cubic fits, noise": (WELLS, 2, 500, 0.02, 0.0, 0.05, 1.0, 0.0),
    "square-root noise": (SQUARE_ROOT, 2, 400, 0.02, 0.0, 0.0, 1.0, 0.0),
    "a switch, irregular": (TANH_SWITCH, 2, 400, 0.02, 0.3, 0.02, 1.0, 0.0),
    "wang": (WANG_2D, 1, 600, 0.02, 0.0, 0.0, 1.0, 0.0),
    "wang, too coarse": (WANG_2D, 1, 300, 5.0, 0.0, 0.0, 1.0, 0.0),
    "wang, short": (WANG_2D, 1, 50, 0.05, 0.0, 0.0, 1.0, 0.0),
    "damped linear": (DAMPED_LINEAR, 1, 600, 0.02, 0.0, 0.0, 1.0, 0.0),
    "damped cubic, many paths": (DAMPED_CUBIC, 50, 12, 0.02, 0.0, 0.0, 1.0, 0.0),
    "glycolysis": (GLYCOLYSIS, 1, 600, 0.02, 0.0, 0.0, 1.0, 0.0),
    "glycolysis, noise, irregular": (GLYCOLYSIS, 2, 400, 0.02, 0.4, 0.05, 1e-3, 1.0),
    "hopf": (HOPF, 1, 600, 0.02, 0.0, 0.0, 1.0, 0.0),
    "a relaxation oscillator": (VAN_DER_POL, 2, 400, 0.02, 0.0, 0.02, 1.0, 0.0),
    "an excitable cell": (FITZHUGH_NAGUMO, 2, 400, 0.05, 0.0, 0.0, 1.0, 0.0),
    "wells in the plane": (MULLER_BROWN, 4, 250, 0.01, 0.0, 0.05, 1.0, 0.0),
    "lorenz": (LORENZ, 4, 150, 0.02, 0.0, 0.0, 1.0, 0.0),
    "lorenz, short, irregular": (LORENZ, 1, 80, 0.02, 0.3, 0.0, 1.0, 0.0),
    "linear in three dimensions": (STILL, 1, 500, 0.05, 0.0, 0.0, 1.0, 0.0),
    "linear in three dimensions, noise, other units": (STILL, 3, 200, 0.05, 0.3, 0.1, 1e-4, 5.0),
}


@cache
def double_model() -> FIMSDE:
    """The bundled model in float64."""
    return copy.deepcopy(bundled_model()).double()


def draw(name: str) -> dict[str, np.ndarray]:
    """Observations and places to ask at, inside and outside of them."""
    sde, num_paths, num_points, gap, spread, noise, scale, offset = SETS[name]
    rng = np.random.default_rng([7, list(SETS).index(name)])
    gaps = gap * np.exp(spread * rng.standard_normal((num_paths, num_points - 1)))
    times = np.concatenate([np.zeros((num_paths, 1)), np.cumsum(gaps, axis=1)], axis=1)
    start = rng.standard_normal((num_paths, sde.dim))
    step = min(gap / 10, 0.005) if gap < 100 else gap  # a random walk may take any step
    clean = simulate(sde, start, list(times), dt=step, seed=11).values
    sizes = clean.std(axis=(0, 1))
    values = (clean + noise * sizes * rng.standard_normal(clean.shape)) * scale + offset
    rows = rng.integers(0, num_points, 8)
    inside = values[rng.integers(0, num_paths, 8), rows] + 0.1 * scale * sizes * rng.standard_normal((8, sde.dim))
    low, high = values.min(axis=(0, 1)), values.max(axis=(0, 1))
    outside = np.stack(
        [low - 0.3 * (high - low), high + 0.8 * (high - low), high + 3 * (high - low), (3 * high - low) / 2]
    )
    outside[-1, 1:] = values[0, 0, 1:]  # outside along one axis only
    return {"values": values, "times": times, "x": np.concatenate([inside, outside])}


def observations(stored: dict[str, np.ndarray]) -> Observations:
    """The stored data as `estimate` takes them."""
    return read(stored["values"], times=list(stored["times"]))


def bank(stored: dict[str, np.ndarray]) -> Bank:
    """The candidates behind the answers."""
    transitions = to_transitions(observations(stored))
    return make_bank(fit_normaliser(transitions).transitions(transitions))


def answer(name: str, stored: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Drift, diffusion and uncertainty at the stored places."""
    origin = np.zeros(stored["x"].shape[1]) if name.endswith("origin") else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # one of the sets is short, and half of the places are outside
        found = estimate(observations(stored), double_model(), origin=origin)
        return {field: getattr(found, field)(stored["x"]) for field in FIELDS}


def digests(name: str, stored: dict[str, np.ndarray]) -> dict[str, str]:
    """Hashes of what users get, in the model's own precision: fields, uncertainty and simulated paths."""
    origin = np.zeros(stored["x"].shape[1]) if name.endswith("origin") else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        found = estimate(observations(stored), origin=origin)
        answers = {field: getattr(found, field)(stored["x"]) for field in FIELDS}
        grid = stored["times"][0][:20]
        paths = found.simulate(stored["x"][:3], grid, substeps=2, seed=5)
    answers |= {"paths": paths.values} | {f"{field} in float64": a for field, a in answer(name, stored).items()}
    return {key: hashlib.sha256(np.ascontiguousarray(a).tobytes()).hexdigest() for key, a in answers.items()}


def load() -> dict[str, dict[str, np.ndarray]]:
    """Data and answers by name."""
    with np.load(FILE) as file:
        arrays = {key: file[key] for key in file.files}
    names = dict.fromkeys(key.rpartition("/")[0] for key in arrays)
    return {
        name: {key.rpartition("/")[2]: a for key, a in arrays.items() if key.startswith(f"{name}/")} for name in names
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the pinned answers anew.")
    parser.add_argument("--data", action="store_true", help="draw the data of sets that have none yet")
    parser.add_argument("--bits", type=Path, help="write digests of all answers into this file, and nothing else")
    options = parser.parse_args()
    old = load()
    if options.bits:
        found = {name: digests(name, stored) for name, stored in old.items()}
        options.bits.write_text(json.dumps(found, indent=1) + "\n")
        return
    arrays = {}
    for name in SETS:
        kept = name in old or not options.data
        stored = {key: old[name][key] for key in ("values", "times", "x")} if kept else draw(name)
        for key, array in (stored | answer(name, stored)).items():
            arrays[f"{name}/{key}"] = array
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
