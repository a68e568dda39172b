"""Stored results become cells: mean, spread and failures over repetitions, beside the published number.

Two ways to count a failed run. As in the paper, the mean is over the runs that did not fail, and the failures are shown
beside it. So that nobody gains by failing, there is also the median over all runs in which a failed one counts as the
worst value there is: infinitely bad.
"""

import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from fimsde.benchmark.published import Published, find
from fimsde.benchmark.results import Measurement, PathScore
from fimsde.methods import NAMES, TITLES
from fimsde.systems.canonical import CANONICAL
from fimsde.systems.lorenz import LORENZ
from fimsde.systems.out_of_class import OUT_OF_CLASS
from fimsde.systems.real_world import REAL_WORLD

SYSTEMS = [s.name for s in (*CANONICAL, LORENZ, *OUT_OF_CLASS)] + [s.name for s in REAL_WORLD]
LARGER_IS_BETTER = ("log_likelihood",)


@dataclass(frozen=True)
class Cell:
    """One measure of one method on one system and setting, over repetitions.

    Attributes:
        experiment: Which one.
        system: Name of the system or series.
        setting: As in `Task.setting`.
        comparison: The initial law, or the sub-steps; empty if there is only one.
        measure: Which one.
        method: Name of the method.
        title: Its name in tables.
        runs: Repetitions measured.
        failures: Those that gave no number.
        mean: Over the others; None if there are none.
        std: Over the others, n - 1 in the denominator; 0 for one.
        median_failures_worst: Over all runs, a failed one counting as infinitely bad.
        reasons: Why runs failed, one entry per failed run.
        published: The number in the paper for the same method, if there is one.
    """

    experiment: str
    system: str
    setting: str
    comparison: str
    measure: str
    method: str
    title: str
    runs: int
    failures: int
    mean: float | None
    std: float | None
    median_failures_worst: float
    reasons: tuple[str, ...]
    published: Published | None

    def as_json(self) -> dict[str, Any]:
        """Plain values; infinities as text, because JSON has none."""
        entry = asdict(self)
        if self.published is not None:
            entry["published"] = {key: entry["published"][key] for key in ("mean", "std", "failures")}
        return {key: str(v) if isinstance(v, float) and not math.isfinite(v) else v for key, v in entry.items()}


def summarise(results: Iterable[Measurement]) -> list[Cell]:
    """All cells of some results, in the order of the tables: methods, then systems, then settings."""
    groups: dict[tuple[str, ...], list[Measurement]] = {}
    for r in sorted(results, key=_order):
        key = (r.task.experiment, r.task.system, r.task.setting, r.method, r.method_settings, str(r.task.num_paths))
        groups.setdefault(key, []).append(r)
    return [cell for group in groups.values() for cell in _cells(group)]


def _order(result: Measurement) -> tuple[object, ...]:
    """Systems as in the paper, numbers inside settings by size, methods of the package first."""
    system, method = result.task.system, result.method
    setting = tuple((float(n) if n else math.inf) for n in re.findall(r"=([0-9.]*)", result.task.setting))
    place = NAMES.index(method) if method in NAMES else len(NAMES)
    return (place, method, SYSTEMS.index(system), setting, result.task.repetition)


def _cells(group: list[Measurement]) -> list[Cell]:
    """The cells of one method on one system and setting."""
    names = dict.fromkeys(name for r in group for name in r.scores)
    measured: list[tuple[str, str, list[tuple[float | None, str]]]] = [
        (name, measure, [_path_value(r.scores[name], value) for r in group if name in r.scores])
        for name in names
        for measure, value in _PATH_MEASURES.items()
    ]
    measured += [("", measure, [_value(r, value) for r in group]) for measure, value in _measures(group).items()]
    first = group[0]
    where = (first.task.experiment, first.task.system, first.task.setting)
    return [
        _cell(where, comparison, measure, (first.method, TITLES.get(first.method, first.title)), values)
        for comparison, measure, values in measured
    ]


def _cell(
    where: tuple[str, str, str],
    comparison: str,
    measure: str,
    method: tuple[str, str],
    values: list[tuple[float | None, str]],
) -> Cell:
    good = [value for value, _ in values if value is not None]
    worst = -math.inf if measure in LARGER_IS_BETTER else math.inf
    counted = [worst if value is None else value for value, _ in values]
    middle = statistics.median_high if worst > 0 else statistics.median_low  # never between a number and infinity
    return Cell(
        *where,
        comparison=comparison,
        measure=measure,
        method=method[0],
        title=method[1],
        runs=len(values),
        failures=len(values) - len(good),
        mean=statistics.fmean(good) if good else None,
        std=(statistics.stdev(good) if len(good) > 1 else 0.0) if good else None,
        median_failures_worst=middle(counted),
        reasons=tuple(reason for value, reason in values if value is None),
        published=find(*where, comparison, measure, _published_name(method[0])),
    )


def _published_name(method: str) -> str:
    """Models with any weights stand beside the paper's FIM-SDE."""
    if method == "ours-finetuned":
        return "fim-finetuned"
    is_ours = method in ("ours", "ours-origin") or (method.startswith("fim-") and method != "fim-finetuned")
    return "fim" if is_ours else method


_PATH_MEASURES: dict[str, Callable[[PathScore], float | None]] = {
    "mmd": lambda s: s.printed,
    "mmd_unclipped": lambda s: s.value,
    "mmd_unmatched": lambda s: s.unmatched,
    "p_value": lambda s: s.p_value,
    "simulation_cpu_seconds": lambda s: s.simulation_cpu_seconds,
}


def _measures(group: Sequence[Measurement]) -> dict[str, Callable[[Measurement], float | None]]:
    """Measures of the fit itself: those that some result of the group has, and the time of the fit."""
    found: dict[str, Callable[[Measurement], float | None]] = {"fit_cpu_seconds": lambda r: r.fit_cpu_seconds}
    for part, entries in _PARTS.items():
        if any(getattr(r, part) is not None for r in group):
            found |= {measure: partial(_entry, part=part, name=name) for measure, name in entries.items()}
    return {measure: value for measure, value in found.items() if not all(_is_undefined(r, measure) for r in group)}


def _is_undefined(result: Measurement, measure: str) -> bool:
    """A constant true field has no variance to divide an error by: that is no failure of the method."""
    if not measure.startswith("relative") or result.data_error is None:
        return False
    name = _PARTS["data_error"][measure]
    absolute = getattr(result.data_error, name.removeprefix("relative_"))
    return math.isfinite(absolute) and math.isnan(getattr(result.data_error, name))


def _entry(result: Measurement, part: str, name: str) -> float | None:
    found = getattr(result, part)
    return None if found is None else getattr(found, name)


_PARTS = {
    "grid_error": {"drift_mse": "drift", "diffusion_mse": "diffusion"},
    "data_error": {
        "drift_mse_at_data": "drift",
        "diffusion_mse_at_data": "diffusion",
        "relative_drift_at_data": "relative_drift",
        "relative_diffusion_at_data": "relative_diffusion",
    },
    "likelihood": {"log_likelihood": "mean"},
}


def _path_value(score: PathScore, value: Callable[[PathScore], float | None]) -> tuple[float | None, str]:
    return value(score), score.failure or ""


def _value(result: Measurement, value: Callable[[Measurement], float | None]) -> tuple[float | None, str]:
    number = value(result)
    if number is not None and not math.isfinite(number):
        return None, f"the value is {number}"
    return number, result.failure or ""
