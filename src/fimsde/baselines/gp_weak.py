"""A Gaussian process in weak form: windows, instruments, and measurement noise allowed for.

    sum over windows of z (dL - ∫ w f dt) = noise of known covariance,    f = linear + a Gaussian process

dL is the weighted increment of a window, and z are instruments at a place before it. Without measurement noise a window
is a single step with the trapezoidal rule; with noise it is a hat function over as many steps as the noise demands, and
functions of noisy states are replaced by others whose expectation is right (see `radial.RadialBasis`). All lengths are
judged on the same instruments, so that evidences can be compared.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from fimsde.bank import window_kernels
from fimsde.bank.fit import fit_step
from fimsde.bank.residuals import without_noise
from fimsde.bank.scales import Scales, block_lengths
from fimsde.bank.windows import Series, to_series
from fimsde.baselines.gp_increments import SmoothField, SmoothSDE
from fimsde.baselines.radial import (
    LENGTHS,
    LogRate,
    RadialBasis,
    log_rate,
    posterior,
    radial_basis,
    sizes,
    spread_out,
)
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Bool, Float64

_FLOOR = 0.1  # of the mean rate, so that no region gets all the weight; as in the bank's fits
_LEAST_RATE = 1e-6  # of the quadratic variation, below which no constant g is believed; by hand
_NOISE_SCORE = 2.0  # standard errors above which noise is allowed for; by hand: that costs little where there is none
_LINEAR = 10.0  # deviation of constant and slopes, in natural speeds: wide, as in the bank's fits
_LEAST_EIGENVALUE = 1e-9  # of the largest: instruments that say nothing new are left out
_INSTRUMENT = {1: 0.2, 2: 0.5}  # length of the instruments by dimension, about twice the distance of centres; by hand
_INSTRUMENT_ELSE = 0.8  # likewise, in three and more dimensions


@dataclass(frozen=True)
class WeakSettings:
    """Which lengths are tried, in standard deviations of the states."""

    lengths: tuple[float, ...] = LENGTHS

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) <= 0:
            raise ConfigError(f"lengths are {self.lengths}; expected at least one, all positive.")


DEFAULT = WeakSettings()


@dataclass(frozen=True)
class _Windows:
    """Windows of a series, as `bank.windows.Chunk` has them, for any features."""

    series: Series
    m: int  # steps of a block; 0: single steps
    coarse: bool
    increment: Float64[Array, "windows dim"]
    time: Float64[Array, " windows"]
    at: Float64[Array, "windows dim"]  # place of the instruments, which knows nothing of the noise of the window
    joined: Bool[Array, " windows"]  # whether the next row is the next window of the same path

    def integrals(self, features: Float64[Array, "points terms"]) -> Float64[Array, "windows terms"]:
        """∫ w phi dt of every window, from the functions at all points of the series."""
        return _fill(self.series, self.m, self.coarse, features)[1]

    def covariance(
        self, z: Float64[Array, "windows instruments"], g: Float64[Array, " windows"], noise_var: float
    ) -> Float64[Array, "instruments instruments"]:
        """Covariance of sum z (dL - ∫ w f dt): single steps have variance g T.

        Hats have g T (2 m² + 1) / (3 m²) + 2 v / m, and g T (m² - 1) / (6 m²) - v / m with their neighbour; v is the
        variance of the measurement noise.
        """
        rate, m = g * self.time, max(self.m, 1)
        own = (z * (rate * (2 * m * m + 1) / (3 * m * m) + 2.0 * noise_var / m)[:, None]).T @ z
        if self.m == 0:
            return own
        shared = np.where(self.joined, rate * (m * m - 1) / (6 * m * m) - noise_var / m, 0.0)
        neighbour = (z[:-1] * shared[:-1, None]).T @ z[1:]
        return own + neighbour + neighbour.T


def fit(observations: Observations, settings: WeakSettings = DEFAULT, seed: int = 0) -> SmoothSDE:
    """Estimate drift and diffusion from the weak form.

    Args:
        observations: Any number of paths with any gaps.
        settings: Lengths that are tried.
        seed: Not used: nothing here is random. Part of the common interface of the baselines.
    """
    steps = to_transitions(observations)
    normaliser = fit_normaliser(steps)
    series = to_series(normaliser.transitions(steps))
    scales = fit_step(series)[1]
    windows = _windows(series, scales)
    noise_var = scales.noise_var if windows.m else np.zeros(observations.dim)
    centres = spread_out(windows.at)
    bases = [radial_basis(centres, length) for length in settings.lengths]
    integrals = [windows.integrals(basis(series.y, noise_var)) for basis in bases]
    linear = windows.integrals(np.hstack([np.ones((len(series.y), 1)), series.y]))
    places = [(basis, basis(windows.at)) for basis in bases]
    shortest = _INSTRUMENT.get(observations.dim, _INSTRUMENT_ELSE)
    instrument = np.hstack([np.ones((len(windows.at), 1)), windows.at, radial_basis(centres, shortest)(windows.at)])
    drift_fields, rates = [], []
    for j in range(observations.dim):
        start = float(scales.diffusion_rate[j]) if windows.m else None
        prior = _LINEAR * float(scales.speed[j])
        field, rate = _fit_component(
            windows, j, float(noise_var[j]), start, bases, integrals, linear, places, instrument, prior
        )
        drift_fields.append(field)
        rates.append(rate)
    return SmoothSDE(normaliser, tuple(drift_fields), tuple(rates), observations.names)


def _windows(series: Series, scales: Scales) -> _Windows:
    """Hats if there is noise and the paths are long enough for some, else single steps."""
    m = int(np.median(block_lengths(scales, series)))
    noisy = bool(np.any(scales.noise_score > _NOISE_SCORE)) and not scales.coarse
    if not noisy or window_kernels.count_windows(series.path_starts, m) < 3 * (2 + series.y.shape[1]):
        m = 0
    (increment, time, at, joined), _ = _fill(series, m, scales.coarse, np.zeros((len(series.y), 0)))
    return _Windows(series, m, scales.coarse, increment, time, at, joined)


def _fill(
    series: Series, m: int, coarse: bool, features: Float64[Array, "points terms"]
) -> tuple[tuple[Array, Array, Array, Array], Float64[Array, "windows terms"]]:
    """Increments, times, places and neighbourhood of the windows, and the integrals of the features."""
    inside = np.ones(len(series.y), bool)
    inside[series.path_starts[1:] - 1] = False
    rows, dim, terms = np.flatnonzero(inside), series.y.shape[1], features.shape[1]
    if m == 0:
        increment, before, centre = (np.empty((len(rows), dim)) for _ in range(3))
        integral, unused = np.empty((len(rows), terms)), np.empty((len(rows), terms))
        time = series.dtau[rows]
        window_kernels.fill_steps(series.y, time, features, rows, coarse, increment, integral, unused, before, centre)
        return (increment, time, before, np.append(np.diff(rows) == 1, False)), integral
    num = window_kernels.count_windows(series.path_starts, m)
    increment, before, at, centre = (np.zeros((num, dim)) for _ in range(4))
    integral, time, first = np.zeros((num, terms)), np.zeros(num), np.zeros(num, np.int64)
    window_kernels.fill_windows(
        series.y, series.dtau, series.path_starts, features, m, increment, integral, time, before, at, centre, first
    )
    return (increment, time, before, np.append(np.diff(first) == m, False)), integral


def _fit_component(
    windows: _Windows,
    j: int,
    noise_var: float,
    start: float | None,
    bases: list[RadialBasis],
    integrals: list[Float64[Array, "windows centres"]],
    linear: Float64[Array, "windows terms"],
    places: list[tuple[RadialBasis, Float64[Array, "windows centres"]]],
    instrument: Float64[Array, "windows instruments"],
    prior: float,
) -> tuple[SmoothField, LogRate]:
    """Drift with a constant g, then g from what is left over, then both once more."""
    increment = windows.increment[:, j]
    rough = float(np.sum(increment**2) / np.sum(windows.time))
    g = np.full(len(increment), rough if start is None else start)
    for _ in range(3):
        best, weights, slope = _fit_drift(windows, j, noise_var, integrals, linear, instrument, g, prior)
        residual = increment - integrals[best] @ weights - linear @ slope
        moment = without_noise(residual[:, None], windows.joined)[:, 0] if windows.m else residual**2
        known = np.isfinite(moment)
        at = [(basis, phi[known]) for basis, phi in places]
        rate = log_rate(at, moment[known], windows.time[known], _LEAST_RATE * rough)
        phi = next(phi for basis, phi in places if basis is rate.basis)
        found = np.exp(rate.level + phi @ rate.weights)
        g = found + _FLOOR * found.mean()
    return SmoothField(bases[best], weights, slope), rate


def _fit_drift(
    windows: _Windows,
    j: int,
    noise_var: float,
    integrals: list[Float64[Array, "windows centres"]],
    linear: Float64[Array, "windows terms"],
    instrument: Float64[Array, "windows instruments"],
    g: Float64[Array, " windows"],
    prior: float,
) -> tuple[int, Float64[Array, " centres"], Float64[Array, " terms"]]:
    """The length of the largest evidence, weights of its process, and constant and slopes.

    Whitened by the noise, the sums r over instruments are r = C w + D b + N(0, I) with b ~ N(0, prior² I). The linear
    part is integrated out first: R R' = I + prior² D D' whitens once more.
    """
    increment, time = windows.increment[:, j], windows.time
    weight = instrument / (g + 2.0 * noise_var / (max(windows.m, 1) * time))[:, None]
    values, vectors = np.linalg.eigh(windows.covariance(weight, g, noise_var))
    kept = values > _LEAST_EIGENVALUE * values[-1]
    white = weight @ (vectors[:, kept] / np.sqrt(values[kept]))  # (windows, kept)
    right, polynomial = white.T @ increment, prior * (white.T @ linear)
    root = np.linalg.cholesky(np.eye(len(right)) + polynomial @ polynomial.T)
    turned = solve_triangular(root, right, lower=True)
    grid = sizes(float(g.mean() / time.sum()), float(g.mean() / time.mean()))
    found = []
    for integral in integrals:
        cross = solve_triangular(root, white.T @ integral, lower=True)
        found.append(posterior(cross.T @ cross, cross.T @ turned, grid))
    best = int(np.argmax([weights.gain for weights in found]))
    left = right - white.T @ (integrals[best] @ found[best].mean)
    slope = np.linalg.solve(np.eye(linear.shape[1]) + polynomial.T @ polynomial, prior * (polynomial.T @ left))
    return best, found[best].mean, slope
