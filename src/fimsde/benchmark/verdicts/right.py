"""Data of the right class: random systems of four sources, clean and noisy, short and long, one path and many.

Sources take turns with the seed: systems of our own, draws from the prior, the development families of the wide suite
(at its fine and its coarse gaps), and the textbook systems out of class. States get random units at the end.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE, FunctionSDE
from fimsde.errors import DatasetError
from fimsde.filter.kalman import Innovations, flow_around, innovations, run_filter
from fimsde.prior.config import CorruptionConfig, PriorConfig, Setting
from fimsde.prior.equation import draw_equation
from fimsde.shapes import Array, Float64
from fimsde.simulate import simulate
from fimsde.systems import out_of_class
from fimsde.systems.canonical import System, simulation_seed
from fimsde.systems.wide.families import DEVELOPMENT
from fimsde.systems.wide.paths import FINE, RATIO, wide_system

Source = Literal["systems", "prior", "wide", "out of class"]
SOURCES: tuple[Source, ...] = get_args(Source)
NOISE = (0.02, 0.1)  # standard deviation of the measurement noise, of that of the states: drawn between these
_PASSES = 8  # of the filter of the truth, at most; by hand: noise in a strongly bent flow needs some
_GAPS = (0.02, 0.15)  # between observations of our systems, in relaxation times: even in their logarithm
_TRANSIENT = 5.0  # relaxation times after which paths of our systems have forgotten their common start
_PRIOR_GAPS, _PRIOR_SUBSTEPS = (0.1, 0.01, 0.001), 25  # the authors' gaps, all with the substeps of the longest


@dataclass(frozen=True)
class Cell:
    """What kind of data of the right class.

    Attributes:
        noisy: Whether there is measurement noise, of 2 to 10 % of the standard deviation of each component.
        num: Observations in all.
        num_paths: Paths.
        noise: Its standard deviation, of that of the states: drawn between these.
    """

    noisy: bool
    num: int
    num_paths: int
    noise: tuple[float, float] = NOISE

    def __str__(self) -> str:
        paths = "one path" if self.num_paths == 1 else f"{self.num_paths} paths"
        noisy = "noisy" if self.noise == NOISE else f"{self.noise[0]:.0%} noise"
        return f"{noisy if self.noisy else 'clean'}, {self.num} observations, {paths}"


@dataclass(frozen=True, eq=False)
class Right:
    """Data of the right class, and the truth behind them, in the units of the data.

    Attributes:
        observations: The data.
        truth: The equation.
        noise_std: Standard deviation of the measurement noise, per component.
    """

    observations: Observations
    truth: SDE
    noise_std: Float64[Array, " dim"]

    def innovations(self) -> Innovations:
        """Those of the true equation and its noise: the filter is repeated around its own states while these gain."""
        found = innovations(self.truth, self.observations, self.noise_std)
        for _ in range(_PASSES if self.noise_std.any() else 0):
            flow = flow_around(self.truth, self.observations, found.mean)
            again = run_filter(flow, self.observations, self.noise_std)
            if not again.likelihood.sum() > found.likelihood.sum() + 1e-3:
                break
            found = again
        return found

    def quiet(self, found: Innovations) -> float:
        """Share of steps at which neither equation nor instrument has noise, in the component that has the most.

        A filter grants a thousandth of the mean noise there; where there is none at all, it has nothing to grant.
        """
        silent = (np.asarray(self.truth.diffusion(found.steps.start)) == 0) & (self.noise_std == 0)
        return float((found.quiet | silent).mean(axis=0).max())


CELLS = tuple(
    Cell(noisy, num, num_paths)
    for noisy in (False, True)
    for num, num_paths in ((300, 1), (400, 10), (5000, 1), (6000, 40))
)
ACCOUNTED = tuple(Cell(True, 2000, num_paths, (0.05, 0.05)) for num_paths in (1, 40))  # whose noise is to be said


def right_class(cell: Cell, seed: int) -> Right:
    """Data of a random equation, of the source whose turn it is."""
    rng = np.random.default_rng([seed, 11])
    match source_of(seed):
        case "systems":
            sde, start = _random_system(rng)
            gap = float(np.exp(rng.uniform(*np.log(_GAPS))))
            values = stationary_paths(sde, start, gap, cell.num // cell.num_paths, cell.num_paths, seed)
        case "prior":
            sde, values, gap = _of_prior(cell, seed)
        case "wide":
            sde, values, gap = _of_wide(cell, rng, seed)
        case "out of class":
            sde, values, gap = _out_of_class(cell, rng, seed)
    return _observed(sde, values, gap, float(rng.uniform(*cell.noise)) if cell.noisy else 0.0, rng)


def source_of(seed: int) -> Source:
    """Sources take turns."""
    return SOURCES[seed % len(SOURCES)]


def _random_system(rng: np.random.Generator) -> tuple[SDE, Float64[Array, " dim"]]:
    """Wells, waves, growth, turning, limit cycles and linear systems of one to three components."""
    kind = int(rng.integers(8))
    s = float(rng.uniform(0.4, 1.0))
    a, b = rng.uniform(0.5, 1.5, 2)
    match kind:
        case 0:
            return _sde(1, lambda x: -a * x, lambda x: np.full_like(x, s)), np.zeros(1)
        case 1:
            return _sde(1, lambda x: 2 * (a * x - b * x**3), lambda x: s * np.sqrt(1 + 0.3 * x**2)), np.ones(1)
        case 2:
            return _sde(1, lambda x: -np.tanh(2 * a * x) - 0.3 * x, lambda x: s / np.cosh(0.3 * x)), np.zeros(1)
        case 3:
            return _sde(1, lambda x: a * x * (2 - x), lambda x: 0.4 * s * np.abs(x)), np.full(1, 2.0)
        case 4:
            turn = np.array([[-0.5 * a, b], [-b, -0.7]])
            return _sde(2, lambda x: x @ turn.T, lambda x: np.full_like(x, s)), np.zeros(2)
        case 5:
            return _sde(2, lambda x: _cycle(x, a), lambda x: np.full_like(x, 0.5 * s)), np.array([1.0, 0.0])
        case 6:
            return _sde(2, lambda x: _excitable(x, b), lambda x: np.full_like(x, 0.3 * s)), np.zeros(2)
        case _:
            pull = np.eye(3) * rng.uniform(0.7, 1.5, 3) + 0.4 * rng.standard_normal((3, 3)) * (1 - np.eye(3))
            pull += np.eye(3) * max(0.0, 0.3 - float(np.linalg.eigvals(pull).real.min()))
            return _sde(3, lambda x: -x @ pull.T, lambda x: np.full_like(x, s)), np.zeros(3)


def _of_prior(cell: Cell, seed: int) -> tuple[SDE, Float64[Array, "paths times dim"], float]:
    """A draw from the prior, at one of its gaps and on a grid of the size of the cell, in finer steps than its own."""
    size = (cell.num_paths, cell.num // cell.num_paths)
    grids = tuple(Setting(gap, _PRIOR_SUBSTEPS, *size) for gap in _PRIOR_GAPS)
    config = PriorConfig(settings=grids, corruption=CorruptionConfig(mix=(1.0, 0.0, 0.0, 0.0)))
    drawn = draw_equation(config, seed, 0)
    return drawn.sde, drawn.values.astype(np.float64), float(drawn.setting.gap)


def _of_wide(cell: Cell, rng: np.random.Generator, seed: int) -> tuple[SDE, Float64[Array, "paths times dim"], float]:
    """A system of a development family at fine or coarse gaps; paths start from states of the system."""
    family = DEVELOPMENT[seed // len(SOURCES) % len(DEVELOPMENT)]
    system = wide_system(family.name, 0, seed)
    coarse = RATIO if rng.random() < 0.5 else 1
    gap = FINE * coarse * system.natural_time
    starts = np.resize(system.starts, (cell.num_paths, family.dim))
    before = 20 * system.natural_time  # after which paths from one start are strangers
    times = np.concatenate([[0.0], before + gap * np.arange(cell.num // cell.num_paths)])
    dt = FINE * system.natural_time / (2 * system.steps)  # half of the suite's: its steps are by the midpoint rule
    paths = simulate(system.drawn, starts, times, dt=dt, seed=simulation_seed(seed, "verdicts", family.name))
    if not paths.mask.all():
        raise DatasetError(f"a path of {family.name} left the finite range with seed {seed}. Take another seed.")
    return system.drawn, paths.values[:, 1:], gap


def _out_of_class(
    cell: Cell, rng: np.random.Generator, seed: int
) -> tuple[SDE, Float64[Array, "paths times dim"], float]:
    """A textbook system at its own gap; further paths start where a first one was."""
    known = [system for system in vars(out_of_class).values() if isinstance(system, System)]
    system = known[seed // len(SOURCES) % len(known)]
    gap, length = system.stride * system.dt, cell.num // cell.num_paths
    starts = np.array(system.initial_state)[None]
    if cell.num_paths > 1:
        first = simulate(system, starts, gap * np.arange(20 * cell.num_paths), substeps=system.stride, seed=seed + 1)
        starts = first.values[0, rng.choice(len(first.values[0]), cell.num_paths, replace=False)]
    paths = simulate(system, starts, gap * np.arange(length), substeps=system.stride, seed=seed)
    if not paths.mask.all():
        raise DatasetError(f"a path of {system.title} left the finite range with seed {seed}. Take another seed.")
    return system, paths.values, gap


def _sde(dim: int, drift: Callable[..., Array], diffusion: Callable[..., Array]) -> SDE:
    return FunctionSDE(dim, drift, diffusion)


def _cycle(x: Float64[Array, "n 2"], a: float) -> Float64[Array, "n 2"]:
    """Hopf's normal form: a circle of radius one, run through in about six time units."""
    shrink = (1 - (x**2).sum(axis=1))[:, None]
    return a * shrink * x + np.stack([-x[:, 1], x[:, 0]], axis=1)


