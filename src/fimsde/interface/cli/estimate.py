"""`fimsde estimate`: a table in, a folder with report, numbers, grids and the result out."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fimsde.errors import ConfigError
from fimsde.files.outputs import check_new, new_folder
from fimsde.interface.cli import table
from fimsde.interface.cli.sets import estimate_sets
from fimsde.interface.cli.stages import stage

if TYPE_CHECKING:
    from fimsde.data.observations import Observations

Place = tuple[float, ...] | Literal["auto"] | None


@table.with_columns
def estimate(
    data: Annotated[
        list[Path],
        typer.Argument(help="CSV, TSV, Excel or Parquet, a row per observation; several: one after another."),
    ],
    columns: table.Columns,
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("result"),
    weights: table.Weights = None,
    origin: Annotated[
        str | None,
        typer.Option(
            help="Known origin (equilibrium, centre of symmetry), e.g. 0,0, or unknown; default: perhaps zero."
        ),
    ] = None,
    report: Annotated[
        bool, typer.Option(help="Whether to draw figures and bands and write the page; without, numbers in seconds.")
    ] = True,
    by: Annotated[str | None, typer.Option(help="Column that tells data sets apart: an equation for each.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes, for several data sets.")] = 1,
    resamples: table.Resamples = 50,
    level: table.Level = 0.9,
    seed: table.Seed = 0,
    overwrite: table.Overwrite = False,
    as_json: table.AsJson = False,
) -> None:
    """Estimate the equation behind a table of observations.

    OUT gets report.html, result.json (numbers), fields.csv (drift and diffusion with bands on a grid), fields.png and
    saved/ (for `fimsde report`, `simulate`, `check` and `fimsde.load`). With several files, or --by, it gets such a
    folder for each data set, and summary.csv; run again, it goes on where it stopped.

    Example: fimsde estimate tracks.csv --time t --values x,y --path track_id --out result
    """
    table.check_bands(resamples, level)
    place = _to_origin(origin)
    if len(data) > 1 or by is not None:
        given: dict[str, Any] = {"report": report, "level": level, "resamples": resamples, "seed": seed}
        given |= {"origin": place, "weights": _text(table.find_weights(weights))}
        return estimate_sets(data, columns, out, by, given, workers, overwrite, as_json)
    file = data[0]
    table.check_columns(file, columns)
    check_new(out, overwrite=overwrite, inputs=[file])
    observations = table.read_table(file, columns)
    model = table.find_weights(weights)
    with new_folder(out, overwrite=overwrite, inputs=[file, model], parents=True) as folder:
        record = _work(observations, model, place, folder, seed, (level, resamples) if report else None)
    from fimsde.report.folder import summary

    typer.echo(json.dumps(record, indent=1, allow_nan=False) if as_json else summary(record))
    typer.echo(f"the report is {out / 'report.html'}" if report else f"the numbers are in {out}", err=as_json)
    return None


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _work(
    observations: "Observations",
    model: Path | None,
    origin: Place,
    folder: Path,
    seed: int,
    bands: tuple[float, int] | None,
) -> dict[str, Any]:
    """Fill a folder; bands are a level and a number of resamples, None for no report."""
    stage(f"estimating the equation of {observations.num_points} observations")
    from fimsde.interface.cli.progress import bar
    from fimsde.results.make import estimate as make

    result = make(observations, model, origin=origin)
    stage("checking it" if bands is None else "checking it, drawing bands and figures")
    if bands is None:
        from fimsde.report.folder import NUM_STEPS_OF_NUMBERS, write_numbers

        with bar(NUM_STEPS_OF_NUMBERS, "estimate") as tell:
            return write_numbers(result, folder, seed, progress=tell)
    from fimsde.plots.bands import BandSettings
    from fimsde.report.folder import num_steps_of_folder, write_result

    settings = BandSettings(*bands, seed)
    with bar(num_steps_of_folder(result, settings), "estimate") as tell:
        return write_result(result, folder, settings, seed, progress=tell).record


def _to_origin(text: str | None) -> Place:
    if text is None or text == "unknown":
        return "auto" if text is None else None
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise ConfigError(
            f"--origin is {text!r}; expected one number per component, for instance 0,0, or unknown."
        ) from None
