"""`fimsde report`: the page about a result."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fimsde.files.outputs import new_file
from fimsde.interface.cli import table


@table.with_columns
def report(
    source: table.Source,
    columns: table.Columns,
    out: Annotated[Path, typer.Option(help="The page.")] = Path("report.html"),
    weights: table.Weights = None,
    resamples: table.Resamples = 50,
    level: table.Level = 0.9,
    seed: table.Seed = 0,
    overwrite: table.Overwrite = False,
    as_json: table.AsJson = False,
) -> None:
    """Write one self-contained HTML page about a result, or about the estimate of a table.

    Example: fimsde report result --out report.html --seed 1
    """
    table.check_bands(resamples, level)
    table.check_source(source, columns)
    from fimsde.interface.cli.progress import bar
    from fimsde.plots import BandSettings
    from fimsde.report import SIGNATURE, find, make_page, num_steps

    bands = BandSettings(level, resamples, seed)
    with new_file(out, overwrite=overwrite, inputs=[source], signature=SIGNATURE) as file:
        result = table.open_result(source, columns, weights)
        with bar(num_steps(result, bands), "report") as tell:
            found = find(result, seed, tell)
            page = make_page(found, bands, progress=tell)
        file.write_text(page.html(), encoding="utf-8")
    if as_json:
        typer.echo(json.dumps(found.record(), indent=1, allow_nan=False))
    typer.echo(f"the report is {out}", err=as_json)
