"""`fimsde bench`: the paper's experiments, each resumable, beside the published numbers."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fimsde.errors import ConfigError
from fimsde.interface.cli.bench_ablation import ArmOptions, bench_arms
from fimsde.interface.cli.bench_calibration import CalibrationOptions, bench_calibration
from fimsde.interface.cli.bench_wide import WideOptions, bench_wide

if TYPE_CHECKING:
    from fimsde.benchmark.suites.cases import Suite


def bench(
    experiment: Annotated[
        str,
        typer.Argument(
            help="canonical, lorenz, real-world, convergence, context-size, ablation, out-of-class; wide, gallery, "
            "noisy-cubic, bursts, verdicts or calibration."
        ),
    ],
    methods: Annotated[
        str | None, typer.Option(help="Comma-separated, e.g. kramers-moyal,bisde,sparsegp,latentsde,fimsde,fim.")
    ] = None,
    weights: Annotated[list[Path] | None, typer.Option(help="Folder of weights of a model; may be repeated.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the result files; what is there is not computed again.")] = Path(
        "bench"
    ),
    systems: Annotated[str | None, typer.Option(help="Some of the systems or series, comma-separated.")] = None,
    families: Annotated[
        str, typer.Option(help="Of wide: development, reported, all, or some families, comma-separated.")
    ] = "development",
    repetitions: Annotated[int | None, typer.Option(min=1, help="Data sets or folds per cell; draws of wide.")] = None,
    every: Annotated[int, typer.Option(min=1, help="Of wide: only every so many draws, for slow methods.")] = 1,
    iterations: Annotated[str | None, typer.Option(help="When to score along training, e.g. 500,1000.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="0 for reports; from 1000000 for development.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A small version of the experiment.")] = False,
    paths: Annotated[bool, typer.Option(help="Whether to simulate and compare paths, the longest part.")] = True,
    workers: Annotated[int, typer.Option(min=1, help="Processes, one thread each.")] = 1,
    data: Annotated[Path | None, typer.Option(help="Folder of the real series; default: FIMSDE_DATA.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Folder for reference Grams; default: the user's cache.")] = None,
    summary: Annotated[bool, typer.Option("--summary", help="Only print what is stored.")] = False,
    renew: Annotated[
        bool, typer.Option("--renew", help="Compute results again that were made by other or unknown code.")
    ] = False,
    adopt: Annotated[
        int | None,
        typer.Option(min=1, help="Compute so many stored results again; if they agree, the code of all is this one."),
    ] = None,
    arms: Annotated[
        str | None, typer.Option(help="Of ablation: train and compare these arms, comma-separated, or all.")
    ] = None,
    minutes: Annotated[float, typer.Option(min=0, help="Of --arms: how long to train; run again to go on.")] = 0.0,
    work: Annotated[Path, typer.Option(help="Of --arms: folder of checkpoints and weights.")] = Path("runs"),
    measure: Annotated[
        bool, typer.Option("--measure", help="Of --arms: measure the last milestones on the canonical tasks.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print every cell as JSON instead of tables.")] = False,
    tables_out: Annotated[
        Path | None, typer.Option("--tables", help="Folder for the tables as .md, .tex and .csv.")
    ] = None,
    figures_out: Annotated[Path | None, typer.Option("--figures", help="Folder for the figures.")] = None,
    spread: Annotated[
        Path | None, typer.Option(help="Of calibration: file for the factors that intervals would need.")
    ] = None,
) -> None:
    """Measure estimators on an experiment of the paper, beside the published numbers, or on a suite, beside others.

    Example: fimsde bench canonical --methods kramers-moyal,bisde --quick
    """
    from fimsde.benchmark.adopt import adopt as adopt_stored
    from fimsde.benchmark.provenance import remarks
    from fimsde.benchmark.report import save_figures, save_tables, text_tables
    from fimsde.benchmark.results import read_all
    from fimsde.benchmark.run import run
    from fimsde.benchmark.suites.cases import SUITES
    from fimsde.benchmark.summary import summarise
    from fimsde.benchmark.tasks import EXPERIMENTS, FINETUNE_ITERATIONS, LATENT_ITERATIONS
    from fimsde.files.place import check_place
    from fimsde.methods import named

    if experiment != "ablation":
        _refuse(experiment, {"--arms": arms, "--minutes": minutes, "--measure": measure})
    elif arms is not None:
        refused = {"--methods": methods, "--weights": weights, "--systems": systems, "--adopt": adopt, "--data": data}
        _refuse("ablation --arms", refused | {"--workers": workers > 1, "--tables": tables_out, "--renew": renew})
        bench_arms(
            ArmOptions(
                *(_words(arms), work, out, 0.0 if summary else minutes, quick),
                measure=measure and not summary,
                paths=paths,
                repetitions=repetitions,
                seed=seed,
                cache=cache,
                figures=figures_out,
                as_json=as_json,
            )
        )
        return
    elif minutes or measure:
        raise ConfigError("--minutes and --measure are for --arms; name the arms, or write --arms all.")
    if experiment == "calibration":
        refused = {"--iterations": iterations, "--adopt": adopt, "--methods": methods}
        _refuse(experiment, refused | {"--workers": workers > 1, "--weights": weights, "--data": data})
        sources = _words(systems) if systems else ["prior", "wide", "canonical"]
        bench_calibration(
            CalibrationOptions(
                sources=sources,
                families=_words(families),
                out=out,
                seed=seed,
                draws=repetitions,
                quick=quick,
                summary=summary,
                renew=renew,
                as_json=as_json,
                tables_out=tables_out,
                spread=spread,
                figures=figures_out,
            )
        )
        return
    if experiment == "verdicts":
        _verdicts(out, seed, repetitions, figures_out, quick=quick, summary=summary, as_json=as_json)
        return
    if experiment in SUITES:
        refused = {"--iterations": iterations, "--adopt": adopt, "--tables": tables_out, "--figures": figures_out}
        _refuse(experiment, refused | {"--workers": workers > 1})
        words = _words(methods) if methods else None
        _suite(experiment, words, weights or (), out, systems, repetitions, seed, quick, summary, renew, as_json)
        return
    if experiment == "wide":
        if figures_out or systems or iterations or data or workers > 1:
            raise ConfigError(
                "--figures, --systems, --iterations, --data and --workers are not for wide; leave them out, "
                "and choose families with --families."
            )
        bench_wide(
            WideOptions(
                methods=_words(methods) if methods else None,
                weights=weights or [],
                families=_words(families),
                out=out,
                seed=seed,
                draws=repetitions,
                every=every,
                quick=quick,
                summary=summary,
                renew=renew,
                adopt=adopt,
                as_json=as_json,
                tables_out=tables_out,
                cache=cache,
            )
        )
        return
    if experiment not in EXPERIMENTS:
        names = ", ".join((*EXPERIMENTS, *SUITES, "wide", "verdicts", "calibration"))
        raise ConfigError(f"unknown experiment {experiment!r}; choose from {names}.")
    chosen = named(
        _default_methods(experiment, bool(weights)) if methods is None else _words(methods),
        real_series=experiment in ("real-world", "convergence"),
        weights=weights or (),
        work=None if renew or adopt else out / "work",  # training states there may be of other code
    )
    for place, option in ((tables_out, "--tables"), (figures_out, "--figures")):
        if place is not None:
            check_place(place, option)
    wanted = _words(systems) if systems else None
    usual = FINETUNE_ITERATIONS if {method.name for method in chosen} == {"ours-finetuned"} else LATENT_ITERATIONS
    if adopt:
        stored = read_all(out, experiment, seed=seed, quick=quick)
        stored = [r for r in stored if wanted is None or r.task.system in wanted]
        differs = False
        for method in chosen:
            adoption = adopt_stored(method, stored, out=out, sample=adopt, data=data, cache=cache)
            typer.echo(str(adoption))
            differs |= adoption.difference is not None
        raise typer.Exit(int(differs))
    if summary:
        stored = read_all(out, experiment, seed=seed, quick=quick)
        keep = {method.name for method in chosen} if methods or weights else {r.method for r in stored}
        results = [r for r in stored if r.method in keep and (wanted is None or r.task.system in wanted)]
        if not results:
            raise ConfigError(f"no stored results of {experiment} in {str(out)!r}; run it without --summary first.")
    else:
        results = run(
            experiment,
            chosen,
            out=out,
            seed=seed,
            repetitions=repetitions,
            systems=wanted,
            iterations=[int(n) for n in _words(iterations)] if iterations else usual,
            quick=quick,
            compare_paths=paths,
            data=data or os.environ.get("FIMSDE_DATA"),
            cache=cache,
            workers=workers,
            renew=renew,
        )
    for line in remarks(results, out):
        typer.echo(line, err=True)
    cells = summarise(results)
    if tables_out:
        save_tables(experiment, cells, tables_out)
    if figures_out:
        save_figures(experiment, cells, chosen, figures_out, systems=wanted, seed=seed, quick=quick)
    typer.echo(json.dumps([cell.as_json() for cell in cells], indent=1) if as_json else text_tables(experiment, cells))


def _verdicts(
    out: Path,
    seed: int,
    repetitions: int | None,
    figures: Path | None,
    *,
    quick: bool,
    summary: bool,
    as_json: bool,
) -> None:
    """False alarms of the verdicts, and how often each way to be wrong is named."""
    from dataclasses import asdict

    from fimsde.benchmark.verdicts.run import kinds, run
    from fimsde.benchmark.verdicts.tables import table
    from fimsde.interface.cli.progress import bar

    found = []
    with bar(len(kinds(quick=quick)), "verdicts") as tell:
        for kind, outcomes in run(out, seed=seed, repetitions=repetitions, quick=quick, compute=not summary):
            found.append((kind, outcomes))
            tell(kind.name)
    if not found:
        raise ConfigError(f"no stored outcomes of verdicts in {str(out)!r}; run it without --summary first.")
    if figures is not None:
        from fimsde.benchmark.verdicts.figures import save_figure

        save_figure(found, figures)
    cells = [{"kind": kind.name, "outcomes": [asdict(o) for o in outcomes]} for kind, outcomes in found]
    typer.echo(json.dumps(cells, indent=1) if as_json else table(found))


def _refuse(experiment: str, options: Mapping[str, object]) -> None:
    for name, value in options.items():
        if value:
            raise ConfigError(f"{name} was given, but {experiment} has no use for it; leave it out.")


def _suite(
    suite: "Suite",
    methods: Sequence[str] | None,
    weights: Sequence[Path],
    out: Path,
    systems: str | None,
    repetitions: int | None,
    seed: int,
    quick: bool,
    summary: bool,
    renew: bool,
    json_wanted: bool,
) -> None:
    from fimsde.benchmark.suites.run import other_code, run_suite, stored
    from fimsde.benchmark.suites.tables import as_json, tables
    from fimsde.methods import named

    usual = ["evidence", "ours", "sfi-linear", "sfi-parametric"] if summary else ["evidence"]
    chosen = named(usual if methods is None else methods, weights=weights)
    wanted = _words(systems) if systems else None
    if summary:
        results = stored(suite, chosen, out=out, seed=seed, systems=wanted)
        if not results:
            raise ConfigError(f"no stored scores of {suite} in {str(out)!r}; run it without --summary first.")
    else:
        results = run_suite(
            *(suite, chosen), out=out, seed=seed, repetitions=repetitions, systems=wanted, quick=quick, renew=renew
        )
    for line in other_code(suite, results):
        typer.echo(line, err=True)
    found = tables(suite, results)
    typer.echo(json.dumps(as_json(suite, results), indent=1) if json_wanted else "\n".join(map(str, found)))


def _default_methods(experiment: str, has_weights: bool) -> list[str]:
    if has_weights:
        return ["fim"]
    if experiment == "ablation":
        return ["ours"]
    return ["latentsde"] if experiment == "convergence" else ["kramers-moyal", "bisde", "sparsegp"]


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
