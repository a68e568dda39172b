"""Pinned answers: what the bundled model says in float64 about twelve data sets, stored with the data themselves.

cd tests
python -m pinned          # the answers anew, from the stored data: a change of them needs a line in changelog/
python -m pinned --data   # the data anew as well: only when the list of data sets changes
"""

import argparse
import copy
import warnings
from functools import cache
from pathlib import Path

import numpy as np

from fimsde.errors import DataWarning
from fimsde.estimation import bundled_model, estimate
from fimsde.model.fim import FIMSDE
from fimsde.normalise import fit_normaliser
from fimsde.observations import Observations, read
from fimsde.priming.candidates import Bank, make_bank
from fimsde.sde import FunctionSDE
from fimsde.simulate import simulate
from fimsde.systems.canonical import DAMPED_CUBIC, DAMPED_LINEAR, DOUBLE_WELL, DUFFING, HOPF, WANG_2D
from fimsde.systems.lorenz import LORENZ
from fimsde.transitions import to_transitions

FILE = Path(__file__).parent / "data" / "pinned_answers.npz"
FIELDS = ("drift", "diffusion", "uncertainty")
WELLS = FunctionSDE(1, lambda x: 3 * np.sin(3 * x) - 0.3 * x, lambda x: np.full_like(x, 1.5))
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
    clean = simulate(sde, start, list(times), dt=min(gap / 10, 0.005), seed=11).values
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


def load() -> dict[str, dict[str, np.ndarray]]:
    """Data and answers by name."""
    with np.load(FILE) as file:
        arrays = {key: file[key] for key in file.files}
    return {
        name: {key.rpartition("/")[2]: a for key, a in arrays.items() if key.startswith(f"{name}/")} for name in SETS
    }


def main() -> None:
    parser = argparse.ArgumentParser(description="Make the pinned answers anew.")
    parser.add_argument("--data", action="store_true", help="draw the data anew as well")
    old = {} if parser.parse_args().data else load()
    arrays = {}
    for name in SETS:
        stored = {key: old[name][key] for key in ("values", "times", "x")} if old else draw(name)
        for key, array in (stored | answer(name, stored)).items():
            arrays[f"{name}/{key}"] = array
    FILE.parent.mkdir(exist_ok=True)
    np.savez_compressed(FILE, **arrays)


if __name__ == "__main__":
    main()
