"""Scores on disk: one file for each suite, seed and method with its settings; one line for each case.

A file is written anew whenever a case is done, in one step, so that it is complete at any moment.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path

from fimsde.benchmark.suites.cases import Suite
from fimsde.benchmark.suites.measure import Score
from fimsde.errors import DatasetError
from fimsde.files.write import write_file
from fimsde.methods import AnyMethod

_FORMAT = 1  # a count: raise when older files no longer mean the same
_DIGITS = 6  # that are kept
Key = tuple[str, str, int]  # system, setting, repetition


def scores_file(folder: Path, suite: Suite, seed: int, method: AnyMethod) -> Path:
    """Where scores lie; different for every setting of the method, such as other weights."""
    digest = hashlib.sha256(f"{_FORMAT} {method.settings}".encode()).hexdigest()[:8]
    return folder / suite / f"{method.name}-seed{seed}-{digest}.json"


def read_scores(file: Path) -> dict[Key, Score]:
    """The scores of a file by case; none if there is no file. A damaged one is an error that names it."""
    if not file.exists():
        return {}
    try:
        stored = json.loads(file.read_text(encoding="utf-8"))
        if stored["format"] != _FORMAT:
            raise ValueError("written by another version")
        scores = [Score(**row) for row in stored["scores"]]
    except (ValueError, TypeError, KeyError) as error:
        raise DatasetError(f"{file} holds no readable scores ({error}); delete it and run again.") from error
    return {(s.system, s.setting, s.repetition): s for s in scores}


def write_scores(file: Path, method: AnyMethod, scores: dict[Key, Score]) -> None:
    """All scores of a method, sorted by case, one line each."""
    head = {"format": _FORMAT, "method": method.name, "title": method.title, "settings": method.settings}
    lines = ",\n".join(json.dumps(_rounded(asdict(scores[key])), allow_nan=False) for key in sorted(scores))
    text = json.dumps(head, indent=1)[:-2] + f',\n "scores": [\n{lines}\n]}}\n'
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, text.encode())


def _rounded(row: dict[str, object]) -> dict[str, object]:
    """Without what is None, and numbers with six digits."""
    return {key: _short(value) for key, value in row.items() if value is not None}


def _short(value: object) -> object:
    if isinstance(value, list):
        return [_short(entry) for entry in value]
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
