"""Checkpoints: all that a training run needs to go on as if it had never stopped, written in one atomic step.

A checkpoint is a folder `step-N` with state.safetensors (weights, averaged weights, optimiser) and state.json (step,
settings, versions). Random numbers need no state: those of step i follow from (seed, i). No pickles.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from fimsde.errors import CheckpointError
from fimsde.files.outputs import write_folder
from fimsde.files.settings import differences
from fimsde.files.versions import versions
from fimsde.model.untrusted import non_finite, raise_all, read_header, read_json, read_tensors, refuse_pickles

FORMAT_VERSION = 1  # raised when versions before could not read what is written
KEPT = 2  # checkpoints; older ones are removed. If the last is damaged, one is left
_TENSORS, _STATE = "state.safetensors", "state.json"
_NAME = re.compile(r"step-(\d{9})")


@dataclass
class State:
    """What training changes, and nothing else does."""

    model: nn.Module
    optimiser: torch.optim.AdamW
    ema: dict[str, Tensor]  # averaged weights; empty without averaging
    step: int = 0  # steps done, skipped ones included
    skipped: int = 0  # of them, for a loss or gradient that was not finite
    seconds: float = 0.0  # of training so far


def save(folder: Path, state: State, settings: Mapping[str, Any]) -> Path:
    """Write `folder/step-N`, then remove all but the last checkpoints. A failure leaves what was there before.

    Args:
        folder: Where the checkpoints of this run are.
        state: What to write.
        settings: All that the run depends on; `restore` compares them.
    """
    path = folder / f"step-{state.step:09d}"
    if path.exists():
        return path  # step N of a run has one state only
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in _tensors(state).items()}
    raise_all(non_finite(tensors), f"the state after step {state.step} cannot be saved")
    record = {
        "format_version": FORMAT_VERSION,
        "step": state.step,
        "skipped": state.skipped,
        "seconds": state.seconds,
        "settings": dict(settings),
        "versions": versions(),
    }
    files = {
        _TENSORS: safetensors.torch.save(tensors, {"format": "pt"}),
        _STATE: (json.dumps(record, indent=1, allow_nan=False) + "\n").encode(),
    }
    write_folder(path, files)
    _remove_old(folder)
    return path


def restore(folder: Path, state: State, settings: Mapping[str, Any]) -> None:
    """Load the last checkpoint into `state`. None there, other settings or a newer format are errors."""
    found = steps(folder)
    if not found:
        raise CheckpointError(f"no checkpoint in {folder}; there is nothing to resume. Start without --resume.")
    path = folder / f"step-{found[-1]:09d}"
    refuse_pickles(path)
    record = read_json(path / _STATE)
    _check_format(record, path)
    if different := differences(record["settings"], settings):
        raise CheckpointError(
            f"{path} belongs to a run with other settings: {'; '.join(different[:5])}. "
            "Resume with the same settings, or start in a new folder."
        )
    if record["step"] != found[-1]:
        raise CheckpointError(f"{path} says that it holds step {record['step']}. Remove it to use the one before.")
    _fill(state, path / _TENSORS)
    state.step, state.skipped, state.seconds = record["step"], record["skipped"], float(record["seconds"])


def steps(folder: Path) -> list[int]:
    """Steps of the complete checkpoints in a folder, in increasing order."""
    if not folder.is_dir():
        return []
    return sorted(int(match[1]) for path in folder.iterdir() if (match := _NAME.fullmatch(path.name)))


def _tensors(state: State) -> dict[str, Tensor]:
    tensors = {f"model.{name}": tensor for name, tensor in state.model.state_dict().items()}
    tensors |= {f"ema.{name}": tensor for name, tensor in state.ema.items()}
    for number, values in state.optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in values.items()}
    return tensors


def _fill(state: State, path: Path) -> None:
    parameters = state.optimiser.param_groups[0]["params"]
    shapes = {f"model.{name}": tuple(tensor.shape) for name, tensor in state.model.state_dict().items()}
    shapes |= {f"ema.{name}": tuple(tensor.shape) for name, tensor in state.ema.items()}
    if any(name.startswith("optimiser.") for name in read_header(path)):  # absent before the first step that counted
        for number, parameter in enumerate(parameters):
            shapes[f"optimiser.{number}.step"] = ()
            for name in ("exp_avg", "exp_avg_sq"):
                shapes[f"optimiser.{number}.{name}"] = tuple(parameter.shape)
    weights: dict[str, Tensor] = {}
    moments: dict[int, dict[str, Tensor]] = {}
    for name, tensor in read_tensors(path, shapes).items():
        kind, key = name.split(".", 1)
        if kind == "model":
            weights[key] = tensor
        elif kind == "ema":
            state.ema[key].copy_(tensor)
        else:
            position, part = key.split(".")
            moments.setdefault(int(position), {})[part] = tensor
    state.model.load_state_dict(weights)
    state.optimiser.load_state_dict({"state": moments, "param_groups": state.optimiser.state_dict()["param_groups"]})


def _check_format(record: Mapping[str, Any], path: Path) -> None:
    version = record.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool):
        raise CheckpointError(f"{path / _STATE} has no format_version; it was not written by fimsde.")
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{path} has format {version}, this fimsde reads up to {FORMAT_VERSION}. Install a newer fimsde."
        )
    kinds = {"step": int, "skipped": int, "seconds": int | float, "settings": dict}
    wrong = [name for name, kind in kinds.items() if not isinstance(record.get(name), kind)]
    if wrong:
        raise CheckpointError(f"{path / _STATE} lacks {', '.join(wrong)}. Remove {path} to use the one before.")


def _remove_old(folder: Path) -> None:
    for step in steps(folder)[:-KEPT]:
        # renamed first: a name `step-N` stands for a complete checkpoint even if the process is killed here
        os.rename(folder / f"step-{step:09d}", folder / f".step-{step:09d}.old")
    for leftover in folder.glob(".step-*.old"):
        shutil.rmtree(leftover, ignore_errors=True)
