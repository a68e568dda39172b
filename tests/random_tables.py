"""Random tables of every kind that people have, most of them not what an equation expects: the material of the fuzz.

Table number `seed` is a pure function of `seed`. A table is made of columns, each of its own kind, some of them made of
the columns before; then rows are repeated, lost, rounded, and units changed.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

import fimsde

Column = Callable[[np.random.Generator, np.ndarray, np.ndarray, list[np.ndarray]], np.ndarray]


@dataclass(frozen=True)
class RandomTable:
    """Columns over rows that belong to paths, and how they were made."""

    seed: int
    kinds: tuple[str, ...]
    path: np.ndarray
    time: np.ndarray
    values: np.ndarray  # (rows, dim)

    @property
    def missing(self) -> str:
        return "drop" if np.isnan(self.values).any() else "error"

    def frame(self) -> pd.DataFrame:
        """The table as a user has it."""
        columns = {f"c{j}": self.values[:, j] for j in range(self.values.shape[1])}
        return pd.DataFrame({"track": self.path, "t": self.time, **columns})

    def read(self) -> fimsde.Observations:
        return fimsde.read(self.frame(), time="t", path="track", missing=self.missing)

    def __str__(self) -> str:
        return f"table {self.seed}: {self.values.shape}, {self.path.max() + 1} path(s), {', '.join(self.kinds)}"


@np.errstate(all="ignore")  # units may be too large for some of the columns; reading them says so
def random_table(seed: int) -> RandomTable:
    """Table number `seed`."""
    rng = np.random.default_rng([seed, 17])
    path, time = _rows(rng)
    dim = int(rng.choice([1, 2, 3, 4], p=[0.4, 0.34, 0.24, 0.02]))
    columns: list[np.ndarray] = []
    kinds: list[str] = []
    for _ in range(dim):
        names = list(_KINDS) if not columns else list(_KINDS | _MADE_OF_OTHERS)
        weights = np.array([4.0 if n in ("random walk", "Ornstein-Uhlenbeck") else 1.0 for n in names])
        kind = str(rng.choice(names, p=weights / weights.sum()))
        column = (_KINDS | _MADE_OF_OTHERS)[kind](rng, path, time, columns)
        for name, change in _CHANGES.items():
            if rng.random() < 0.06:
                kind, column = f"{kind} {name}", change(rng, column)
        columns.append(np.asarray(column, np.float64))
        kinds.append(kind)
    values = np.stack(columns, axis=1)
    if rng.random() < 0.05:  # a sensor that repeats itself: every row twice
        kinds.append("every value twice")
        values = values[np.arange(len(values)) // 2]
    if rng.random() < 0.08:
        kinds.append("cells missing")
        values[rng.random(values.shape) < rng.uniform(0.01, 0.3)] = np.nan
    return RandomTable(seed, tuple(kinds), path, time, values)


def _rows(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """The path and the time of each row."""
    num_paths = int(rng.choice([1, 1, 1, 2, 3, 5, 12, 25]))
    longest = int(np.exp(rng.uniform(np.log(2), np.log(400 / num_paths**0.7))))
    lengths = np.full(num_paths, longest) if rng.random() < 0.5 else rng.integers(1, longest + 1, num_paths)
    path = np.repeat(np.arange(num_paths), lengths)
    match rng.integers(5):
        case 0 | 1:
            gaps = np.ones(len(path))
        case 2:
            gaps = rng.exponential(1.0, len(path)) + 1e-3
        case 3:
            gaps = np.exp(3 * rng.standard_normal(len(path)))  # bursts and long silences
        case _:
            gaps = np.where(rng.random(len(path)) < 0.03, 1000.0, 1.0)
    scale = 10.0 ** (rng.uniform(-3, 3) if rng.random() < 0.9 else rng.uniform(-100, 100))
    first = np.concatenate([[True], path[1:] != path[:-1]])
    elapsed = np.cumsum(gaps)
    elapsed = elapsed - elapsed[first][path]
    return path, scale * (elapsed + (1.6e9 if rng.random() < 0.05 else 0.0))


def _steps(rng, path, time, others):
    return rng.standard_normal(len(path))


def _walk(rng, path, time, others):
    return np.cumsum(rng.standard_normal(len(path)))


def _relaxing(rng, path, time, others):
    x, keep = rng.standard_normal(len(path)), rng.uniform(0.5, 0.99)
    for i in range(1, len(x)):
        x[i] = keep * x[i - 1] + (1 - keep**2) ** 0.5 * x[i]
    return x


def _within(rng, path, time, others):
    return rng.standard_normal(path.max() + 1)[path]


def _setpoint(rng, path, time, others):
    return np.searchsorted(np.sort(rng.integers(0, len(path), rng.integers(1, 5))), np.arange(len(path))) * 1.0


def _rare(rng, path, time, others):
    return np.where(rng.random(len(path)) < rng.uniform(0.005, 0.1), rng.standard_normal(len(path)), 0.0)


def _clock(rng, path, time, others):
    """Time in units of the whole record: tables of lines, exponentials and waves are made of it."""
    whole = np.ptp(time) or 1.0
    return (time - time.min()) / whole


_KINDS: dict[str, Column] = {
    "random walk": _walk,
    "Ornstein-Uhlenbeck": _relaxing,
    "white noise": _steps,
    "heavy tails": lambda rng, path, time, others: rng.standard_cauchy(len(path)),
    "constant within each path": _within,
    "group number": lambda rng, path, time, others: (path % 3).astype(float),
    "setpoint": _setpoint,
    "alternating": lambda rng, path, time, others: np.arange(len(path)) % rng.integers(2, 4) * 1.0,
    "two values": lambda rng, path, time, others: (rng.random(len(path)) < 0.5) * 1.0,
    "states that last": lambda rng, path, time, others: np.cumsum(rng.random(len(path)) < 0.05) % 2 * 1.0,
    "counts": lambda rng, path, time, others: rng.poisson(rng.choice([0.05, 1.0, 30.0]), len(path)) * 1.0,
    "quantised walk": lambda rng, path, time, others: np.round(_walk(rng, path, time, others) * rng.choice([0.1, 1])),
    "mostly zero": _rare,
    "one outlier": lambda rng, path, time, others: (
        1e-3 * _steps(rng, path, time, others)
        + (np.arange(len(path)) == rng.integers(len(path))) * 10.0 ** rng.uniform(0, 12)
    ),
    "one value differs": lambda rng, path, time, others: (np.arange(len(path)) == rng.integers(len(path))) * 1.0,
    "line": lambda rng, path, time, others: _clock(rng, path, time, others),
    "exponential": lambda rng, path, time, others: np.exp(rng.uniform(-30, 30) * _clock(rng, path, time, others)),
    "wave": lambda rng, path, time, others: np.sin(
        2 * np.pi * (rng.integers(1, 30) * _clock(rng, path, time, others) + rng.random())
    ),
    "staircase": lambda rng, path, time, others: np.floor(10 * _clock(rng, path, time, others)),
    "monotone": lambda rng, path, time, others: np.cumsum(rng.exponential(1.0, len(path)) ** 3),
    "blow-up": lambda rng, path, time, others: 1 / (1.0001 - _clock(rng, path, time, others)),
    "row number": lambda rng, path, time, others: np.arange(len(path)) * 1.0,
    "path number": lambda rng, path, time, others: path * 1.0,
}

_MADE_OF_OTHERS: dict[str, Column] = {
    "copy": lambda rng, path, time, others: others[-1].copy(),
    "the same in °F": lambda rng, path, time, others: others[-1] * 1.8 + 32,
    "the same in K": lambda rng, path, time, others: others[-1] + 273.15,
    "the same with little noise": lambda rng, path, time, others: (
        others[-1] + np.std(others[-1]) * 10.0 ** rng.uniform(-16, -1) * rng.standard_normal(len(path))
    ),
    "sum of the others": lambda rng, path, time, others: sum(rng.standard_normal() * other for other in others),
    "the rest to 100 %": lambda rng, path, time, others: 100 - sum(others),
    "square": lambda rng, path, time, others: (others[-1] / (np.abs(others[-1]).max() or 1)) ** 2,
    "lagged": lambda rng, path, time, others: np.roll(others[-1], 1),
    "its own change": lambda rng, path, time, others: np.gradient(others[-1]) if len(path) > 1 else others[-1],
    "circle": lambda rng, path, time, others: np.cos(2 * np.pi * 5 * _clock(rng, path, time, others)),
    "switched by sign": lambda rng, path, time, others: np.sign(others[-1]),
}


def _rescaled(rng, x):
    return x * 10.0 ** rng.uniform(-200, 200)


def _dented(rng, x):
    """A stretch during which nothing is recorded but the last value."""
    a, b = np.sort(rng.integers(0, len(x) + 1, 2))
    out = x.copy()
    out[a:b] = x[a - 1]
    return out


_CHANGES: dict[str, Callable[[np.random.Generator, np.ndarray], np.ndarray]] = {
    "rounded": lambda rng, x: np.round(x, int(rng.integers(0, 3))),
    "in float32": lambda rng, x: x.astype(np.float32).astype(np.float64),
    "with an offset": lambda rng, x: x + np.std(x) * 10.0 ** rng.uniform(0, 14),
    "in float32 with an offset": lambda rng, x: (
        (x + np.std(x) * 10.0 ** rng.uniform(0, 8)).astype(np.float32).astype(np.float64)
    ),
    "stuck": _dented,
    "clipped": lambda rng, x: np.clip(x, *np.quantile(x, [0.2, 0.8])),
    "in other units": _rescaled,
    "in unlikely units": lambda rng, x: x * 10.0 ** rng.uniform(-8, 8),
    "with outliers": lambda rng, x: x + np.std(x) * (rng.random(len(x)) < 0.02) * 10.0 ** rng.uniform(0, 8),
}
