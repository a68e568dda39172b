"""Many data sets at once: a folder for each, which appears when it is complete, and one table that collects them.

Every data set is estimated by itself, as if it were the only one, so that the number of processes changes nothing. What
is complete is not made again: the same call after an interruption goes on where it stopped.
"""

import csv
import json
import multiprocessing
import re
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from fimsde._version import __version__
from fimsde.data.observations import Observations, read
from fimsde.errors import ConfigError, FimsdeError, OutputError
from fimsde.files.identities import data_hash
from fimsde.files.outputs import check_new, new_file, new_folder
from fimsde.files.ownership import is_ours
from fimsde.files.spreadsheet import neutral
from fimsde.files.workers import process_pool
from fimsde.plots.bands import BandSettings
from fimsde.report.findings import Progress
from fimsde.report.folder import write_numbers, write_result
from fimsde.results.make import estimate

if TYPE_CHECKING:
    import pandas as pd

TABLE = "summary.csv"
JOB, NUMBERS = "job.json", "result.json"
_UNGUARDED = 'In a script, call estimate_many(..., workers=2) under `if __name__ == "__main__":`.'
_COLUMNS = (
    *("data_set", "observations", "paths", "equation", "verdict", "doubts", "measurement_noise"),
    *("time_unit", "relaxation_time", "failure"),
)


@dataclass(frozen=True)
class Settings:
    """How every data set is estimated; kept beside each result.

    Attributes:
        weights: Folder of a recognition model; None for evidence, without one.
        origin: A known origin, as for `fimsde.estimate`.
        report: Whether to write pages, with figures and bands.
        level, resamples: Of the bands.
        seed: Of bands, simulations and checks.
    """

    weights: str | None = None
    origin: tuple[float, ...] | Literal["auto"] | None = "auto"
    report: bool = False
    level: float = 0.9
    resamples: int = 50
    seed: int = 0


@dataclass(frozen=True, eq=False)
class _Job:
    name: str
    folder: Path
    settings: Settings
    overwrite: bool
    observations: Observations = field(repr=False)

    def identity(self) -> dict[str, Any]:
        """What decides the result."""
        own = {"fimsde": __version__, "data_sha256": data_hash(self.observations), **asdict(self.settings)}
        return json.loads(json.dumps(own))


