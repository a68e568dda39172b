"""Tables of the page on scaling, from learning curves and from weights that were measured on the canonical tasks."""

from collections.abc import Callable, Sequence
from math import exp, log, sqrt
from statistics import fmean, stdev

from fimsde.benchmark.published import find
from fimsde.benchmark.scaling import tables as arms_tables
from fimsde.benchmark.scaling.arms import DEGREE, Arm, all_arms
from fimsde.benchmark.scaling.cost import A100_PEAK, PUBLISHED_SECONDS, published_operations, step_operations
from fimsde.benchmark.scaling.curves import read_curves
from fimsde.benchmark.summary import Cell
from fimsde.benchmark.tables import ResultTable
from fimsde.train.config import TrainConfig
from pages.formats import listed, markdown, spaced, two_digits
from pages.paths import CONTEXT_SIZES
from pages.stored import SETTINGS, SYSTEMS, Stored, geometric_mean

NOTHING = "Nothing is stored yet."
REPETITIONS = 5  # of the paper
SMALLEST = "fim-5M-30k"  # of the paper's models
SMALLEST_MMD = 1e-4  # discrepancies below are noise of the simulated paths, and may be negative
TASK_MEASURES = {"drift_mse": "drift", "diffusion_mse": "diffusion", "mmd": "paths (MMD)"}
AT_DATA = {"drift_mse_at_data": "drift", "diffusion_mse_at_data": "diffusion"}
Maker = Callable[[Sequence[Arm], arms_tables.Curves], ResultTable | None]


def of_arms(make: Maker) -> Callable[[Stored], str]:
    """A table of learning curves; a sentence if no arm has got there."""

    def table(stored: Stored) -> str:
        found = make(all_arms(), read_curves(stored.folder, all_arms()))
        if found is None:
            return NOTHING
        return f"{found.head}.\n\n" + markdown(list(found.columns), [list(row) for row in found.rows])

    return table


def canonical(stored: Stored) -> str:
    """Errors on the canonical tasks divided by the published FIM-SDE's, geometric means over the systems."""
    cells = {(c.method, c.measure, c.setting, c.system): c for c in stored.cells("ablation")}
    titles = {cell.method: cell.title for cell in cells.values()}
    rows = []
    for method, title in titles.items():
        for measure in ("drift_mse", "diffusion_mse"):
            ratios = [_ratio(cells, method, measure, setting) for setting in SETTINGS.values()]
            rows.append([f"{title}, {measure.removesuffix('_mse')}", *ratios])
    return markdown(["", *(name.replace("/", " / ") for name in SETTINGS)], rows) if rows else NOTHING


def discrepancies(stored: Stored) -> str:
    """MMD of arms with five repetitions, beside the paper's smallest model; bold where an arm is not worse."""
    found = {(c.method, c.system, c.setting): c for c in _of_paths(stored)}
    rows = []
    for method, title in {c.method: c.title for c in found.values()}.items():
        for system, name in SYSTEMS.items():
            ours = [found.get((method, system, setting)) for setting in SETTINGS.values()]
            rows.append([f"{name}, {title}", *(_beside(cell, SMALLEST) for cell in ours)])
    return markdown(["", *(name.replace("/", " / ") for name in SETTINGS)], rows) if rows else NOTHING


def degree_tasks(stored: Stored) -> str:
    """Degree 4 over degree 3 on the canonical tasks, geometric means over the systems, where both were measured."""
    cells = {(c.method, c.measure, c.setting, c.system): c for c in stored.cells("ablation")}
    pairs = [(method.replace(f"-{DEGREE}", ""), method) for method in dict.fromkeys(m for m, *_ in cells)]
    rows = []
    for before, after in pairs:
        if before == after or not any(method == before for method, *_ in cells):
            continue
        for measure, name in TASK_MEASURES.items():
            logs = {
                setting: [
                    _log_ratio(cells.get((before, measure, s, system)), cells.get((after, measure, s, system)))
                    for system in SYSTEMS
                ]
                for setting, s in SETTINGS.items()
            }
            known = {setting: [log for log in found if log is not None] for setting, found in logs.items()}
            title = next(c.title for c in cells.values() if c.method == after)
            rows.append([f"{title}, {name}", *(_factor(known[setting]) for setting in SETTINGS)])
    return markdown(["", *(name.replace("/", " / ") for name in SETTINGS)], rows) if rows else NOTHING


def _log_ratio(before: Cell | None, after: Cell | None) -> float | None:
    if before is None or after is None or before.mean is None or after.mean is None:
        return None
    return log(max(after.mean, SMALLEST_MMD) / max(before.mean, SMALLEST_MMD))


