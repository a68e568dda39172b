"""Cells become tables in Markdown, LaTeX and CSV, in the number formats of the paper."""

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from fimsde.benchmark.published import Published, published
from fimsde.benchmark.summary import Cell
from fimsde.benchmark.tasks import Experiment
from fimsde.systems.canonical import CANONICAL, REPETITIONS
from fimsde.systems.lorenz import LORENZ
from fimsde.systems.out_of_class import OUT_OF_CLASS
from fimsde.systems.real_world import REAL_WORLD

Format = Callable[[float, float], str]
Markup = Literal["markdown", "latex"]
TITLES = {s.name: s.title for s in (*CANONICAL, LORENZ, *OUT_OF_CLASS)} | {s.name: s.title for s in REAL_WORLD}


def mean_std(mean: float, std: float) -> str:
    """The paper's short form: 0.5(3) is 0.5 ± 0.3, with one digit of the spread; 0.68(0) is a single run."""
    if std == 0:
        return "0.0(0)" if mean == 0 else f"{mean:.2f}(0)"
    exponent = math.floor(math.log10(float(f"{std:.0e}")))  # rounded first: 0.96 has its first digit before the point
    if exponent >= 0:
        return f"{round(mean, -exponent):.0f}({round(std, -exponent):.0f})"
    return f"{mean:.{-exponent}f}({std * 10**-exponent:.0f})"


def _hundredths(mean: float, std: float) -> str:
    return mean_std(100 * mean, 100 * std)


def _three_decimals(mean: float, std: float) -> str:
    return f"{mean:.3f} ± {std:.3f}"


def _six_decimals(mean: float, std: float) -> str:
    return f"{mean:.6f}"


def three_digits(mean: float, std: float = 0.0) -> str:
    """Three significant digits without exponent up to 1e5, as in the paper's tables of errors."""
    if mean != 0 and not 1e-5 <= abs(mean) < 1e5:
        return f"{mean:.2e}"
    digits = 2 - math.floor(math.log10(float(f"{abs(mean):.2e}"))) if mean else 2
    return f"{round(mean, digits):.{max(digits, 0)}f}"


@dataclass(frozen=True)
class _Layout:
    """How an experiment is tabulated: one table per measure and value of `block`."""

    block: tuple[str, ...]
    row: tuple[str, ...]
    column: str
    formats: Mapping[str, Format]


_FIELDS: dict[str, Format] = {"drift_mse": three_digits, "diffusion_mse": three_digits}
_AT_DATA = dict.fromkeys(
    ("drift_mse_at_data", "diffusion_mse_at_data", "log_likelihood", "fit_cpu_seconds"), three_digits
)
_RELATIVE = dict.fromkeys(("relative_drift_at_data", "relative_diffusion_at_data"), three_digits)


def _layout(experiment: Experiment) -> _Layout:
    match experiment:
        case "canonical" | "ablation":
            formats: dict[str, Format] = {"mmd": _hundredths, "mmd_unmatched": _hundredths, **_FIELDS, **_AT_DATA}
            return _Layout(("setting",), ("title",), "system", formats)
        case "lorenz":
            paths: dict[str, Format] = dict.fromkeys(("mmd", "mmd_unmatched"), _six_decimals)
            return _Layout((), ("title",), "comparison", {**paths, **_FIELDS, **_AT_DATA, **_RELATIVE})
        case "real-world":
            paths = dict.fromkeys(("mmd", "mmd_unmatched", "p_value", "log_likelihood"), _three_decimals)
            return _Layout(("comparison",), ("title",), "system", paths)
        case "convergence":
            paths = dict.fromkeys(("mmd", "mmd_unmatched"), _three_decimals)
            return _Layout(("comparison",), ("title", "setting"), "system", paths)
        case "context-size":
            paths = dict.fromkeys(("mmd", "mmd_unmatched"), _three_decimals)
            return _Layout((), ("title", "setting"), "system", {**paths, **_FIELDS, **_AT_DATA})
        case "out-of-class":
            return _Layout(("setting",), ("title",), "system", {**_RELATIVE, **_AT_DATA, **_FIELDS})


HEADS = {
    "mmd": "MMD as the paper prints it: clipped at zero per run, mean over the runs that did not fail",
    "mmd_unmatched": "MMD, unclipped and without the pairs that share a start",
    "p_value": "p-value of the permutation test",
    "drift_mse": "Mean square error of the drift on the grid",
    "diffusion_mse": "Mean square error of the diffusion on the grid",
    "drift_mse_at_data": "Mean square error of the drift where the data are",
    "diffusion_mse_at_data": "Mean square error of the diffusion where the data are",
    "relative_drift_at_data": "Error of the drift where the data are, as a share of its variance",
    "relative_diffusion_at_data": "Error of the diffusion where the data are, as a share of its variance",
    "log_likelihood": "Log-likelihood of held-out steps, per step and component",
    "fit_cpu_seconds": "CPU seconds of a fit",
}
_WORST = "Median over all runs, a failed one counting as infinitely bad"


