"""`fimsde pretrain`: train a model on synthetic equations."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fimsde.errors import ConfigError
from fimsde.interface.cli import table

if TYPE_CHECKING:
    from fimsde.train.checkpoint import State
    from fimsde.train.config import TrainConfig


def pretrain(
    out: Annotated[Path, typer.Option(help="Folder for settings, log, checkpoints and weights.")],
    preset: Annotated[
        str | None, typer.Option(help="paper, primed, paper-1.6m, paper-0.4m, paper-0.1m, or -tiny for tests.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings of the run (TOML or JSON), no preset.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Steps of training; default: those of the settings.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Stop if no run was begun in --out.")] = False,
    data: Annotated[Path | None, typer.Option(help="Read equations made by `fimsde generate`.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder of stored contexts; what is missing is made.")] = None,
    cache_equations: Annotated[int | None, typer.Option(min=1, help="How many contexts the cache holds.")] = None,
    start: Annotated[Path | None, typer.Option(help="Weights to begin with, in place of random ones.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes that make batches and contexts beside this one.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of torch; default: one per core.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write events for TensorBoard.")] = False,
    as_json: table.AsJson = False,
) -> None:
    """Train a model and write its weights into OUT/weights. Ctrl-C saves; the same command goes on from there.

    Example: fimsde pretrain --preset primed-tiny --out run --steps 20
    """
    import torch

    from fimsde.prior.manifest import read_manifest
    from fimsde.train.loop import RunOptions
    from fimsde.train.pretrain.run import pretrain as train
    from fimsde.train.run_folder import WEIGHTS

    settings = _settings(preset, config)
    if steps is not None:
        settings = replace(settings, loop=replace(settings.loop, steps=steps))
    if cache_equations is not None:
        settings = replace(settings, cache_equations=cache_equations)
    if data is not None:
        made = read_manifest(data).settings
        settings = replace(settings, dataset=made.identity, prior=made.config)
    if threads is not None:
        torch.set_num_threads(threads)
    options = RunOptions(workers=workers, show_progress=True, tensorboard=tensorboard)
    state = train(settings, out, resume=resume, data=data, cache=cache, start=start, options=options)
    if os.environ.get("RANK", "0") == "0":  # of the processes that torchrun starts, one speaks
        typer.echo(_record(state, settings.loop.steps, out / WEIGHTS, as_json))
    if state.step < settings.loop.steps:
        raise typer.Exit(130)


def _record(state: "State", steps: int, weights: Path, as_json: bool) -> str:
    complete = state.step == steps
    if as_json:
        counts = {"steps": state.step, "steps_wanted": steps, "skipped": state.skipped, "seconds": state.seconds}
        return json.dumps({"complete": complete, **counts, "weights": str(weights)})
    done = f"{state.step} of {steps} steps in {state.seconds:.0f} s, {state.skipped} skipped"
    if complete:
        return f"{done}; the weights are in {weights}"
    return f"stopped after {done}; run the same command again to go on"


def _settings(preset: str | None, config: Path | None) -> "TrainConfig":
    from fimsde.train.config import TrainConfig

    if preset is not None and config is None:
        return TrainConfig.preset(preset)
    if config is not None and preset is None:
        return TrainConfig.from_file(config)
    raise ConfigError("pretrain needs either --preset or --config.")
