"""Results of the wide suite on disk: one file per family, method and seed, a line per data set, always complete."""

import hashlib
import json
from collections.abc import Iterator
from dataclasses import astuple, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from fimsde.benchmark.fingerprint import digest_of, own_places
from fimsde.benchmark.wide.measure import Errors, WideResult
from fimsde.benchmark.wide.tasks import Column, WideTask
from fimsde.errors import DatasetError
from fimsde.files.write import write_file

_FORMAT = 1  # a count: raise when older files no longer mean the same
DECIDE = (  # for every method: the data, and what is measured on them
    *("data", "equations", "simulate.py", "systems/wide", "systems/canonical.py"),
    *("benchmark/wide/tasks.py", "benchmark/wide/data.py", "benchmark/wide/measure.py"),
)


@dataclass
class Stored:
    """The results of a method on a family with a seed.

    Attributes:
        family: Name of the family.
        method: Name of the method.
        title: Its name in tables.
        settings: Its settings; results with others are in other files.
        seed: Of the systems.
        rows: A result, and the fingerprint of the code that made it, by draw and column.
    """

    family: str
    method: str
    title: str
    settings: str
    seed: int
    rows: dict[tuple[int, Column], tuple[WideResult, str]] = field(default_factory=dict)

    def has(self, task: WideTask, code: str | None = None) -> bool:
        """Whether there is a result of a task; with `code`, one that this code made."""
        row = self.rows.get((task.draw, task.column))
        return row is not None and code in (None, row[1])


@lru_cache
def fingerprint(method: str) -> str:
    """The digest of the code that decides the numbers of a method in the wide suite."""
    return digest_of((*DECIDE, *own_places(method)))


def file_of(folder: Path, family: str, method: str, settings: str, seed: int) -> Path:
    """Where the results of a method on a family lie; other settings and seeds have other names."""
    digest = hashlib.sha256(json.dumps([_FORMAT, settings]).encode()).hexdigest()[:8]
    return folder / "wide" / family / f"{method}-{seed}-{digest}.json"


def save(stored: Stored, folder: Path) -> None:
    """Write all results in place of what was there, in one step."""
    head = {"format": _FORMAT} | {name: getattr(stored, name) for name in _HEAD}
    rows = [
        [draw, *astuple(column), *astuple(result.errors), result.cpu_seconds, result.failure, code]
        for (draw, column), (result, code) in sorted(stored.rows.items(), key=lambda item: (item[0][0], str(item[0])))
    ]
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    file = file_of(folder, stored.family, stored.method, stored.settings, stored.seed)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, f'{json.dumps(head)[:-1]},\n"rows": [\n{lines}\n]}}\n'.encode())


_HEAD = ("family", "method", "title", "settings", "seed")


def read(file: Path) -> Stored:
    """One stored file; a damaged one is an error that names it."""
    try:
        content = json.loads(file.read_text())
        if content.pop("format") != _FORMAT:
            raise ValueError("written by another version")
        rows = dict(_row(row) for row in content.pop("rows"))
        return Stored(**content, rows=rows)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DatasetError(f"{file} is not a readable result ({error}); delete it and run again.") from error


def _row(row: list[Any]) -> tuple[tuple[int, Column], tuple[WideResult, str]]:
    draw, noise_std, gap, length, *errors, seconds, failure, code = row
    return (draw, Column(noise_std, gap, length)), (WideResult(Errors(*errors), seconds, failure), code)


def read_all(folder: Path, seed: int) -> Iterator[Stored]:
    """All stored results with a seed, in the order of their files."""
    for file in sorted((folder / "wide").glob("*/*.json")):
        stored = None if file.name.startswith(".") else read(file)
        if stored is not None and stored.seed == seed:
            yield stored
