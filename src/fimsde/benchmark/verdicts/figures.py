"""Figure of the verdicts: how often each way to be wrong is named, against its strength."""

from pathlib import Path

from matplotlib.figure import Figure

from fimsde.benchmark.verdicts.tables import Found, share_named

FILE = "verdicts-power.png"
_COLOURS = ("#c05621", "#2b6cb0", "#2f855a", "#6b46c1")  # as the other figures
_MARKS = ("o", "s", "^")


def power_curves(found: Found) -> Figure:
    """Share of data sets in which the cause is named, at the three strengths of every row."""
    rows = list(dict.fromkeys(kind.row for kind, _ in found if kind.row is not None and not kind.row.is_record))
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    axes = figure.subplots()
    for number, row in enumerate(rows):
        shares = {kind.strength: share_named(outcomes, row.verdicts) for kind, outcomes in found if kind.row is row}
        x = [k for k, strength in enumerate(row.strengths) if strength in shares]
        y = [shares[row.strengths[k]] for k in x]
        colour, mark = _COLOURS[number % len(_COLOURS)], _MARKS[number // len(_COLOURS) % len(_MARKS)]
        moved = [k + 0.03 * (number - len(rows) / 2) for k in x]  # so that curves at 100 % are seen side by side
        axes.plot(moved, y, color=colour, marker=mark, ms=4, lw=1.2, label=row.name)
    axes.axhline(0.9, color="#a0aec0", lw=0.8, ls="--")
    axes.set(xticks=[0, 1, 2], xticklabels=["weak", "middle", "strong"], ylim=(-0.03, 1.05), ylabel="cause named")
    axes.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure


def save_figure(found: Found, folder: Path) -> None:
    """Write the figure as PNG."""
    folder.mkdir(parents=True, exist_ok=True)
    power_curves(found).savefig(folder / FILE, dpi=110)
