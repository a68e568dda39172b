"""`fimsde simulate`: paths of an estimated equation as a table."""

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fimsde.errors import ConfigError
from fimsde.files.outputs import new_file
from fimsde.files.spreadsheet import neutral
from fimsde.interface.cli import table

if TYPE_CHECKING:
    from fimsde.data.observations import Observations
    from fimsde.shapes import Array, Float64
    from fimsde.simulate import Paths

_SUBSTEPS = 4  # by hand: a quarter of the error of one Euler step, at four times the price
_LONG = 1000  # rows by default, at most; by hand: a table that one can look at
_CLOCK = ("path", "t")  # the first columns
_SIGNATURE = ",".join(_CLOCK) + ","  # by which a table of ours is known


@table.with_columns
def simulate(
    source: table.Source,
    columns: table.Columns,
    out: Annotated[Path, typer.Option(help="The table to write.")] = Path("paths.csv"),
    paths: Annotated[int, typer.Option(min=1, help="How many paths.")] = 10,
    start: Annotated[str | None, typer.Option(help="First state, e.g. 0.5,1; default: observed states.")] = None,
    duration: Annotated[float | None, typer.Option(help="Time from first to last row; default: as the data.")] = None,
    step: Annotated[float | None, typer.Option(help="Time between rows; default: as the data.")] = None,
    substeps: Annotated[int, typer.Option(min=1, help="Steps of the simulation between rows.")] = _SUBSTEPS,
    weights: table.Weights = None,
    seed: table.Seed = 0,
    overwrite: table.Overwrite = False,
    as_json: table.AsJson = False,
) -> None:
    """Simulate a result, or the estimate of a table, and write the paths as a table with columns path, t and the state.

    Example: fimsde simulate result --paths 100 --duration 50 --step 0.1 --out paths.csv
    """
    with new_file(out, overwrite=overwrite, inputs=[source], signature=_SIGNATURE) as file:
        result = table.open_result(source, columns, weights)
        from fimsde.interface.cli.progress import Watched, bar
        from fimsde.simulate import simulate as march
        from fimsde.tabulate import table_around

        assert result.observations is not None, "an estimate has its data"
        starts = _starts(start, paths, result.observations, seed)
        times = _times(duration, step, result.observations)
        sde, _ = table_around(result, result.observations)
        with bar(substeps * (len(times) - 1), "simulate") as tell:
            found = march(Watched(sde, tell), starts, times, substeps=substeps, seed=seed)
        _write(file, found, result.names)
    record = {"paths": paths, "rows": int(found.mask.sum()), "diverged": found.num_diverged, "out": str(out)}
    sentence = f"{paths} paths of {len(times)} rows, {found.num_diverged} of them diverged: {out}"
    typer.echo(json.dumps(record) if as_json else sentence)


def _starts(text: str | None, num: int, observations: "Observations", seed: int) -> "Float64[Array, 'paths dim']":
    import numpy as np

    if text is None:
        rows = np.random.default_rng(seed).integers(observations.num_points, size=num)
        return observations.values[rows]
    try:
        state = np.array([float(part) for part in text.split(",")])
    except ValueError:
        raise ConfigError(f"--start is {text!r}; expected numbers separated by commas, e.g. 0.5,1.") from None
    if len(state) != observations.dim or not np.isfinite(state).all():
        raise ConfigError(
            f"--start is {text!r}; expected {observations.dim} finite number(s), one for each of "
            f"{', '.join(observations.names)}."
        )
    return np.tile(state, (num, 1))


def _times(duration: float | None, step: float | None, observations: "Observations") -> "Float64[Array, ' times']":
    import numpy as np

    from fimsde.data.transitions import to_transitions

    gap = float(f"{np.median(to_transitions(observations).dtau):.9g}") if step is None else step
    if not (np.isfinite(gap) and gap > 0):
        raise ConfigError(f"--step is {gap:g}; expected a positive number, the time between rows.")
    if duration is None:
        rows = min(_LONG, int(np.diff(observations.path_starts).max()))
        return gap * np.arange(max(rows, 2))
    if not (np.isfinite(duration) and duration >= gap):
        raise ConfigError(f"--duration is {duration:g}; expected at least one step, {gap:g}.")
    return gap * np.arange(int(duration / gap * (1 + 1e-9)) + 1)


def _write(file: Path, found: "Paths", names: tuple[str, ...]) -> None:
    with file.open("w", newline="", encoding="utf-8") as target:
        writer = csv.writer(target)
        writer.writerow([*_CLOCK, *map(neutral, names)])
        for k, (times, states, known) in enumerate(zip(found.times, found.values, found.mask, strict=True)):
            for t, state in zip(times[known].tolist(), states[known].tolist(), strict=True):
                writer.writerow([k, repr(t), *map(repr, state)])
