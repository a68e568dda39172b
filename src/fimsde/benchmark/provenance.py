"""Whether stored results were made by the present code, and what to run for those that were not."""

from collections.abc import Iterable
from pathlib import Path

from fimsde.benchmark.fingerprint import UNKNOWN, fingerprint
from fimsde.benchmark.results import Measurement
from fimsde.methods import NAMES


def is_present(result: Measurement) -> bool:
    """Whether the code that decides the numbers of a result is the code that made them."""
    return result.code == fingerprint(result.method)


def remarks(results: Iterable[Measurement], out: Path) -> list[str]:
    """One sentence for every method of an experiment with results made by other or by unknown code."""
    by_method: dict[str, list[Measurement]] = {}
    for result in results:
        by_method.setdefault(result.method, []).append(result)
    return [line for method, group in by_method.items() if (line := _remark(method, group, out))]


def _remark(method: str, group: list[Measurement], out: Path) -> str:
    old = [result for result in group if not is_present(result)]
    if not old:
        return ""
    unknown = sum(result.code == UNKNOWN for result in old)
    counts = [(len(old) - unknown, "other code"), (unknown, "unknown code")]
    made = " and ".join(f"{number} by {code}" for number, code in counts if number)
    systems = dict.fromkeys(result.task.system for result in old)
    where = f" ({', '.join(systems)})" if len(systems) < len({result.task.system for result in group}) else ""
    said = f"of {len(group)} stored results, {made}{where}; they are kept."
    return f"{group[0].task.experiment}, {method}: {said} {_advice(method, old[0], out)}"


def _advice(method: str, result: Measurement, out: Path) -> str:
    seed = f" --seed {result.task.seed}" if result.task.seed else ""
    if method in NAMES:
        command = f"fimsde bench {result.task.experiment} --methods {method}{seed} --out {out}"
    elif method.startswith("fim-"):
        command = f"fimsde bench {result.task.experiment} --weights FOLDER{seed} --out {out}"
    else:
        return "To compute them again: run(..., renew=True)."
    return f"To compare a sample and adopt them: {command} --adopt 5. To compute them again: --renew in its place."
