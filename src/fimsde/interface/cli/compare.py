"""`fimsde compare`: all methods on one data set."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from fimsde.interface.cli import table

if TYPE_CHECKING:
    from fimsde.analysis.compare import Comparison


@table.with_columns
def compare(
    data: table.Data,
    columns: table.Columns,
    methods: Annotated[str | None, typer.Option(help="Comma-separated; default: all that need no training.")] = None,
    seed: table.Seed = 0,
    as_json: table.AsJson = False,
) -> None:
    """Fit every method to four fifths of the data and score it on the rest: likelihood, discrepancy of paths, seconds.

    Example: fimsde compare tracks.csv --time t --values x --methods fimsde,kramers-moyal,bisde
    """
    observations = table.read_table(data, columns)
    from fimsde.analysis.compare import DEFAULT, ranked
    from fimsde.analysis.compare import Comparison as Scores
    from fimsde.analysis.compare import compare as score
    from fimsde.interface.cli.progress import bar

    chosen = [m.strip() for m in methods.split(",") if m.strip()] if methods else list(DEFAULT)
    parts = []
    with bar(len(chosen), "compare") as tell:
        for method in chosen:  # the split and all seeds are the same, whether methods run together or one by one
            parts.append(score(observations, [method], seed=seed))
            tell(method)
    found = Scores(ranked(s for part in parts for s in part.scores), parts[0].num_held_out, parts[0].num_pieces)
    typer.echo(json.dumps(_record(found), indent=1, allow_nan=False) if as_json else str(found))


def _record(found: "Comparison") -> dict[str, object]:
    scores = [asdict(score) for score in found.scores]
    for score in scores:
        score["likelihood_reason"] = score["failure"] if score["likelihood"] is None else None
        if score["num_impossible"]:
            count = f"{score['num_impossible']} of {found.num_held_out} held-out steps"
            score |= {"likelihood": None, "likelihood_reason": f"{count} are impossible under this equation"}
    return {"held_out_steps": found.num_held_out, "pieces": found.num_pieces, "scores": scores}
