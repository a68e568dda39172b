"""fimsde convert: the authors' published checkpoint becomes a folder of weights."""

from pathlib import Path
from typing import Annotated

import typer


def convert(
    authors_dir: Annotated[
        Path, typer.Argument(help="Local folder with the authors' config.json and model.safetensors.")
    ],
    out_dir: Annotated[Path, typer.Argument(help="Folder to write; must not exist.")],
) -> None:
    """Convert the authors' published FIM-SDE checkpoint into weights that fimsde loads.

    Example: fimsde convert fim-sde/ weights/
    """
    from fimsde.model.convert import convert as convert_checkpoint

    model = convert_checkpoint(authors_dir, out_dir)
    typer.echo(f"wrote {out_dir}: {model.config.num_parameters:,} parameters")
