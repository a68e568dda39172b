"""Run the calibration: what is stored is skipped, so that a run can be stopped at any moment and started again."""

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fimsde.benchmark.calibration.data import Case, load_case
from fimsde.benchmark.calibration.measure import Measured, measure
from fimsde.benchmark.fingerprint import digest_of
from fimsde.errors import ConfigError

CODE = ("evidence", "bank", "data", "benchmark/calibration", "analysis/band.py", "analysis/draws.py")


@dataclass(frozen=True)
class Row:
    """One data set: which, what was found, and by which code."""

    case: Case
    measured: Measured
    code: str


def file_of(out: Path, seed: int) -> Path:
    """Where results of a seed are: one line each."""
    return out / "calibration" / f"{seed}.jsonl"


def read_rows(out: Path, seed: int) -> dict[Case, Row]:
    """What is stored; a line that was cut short by a kill is made again."""
    file = file_of(out, seed)
    rows: dict[Case, Row] = {}
    if not file.exists():
        return rows
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            record = json.loads(line)
            case = Case(**record["case"])
            found: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in record["measured"].items()}
            found["density"] = tuple(tuple(pair) for pair in found["density"])
            found["needed"] = {part: tuple(values) for part, values in found["needed"].items()}
            rows[case] = Row(case, Measured(**found), record["code"])
        except (ValueError, KeyError, TypeError):
            continue
    return rows


def run(
    cases: list[Case], out: Path, seed: int, *, renew: bool = False, tell: Callable[[str], None] | None = None
) -> Iterator[Row]:
    """Measure what is missing, one after the other, and store each at once.

    Args:
        cases: Which data sets.
        out: Folder of results.
        seed: Of data.
        renew: Measure again what other code has measured.
        tell: Called with the name of every case.
    """
    file, code = file_of(out, seed), digest_of(CODE)
    stored = read_rows(out, seed)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as target:
            for case in cases:
                row = stored.get(case)
                if row is None or (renew and row.code != code):
                    known = load_case(case, seed)
                    lost = Measured(failure="the equation left the finite range")
                    found = lost if known is None else measure(known, seed)
                    row = Row(case, found, code)
                    target.write(json.dumps({"case": asdict(case), "measured": asdict(found), "code": code}) + "\n")
                    target.flush()
                if tell is not None:
                    tell(f"{case.source} {case.name}")
                yield row
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror}. Choose another folder with --out.") from error
