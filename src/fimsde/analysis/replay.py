"""Replays: an equation simulated on the grid of the data, and what the two have in common.

Every path starts where an observed path starts and is kept at the observed times, so that data of any kind (one long
record, many short tracks, gaps) and simulation differ by the equation alone. Each replicate is a data set of its own;
their spread says which differences mean something.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fimsde.analysis.box import Supported
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE, CorrelatedSDE, correlation, fields, is_diagonal, noise_factor
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Bool, Float64, Int
from fimsde.simulate import simulate
from fimsde.tabulate import TabulatedSDE, table_around

REPLICATES = 20  # of them 90 % leave one on either side, the fewest that show such a band
_SUBSTEPS, _MOST_SUBSTEPS = 4, 12  # per gap; one where no table makes steps cheap; by hand: bounds seconds
_TURN = 0.15  # by which the drift may turn in one midpoint step: its error is a sixth of the square; by hand
_PROBES = 200  # observations at which the turn is measured; by hand
# simulated over all replicates in one dimension, half as many with each one more: seconds; by hand
_MOST_POINTS = 200_000
_LONGEST = 20_000  # points of a path that are replayed, likewise; by hand
_MOST_HALVINGS = 3  # from four dimensions on the same number of points; by hand: enough of them to look at
# ranges away from the data at which a path has diverged; by hand: no path returns from there within a picture
_FAR = 100.0
_MOST_LAGS = 2000  # by hand: bounds memory, and more than a picture resolves
_REGULAR = 0.01  # gaps that differ by less than this share are equal; by hand: lags are then times to 1 %


@dataclass(frozen=True, eq=False)
class Replay:
    """Data beside simulations of an equation on their grid.

    Attributes:
        observed: The data, or as much of them as was replayed.
        values: Simulated states, row for row at the times of `observed`; NaN from where a path diverged.
        num_diverged: Simulated paths that left a box of a hundred times the range of the data.
        num_simulated: Simulated paths in all.
        lags: Distances at which correlations were measured, in observations.
        gap: Time between observations; None if they are irregular.
        observed_correlation: Autocorrelation of each component of the data at `lags`.
        correlation: The same for every replicate.
        table_error: Largest error of the fields in the simulation, as a share of their size; 0 if no table was used.
    """

    observed: Observations
    values: Float64[Array, "replicates points dim"]
    num_diverged: int
    num_simulated: int
    lags: Int[Array, " lags"]
    gap: float | None
    observed_correlation: Float64[Array, "lags dim"]
    correlation: Float64[Array, "replicates lags dim"]
    table_error: float

    def histogram(
        self, component: int, edges: Float64[Array, " edges"]
    ) -> tuple[Float64[Array, " bins"], Float64[Array, "replicates bins"]]:
        """Density of one component in bins, for the data and for every replicate; shares outside the bins are lost."""
        width = np.diff(edges)
        rows = [self.observed.values[:, component], *self.values[..., component]]
        rows = [row[np.isfinite(row)] for row in rows]
        densities = np.stack([np.histogram(row, edges)[0] / max(len(row), 1) / width for row in rows])
        return densities[0], densities[1:]

    def outside(self, low: Float64[Array, "*_ dim"], high: Float64[Array, "*_ dim"]) -> float:
        """Share of simulated states outside a box."""
        known = self.values[np.isfinite(self.values).all(axis=-1)]
        return float(np.mean(np.any((known < low) | (known > high), axis=1))) if len(known) else 0.0


def replay(result: Supported, *, replicates: int = REPLICATES, seed: int = 0) -> Replay:
    """Simulate an equation on the grid of its data.

    Long paths are replayed in part and of very many paths some, so that it takes seconds. Measurement noise that the
    data have is added to simulated states, too.

    Args:
        result: An equation with observations.
        replicates: How often; fewer if there are very many observations.
        seed: Seed of the noise.
    """
    if result.observations is None:
        raise ConfigError(
            "a replay needs observations, and this equation has none. Pass them: fimsde.result(sde, obs)."
        )
    if replicates < 2:
        raise ConfigError(f"replicates is {replicates}; expected at least 2, so that their spread can be seen.")
    observed, replicates = _bounded(result.observations, replicates)
    sde, table_error = table_around(result, observed)
    noise_std = np.zeros(result.dim) + getattr(result, "noise_std", 0.0)
    substeps = 1 if sde is result else _SUBSTEPS
    return replay_on(sde, observed, noise_std, replicates, seed, substeps=substeps, table_error=table_error)


def replay_on(
    sde: SDE | Sequence[SDE],
    observations: Observations,
    noise_std: Float64[Array, " dim"],
    replicates: int = REPLICATES,
    seed: int = 0,
    *,
    substeps: int = _SUBSTEPS,
    table_error: float = 0.0,
) -> Replay:
    """Simulate an equation on the grid of data, and add the measurement noise that these have.

    Args:
        sde: The equation, quick to evaluate; or several, draws from a posterior, which take turns.
        observations: The data.
        noise_std: Standard deviation of the measurement noise, per component.
        replicates, seed: As for `replay`.
        substeps: Per gap.
        table_error: Of the equation, if it is a table.
    """
    observed, replicates = _bounded(observations, replicates)
    draws = [sde] if isinstance(sde, SDE) else list(sde)
    played = [
        _simulated(draw, observed, len(range(k, replicates, len(draws))), seed + k, substeps)
        for k, draw in enumerate(draws[:replicates])
    ]
    values = np.concatenate([part for part, _ in played])
    noise = np.random.default_rng([seed, 2]).standard_normal(values.shape)
    noise[:, observed.path_starts[:-1]] = 0.0  # starts are observed ones, noise included
    values = values + noise_std * noise
    lags = np.arange(_num_lags(observed))
    return Replay(
        observed=observed,
        values=values,
        num_diverged=sum(lost for _, lost in played),
        num_simulated=replicates * observed.num_paths,
        lags=lags,
        gap=_gap(observed),
        observed_correlation=autocorrelation(observed.values, observed.path_starts, len(lags)),
        correlation=np.stack([autocorrelation(v, observed.path_starts, len(lags)) for v in values]),
        table_error=table_error,
    )


def _simulated(
    sde: SDE, observed: Observations, replicates: int, seed: int, substeps: int
) -> tuple[Float64[Array, "replicates points dim"], int]:
    """Paths on the grid of the data, and how many of them diverged."""
    starts = np.tile(observed.values[observed.path_starts[:-1]], (replicates, 1))
    grids = [observed.path(k)[0] for k in range(observed.num_paths)] * replicates
    reach = float(np.max(np.abs(observed.box(_FAR))))
    finer = substeps if substeps == 1 else _num_substeps(sde, observed, substeps)
    ahead = _Midpoint(sde, _typical_gap(observed) / finer)
    paths = simulate(ahead, starts, grids, substeps=finer, seed=seed, limit=reach)
    known = paths.values[_in_grid(observed, replicates, paths.values.shape[1])]
    return known.reshape(replicates, observed.num_points, sde.dim), paths.num_diverged


@dataclass(frozen=True, eq=False)
class _Midpoint:
    """An equation whose Euler step is a midpoint step in the drift, f(x + f(x) dt / 2): turns keep their radius."""

    sde: SDE
    dt: float

    @property
    def dim(self) -> int:
        return self.sde.dim

    @property
    def is_diagonal(self) -> bool:
        return is_diagonal(self.sde)

    # no shapes here: these are asked at every step, and checks of shapes in tests would take longer than the steps
    def drift(self, x: Array) -> Array:
        return self.fields(x)[0]

    def diffusion(self, x: Array) -> Array:
        return self.fields(x)[1]

    def fields(self, x: Array) -> tuple[Array, Array]:
        drift, diffusion = fields(self.sde, x)
        return fields(self.sde, x + 0.5 * self.dt * drift)[0], diffusion

    def correlation(self, x: Array) -> Array:
        return correlation(self.sde, x)

    def march(self, x: Array, length: Array, noise: Array) -> tuple[Array, Array] | None:
        table = self.sde
        if isinstance(self.sde, CorrelatedSDE):
            table, noise = self.sde.inner, noise @ noise_factor(self.sde.rho).T
        return table.march(x, length, noise, 0.5 * self.dt) if isinstance(table, TabulatedSDE) else None


def _num_substeps(sde: SDE, observed: Observations, least: int) -> int:
    """So many that the drift turns by little in a step, at nine of ten places; the least number for most data."""
    x = observed.values[:: -(-observed.num_points // _PROBES)]
    steps = 1e-3 * observed.values.std(axis=0)
    here, total = fields(sde, x)[0], np.zeros(len(x))
    moving = np.flatnonzero(steps > 0)
    for j in moving:
        ahead = x.copy()
        ahead[:, j] += steps[j]
        change = np.asarray(fields(sde, ahead)[0]) - here  # a column of the Jacobian, times the step
        total = np.maximum(total, np.abs(change[:, moving] / steps[moving]).sum(axis=1))
    wanted = np.quantile(total, 0.9) * _typical_gap(observed) / _TURN
    return int(np.clip(np.ceil(wanted), least, _MOST_SUBSTEPS)) if np.isfinite(wanted) else least


def _typical_gap(observed: Observations) -> float:
    return float(np.median(_gaps(observed)))


def _bounded(observations: Observations, replicates: int) -> tuple[Observations, int]:
    """As much of the data, and as many replicates, as take seconds."""
    cost = 2 ** min(observations.dim - 1, _MOST_HALVINGS)
    most = _MOST_POINTS // cost
    observed = beginning(observations, _LONGEST // cost, most // 2)
    return observed, max(2, min(replicates, most // observed.num_points))


def autocorrelation(
    values: Float64[Array, "points dim"], path_starts: Int[Array, " paths_plus_1"], num_lags: int
) -> Float64[Array, "lags dim"]:
    """c_k / c_0 with c_k = mean((x_i - m) (x_i+k - m)), for every component and k = 0 to num_lags - 1.

    m is the mean of all rows. Products are averaged over all pairs of a path that are k rows apart; NaN if nothing is
    known.
    """
    mean = np.nanmean(values, axis=0) if np.isfinite(values).any() else np.zeros(values.shape[1])
    total, pairs = np.zeros((num_lags, values.shape[1])), np.zeros((num_lags, values.shape[1]))
    for start, stop in pairwise(path_starts):
        centred = values[start:stop] - mean
        here = min(num_lags, len(centred))
        known = np.isfinite(centred)
        total[:here] += _products(np.where(known, centred, 0.0))[:here]
        pairs[:here] += np.round(_products(known.astype(np.float64)))[:here]
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = total / pairs
        return covariance / covariance[0]


def _products(rows: Float64[Array, "times dim"]) -> Float64[Array, "times dim"]:
    """Sums over i of rows[i] rows[i + k] for every k, by the fast Fourier transform."""
    size = 1 << (2 * len(rows) - 1).bit_length()
    transformed = np.fft.rfft(rows, size, axis=0)
    return np.fft.irfft(np.abs(transformed) ** 2, size, axis=0)[: len(rows)]


def beginning(observations: Observations, longest: int, most_points: int) -> Observations:
    """The beginning of long paths, and evenly chosen ones of very many."""
    lengths = np.minimum(np.diff(observations.path_starts), longest)
    paths = np.arange(len(lengths))
    if lengths.sum() > most_points:
        paths = paths[:: -(-int(lengths.sum()) // most_points)]
    starts = observations.path_starts[paths]
    rows = np.concatenate([np.arange(a, a + n) for a, n in zip(starts, lengths[paths], strict=True)])
    return replace(
        observations,
        values=observations.values[rows],
        times=observations.times[rows],
        path_starts=np.concatenate([[0], np.cumsum(lengths[paths])]),
    )


def _in_grid(observed: Observations, replicates: int, longest: int) -> Bool[Array, "paths times"]:
    lengths = np.tile(np.diff(observed.path_starts), replicates)
    return np.arange(longest) < lengths[:, None]


def _num_lags(observed: Observations) -> int:
    longest = int(np.diff(observed.path_starts).max())
    return max(2, min(_MOST_LAGS, longest // 2, longest - 1))


def _gap(observed: Observations) -> float | None:
    gaps, typical = _gaps(observed), _typical_gap(observed)
    return typical if np.all(np.abs(gaps - typical) <= _REGULAR * typical) else None


def _gaps(observed: Observations) -> Float64[Array, " steps"]:
    within = np.ones(observed.num_points - 1, bool)
    within[observed.path_starts[1:-1] - 1] = False  # from the end of a path to the start of the next
    return np.diff(observed.times)[within]
