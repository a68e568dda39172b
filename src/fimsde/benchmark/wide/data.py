"""The data of a task of the wide suite. Paths take seconds to simulate and are kept in the user's cache."""

import io
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from fimsde.benchmark.fingerprint import digest_of
from fimsde.benchmark.run import cache_folder
from fimsde.benchmark.wide.tasks import WideTask
from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE
from fimsde.files.write import write_file
from fimsde.shapes import Array, Float64
from fimsde.systems.canonical import stream
from fimsde.systems.wide.paths import RATIO, CleanPaths, clean_paths, wide_system

_MAX_STATES = 1000  # at which fields are compared; by hand: bounds seconds
_DIRECTIONS = {1: 2, 2: 32, 3: 64}  # in which places outside the data are sought, by dimension; by hand
_PATHS = (
    "systems/wide",
    "systems/canonical.py",
    "systems/heun.py",
    "simulate.py",
    "equations/sde.py",
)  # what decides a path


@dataclass(frozen=True, eq=False)
class WideProblem:
    """The data of a task.

    Attributes:
        observations: What a method is given.
        truth: The true equation.
        inside: Clean states of the data.
        outside: Places one standard deviation outside the data: see `outside_places`.
    """

    observations: Observations
    truth: SDE
    inside: Float64[Array, "points dim"]
    outside: Float64[Array, "places dim"]


def load(task: WideTask, cache: Path | None = None) -> WideProblem:
    """The data of a task; shorter data are the beginnings of longer ones, and noise is drawn anew for each.

    Args:
        task: Which data.
        cache: Folder in which paths are kept; None: in the user's cache.
    """
    system = wide_system(task.family, task.draw, task.seed)
    paths = _paths(task.family, task.draw, task.seed, cache_folder("wide") if cache is None else cache)
    column, num_paths = task.column, system.family.num_paths
    stride = RATIO if column.gap == "coarse" else 1
    clean = paths.values[:, ::stride][:, : column.length // num_paths]  # (paths, times, dim)
    states = clean.reshape(-1, system.family.dim)
    labels = ("wide noise", task.family, task.draw, column.gap, column.length)
    noise = np.random.default_rng(stream(task.seed, *labels)).standard_normal(clean.shape)
    return WideProblem(
        observations=read(clean + column.noise_std * np.ptp(states, axis=0) / 2.0 * noise, dt=stride * paths.gap),
        truth=system.drawn,
        inside=states[:: max(1, len(states) // _MAX_STATES)],
        outside=outside_places(states),
    )


def outside_places(states: Float64[Array, "points dim"]) -> Float64[Array, "places dim"]:
    """x_k + s u_k: from the state that is farthest in each of some directions u, one standard deviation s further."""
    spread = states.std(axis=0)
    directions = _directions(states.shape[1])
    farthest = np.argmax(((states - states.mean(axis=0)) / spread) @ directions.T, axis=0)
    return states[farthest] + spread * directions


def _directions(dim: int) -> Float64[Array, "places dim"]:
    """Unit vectors: both ends of a line, equal angles in the plane, a golden spiral on the sphere."""
    k = np.arange(_DIRECTIONS[dim])
    if dim == 1:
        return 2.0 * k[:, None] - 1.0
    angle = 2.0 * np.pi * k / len(k)
    if dim == 2:
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    height, turn = 1.0 - (2.0 * k + 1.0) / len(k), np.pi * (1.0 + np.sqrt(5.0)) * k
    radius = np.sqrt(1.0 - height**2)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), height], axis=1)


@lru_cache(maxsize=4)  # tasks come system after system
def _paths(family: str, draw: int, seed: int, cache: Path) -> CleanPaths:
    file = cache / digest_of(_PATHS) / f"{family}-{seed}-{draw}.npz"
    try:
        stored = np.load(io.BytesIO(file.read_bytes()))
        return CleanPaths(stored["values"], float(stored["gap"]))
    except (OSError, ValueError, KeyError, EOFError, BadZipFile):  # not there, or damaged: it is made again
        paths = clean_paths(family, draw, seed)
    buffer = io.BytesIO()
    np.savez(buffer, values=paths.values, gap=paths.gap)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, buffer.getvalue())
    return paths
