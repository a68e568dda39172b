"""The options that say what a table holds, the same for every command that reads one, and results on disk."""

import csv
import functools
import io
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fimsde.data.headers import check_file, check_header, check_named, column_names, joinable
from fimsde.errors import CheckpointError, ConfigError, InvalidObservationsError
from fimsde.interface.cli.stages import stage

if TYPE_CHECKING:
    from fimsde.data.observations import Observations
    from fimsde.results.result import Result

_PYTHON_OPTION = re.compile(r"\b(time|values|path|dt|time_unit|separator|decimal|missing|layout)=(?:'([^']*)')?")

Data = Annotated[Path, typer.Argument(help="CSV, TSV, Excel or Parquet, a row per observation.", show_default=False)]
Source = Annotated[Path, typer.Argument(help="A folder made by `fimsde estimate`, or a table.", show_default=False)]
Time = Annotated[str | None, typer.Option(help="Column of the times; default: guessed; a line says how.")]
Values = Annotated[str | None, typer.Option(help="Columns of the state, e.g. x,y; default: all other numbers.")]
PathColumn = Annotated[str | None, typer.Option("--path", help="Column that tells paths apart; default: guessed.")]
Gap = Annotated[float | None, typer.Option(help="Constant time between rows, in place of --time.")]
TimeUnit = Annotated[str | None, typer.Option(help="Unit of time, for labels; for dates: s, min, h, D, month, ...")]
Separator = Annotated[str | None, typer.Option(help="What stands between the cells of a CSV; default: by its lines.")]
Decimal = Annotated[str | None, typer.Option(help="Decimal sign of a CSV; default: by its cells.")]
Missing = Annotated[str, typer.Option(help="Empty cells: 'error', or 'drop' the observation.")]
Layout = Annotated[str, typer.Option(help="'long', or 'wide': each column of the state is a path of one quantity.")]
Weights = Annotated[Path | None, typer.Option(help="Folder of a recognition model, or bundled; default: none is used.")]
Seed = Annotated[int, typer.Option(min=0, help="Of all random numbers.")]
Resamples = Annotated[
    int, typer.Option(help="0: no bands; else the number of resamples, where bands need them (--weights).", min=0)
]
Level = Annotated[float, typer.Option(help="Share of the intervals that should cover the truth.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Replace what fimsde wrote under that name; all else stays.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON.")]


_OPTIONS = {
    "time": Time,
    "values": Values,
    "path": PathColumn,
    "dt": Gap,
    "time_unit": TimeUnit,
    "separator": Separator,
    "decimal": Decimal,
    "missing": Missing,
    "layout": Layout,
}


@dataclass(frozen=True)
class Columns:
    """What a table holds; see the options above."""

    time: str | None = None
    values: str | tuple[str, ...] | None = None  # names, or text of the command line: see `join_names`
    path: str | None = None
    dt: float | None = None
    time_unit: str | None = None
    separator: str | None = None
    decimal: str | None = None
    missing: str = "error"
    layout: str = "long"

    def is_given(self) -> bool:
        """Whether any option differs from its default."""
        return self != Columns()

    def value_names(self) -> list[str] | None:
        """Columns of the state; None for all that are left."""
        if not self.values:
            return None
        if not isinstance(self.values, str):
            return list(self.values)
        names = next(csv.reader([self.values], skipinitialspace=True))
        return names if '"' in self.values else [name.strip() for name in names]


def join_names(names: Sequence[str]) -> str:
    """Names of columns as one option: separated by commas, in quotes where they hold one."""
    target = io.StringIO()
    quoting: Literal[0, 1] = csv.QUOTE_ALL if any(name != name.strip() for name in names) else csv.QUOTE_MINIMAL
    csv.writer(target, lineterminator="", quoting=quoting).writerow(names)
    return target.getvalue()


def with_columns(command: Callable[..., None]) -> Callable[..., None]:
    """The command with the options that say what a table holds, in place of its parameter `columns`."""
    own = signature(command).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(columns=Columns(**{name: given.pop(name) for name in _OPTIONS}), **given)

    before = [p for p in own.values() if p.default is Parameter.empty and p.name != "columns"]
    after = [p for p in own.values() if p.default is not Parameter.empty]
    options = [
        Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=getattr(Columns, name), annotation=kind)
        for name, kind in _OPTIONS.items()
    ]
    every = [*before, *options, *after]
    run.__signature__ = Signature(every)  # type: ignore[attr-defined]  # what typer reads
    run.__annotations__ = {p.name: p.annotation for p in every}
    return run


