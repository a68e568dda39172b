"""Calibration of the verdicts: false alarms on data of the right class, and how often each way to be wrong is named.

One small file per kind of data, written after every data set, so that a run can be stopped at any moment and goes on
where it stopped.
"""

import json
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fimsde.analysis.check import Checks
from fimsde.benchmark.fingerprint import UNKNOWN, digest_of
from fimsde.benchmark.verdicts.right import ACCOUNTED, CELLS, Cell, Right, right_class
from fimsde.benchmark.verdicts.wrong import REAL, ROWS, Row
from fimsde.data.observations import Observations
from fimsde.errors import DatasetError, DataWarning, FimsdeError
from fimsde.files.write import write_file
from fimsde.results.make import estimate
from fimsde.results.result import Result

FOLDER = "verdicts"
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
    "results/correlated.py",
    "simulate.py",
    "tabulate.py",
)
# data sets: of each cell (1000 in all), of each with a known noise, and of each row at each strength
REPETITIONS, NOTED, PER_ROW = 125, 50, 100
QUICK = 2  # of each kind: enough to see that it runs
_DIGITS = 4  # of numbers that are stored
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
        numbers: Of the verdicts that are causes: a period, a time, a rate; then of what is accounted for.
        nats: The same in all.
        quiet: Share of steps at which the true equation has no noise, in the component that has the most; our verdicts
            have no law there.
        noise: Measurement noise that was found over that of the data, of the component where it is farthest from 1;
            None where the data have none.
        code: Digest of the code that decides it.
        accounted: Names of the verdicts that found something which the equation has already.
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
    noise: float | None = None
    code: str = UNKNOWN
    accounted: tuple[str, ...] = ()


_COLUMNS = tuple(field.name for field in fields(Outcome))
_TUPLES = ("causes", "doubts", "numbers", "accounted")


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
            return NOTED if self.cell in ACCOUNTED else REPETITIONS
        return 1 if self.row.is_record else PER_ROW

    def data(self, seed: int) -> Right | Observations:
        """The data of a seed; with the truth if they are of the right class."""
        if self.row is not None:
            return self.row.make(self.strength, seed)
        assert self.cell is not None
        return right_class(self.cell, seed)


def kinds(*, quick: bool = False) -> list[Kind]:
    """All cells, then all rows, the largest strengths first; a few of them if it is to be quick."""
    if quick:
        return [*(Kind(cell=CELLS[k]) for k in _QUICK_CELLS), *(_strong(row) for row in ROWS[::_QUICK_EVERY])]
    real = REAL if find_spec("statsmodels") else ()
    weaker = [Kind(row=row, strength=row.strengths[k]) for k in (1, 0) for row in ROWS]
    return [*(Kind(cell=cell) for cell in (*CELLS, *ACCOUNTED)), *map(_strong, (*real, *ROWS)), *weaker]


def _strong(row: Row) -> Kind:
    return Kind(row=row, strength=row.strengths[-1])


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
        num = min(repetitions or (QUICK if quick else kind.repetitions), kind.repetitions)
        file = Path(out) / FOLDER / f"{seed}-{_file_name(kind)}.json"
        done = read(file)
        for i in range(len(done), num if compute else 0):
            file.parent.mkdir(parents=True, exist_ok=True)
            done.append(judge(kind, 10_000 * seed + i))
            _write(file, done)
        if done:
            yield kind, done[:num]


def _write(file: Path, outcomes: Sequence[Outcome]) -> None:
    """The names of the columns, then a line per outcome."""
    rows = [json.dumps(astuple(outcome), separators=(",", ":")) for outcome in outcomes]
    write_file(file, "\n".join([json.dumps(_COLUMNS), *rows, ""]).encode())


def read(file: Path) -> list[Outcome]:
    """Stored outcomes; none if there is no file."""
    if not file.is_file():
        return []
    try:
        columns, *rows = (json.loads(line) for line in file.read_text().splitlines())
        stored = [dict(zip(columns, row, strict=True)) for row in rows]
        return [Outcome(**(o | {name: tuple(o.get(name, ())) for name in _TUPLES})) for o in stored]
    except (ValueError, TypeError, KeyError) as error:
        raise DatasetError(f"{file} holds no outcomes of verdicts: {error}. Remove it.") from error


def judge(kind: Kind, seed: int) -> Outcome:
    """Estimate and check one data set."""
    made = kind.data(seed)
    obs = made.observations if isinstance(made, Right) else made
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        try:
            result = estimate(obs)
        except (FimsdeError, np.linalg.LinAlgError, ValueError):
            return Outcome(seed, "none", (), (), 0.0, code=digest_of(CODE))
        before = time.process_time()
        checks: Checks = result.check()
        seconds = time.process_time() - before
        found = Outcome(
            seed,
            checks.status,
            causes=tuple(v.name for v in checks.causes),
            doubts=tuple(v.name for v in checks if v.status != "good"),
            cpu_seconds=round(seconds, 3),
            numbers=tuple(_rounded(v.number) for v in (*checks.causes, *checks.accounted)),
            code=digest_of(CODE),
            accounted=tuple(v.name for v in checks.accounted),
        )
        return _beside_truth(found, made, result) if isinstance(made, Right) else found


def _beside_truth(found: Outcome, made: Right, result: Result) -> Outcome:
    """The same with what the true equation makes of the data."""
    true, obs = made.innovations(), made.observations
    nats = float(true.likelihood.sum()) - result.log_likelihood(obs)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = result.noise_std / made.noise_std
    worst = int(np.argmax(np.abs(np.log(np.maximum(ratio, 1e-300))))) if made.noise_std.all() else None
    return replace(
        found,
        lost=_rounded(nats / (obs.num_transitions * obs.dim)),
        nats=_rounded(nats) or 0.0,
        quiet=_rounded(made.quiet(true)) or 0.0,
        noise=None if worst is None else _rounded(float(ratio[worst])),
    )


def _rounded(number: float) -> float | None:
    """As many digits as anybody reads; None for what is no number."""
    return float(f"{number:.{_DIGITS}g}") if np.isfinite(number) else None


def _file_name(kind: Kind) -> str:
    return "".join(c if c.isascii() and c.isalnum() else "-" for c in kind.name)
