"""`fimsde check`: how far to trust an equation."""

import json

import typer

from fimsde.cli import table


def check(
    source: table.Source,
    time: table.Time = None,
    values: table.Values = None,
    path: table.PathColumn = None,
    dt: table.Gap = None,
    time_unit: table.TimeUnit = None,
    separator: table.Separator = None,
    decimal: table.Decimal = None,
    missing: table.Missing = "error",
    weights: table.Weights = None,
    seed: table.Seed = 0,
    as_json: table.AsJson = False,
) -> None:
    """Print verdicts on a result, or on the estimate of a table: residuals, memory, sampling, noise, extrapolation.

    Example: fimsde check tracks.csv --time t --values x,y --path track_id
    """
    columns = table.Columns(time, values, path, dt, time_unit, separator, decimal, missing)
    result = table.open_result(source, columns, weights)
    from fimsde.analysis.check import num_verdicts
    from fimsde.cli.progress import bar
    from fimsde.plots.bands import has_band

    with bar(num_verdicts(has_band(result)), "check") as tell:
        checks = result.check(seed=seed, progress=tell)
    if as_json:
        keys = ("name", "status", "number", "sentence", "next_step")
        verdicts = [{key: getattr(v, key) for key in keys} for v in checks]
        typer.echo(json.dumps({"status": checks.status, "verdicts": verdicts}, indent=1))
    else:
        typer.echo(str(checks))
