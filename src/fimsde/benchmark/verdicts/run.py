"""Calibration of the verdicts: false alarms on data of the right class, and how often each way to be wrong is named.

One small file per kind of data, written after every data set, so that a run can be stopped at any moment and goes on
where it stopped.
"""

import json
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from fimsde.analysis.check import Checks
from fimsde.benchmark.fingerprint import UNKNOWN, digest_of
from fimsde.benchmark.verdicts.right import CELLS, Cell, Right, right_class
from fimsde.benchmark.verdicts.wrong import ROWS, Row
from fimsde.data.observations import Observations
from fimsde.errors import DatasetError, DataWarning, FimsdeError
from fimsde.files.write import write_file
from fimsde.filter.kalman import innovations
from fimsde.results.make import fit

FOLDER = "verdicts"
METHOD = "evidence"  # whose results are checked
# what decides an outcome
CODE = (
    "analysis/check.py",
    "analysis/diagnosis",
    "analysis/replay.py",
    "analysis/residuals.py",
    "benchmark/verdicts/right.py",
    "benchmark/verdicts/wrong.py",
    "data",
    "evidence",
    "filter",
)
# data sets: of each cell (1000 in all), of each row at its largest strength (the number of the bars) and at others
REPETITIONS, STRONG, WEAK = 125, 100, 40
QUICK = 2  # of each kind: enough to see that it runs
_QUICK_CELLS, _QUICK_EVERY = (0, 4), 3  # which cells, and every how many rows, are in the small version


@dataclass(frozen=True)
class Outcome:
    """What the verdicts said about one data set.

    Attributes:
        seed: Of the data.
        status: The overall light; "none" if there was no estimate.
        causes: Names of the causes, the first one first.
        doubts: Names of all verdicts that are not good.
        cpu_seconds: Of the check alone.
        lost: By how much the true equation predicts the data better than the estimate, in nats per step and component;
            None where there is no true equation of the class.
        numbers: Of the verdicts that are causes: a period, a time, a rate.
        nats: The same in all.
        quiet: Share of steps at which the true equation has no noise, in the component that has the most; our verdicts
            have no law there.
        code: Digest of the code that decides it.
    """

    seed: int
    status: str
    causes: tuple[str, ...]
    doubts: tuple[str, ...]
    cpu_seconds: float
    lost: float | None = None
    numbers: tuple[float | None, ...] = ()
    nats: float = 0.0
    quiet: float = 0.0
    code: str = UNKNOWN


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

    @property
    def repetitions(self) -> int:
        """Data sets in a report."""
        if self.row is None:
            return REPETITIONS
        return STRONG if self.strength == self.row.strengths[2] else WEAK

    def data(self, seed: int) -> Right | Observations:
        """The data of a seed; with the truth if they are of the right class."""
        if self.row is not None:
            return self.row.make(self.strength, seed)
        assert self.cell is not None
        return right_class(self.cell, seed)


def kinds(*, quick: bool = False) -> list[Kind]:
    """All cells, then all rows with three strengths each, the largest first; a few of them if it is to be quick."""
    cells = [CELLS[k] for k in _QUICK_CELLS] if quick else list(CELLS)
    rows = ROWS[::_QUICK_EVERY] if quick else ROWS
    strong = [Kind(row=row, strength=row.strengths[2]) for row in rows]
    weaker = [] if quick else [Kind(row=row, strength=row.strengths[k]) for k in (1, 0) for row in rows]
    return [*(Kind(cell=cell) for cell in cells), *strong, *weaker]


def run(
    out: str | Path, *, seed: int = 0, repetitions: int | None = None, quick: bool = False, compute: bool = True
) -> Iterator[tuple[Kind, list[Outcome]]]:
    """Check estimates of all kinds of data; what is stored is not computed again.

    Args:
        out: Folder of the result files.
        seed: Data set i of every kind has the seed 10000 * seed + i.
        repetitions: Data sets of each kind.
        quick: A small version.
        compute: Whether what is missing is computed; else it is left out.
    """
    for kind in kinds(quick=quick):
        num = repetitions or (QUICK if quick else kind.repetitions)
        file = Path(out) / FOLDER / f"{seed}-{_file_name(kind)}.json"
        done = read(file)
        for i in range(len(done), num if compute else 0):
            file.parent.mkdir(parents=True, exist_ok=True)
            done.append(judge(kind, 10_000 * seed + i))
            write_file(file, json.dumps([asdict(outcome) for outcome in done], indent=0).encode())
        if done:
            yield kind, done[:num]


def read(file: Path) -> list[Outcome]:
    """Stored outcomes; none if there is no file."""
    if not file.is_file():
        return []
    try:
        stored = json.loads(file.read_text())
        tuples = ("causes", "doubts", "numbers")
        return [Outcome(**{**o, **{name: tuple(o[name]) for name in tuples}}) for o in stored]
    except (ValueError, TypeError, KeyError) as error:
        raise DatasetError(f"{file} holds no outcomes of verdicts: {error}. Remove it.") from error


def judge(kind: Kind, seed: int) -> Outcome:
    """Estimate and check one data set."""
    made = kind.data(seed)
    obs = made.observations if isinstance(made, Right) else made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        try:
            result = fit(obs, METHOD)
        except (FimsdeError, np.linalg.LinAlgError, ValueError):
            return Outcome(seed, "none", (), (), 0.0, code=digest_of(CODE))
        before = time.process_time()
        checks: Checks = result.check()
        seconds = time.process_time() - before
        lost, quiet = None, 0.0
        if isinstance(made, Right):
            true = innovations(made.truth, obs, made.noise_std)
            lost = (float(true.likelihood.sum()) - result.log_likelihood(obs)) / (obs.num_transitions * obs.dim)
            quiet = float(true.quiet.mean(axis=0).max())
    doubts = tuple(v.name for v in checks if v.status != "good")
    numbers = tuple(float(v.number) if np.isfinite(v.number) else None for v in checks.causes)
    causes = tuple(v.name for v in checks.causes)
    lost = lost if lost is not None and np.isfinite(lost) else None
    nats = round((lost or 0.0) * obs.num_transitions * obs.dim, 1)
    return Outcome(
        seed,
        checks.status,
        causes,
        doubts,
        round(seconds, 3),
        lost,
        numbers,
        nats,
        round(quiet, 3),
        digest_of(CODE),
    )


def _file_name(kind: Kind) -> str:
    return "".join(c if c.isalnum() else "-" for c in kind.name)