def estimate_many(
    sources: Mapping[str, Any],
    out: str | Path,
    settings: Settings | None = None,
    *,
    workers: int = 1,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> "pd.DataFrame":
    """Estimate many data sets; OUT gets a folder for each (as `fimsde estimate` writes it) and summary.csv.

    A data set that cannot be estimated has the reason in the table and no folder.

    Args:
        sources: Observations, tables or file names by the names of the data sets; an error of fimsde in place of one
            is the reason why it cannot be estimated.
        out: Where to.
        settings: How each is estimated.
        workers: Processes. With more than one, a script calls this under `if __name__ == "__main__":`, because every
            process begins by importing the script.
        overwrite: Whether results of other data or settings under the same names may be replaced.
        progress: Called with the name of every data set that is done.

    Returns:
        One row per data set, as in summary.csv: equation, verdict, noise of measurement, times.
    """
    import pandas as pd  # takes a while to import

    place, chosen, tell = Path(out), settings or Settings(), progress or (lambda label: None)
    jobs, rows = _jobs(sources, place, chosen, overwrite)
    for job in (job for job in jobs if not _is_done(job)):
        check_new(job.folder, overwrite=overwrite)
    place.mkdir(parents=True, exist_ok=True)
    waiting = [job for job in jobs if not _is_done(job)]
    rows |= {job.name: _row(job.name, _record(job.folder)) for job in jobs if _is_done(job)}
    with process_pool(min(workers, max(len(waiting), 1))) as pool:
        if pool is None:
            for job in waiting:
                rows[job.name] = _work(job)
                tell(job.name)
        else:
            _check_main()
            names = {pool.submit(_work, job): job.name for job in waiting}
            for done in as_completed(names):
                rows[names[done]] = _result(done)
                tell(names[done])
    table = [rows[name] for name in sources]
    _write(place / TABLE, table)
    return pd.DataFrame(table, columns=list(_COLUMNS))


def _check_main() -> None:
    """Refuse to start processes from one that is still importing the script that started it."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise ConfigError(_UNGUARDED)


def _result(done: "Future[dict[str, Any]]") -> dict[str, Any]:
    try:
        return done.result()
    except BrokenProcessPool:
        raise ConfigError(f"a worker ended before its work was done. {_UNGUARDED} Or give it more memory.") from None


def folder_names(names: Sequence[str]) -> list[str]:
    """Names of data sets as names of folders: letters, digits, points, dashes and underscores."""
    made = [re.sub(r"[^\w.-]+", "_", name).strip(".") or "_" for name in names]
    twice = {name for name in made if made.count(name) > 1}
    if twice:
        both = [name for name, folder in zip(names, made, strict=True) if folder in twice]
        raise ConfigError(
            f"the data sets {', '.join(map(repr, both[:3]))} would share a folder. Rename them, so that they differ."
        )
    return made


def _jobs(
    sources: Mapping[str, Any], place: Path, settings: Settings, overwrite: bool
) -> tuple[list[_Job], dict[str, dict[str, Any]]]:
    """What is to be done, and rows of the table for sources that cannot be read."""
    jobs, failed = [], {}
    for (name, source), folder in zip(sources.items(), folder_names(list(sources)), strict=True):
        try:
            if isinstance(source, FimsdeError):
                raise source
            jobs.append(_Job(name, place / folder, settings, overwrite, read(source)))
        except FimsdeError as error:
            failed[name] = _failure(name, error)
    return jobs, failed


def _is_done(job: _Job) -> bool:
    """Whether the folder holds the result of these data with these settings."""
    if not is_ours(job.folder) or not (job.folder / JOB).is_file():
        return False
    return json.loads((job.folder / JOB).read_text()) == job.identity()


def _record(folder: Path) -> dict[str, Any]:
    return json.loads((folder / NUMBERS).read_text())


def _work(job: _Job) -> dict[str, Any]:
    """Fill the folder of one data set and give its row of the table."""
    chosen = job.settings
    try:
        with new_folder(job.folder, overwrite=job.overwrite) as folder:
            result = estimate(job.observations, chosen.weights, origin=chosen.origin)
            if chosen.report:
                bands = BandSettings(chosen.level, chosen.resamples, chosen.seed)
                record = write_result(result, folder, bands, chosen.seed).record
            else:
                record = write_numbers(result, folder, chosen.seed)
            (folder / JOB).write_text(json.dumps(job.identity(), indent=1) + "\n")
    except OutputError:  # the place is wrong for all of them
        raise
    except FimsdeError as error:
        return _failure(job.name, error)
    return _row(job.name, record)


def _failure(name: str, error: FimsdeError) -> dict[str, Any]:
    return dict.fromkeys(_COLUMNS) | {"data_set": name, "failure": str(error)}


def _row(name: str, record: Mapping[str, Any]) -> dict[str, Any]:
    """One line about a result."""
    verdicts, noise = record.get("verdicts", []), record.get("measurement_noise", ())
    return dict.fromkeys(_COLUMNS) | {
        "data_set": name,
        "observations": record["observations"],
        "paths": record["paths"],
        "equation": record["equation"]["text"].split("\nleft out")[0] if "equation" in record else None,
        "verdict": record.get("status"),
        "doubts": "; ".join(v["name"] for v in verdicts if v["status"] != "good" and not v["because"]),
        "measurement_noise": noise[0] if len(noise) == 1 else "; ".join(f"{size:.6g}" for size in noise),
        "time_unit": record["time_unit"],
        "relaxation_time": record["relaxation_time"],
    }


def _write(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    signature = ",".join(_COLUMNS)
    with (
        new_file(file, overwrite=True, signature=signature) as work,
        work.open("w", newline="", encoding="utf-8") as to,
    ):
        writer = csv.writer(to)
        writer.writerow(_COLUMNS)
        for row in rows:
            cells = ("" if row[name] is None else row[name] for name in _COLUMNS)
            writer.writerow([neutral(cell) if isinstance(cell, str) else repr(cell) for cell in cells])
