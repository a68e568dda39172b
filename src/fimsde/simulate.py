"""Euler-Maruyama: the only stepper in the package.

`euler_step` is the one line that moves a state. It is written so that NumPy, torch (with gradients) and numba all run
it: `simulate` calls it for any SDE, finetuning for gradients, and the prior compiles it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fimsde.errors import InvalidObservationsError
from fimsde.observations import Observations, read
from fimsde.sde import SDE
from fimsde.shapes import Array, Bool, Float, Float64, Int

_BLOCK = 256  # steps for which noise is drawn at once; bounds memory, does not change results


def euler_step(x: Any, drift: Any, diffusion: Any, dt: Any, noise: Any) -> Any:
    """The state after one step of length `dt` from x, driven by standard normal `noise`: arrays, tensors or scalars."""
    return x + drift * dt + diffusion * dt**0.5 * noise


@dataclass(frozen=True)
class Paths:
    """Simulated paths.

    Attributes:
        times: Grid of each path; shorter grids are padded with their last time.
        values: States; NaN in the padding and from the moment a path diverged.
        mask: True where the value is a state.
        diverged_at: First grid time at which a path was no longer valid; NaN for good paths.
    """

    times: Float64[Array, "paths times"]
    values: Float64[Array, "paths times dim"]
    mask: Bool[Array, "paths times"]
    diverged_at: Float64[Array, " paths"]

    @property
    def num_diverged(self) -> int:
        """How many paths left the finite (or allowed) range."""
        return int(np.sum(~np.isnan(self.diverged_at)))

    def observations(self) -> Observations:
        """The valid states as observations."""
        return read(list(self.values), times=list(self.times), mask=list(self.mask))


def simulate(
    sde: SDE,
    x0: Float[Array, "paths dim"],
    times: Float[Array, " times"] | Float[Array, "paths times"] | Sequence[Float[Array, " _"]],
    *,
    substeps: int = 1,
    dt: float | None = None,
    seed: int = 0,
    limit: float = np.inf,
) -> Paths:
    """Simulate one path from each row of `x0` by Euler-Maruyama.

    Path j depends on (seed, j), its start and its grid alone, never on how many other paths run.

    Args:
        sde: Any equation.
        x0: States at the first time of each grid.
        times: One grid for all paths, or one per path (rows, or a list of unequal arrays).
        substeps: Equal steps per gap of the grid.
        dt: In place of `substeps`: the longest step allowed; each gap is cut into equal steps not longer than this.
        seed: Seed of the noise.
        limit: A path with a non-finite state, or with a component of at least this size, has diverged. Looked at on
            the grid only, so that the meaning does not depend on the sub-steps (non-finite states never recover).
    """
    x0 = np.array(x0, dtype=np.float64)
    if x0.ndim != 2 or x0.shape[1] != sde.dim:
        raise InvalidObservationsError(f"x0 has shape {x0.shape}; expected (paths, {sde.dim}).")
    grid, lengths = _padded_grids(times, len(x0))
    counts = _steps_per_gap(np.diff(grid, axis=1), substeps, dt)
    values = np.full((*grid.shape, sde.dim), np.nan)
    values[:, 0] = x0
    with np.errstate(all="ignore"):  # a path on its way to infinity overflows; it is caught and counted below
        _march(sde, values, grid, lengths, counts, seed, limit)
    mask = np.isfinite(values).all(axis=-1)
    return Paths(grid, values, mask, _divergence_times(grid, lengths, mask))


def _padded_grids(times: Any, num_paths: int) -> tuple[Float64[Array, "paths times"], Int[Array, " paths"]]:
    if not isinstance(times, np.ndarray) and len(times) and np.ndim(times[0]) == 1:
        rows = [np.asarray(t, dtype=np.float64) for t in times]
    else:
        array = np.asarray(times, dtype=np.float64)
        rows = list(array) if array.ndim == 2 else [array]
    if len(rows) == 1:
        rows = rows * num_paths
    if len(rows) != num_paths or any(r.ndim != 1 or not len(r) for r in rows):
        raise InvalidObservationsError(f"{len(rows)} time grids for {num_paths} starts. Pass one grid, or one per path, none of them empty.")
    lengths = np.array([len(r) for r in rows])
    grid = np.stack([np.concatenate([r, np.full(lengths.max() - len(r), r[-1])]) for r in rows])
    wrong = np.argwhere((np.diff(grid, axis=1) <= 0) & (np.arange(1, lengths.max()) < lengths[:, None]) | np.isnan(np.diff(grid, axis=1)))
    if len(wrong):
        k, i = wrong[0]
        raise InvalidObservationsError(
            f"times must increase, but the grid of path {k} has {grid[k, i]:g} at index {i} followed by {grid[k, i + 1]:g}."
        )
    return grid, lengths


def _steps_per_gap(gaps: Float64[Array, "paths gaps"], substeps: int, dt: float | None) -> Int[Array, "paths gaps"]:
    if dt is None:
        if substeps < 1:
            raise InvalidObservationsError(f"substeps is {substeps}; at least one step per gap is needed.")
        return np.full(gaps.shape, substeps)
    if not dt > 0:
        raise InvalidObservationsError(f"dt is {dt}; the longest step must be positive.")
    return np.maximum(np.ceil(gaps / dt * (1 - 1e-9)), 1).astype(np.int64)  # a gap of n dt up to rounding is n steps


def _march(
    sde: SDE,
    values: Float64[Array, "paths times dim"],
    grid: Float64[Array, "paths times"],
    lengths: Int[Array, " paths"],
    counts: Int[Array, "paths gaps"],
    seed: int,
    limit: float,
) -> None:
    """Fill `values` block by block. Paths take their s-th step together, each over its own gaps."""
    arrivals = np.cumsum(counts, axis=1)  # step after which each grid point is reached
    last = np.where(lengths > 1, arrivals[np.arange(len(grid)), np.maximum(lengths - 2, 0)] if counts.size else 0, 0)
    step_length = np.diff(grid, axis=1) / counts
    generators = [np.random.Generator(np.random.Philox(key=np.array([seed, k], np.uint64))) for k in range(len(values))]
    x = values[:, 0].copy()
    alive = _valid(x, limit)
    for first in range(0, int(last.max(initial=0)), _BLOCK):
        rows = np.flatnonzero(alive & (last > first))
        if not len(rows):
            return
        steps = np.arange(first, min(first + _BLOCK, int(last[rows].max())))
        noise = np.stack([generators[k].standard_normal((_BLOCK, values.shape[2])) for k in rows])
        gap = np.stack([np.searchsorted(arrivals[k], steps, side="right") for k in rows])  # (rows, steps)
        moving = steps < last[rows, None]
        gap = np.where(moving, gap, 0)
        length = np.where(moving, step_length[rows[:, None], gap], 0.0)
        states, finite_until = _block(sde, x[rows], length, noise)
        x[rows] = states[:, -1]
        arrived = moving & (steps + 1 == arrivals[rows[:, None], gap])
        good = (np.abs(states) < limit).all(axis=-1) & (np.arange(len(steps)) < finite_until[:, None])
        good = np.logical_and.accumulate(good | ~arrived, axis=1)
        alive[rows] = good[:, -1] & (finite_until >= len(steps))
        r, s = np.nonzero(arrived & good)
        values[rows[r], gap[r, s] + 1] = states[r, s]


def _block(
    sde: SDE, x: Float64[Array, "paths dim"], length: Float64[Array, "paths steps"], noise: Float64[Array, "paths _ dim"]
) -> tuple[Float64[Array, "paths steps dim"], Int[Array, " paths"]]:
    """States after each step, and for each path the number of steps after which it was still finite."""
    states = np.empty((*length.shape, x.shape[1]))
    finite_until = np.full(len(x), length.shape[1])
    for b in range(length.shape[1]):
        ahead = euler_step(x, sde.drift(x), sde.diffusion(x), length[:, b, None], noise[:, b])
        if not np.isfinite(ahead.sum()):
            lost = ~np.isfinite(ahead).all(axis=1)
            finite_until[lost] = np.minimum(finite_until[lost], b)
            ahead[lost] = x[lost]  # stays where it was last finite, so that the fields are asked at sane places only
        states[:, b] = x = ahead
    return states, finite_until


def _valid(x: Float64[Array, "paths dim"], limit: float) -> Bool[Array, " paths"]:
    return np.all(np.isfinite(x) & (np.abs(x) < limit), axis=1)


def _divergence_times(
    grid: Float64[Array, "paths times"], lengths: Int[Array, " paths"], mask: Bool[Array, "paths times"]
) -> Float64[Array, " paths"]:
    inside = np.arange(grid.shape[1]) < lengths[:, None]
    lost = inside & ~mask
    return np.where(lost.any(axis=1), grid[np.arange(len(grid)), lost.argmax(axis=1)], np.nan)
