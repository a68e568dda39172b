"""fimsde convert: the authors' published checkpoint becomes a folder of weights."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fimsde.interface.cli import table


def convert(
    authors_dir: Annotated[
        Path, typer.Argument(help="Local folder with the authors' config.json and model.safetensors.")
    ],
    out_dir: Annotated[Path, typer.Argument(help="Folder to write.")],
    overwrite: table.Overwrite = False,
    as_json: table.AsJson = False,
) -> None:
    """Convert the authors' published FIM-SDE checkpoint into weights that fimsde loads.

    Example: fimsde convert fim-sde/ weights/
    """
    from fimsde.model.convert import convert as convert_checkpoint

    model = convert_checkpoint(authors_dir, out_dir, overwrite=overwrite)
    parameters = model.config.num_parameters
    record = json.dumps({"parameters": parameters, "out": str(out_dir)})
    typer.echo(record if as_json else f"wrote {out_dir}: {parameters:,} parameters")