@dataclass(frozen=True)
class ResultTable:
    """A rectangle of text with a head."""

    head: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(
    experiment: Experiment, cells: Sequence[Cell], *, measures: Sequence[str] | None = None, markup: Markup = "markdown"
) -> list[ResultTable]:
    """The tables of an experiment; measures with published numbers have those below ours.

    Every measure in which a run failed is printed twice: as in the paper, where failed runs are left out and counted in
    a superscript, and as a median in which they count as infinitely bad.
    """
    layout = _layout(experiment)
    found: list[ResultTable] = []
    for measure in measures or layout.formats:
        mine = [c for c in cells if c.measure == measure]
        for block in dict.fromkeys(_key(c, layout.block) for c in mine):
            part = [c for c in mine if _key(c, layout.block) == block]
            paper = [p for p in published(experiment) if p.measure == measure and _fits(p, layout.block, block)]
            head = ", ".join(filter(None, (HEADS.get(measure, measure), *block)))
            found.append(_table(head + _unit(layout, measure), part, paper, layout, measure, markup))
            if any(c.failures for c in part):
                found.append(_worst_table(f"{_WORST}: {head}{_unit(layout, measure)}", part, layout, measure))
    return found


def _unit(layout: _Layout, measure: str) -> str:
    return " (in hundredths)" if layout.formats.get(measure) is _hundredths else ""


def _key(entry: Cell | Published, names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(getattr(entry, name) for name in names)


def _fits(entry: Published, names: tuple[str, ...], block: tuple[str, ...]) -> bool:
    """A published number without comparison stands beside all comparisons."""
    return all(
        found == wanted or (name == "comparison" and not found)
        for name, found, wanted in zip(names, _key(entry, names), block, strict=True)
    )


def _table(
    head: str, cells: list[Cell], paper: list[Published], layout: _Layout, measure: str, markup: Markup
) -> ResultTable:
    columns = tuple(dict.fromkeys(_key(c, (layout.column,))[0] for c in cells))
    form = layout.formats.get(measure, three_digits)
    rows = _rows(cells, columns, layout, "", lambda c: _text(c, form, markup))
    rows += _rows(paper, columns, layout, " (published)", lambda p: _published_text(p, form, markup))
    return ResultTable(head, ("method", *(TITLES.get(c, c) for c in columns)), tuple(rows))


def _worst_table(head: str, cells: list[Cell], layout: _Layout, measure: str) -> ResultTable:
    columns = tuple(dict.fromkeys(_key(c, (layout.column,))[0] for c in cells))
    factor = 100 if layout.formats.get(measure) is _hundredths else 1
    rows = _rows(cells, columns, layout, "", lambda c: _worst_text(c, factor))
    return ResultTable(head, ("method", *(TITLES.get(c, c) for c in columns)), tuple(rows))


def _rows(
    entries: Sequence, columns: tuple[str, ...], layout: _Layout, mark: str, text: Callable[..., str]
) -> list[tuple[str, ...]]:
    keys = dict.fromkeys(_key(e, layout.row) for e in entries)
    at = {(_key(e, layout.row), getattr(e, layout.column)): text(e) for e in entries}
    return [
        (f"{key[0]}{mark}" + "".join(f", {part}" for part in key[1:]), *(at.get((key, c), "") for c in columns))
        for key in keys
    ]


def _text(cell: Cell, form: Format, markup: Markup) -> str:
    number = "failed" if cell.mean is None or cell.std is None else form(cell.mean, cell.std)
    incomplete = cell.runs != REPETITIONS and cell.experiment != "lorenz"
    fewer = f" [{cell.runs} run{'s' if cell.runs > 1 else ''}]" if incomplete else ""
    return number + _superscript(cell.failures, markup) + fewer


def _published_text(entry: Published, form: Format, markup: Markup) -> str:
    missing = "failed" if entry.measure == "mmd" else "> 10000"
    number = missing if entry.mean is None else form(entry.mean, entry.std or 0.0)
    return number + _superscript(entry.failures, markup)


def _worst_text(cell: Cell, factor: float) -> str:
    value = cell.median_failures_worst
    return "failed" if math.isinf(value) else three_digits(factor * value)


def _superscript(failures: int, markup: Markup) -> str:
    if not failures:
        return ""
    return f"<sup>{failures}</sup>" if markup == "markdown" else f"$^{{{failures}}}$"


def to_markdown(table: ResultTable) -> str:
    """A heading and a pipe table."""
    lines = [table.columns, ("---", *["--:"] * (len(table.columns) - 1)), *table.rows]
    return f"### {table.head}\n\n" + "".join("| " + " | ".join(line) + " |\n" for line in lines)


def to_latex(table: ResultTable) -> str:
    """A tabular with booktabs rules, its head in a caption."""
    body = "".join("  " + " & ".join(_escape(entry) for entry in row) + r" \\" + "\n" for row in table.rows)
    head = " & ".join(_escape(column) for column in table.columns)
    spec = "l" + "r" * (len(table.columns) - 1)
    return (
        "\\begin{table}\n  \\caption{" + _escape(table.head) + "}\n  \\begin{tabular}{" + spec + "}\n  \\toprule\n"
        f"  {head} \\\\\n  \\midrule\n{body}  \\bottomrule\n  \\end{{tabular}}\n\\end{{table}}\n"
    )


def _escape(text: str) -> str:
    return text.replace("_", r"\_").replace("%", r"\%").replace("±", r"$\pm$").replace(">", "$>$")


def to_csv(cells: Sequence[Cell]) -> str:
    """Every cell in a line, all measures."""
    stream = io.StringIO()
    names = [name for name in Cell.__dataclass_fields__ if name not in ("published", "reasons")]
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow([*names, "published_mean", "published_std", "published_failures"])
    for cell in cells:
        entry = asdict(cell)
        paper = entry["published"] or {}
        writer.writerow([entry[n] for n in names] + [paper.get(k, "") for k in ("mean", "std", "failures")])
    return stream.getvalue()
