"""Tables of a suite: errors of every method, and ours divided by those of the best specialist.

In each row, that is for each system and setting:

    error of a method = geometric mean over its data sets
    best specialist   = the one with the smallest such error in the row
    ratio             = geometric mean of ours / the best specialist's over the data sets that both have

Data sets on which a method gave no such number are left out of its means; how many stands beside in brackets. Times are
medians, so that the compilation before the first fit of a process does not count.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, fsum, log
from statistics import median
from sys import float_info
from typing import Any

from fimsde.benchmark.suites.cases import Suite, names, settings
from fimsde.benchmark.suites.measure import Score
from fimsde.benchmark.suites.run import Results
from fimsde.systems.bursts import BURSTING

Row = tuple[str, str]  # system and setting
Value = Callable[[Score], float | None]
MEASURES: dict[str, tuple[str, Value]] = {
    "nmse_drift": ("drift, SFI's normalised error", lambda s: s.nmse_drift),
    "nmse_diffusion": ("diffusion, SFI's normalised error (diagonal)", lambda s: s.nmse_diffusion),
    "relative_drift": ("drift, mean square error over variance", lambda s: s.relative_drift),
    "diffusion": ("diffusion, mean square error of its root", lambda s: s.diffusion),
}
_OURS = ("evidence", "ours", "fim")  # names of our methods begin so
_WITHIN = 3.0  # factor by which a diffusion may be off; by hand


@dataclass(frozen=True)
class Table:
    """Heads and cells as text."""

    title: str
    heads: list[str]
    rows: list[list[str]]

    def __str__(self) -> str:
        lines = [self.heads, ["---", *["--:"] * (len(self.heads) - 1)], *self.rows]
        return f"### {self.title}\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def tables(suite: Suite, results: Results) -> list[Table]:
    """All tables of a suite."""
    compared = [comparison(suite, results, measure) for measure in MEASURES]
    extra = [bursting(results)] if suite == "bursts" else []
    return [*extra, *compared, seconds(suite, results)]


def comparison(suite: Suite, results: Results, measure: str) -> Table:
    """Errors of every method, and ours over the best specialist's, with their geometric mean over systems."""
    title, value = MEASURES[measure]
    ours = [name for name in results if name.startswith(_OURS)]
    rows, logs = [], {(name, setting): [] for name in ours for setting in settings(suite)}  # type: ignore[var-annotated]
    for row in _rows(suite, results):
        best = best_specialist(results, row, value)
        ratios = {name: ratio(results, row, value, name, best) for name in ours}
        for name, found in ratios.items():
            if found is not None:
                logs[name, row[1]].append(found)
        texts = [_mean_text(results[name], row, value) for name in results]
        rows.append([_label(row), *texts, *(_number(ratios[name]) for name in ours)])
    for setting in settings(suite):
        means = [_number(geometric_mean(logs[name, setting]) if logs[name, setting] else None) for name in ours]
        rows.append([_label(("geometric mean", setting)), *[""] * len(results), *means])
    return Table(title, ["", *results, *(f"{name} / best other" for name in ours)], rows)


def seconds(suite: Suite, results: Results) -> Table:
    """Median CPU seconds of a fit, and how many times longer the specialist with the best drift takes."""
    ours = [name for name in results if name.startswith(_OURS)]
    rows = []
    for row in _rows(suite, results):
        times = {name: [s.seconds for s in _scores(scores, row)] for name, scores in results.items()}
        middle = {name: median(found) if found else None for name, found in times.items()}
        best = best_specialist(results, row, MEASURES["nmse_drift"][1])
        longest = middle[best] if best else None
        speeds = [_number(longest / middle[n] if longest and middle[n] else None) for n in ours]  # type: ignore[operator]
        rows.append([_label(row), *(_number(middle[name]) for name in results), *speeds])
    return Table("CPU seconds of a fit", ["", *results, *(f"best other / {name}" for name in ours)], rows)


