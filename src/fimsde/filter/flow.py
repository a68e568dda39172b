"""An equation between two observations, linearised: x(t + h) = ahead + matrix (x(t) - start) + noise.

Around the path of the mean from `start`, the mean, the matrix of first derivatives and the covariance of the noise
obey ordinary differential equations, which are integrated over the gap in a few steps:

    m' = f(m) + f''(m) V / 2,    M' = J M,    V' = J V + V J' + g(m) + g''(m) V / 2

with the derivatives J of the drift f. Second derivatives count along each axis only. Everything is done for all gaps
at once and knows nothing of measurement noise, so that filters with other noise need no new flow.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.equations.sde import SDE, correlation, fields, is_diagonal
from fimsde.errors import InvalidObservationsError
from fimsde.shapes import Array, Float64, Int

# h |J| of one step; the neglected change of J along it is of this order times the nonlinearity; by hand: see the test
# against exact moments of a cubic drift. Innovations of chaotic systems differ by 1 % from those with ten times as many
_STEP = 0.2
_MOST_STEPS = 8  # per gap; by hand: bounds seconds, and after |J| h = 1.6 little of the start is left
# distance of the points for derivatives, of the spread of the data, at least: differences of single precision numbers
# (1e-7) are then known to 1e-4
_LEAST_SPREAD = 1e-3
_TAYLOR = 8  # terms of the matrix exponential; its argument is halved until it is below 1/2: error 1e-9
_FAR = 10.0  # ranges of the data: means are followed no farther; by hand
_MOST_GROWTH = 6.0  # h |J| in one step: growth by more than e^6 = 400 is an explosion, whatever its size
# of the mean variance rate: no place is taken for more certain than this; by hand: a thousandth of an average step
_LEAST_RATE = 1e-3


@dataclass(frozen=True, eq=False)
class Flow:
    """x(t + h) = ahead + matrix (x(t) - start) + noise, for every step between two observations.

    Attributes:
        start: Where each step begins, or is taken to begin.
        ahead: Mean at its end, from there.
        matrix: Derivative of that mean by the start.
        covariance: Of the noise collected on the way.
        third: Third cumulant of that noise, per component, from a diffusion that depends on the state.
        least: Variance rate below which no place counts as more certain, per component.
    """

    start: Float64[Array, "n dim"]
    ahead: Float64[Array, "n dim"]
    matrix: Float64[Array, "n dim dim"]
    covariance: Float64[Array, "n dim dim"]
    third: Float64[Array, "n dim"]
    least: Float64[Array, " dim"]

    def rows(self, numbers: Int[Array, " _"]) -> "Flow":
        """Some of the steps."""
        start, ahead, matrix = self.start[numbers], self.ahead[numbers], self.matrix[numbers]
        return Flow(start, ahead, matrix, self.covariance[numbers], self.third[numbers], self.least)


@dataclass(frozen=True, eq=False)
class _Local:
    """Drift, covariance rate and their derivatives at one place per step."""

    drift: Float64[Array, "n dim"]
    jacobian: Float64[Array, "n dim dim"]
    bend: Float64[Array, "n dim dim"]  # second derivative of drift i along axis j
    rate: Float64[Array, "n dim dim"]
    rate_slope: Float64[Array, "n dim"]  # of g_ii along axis i
    rate_bend: Float64[Array, "n dim dim"]  # second derivative of g_ii along axis j


@dataclass(frozen=True, eq=False)
class _InUnits:
    """The same equation for x / unit: sizes of Jacobians and of steps mean the same in all components."""

    sde: SDE
    unit: Float64[Array, " dim"]

    @property
    def dim(self) -> int:
        return self.sde.dim

    @property
    def is_diagonal(self) -> bool:
        return is_diagonal(self.sde)

    # no shapes here: as those of the equation
    def drift(self, x: Array) -> Array:
        return self.fields(x)[0]

    def diffusion(self, x: Array) -> Array:
        return self.fields(x)[1]

    def fields(self, x: Array) -> tuple[Array, Array]:
        drift, diffusion = _finite(self.sde, x * self.unit)
        return drift / self.unit, diffusion / self.unit

    def correlation(self, x: Array) -> Array:
        return correlation(self.sde, x * self.unit)


def linearise(sde: SDE, start: Float64[Array, "n dim"], gap: Float64[Array, " n"]) -> Flow:
    """The flow of an equation over gaps from given starts, in whatever units the components are."""
    spread = start.std(axis=0)
    unit = np.exp2(np.round(np.log2(np.where(spread > 0, spread, 1.0))))  # powers of two: nothing is rounded
    found = _linearise(_InUnits(sde, unit), start / unit, gap)
    return Flow(
        start,
        found.ahead * unit,
        found.matrix * unit[:, None] / unit,
        found.covariance * np.outer(unit, unit),
        found.third * unit * unit * unit,  # a cube alone may be no number
        found.least * unit**2,
    )


def _linearise(sde: SDE, start: Float64[Array, "n dim"], gap: Float64[Array, " n"]) -> Flow:
    n, dim = start.shape
    spread = _LEAST_SPREAD * start.std(axis=0)
    spread = np.where(spread > 0, spread, np.finfo(float).eps ** 0.5 * np.maximum(np.abs(start).max(axis=0), 1e-300))
    floor = _LEAST_RATE * np.mean(_finite(sde, start)[1] ** 2, axis=0)
    here = _look(sde, start, np.maximum(spread, np.sqrt(_diagonal(_rate(sde, start, floor)) * gap[:, None])), floor)
    num = _num_steps(here.jacobian, gap)
    mean, matrix = start, np.tile(np.eye(dim), (n, 1, 1))
    cov, third, length = np.zeros((n, dim, dim)), np.zeros((n, dim)), gap / num
    low, high = start.min(axis=0), start.max(axis=0)
    reach = _FAR * np.maximum(high - low, spread)
    for step in range(num):
        if step:
            wide = np.sqrt(_diagonal(cov) + _diagonal(here.rate) * length[:, None])
            here = _look(sde, mean, np.maximum(spread, wide), floor)
        box = (low - reach, high + reach)
        mean, matrix, cov, third = _advance(sde, here, mean, matrix, cov, third, length, floor, box)
    return Flow(start, mean, matrix, cov, third, floor)


def _advance(
    sde: SDE,
    here: _Local,
    mean: Float64[Array, "n dim"],
    matrix: Float64[Array, "n dim dim"],
    cov: Float64[Array, "n dim dim"],
    third: Float64[Array, "n dim"],
    length: Float64[Array, " n"],
    floor: Float64[Array, " dim"],
    box: tuple[Float64[Array, " dim"], Float64[Array, " dim"]],
) -> tuple[Float64[Array, "n dim"], Float64[Array, "n dim dim"], Float64[Array, "n dim dim"], Float64[Array, "n dim"]]:
    """One step: exact if the drift is linear and the noise constant up to the fifth power of its length."""
    half = length[:, None] / 2
    middle = _diagonal(cov) + _diagonal(here.rate) * half  # the variance half-way
    pull = here.drift + 0.5 * np.einsum("nij,nj->ni", here.bend, middle)
    through, moved = _exponential(here.jacobian, pull, length)
    half_through, _ = _exponential(here.jacobian, pull, length / 2)
    mean = np.clip(mean + moved, *box)  # an equation that explodes within a gap is far away, and no farther
    begin = here.rate + _as_diagonal(0.5 * np.einsum("nij,nj->ni", here.rate_bend, _diagonal(cov)))
    late = _diagonal(cov) + 2 * _diagonal(here.rate) * half
    end = _rate(sde, mean, floor) + _as_diagonal(0.5 * np.einsum("nij,nj->ni", here.rate_bend, late))
    begin, end = (_positive(rate, floor) for rate in (begin, end))
    inner = _carried(through, begin) + 2 * _carried(half_through, begin + end) + end  # Simpson's rule
    third = third * np.exp(3 * np.clip(_diagonal(here.jacobian) * length[:, None], None, 1.0))
    third = third + 3 * here.rate_slope * middle * length[:, None]
    cov = _carried(through, cov) + inner * (length / 6)[:, None, None]
    return mean, through @ matrix, cov, third


def _look(
    sde: SDE, x: Float64[Array, "n dim"], spread: Float64[Array, "n dim"], floor: Float64[Array, " dim"]
) -> _Local:
    """Fields and their derivatives by central differences over `spread`."""
    n, dim = x.shape
    places = np.tile(x, (2 * dim + 1, 1, 1))
    for j in range(dim):
        places[2 * j + 1, :, j] += spread[:, j]
        places[2 * j + 2, :, j] -= spread[:, j]
    drift, diffusion = (part.reshape(2 * dim + 1, n, dim) for part in _finite(sde, places.reshape(-1, dim)))
    variance = diffusion**2
    jacobian, bend, rate_bend = np.empty((3, n, dim, dim))
    slope = np.empty((n, dim))
    for j in range(dim):
        width, up, down = spread[:, j, None], 2 * j + 1, 2 * j + 2
        jacobian[:, :, j] = (drift[up] - drift[down]) / (2 * width)
        bend[:, :, j] = (drift[up] + drift[down] - 2 * drift[0]) / width**2
        rate_bend[:, :, j] = (variance[up] + variance[down] - 2 * variance[0]) / width**2
        slope[:, j] = (variance[up, :, j] - variance[down, :, j]) / (2 * width[:, 0])
    return _Local(drift[0], jacobian, bend, _full_rate(sde, x, diffusion[0], floor), slope, rate_bend)


def _rate(sde: SDE, x: Float64[Array, "n dim"], floor: Float64[Array, " dim"]) -> Float64[Array, "n dim dim"]:
    return _full_rate(sde, x, _finite(sde, x)[1], floor)


def _full_rate(
    sde: SDE, x: Float64[Array, "n dim"], diffusion: Float64[Array, "n dim"], floor: Float64[Array, " dim"]
) -> Float64[Array, "n dim dim"]:
    size = np.sqrt(np.maximum(diffusion**2, floor))
    rho = np.eye(sde.dim) if is_diagonal(sde) else correlation(sde, x)
    return size[:, :, None] * size[:, None, :] * rho


def _finite(sde: SDE, x: Float64[Array, "n dim"]) -> tuple[Float64[Array, "n dim"], Float64[Array, "n dim"]]:
    drift, diffusion = (np.asarray(part, np.float64) for part in fields(sde, x))
    bad = np.flatnonzero(~np.isfinite(drift + diffusion).all(axis=1))
    if len(bad):
        raise InvalidObservationsError(
            f"drift or diffusion is not finite at {np.array2string(x[bad[0]], precision=4)} and {len(bad) - 1} more of "
            f"{len(x)} locations (a negative variance rate, perhaps). Choose another method."
        )
    return drift, diffusion


def _num_steps(jacobian: Float64[Array, "n dim dim"], gap: Float64[Array, " n"]) -> int:
    """So many that h |J| is below 0.2 in nine of ten steps, within bounds."""
    size = np.sqrt((jacobian**2).sum(axis=(1, 2))) * gap
    return int(np.clip(np.ceil(np.quantile(size, 0.9) / _STEP), 1, _MOST_STEPS)) if len(gap) else 1


def _exponential(
    jacobian: Float64[Array, "n dim dim"], pull: Float64[Array, "n dim"], length: Float64[Array, " n"]
) -> tuple[Float64[Array, "n dim dim"], Float64[Array, "n dim"]]:
    """exp(J h) and the integral of exp(J s) pull over s from 0 to h: a linear equation, solved."""
    n, dim = pull.shape
    block = np.zeros((n, dim + 1, dim + 1))
    block[:, :dim, :dim], block[:, :dim, dim] = jacobian, pull
    block *= length[:, None, None]
    norm = np.abs(block[:, :dim, :dim]).sum(axis=2).max(axis=1)
    block[:, :dim, :dim] *= np.minimum(1.0, _MOST_GROWTH / np.maximum(norm, 1e-300))[:, None, None]
    size = float(np.abs(block[:, :dim, :dim]).sum(axis=2).max(initial=0.0))
    halvings = max(0, int(np.ceil(np.log2(max(size, 1e-300) / 0.5))))
    block /= 2**halvings
    out = np.tile(np.eye(dim + 1), (n, 1, 1)) + block
    term = block
    for k in range(2, _TAYLOR + 1):
        term = term @ block / k
        out += term
    for _ in range(halvings):
        out = out @ out
    return out[:, :dim, :dim], out[:, :dim, dim]


def _carried(through: Float64[Array, "n dim dim"], cov: Float64[Array, "n dim dim"]) -> Float64[Array, "n dim dim"]:
    return through @ cov @ np.swapaxes(through, 1, 2)


def _positive(rate: Float64[Array, "n dim dim"], floor: Float64[Array, " dim"]) -> Float64[Array, "n dim dim"]:
    """The matrix with a diagonal not below the floor; correlations keep their size."""
    own = _diagonal(rate)
    factor = np.sqrt(np.maximum(own, floor) / np.where(own > 0, own, 1.0))
    out = rate * factor[:, :, None] * factor[:, None, :]
    index = np.arange(rate.shape[1])
    out[:, index, index] = np.maximum(own, floor)
    return out


def _diagonal(matrices: Float64[Array, "n dim dim"]) -> Float64[Array, "n dim"]:
    return np.diagonal(matrices, axis1=1, axis2=2)


def _as_diagonal(values: Float64[Array, "n dim"]) -> Float64[Array, "n dim dim"]:
    return values[:, :, None] * np.eye(values.shape[1])
