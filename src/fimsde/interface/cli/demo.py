"""`fimsde demo`: a double well, simulated, observed, estimated and drawn beside the truth."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fimsde.files.outputs import new_folder
from fimsde.interface.cli import table

_RESAMPLES = 30  # by hand: bands within seconds
DATA = "double_well.csv"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("demo"),
    seed: table.Seed = 0,
    overwrite: table.Overwrite = False,
    as_json: table.AsJson = False,
) -> None:
    """Simulate a double well, estimate its equation from the observations alone, and draw it beside the truth.

    Example: fimsde demo --out demo
    """
    from fimsde.interface.cli.progress import bar
    from fimsde.plots import BandSettings
    from fimsde.report.folder import num_steps_of_folder, summary, write_result
    from fimsde.results.make import estimate
    from fimsde.systems.canonical import DOUBLE_WELL

    with new_folder(out, overwrite=overwrite, parents=True) as folder:
        (folder / DATA).write_text(demo_table(seed))
        result = estimate(table.read_table(folder / DATA, table.Columns(time="t")))
        bands = BandSettings(resamples=_RESAMPLES, seed=seed)
        with bar(num_steps_of_folder(result, bands), "demo") as tell:
            record = write_result(result, folder, bands, seed, truth=DOUBLE_WELL, progress=tell).record
    typer.echo(json.dumps(record, indent=1, allow_nan=False) if as_json else summary(record))
    if not as_json:
        typer.echo("the truth: dx = (4 x - 4 x^3) dt + sqrt(4 - 1.25 x^2) dW")
    typer.echo(f"the report is {out / 'report.html'}, the picture {out / 'fields.png'}", err=as_json)


def demo_table(seed: int = 0) -> str:
    """Observations of a simulated double well as the text of a CSV file with columns t and x."""
    from fimsde.systems.canonical import DOUBLE_WELL, context

    drawn = context(DOUBLE_WELL, stride=10, seed=seed)
    rows = zip(drawn.times.tolist(), drawn.values[:, 0].tolist(), strict=True)
    return "t,x\n" + "".join(f"{t!r},{x!r}\n" for t, x in rows)