def bursting(results: Results) -> Table:
    """Of each parameter set: noise variance and g over the truth, of the component that bursts and the worst; drift."""
    rows = []
    for name, scores in results.items():
        for score in (scores[key] for key in sorted(scores, key=lambda key: key[2])):
            if score.relative_drift is None or score.rate_ratio is None:
                rows.append([name, str(score.repetition), "failed", *[""] * 5])
                continue
            noise = score.noise_ratio
            noises = ["", ""] if noise is None else [_number(noise[BURSTING]), _number(_worst(noise))]
            errors = [_number(score.relative_drift), _number(score.relative_drift**0.5)]
            rates = [_number(score.rate_ratio[BURSTING]), _number(_worst(score.rate_ratio))]
            rows.append([name, str(score.repetition), *noises, *errors, *rates])
        rows.append([name, "good", *_goods(list(scores.values()))])
    heads = ["method", "set", "noise variance / truth, bursting", "worst", "drift, mean square", "root"]
    return Table("Bursts, one by one", [*heads, "g / truth, bursting", "worst"], rows)


def _goods(scores: Sequence[Score]) -> list[str]:
    """How many sets have a noise variance within 20 %, a drift error of at most 0.03, g within a factor of three."""
    found = [s for s in scores if s.relative_drift is not None and s.rate_ratio is not None]
    within = [_share([abs(s.noise_ratio[BURSTING] - 1) <= 0.2 for s in found if s.noise_ratio])]
    within.append(_share([max(abs(v - 1) for v in s.noise_ratio) <= 0.2 for s in found if s.noise_ratio]))
    within += [_share([(s.relative_drift or 0.0) ** power <= 0.03 for s in found]) for power in (1, 0.5)]
    within.append(_share([_is_near(s.rate_ratio[BURSTING]) for s in found if s.rate_ratio]))
    within.append(_share([all(map(_is_near, s.rate_ratio)) for s in found if s.rate_ratio]))
    return within


def _share(good: Sequence[bool]) -> str:
    return f"{sum(good)} of {len(good)}"


def _is_near(value: float) -> bool:
    return 1 / _WITHIN <= value <= _WITHIN


def _worst(ratios: Sequence[float]) -> float:
    """The ratio farthest from one, up or down."""
    return max(ratios, key=lambda v: abs(log(max(v, float_info.min))))


def best_specialist(results: Results, row: Row, value: Value) -> str | None:
    """The method of others with the smallest mean error in a row."""
    means = {
        name: geometric_mean(list(found.values()))
        for name, scores in results.items()
        if not name.startswith(_OURS) and (found := _values(scores, row, value))
    }
    return min(means, key=means.__getitem__) if means else None


def ratio(results: Results, row: Row, value: Value, name: str, best: str | None) -> float | None:
    """Geometric mean of our errors over the best specialist's, on the data sets that both have, if there are any."""
    if best is None:
        return None
    mine, theirs = (_values(results[method], row, value) for method in (name, best))
    common = mine.keys() & theirs.keys()
    return geometric_mean([mine[r] / max(theirs[r], float_info.min) for r in common]) if common else None


def geometric_mean(values: Sequence[float]) -> float:
    """exp of the mean logarithm; zeros count as the smallest number there is."""
    return exp(fsum(log(max(v, float_info.min)) for v in values) / len(values))


def as_json(suite: Suite, results: Results) -> list[dict[str, Any]]:
    """Every measure of every method in every row, as plain values."""
    return [
        {
            "suite": suite,
            "system": row[0],
            "setting": row[1],
            "method": name,
            "data_sets": len(_scores(scores, row)),
            **{m: _mean(_values(scores, row, value)) for m, (_, value) in MEASURES.items()},
        }
        for row in _rows(suite, results)
        for name, scores in results.items()
    ]


def _rows(suite: Suite, results: Results) -> list[Row]:
    there = {(key[0], key[1]) for scores in results.values() for key in scores}
    return [(system, setting) for setting in settings(suite) for system in names(suite) if (system, setting) in there]


def _scores(scores: dict[tuple[str, str, int], Score], row: Row) -> list[Score]:
    return [score for key, score in scores.items() if key[:2] == row]


def _values(scores: dict[tuple[str, str, int], Score], row: Row, value: Value) -> dict[int, float]:
    return {s.repetition: v for s in _scores(scores, row) if (v := value(s)) is not None}


def _mean(values: dict[int, float]) -> float | None:
    return geometric_mean(list(values.values())) if values else None


def _mean_text(scores: dict[tuple[str, str, int], Score], row: Row, value: Value) -> str:
    failed = sum(value(s) is None for s in _scores(scores, row))
    return _number(_mean(_values(scores, row, value))) + (f" ({failed} failed)" if failed else "")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _label(row: Row) -> str:
    return ", ".join(filter(None, (row[0].replace("_", " "), row[1].replace("=", " "))))
