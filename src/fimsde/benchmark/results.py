"""Results on disk: one small JSON file per task, method and repetition, complete or absent."""

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from fimsde.benchmark.fingerprint import UNKNOWN
from fimsde.benchmark.tasks import Experiment, Task, compared_paths
from fimsde.errors import DatasetError
from fimsde.files.write import write_file
from fimsde.metrics.likelihood import TransitionLikelihood
from fimsde.metrics.vector_field import FieldError

_FORMAT = 1  # a count: raise when older files no longer mean the same
T = TypeVar("T")


@dataclass(frozen=True)
class PathScore:
    """Model paths against the reference paths of one comparison.

    Attributes:
        failure: Why there is no number, or None. One lost path makes a run failed, as in the paper.
        value: The paper's estimate before clipping.
        unmatched: Without the pairs that share a start.
        p_value: Of the permutation test.
        simulation_cpu_seconds: Time to simulate all paths.
    """

    failure: str | None
    value: float | None
    unmatched: float | None
    p_value: float | None
    simulation_cpu_seconds: float

    @property
    def printed(self) -> float | None:
        """The number in the paper's tables: clipped at zero."""
        return None if self.value is None else max(self.value, 0.0)


@dataclass(frozen=True)
class Measurement:
    """What one method achieved on one task.

    Attributes:
        task: The data.
        method: Name of the method.
        title: Its name in tables.
        method_settings: With what settings.
        failure: Why there is no estimate, or None.
        fit_cpu_seconds: Time of the fit alone.
        grid_error: Errors on the paper's grid, None if there is no truth or no equation.
        data_error: Errors at the clean states of the data.
        likelihood: Of held-out steps.
        scores: By the name of the comparison; empty if paths were not compared.
        versions: Of what computed it.
        code: Fingerprint of the code that made the numbers; "unknown" for results from before there were any.
        adopted: The code was not this one, but gave the same numbers for a sample of the results.
    """

    task: Task
    method: str
    title: str
    method_settings: str
    failure: str | None
    fit_cpu_seconds: float
    grid_error: FieldError | None
    data_error: FieldError | None
    likelihood: TransitionLikelihood | None
    scores: dict[str, PathScore]
    versions: dict[str, str]
    code: str = UNKNOWN
    adopted: bool = False


def result_file(folder: Path, task: Task, method: str, method_settings: str) -> Path:
    """Where a result lies; readable, and different for every setting of task and method."""
    key = json.dumps([_FORMAT, asdict(task), method, method_settings], sort_keys=True)
    digest = hashlib.sha256(key.encode()).hexdigest()[:8]
    group = Path(task.experiment, task.system, task.setting.replace("=", "").replace(",", "-"))
    return folder / group / f"{method}-{task.repetition}-{digest}.json"


def save(result: Measurement, folder: Path) -> None:
    """Write a result under its final name only when it is complete."""
    file = result_file(folder, result.task, result.method, result.method_settings)
    text = json.dumps({"format": _FORMAT, **_plain(asdict(result))}, indent=1, allow_nan=False) + "\n"
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, text.encode())


def mark_adopted(result: Measurement, folder: Path, code: str) -> None:
    """Write the fingerprint into a stored file and leave all else in it as it is, to the last digit."""
    file = result_file(folder, result.task, result.method, result.method_settings)
    stored = json.loads(file.read_text()) | {"code": code, "adopted": True}
    write_file(file, (json.dumps(stored, indent=1, allow_nan=False) + "\n").encode())


def read_all(folder: Path, experiment: Experiment, *, seed: int, quick: bool = False) -> list[Measurement]:
    """All stored results of an experiment with a seed, in the order of methods, systems and settings of their files.

    Args:
        folder: Where results lie.
        experiment: Which one.
        seed: Results of other seeds are left out.
        quick: Those of quick runs, where these compare fewer paths, or the others.
    """
    files = (file for file in (folder / experiment).rglob("*.json") if not file.name.startswith("."))
    results = [read(file) for file in sorted(files)]
    num_paths = compared_paths(experiment, quick)
    return [r for r in results if r.task.seed == seed and r.task.num_paths == num_paths]


def read(file: Path) -> Measurement:
    """One stored result; a damaged file is an error that names it."""
    try:
        stored = _numbers(json.loads(file.read_text()))
        if stored.pop("format") != _FORMAT:
            raise ValueError("written by another version")
        return Measurement(
            task=Task(**stored.pop("task")),
            grid_error=_optional(FieldError, stored.pop("grid_error")),
            data_error=_optional(FieldError, stored.pop("data_error")),
            likelihood=_optional(TransitionLikelihood, stored.pop("likelihood")),
            scores={name: PathScore(**score) for name, score in stored.pop("scores").items()},
            **stored,
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DatasetError(f"{file} is not a readable result ({error}); delete it and run again.") from error


def _optional(kind: type[T], stored: dict[str, Any] | None) -> T | None:
    return None if stored is None else kind(**stored)


def _plain(value: Any) -> Any:
    """JSON has no infinities: they are written as text."""
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _numbers(entry) for key, entry in value.items()}
    return float(value) if value in ("inf", "-inf", "nan") else value
