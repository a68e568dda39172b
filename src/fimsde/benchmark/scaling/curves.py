"""Learning curves on disk: a first line that says what was trained, then one line for every judgement."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fimsde.benchmark.scaling.arms import Arm
from fimsde.benchmark.scaling.judge import Judgement
from fimsde.errors import DatasetError
from fimsde.files.identities import settings_hash
from fimsde.files.write import write_file

_FORMAT = 3  # a count: raise when older files no longer mean the same
_DIGITS = 6  # of stored numbers
FOLDER = Path("ablation", "curves")  # below the results


@dataclass(frozen=True)
class Point:
    """An arm at one moment.

    Attributes:
        step: Optimiser steps done.
        equations: Equations read so far, the same one counted as often as it was read.
        cpu_seconds: Of training, the making of equations included, judgements not.
        judgement: Of the averaged weights; None where nothing was judged.
    """

    step: int
    equations: int
    cpu_seconds: float
    judgement: Judgement | None = None


@dataclass(frozen=True)
class Curve:
    """All moments of an arm; `parameters` counts weights, `settings` is the hash of its configuration."""

    arm: str
    parameters: int
    settings: str
    points: tuple[Point, ...]

    @property
    def judged(self) -> tuple[Point, ...]:
        """The points with a judgement."""
        return tuple(point for point in self.points if point.judgement is not None)


def empty_curve(arm: Arm) -> Curve:
    """A curve without points."""
    return Curve(arm.name, arm.config.model.num_parameters, settings_hash(arm.config.to_mapping()), ())


def curve_file(results: Path, arm: str) -> Path:
    """Where the curve of an arm lies below a folder of results."""
    return results / FOLDER / f"{arm}.jsonl"


def write_curve(file: Path, curve: Curve) -> None:
    """Write all points, in one step."""
    head = {"format": _FORMAT, "arm": curve.arm, "parameters": curve.parameters, "settings": curve.settings}
    lines = [head, *(_short(asdict(point)) for point in curve.points)]
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode())


def read_curve(file: Path) -> Curve:
    """A stored curve; a damaged file is an error that names it."""
    try:
        head, *lines = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        if head["format"] != _FORMAT:
            raise ValueError("written by another version")
        points = tuple(_point(line) for line in lines)
        return Curve(head["arm"], head["parameters"], head["settings"], points)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise DatasetError(f"{file} holds no readable learning curve ({error}); delete it and run again.") from error


def read_curves(results: Path, arms: Sequence[Arm]) -> dict[str, Curve]:
    """The stored curves of arms, by name; an arm that was not begun has none."""
    files = {arm.name: curve_file(results, arm.name) for arm in arms}
    return {name: read_curve(file) for name, file in files.items() if file.exists()}


def _point(line: dict[str, Any]) -> Point:
    stored = line.pop("judgement", None)
    if stored is None:
        return Point(**line)
    numbers: dict[str, Any] = {name: None if found is None else tuple(found) for name, found in stored.items()}
    return Point(**line, judgement=Judgement(**numbers))


def _short(value: Any) -> Any:
    """Without what is None, and numbers with six digits."""
    if isinstance(value, dict):
        return {key: _short(entry) for key, entry in value.items() if entry is not None or key.endswith("loss")}
    if isinstance(value, list | tuple):
        return [_short(entry) for entry in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
