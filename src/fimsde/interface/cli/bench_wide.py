"""`fimsde bench wide`: families of random systems, and the regret against the best specialist."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fimsde.errors import ConfigError

if TYPE_CHECKING:
    from fimsde.benchmark.wide.tasks import Chosen

DEFAULT_METHODS = ("kramers-moyal", "kramers-moyal-linear", "sparse-cubic", "gp-increments", "gp-weak", "evidence")


@dataclass(frozen=True)
class WideOptions:
    """What the command line asks of the wide suite; see `fimsde bench --help`."""

    methods: list[str] | None
    weights: list[Path]
    families: list[str]
    out: Path
    seed: int
    draws: int | None
    every: int
    quick: bool
    summary: bool
    renew: bool
    adopt: int | None
    as_json: bool
    tables_out: Path | None
    cache: Path | None


def bench_wide(options: WideOptions) -> None:
    """Run the suite, or read what is stored, and print regrets and errors."""
    from fimsde.benchmark.tables import ResultTable, to_markdown
    from fimsde.benchmark.wide.regret import is_ours, regrets
    from fimsde.benchmark.wide.run import run_wide
    from fimsde.benchmark.wide.store import read_all
    from fimsde.benchmark.wide.tables import error_tables, regret_tables
    from fimsde.benchmark.wide.tasks import chosen_families
    from fimsde.methods import named
    from fimsde.systems.wide.paths import DRAWS

    families = _families(options.families)
    names = list(options.methods or DEFAULT_METHODS) + (["fim"] if options.weights and not options.methods else [])
    if options.adopt:
        raise typer.Exit(_adopt(options, names, set(chosen_families(families))))
    if not options.summary:
        run_wide(
            named(names, weights=options.weights),
            out=options.out,
            families=families,
            seed=options.seed,
            draws=options.draws or DRAWS,
            every=options.every,
            quick=options.quick,
            renew=options.renew,
            cache=options.cache,
        )
    chosen = set(chosen_families(families))
    stored = [file for file in read_all(options.out, options.seed) if file.family in chosen]
    if not stored:
        raise ConfigError(f"no stored results of wide in {str(options.out)!r}; run it without --summary first.")
    ours = sorted({file.method for file in stored if is_ours(file.method)})
    if options.as_json:
        found = [regret for method in ours for regret in regrets(stored, method)]
        typer.echo(json.dumps([{**vars(r), "column": str(r.column), "regret": r.value} for r in found], indent=1))
        return
    tables: list[ResultTable] = [t for method in ours for t in regret_tables(stored, method)] + error_tables(stored)
    text = "\n".join(to_markdown(table) for table in tables)
    if options.tables_out is not None:
        _save(options.tables_out, text)
    typer.echo(text)


def _adopt(options: WideOptions, names: list[str], families: set[str]) -> int:
    """Adopt stored results of each method, or say why not; the exit code."""
    from fimsde.benchmark.wide.adopt import adopt_wide
    from fimsde.benchmark.wide.run import with_fields
    from fimsde.benchmark.wide.store import read_all
    from fimsde.methods import named

    stored = [file for file in read_all(options.out, options.seed) if file.family in families]
    differs = False
    for method in named(names, weights=options.weights):
        found = adopt_wide(with_fields(method), stored, out=options.out, sample=options.adopt or 1, cache=options.cache)
        typer.echo(str(found))
        differs |= found.difference is not None
    return int(differs)


def _families(words: list[str]) -> "Chosen | list[str]":
    match words:
        case ["development" | "reported" | "all" as share]:
            return share
    return words


def _save(folder: Path, text: str) -> None:
    from fimsde.files.outputs import new_file

    folder.mkdir(parents=True, exist_ok=True)
    with new_file(folder / "wide.md", overwrite=True, signature="# wide") as file:
        file.write_text(f"# wide\n\n{text}", encoding="utf-8")
