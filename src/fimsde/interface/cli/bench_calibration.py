"""`fimsde bench calibration`: how often intervals of the posterior hold the truth."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

import typer

from fimsde.errors import ConfigError

_DRAWS = {"prior": 10, "wide": 10, "canonical": 5}  # equations, or data sets of a system, by default


@dataclass(frozen=True)
class CalibrationOptions:
    """What the command line asks for; see `fimsde bench --help`."""

    sources: list[str]
    families: list[str]
    out: Path
    seed: int
    draws: int | None
    quick: bool
    summary: bool
    renew: bool
    as_json: bool
    tables_out: Path | None
    spread: Path | None
    figures: Path | None


def bench_calibration(options: CalibrationOptions) -> None:
    """Measure what is missing, and print tables; or write the table of spreads."""
    from fimsde.benchmark.calibration.data import Case, Source, cases
    from fimsde.benchmark.calibration.run import read_rows, run
    from fimsde.benchmark.calibration.tables import tables
    from fimsde.benchmark.tables import to_markdown
    from fimsde.benchmark.wide.tasks import chosen_families
    from fimsde.interface.cli.progress import bar

    unknown = [source for source in options.sources if source not in _DRAWS]
    if unknown:
        raise ConfigError(f"--systems is {', '.join(unknown)}; calibration has {', '.join(_DRAWS)}.")
    wanted: list[Case] = []
    for source in (known for known in get_args(Source) if known in options.sources):
        words = options.families
        names = chosen_families(words[0] if words in (["development"], ["reported"], ["all"]) else words)
        draws = options.draws or (2 if options.quick else _DRAWS[source])
        wanted += cases(source, draws, names=names if source == "wide" else None, quick=options.quick)
    if options.summary:
        stored = read_rows(options.out, options.seed)
        rows = [stored[case] for case in wanted if case in stored]
        if not rows:
            raise ConfigError(f"no stored results of calibration in {str(options.out)!r}; run it without --summary.")
    else:
        with bar(len(wanted), "calibration") as tell:
            rows = list(run(wanted, options.out, options.seed, renew=options.renew, tell=tell))
    if options.spread is not None:
        from fimsde.benchmark.calibration.spreads import spread_table
        from fimsde.files.write import write_file

        command = f"fimsde bench calibration --systems prior --seed {options.seed} --spread {options.spread.name}"
        write_file(options.spread, spread_table(rows, command).encode())
    if options.figures is not None:
        from fimsde.benchmark.calibration.figures import save_figure

        save_figure(rows, options.figures)
    found = tables(rows)
    if options.as_json:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=1))
        return
    text = "\n".join(to_markdown(table) for table in found)
    if options.tables_out is not None:
        from fimsde.files.outputs import new_file

        options.tables_out.mkdir(parents=True, exist_ok=True)
        with new_file(options.tables_out / "calibration.md", overwrite=True, signature="# calibration") as file:
            file.write_text(f"# calibration\n\n{text}", encoding="utf-8")
    typer.echo(text)
