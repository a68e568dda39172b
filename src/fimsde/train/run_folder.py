"""The folder of a training run: one process at a time, and the same command goes on where a stopped one ended."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from fimsde.errors import CheckpointError
from fimsde.files.lock import LOCK
from fimsde.model.untrusted import read_json
from fimsde.prior.shards import write_atomically
from fimsde.train import checkpoint, log

RUN, CHECKPOINTS, CURVE, REPORT, WEIGHTS = "run.json", "checkpoints", "curve.jsonl", "report.json", "weights"
_SIGNS = (LOCK, RUN, CHECKPOINTS, log.FILE, CURVE)  # of a run that was begun, however early it ended


def check_place(out: Path, *, resume: bool) -> None:
    """Refuse, before any work is done, a folder with nothing to resume, or with results that are of no run."""
    begun = any((out / name).exists() for name in _SIGNS)
    if resume and not begun:
        raise CheckpointError(f"no run was begun in {str(out)!r}; there is nothing to resume. Start without --resume.")
    if not begun and (taken := [name for name in (WEIGHTS, REPORT) if (out / name).exists()]):
        raise CheckpointError(
            f"{str(out / taken[0])!r} exists already and would be replaced. Choose another folder (--out)."
        )


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
        if different := checkpoint.differences(there, settings):
            raise CheckpointError(
                f"{str(out)!r} belongs to a run with other settings: {'; '.join(different[:5])}. "
                "Go on with the same settings, or choose another folder (--out)."
            )
    if not found and writes:
        record = {"settings": dict(settings), "versions": checkpoint.versions()}
        write_atomically(out / RUN, (json.dumps(record, indent=1, allow_nan=False) + "\n").encode())
    return found


def clear(out: Path) -> None:
    """Remove what killed processes left half-made, once everything is there; the folder is held by this process."""
    for leftover in (*out.glob(".*.partial"), *out.glob(".*.old")):
        if leftover.is_dir():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


def fingerprint(model: nn.Module) -> str:
    """Tells weights apart."""
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]
