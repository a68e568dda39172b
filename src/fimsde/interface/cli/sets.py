"""Several data sets of `fimsde estimate`: files, or the parts of a table by one of its columns."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fimsde.data.headers import check_named, column_names
from fimsde.errors import ConfigError, GuessWarning, InvalidObservationsError
from fimsde.files.place import check_place
from fimsde.interface.cli import table
from fimsde.interface.cli.stages import stage

if TYPE_CHECKING:
    from fimsde.data.observations import Observations


def estimate_sets(
    files: Sequence[Path],
    columns: table.Columns,
    out: Path,
    by: str | None,
    settings: dict[str, Any],
    workers: int,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Estimate every data set and print the table that collects them."""
    if len({file.stem for file in files}) < len(files):
        raise ConfigError("two of the files have the same name. Rename one: folders are called like the files.")
    for file in files:
        _check_header(file, columns, len(files) > 1)
    if by is not None:
        _check_by(files, columns, by)
    check_place(out, "--out")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sets = parts_of(files[0], columns, by) if by is not None else {f.stem: _read(f, columns) for f in files}
    for said in {str(w.message): w for w in caught}.values():  # once, though it be true of every file
        sentence = table.as_options(str(said.message))
        warnings.warn(sentence, said.category, stacklevel=2)
    from fimsde.interface.cli.progress import bar
    from fimsde.report.many import TABLE, Settings, estimate_many

    stage(f"estimating {len(sets)} data sets")
    with bar(len(sets), "estimate") as tell:
        found = estimate_many(sets, out, Settings(**settings), workers=workers, overwrite=overwrite, progress=tell)
    rows = found.astype(object).where(found.notna(), None).to_dict("records")  # pandas writes nan for no text
    if as_json:
        typer.echo(json.dumps(rows, indent=1, allow_nan=False))
    else:
        for row in rows:
            typer.echo(f"{row['data_set']}: {row['failure'] or _in_words(row)}")
    typer.echo(f"the table is {out / TABLE}", err=as_json)
    if found["failure"].notna().all():
        raise ConfigError("none of the data sets could be estimated.")


def _check_header(file: Path, columns: table.Columns, several: bool) -> None:
    """Refuse a file without the columns that were named; of several it is said which."""
    try:
        table.check_columns(file, columns)
    except InvalidObservationsError as error:
        named = not several or str(file) in str(error)
        raise InvalidObservationsError(str(error) if named else f"in {str(file)!r} {error}") from None


def _read(file: Path, columns: table.Columns) -> "Observations | InvalidObservationsError":
    """What a file holds, or why it cannot be estimated: a reason for its row of the table."""
    try:
        return table.read_table(file, columns)
    except InvalidObservationsError as error:
        return error


def _in_words(row: dict[str, Any]) -> str:
    """The light, what it doubts, and the equation."""
    doubts = f" ({row['doubts']})" if row["doubts"] else ""
    return f"{row['verdict'] or 'unchecked'}{doubts}: {row['equation'] or 'no formula'}"


def _check_by(files: Sequence[Path], columns: table.Columns, by: str) -> None:
    if len(files) > 1:
        raise ConfigError(f"--by {by} and {len(files)} files were given; expected one file. Leave --by or files out.")
    if present := column_names(files[0], table.to_separator(columns.separator)):
        check_named(present, [by])


def parts_of(file: Path, columns: table.Columns, by: str) -> "dict[str, Observations | InvalidObservationsError]":
    """The observations of every value of a column, in the order of their first rows; or why there are none."""
    stage(f"reading {file}")
    from fimsde.data import choice
    from fimsde.data.columns import look, paths_for
    from fimsde.data.observations import read
    from fimsde.data.tables import open_table, with_dates

    separator = table.to_separator(columns.separator)
    whole = open_table(file, columns.time, None, separator, columns.decimal, counts_rows=columns.dt is not None)
    check_named(whole.frame.columns, [by])
    within = replace(whole, frame=whole.frame.drop(by))  # paths of a part are told apart by another column, if any
    ids = columns.path or (named.name if (named := paths_for(look(within), None)) else None)
    options = (columns.time, columns.value_names(), ids or by, columns.dt, columns.time_unit)
    found = choice.choose(within if ids else whole, *options)  # once, so that all parts are read alike
    if found.said:
        warnings.warn(found.said, GuessWarning, stacklevel=2)
    frame = with_dates(whole, found.time).frame.to_pandas()

    def read_part(part: Any) -> "Observations | InvalidObservationsError":
        try:
            return read(
                part.reset_index(drop=True),
                time=found.time,
                values=found.values or [name for name in frame if name not in (by, ids, found.time)],
                path=ids,
                dt=columns.dt,
                time_unit=found.time_unit,
                missing=columns.missing,  # type: ignore[arg-type]  # read checks it
            )
        except InvalidObservationsError as error:
            return InvalidObservationsError(table.as_options(str(error)))

    return {str(label): read_part(part) for label, part in frame.groupby(by, sort=False)}
