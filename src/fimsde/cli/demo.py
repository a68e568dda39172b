"""`fimsde demo`: a double well, simulated, observed and drawn."""

from pathlib import Path
from typing import Annotated

import typer

from fimsde.cli.output import new_folder


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results; made anew.")] = Path("demo"),
    seed: Annotated[int, typer.Option(help="Seed of the simulation.")] = 0,
) -> None:
    """Simulate a double well and draw the observations beside the true field.

    Example: fimsde demo --out demo
    """
    from fimsde.plot import plot_field
    from fimsde.systems.canonical import DOUBLE_WELL, context

    with new_folder(out, replace=True) as folder:
        obs = context(DOUBLE_WELL, stride=10, noise_std=0.05, seed=seed)
        rows = "".join(f"{t!r},{x!r}\n" for t, x in zip(obs.times.tolist(), obs.values[:, 0].tolist(), strict=True))
        (folder / "double_well.csv").write_text("t,x\n" + rows)
        figure = plot_field(DOUBLE_WELL, obs, title="double well, observed with 5 % noise", label="truth")
        figure.savefig(folder / "double_well.png", dpi=150)
    typer.echo(f"{obs.num_points} observations of a double well: {out / 'double_well.csv'}, {out / 'double_well.png'}")
