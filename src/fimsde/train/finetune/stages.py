"""Finetuned estimates along training: more iterations go on from fewer."""

import hashlib
import shutil
from dataclasses import replace
from pathlib import Path

from fimsde._version import __version__
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.files.outputs import new_folder
from fimsde.model.weights import TENSORS
from fimsde.train.checkpoint import steps
from fimsde.train.finetune.config import FinetuneConfig
from fimsde.train.finetune.run import finetune
from fimsde.train.run_folder import CHECKPOINTS


def fit_finetuned(
    weights: Path, config: FinetuneConfig, until: int, work: Path | None, observations: Observations, seed: int
) -> SDE:
    """The best equation in the first `until` iterations of finetuning.

    Args:
        weights: Folder of the model.
        config: How the whole run is planned.
        until: Iterations of it that are done.
        work: Where runs are kept, one folder for each number of iterations; None: nowhere.
        observations: The data.
        seed: Of the run.
    """
    config = replace(config, seed=seed % 2**32)
    if not until:
        return finetune(weights, observations, replace(config, iterations=0)).sde
    if work is None:
        return finetune(weights, observations, config, until=until).sde
    out = _folder(weights, config, until, work, observations)
    return finetune(weights, observations, config, out=out, resume=bool(steps(out / CHECKPOINTS)), until=until).sde


def _folder(weights: Path, config: FinetuneConfig, until: int, work: Path, observations: Observations) -> Path:
    """The folder of this run, begun as a copy of the longest shorter run if there is one."""
    work.mkdir(parents=True, exist_ok=True)
    run = repr((config, __version__)).encode() + (weights / TENSORS).read_bytes()
    run += observations.values.tobytes() + observations.times.tobytes() + observations.path_starts.tobytes()
    stem = f"finetuned-{hashlib.sha256(run).hexdigest()[:16]}-"
    folder = work / f"{stem}{until}"
    lengths = [int(end) for found in work.glob(f"{stem}*") if (end := found.name.removeprefix(stem)).isdecimal()]
    shorter = [n for n in lengths if n < until]
    if not folder.exists() and shorter:
        with new_folder(folder) as beginning:
            shutil.copytree(work / f"{stem}{max(shorter)}", beginning, dirs_exist_ok=True)
    return folder
