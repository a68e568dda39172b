"""What `estimate`, `demo` and the app leave of a result: a page, numbers, grids, a picture and the result itself."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fimsde.data.grid import nodes_per_axis
from fimsde.equations.sde import SDE, correlation
from fimsde.errors import InvalidObservationsError
from fimsde.files.spreadsheet import neutral
from fimsde.plots.bands import BandSettings
from fimsde.report.answer import answer_of, text_of
from fimsde.report.findings import BRIEF, STEPS, Findings, Progress, find
from fimsde.results.result import Result

if TYPE_CHECKING:  # the page loads matplotlib
    from fimsde.report.page import Page

SAVED = "saved"  # the folder, inside what is written, that `fimsde.load` reads
# of the grid in fields.csv: in all, per axis, on a line; by hand: 41² in the plane, bounds seconds
_NODES, _MOST_NODES, _ALONE = 1700, 41, 201
_EXTRA = 2  # steps of the bar beside the report: "grid" and "save"


NUM_STEPS_OF_NUMBERS = len(STEPS) + _EXTRA  # how often `write_numbers` calls its `progress`


@dataclass(frozen=True)
class WrittenFolder:
    """What was written, for those who want to show it: the page, and the numbers of result.json."""

    page: "Page"
    record: dict[str, Any]


def num_steps_of_folder(result: Result, bands: BandSettings) -> int:
    """How often `write_result` calls its `progress`."""
    from fimsde.report.page import num_steps

    return num_steps(result, bands) + _EXTRA


def write_result(
    result: Result,
    folder: Path,
    bands: BandSettings,
    seed: int,
    *,
    truth: SDE | None = None,
    progress: Progress | None = None,
) -> WrittenFolder:
    """Fill a folder with report.html, result.json, fields.csv, fields.png and the saved result.

    Args:
        result: An estimate.
        folder: An existing folder.
        bands: How bands are made.
        seed: Seed of simulations and checks.
        truth: An equation to draw beside the estimate.
        progress: Called with a few words after every step; see `num_steps_of_folder`.
    """
    from fimsde.report.page import make_page

    tell = progress or (lambda label: None)
    found = find(result, seed, tell)
    page = make_page(found, bands, truth=truth, progress=tell)
    (folder / "report.html").write_text(page.html(), encoding="utf-8")
    write_fields(result, folder / "fields.csv", bands)
    tell("grid")
    (folder / "fields.png").write_bytes(page.picture)
    return WrittenFolder(page, _write_rest(found, folder, tell))


def write_numbers(result: Result, folder: Path, seed: int, *, progress: Progress | None = None) -> dict[str, Any]:
    """Fill a folder with result.json, fields.csv without bands and the saved result: nothing is drawn or simulated.

    Args:
        result: An estimate.
        folder: An existing folder.
        seed: Seed of checks.
        progress: Called with a few words after every one of `NUM_STEPS_OF_NUMBERS` steps.
    """
    tell = progress or (lambda label: None)
    found = find(result, seed, tell, parts=BRIEF)
    write_fields(result, folder / "fields.csv", BandSettings(resamples=0))
    tell("grid")
    return _write_rest(found, folder, tell)


def _write_rest(found: Findings, folder: Path, tell: Progress) -> dict[str, Any]:
    """The saved result, and the findings in numbers, which are returned."""
    found.result.save(folder / SAVED)
    tell("save")
    record = {"answer": answer_of(found).record()} | found.record()
    (folder / "result.json").write_text(json.dumps(record, indent=2, allow_nan=False) + "\n")
    return record


def write_fields(result: Result, file: Path, bands: BandSettings) -> None:
    """Drift and diffusion with bands on a regular grid over the data, one row per node."""
    assert result.observations is not None, "an estimate has its data"
    x = result.observations.grid(nodes_per_axis(result.dim, _NODES, _MOST_NODES, _ALONE))
    drift, diffusion = result.fields(x)
    columns = {"drift": drift, "diffusion": diffusion}
    band = bands.of(result, x)
    if band is not None:
        columns |= {"drift_low": band.drift_low, "drift_high": band.drift_high}
        columns |= {"diffusion_low": band.diffusion_low, "diffusion_high": band.diffusion_high}
    head = [*result.names, *(f"{what} {name}" for what in columns for name in result.names)]
    numbers = np.concatenate([x, *columns.values()], axis=1)
    if not result.is_diagonal:
        i, j = np.triu_indices(result.dim, 1)
        head += [f"correlation {result.names[a]} {result.names[b]}" for a, b in zip(i, j, strict=True)]
        numbers = np.concatenate([numbers, correlation(result, x)[:, i, j]], axis=1)
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad):
        i, j = bad[0]
        raise InvalidObservationsError(
            f"{head[j]!r} is {numbers[i, j]} at {np.array2string(x[i], precision=4)}: the data do not tell it. Add "
            "observations, leave out components that hardly change, or do without bands (--resamples 0)."
        )
    with file.open("w", newline="", encoding="utf-8") as target:
        writer = csv.writer(target)
        writer.writerow(map(neutral, [*head, "data_nearby"]))
        for row, near in zip(numbers.tolist(), result.inside(x).tolist(), strict=True):
            writer.writerow([*map(repr, row), int(near)])


def summary(record: dict[str, Any]) -> str:
    """The answer in five lines, from the numbers of result.json."""
    return text_of(record["answer"])