def _factor(logs: Sequence[float]) -> str:
    """exp of the mean, and of the mean plus and minus its standard error over the systems."""
    if len(logs) < 2:
        return ""
    mean, error = fmean(logs), stdev(logs) / sqrt(len(logs))
    return f"{exp(mean):.2f} ({exp(mean - error):.2f} to {exp(mean + error):.2f})"


def cells_met(stored: Stored) -> str:
    """How many cells of the best arm are not worse than the paper's smallest model: the largest count of an arm."""
    found = _of_paths(stored)
    counts = [sum(_is_met(c, SMALLEST) for c in found if c.method == method) for method in {c.method for c in found}]
    return f"{max(counts, default=0)} of {len(SYSTEMS) * len(SETTINGS)}"


def _of_paths(stored: Stored) -> list[Cell]:
    """Discrepancies of the arms that have as many repetitions as the paper in every cell."""
    found = [c for c in stored.cells("ablation") if c.measure == "mmd" and c.runs >= REPETITIONS]
    whole = [m for m in {c.method for c in found} if sum(c.method == m for c in found) == len(SYSTEMS) * len(SETTINGS)]
    return [c for c in found if c.method in whole]


def repetitions(stored: Stored) -> str:
    """Data sets per cell of the arms' table of paths."""
    return _runs(_of_paths(stored))


def degree_repetitions(stored: Stored, measure: str = "drift_mse") -> str:
    """Data sets per cell of the arm whose prior has degree 4."""
    return _runs([c for c in stored.cells("ablation") if c.measure == measure and f"-{DEGREE}-" in c.method])


def degree_path_repetitions(stored: Stored) -> str:
    """The same for its paths."""
    return degree_repetitions(stored, "mmd")


def context_repetitions(stored: Stored) -> str:
    """Data sets per size of the arms' table of contexts."""
    return _runs([c for c in stored.cells("context-size") if c.method.startswith("fim-paper-")])


def _runs(cells: Sequence[Cell]) -> str:
    """The fewest, and the most where they differ."""
    runs = [cell.runs for cell in cells] or [0]
    return str(min(runs)) if min(runs) == max(runs) else f"{min(runs)} to {max(runs)}"


def _beside(cell: Cell | None, method: str) -> str:
    """Ours, and the paper's in brackets."""
    if cell is None:
        return ""
    paper = find("ablation", cell.system, cell.setting, "", "mmd", method)
    ours = "all failed" if cell.mean is None else f"{cell.mean:.3f}"
    theirs = "" if paper is None or paper.mean is None else f" ({paper.mean:.3f})"
    return f"**{ours}**{theirs}" if _is_met(cell, method) else ours + theirs


def _is_met(cell: Cell, method: str) -> bool:
    paper = find("ablation", cell.system, cell.setting, "", "mmd", method)
    return paper is not None and cell.mean is not None and not cell.failures and cell.mean <= (paper.mean or 0.0)


def contexts(stored: Stored) -> str:
    """Mean square errors where the data are, by the number of observations, for arms."""
    cells = [c for c in stored.cells("context-size") if c.method.startswith("fim-paper-")]
    known = {(c.method, c.system, c.setting, c.measure): c for c in cells}
    rows = []
    for method, title in {c.method: c.title for c in cells}.items():
        for system in dict.fromkeys(c.system for c in cells):
            for measure, name in AT_DATA.items():
                of = [known.get((method, system, f"length={size}", measure)) for size in CONTEXT_SIZES]
                numbers = ["" if cell is None or cell.mean is None else two_digits(cell.mean) for cell in of]
                rows.append([f"{title}: {SYSTEMS[system]}, {name}", *numbers])
    return markdown(["", *map(spaced, CONTEXT_SIZES)], rows) if rows else NOTHING


def _ratio(cells: dict[tuple[str, ...], Cell], method: str, measure: str, setting: str) -> str:
    found = []
    for system in SYSTEMS:
        cell = cells.get((method, measure, setting, system))
        published = find("canonical", system, setting, "", measure, "fim")
        if cell is None or cell.mean is None or published is None or published.mean is None:
            return ""
        found.append(cell.mean / published.mean)
    return two_digits(geometric_mean(found))


def cost(stored: Stored) -> str:
    """Operations of the published run and of the smaller presets."""
    rows = []
    for name in ("paper", "paper-1.6m", "paper-0.4m", "paper-0.1m"):
        config = TrainConfig.preset(name)
        each = step_operations(config)
        total = each * config.loop.steps
        rows.append(
            [
                *(f"`{name}`", spaced(config.model.num_parameters), _scientific(each), spaced(config.loop.steps)),
                *(_scientific(total), _seconds(total / A100_PEAK)),
            ]
        )
    heads = ["preset", "weights", "operations per step", "steps", "operations", "seconds of an A100 at its peak"]
    return markdown(heads, rows)


