"""Figure of the calibration: ranks of the truth among draws, and distances, against uniform numbers."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fimsde.benchmark.calibration.run import Row

FILE = "calibration-ranks.png"
_COLOURS = ("#c05621", "#2b6cb0", "#2f855a", "#6b46c1")  # as the other figures
_BAND = 1.36  # Kolmogorov's 95 % quantile, over the root of the number


def rank_curves(rows: Sequence[Row]) -> Figure:
    """Share of data sets whose rank is below a share, less that share: zero if draws are calibrated."""
    good = [row.measured for row in rows if row.measured.failure is None and row.case.source == "prior"]
    figure = Figure(figsize=(8.0, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    _curves(left, [m.ranks or {} for m in good], "rank of the truth among draws (SBC)")
    _curves(right, [m.tarp or {} for m in good], "share of draws nearer to a random curve (TARP)")
    left.set_ylabel("share of data sets below, less x")
    return figure


def _curves(axes: Axes, found: Sequence[dict[str, float]], label: str) -> None:
    names = list(dict.fromkeys(name for one in found for name in one))
    fewest = 0
    for name, colour in zip(names, _COLOURS, strict=False):
        values = np.sort([one[name] for one in found if name in one])
        num = len(values)
        fewest = num if not fewest else min(fewest, num)
        x = np.concatenate([[0.0], values, [1.0]])
        y = np.concatenate([[0.0], np.arange(1, num + 1) / num, [1.0]])
        axes.plot(x, y - x, color=colour, lw=1.4, drawstyle="steps-post", label=f"{name} ({num})")
    if fewest:
        reach = _BAND / np.sqrt(fewest)
        axes.axhspan(-reach, reach, color="#a0aec0", alpha=0.3, lw=0)  # where uniform numbers stay
    axes.axhline(0.0, color="#1a202c", lw=0.8)
    axes.set(xlabel=label, xlim=(0, 1), ylim=(-0.35, 0.35))
    axes.legend(fontsize=7, frameon=False)


def save_figure(rows: Sequence[Row], folder: Path) -> None:
    """Write the figure as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    rank_curves(rows).savefig(folder / FILE, dpi=110)
