"""`fimsde estimate`: a table in, a folder with report, numbers, grids and the result out."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fimsde.errors import ConfigError
from fimsde.files.outputs import new_folder
from fimsde.interface.cli import table


@table.with_columns
def estimate(
    data: table.Data,
    columns: table.Columns,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("result"),
    weights: table.Weights = None,
    origin: Annotated[
        str | None,
        typer.Option(help="A special state (equilibrium, centre of symmetry), e.g. 0,0; default: none."),
    ] = None,
    resamples: table.Resamples = 50,
    level: table.Level = 0.9,
    seed: table.Seed = 0,
    overwrite: table.Overwrite = False,
    as_json: table.AsJson = False,
) -> None:
    """Estimate the equation behind a table of observations.

    OUT gets report.html, result.json (numbers), fields.csv (drift and diffusion with bands on a grid), fields.png and
    saved/ (for `fimsde report`, `simulate`, `check` and `fimsde.load`).

    Example: fimsde estimate tracks.csv --time t --values x,y --path track_id --out result
    """
    from fimsde.plots import BandSettings
    from fimsde.results.make import estimate as make

    table.check_bands(resamples, level)
    place = _to_origin(origin)
    observations = table.read_table(data, columns)
    model = table.find_weights(weights)
    with new_folder(out, overwrite=overwrite, inputs=[data, model]) as folder:
        from fimsde.interface.cli.progress import bar
        from fimsde.report.folder import num_steps_of_folder, summary, write_result

        result, bands = make(observations, model, origin=place), BandSettings(level, resamples, seed)
        with bar(num_steps_of_folder(result, bands), "estimate") as tell:
            record = write_result(result, folder, bands, seed, progress=tell).record
    typer.echo(json.dumps(record, indent=1, allow_nan=False) if as_json else summary(record))
    typer.echo(f"the report is {out / 'report.html'}", err=as_json)


def _to_origin(text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(number) for number in text.split(",")]
    except ValueError:
        raise ConfigError(f"--origin is {text!r}; expected one number per component, for instance 0,0.") from None
