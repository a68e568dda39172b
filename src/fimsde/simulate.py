"""Euler-Maruyama: the only stepper in the package.

`euler_step` is the one line that moves a state. It is written so that NumPy, torch (with gradients) and numba all run
it: `simulate` calls it for any SDE, finetuning for gradients, and the prior compiles it. Correlated noise is made of
independent numbers before the step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, no_type_check

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE, check_correlation, correlated_noise, correlation, fields, is_diagonal
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.shapes import Array, Bool, Float, Float64, Int

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# most steps, and most numbers, for which noise is drawn at once: bounds memory, never changes a result; by hand
_BLOCK = 256
_BLOCK_NUMBERS = 2**20  # 8 MB of float64; by hand


@no_type_check  # numba compiles the plain function, so the run-time checks of the tests must not wrap it
def euler_step(x: Any, drift: Any, diffusion: Any, dt: Any, noise: Any) -> Any:
    """x + f dt + sqrt(g dt) noise: the state after one step from x, for arrays, tensors or scalars; noise is normal."""
    return x + drift * dt + diffusion * dt**0.5 * noise


@dataclass(frozen=True, eq=False)
class Paths:
    """Simulated paths.

    Attributes:
        times: Grid of each path; shorter grids are padded with their last time.
        values: States; NaN in the padding and from the moment a path diverged.
        mask: True where the value is a state.
        diverged_at: First grid time at which a path was no longer valid; NaN for good paths.
        names: Of the components, for tables; none if they are not known.
    """

    times: Float64[Array, "paths times"]
    values: Float64[Array, "paths times dim"]
    mask: Bool[Array, "paths times"]
    diverged_at: Float64[Array, " paths"]
    names: tuple[str, ...] = ()

    @property
    def num_diverged(self) -> int:
        """How many paths left the finite (or allowed) range."""
        return int(np.sum(~np.isnan(self.diverged_at)))

    def observations(self) -> Observations:
        """The valid states as observations; paths that were invalid from the start are left out."""
        some = self.mask.any(axis=1)
        named = list(self.names) or None
        return read(list(self.values[some]), times=list(self.times[some]), mask=list(self.mask[some]), names=named)

    def to_pandas(self, names: Sequence[str] | None = None) -> "pd.DataFrame":
        """A long table of the valid states: columns path, time and one per component."""
        import pandas as pd  # takes a while to import

        path, _ = np.nonzero(self.mask)
        states = self.values[self.mask]  # (rows, dim)
        columns = zip(names or self.names or _names(states.shape[1]), states.T, strict=True)
        return pd.DataFrame({"path": path, "time": self.times[self.mask], **dict(columns)})

    def to_xarray(self, names: Sequence[str] | None = None) -> "xr.Dataset":
        """A data set with one variable per component over (path, step) and the times as a coordinate. Needs xarray."""
        import xarray as xr

        called = names or self.names or _names(self.values.shape[2])
        parts = {name: (("path", "step"), self.values[..., j]) for j, name in enumerate(called)}
        return xr.Dataset(parts, {"time": (("path", "step"), self.times), "path": np.arange(len(self.values))})


def _names(dim: int) -> list[str]:
    return [f"x{j + 1}" for j in range(dim)]


def simulate(
    sde: SDE,
    x0: Float[Array, "paths dim"],
    times: Float[Array, " times"] | Float[Array, "_ times"] | Sequence[Float[Array, " _"]] | Sequence[float],
    *,
    substeps: int = 1,
    dt: float | None = None,
    seed: int = 0,
    limit: float = np.inf,
) -> Paths:
    """x_s+1 = x_s + f(x_s) dt + S(x_s) sqrt(dt) z_s: one path from each row of `x0` by Euler-Maruyama.

    f is the drift, S S' = g the variance rate, and z are independent standard normal numbers.

    Path j depends on (seed, j), its start and its grid alone, never on how many other paths run (to the last bit if the
    fields are evaluated row by row; a neural network may round differently in another batch).

    Args:
        sde: Any equation.
        x0: States at the first time of each grid.
        times: One grid for all paths, or one per path (rows, or a list of unequal arrays).
        substeps: Equal steps per gap of the grid.
        dt: In place of `substeps`: the longest step allowed; each gap is cut into equal steps not longer than this.
        seed: Seed of the noise, 0 to 2**64 - 1.
        limit: A path with a non-finite state, or with a component of at least this size, has diverged. Looked at on
            the grid only, so that the meaning does not depend on the sub-steps (non-finite states never recover).
    """
    x0 = np.array(x0, dtype=np.float64)
    if x0.ndim != 2 or x0.shape[1] != sde.dim:
        raise InvalidObservationsError(f"x0 has shape {x0.shape}; expected (paths, {sde.dim}).")
    _check_options(substeps, dt, seed, limit)
    schedule = _schedule(times, len(x0), substeps, dt)
    values = np.full((len(x0), schedule.grid.shape[1], sde.dim), np.nan)
    started = np.all(np.isfinite(x0) & (np.abs(x0) < limit), axis=1)
    values[started, 0] = x0[started]
    if not is_diagonal(sde):
        check_correlation(correlation(sde, x0[started]))
    with np.errstate(all="ignore"):  # a path on its way to infinity overflows; it is caught and counted below
        _march(sde, values, schedule, started, seed, limit)
    mask = np.all(np.isfinite(values), axis=-1)
    grid = schedule.grid[schedule.own]  # (paths, times)
    lost = ~mask & (np.arange(grid.shape[1]) < schedule.lengths[schedule.own, None])
    first_lost = grid[np.arange(len(grid)), lost.argmax(axis=1)]
    return Paths(grid, values, mask, np.where(lost.any(axis=1), first_lost, np.nan))


def _check_options(substeps: Any, dt: Any, seed: Any, limit: Any) -> None:
    if not (isinstance(substeps, int | np.integer) and substeps >= 1):
        raise ConfigError(f"substeps is {substeps!r}; expected a whole number of steps per gap, at least 1.")
    if dt is not None and not dt > 0:
        raise ConfigError(f"dt is {dt}; expected a positive number, the longest step.")
    if dt is not None and substeps != 1:
        raise ConfigError(f"dt is {dt} and substeps is {substeps}; expected one of the two. Leave the other out.")
    if not (isinstance(seed, int | np.integer) and 0 <= seed < 2**64):
        raise ConfigError(f"seed is {seed!r}; expected a whole number from 0 to 2**64 - 1.")
    if not limit > 0:
        raise ConfigError(f"limit is {limit}; expected a positive size at which a path counts as diverged.")


@dataclass(frozen=True, eq=False)
class _Schedule:
    """The steps of every path: distinct grids, padded to one length, and which of them each path follows."""

    grid: Float64[Array, "grids times"]
    lengths: Int[Array, " grids"]
    own: Int[Array, " paths"]
    arrivals: Int[Array, "grids gaps"]  # number of steps after which each gap has been crossed
    step: Float64[Array, "grids gaps"]  # length of the steps in each gap

    def num_steps(self) -> Int[Array, " grids"]:
        return self.arrivals.max(axis=1, initial=0)

    def gaps(self, steps: Int[Array, " steps"]) -> Int[Array, "grids steps"]:
        """The gap in which each of these steps lies; any gap once the grid is done."""
        gaps = np.stack([np.searchsorted(row, steps, side="right") for row in self.arrivals])
        return np.minimum(gaps, self.arrivals.shape[1] - 1)


def _schedule(times: Any, num_paths: int, substeps: int, dt: float | None) -> _Schedule:
    grid, lengths = _padded_grids(times)
    if len(grid) not in (1, num_paths):
        raise InvalidObservationsError(
            f"{len(grid)} time grids for {num_paths} starts. Pass one grid, or one per path."
        )
    own = np.arange(num_paths) if len(grid) > 1 else np.zeros(num_paths, np.int64)
    gaps = np.diff(grid, axis=1)
    counts = np.where(np.arange(1, grid.shape[1]) < lengths[:, None], _steps_per_gap(gaps, substeps, dt), 0)
    return _Schedule(grid, lengths, own, np.cumsum(counts, axis=1), gaps / np.maximum(counts, 1))


def _padded_grids(times: Any) -> tuple[Float64[Array, "grids times"], Int[Array, " grids"]]:
    one_per_path = len(times) > 0 and np.ndim(times[0]) > 0
    rows = [np.asarray(row, dtype=np.float64) for row in (times if one_per_path else [times])]
    for k, row in enumerate(rows):
        if row.ndim != 1 or not len(row):
            raise InvalidObservationsError(f"time grid {k} has shape {row.shape}; expected (times,), not empty.")
        wrong = np.flatnonzero(~np.isfinite(row))
        if len(wrong):
            raise InvalidObservationsError(
                f"time grid {k} has {row[wrong[0]]} at index {wrong[0]}; expected finite times."
            )
        back = np.flatnonzero(np.diff(row) <= 0)
        if len(back):
            i = back[0]
            raise InvalidObservationsError(
                f"times must increase, but time grid {k} has {row[i]} at index {i} followed by {row[i + 1]}. Sort it."
            )
    lengths = np.array([len(row) for row in rows])
    return np.stack([np.pad(row, (0, lengths.max() - len(row)), mode="edge") for row in rows]), lengths


def _steps_per_gap(gaps: Float64[Array, "grids gaps"], substeps: int, dt: float | None) -> Int[Array, "grids gaps"]:
    if dt is None:
        return np.full(gaps.shape, substeps)
    return np.maximum(np.ceil(gaps / dt * (1 - 1e-9)), 1).astype(np.int64)  # a gap of n dt up to rounding is n steps


def _march(
    sde: SDE,
    values: Float64[Array, "paths times dim"],
    schedule: _Schedule,
    alive: Bool[Array, " paths"],
    seed: int,
    limit: float,
) -> None:
    """Fill `values` block by block. Paths take their s-th step together, each over its own gaps."""
    num_steps = schedule.num_steps()[schedule.own]  # (paths,)
    generators = [np.random.Generator(np.random.Philox(key=np.array([seed, k], np.uint64))) for k in range(len(values))]
    x = values[:, 0].copy()
    first = 0
    while len(rows := np.flatnonzero(alive & (num_steps > first))):
        own = schedule.own[rows, None]  # (rows, 1)
        num = min(_BLOCK, max(_BLOCK_NUMBERS // x[rows].size, 1), int(num_steps[rows].max()) - first)
        steps = np.arange(first, first + num)
        noise = np.empty((len(rows), num, x.shape[1]))
        for own_noise, k in zip(noise, rows, strict=True):
            generators[k].standard_normal(out=own_noise)
        gap = schedule.gaps(steps)[own[:, 0]]  # (rows, steps)
        moving = steps < num_steps[rows, None]
        states, good = _block(sde, x[rows], np.where(moving, schedule.step[own, gap], 0.0), noise)
        arrived = moving & (steps + 1 == schedule.arrivals[own, gap])
        good = np.logical_and.accumulate(good & (~arrived | np.all(np.abs(states) < limit, axis=-1)), axis=1)
        x[rows], alive[rows] = states[:, -1], good[:, -1]
        r, s = np.nonzero(arrived & good)
        values[rows[r], gap[r, s] + 1] = states[r, s]
        first += num


def _block(
    sde: SDE,
    x: Float64[Array, "paths dim"],
    length: Float64[Array, "paths steps"],
    noise: Float64[Array, "paths steps dim"],
) -> tuple[Float64[Array, "paths steps dim"], Bool[Array, "paths steps"]]:
    """States after each step, and whether the path had been finite until then.

    An equation may have compiled steps of its own (`march`: states, and how many steps each path has taken; None if it
    cannot); what they leave is done here.
    """
    march = getattr(sde, "march", None)
    marched = None if march is None else march(x, length, noise)
    if marched is None:
        return _steps(sde, x, length, noise)
    states, done = marched
    finite = np.ones(length.shape, bool)
    for b in range(done.min(initial=length.shape[1]), length.shape[1]):
        rows = np.flatnonzero(done <= b)
        here = states[rows, b - 1] if b else x[rows]
        states[rows, b : b + 1], good = _steps(sde, here, length[rows, b : b + 1], noise[rows, b : b + 1])
        finite[rows[~good[:, 0]], b:] = False
    return states, finite


def _steps(
    sde: SDE,
    x: Float64[Array, "paths dim"],
    length: Float64[Array, "paths steps"],
    noise: Float64[Array, "paths steps dim"],
) -> tuple[Float64[Array, "paths steps dim"], Bool[Array, "paths steps"]]:
    states = np.empty(noise.shape)
    finite = np.ones(length.shape, bool)
    diagonal = is_diagonal(sde)
    for b in range(length.shape[1]):
        drift, diffusion = fields(sde, x)
        if not (np.shape(drift) == np.shape(diffusion) == x.shape):
            raise InvalidObservationsError(
                f"drift has shape {np.shape(drift)} and diffusion {np.shape(diffusion)}; expected that of the "
                f"locations, {x.shape}: one row of components for each."
            )
        moved = noise[:, b] if diagonal else correlated_noise(sde, x, noise[:, b])
        ahead = euler_step(x, drift, diffusion, length[:, b, None], moved)
        if not np.isfinite(ahead.sum()):
            lost = ~np.isfinite(ahead).all(axis=1)
            finite[lost, b:] = False
            ahead[lost] = x[lost]  # stays where it was last finite, so that the fields are asked at sane places only
        states[:, b] = x = ahead
    return states, finite
