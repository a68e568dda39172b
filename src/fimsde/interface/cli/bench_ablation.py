"""`fimsde bench ablation --arms`: models of several sizes trained on several amounts of data, in portions."""

import json
from dataclasses import dataclass
from pathlib import Path

import typer

from fimsde.errors import ConfigError


@dataclass(frozen=True)
class ArmOptions:
    """What the command line says about the arms."""

    arms: list[str]
    work: Path
    out: Path
    minutes: float
    quick: bool
    measure: bool
    paths: bool
    repetitions: int | None
    seed: int
    cache: Path | None
    figures: Path | None
    as_json: bool


def bench_arms(options: ArmOptions) -> None:
    """Train for some minutes, measure if asked for, and print the tables of what is stored."""
    import torch

    from fimsde.benchmark.scaling.arms import chosen_arms, milestones
    from fimsde.benchmark.scaling.curves import read_curves
    from fimsde.benchmark.scaling.figures import save_curves
    from fimsde.benchmark.scaling.measure import measure_arms
    from fimsde.benchmark.scaling.tables import as_json, text_tables
    from fimsde.benchmark.scaling.train import train_arms
    from fimsde.files.place import check_place

    arms, stops = chosen_arms(options.arms, quick=options.quick), milestones(quick=options.quick)
    for place, option in ((options.work, "--work"), (options.out, "--out"), (options.figures, "--figures")):
        if place is not None:
            check_place(place, option)
    if options.minutes:
        torch.set_num_threads(1)  # another number would round differently, and portions have to fit together
        train_arms(
            *(arms, options.work, options.out),
            seconds=60 * options.minutes,
            milestones=stops,
            quick=options.quick,
            tell=lambda line: typer.echo(line, err=True),
        )
    if options.measure:
        measure_arms(
            *(arms, options.work, options.out, stops),
            compare_paths=options.paths,
            repetitions=options.repetitions,
            seed=options.seed,
            quick=options.quick,
            cache=options.cache,
        )
    curves = read_curves(options.out, arms)
    if not curves:
        raise ConfigError(f"no arm was judged so far in {str(options.out)!r}; give more minutes (--minutes).")
    if options.figures is not None:
        save_curves(arms, curves, options.figures)
    typer.echo(json.dumps(as_json(arms, curves), indent=1) if options.as_json else text_tables(arms, curves))