def check_columns(file: Path, columns: Columns) -> None:
    """Refuse columns that the first line of a table has not, before anything that takes long to import."""
    check_file(file)
    present = column_names(file, to_separator(columns.separator))
    asked = [name for name in (columns.time, columns.path, *(columns.value_names() or ())) if name is not None]
    if not present:
        return
    try:
        check_header([name for name in present if not name.startswith("Unnamed: ")])
        check_named(present, [name for name in asked if name not in joinable(present)])
    except InvalidObservationsError as error:
        raise InvalidObservationsError(as_options(str(error))) from None


def check_source(source: Path, columns: Columns) -> None:
    """The same for a table or a result, which has no columns to name."""
    if not source.is_dir():
        check_columns(source, columns)


def read_table(file: Path, columns: Columns) -> "Observations":
    """The observations in a table; errors speak of options of the command line."""
    check_columns(file, columns)
    stage(f"reading {file}")
    from fimsde.data.observations import read

    separator = to_separator(columns.separator)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = read(
                file,
                time=columns.time,
                values=columns.value_names(),
                path=columns.path,
                dt=columns.dt,
                time_unit=columns.time_unit,
                separator=separator,
                decimal=columns.decimal,
                missing=columns.missing,  # type: ignore[arg-type]  # read checks it
                layout=columns.layout,  # type: ignore[arg-type]  # and this
            )
        for said in caught:  # of options of the command line, too
            warnings.warn(as_options(str(said.message)), said.category, stacklevel=2)
        return found
    except InvalidObservationsError as error:
        raise InvalidObservationsError(as_options(str(error))) from error


def to_separator(text: str | None) -> str | None:
    """What stands between cells; a tab can be written \\t or tab."""
    return {"\\t": "\t", "tab": "\t"}.get(text or "", text)


def as_options(sentence: str) -> str:
    """A sentence that names options of the command line in place of arguments of Python."""
    return _PYTHON_OPTION.sub(_as_option, sentence)


def open_result(source: Path, columns: Columns, weights: Path | None) -> "Result":
    """The result in a folder, or the estimate of the observations in a table."""
    if not source.is_dir():
        observations = read_table(source, columns)
        stage("estimating")
        from fimsde.results.make import estimate

        return estimate(observations, find_weights(weights))
    if columns.is_given() or weights is not None:
        raise ConfigError(f"{str(source)!r} is a result, which has its data and model. Leave the other options out.")
    from fimsde.report.folder import SAVED
    from fimsde.results.storage import RESULT, load

    folder = source / SAVED if (source / SAVED).is_dir() else source
    if not (folder / RESULT).exists():
        raise ConfigError(
            f"{str(source)!r} is a folder without a result. Give one made by `fimsde estimate`, or a table."
        )
    return load(folder)


def find_weights(weights: Path | None) -> Path | None:
    """The folder of weights that was named, None if none was. Nothing is fetched from a network."""
    if weights is None:
        return None
    if str(weights) == "bundled":
        from fimsde.estimation import BUNDLED

        return BUNDLED
    from fimsde.model.weights import find_folder

    try:
        return find_folder(weights)
    except CheckpointError:
        raise ConfigError(
            f"no weights at {str(weights)!r}: no such folder, and no local copy of a hub repository of that name. "
            f"Check the path, or fetch the repository first (hf download {weights})."
        ) from None


def check_bands(resamples: int, level: float) -> None:
    """Refuse settings of bands before any work is done."""
    if resamples == 1 or not 0 < level < 1:
        raise ConfigError(
            f"--resamples is {resamples} and --level {level:g}; expected 0, or 2 and more, and a share between 0 and 1."
        )


def _as_option(match: re.Match[str]) -> str:
    name, value = match.groups()
    return f"--{name.replace('_', '-')}" + (f" '{value}'" if value else "")
