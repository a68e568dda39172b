"""`fimsde check`: how far to trust an equation."""

import json
from typing import Annotated

import typer

from fimsde.interface.cli import table


@table.with_columns
def check(
    source: table.Source,
    columns: table.Columns,
    weights: table.Weights = None,
    seed: table.Seed = 0,
    strict: Annotated[bool, typer.Option("--strict", help="Exit code 1 unless the light is good.")] = False,
    as_json: table.AsJson = False,
) -> None:
    """Print one light and the verdicts behind it on a result, or on the estimate of a table: data, class and fit.

    Causes come first, with what they explain below them.

    Example: fimsde check tracks.csv --time t --values x,y --path track_id
    """
    result = table.open_result(source, columns, weights)
    from fimsde.analysis.check import NUM_STEPS
    from fimsde.interface.cli.progress import bar

    with bar(NUM_STEPS, "check") as tell:
        checks = result.check(seed=seed, progress=tell)
    if as_json:
        verdicts = [verdict.record() for verdict in checks]
        record = {"status": checks.status, "summary": checks.summary, "verdicts": verdicts}
        typer.echo(json.dumps(record, indent=1, allow_nan=False))
    else:
        typer.echo(str(checks))
    if strict and checks.status != "good":
        raise typer.Exit(1)
