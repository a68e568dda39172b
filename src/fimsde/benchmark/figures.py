"""Figures like the paper's: fields and paths of a system for several methods, and curves along training."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fimsde.benchmark.published import Published, published
from fimsde.benchmark.summary import Cell
from fimsde.benchmark.tables import TITLES
from fimsde.benchmark.tasks import Comparison, Problem, Task, load
from fimsde.data.grid import regular_grid
from fimsde.equations.sde import SDE, fields
from fimsde.errors import ConfigError
from fimsde.methods import Method
from fimsde.simulate import simulate
from fimsde.systems.canonical import simulation_seed

# Shades 900 and 700 of the palette of Tailwind CSS 1.
_TRUTH = "#1a202c"
_COLOURS = ("#c05621", "#2b6cb0", "#2f855a", "#6b46c1", "#b7791f", "#c53030")
_ARROWS = 16  # per axis; by hand: they do not touch
_DRAWN = 8  # paths; by hand: as many can be followed


def fields_and_paths(task: Task, methods: Sequence[Method]) -> Figure:
    """Fields and simulated paths of every method beside the truth, on the data of a task in one or two dimensions."""
    problem = load(replace(task, num_paths=None))
    if problem.truth is None or not problem.comparisons or problem.truth.dim > 2:
        raise ConfigError(f"{task.system} in {task.experiment} has no figure; it shows known systems in 1-D and 2-D.")
    seed = simulation_seed(task.seed, task.system, "figure", task.repetition)
    fitted = [(method.title, method.fit(problem.observations, seed)) for method in methods]
    draw = _curves if problem.truth.dim == 1 else _planes
    figure = draw(problem, [("truth", problem.truth), *fitted], seed)
    figure.suptitle(f"{TITLES[task.system]}, {task.setting}", fontsize=10)
    return figure


def _curves(problem: Problem, equations: Sequence[tuple[str, SDE]], seed: int) -> Figure:
    """One dimension: drift, diffusion, and a row of paths per equation."""
    figure = Figure(figsize=(4 + 2.4 * (len(equations) + 1), 3.2), layout="constrained")
    drift, diffusion, *paths = figure.subplots(1, 2 + len(equations))
    assert problem.nodes is not None, "known systems have a grid"
    x = problem.nodes
    for (title, sde), colour, axes in zip(equations, (_TRUTH, *_COLOURS), paths, strict=False):
        f, root_g = fields(sde, x)  # without warnings: the grid of the paper leaves the data
        drift.plot(x[:, 0], f[:, 0], color=colour, lw=1.2, label=title)
        diffusion.plot(x[:, 0], root_g[:, 0], color=colour, lw=1.2)
        _draw_paths(axes, sde, problem.comparisons[0], seed, title, colour)
    low, high = np.quantile(problem.observations.values[:, 0], [0.005, 0.995])
    for axes, name in ((drift, "drift"), (diffusion, "diffusion √g")):
        axes.axvspan(low, high, color="0.93", zorder=0)
        axes.set_title(name, fontsize=9)
    _limit(drift, problem)
    drift.legend(frameon=False, fontsize=7)
    return figure


def _planes(problem: Problem, equations: Sequence[tuple[str, SDE]], seed: int) -> Figure:
    """Two dimensions: a column per equation with the drift as arrows over the diffusion, and paths below."""
    figure = Figure(figsize=(2.6 * len(equations), 5.2), layout="constrained")
    top, bottom = figure.subplots(2, len(equations), squeeze=False)
    assert problem.nodes is not None, "known systems have a grid"
    assert problem.truth is not None, "known systems have a truth"
    low, high = problem.nodes.min(axis=0), problem.nodes.max(axis=0)
    darkest = 2 * np.linalg.norm(problem.truth.diffusion(problem.nodes), axis=1).max()  # one scale for all columns
    corner = regular_grid(low, high, _ARROWS)
    for (title, sde), colour, above, below in zip(equations, (_TRUTH, *_COLOURS), top, bottom, strict=False):
        size = np.linalg.norm(fields(sde, problem.nodes)[1], axis=1).reshape(len(problem.nodes[:, 0]) // 32, 32).T
        above.imshow(
            size,
            origin="lower",
            extent=(low[0], high[0], low[1], high[1]),
            aspect="auto",
            cmap="Oranges",
            alpha=0.6,
            vmin=0.0,
            vmax=darkest,
        )
        arrow = fields(sde, corner)[0]
        arrow = arrow / np.maximum(np.linalg.norm(arrow, axis=1, keepdims=True), 1e-12)
        above.quiver(*corner.T, *arrow.T, color=colour, scale=1.6 * _ARROWS, width=0.004)
        above.set_title(title, fontsize=9)
        _draw_paths(below, sde, problem.comparisons[0], seed, "", colour)
    return figure


def _draw_paths(axes: Axes, sde: SDE, c: Comparison, seed: int, title: str, colour: str) -> None:
    """Simulated paths from starts spread over the reference, over the reference paths in grey."""
    some = slice(None, None, max(1, len(c.reference) // _DRAWN))
    reference = c.reference[some]
    model = simulate(sde, reference[:, 0], c.times, substeps=c.substeps, seed=seed).values
    for paths, shade, width in ((reference, "0.75", 0.8), (model, colour, 0.6)):
        for path in paths:
            axes.plot(*((c.times, path[:, 0]) if path.shape[1] == 1 else path.T), color=shade, lw=width)
    low, high = reference.min(axis=(0, 1)), reference.max(axis=(0, 1))
    margin = 0.3 * (high - low)
    axes.set_ylim(low[-1] - margin[-1], high[-1] + margin[-1])
    if len(low) == 2:
        axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
    axes.set_title(title, fontsize=9)


def _limit(axes: Axes, problem: Problem) -> None:
    """An estimate that explodes outside the data must not hide the truth."""
    assert problem.truth is not None, "known systems have a truth"
    assert problem.nodes is not None, "known systems have a grid"
    drift = problem.truth.drift(problem.nodes)
    middle, half = (drift.max() + drift.min()) / 2, 0.75 * np.ptp(drift)
    axes.set_ylim(middle - half, middle + half)


def convergence(cells: Sequence[Cell]) -> Figure:
    """MMD against iterations, one panel per series: ours with its spread over folds, the published curves dashed."""
    mine = [c for c in cells if c.experiment == "convergence" and c.measure == "mmd" and c.mean is not None]
    if not mine:
        raise ConfigError("no convergence results to draw; run `fimsde bench convergence` first.")
    paper = [p for p in published("convergence") if p.mean is not None]
    systems = list(dict.fromkeys(c.system for c in mine))
    figure = Figure(figsize=(3.2 * len(systems), 3.4), layout="constrained")
    for system, axes in zip(systems, figure.subplots(1, len(systems), squeeze=False)[0], strict=True):
        for entries, style, mark in ((mine, "-o", ""), (paper, "--", " (published)")):
            here = [(_label(e), e) for e in entries if e.system == system]
            for title in dict.fromkeys(label for label, _ in here):
                line = sorted((_iterations(e.setting), e.mean, e.std or 0.0) for label, e in here if label == title)
                steps, mean, spread = np.array(line).T
                axes.errorbar(steps, mean, spread, fmt=style, ms=3, lw=1, capsize=2, label=title + mark)
        axes.set_xscale("symlog", linthresh=20)
        axes.set_title(TITLES[system], fontsize=9)
        axes.set_xlabel("iterations")
    figure.axes[0].set_ylabel("MMD")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2, frameon=False, fontsize=7)
    return figure


def _label(entry: Cell | Published) -> str:
    return f"{entry.title}, {entry.comparison}" if entry.comparison else entry.title


def _iterations(setting: str) -> int:
    return int(setting.removeprefix("iterations="))
