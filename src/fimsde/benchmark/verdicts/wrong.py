"""The wrong class: one maker for every way to be wrong. x is an Ornstein-Uhlenbeck process, plus what the row says.

Real series of statsmodels stand beside them. Nothing here was used to choose hypotheses or thresholds.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fimsde.benchmark.verdicts.right import stationary_paths
from fimsde.data.observations import Observations, read
from fimsde.datasets import load
from fimsde.equations.sde import CorrelatedSDE, FunctionSDE
from fimsde.shapes import Array, Float64

_SUBSTEPS = 10


@dataclass(frozen=True)
class Row:
    """A way to be wrong.

    Attributes:
        name: For tables.
        verdicts: Names of the verdicts of which one must be the cause that is named.
        strengths: The weakest first; the last is at least that of the table of requirements.
        unit: What a strength is.
        make: From strength and seed to data.
    """

    name: str
    verdicts: tuple[str, ...]
    strengths: tuple[float, ...]
    unit: str
    make: Callable[[float, int], Observations]

    @property
    def is_record(self) -> bool:
        """Whether it is one real record instead of data sets without number."""
        return len(self.strengths) == 1


_NUM, _GAP = 3000, 0.05


def _driven(
    force: Callable[[Float64[Array, " times"]], Float64[Array, " times"]], seed: int, num: int = _NUM
) -> Observations:
    """dx = (-x + force(t)) dt + dW: Ornstein-Uhlenbeck, driven; an autoregression of ten sub-steps per gap."""
    rng = np.random.default_rng([seed, 12])
    h = _GAP / _SUBSTEPS
    t = h * np.arange(num * _SUBSTEPS)
    kicks = rng.normal(0.0, np.sqrt(h), len(t))
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
    values = stationary_paths(CorrelatedSDE(inner, matrix), np.zeros(2), _GAP, _NUM, 1, seed)
    return read(values, dt=_GAP)


def _position(damping: float, seed: int) -> Observations:
    oscillator = FunctionSDE(
        2,
        lambda x: np.stack([x[:, 1], -x[:, 0] - damping * x[:, 1]], 1),
        lambda x: np.tile([0.0, 0.5], (len(x), 1)),
    )
    values = stationary_paths(oscillator, np.ones(2), 0.1, _NUM, 1, seed)
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


def _real(name: str) -> Callable[[float, int], Observations]:
    return lambda part, seed: load(name)


_RECORD = ((1.0,), "of the record")
REAL = (
    Row("yearly sunspots", ("second order",), *_RECORD, _real("sunspots")),
    Row("sea surface temperature off Peru (El Niño)", ("season",), *_RECORD, _real("el-nino")),
    Row("CO₂ at Mauna Loa", ("season", "trend"), *_RECORD, _real("co2")),
)
