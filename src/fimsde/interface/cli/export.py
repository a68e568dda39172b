"""`fimsde export`: a model as graphs that run without this package."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fimsde.errors import ConfigError
from fimsde.interface.cli import table

_BUNDLED = "bundled"


def export(
    model: Annotated[Path, typer.Argument(help=f"Folder of weights, or '{_BUNDLED}'.", show_default=False)],
    out_dir: Annotated[Path, typer.Argument(help="Folder to write.", show_default=False)],
    formats: Annotated[str, typer.Option("--format", help="onnx, torch, or both with a comma between.")] = "onnx,torch",
    dims: Annotated[
        str | None, typer.Option(help="Primed models: dimensions to write, e.g. 1,2; default: all.")
    ] = None,
    overwrite: table.Overwrite = False,
    as_json: table.AsJson = False,
) -> None:
    """Write encoder and query head of a model as ONNX and torch.export graphs, checked against the model.

    Example: fimsde export bundled graphs --format onnx --dims 1
    """
    from fimsde.estimation import bundled_model
    from fimsde.export.write import DESCRIPTION, export_model, num_files
    from fimsde.interface.cli.progress import bar
    from fimsde.model.fim import FIMSDE

    folder = None if str(model) == _BUNDLED else table.find_weights(model)
    loaded = bundled_model() if folder is None else FIMSDE.from_pretrained(folder)
    kinds = [word.strip() for word in formats.split(",")]
    wanted = None if dims is None else _numbers(dims)
    with bar(num_files(loaded, kinds, wanted), "export") as tell:
        export_model(loaded, out_dir, formats=kinds, dims=wanted, overwrite=overwrite, progress=tell)
    if as_json:
        typer.echo(json.dumps({"out": str(out_dir)} | json.loads((out_dir / DESCRIPTION).read_text()), indent=1))
        return
    typer.echo(f"the graphs are in {out_dir}; {out_dir / DESCRIPTION} says what they take and give")


def _numbers(text: str) -> list[int]:
    try:
        return [int(word) for word in text.split(",")]
    except ValueError:
        raise ConfigError(f"--dims is {text!r}; expected whole numbers separated by commas, e.g. 1,2,3.") from None
