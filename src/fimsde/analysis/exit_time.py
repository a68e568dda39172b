"""Mean times until paths leave a box or reach a level: by the backward equation on a grid, and by simulation."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import no_type_check

import numpy as np

from fimsde.analysis.box import finite_fields
from fimsde.analysis.cells import BoxCells, make_cells
from fimsde.analysis.draws import LEVEL, Interval, interval_of
from fimsde.analysis.generator import factorise, make_generator
from fimsde.data.grid import nodes_per_axis, regular_grid
from fimsde.data.support import to_locations
from fimsde.equations.sde import SDE, correlated_noise, fields
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Bool, Float64
from fimsde.simulate import euler_step

# of the box: standard deviation of one step, and its largest drift; by hand: fields change little over a fiftieth
_STEP_SHARE = 0.02
# nodes that are looked at to choose a step: in all, per axis, on a line; by hand: bounds seconds, 15³ in space
_PROBES, _MOST_PROBES, _ALONE = 3500, 41, 201
_SMALLEST_RATE = 1e-12  # of the fastest rate out of a cell; by hand: some thousand roundings of a float64


@dataclass(frozen=True, eq=False)
class ExitTime:
    """Mean time until a path leaves a box, as a function of where it starts.

    Attributes:
        axes: Centres of the cells along each axis.
        mean: Mean time at each cell, in the unit of time of the data.
        low, high: Corners of the box; infinite where there is no way out.
        cells: The grid: the box, with a reflecting wall in place of every infinite side.
        drawn: The same in draws of the posterior; None without one.
    """

    axes: tuple[Float64[Array, " cells"], ...]
    mean: Float64[Array, " cells"] | Float64[Array, "cells cells"]
    low: Float64[Array, " dim"]
    high: Float64[Array, " dim"]
    cells: BoxCells
    drawn: "Callable[[], Sequence[ExitTime | None]] | None" = field(default=None, repr=False)

    def interval(self, x: float | Array, level: float = LEVEL) -> Interval:
        """Where the mean time from any start is, by draws of the posterior; a second of work in one dimension.

        Args:
            x: Starts, as in `at`.
            level: Probability that it is inside. Draws from which paths never leave do not count: see `known`.
        """
        if self.drawn is None:
            raise ConfigError("this equation has no posterior, so that its exit times have no intervals.")
        none = np.full(len(to_locations(np.atleast_1d(x), len(self.low))), np.nan)
        return interval_of(np.stack([none if found is None else found.at(x) for found in self.drawn()]), level)

    def at(self, x: float | Array) -> Float64[Array, " queries"]:
        """Mean time from any start, linear between cells; 0 outside the box, that of a wall beyond it."""
        locations = to_locations(np.atleast_1d(x), len(self.low))
        padded, points = self.mean, []
        for j, axis in enumerate(self.axes):
            ends = [(0, 0)] * padded.ndim
            ends[j] = (1, 1)
            padded = np.pad(padded, ends, mode="edge")
            first, last = ([slice(None)] * padded.ndim for _ in range(2))
            first[j], last[j] = slice(0, 1), slice(-1, None)
            if np.isfinite(self.low[j]):
                padded[tuple(first)] = 0.0
            if np.isfinite(self.high[j]):
                padded[tuple(last)] = 0.0
            points.append(np.concatenate([[self.cells.low[j]], axis, [self.cells.high[j]]]))
        inside = np.all((locations > self.low) & (locations < self.high), axis=1)
        clipped = np.clip(locations, self.cells.low, self.cells.high)
        from scipy.interpolate import RegularGridInterpolator  # takes a while to import

        return np.where(inside, RegularGridInterpolator(points, padded)(clipped), 0.0)


@dataclass(frozen=True, eq=False)
class SimulatedExit:
    """Times at which simulated paths left a box.

    Attributes:
        mean: Time simulated in all paths divided by the number of exits: the mean exit time if all paths left, and its
            maximum likelihood estimate for a constant rate of exit if some did not.
        standard_error: Of the mean.
        times: Exit time of each path; NaN if it was still inside at `max_time`, or diverged.
        num_inside: Paths still inside at `max_time`.
        num_diverged: Paths that left the finite range with no wall to cross there.
        dt: Step of the simulation.
        max_time: When the simulation ended.
    """

    mean: float
    standard_error: float
    times: Float64[Array, " paths"]
    num_inside: int
    num_diverged: int
    dt: float
    max_time: float


def exit_time(
    sde: SDE,
    low: Float64[Array, " dim"],
    high: Float64[Array, " dim"],
    walls: tuple[Float64[Array, " dim"], Float64[Array, " dim"]],
    num_cells: int | None = None,
) -> ExitTime:
    """Solve the backward equation: L u = -1 with u = 0 on the walls that let paths out.

    u is the mean time from a start, and L u = sum_i f_i d_i u + 1/2 sum_ij g_ij d_i d_j u. Closed walls reflect paths.

    Args:
        sde: Any equation in one or two dimensions.
        low, high: Corners of the box; infinite for sides without a way out.
        walls: Corners of reflecting walls, used where the box is infinite.
        num_cells: BoxCells per axis.
    """
    open_low, open_high = np.isfinite(low), np.isfinite(high)
    if not np.any(open_low | open_high):
        raise ConfigError("the box has no finite side, so nothing can leave it. Give at least one.")
    inner_low, inner_high = np.where(open_low, low, walls[0]), np.where(open_high, high, walls[1])
    if not np.all(inner_low < inner_high):
        raise ConfigError(
            f"the box reaches from {low} to {high}, its walls from {walls[0]} to {walls[1]}: nothing is left between. "
            "Give both sides, or pass walls=(low, high)."
        )
    cells = make_cells(inner_low, inner_high, num_cells)
    generator = make_generator(sde, cells, open_low, open_high)
    if generator.exits.max() <= _SMALLEST_RATE * np.abs(generator.rates.diagonal()).max():
        raise ConfigError("no path can cross the open walls: there is neither noise nor drift towards them.")
    mean = factorise(-generator.rates).solve(np.ones(len(generator.exits)))  # an M-matrix: positive, no cancellation
    if not (np.isfinite(mean).all() and (mean >= 0).all()):  # rates of leaving are lost in rounding of those of staying
        raise ConfigError(
            "the mean exit time is longer than numbers of this precision can tell: from some starts paths practically "
            "never leave. Choose a smaller box, or simulate (simulate_exit)."
        )
    return ExitTime(cells.axes, mean.reshape((cells.num,) * cells.dim), low, high, cells)


def simulate_exit(
    sde: SDE,
    x0: Float64[Array, " dim"],
    low: Float64[Array, " dim"],
    high: Float64[Array, " dim"],
    *,
    max_time: float,
    dt: float,
    num_paths: int = 1000,
    seed: int = 0,
) -> SimulatedExit:
    """Simulate paths until they leave a box. Crossings between two steps count, with the chance of a Brownian bridge.

    Args:
        sde: Any equation.
        x0: Start of all paths, inside the box.
        low, high: Corners of the box; infinite for sides without a way out.
        max_time: When to stop waiting.
        dt: Step.
        num_paths: Number of paths.
        seed: Seed of the noise.
    """
    if not np.all((x0 > low) & (x0 < high)):
        raise ConfigError(f"the start {x0} is not inside the box from {low} to {high}.")
    if not (dt > 0 and max_time > dt):
        raise ConfigError(f"dt is {dt} and max_time {max_time}; expected 0 < dt < max_time.")
    rng = np.random.default_rng(seed)
    times = np.full(num_paths, np.nan)
    x, running = np.tile(x0, (num_paths, 1)), np.arange(num_paths)
    num_steps = int(np.ceil(max_time / dt))
    for step in range(num_steps):
        drift, diffusion = fields(sde, x)
        with np.errstate(over="ignore", invalid="ignore"):  # a path on its way to infinity
            noise = correlated_noise(sde, x, rng.standard_normal(x.shape))
            ahead = euler_step(x, drift, diffusion, dt, noise)
        left = _leaves(x, ahead, diffusion**2 * dt, low, high, rng.random(len(x)))
        blown = ~left & ~np.isfinite(ahead).all(axis=1)
        times[running[left]] = (step + 0.5) * dt  # somewhere in this step
        stays = ~(left | blown)
        x, running = ahead[stays], running[stays]
        if not len(running):
            break
    return _summary(times, len(running), dt, num_steps * dt)


def suggested_step(sde: SDE, low: Float64[Array, " dim"], high: Float64[Array, " dim"]) -> float:
    """min((s / sqrt(g))², s / abs(f)) over states and components: paths move by at most about s in such a step.

    s is a fiftieth of the box. The first term bounds the noise of a step, the second its drift.
    """
    drift, diffusion = finite_fields(
        sde, regular_grid(low, high, nodes_per_axis(sde.dim, _PROBES, _MOST_PROBES, _ALONE))
    )
    move = _STEP_SHARE * (high - low)
    by_noise = (move / np.maximum(diffusion.max(axis=0), 1e-300)) ** 2
    by_drift = move / np.maximum(np.abs(drift).max(axis=0), 1e-300)
    return float(np.minimum(by_noise, by_drift).min())


@no_type_check  # once per step of a simulation
def _leaves(
    x: Float64[Array, "paths dim"],
    ahead: Float64[Array, "paths dim"],
    variance: Float64[Array, "paths dim"],
    low: Float64[Array, " dim"],
    high: Float64[Array, " dim"],
    chance: Float64[Array, " paths"],
) -> Bool[Array, " paths"]:
    """Whether each step crosses a wall: its end is beyond it, or the path between its ends was.

    Over a step from distance a to distance b of a wall, both inside, a Brownian bridge of this variance touches the
    wall with probability exp(-2 a b / variance).
    """
    beyond = ((ahead <= low) | (ahead >= high)).any(axis=1)
    stays = np.ones(len(x))
    for wall in (low, high):
        near = np.isfinite(wall)
        distances = (x - wall)[:, near] * (ahead - wall)[:, near]
        with np.errstate(over="ignore"):  # next to no noise: the exponent is minus infinity, the chance zero
            touch = np.exp(-2 * np.maximum(distances, 0) / np.maximum(variance[:, near], np.finfo(float).tiny))
        stays *= np.prod(1 - touch, axis=1)
    return beyond | (chance > stays)


def _summary(
    times: Float64[Array, " paths"],
    num_inside: int,
    dt: float,
    max_time: float,
) -> SimulatedExit:
    left = times[np.isfinite(times)]
    num_diverged = len(times) - len(left) - num_inside
    if not len(left):
        mean, error = np.inf, np.nan
    elif not num_inside:
        mean, error = float(left.mean()), float(left.std() / np.sqrt(len(left)))
    else:
        mean = float(left.sum() + num_inside * max_time) / len(left)
        error = mean / np.sqrt(len(left))
    return SimulatedExit(mean, error, times, num_inside, num_diverged, dt, max_time)
