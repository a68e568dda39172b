"""The folder of a training run: one process at a time, and the same command goes on where a stopped one ended."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fimsde.errors import CheckpointError, OutputError
from fimsde.files.claims import tidy
from fimsde.files.lock import LOCK
from fimsde.files.settings import differences
from fimsde.files.versions import versions
from fimsde.files.write import partial_files, write_file
from fimsde.model.untrusted import read_json
from fimsde.train import checkpoint

RUN, CHECKPOINTS, CURVE, REPORT, WEIGHTS = "run.json", "checkpoints", "curve.jsonl", "report.json", "weights"


def check_place(out: Path, *, resume: bool) -> None:
    """Refuse, before any work is done, a folder with nothing to resume, and one with files that are of no run."""
    if not out.is_dir():
        found: set[str] = set()
    else:
        found = {path.name for path in out.iterdir()} - {path.name for path in partial_files(out, RUN)}
    begun = bool(checkpoint.steps(out / CHECKPOINTS)) or (RUN in found and "settings" in read_json(out / RUN))
    if not begun and (others := sorted(found - {LOCK})):
        raise OutputError(
            f"{str(out)!r} is not empty and holds no run of fimsde: {others[0]!r} is in it. Choose another (--out)."
        )
    if resume and not begun and LOCK not in found:
        raise CheckpointError(f"no run was begun in {str(out)!r}; there is nothing to resume. Start without --resume.")


def goes_on(
    out: Path,
    settings: Mapping[str, Any],
    *,
    resume: bool,
    is_finished: Callable[[], bool],
    writes: bool = True,
) -> bool:
    """Whether a checkpoint is there to go on from; otherwise the run begins, and its settings are written down.

    A run that is finished is not made again. One that was begun with other settings is not gone on with.

    Args:
        out: The folder, held by this process.
        settings: All that the run depends on.
        resume: Whether it was asked for. Without it, a run that has no checkpoint yet may begin with other settings.
        is_finished: Whether all that a run leaves is there.
        writes: Of several processes one writes.
    """
    found = bool(checkpoint.steps(out / CHECKPOINTS))
    if not resume and is_finished():
        raise CheckpointError(
            f"{str(out)!r} holds a finished run. Use its {WEIGHTS}, or choose another folder (--out) for a new one."
        )
    if resume != found and (out / RUN).exists():  # what is resumed from a checkpoint is compared as it is loaded
        there = read_json(out / RUN).get("settings", {})
        if different := differences(there, settings):
            raise CheckpointError(
                f"{str(out)!r} belongs to a run with other settings: {'; '.join(different[:5])}. "
                "Go on with the same settings, or choose another folder (--out)."
            )
    if not found and writes:
        record = {"settings": dict(settings), "versions": versions()}
        write_file(out / RUN, (json.dumps(record, indent=1, allow_nan=False) + "\n").encode(), OutputError)
    return found


def clear(out: Path) -> None:
    """Remove what killed processes left half-made, once everything is there; the folder is held by this process."""
    tidy(out)
    for leftover in partial_files(out, "*"):
        leftover.unlink(missing_ok=True)
