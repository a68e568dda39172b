"""CPU-seconds of the default estimate, of draws from its posterior, and of an estimate of a million observations.

    python benchmarks/estimate_speed.py [--store]
    python benchmarks/estimate_speed.py --against OTHER/src          # ratios to another version of the package
    python benchmarks/estimate_speed.py --long 1000000 [--store]     # one long path of one, two and three components

Eight textbook systems, clean and with noise of 5 % of half the range, at fine and coarse gaps, of 5000 and of 300
observations. CPU-seconds of a process with one thread, the best of several repetitions after one that compiles. With
`--against` two processes, one of either version, take turns on the same data, and the largest differences of their
answers are told: of fields at observed states, in units of their size, and of probabilities.
"""

import argparse
import os
import pickle
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SEED = 1_000_000  # of development: nothing is chosen by these data but speed
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
BARS = {1: 0.06, 2: 0.12, 3: 0.25}  # CPU-seconds until 5000 observations are ready for queries
LOCATIONS, DRAWS, PLACES = 1024, 200, 200

Drift = Callable[[np.ndarray], np.ndarray]


def _wells(x: np.ndarray) -> np.ndarray:
    return -0.1 * x**3 + 1.5 * np.sin(2.0 * x)


def _van_der_pol(x: np.ndarray) -> np.ndarray:
    return np.stack([x[:, 1], 2.0 * (1.0 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1)


def _lorenz(x: np.ndarray) -> np.ndarray:
    a, b, c = x.T
    return np.stack([10.0 * (b - a), a * (28.0 - c) - b, a * b - 8.0 / 3.0 * c], axis=1)


def _cascade(x: np.ndarray) -> np.ndarray:
    a, b, c = x.T
    return np.stack([a - a**3 + 0.3 * b, -b + 0.5 * a, -2.0 * c + a * b], axis=1)


SYSTEMS: dict[str, tuple[int, Drift, float, float]] = {  # components, drift, sqrt(g), a fine gap
    "Ornstein-Uhlenbeck": (1, lambda x: -x, 1.0, 0.02),
    "double well": (1, lambda x: x - x**3, 0.7, 0.02),
    "sine wells": (1, _wells, 1.0, 0.02),
    "damped oscillator": (2, lambda x: np.stack([x[:, 1], -x[:, 0] - 0.5 * x[:, 1]], axis=1), 0.5, 0.02),
    "limit cycle": (2, _van_der_pol, 0.3, 0.02),
    "plane with wells": (2, lambda x: _wells(x) + 0.3 * x[:, ::-1] * [1.0, -1.0], 1.0, 0.02),
    "cascade": (3, _cascade, 0.5, 0.02),
    "Lorenz": (3, _lorenz, 1.0, 0.005),
}
NOISES, COARSER = {"clean": 0.0, "noisy": 0.05}, {"fine": 1, "coarse": 8}
LENGTHS, SUBSTEPS = (5000, 300), 8


def data_sets() -> dict[str, tuple[np.ndarray, float]]:
    """Values and gap of every data set; short ones are the beginnings of long ones."""
    out = {}
    for name, (dim, _, _, fine) in SYSTEMS.items():
        for label, factor in COARSER.items():
            clean = path(name, factor * fine)
            random = np.random.default_rng([SEED, dim, factor]).standard_normal(clean.shape)
            for noise in NOISES:
                values = clean + NOISES[noise] * 0.5 * np.ptp(clean, axis=0) * random
                for length in LENGTHS:
                    out[f"{name}, {noise}, {label}, {length}"] = values[:length], factor * fine
    return out


def path(name: str, gap: float) -> np.ndarray:
    """One long path, eight Euler steps to a gap, its beginning left out."""
    dim, drift, size, _ = SYSTEMS[name]
    rng = np.random.default_rng([SEED, *name.encode()])
    dt, skip = gap / SUBSTEPS, 200
    x, out = rng.standard_normal((1, dim)), np.empty((skip + LENGTHS[0], dim))
    for row in out:
        for _ in range(SUBSTEPS):
            x = x + dt * drift(x) + size * dt**0.5 * rng.standard_normal((1, dim))
        row[:] = x[0]
    return out[skip:]


def long_path(dim: int, length: int) -> np.ndarray:
    """Double wells that pull each other, a hundredth of a natural time between observations."""
    import numba

    @numba.njit
    def walk(noise: np.ndarray) -> np.ndarray:
        out, x = np.empty_like(noise), np.zeros(noise.shape[1])
        for i in range(len(noise)):
            for j in range(len(x)):
                pull = x[j] - x[j] ** 3 + 0.3 * (x[j - 1] - x[j]) * (len(x) > 1)
                x[j] += 0.01 * pull + 0.07 * noise[i, j]
            out[i] = x
        return out

    return walk(np.random.default_rng([SEED, dim]).standard_normal((length, dim)))


# --- one version of the package, in a process of its own


def serve() -> None:
    """Answer what the other process asks, until it has no more questions."""
    import warnings

    import fimsde

    warnings.simplefilter("ignore")
    answers, kept = sys.stdout.buffer, {}
    sys.stdout = sys.stderr
    while True:
        try:
            name, values, gap = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        if name not in kept:
            kept.clear()
            kept[name] = fimsde.read(values, dt=gap)
        pickle.dump(_measured(kept[name], values), answers)
        answers.flush()


def _measured(observations: Any, values: np.ndarray) -> dict[str, Any]:
    import fimsde

    begin = time.process_time()
    result = fimsde.estimate(observations)
    ready = time.process_time()
    x = np.linspace(values.min(axis=0), values.max(axis=0), LOCATIONS)
    result.fields(x)
    asked = time.process_time()
    result.sde.draws(DRAWS)
    result.band(x[:: LOCATIONS // PLACES][:PLACES])
    drawn = time.process_time()
    some = values[:: max(1, len(values) // 50)]
    inference = result.sde.inference
    return {
        "estimate": ready - begin,
        "locations": asked - begin,
        "draws": drawn - asked,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "answers": {
            "drift": result.drift(some),
            "diffusion": result.diffusion(some),
            "noise": np.asarray(result.sde.noise_std),
            "probabilities": np.vstack([inference.drift.weights, inference.rate.weights]),
        },
    }


class Version:
    """A process with one version of the package."""

    def __init__(self, source: str) -> None:
        environment = os.environ | ONE_THREAD | {"PYTHONPATH": source}
        command = [sys.executable, __file__, "--serve"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def ask(self, name: str, values: np.ndarray, gap: float) -> dict[str, Any]:
        """CPU-seconds and answers of one estimate."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        pickle.dump((name, values, gap), self._process.stdin)
        self._process.stdin.flush()
        return pickle.load(self._process.stdout)

    def close(self) -> None:
        """No more questions."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


# --- the process that asks


def best(found: list[dict[str, Any]]) -> dict[str, Any]:
    """The smallest of the numbers of several repetitions."""
    return found[-1] | {key: min(one[key] for one in found) for key in ("estimate", "locations", "draws")}


def difference(one: dict[str, np.ndarray], other: dict[str, np.ndarray]) -> float:
    """The largest difference of answers in units of their size; of probabilities, plainly."""
    sizes = {key: 1.0 if key == "probabilities" else np.abs(other[key]).max() or 1.0 for key in one}
    return max(float(np.abs(one[key] - other[key]).max() / sizes[key]) for key in one)


def short(versions: list[Version], repeats: int, only: str) -> dict[str, Any]:
    """Every data set by every version in turn; the medians of the last one."""
    print(f"{'CPU-milliseconds':48s}" + "".join(f"{'estimate':>10s}{'+ 1024':>8s}{'draws':>8s}" for _ in versions))
    rows: dict[str, list[dict[str, Any]]] = {}
    for name, (values, gap) in data_sets().items():
        if only not in name:
            continue
        asked = [[v.ask(name, values, gap) for v in versions] for _ in range(repeats + 1)][1:]
        rows[name] = [best([turn[k] for turn in asked]) for k in range(len(versions))]
        told = "".join(
            f"{1e3 * r['estimate']:10.0f}{1e3 * r['locations']:8.0f}{1e3 * r['draws']:8.0f}" for r in rows[name]
        )
        if len(versions) > 1:
            ours, theirs = rows[name]
            ratio = theirs["estimate"] / ours["estimate"]
            told += f"   {ratio:5.2f} times as fast, differ by {difference(ours['answers'], theirs['answers']):.1e}"
        print(f"{name:48s}{told}", flush=True)
    out = {}
    for dim, bar in BARS.items():
        chosen = [r for name, r in rows.items() if SYSTEMS[name.split(",")[0]][0] == dim and name.endswith("5000")]
        if not chosen:
            continue
        middle = {
            key: [float(np.median([r[k][key] for r in chosen])) for k in range(len(versions))]
            for key in ("estimate", "locations", "draws")
        }
        largest = [max(r[k]["estimate"] for r in chosen) for k in range(len(versions))]
        out[str(dim)] = {key: part[0] for key, part in middle.items()} | {"slowest": largest[0], "bar": bar}
        print(f"{dim} component(s), 5000: median {middle['estimate']}, slowest {largest}, bar {bar}, {middle}")
    if len(versions) > 1:
        ratios = [theirs["estimate"] / ours["estimate"] for ours, theirs in rows.values()]
        print(f"times as fast: geometric mean {np.exp(np.mean(np.log(ratios))):.2f}")
    return out


def long(versions: list[str], length: int) -> dict[str, Any]:
    """A long path by every version, in processes of their own, so that the peak of memory is theirs."""
    out = {}
    for dim in (1, 2, 3):
        values, found = long_path(dim, length), []
        for source in versions:
            version = Version(source)
            version.ask("first", values[:2000], 0.01)  # compiles
            found.append(version.ask("long", values, 0.01))
            version.close()
        told = ", ".join(f"{r['estimate']:.1f} s {r['peak']:.0f} MB" for r in found)
        if len(found) > 1:
            told += f", differ by {difference(found[0]['answers'], found[1]['answers']):.1e}"
        print(f"{length} observations, {dim} component(s): {told}", flush=True)
        out[str(dim)] = {"estimate": found[0]["estimate"], "megabytes": found[0]["peak"]}
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", help="folder with another version of the package", metavar="OTHER/src")
    parser.add_argument("--long", type=int, default=0, help="observations of one long path", metavar="N")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="part of the names of data sets")
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve()
        return
    ours = str(Path(__file__).resolve().parents[1] / "src")
    sources = [ours, *([options.against] if options.against else [])]
    if options.long:
        numbers = {f"long {options.long}": long(sources, options.long)}
    else:
        versions = [Version(source) for source in sources]
        numbers = {"short": short(versions, options.repeats, options.only)}
        for version in versions:
            version.close()
    if options.store:
        from record import FOLDER, load, store

        kept = load("estimate_speed")["numbers"] if (FOLDER / "estimate_speed.json").exists() else {}
        store("estimate_speed", kept | numbers)


if __name__ == "__main__":
    main()
