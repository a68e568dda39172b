"""`fimsde check`: how far to trust an equation."""

import json

import typer

from fimsde.interface.cli import table


@table.with_columns
def check(
    source: table.Source,
    columns: table.Columns,
    weights: table.Weights = None,
    seed: table.Seed = 0,
    as_json: table.AsJson = False,
) -> None:
    """Print verdicts on a result, or on the estimate of a table: residuals, memory, sampling, noise, extrapolation.

    Example: fimsde check tracks.csv --time t --values x,y --path track_id
    """
    result = table.open_result(source, columns, weights)
    from fimsde.analysis.check import NUM_STEPS
    from fimsde.interface.cli.progress import bar

    with bar(NUM_STEPS, "check") as tell:
        checks = result.check(seed=seed, progress=tell)
    if as_json:
        verdicts = [verdict.record() for verdict in checks]
        typer.echo(json.dumps({"status": checks.status, "verdicts": verdicts}, indent=1, allow_nan=False))
    else:
        typer.echo(str(checks))
