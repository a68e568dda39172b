"""From a family, a draw and a seed to a system with its own clock, and its clean paths.

The natural time of a system is one over the largest rate of its components,

    rate_j = sqrt(E f_j²) / s_j + E g_j / s_j²,

with means and standard deviations s over a trial path: what drift and noise move in a unit of time, as a share of the
spread. It is 1 / (3 theta) for dx = -theta x dt + sigma dW, and the time of a radian (but a factor 2^(1/2)) on a cycle.
Observations are 0.1 (fine) or 0.5 (coarse) of it apart: 30 to 2500 natural times at 300 to 5000 observations.

A draw whose trial path leaves the finite range, hardly moves, or would need very small steps, is drawn again, from the
stream of the next attempt: the systems depend on family, draw and seed alone.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fimsde.equations.sde import SDE, Fields
from fimsde.errors import ConfigError, DatasetError
from fimsde.shapes import Array, Float, Float64
from fimsde.simulate import simulate
from fimsde.systems.canonical import simulation_seed, stream
from fimsde.systems.heun import heun_paths
from fimsde.systems.wide.families import find_family
from fimsde.systems.wide.family import Drawn, Family

DRAWS = 10  # of every family in a report; estimator comparisons are means over them
LENGTHS = (300, 1000, 5000)  # observations of a data set: what users have, what they wish, and the paper's number
FINE, RATIO = 0.1, 5  # gap in natural times, and how many of them make a coarse gap; by hand: see above
# by hand: 20 000 steps of 0.002, of which the second half is read; rates of all families are between 0.3 and 50
_TRIAL_DT, _TRIAL_STEPS = 0.002, 20_000
_LEAST_STEPS, _MOST_STEPS = 8, 40  # midpoint steps in a fine gap; by hand: a draw that needs more is too stiff
_LONGER = 3  # midpoint steps in a Heun step, whose error of a variance is below a hundredth all the same
_SLOPE = 0.1  # by which the drift may turn in one step, for 95 % of the states; by hand, likewise
_ATTEMPTS = 100  # by hand: all families are far from needing them
_FARTHEST = 1e3  # a path that gets there is on its way to infinity; all families live within a hundred


@dataclass(frozen=True, eq=False)
class WideSystem:
    """A random system with its clock and its starts.

    Attributes:
        family: Where it comes from.
        drawn: The equation.
        natural_time: See the head of this module.
        steps: Steps of the simulation in a fine gap.
        starts: Where its paths start: states of trial paths.
    """

    family: Family
    drawn: Drawn
    natural_time: float
    steps: int
    starts: Float64[Array, "paths dim"]


@lru_cache(maxsize=64)
def wide_system(family: str, draw: int, seed: int) -> WideSystem:
    """The system with number `draw` of a family; other seeds give other systems."""
    of = find_family(family)
    if draw < 0:
        raise ConfigError(f"draw is {draw}; expected a number from 0.")
    for attempt in range(_ATTEMPTS):
        drawn = of.draw(np.random.default_rng(stream(seed, "wide", family, draw, attempt)))
        with np.errstate(all="ignore"):  # draws that leave the finite range are refused
            found = _with_clock(of, drawn, simulation_seed(seed, "wide trial", family, draw, attempt))
        if found is not None:
            return found
    raise DatasetError(f"{_ATTEMPTS} draws of {family} left the finite range with seed {seed}. Take another seed.")


def _with_clock(family: Family, drawn: Drawn, seed: int) -> WideSystem | None:
    x0 = np.tile(np.array(drawn.start), (family.num_paths, 1))
    times = np.arange(_TRIAL_STEPS // 10 + 1) * 10 * _TRIAL_DT
    trial = simulate(_Midpoint(drawn, _TRIAL_DT), x0, times, substeps=10, seed=seed, limit=_FARTHEST)
    if trial.num_diverged:
        return None
    states = trial.values[:, len(times) // 2 :].reshape(-1, family.dim)
    spread = states.std(axis=0)
    drift, diffusion = drawn.drift(states), drawn.diffusion(states)
    rate = np.sqrt(np.mean(drift**2, axis=0)) / spread + np.mean(diffusion**2, axis=0) / spread**2
    natural_time = float(1.0 / rate.max())
    steps = max(_LEAST_STEPS, int(np.ceil(FINE * natural_time * _stiffness(drawn, states, spread) / _SLOPE)))
    if not np.isfinite(natural_time) or steps > _MOST_STEPS:
        return None
    return WideSystem(family, drawn, natural_time, steps, trial.values[:, -1].copy())


def _stiffness(drawn: Drawn, states: Float64[Array, "points dim"], spread: Float64[Array, " dim"]) -> float:
    """The largest row sum of |df_i / dx_j| that 95 % of the states do not exceed, by differences."""
    places, total = states[::10], np.zeros(states[::10].shape)
    for j, step in enumerate(1e-4 * spread):
        ahead = places.copy()
        ahead[:, j] += step
        total += np.abs(drawn.drift(ahead) - drawn.drift(places)) / step
    return float(np.quantile(total.max(axis=1), 0.95))


@dataclass(frozen=True, eq=False)
class _Midpoint:
    """An equation whose Euler step is a midpoint step in the drift: f(x + f(x) dt / 2)."""

    drawn: SDE
    dt: float

    @property
    def dim(self) -> int:
        return self.drawn.dim

    def drift(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        return self.drawn.drift(x + 0.5 * self.dt * self.drawn.drift(x))

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        return self.drawn.diffusion(x)

    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        return self.drift(x), self.diffusion(x)


@dataclass(frozen=True, eq=False)
class CleanPaths:
    """Paths of a system at fine gaps, long enough for the longest data set at coarse ones.

    Attributes:
        values: States.
        gap: Time between two of them.
    """

    values: Float64[Array, "paths times dim"]
    gap: float


def clean_paths(family: str, draw: int, seed: int) -> CleanPaths:
    """The paths from which all data sets of a system are taken; seconds of work."""
    system = wide_system(family, draw, seed)
    gap = FINE * system.natural_time
    num = (max(LENGTHS) // system.family.num_paths - 1) * RATIO + 1
    rng = np.random.default_rng(stream(seed, "wide paths", family, draw))
    values = heun_paths(system.drawn, system.starts, gap, num, -(-system.steps // _LONGER), rng)
    if not (np.abs(values) < _FARTHEST).all():  # or no number
        raise DatasetError(f"draw {draw} of {family} left the finite range with seed {seed}. Take another seed.")
    return CleanPaths(values, gap)
