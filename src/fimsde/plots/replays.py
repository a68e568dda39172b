"""Simulated against observed: paths side by side, densities and autocorrelations over each other."""

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from fimsde.analysis.replay import Replay
from fimsde.plots import style
from fimsde.plots.style import Picture
from fimsde.shapes import Array, Float64

_DRAWN = 12  # paths, if there are several; by hand: as many can be followed
_MOST_POINTS = 4000  # of a path; more cannot be told apart: 7.2 inches have 2160 dots at 300 per inch; by hand
_MOST_TIMES = 5  # steps between ticks: years have four digits, and more with a fraction; by hand
_BINS, _FEWEST_BINS, _PER_BIN = 50, 5, 4  # by hand: the look of a histogram; of a few states, some in a bin on average
_LEVEL = 0.9  # share of the replicates between the ends of a band; that of all bands
_FADED = 0.05  # a correlation that stays below is over; by hand: hardly above zero in the picture


@matplotlib.rc_context(style.LOOK)
def plot_paths(replay: Replay) -> Picture:
    """Observed paths on the left, a simulation from the same starts at the same times on the right."""
    observed = replay.observed
    figure = style.new_figure(0.7 + 1.55 * observed.dim)
    grid = figure.subplots(observed.dim, 2, sharex=True, sharey="row", squeeze=False)
    for j, (left, right) in enumerate(grid):
        _draw_paths(left, replay, observed.values[:, j], style.OBSERVED)
        _draw_paths(right, replay, replay.values[0, :, j], style.SIMULATED)
        left.set_ylabel(style.state_label(observed.names[j]))
        if ends := style.limits(observed.values[:, j], _within_reach(replay, j)):
            left.set_ylim(*ends)
    for axes in grid[-1]:
        axes.set_xlabel(style.time_label(observed.time_unit))
        axes.xaxis.set_major_locator(MaxNLocator(_MOST_TIMES, steps=[1, 2, 5, 10]))
    some = f", {_DRAWN} of {observed.num_paths}" if observed.num_paths > _DRAWN else ""
    grid[0, 0].set_title(f"observed{some}")
    grid[0, 1].set_title("simulated from the same start" + ("s" if observed.num_paths > 1 else ""))
    return figure


@matplotlib.rc_context(style.LOOK)
def plot_statistics(replay: Replay) -> Picture:
    """Density and autocorrelation of every component: data as a line, the replicates as a band."""
    observed = replay.observed
    figure = style.new_figure(0.8 + 1.75 * observed.dim)
    grid = figure.subplots(observed.dim, 2, squeeze=False)
    for j, (left, right) in enumerate(grid):
        _draw_densities(left, replay, j)
        _draw_correlation(right, replay, j)
        quantity, unit = style.split_unit(observed.names[j])
        left.set_xlabel(style.state_label(observed.names[j]))
        left.set_ylabel(style.broken(f"density (1 / {unit})"))
        right.set_ylabel(f"autocorrelation\nof {quantity}")
        right.set_xlabel("lag (observations)" if replay.gap is None else f"lag ({style.time_word(observed.time_unit)})")
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure


def _draw_paths(axes: Axes, replay: Replay, values: Float64[Array, " points"], colour: str) -> None:
    observed = replay.observed
    every = -(-observed.num_paths // _DRAWN)
    for k in range(0, observed.num_paths, every):
        rows = slice(observed.path_starts[k], observed.path_starts[k + 1])
        times, own = observed.times[rows], values[rows]
        thin = slice(None, None, -(-len(times) // _MOST_POINTS))
        few = observed.num_paths > 1
        axes.plot(times[thin], own[thin], color=colour, lw=0.8 if few else 0.6, alpha=0.75 if few else 1.0)
    axes.margins(x=0.01)


def _draw_densities(axes: Axes, replay: Replay, component: int) -> None:
    low, high = np.quantile(_within_reach(replay, component), [0.0005, 0.9995])
    seen = replay.observed.values[:, component]
    bins = int(np.clip(len(seen) // _PER_BIN, _FEWEST_BINS, _BINS))
    edges = np.linspace(min(low, seen.min()), max(high, seen.max()), bins + 1)
    observed, simulated = replay.histogram(component, edges)
    ends = np.quantile(simulated, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    centres = (edges[1:] + edges[:-1]) / 2
    axes.fill_between(centres, *ends, color=style.SIMULATED, alpha=0.3, lw=0, label=f"{_LEVEL:.0%} of the simulations")
    axes.plot(centres, np.median(simulated, axis=0), color=style.SIMULATED, lw=1.2, label="simulated, median")
    axes.stairs(observed, edges, color=style.OBSERVED, lw=1.1, label="observed")
    axes.set_ylim(bottom=0)
    axes.set_xlim(float(edges[0]), float(edges[-1]))


def _draw_correlation(axes: Axes, replay: Replay, component: int) -> None:
    shown = slice(0, _interesting(replay))
    lags = replay.lags[shown] * (1.0 if replay.gap is None else replay.gap)
    simulated = replay.correlation[:, shown, component]
    simulated = simulated[np.isfinite(simulated).all(axis=1)]
    if len(simulated):
        ends = np.quantile(simulated, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
        axes.fill_between(lags, *ends, color=style.SIMULATED, alpha=0.3, lw=0)
        axes.plot(lags, np.median(simulated, axis=0), color=style.SIMULATED, lw=1.2)
    axes.plot(lags, replay.observed_correlation[shown, component], color=style.OBSERVED, lw=1.3)
    axes.axhline(0, color="0.6", lw=0.7, zorder=0.5)
    axes.set_xlim(0, float(lags[-1]))


def _interesting(replay: Replay) -> int:
    """Number of lags worth showing: half as many again as until the slowest correlation of the data has faded."""
    alive = np.flatnonzero(np.nanmax(np.abs(replay.observed_correlation), axis=1) > _FADED)
    end = int(1.5 * alive[-1]) if len(alive) else 0
    first = np.flatnonzero(np.nanmax(np.abs(replay.observed_correlation), axis=1) < _FADED)
    if len(first):  # later revivals are mostly noise of the estimate
        end = min(end, 4 * int(first[0]))
    return int(np.clip(end, 20, len(replay.lags))) if len(replay.lags) > 20 else len(replay.lags)


def _within_reach(replay: Replay, component: int) -> Float64[Array, " points"]:
    """Simulated values no farther than one range outside the data: one wild path must not flatten the figure."""
    seen, values = replay.observed.values[:, component], replay.values[..., component].ravel()
    margin = np.ptp(seen)
    known = values[np.isfinite(values)]
    return np.append(known[(known > seen.min() - margin) & (known < seen.max() + margin)], seen)
