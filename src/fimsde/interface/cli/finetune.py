"""`fimsde finetune`: adapt a model to one data set."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fimsde.interface.cli import table

if TYPE_CHECKING:
    from fimsde.train.finetune.result import Finetuned, Judgement


@table.with_columns
def finetune(
    data: table.Data,
    columns: table.Columns,
    out: Annotated[Path, typer.Option(help="Folder for weights, report, curve, log and checkpoints.")],
    weights: table.Weights = None,
    objective: Annotated[str, typer.Option(help="auto, dense, sparse (the paper's) or filtered.")] = "auto",
    iterations: Annotated[int, typer.Option(min=0, help="Iterations of training.")] = 100,
    parameters: Annotated[str, typer.Option(help="What learns: all, heads or low-rank.")] = "all",
    correction: Annotated[bool, typer.Option(help="Whether the model gets a polynomial of its own.")] = True,
    substeps: Annotated[int | None, typer.Option(min=1, help="Steps per gap; default: by the data.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Largest learning rate.")] = None,
    hold_out: Annotated[float | None, typer.Option(help="Share of the data that only judges; 0: none.")] = None,
    seed: table.Seed = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Stop if no run was begun in --out.")] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of torch; default: one per core.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Adapt a model to a table of observations and write its weights into OUT/weights. Ctrl-C keeps the best so far.

    Example: fimsde finetune data.csv --time t --values x,y --path id --out tuned
    """
    table.check_columns(data, columns)
    import torch

    from fimsde.train.finetune.config import FinetuneConfig
    from fimsde.train.finetune.run import finetune as adapt
    from fimsde.train.loop import RunOptions
    from fimsde.train.run_folder import WEIGHTS

    given: dict[str, Any] = {"learning_rate": learning_rate, "hold_out": hold_out, "substeps": substeps}
    config = FinetuneConfig(
        iterations=iterations,
        objective=objective,
        parameters=parameters,
        correction=correction,
        seed=seed,
        **{name: value for name, value in given.items() if value is not None},
    )
    observations, model = table.read_table(data, columns), table.find_weights(weights)
    if threads is not None:
        torch.set_num_threads(threads)
    options = RunOptions(show_progress=True, unit=" iterations")
    found = adapt(model, observations, config, out=out, resume=resume, options=options)
    typer.echo(json.dumps(found.report(), indent=1) if as_json else _summary(found, out / WEIGHTS))
    if found.ended == "interrupted":
        typer.echo("interrupted; run the same command again to go on", err=True)
        raise typer.Exit(130)


def _summary(found: "Finetuned", weights: Path) -> str:
    return (
        f"{found.objective} objective ({found.reason})\n"
        f"held-out log-likelihood {_number(found.before)} before, {_number(found.after)} after {found.after.iteration} "
        f"of {found.iterations} iterations ({found.ended}, {found.seconds:.0f} s); the weights are in {weights}\n"
        f"{found.verdict}"
    )


def _number(judgement: "Judgement") -> str:
    return "not finite" if judgement.log_likelihood is None else f"{judgement.log_likelihood:.4f}"
