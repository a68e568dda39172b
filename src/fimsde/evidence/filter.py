"""The filter: what an equation and measurement noise predict of every observation, given those before it.

Innovations, what an observation adds to its prediction, are white under the right equation, with or without noise.
Their likelihood is the likelihood of the data, and all that the hypotheses are weighed by.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.bank.windows import Series
from fimsde.evidence import filter_kernels
from fimsde.evidence.basis import Basis
from fimsde.shapes import Array, Bool, Float64

REACH = 10.0  # standard deviations: predictions of an equation that explodes end here
_STEPS = (1, 2, 4, 8)  # Runge-Kutta steps in a gap
_STIFF = 0.5  # largest |J| times step: then the error of a step is below 1e-3 of it


@dataclass(frozen=True, eq=False)
class Equation:
    """dx = f dt + sqrt(g) dW, observed as y = x + e with e ~ N(0, v): f and g in bases, in normalised coordinates.

    Attributes:
        drift_basis, drift: Basis and coefficients of f.
        rate_basis, rate: Basis and coefficients of g.
        floor: g is at least this, per component.
        noise: v, per component.
    """

    drift_basis: Basis
    drift: Float64[Array, "size dim"]
    rate_basis: Basis
    rate: Float64[Array, "size2 dim"]
    floor: Float64[Array, " dim"]
    noise: Float64[Array, " dim"]


@dataclass(frozen=True, eq=False)
class Predictions:
    """One row for every step from an observation to the next; states at beginning, middle and end of the gap.

    Attributes:
        places, spreads: Mean and variances of the state, given the observations up to the beginning.
        carried: Share of an error of the state at the beginning, and in the middle, that is left at the end.
        gain: Share of the innovation by which the state is corrected.
        variance: Of the innovation.
        innovation: The observation less its prediction.
        begins: True where a path begins.
        gaps: Time from the observation to the next.
        loglik: log p(observation | those before it).
    """

    places: Float64[Array, "3 rows dim"]
    spreads: Float64[Array, "3 rows dim"]
    carried: Float64[Array, "2 rows dim"]
    gain: Float64[Array, "rows dim"]
    variance: Float64[Array, "rows dim"]
    innovation: Float64[Array, "rows dim"]
    begins: Bool[Array, " rows"]
    gaps: Float64[Array, " rows"]
    loglik: Float64[Array, " rows"]

    @property
    def likelihood(self) -> float:
        """log p(data), each path given its first observation."""
        return float(self.loglik.sum())


def predict(series: Series, equation: Equation, *, euler: bool = False) -> Predictions:
    """Run the filter along all paths.

    Args:
        series: Normalised observations.
        equation: What it believes in.
        euler: Whether the equation is a Markov chain with one Euler step per gap, as for coarse data.
    """
    found = filter_kernels.filter_paths(
        series.y,
        series.dtau,
        series.path_starts,
        equation.drift_basis.arrays,
        equation.drift,
        equation.rate_basis.arrays,
        equation.rate,
        equation.floor,
        equation.noise,
        REACH,
        _steps(series, equation),
        euler,
    )
    inside = np.ones(len(series.y), bool)
    inside[series.path_starts[1:] - 1] = False
    places, spreads, carried, gain, variance, innovation, begins, loglik = found
    gaps = series.dtau[inside]
    return Predictions(places, spreads, carried, gain, variance, innovation, begins, gaps, loglik)


def _steps(series: Series, equation: Equation) -> int:
    """Runge-Kutta steps in a gap, so that none is long for the slopes of the drift where the data are."""
    some = series.y[:: max(1, len(series.y) // 200)]
    slope = 0.0
    for j in range(some.shape[1]):
        ahead, behind = some.copy(), some.copy()
        ahead[:, j] += 0.05
        behind[:, j] -= 0.05
        there, back = (equation.drift_basis.field(equation.drift, x) for x in (ahead, behind))
        slope = max(slope, float(np.quantile(np.abs(there - back).max(axis=1) / 0.1, 0.95)))
    needed = slope * float(np.median(series.dtau[series.dtau > 0])) / _STIFF
    return next((n for n in _STEPS if n >= needed), _STEPS[-1])
