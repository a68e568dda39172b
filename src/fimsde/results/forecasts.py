"""What an equation says about the future: the law of the state at later times, by simulation from a known state."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from fimsde.data.observations import Observations
from fimsde.data.support import to_starts
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float, Float64
from fimsde.simulate import simulate
from fimsde.tabulate import table_around

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
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


class Forecasts:
    """The part of a `Result` that looks ahead."""

    def forecast(
        self: _Known,
        times: Float[Array, " times"] | Sequence[float] | int,
        *,
        quantiles: Sequence[float] = QUANTILES,
        x0: Float[Array, " dim"] | Sequence[float] | None = None,
        start: float | None = None,
        num_paths: int = 1000,
        seed: int = 0,
    ) -> "pd.DataFrame":
        """The state at later times, given the last observed one: mean and quantiles of simulated paths.

        The equation is taken as known; how uncertain it is itself is not part of the quantiles (see `band`).

        Args:
            times: Increasing times after `start`; or a number of steps, each as long as a typical gap of the data.
            quantiles: Probabilities between 0 and 1.
            x0: State to start from; by default the last one of the last observed path.
            start: Its time; by default that of the last observation, or 0 if a state is given.
            num_paths: Simulated paths.
            seed: Seed of the noise.

        Returns:
            A row for every time and component: time, component, mean, one column per quantile (q0.05, ...), and
            diverged, the share of paths that left the finite range before.
        """
        grid, states = forecast_paths(self, times, x0=x0, start=start, num_paths=num_paths, seed=seed)
        return _table(grid, states, self.names, quantiles)


def forecast_paths(
    known: _Known,
    times: Float[Array, " times"] | Sequence[float] | int,
    *,
    x0: Float[Array, " dim"] | Sequence[float] | None,
    start: float | None,
    num_paths: int,
    seed: int,
) -> tuple[Float64[Array, " times"], Float64[Array, "paths times dim"]]:
    """Times and simulated states behind a forecast; arguments as there."""
    data = known.observations
    if data is None and (x0 is None or isinstance(times, int)):
        raise ConfigError("a forecast without observations needs a state (x0=) and times, not a number of steps.")
    if x0 is None:
        assert data is not None, "checked above"
        x0 = data.values[-1]
        start = float(data.times[-1]) if start is None else start
    begin = 0.0 if start is None else float(start)
    gap = None if data is None else float(np.median(to_transitions(data).dtau))
    if isinstance(times, int | np.integer):
        assert gap is not None, "checked above"
        times = begin + gap * np.arange(1, times + 1)
    grid = np.asarray(times, np.float64)
    if grid.ndim != 1 or not len(grid) or not (np.isfinite(grid).all() and np.all(np.diff([begin, *grid]) > 0)):
        raise ConfigError(f"times must be finite, increase and begin after {begin:g}, the time of the known state.")
    sde = known.sde if data is None else table_around(known.sde, data)[0]
    longest = float(np.diff([begin, *grid]).max()) if gap is None else gap
    starts = to_starts(x0, len(known.names), num_paths)
    paths = simulate(sde, starts, np.array([begin, *grid]), dt=longest / _SUBSTEPS, seed=seed)
    return grid, paths.values[:, 1:]


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
