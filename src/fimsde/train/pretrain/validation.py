"""Validation: the objective on equations of the prior that no run trains on, the same ones for all seeds."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import isfinite
from pathlib import Path

import torch

from fimsde.errors import OutputError
from fimsde.files.write import write_file
from fimsde.model.fim import FIMSDE
from fimsde.train.config import TrainConfig
from fimsde.train.log import read_log
from fimsde.train.pretrain.batches import Batch, StreamedBatches
from fimsde.train.pretrain.objectives import choose_objective

FILE = "validation.jsonl"
_SEED = 2**32 - 1  # set apart: settings with this seed would train on the validation set


def validation_batches(config: TrainConfig) -> list[Batch]:
    """The first batches of the validation stream."""
    stream = validation_stream(config)
    return [stream[index] for index in range(config.validation_batches)]


def validation_stream(config: TrainConfig) -> StreamedBatches:
    """Equations set apart, drawn from the prior and by the rules of these settings."""
    return StreamedBatches(replace(config, equations=0, loop=replace(config.loop, seed=_SEED)))


@torch.no_grad()
def validate(model: FIMSDE, batches: Iterable[Batch], config: TrainConfig) -> dict[str, float | None]:
    """Mean of the loss and of its parts over the batches, without dropout. None for a mean that is not finite."""
    objective, model = choose_objective(config), model.eval()
    losses = [objective(model, batch) for batch in batches]
    rows = [{"loss": float(loss.total), **{k: float(v) for k, v in loss.parts.items()}} for loss in losses]
    means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    return {name: mean if isfinite(mean) else None for name, mean in means.items()}


def record_validation(out: Path, step: int, losses: Mapping[str, float | None]) -> None:
    """Add a line to validation.jsonl; lines of this step or later ones come from a part that is being repeated."""
    kept = [line for line in read_log(out, FILE) if line["step"] < step]
    lines = [json.dumps(line) + "\n" for line in (*kept, {"step": step, **losses})]
    write_file(out / FILE, "".join(lines).encode(), OutputError)
