"""Calibration of the verdicts: false alarms on data of the right class, and how often each way to be wrong is named.

One small file per kind of data, written after every data set, so that a run can be stopped at any moment and goes on
where it stopped.
"""

import json
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from fimsde.analysis.check import Checks
from fimsde.benchmark.verdict_data import CELLS, ROWS, Cell, Row, right_class
from fimsde.data.observations import Observations
from fimsde.errors import DatasetError, DataWarning
from fimsde.files.write import write_file
from fimsde.results.make import estimate

FOLDER = "verdicts"
REPETITIONS, QUICK = 100, 2  # data sets of each kind: the number that the bars speak of, and enough to see that it runs
_QUICK_CELLS, _QUICK_EVERY = (0, 4), 3  # which cells, and every how many rows, are in the small version


@dataclass(frozen=True)
class Outcome:
    """What the verdicts said about one data set.

    Attributes:
        seed: Of the data.
        status: The overall light.
        causes: Names of the causes, the first one first.
        doubts: Names of all verdicts that are not good.
        cpu_seconds: Of the check alone.
    """

    seed: int
    status: str
    causes: tuple[str, ...]
    doubts: tuple[str, ...]
    cpu_seconds: float


@dataclass(frozen=True)
class Kind:
    """One line of a table: a cell of right data, or a strength of a wrong row."""

    cell: Cell | None = None
    row: Row | None = None
    strength: float = 0.0

    @property
    def name(self) -> str:
        """For tables, and for the name of the file."""
        return str(self.cell) if self.row is None else f"{self.row.name}: {self.strength:g} {self.row.unit}"

    def data(self, seed: int) -> Observations:
        """The data of a seed."""
        if self.row is not None:
            return self.row.make(self.strength, seed)
        assert self.cell is not None
        return right_class(self.cell, seed)


def kinds(*, quick: bool = False) -> list[Kind]:
    """All cells, then all rows with three strengths each; a few of them if it is to be quick."""
    cells = [CELLS[k] for k in _QUICK_CELLS] if quick else list(CELLS)
    rows = ROWS[::_QUICK_EVERY] if quick else ROWS
    strong = [Kind(row=row, strength=s) for row in rows for s in (row.strengths[2:] if quick else row.strengths)]
    return [*(Kind(cell=cell) for cell in cells), *strong]


def run(
    out: str | Path, *, seed: int = 0, repetitions: int | None = None, quick: bool = False
) -> Iterator[tuple[Kind, list[Outcome]]]:
    """Check estimates of all kinds of data; what is stored is not computed again.

    Args:
        out: Folder of the result files.
        seed: Data set i of every kind has the seed 10000 * seed + i.
        repetitions: Data sets of each kind.
        quick: A small version.
    """
    num = repetitions or (QUICK if quick else REPETITIONS)
    for kind in kinds(quick=quick):
        file = Path(out) / FOLDER / f"{seed}-{_file_name(kind)}.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        done = read(file)
        for i in range(len(done), num):
            done.append(judge(kind, 10_000 * seed + i))
            write_file(file, json.dumps([asdict(outcome) for outcome in done], indent=0).encode())
        yield kind, done[:num]


def read(file: Path) -> list[Outcome]:
    """Stored outcomes; none if there is no file."""
    if not file.is_file():
        return []
    try:
        stored = json.loads(file.read_text())
        return [Outcome(**{**o, "causes": tuple(o["causes"]), "doubts": tuple(o["doubts"])}) for o in stored]
    except (ValueError, TypeError, KeyError) as error:
        raise DatasetError(f"{file} holds no outcomes of verdicts: {error}. Remove it.") from error


def judge(kind: Kind, seed: int) -> Outcome:
    """Estimate and check one data set."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        result = estimate(kind.data(seed))
        before = time.process_time()
        checks: Checks = result.check()
    doubts = tuple(v.name for v in checks if v.status != "good")
    causes = tuple(v.name for v in checks.causes)
    return Outcome(seed, checks.status, causes, doubts, time.process_time() - before)


def table(found: Sequence[tuple[Kind, list[Outcome]]]) -> str:
    """Two tables in Markdown: false alarms with the verdicts that raised them, and rates of naming."""
    lines = ["| right class | data sets | light not good | verdicts that are causes | CPU s |", "|---|--:|--:|---|--:|"]
    for kind, outcomes in found:
        if kind.row is None:
            counts = Counter(name for o in outcomes for name in o.causes)
            named = ", ".join(f"{name} {num}" for name, num in counts.most_common()) or "none"
            lost = sum(o.status != "good" for o in outcomes)
            lines.append(f"| {kind.name} | {len(outcomes)} | {lost / len(outcomes):.1%} | {named} | {_cpu(outcomes)} |")
    lines += ["", "| wrong class | data sets | named | first | CPU s |", "|---|--:|--:|--:|--:|"]
    for kind, outcomes in found:
        if kind.row is not None:
            wanted = set(kind.row.verdicts)
            named_share = sum(bool(wanted & set(o.causes)) for o in outcomes) / len(outcomes)
            first = sum(bool(o.causes) and o.causes[0] in wanted for o in outcomes) / len(outcomes)
            lines.append(f"| {kind.name} | {len(outcomes)} | {named_share:.0%} | {first:.0%} | {_cpu(outcomes)} |")
    return "\n".join(lines)


def _cpu(outcomes: Sequence[Outcome]) -> str:
    times = sorted(o.cpu_seconds for o in outcomes)
    return f"{times[len(times) // 2]:.2f}"


def _file_name(kind: Kind) -> str:
    return "".join(c if c.isalnum() else "-" for c in kind.name)