def _excitable(x: Float64[Array, "n 2"], b: float) -> Float64[Array, "n 2"]:
    """FitzHugh and Nagumo's equations."""
    u, v = x[:, 0], x[:, 1]
    return np.stack([2 * (u - u**3 / 3 - v), 0.4 * (u + 0.6 * b - 0.7 * v)], axis=1)


def stationary_paths(
    sde: SDE, start: Float64[Array, " dim"], gap: float, length: int, num_paths: int, seed: int
) -> Float64[Array, "paths times dim"]:
    """Paths after a time in which they forget their common start."""
    times = np.concatenate([[0.0], _TRANSIENT + gap * np.arange(length)])
    with np.errstate(all="ignore"):
        paths = simulate(sde, np.tile(start, (num_paths, 1)), times, dt=min(gap / 4, 0.02), seed=seed)
    return paths.values[:, 1:]


def _observed(
    sde: SDE, values: Float64[Array, "paths times dim"], gap: float, noise: float, rng: np.random.Generator
) -> Right:
    """Measurement noise, and units that are not round."""
    spread = values.std(axis=(0, 1))
    values = values + noise * spread * rng.standard_normal(values.shape)
    unit, zero = np.exp(rng.uniform(-3, 3, values.shape[2])), rng.uniform(-2, 2, values.shape[2])
    truth = FunctionSDE(
        sde.dim,
        lambda x: unit * np.asarray(sde.drift(x / unit - zero), np.float64),
        lambda x: unit * np.asarray(sde.diffusion(x / unit - zero), np.float64),
    )
    return Right(read(unit * (values + zero), dt=gap), truth, noise * spread * unit)
