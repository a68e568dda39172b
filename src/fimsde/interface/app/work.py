"""What the app does, without a page: a table on disk, what is in it, and the result of estimating it."""

import io
import os
import shlex
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from fimsde.data import tables
from fimsde.data.columns import Column, look
from fimsde.errors import FimsdeError, GuessWarning, InvalidObservationsError
from fimsde.interface.cli.sets import parts_of
from fimsde.interface.cli.table import Columns, as_options, check_bands, join_names, read_table, to_separator
from fimsde.plots import BandSettings
from fimsde.report import Page
from fimsde.report.folder import num_steps_of_folder, write_result
from fimsde.report.many import Settings, estimate_many
from fimsde.results.make import estimate
from fimsde.results.result import Result

if TYPE_CHECKING:
    import pandas as pd

Progress = Callable[[float, str], object]
ARCHIVE = "result.zip"
LARGEST = 200  # megabytes of a table: streamlit's own limit
_MEGABYTE = 2**20  # as streamlit counts


@dataclass(frozen=True, eq=False)
class Look:
    """A table before anything is estimated.

    Attributes:
        frame: Its rows.
        columns: Its columns with what they look like.
        remarks: What was found about the way it is written.
    """

    frame: "pd.DataFrame"
    columns: tuple[Column, ...]
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Upload:
    """A table as it came from the browser."""

    name: str
    content: bytes

    def look(self, separator: str | None, decimal: str | None) -> Look:
        """The table and what its columns look like."""
        with _on_disk(self) as place:
            try:
                table = tables.open_table(place.file, None, None, to_separator(separator), decimal)
                if not len(table.frame):
                    raise InvalidObservationsError("the table has no rows. Expected a header and rows of numbers.")
                return Look(table.frame.to_pandas(), look(table), table.remarks)
            except InvalidObservationsError as error:
                raise InvalidObservationsError(place.named(as_options(str(error)))) from error


@dataclass(frozen=True, eq=False)
class Finished:
    """An estimate and everything to show of it.

    Attributes:
        result: The estimate, for further questions.
        bands: How its bands are made.
        page: The report.
        files: What `fimsde estimate` leaves in its folder, by name, and all of it in one archive.
        remarks: Warnings about the data.
        command: What does the same on the command line.
        script: What does the same in Python.
        upload, columns: What was estimated.
        answers: To further questions, by their names: each is computed once.
    """

    result: Result
    bands: BandSettings
    page: Page
    files: dict[str, bytes]
    remarks: tuple[str, ...]
    command: str
    script: str
    upload: Upload
    columns: Columns
    answers: dict[str, Any] = field(default_factory=dict)


def run(upload: Upload, columns: Columns, bands: BandSettings, progress: Progress) -> Finished:
    """Estimate a table as `fimsde estimate` does.

    Args:
        upload: The table.
        columns: What it holds.
        bands: How bands are made; their seed is that of everything.
        progress: Called with the share that is done and a few words.
    """
    check_bands(bands.resamples, bands.level)
    with _on_disk(upload) as place, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = estimate(read_table(place.file, columns))
            tell = _Counter(num_steps_of_folder(result, bands), progress)
            folder = place.folder / "result"
            folder.mkdir()
            page = write_result(result, folder, bands, bands.seed, progress=tell).page
        except FimsdeError as error:
            raise type(error)(place.named(str(error))) from error
        files = {p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.is_file()}
        files[ARCHIVE] = _zipped(folder)
    told = [w for w in caught if not issubclass(w.category, GuessWarning)]  # guesses were shown before
    remarks = tuple(dict.fromkeys(place.named(str(w.message)) for w in told))
    command, script = command_line(upload.name, columns, bands), python_script(upload.name, columns, bands)
    return Finished(result, bands, page, files, remarks, command, script, upload, columns)


def command_line(name: str, columns: Columns, bands: BandSettings) -> str:
    """The command that does the same."""
    options = {f.name: getattr(columns, f.name) for f in fields(Columns)}
    options["values"] = join_names(columns.value_names() or ()) or None
    options |= {f.name: getattr(bands, f.name) for f in fields(BandSettings)}
    usual = {f.name: f.default for f in (*fields(Columns), *fields(BandSettings))}
    given = {key: value for key, value in options.items() if value is not None and value != usual[key]}
    words = [word for key, value in given.items() for word in (f"--{key.replace('_', '-')}", str(value))]
    return shlex.join(["fimsde", "estimate", name, *words])


def python_script(name: str, columns: Columns, bands: BandSettings) -> str:
    """The lines of Python that do the same."""
    given = {f.name: getattr(columns, f.name) for f in fields(Columns)}
    given["values"] = columns.value_names()
    given["separator"] = to_separator(columns.separator)
    options = [
        f"{key}={value!r}" for key, value in given.items() if value is not None and value != getattr(Columns, key)
    ]
    usual = {f.name: f.default for f in fields(BandSettings)}
    own = {f.name: getattr(bands, f.name) for f in fields(BandSettings)}
    of_bands = [f"{key}={value!r}" for key, value in own.items() if value != usual[key]]
    report = ", ".join(["'report.html'", *of_bands])
    lines = [
        "import fimsde",
        "",
        f"observations = fimsde.read({', '.join([repr(_plain_name(name)), *options])})",
        "print(observations)",
        "result = fimsde.estimate(observations)",
        "print(result)",
        f"result.report({report})",
        "result.save('saved')",
    ]
    return "\n".join(lines) + "\n"


def run_sets(upload: Upload, columns: Columns, by: str, seed: int, progress: Progress) -> "tuple[pd.DataFrame, bytes]":
    """Estimate the parts of a table by one of its columns, as `fimsde estimate --by` does.

    Returns:
        The table that collects them, and all files in one archive.
    """
    with _on_disk(upload) as place, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            sets = parts_of(place.file, columns, by)
            tell = _Counter(len(sets), progress)
            folder = place.folder / "result"
            found = estimate_many(sets, folder, Settings(seed=seed), progress=tell)
        except FimsdeError as error:
            raise type(error)(place.named(str(error))) from error
        return found, _zipped(folder)


class _Counter:
    """Steps as shares of all steps."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._done, self._total, self._progress = 0, total, progress

    def __call__(self, label: str) -> None:
        self._done += 1
        self._progress(min(1.0, self._done / self._total), label)


@dataclass(frozen=True)
class _Place:
    """Where a table lies while it is read."""

    folder: Path
    file: Path

    def named(self, sentence: str) -> str:
        """A sentence that names the table as its owner does."""
        return sentence.replace(f"{self.folder}{os.sep}", "")


@contextmanager
def _on_disk(upload: Upload) -> Iterator[_Place]:
    """The table under its own name in a folder that vanishes: the package reads files."""
    own, size = _plain_name(upload.name), len(upload.content) / _MEGABYTE
    if size > LARGEST:
        raise InvalidObservationsError(
            f"{own!r} has {size:.0f} MB; this page takes at most {LARGEST}. Use the command line: fimsde estimate."
        )
    with tempfile.TemporaryDirectory(prefix="fimsde-app-") as name:
        place = _Place(Path(name), Path(name) / own)
        place.file.write_bytes(upload.content)
        yield place


def _plain_name(name: str) -> str:
    """The last part of a name, whatever system it comes from: nothing that leaves the folder."""
    last = PureWindowsPath(PurePosixPath(name).name).name
    return last if last not in ("", ".", "..", "result") else "table.csv"


def _zipped(folder: Path) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(p for p in folder.rglob("*") if p.is_file()):
            archive.write(file, Path(folder.name) / file.relative_to(folder))
    return target.getvalue()
