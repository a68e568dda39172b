"""`fimsde generate`: synthetic equations for training."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from fimsde.errors import ConfigError
from fimsde.interface.cli import table

if TYPE_CHECKING:
    from fimsde.prior.manifest import Manifest

T = TypeVar("T")


def generate(
    equations: Annotated[int | None, typer.Option(min=1, help="How many equations to make.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the data set; run again to resume.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Equation i depends on the settings, the seed and i only.")] = 0,
    config: Annotated[
        Path | None, typer.Option(help="Settings of the prior (TOML); default: the authors' data.")
    ] = None,
    dims: Annotated[str | None, typer.Option(help="Some of the dimensions, e.g. 1,2,3.")] = None,
    gaps: Annotated[str | None, typer.Option(help="Some of the observation gaps, e.g. 0.1,0.01,0.001.")] = None,
    shard_size: Annotated[int, typer.Option(min=1, help="Equations per file.")] = 64,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; default: one per core.")] = None,
    shard_index: Annotated[int | None, typer.Option(min=0, help="Make only this file (for batch arrays).")] = None,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler to use instead of processes.")] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Make damaged files again.")] = False,
    stats: Annotated[Path | None, typer.Option(help="Print the acceptance rates of a finished data set.")] = None,
    as_json: table.AsJson = False,
) -> None:
    """Make a data set of random equations, their paths and targets, or finish one that was begun.

    Example: fimsde generate --equations 2000 --seed 0 --out data
    """
    from fimsde.files.workers import dask_cluster, process_pool
    from fimsde.prior.config import PriorConfig
    from fimsde.prior.dataset import generate as make
    from fimsde.prior.manifest import DatasetSettings, read_manifest
    from fimsde.prior.stats import acceptance, acceptance_table

    if stats is not None:
        made = read_manifest(stats)
        typer.echo(_record(made, stats) if as_json else acceptance_table(acceptance(made)))
        return
    if equations is None or out is None:
        raise ConfigError("generate needs --equations and --out (or --stats with the folder of a finished data set).")
    prior = PriorConfig() if config is None else PriorConfig.from_file(config)
    prior = prior.restrict(dims=_numbers("dims", dims, int), gaps=_numbers("gaps", gaps, float))
    settings = DatasetSettings(num_equations=equations, seed=seed, config=prior, shard_size=shard_size)
    num_workers = 1 if shard_index is not None else min(workers or os.cpu_count() or 1, settings.num_shards)
    with dask_cluster(dask) if dask else process_pool(num_workers) as executor:
        manifest = make(settings, out, executor=executor, shard_index=shard_index, repair=repair, show_progress=True)
    if manifest is None:
        missing = f"shard {shard_index} of {settings.num_shards} is in {out}; others are still missing"
        part = {"complete": False, "shard": shard_index, "shards": settings.num_shards, "out": str(out)}
        typer.echo(json.dumps(part) if as_json else missing)
    elif as_json:
        typer.echo(_record(manifest, out))
    else:
        accepted, proposals = equations, sum(row.proposals for row in acceptance(manifest))
        typer.echo(f"{accepted} equations ({proposals} proposed) in {settings.num_shards} shards are in {out}")


def _record(manifest: "Manifest", out: Path) -> str:
    from fimsde.prior.stats import acceptance

    rows: list[dict[str, Any]] = [asdict(row) | {"interval": row.interval()} for row in acceptance(manifest)]
    counts = {"equations": manifest.settings.num_equations, "proposals": sum(row["proposals"] for row in rows)}
    shards = manifest.settings.num_shards
    return json.dumps({"complete": True, **counts, "shards": shards, "out": str(out), "acceptance": rows}, indent=1)


def _numbers(name: str, text: str | None, kind: Callable[[str], T]) -> list[T] | None:
    if text is None:
        return None
    try:
        return [kind(part) for part in text.split(",")]
    except ValueError as error:
        raise ConfigError(f"--{name} is {text!r}; expected numbers separated by commas, e.g. 1,2,3.") from error
