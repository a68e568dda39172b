"""Several data sets of `fimsde estimate`: files, or the parts of a table by one of its columns."""

import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fimsde.data.headers import check_named, column_names
from fimsde.errors import ConfigError
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
    for file in files:
        table.check_columns(file, columns)
    if by is not None:
        _check_by(files, columns, by)
    check_place(out, "--out")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sets = {file.stem: table.read_table(file, columns) for file in files} if by is None else {}
        if by is not None:
            sets = parts_of(files[0], columns, by)
    if by is None and len(sets) < len(files):
        raise ConfigError("two of the files have the same name. Rename one: folders are called like the files.")
    for said in {str(w.message): w for w in caught}.values():  # once, though it be true of every file
        sentence = table.as_options(str(said.message))
        warnings.warn(sentence, said.category, stacklevel=2)
    from fimsde.interface.cli.progress import bar
    from fimsde.report.many import TABLE, Settings, estimate_many

    stage(f"estimating {len(sets)} data sets")
    with bar(len(sets), "estimate") as tell:
        found = estimate_many(sets, out, Settings(**settings), workers=workers, overwrite=overwrite, progress=tell)
    if as_json:
        rows = found.astype(object).where(found.notna(), None)
        typer.echo(json.dumps(rows.to_dict("records"), indent=1, allow_nan=False))
    else:
        for row in found.to_dict("records"):
            typer.echo(f"{row['data_set']}: {row['failure'] or row['equation']}")
    typer.echo(f"the table is {out / TABLE}", err=as_json)
    if found["failure"].notna().all():
        raise ConfigError("none of the data sets could be estimated.")


def _check_by(files: Sequence[Path], columns: table.Columns, by: str) -> None:
    if len(files) > 1:
        raise ConfigError(f"--by {by} and {len(files)} files were given; expected one file. Leave --by or files out.")
    if present := column_names(files[0], table.to_separator(columns.separator)):
        check_named(present, [by])


def parts_of(file: Path, columns: table.Columns, by: str) -> "dict[str, Observations]":
    """The observations of every value of a column, in the order of their first rows."""
    stage(f"reading {file}")
    from fimsde.data.observations import read
    from fimsde.data.tables import open_table

    separator = table.to_separator(columns.separator)
    whole = open_table(file, None, None, separator, columns.decimal, counts_rows=columns.dt is not None)
    check_named(whole.frame.columns, [by])
    own = replace(columns, separator=None, decimal=None)
    parts = {}
    for label, part in whole.frame.to_pandas().groupby(by, sort=False):
        parts[str(label)] = read(
            part.drop(columns=by).reset_index(drop=True),
            time=own.time,
            values=own.value_names(),
            path=own.path,
            dt=own.dt,
            time_unit=own.time_unit,
            missing=own.missing,  # type: ignore[arg-type]  # read checks it
        )
    return parts
