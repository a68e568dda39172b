"""What an equation says about the future: the law of the state at later times, by simulation from a known state."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from fimsde.analysis.draws import Draws
from fimsde.data.observations import Observations
from fimsde.data.support import to_starts
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.filter.kalman import innovations, tabulated
from fimsde.results.posterior import Method
from fimsde.shapes import Array, Float, Float64
from fimsde.simulate import simulate
from fimsde.tabulate import table_around

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_DRAWS = 20  # of the posterior, as many as replays have; by hand: a table is made of each, which bounds seconds
_OF_STARTS = 3  # a stream of random numbers of its own
_MOST_STEPS = 1_000_000  # gaps of the data ahead; by hand: beyond it simulations take minutes
_SUBSTEPS = 4  # per gap of the data; by hand: a quarter of the error of one Euler step, as in replays


@runtime_checkable
class _Known(Protocol):
    """What a forecast needs of a result."""

    @property
    def sde(self) -> SDE: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def observations(self) -> Observations | None: ...
    @property
    def noise_std(self) -> Float64[Array, " dim"]: ...
    @property
    def has_posterior(self) -> bool: ...
    def _draws(self, method: Method, num: int, seed: int) -> Draws: ...


class Forecasts:
    """The part of a `Result` that looks ahead."""

    def forecast(
        self: _Known,
        times: Float[Array, " times"] | Sequence[float] | int,
        *,
        quantiles: Sequence[float] | float = QUANTILES,
        x0: Float[Array, " dim"] | Sequence[float] | float | None = None,
        start: float | None = None,
        num_paths: int = 1000,
        certain: bool = False,
        seed: int = 0,
    ) -> "pd.DataFrame":
        """The state at later times, given the observations: mean and quantiles of simulated paths.

        Paths take turns among draws of the posterior, so that the quantiles know how uncertain the equation is. Under
        measurement noise they start from what a filter knows of the last state, and are states without noise.

        Args:
            times: Increasing times after `start`; or a number of steps, each as long as a typical gap of the data.
            quantiles: Probabilities between 0 and 1; or one of them.
            x0: State to start from; by default the end of the last observed path.
            start: Its time; by default that of the last observation, or 0 if a state is given.
            num_paths: Simulated paths.
            certain: Whether to take the estimated equation as known. Methods without a posterior always do.
            seed: Seed of draws and noise.

        Returns:
            A row for every time and component: time, component, mean, one column per quantile (q0.05, ...), and
            diverged, the share of paths that left the finite range before.
        """
        grid, begin = _grid(self, times, x0, start)
        sdes = _equations(self, 1 if certain else min(_DRAWS, num_paths), seed)
        starts = _starts(self, x0, num_paths, seed)
        states = _simulated(self, sdes, starts, np.array([begin, *grid]), seed)
        return _table(grid, states, self.names, [quantiles] if isinstance(quantiles, float | int) else quantiles)


def _grid(
    known: _Known,
    times: Float[Array, " times"] | Sequence[float] | int,
    x0: Float[Array, " dim"] | Sequence[float] | float | None,
    start: float | None,
) -> tuple[Float64[Array, " times"], float]:
    """The times of a forecast, and the time of the state that it starts from."""
    data = known.observations
    if data is None and (x0 is None or isinstance(times, int)):
        raise ConfigError("a forecast without observations needs a state (x0=) and times, not a number of steps.")
    if start is None and x0 is None:
        assert data is not None, "checked above"
        start = float(data.times[-1])
    begin = 0.0 if start is None else float(start)
    if isinstance(times, int | np.integer):
        if times < 1:
            raise ConfigError(f"the number of steps ahead is {times}; expected at least 1.")
        assert data is not None, "checked above"
        times = begin + _gap(data) * np.arange(1, times + 1)
    grid = _numbers(times)
    if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid).all() and np.all(np.diff([begin, *grid]) > 0)):
        raise ConfigError(f"times must be finite, increase and begin after {begin:g}, the time of the known state.")
    if data is not None and (steps := (grid[-1] - begin) / _gap(data)) > _MOST_STEPS:
        raise ConfigError(
            f"times reach {steps:.3g} gaps of the data ahead; at most {_MOST_STEPS:,} are simulated. Are they in the "
            "unit of time of the data? So far ahead the law is the stationary density (stationary_density)."
        )
    return grid, begin


def _numbers(times: Any) -> Float64[Array, "..."]:
    """Times as numbers; dates would count nanoseconds."""
    if np.asarray(times).dtype.kind not in "iuf":
        raise ConfigError(
            "times of a forecast are dates or text; expected numbers, in the unit of time of the data, or a number of "
            "steps ahead."
        )
    return np.asarray(times, np.float64)


def _equations(known: _Known, num: int, seed: int) -> list[SDE]:
    """Draws of the posterior; the equation itself where there is none, or one is enough."""
    draws = known._draws("posterior", num, seed) if num > 1 and known.has_posterior else None
    sdes = [known.sde] if draws is None else [draws[i] for i in range(num)]
    data = known.observations
    return sdes if data is None else [table_around(sde, data)[0] for sde in sdes]


def _starts(
    known: _Known, x0: Float[Array, " dim"] | Sequence[float] | float | None, num_paths: int, seed: int
) -> Float64[Array, "paths dim"]:
    """Where paths start: at a given state, or at the last one as far as it is known under measurement noise."""
    dim, data = len(known.names), known.observations
    if x0 is not None:
        return to_starts(np.atleast_1d(x0), dim, num_paths)
    assert data is not None, "there is a state or there are data"
    if not known.noise_std.any():
        return to_starts(data.values[-1], dim, num_paths)
    last = data.as_paths([np.arange(data.path_starts[-2], data.path_starts[-1])])
    found = innovations(tabulated(known.sde, last), last, known.noise_std)
    z = np.random.default_rng([seed, _OF_STARTS]).standard_normal((num_paths, dim))
    return found.mean[-1] + np.sqrt(found.variance[-1]) * z


def _simulated(
    known: _Known, sdes: Sequence[SDE], starts: Float64[Array, "paths dim"], grid: Float64[Array, " nodes"], seed: int
) -> Float64[Array, "paths times dim"]:
    """States at the times after the first, path k by equation k modulo their number."""
    data = known.observations
    step = (float(np.diff(grid).max()) if data is None else _gap(data)) / _SUBSTEPS
    states = np.empty((len(starts), len(grid) - 1, starts.shape[1]))
    for k, sde in enumerate(sdes):
        own = starts[k :: len(sdes)]
        states[k :: len(sdes)] = simulate(sde, own, grid, dt=step, seed=seed + k).values[:, 1:]
    return states


def _gap(data: Observations) -> float:
    return float(np.median(to_transitions(data).dtau))


def _table(
    grid: Float64[Array, " times"],
    states: Float64[Array, "paths times dim"],
    names: tuple[str, ...],
    quantiles: Sequence[float],
) -> "pd.DataFrame":
    import pandas as pd  # takes a while to import

    if not len(quantiles) or not all(0 <= q <= 1 for q in quantiles):
        raise ConfigError(f"quantiles are {list(quantiles)}; expected probabilities between 0 and 1.")
    lost = ~np.isfinite(states).all(axis=2)  # (paths, times)
    if lost.all(axis=0).any():
        raise ConfigError(
            f"every simulated path diverged before {grid[lost.all(axis=0)][0]:g}. Forecast less far ahead."
        )
    columns = {
        "time": np.repeat(grid, len(names)),
        "component": np.tile(np.array(names, object), len(grid)),
        "mean": np.nanmean(np.where(lost[..., None], np.nan, states), axis=0).ravel(),
    }
    found = np.nanquantile(np.where(lost[..., None], np.nan, states), list(quantiles), axis=0)
    columns |= {f"q{q:g}": found[k].ravel() for k, q in enumerate(quantiles)}
    return pd.DataFrame(columns | {"diverged": np.repeat(lost.mean(axis=0), len(names))})
