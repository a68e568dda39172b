"""Stored results of other or unknown code are adopted by the present code if a sample of them comes out the same.

The sample is spread evenly over the stored results of a method. Each of its members is computed anew, with paths if it
has paths, and all its numbers but the times must agree: |a - b| <= RELATIVE max(|a|, |b|), or |a - b| <= ABSOLUTE for
discrepancies of paths, which lie around zero, and for their p-values. Other processors round otherwise, which moves the
smallest of our errors by 1e-4 of their size. What is adopted keeps its numbers to the last digit.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fimsde.benchmark.fingerprint import fingerprint
from fimsde.benchmark.measure import at_iterations, measure
from fimsde.benchmark.provenance import is_present
from fimsde.benchmark.results import Measurement, mark_adopted
from fimsde.benchmark.run import gram_folder
from fimsde.benchmark.tasks import load
from fimsde.methods import AnyMethod

RELATIVE = 1e-3  # ten times what other processors move
# by hand: far below the spread over runs, and ten relabellings of 999
ABSOLUTE = {"value": 1e-4, "unmatched": 1e-4, "p_value": 1e-2}


@dataclass(frozen=True)
class Adoption:
    """What became of the stored results of a method.

    Attributes:
        method: Its name.
        num_old: Results that were not made by the present code.
        num_compared: Those of them that were computed again.
        difference: The first number that was another, in a sentence; None if all agreed.
    """

    method: str
    num_old: int
    num_compared: int
    difference: str | None

    def __str__(self) -> str:
        if not self.num_old:
            return f"{self.method}: nothing to adopt."
        sample = f"{self.num_compared} of {self.num_old} stored results computed again"
        if self.difference is not None:
            return f"{self.method}: {sample}, none adopted: {self.difference}"
        return f"{self.method}: {sample}, all numbers within {RELATIVE:g}; all {self.num_old} adopted."


def adopt(
    method: AnyMethod,
    stored: Sequence[Measurement],
    *,
    out: Path,
    sample: int,
    data: Path | None = None,
    cache: Path | None = None,
) -> Adoption:
    """Compute a sample of stored results again; if it agrees, all of them carry the fingerprint of the present code.

    Args:
        method: Whose results; those with other settings (other weights) are left alone.
        stored: Results of an experiment.
        out: Folder of the result files.
        sample: How many to compute again.
        data: See `Options`.
        cache: See `Options`.
    """
    cache = gram_folder() if cache is None else cache
    old = [r for r in stored if r.method == method.name and _is_of(method, r) and not is_present(r)]
    step = max(1, math.ceil(len(old) / sample))
    chosen = old[step // 2 :: step]
    for number, result in enumerate(chosen, start=1):
        problem = load(result.task, data)
        again = measure(result.task, method, problem, compare_paths=bool(result.scores), cache=cache)
        if difference := first_difference(result, again):
            return Adoption(method.name, len(old), number, difference)
    for result in old:
        mark_adopted(result, out, fingerprint(result.method))
    return Adoption(method.name, len(old), len(chosen), None)


def _is_of(method: AnyMethod, result: Measurement) -> bool:
    return at_iterations(method, result.task.iterations).settings == result.method_settings


def first_difference(stored: Measurement, again: Measurement) -> str | None:
    """The first number in which two results of one task differ, or None."""
    now = dict(_numbers(again))
    for name, value in _numbers(stored):
        if not _agree(value, now.get(name), ABSOLUTE.get(name.rsplit(".", 1)[-1], 0.0)):
            return f"{_place(stored)} has {name} = {value} and now {now.get(name)}."
    return None


def _place(result: Measurement) -> str:
    task = result.task
    return " ".join(filter(None, (task.system, task.setting, f"repetition {task.repetition}")))


def _numbers(result: Measurement) -> Iterator[tuple[str, float | str | None]]:
    """All numbers of a result but times, and kinds of failure without their numbers, which rounding may move."""
    yield "failure", _kind(result.failure)
    for part in ("grid_error", "data_error", "likelihood"):
        found = getattr(result, part)
        for name, value in {} if found is None else vars(found).items():
            if name != "num_impossible":  # was not counted from the beginning
                yield f"{part}.{name}", value
    for comparison, score in result.scores.items():
        place = ".".join(filter(None, ("scores", comparison)))
        yield f"{place}.failure", _kind(score.failure)
        for name in ABSOLUTE:
            yield f"{place}.{name}", getattr(score, name)


def _kind(failure: str | None) -> str | None:
    return failure and failure.split(":")[0]


def _agree(a: float | str | None, b: float | str | None, absolute: float) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=absolute) or (math.isnan(a) and math.isnan(b))
    return a == b
