"""Power laws through learning curves, with intervals.

y(x) = floor + scale * x**-exponent. For given exponent this is linear in floor and scale, so the best exponent is found
along one line. Logarithms of errors are fitted without a floor, by a straight line. Intervals come from drawing the
held-out batches again (bootstrap): they hold what the choice of held-out equations leaves open, not what another seed
of training would change.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import nan

import numpy as np

from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float64

_EXPONENTS = np.geomspace(0.01, 4.0, 400)  # tried; by hand: learning curves have exponents around 0.05 to 1
_DRAWS = 1000  # of the bootstrap; by hand: percentiles to about a tenth of the width of the interval
_FEWEST = 4  # points for three numbers and something left over
LEVEL = 0.95  # of all intervals


@dataclass(frozen=True)
class PowerLaw:
    """y(x) = floor + scale * x**-exponent."""

    exponent: float
    scale: float
    floor: float

    def __call__(self, x: Float64[Array, " points"]) -> Float64[Array, " points"]:
        return self.floor + self.scale * x**-self.exponent


@dataclass(frozen=True)
class Interval:
    """A number and where it lies with probability `LEVEL`."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


def fit_power_law(x: Float64[Array, " points"], y: Float64[Array, " points"]) -> PowerLaw:
    """Least squares with a floor. The exponent stays between 0.01 and 4: at an end the curve does not tell it."""
    _check(x, y)
    basis = x[:, None] ** -_EXPONENTS  # (points, exponents)
    centred, values = basis - basis.mean(axis=0), y - y.mean()
    square = (centred**2).sum(axis=0)
    scales = centred.T @ values / square
    misses = values @ values - scales**2 * square
    misses[scales < 0] = values @ values  # a curve that rises is best met by a constant
    best = int(np.argmin(misses))
    scale = max(0.0, float(scales[best]))
    return PowerLaw(float(_EXPONENTS[best]), scale, float(y.mean() - scale * basis[:, best].mean()))


def fit_exponent(x: Float64[Array, " points"], log10_y: Float64[Array, " points"]) -> float:
    """The exponent of y = scale * x**-exponent from logarithms of y."""
    _check(x, log10_y, fewest=2)
    logs = np.log10(x)
    logs = logs - logs.mean()
    return float(-(logs @ log10_y) / (logs @ logs))


def interval(
    columns: Float64[Array, "points batches"],
    statistic: Callable[[Float64[Array, " points"]], float],
    *,
    seed: int = 0,
) -> Interval:
    """A statistic of the mean over batches, with the percentile interval of the bootstrap over batches."""
    rng = np.random.default_rng(seed)
    count = columns.shape[1]
    drawn = [statistic(columns[:, rng.integers(0, count, count)].mean(axis=1)) for _ in range(_DRAWS)]
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if count > 1 else (nan, nan)
    return Interval(float(statistic(columns.mean(axis=1))), float(low), float(high))


def slope_at_end(x: Float64[Array, " points"], y: Float64[Array, " points"]) -> float:
    """What the fitted power law says that the next doubling of x changes: y(2 x_end) - y(x_end)."""
    law = fit_power_law(x, y)
    end = np.array([x[-1], 2 * x[-1]])
    return float(np.diff(law(end))[0])


def _check(x: Float64[Array, " points"], y: Float64[Array, " points"], fewest: int = _FEWEST) -> None:
    if len(x) != len(y) or len(x) < fewest:
        raise ConfigError(f"{len(x)} points are too few for a power law; expected {fewest} or more.")
    if not (np.all(x > 0) and np.all(np.diff(x) > 0) and np.isfinite(y).all()):
        raise ConfigError("a power law needs positive, increasing x and finite y.")
