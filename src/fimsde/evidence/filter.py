"""The filter: what an equation and measurement noise predict of every observation, given those before it.

Innovations, what an observation adds to its prediction, are white under the right equation, with or without noise.
Their likelihood is the likelihood of the data, and all that the hypotheses are weighed by.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.bank.windows import Series
from fimsde.evidence import filter_kernels, line_kernels
from fimsde.evidence.basis import Basis
from fimsde.shapes import Array, Bool, Float64

REACH = 10.0  # standard deviations: predictions of an equation that explodes end here
_STEPS = (1, 2, 4, 8, 16)  # Runge-Kutta steps in a gap
_STIFF = 0.5  # largest |J| times step: then the error of a step is below 1e-3 of it
_SEEN = 0.1  # standard deviations of a prediction: smaller errors of it change variances by less than a hundredth
_SOME, _NEARLY_ALL = 200, 0.95  # observations that steps are chosen by, and the share of them that matters
_VARIANCE, _INNOVATION = 4, 6  # among what the kernel returns
# of tables of one component, in standard deviations: between nodes, and from the data to the ends; by hand: B-splines
# are 0.05 apart or more, and paths of a gap hardly leave what a whole record has seen
_NODES_APART, _BEYOND, _LEAST_NODES = 0.02, 1.0, 20
_NARROW = 0.05  # standard deviations that a gap adds: over less than the finest B-splines no drift bends a normal law


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
        carried: Transition matrices: what is left at the end of an error at the beginning, and in the middle.
        gain: What the state is corrected by, per innovation.
        variance: Of the innovation.
        whiten: L⁻¹ of the covariance L L' of the innovation.
        innovation: The observation less its prediction.
        begins: True where a path begins.
        gaps: Time from the observation to the next.
        loglik: log p(observation | those before it).
    """

    places: Float64[Array, "3 rows dim"]
    spreads: Float64[Array, "3 rows dim"]
    carried: Float64[Array, "2 rows dim dim"]
    gain: Float64[Array, "rows dim dim"]
    variance: Float64[Array, "rows dim"]
    whiten: Float64[Array, "rows dim dim"]
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
    if euler or not _is_line(series, equation):
        found = _run(series, equation, 1 if euler else _steps(series, equation), euler)
    else:
        found = _run_line(series, equation)
    places, spreads, carried, gain, variance, whiten, innovation, begins, loglik = found
    gaps = series.dtau[series.steps]
    return Predictions(places, spreads, carried, gain, variance, whiten, innovation, begins, gaps, loglik)


def turn_of(found: Predictions) -> float:
    """Median over gaps of the largest entry of exp(J h) - 1: the filter is linear in a gap, and this is how far."""
    change = found.carried[0] - np.eye(found.carried.shape[-1])
    return float(np.median(np.abs(change).max(axis=(1, 2)))) if len(change) else 0.0


def _run(series: Series, equation: Equation, steps: int, euler: bool) -> tuple[Array, ...]:
    """What the filter finds with so many steps in a gap."""
    drift_basis, rate_basis = equation.drift_basis, equation.rate_basis
    drift, rate = rows_of(drift_basis, equation.drift), rows_of(rate_basis, equation.rate)
    return filter_kernels.filter_paths(
        series.y,
        series.dtau,
        series.path_starts,
        drift_basis.arrays,
        drift,
        drift_basis.slopes(drift),
        rate_basis.arrays,
        rate,
        equation.floor,
        equation.noise,
        REACH,
        steps,
        euler,
    )


def rows_of(basis: Basis, coefficients: Float64[Array, "size dim"]) -> Float64[Array, "dim some"]:
    """Coefficients as compiled code takes them: a row for each component; no B-splines where all of these are zero."""
    is_plain = not coefficients[basis.num_terms :].any()
    return np.ascontiguousarray((coefficients[: basis.num_terms] if is_plain else coefficients).T)


def _is_line(series: Series, equation: Equation) -> bool:
    """Whether there is one component, whose law after a gap is wide enough to be bent."""
    if equation.drift_basis.dim > 1:
        return False
    places = series.y[:: max(1, len(series.y) // _SOME)]
    g = np.maximum(equation.rate_basis.field(equation.rate, places), equation.floor)
    return bool(g.mean() * series.median_gap > _NARROW**2)


def _run_line(series: Series, equation: Equation) -> tuple[Array, ...]:
    """What the filter of one component finds, with exact means and variances of the state after a gap."""
    low, high = max(series.y.min() - _BEYOND, -REACH), min(series.y.max() + _BEYOND, REACH)
    nodes = np.linspace(low, high, max(int(np.ceil((high - low) / _NODES_APART)), _LEAST_NODES) + 1)
    places = nodes[:, None]
    f = equation.drift_basis.field(equation.drift, places)[:, 0]
    g = np.maximum(equation.rate_basis.field(equation.rate, places)[:, 0], equation.floor[0])
    gaps = series.dtau[series.dtau > 0]
    first = 0.5 * gaps.min() * 2.0 ** (-1 / line_kernels.OCTAVE)  # a row before half of the shortest gap
    rows = int(np.ceil(line_kernels.OCTAVE * np.log2(gaps.max() / first))) + 3
    apart = nodes[1] - nodes[0]
    tables = line_kernels.moment_tables(f, g, apart, first, rows)
    starts = series.path_starts
    return line_kernels.filter_line(series.y, series.dtau, starts, equation.noise[0], low, apart, first, *tables)


def _steps(series: Series, equation: Equation) -> int:
    """Runge-Kutta steps in a gap: none is long for the slopes of the drift where data are, and more would not be seen.

    Twice as many steps may move a prediction by a small share of its standard deviation, for nearly all observations.
    """
    slopes = _slopes(series.y[:: max(1, len(series.y) // _SOME)], equation)
    needed = _nearly_largest(slopes) * series.median_gap / _STIFF
    steps = next((n for n in _STEPS if n >= needed), _STEPS[-1])
    some, seen = series.pairs(_SOME // 2), {}
    while steps < _STEPS[-1]:
        for n in (steps, 2 * steps):
            if n not in seen:
                seen[n] = _run(some, equation, n, euler=False)
        one, other = seen[steps], seen[2 * steps]
        moved = np.abs(one[_INNOVATION] - other[_INNOVATION]) / np.sqrt(other[_VARIANCE])
        if not _nearly_largest(moved.max(axis=1)) > _SEEN:  # True if it is no number
            break
        steps *= 2
    return steps


def _nearly_largest(values: Float64[Array, " some"]) -> float:
    """The value that nearly all others are below, between two of them in a straight line; no number if one is none."""
    ordered = np.sort(values)  # numpy's quantile takes ten times as long for so few
    if np.isnan(ordered[-1]):
        return float("nan")
    place = _NEARLY_ALL * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))


def _slopes(places: Float64[Array, "places dim"], equation: Equation) -> Float64[Array, " places"]:
    """The largest slope of the drift at each place."""
    basis, step, (num, dim) = equation.drift_basis, 0.05, places.shape
    moves = step * np.concatenate([np.eye(dim), -np.eye(dim)])
    drift = basis.field(equation.drift, (places + moves[:, None]).reshape(-1, dim)).reshape(2, dim, num, dim)
    return np.abs(drift[0] - drift[1]).max(axis=(0, 2)) / (2.0 * step)
