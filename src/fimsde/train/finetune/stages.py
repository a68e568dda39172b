"""Finetuned estimates along training: more iterations go on from fewer."""

from dataclasses import replace
from pathlib import Path

from fimsde._version import __version__
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.files.identities import SHORT, sha256
from fimsde.files.stages import begun
from fimsde.model.weights import TENSORS
from fimsde.train.checkpoint import steps
from fimsde.train.finetune.config import FinetuneConfig, stored_name
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
    data = (observations.values, observations.times, observations.path_starts)
    run = sha256(f"({stored_name(config)}, {__version__!r})", (weights / TENSORS).read_bytes(), *data)
    out = begun(work, f"finetuned-{run[:SHORT]}", until)
    return finetune(weights, observations, config, out=out, resume=bool(steps(out / CHECKPOINTS)), until=until).sde
