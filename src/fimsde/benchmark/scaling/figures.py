"""Learning curves: what is judged, against equations read and against CPU-seconds of training."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter, StrMethodFormatter

from fimsde.benchmark.scaling.arms import BOUND, CONSTANT, DEGREE, Arm
from fimsde.benchmark.scaling.curves import Curve
from fimsde.benchmark.scaling.tables import MEASURES, summary, values

FILE = "ablation-curves.png"
_COLOURS = {"0.1m": "#2b6cb0", "0.4m": "#c05621", "1.6m": "#2f855a", "primed": "#6b46c1"}  # as the other figures
_LINES = {"streaming": "-", "30000": (0, (8, 2)), "3000": "--", "300": ":"}
_SHOWN = ("held_loss", "drift", "diffusion")  # far errors are in the tables
_CHANGED = {DEGREE: "-.", CONSTANT: (0, (4, 1, 1, 1)), BOUND: (0, (1, 3))}


def learning_curves(arms: Sequence[Arm], curves: Mapping[str, Curve]) -> Figure:
    """A row for every measure, with standard errors over held-out batches as bands; colour is size, line is data."""
    figure = Figure(figsize=(9.0, 8.0), layout="constrained")
    axes = figure.subplots(len(_SHOWN), 2, sharex="col", sharey="row")
    for row, name in zip(axes, _SHOWN, strict=True):
        for axis, place in zip(row, ("equations", "cpu_seconds"), strict=True):
            for arm in arms:
                points = curves[arm.name].judged if arm.name in curves else ()
                points = tuple(point for point in points if values(point, name) is not None)
                if not points:
                    continue
                x = [getattr(point, place) for point in points]
                found = [summary(point, name) for point in points]
                low, high = ([mean + side * error for mean, error in found] for side in (-1, 1))
                line = _CHANGED[arm.change] if arm.change else _LINES.get(arm.data, "-")
                colour = _COLOURS[arm.size]
                axis.plot(x, [mean for mean, _ in found], linestyle=line, color=colour, lw=1.2, label=arm.name)
                axis.fill_between(x, low, high, color=colour, alpha=0.12, lw=0)
            axis.set_xscale("log")
            axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.xaxis.set_minor_formatter(NullFormatter())
        row[0].set_ylabel(MEASURES[name], fontsize=9)
    for axis, title in zip(axes[-1], ("equations read", "CPU-seconds of training"), strict=True):
        axis.set_xlabel(title, fontsize=9)
    lines = {line.get_label(): line for axis in axes[:, 0] for line in axis.get_lines()}  # an arm may lack a measure
    figure.legend(lines.values(), lines.keys(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


def save_curves(arms: Sequence[Arm], curves: Mapping[str, Curve], folder: Path) -> Path:
    """Write the figure into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    learning_curves(arms, curves).savefig(folder / FILE, dpi=110)
    return folder / FILE
