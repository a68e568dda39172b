"""`fimsde demo`: a double well, simulated, observed, estimated and drawn beside the truth."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fimsde.cli import table
from fimsde.cli.output import new_folder

_RESAMPLES = 30
_DATA = "double_well.csv"


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results; made anew.")] = Path("demo"),
    seed: table.Seed = 0,
    as_json: table.AsJson = False,
) -> None:
    """Simulate a double well, estimate its equation from the observations alone, and draw it beside the truth.

    Example: fimsde demo --out demo
    """
    from fimsde.cli.results import summary, write_result
    from fimsde.estimation import estimate
    from fimsde.plots import BandSettings
    from fimsde.systems.canonical import DOUBLE_WELL, context

    with new_folder(out, replace=True) as folder:
        drawn = context(DOUBLE_WELL, stride=10, seed=seed)
        rows = "".join(f"{t!r},{x!r}\n" for t, x in zip(drawn.times.tolist(), drawn.values[:, 0].tolist(), strict=True))
        (folder / _DATA).write_text("t,x\n" + rows)
        observations = table.read_table(folder / _DATA, table.Columns(time="t"))
        bands = BandSettings(resamples=_RESAMPLES, seed=seed)
        record = write_result(estimate(observations), folder, bands, seed, truth=DOUBLE_WELL)
    typer.echo(json.dumps(record, indent=1, allow_nan=False) if as_json else summary(record))
    if not as_json:
        typer.echo("the truth: dx = (4 x - 4 x^3) dt + sqrt(4 - 1.25 x^2) dW")
    typer.echo(f"the report is {out / 'report.html'}, the picture {out / 'fields.png'}", err=as_json)
