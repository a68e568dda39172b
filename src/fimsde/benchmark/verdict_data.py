"""Data for the calibration of verdicts: random systems of the right class, and one maker for every way to be wrong.

Times are in units in which systems relax in about one; states get random units at the end. Nothing here was used to
choose hypotheses of the bank or weights.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE, CorrelatedSDE, FunctionSDE
from fimsde.prior.config import PriorConfig
from fimsde.prior.equation import draw_equation
from fimsde.shapes import Array, Float64
from fimsde.simulate import simulate

Length = Literal["short", "long"]
_SUBSTEPS = 10
_GAPS = (0.02, 0.15)  # between observations, in relaxation times: drawn between these, evenly in their logarithm


@dataclass(frozen=True)
class Cell:
    """What kind of data of the right class.

    Attributes:
        noisy: Whether there is measurement noise, of 2 to 10 % of the standard deviation of each component.
        num: Observations in all.
        num_paths: Paths.
        prior: Whether the equation is a draw from the prior, not one of ours.
    """

    noisy: bool
    num: int
    num_paths: int
    prior: bool = False

    def __str__(self) -> str:
        paths = "one path" if self.num_paths == 1 else f"{self.num_paths} paths"
        source = ", prior" if self.prior else ""
        return f"{'noisy' if self.noisy else 'clean'}, {self.num} observations, {paths}{source}"


CELLS = tuple(
    Cell(noisy, num, num_paths, prior)
    for prior in (False, True)
    for noisy in (False, True)
    for num, num_paths in ((300, 1), (400, 10), (5000, 1), (6000, 40))
)


def right_class(cell: Cell, seed: int) -> Observations:
    """Data of a random equation, or of a draw from the prior."""
    rng = np.random.default_rng([seed, 11])
    if cell.prior:
        return _from_prior(cell, rng, seed)
    sde, start = _random_system(rng)
    gap = float(np.exp(rng.uniform(*np.log(_GAPS))))
    values = _paths(sde, start, gap, cell.num // cell.num_paths, cell.num_paths, seed)
    return _observed(values, gap, float(rng.uniform(0.02, 0.1)) if cell.noisy else 0.0, rng)


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


def _from_prior(cell: Cell, rng: np.random.Generator, seed: int) -> Observations:
    """An equation of the prior, simulated again on a grid of the size of the cell."""
    for i in range(20):
        drawn = draw_equation(PriorConfig(), seed, i)
        states = drawn.values.reshape(-1, drawn.dim)
        start = states[rng.integers(len(states), size=cell.num_paths)].astype(np.float64)
        gap = float(drawn.setting.gap)
        paths = simulate(drawn.sde, start, gap * np.arange(cell.num // cell.num_paths), substeps=_SUBSTEPS, seed=seed)
        if paths.mask.all() and np.abs(paths.values).max() < 100:
            noise = float(rng.uniform(0.02, 0.1)) if cell.noisy else 0.0
            return _observed(paths.values, gap, noise, rng)
    raise RuntimeError(f"no equation of the prior stays finite for {cell}, seed {seed}")


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


def _paths(
    sde: SDE, start: Float64[Array, " dim"], gap: float, length: int, num_paths: int, seed: int
) -> Float64[Array, "paths times dim"]:
    """Paths after a time in which they forget their common start."""
    times = np.concatenate([[0.0], 5 + gap * np.arange(length)])
    with np.errstate(all="ignore"):
        paths = simulate(sde, np.tile(start, (num_paths, 1)), times, dt=min(gap / 4, 0.02), seed=seed)
    return paths.values[:, 1:]


def _observed(
    values: Float64[Array, "paths times dim"], gap: float, noise: float, rng: np.random.Generator
) -> Observations:
    """Measurement noise, and units that are not round."""
    spread = values.std(axis=(0, 1))
    values = values + noise * spread * rng.standard_normal(values.shape)
    unit, zero = np.exp(rng.uniform(-3, 3, values.shape[2])), rng.uniform(-2, 2, values.shape[2])
    return read(unit * (values + zero), dt=gap)


# --- the wrong class: x is an Ornstein-Uhlenbeck process or a double well, plus what the row says ---


@dataclass(frozen=True)
class Row:
    """A way to be wrong.

    Attributes:
        name: For tables.
        verdicts: Names of the verdicts of which one must be the cause that is named.
        strengths: Three of them, the weakest first; the last is at least that of the table of requirements.
        unit: What a strength is.
        make: From strength and seed to data.
    """

    name: str
    verdicts: tuple[str, ...]
    strengths: tuple[float, float, float]
    unit: str
    make: Callable[[float, int], Observations]


_NUM, _GAP = 3000, 0.05


def _driven(
    force: Callable[[Float64[Array, " times"]], Float64[Array, " times"]], seed: int, num: int = _NUM
) -> Observations:
    """dx = (-x + force(t)) dt + dW: Ornstein-Uhlenbeck, driven; the exact law over each of ten sub-steps."""
    rng = np.random.default_rng([seed, 12])
    h = _GAP / _SUBSTEPS
    t = h * np.arange(num * _SUBSTEPS)
    kicks = rng.standard_normal(len(t)) * h**0.5
    x = _linear(1 - h, force(t) * h + kicks, float(rng.standard_normal()) * 0.7)
    return read(x[::_SUBSTEPS, None], times=t[::_SUBSTEPS])


def _linear(factor: float, inputs: Float64[Array, " n"], first: float) -> Float64[Array, " n"]:
    """x_i+1 = factor x_i + inputs_i."""
    from scipy.signal import lfilter

    return lfilter([1.0], [1.0, -factor], np.concatenate([[first], inputs[:-1]]))


def _correlated(rho: float, seed: int) -> Observations:
    matrix = np.array([[1.0, rho], [rho, 1.0]])
    inner = FunctionSDE(
        2,
        lambda x: np.stack([-x[:, 0] + 0.5 * x[:, 1], -x[:, 1] - 0.5 * x[:, 0] ** 3], 1),
        lambda x: np.full_like(x, 0.7),
    )
    values = _paths(CorrelatedSDE(inner, matrix), np.zeros(2), _GAP, _NUM, 1, seed)
    return read(values, dt=_GAP)


def _position(damping: float, seed: int) -> Observations:
    oscillator = FunctionSDE(
        2,
        lambda x: np.stack([x[:, 1], -x[:, 0] - damping * x[:, 1]], 1),
        lambda x: np.tile([0.0, 0.5], (len(x), 1)),
    )
    values = _paths(oscillator, np.ones(2), 0.1, _NUM, 1, seed)
    return read(values[:, :, :1], dt=0.1)


def _season(size: float, seed: int) -> Observations:
    period = float(np.random.default_rng([seed, 13]).uniform(3, 15))
    return _driven(lambda t: size * np.cos(2 * np.pi * t / period), seed)


def _trend(size: float, seed: int) -> Observations:
    return _driven(lambda t: size * 0.7 * t / t[-1], seed)


def _regime(size: float, seed: int) -> Observations:
    return _driven(lambda t: np.where(t > t[-1] / 2, size * 0.7, 0.0), seed)


def _subjects(size: float, seed: int) -> Observations:
    parts = [_driven(lambda t, k=k: np.full(len(t), size * 0.7 * (k % 2)), seed * 1000 + k, 150) for k in range(20)]  # type: ignore[misc]
    return read([p.values for p in parts], times=[p.times for p in parts])


def _jumps(size: float, seed: int) -> Observations:
    rng = np.random.default_rng([seed, 14])
    steps = _GAP**0.5 * rng.standard_normal(_NUM)
    steps += (rng.random(_NUM) < 0.01) * size * _GAP**0.5 * rng.standard_normal(_NUM)
    return read(_linear(1 - _GAP, steps, 0.0)[:, None], dt=_GAP)


def _heavy(freedom: float, seed: int) -> Observations:
    rng = np.random.default_rng([seed, 15])
    steps = _GAP**0.5 * rng.standard_t(freedom, _NUM) / (freedom / (freedom - 2)) ** 0.5
    return read(_linear(1 - _GAP, steps, 0.0)[:, None], dt=_GAP)


def _garch(share: float, seed: int) -> Observations:
    rng = np.random.default_rng([seed, 16])
    variance, steps = 1.0, np.empty(_NUM)
    for i in range(_NUM):
        steps[i] = variance**0.5 * rng.standard_normal()
        variance = 0.02 + share * steps[i] ** 2 + (0.98 - share) * variance
    return read(_linear(1 - _GAP, steps * _GAP**0.5, 0.0)[:, None], dt=_GAP)


def _coloured(time: float, seed: int) -> Observations:
    """A fast hidden variable drives x; its correlation time is `time` gaps."""
    rng = np.random.default_rng([seed, 17])
    h, tau = _GAP / _SUBSTEPS, time * _GAP
    keep = float(np.exp(-h / tau))
    u = _linear(keep, (1 - keep**2) ** 0.5 * rng.standard_normal(_NUM * _SUBSTEPS), 0.0) / (2 * tau) ** 0.5
    x = _linear(1 - h, u * h, 0.0)
    return read(x[::_SUBSTEPS, None], dt=_GAP)


def _rounded(size: float, seed: int) -> Observations:
    obs = _driven(np.zeros_like, seed)
    step = size * _GAP**0.5
    return read(step * np.round(obs.values / step), dt=_GAP)


def _outliers(size: float, seed: int) -> Observations:
    obs, rng = _driven(np.zeros_like, seed), np.random.default_rng([seed, 18])
    rows = rng.choice(_NUM - 2, 10, replace=False) + 1
    values = obs.values.copy()
    values[rows] += size * _GAP**0.5 * rng.choice([-1.0, 1.0], (10, 1))
    return read(values, dt=_GAP)


ROWS = (
    Row("noise correlated between components", ("correlated noise",), (0.2, 0.4, 0.8), "correlation", _correlated),
    Row("only the position of a second-order system", ("second order",), (1.2, 0.6, 0.2), "damping", _position),
    Row("periodic forcing", ("season",), (0.6, 1.2, 2.4), "amplitude", _season),
    Row("trend", ("trend",), (2.0, 4.0, 8.0), "standard deviations over the record", _trend),
    Row("change of regime half-way", ("change of regime",), (1.0, 2.0, 3.0), "standard deviations", _regime),
    Row(
        "subjects with two equilibria, pooled",
        ("paths alike",),
        (1.0, 2.0, 3.0),
        "standard deviations apart",
        _subjects,
    ),
    Row("jumps", ("jumps",), (6.0, 9.0, 15.0), "standard deviations of a step, in 1 % of steps", _jumps),
    Row("heavy tails", ("heavy tails",), (6.0, 4.0, 3.0), "degrees of freedom", _heavy),
    Row("volatility that remembers", ("volatility",), (0.06, 0.12, 0.2), "share of the last square", _garch),
    Row("hidden fast variable", ("memory", "second order"), (0.5, 1.0, 3.0), "gaps of correlation time", _coloured),
    Row("coarse resolution", ("resolution",), (1.5, 3.0, 6.0), "standard deviations of a step", _rounded),
    Row("wrong readings", ("outliers",), (10.0, 15.0, 30.0), "standard deviations of a step", _outliers),
)