def utilisation(stored: Stored) -> str:
    """Share of the peak that the published run reached, in percent."""
    return f"{100 * published_operations() / (A100_PEAK * PUBLISHED_SECONDS):.1f}"


def core_years(stored: Stored) -> str:
    """Core-years of the published run at the speed measured here with the largest preset."""
    row = stored.script("training_speed")["rows"][-1]
    return f"{published_operations() / (row['operations'] / row['without']) / (365.25 * 86_400):.0f}"


def speed(stored: Stored) -> str:
    """CPU-seconds of a step."""
    rows = [
        [
            *(f"`{row['preset']}`", f"{row['making']:.3f}", f"{row['torch']:.2f}", f"{row['compiled']:.2f}"),
            *(f"{row['torch'] / row['compiled']:.2f}", f"{row['without']:.2f}"),
            f"{row['operations'] / row['without'] / 1e9:.0f}",
        ]
        for row in stored.script("training_speed")["rows"]
    ]
    return markdown(
        ["preset", "making the batch", "torch's dropout", "as it is", "ratio", "no dropout", "10⁹ operations/s"], rows
    )


def zero(stored: Stored) -> str:
    """The typical loss of an answer of zero."""
    rows = [[f"U knows {name}", f"{loss:.1f}"] for name, loss in stored.script("zero_answer")["rows"].items()]
    return markdown(["drift and diffusion answered with zero", "typical loss"], rows)


def least_squares(stored: Stored) -> str:
    """What polynomials reach on the held-out contexts."""
    rows = [
        [
            row["contexts"],
            *(f"{found['typical']:.2f} ({found['easy quarter']:.2f})" for found in list(row.values())[1:]),
        ]
        for row in stored.script("least_squares")["rows"]
    ]
    return markdown(["read", "degree 1", "degree 2", "degree 3"], rows).replace("-0.", "−0.")


def levels(stored: Stored) -> str:
    """Where U settles for every bound on gradients, and the losses there."""
    rows = []
    for row in stored.script("location_bound")["rows"]:
        bound = row["bound"]
        first = "the arm as it is" if bound is None else bound if isinstance(bound, str) else f"{bound:g}"
        moved = ("", "") if bound is None else (f"{row['move']:.1f}", two_digits(100 * row["pull"]))
        rows.append([first, *moved, f"{row['typical']:.0f}", spaced(round(row["mean"]))])
    heads = ["bound", "U moves by", "pull of the largest hundredth, %", "typical loss", "mean loss"]
    return markdown(heads, rows).replace("-0.", "−0.")


def spread(stored: Stored) -> str:
    """Sizes of normalised fields at locations: 5 %, median and 95 %."""
    return listed([two_digits(size) for size in stored.script("zero_answer")["spread"]])


def _seconds(number: float) -> str:
    return spaced(int(round(number, -2))) if number >= 1000 else two_digits(number)


def _scientific(number: float) -> str:
    mantissa, exponent = f"{number:.1e}".split("e")
    digits = str(int(exponent)).translate(str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{mantissa}·10{digits}"


TABLES = {
    "scaling-arms": of_arms(arms_tables.progress),
    "scaling-far": of_arms(arms_tables.far_away),
    "scaling-sizes": of_arms(arms_tables.sizes_and_data),
    "scaling-differences": of_arms(arms_tables.steps_between),
    "scaling-degrees": of_arms(arms_tables.degrees),
    "scaling-bounds": of_arms(arms_tables.bounds),
    "scaling-compute": of_arms(arms_tables.equal_compute),
    "scaling-laws": of_arms(arms_tables.power_laws),
    "scaling-canonical": canonical,
    "scaling-degree-tasks": degree_tasks,
    "scaling-mmd": discrepancies,
    "scaling-schedules": of_arms(arms_tables.schedules),
    "scaling-contexts": contexts,
    "scaling-cost": cost,
    "scaling-zero": zero,
    "scaling-levels": levels,
    "scaling-least-squares": least_squares,
    "training-speed": speed,
}
NUMBERS = {
    "arm-context-repetitions": context_repetitions,
    "arm-repetitions": repetitions,
    "cells-met": cells_met,
    "degree-repetitions": degree_repetitions,
    "degree-path-repetitions": degree_path_repetitions,
    "field-sizes": spread,
    "published-utilisation": utilisation,
    "published-core-years": core_years,
}
