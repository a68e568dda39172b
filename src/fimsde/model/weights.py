"""Weights on disk: a folder with config.json, model.safetensors, README.md and training.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import safetensors.torch
import torch
from huggingface_hub import snapshot_download
from torch import Tensor

from fimsde.bank.identity import FIRST, Identity, difference
from fimsde.errors import CheckpointError
from fimsde.files.outputs import write_folder
from fimsde.model.config import ModelConfig
from fimsde.model.untrusted import non_finite, raise_all, read_json, refuse_pickles

CONFIG, TENSORS, CARD, TRAINING = "config.json", "model.safetensors", "README.md", "training.json"
FORMAT_VERSION = 2  # 1 does not say which bank the weights were trained on
_BANK = "bank"


def find_folder(path_or_hub_id: str | Path, *, allow_download: bool = False, revision: str | None = None) -> Path:
    """The local folder of weights: the path itself if it exists, else the local copy of a Hugging Face Hub repository.

    The network is used only with `allow_download`.
    """
    folder = Path(path_or_hub_id)
    if folder.is_dir():
        return folder
    try:
        files = [CONFIG, TENSORS, CARD, TRAINING]
        local = snapshot_download(
            str(path_or_hub_id), revision=revision, allow_patterns=files, local_files_only=not allow_download
        )
    except Exception as error:  # the hub raises anything from OSError to its own HTTP errors
        advice = (
            "Check the name."
            if allow_download
            else "Check the path, or pass allow_download=True to fetch a hub repository."
        )
        raise CheckpointError(
            f"no weights at {str(path_or_hub_id)!r}: no such folder, and no local copy. {advice}"
        ) from error
    return Path(local)


def read_config(folder: Path) -> ModelConfig:
    """The model config of a folder of weights."""
    refuse_pickles(folder)
    settings = read_json(folder / CONFIG)
    if "model_type" in settings:
        raise CheckpointError(
            f"{folder} holds a checkpoint of the authors' code. Run `fimsde convert {folder} OUT_DIR` first."
        )
    version = settings.pop("format_version", None)
    if not isinstance(version, int) or isinstance(version, bool):
        raise CheckpointError(f"{folder / CONFIG} has no format_version; it was not written by fimsde.")
    if version > FORMAT_VERSION:
        raise CheckpointError(
            f"{folder} has format {version}, this fimsde reads up to {FORMAT_VERSION}. Install a newer fimsde."
        )
    there = settings.pop(_BANK, None) if version > 1 else FIRST
    config = ModelConfig.from_mapping(settings)
    here = config.reader.identity
    if not here:
        return config
    if not _is_identity(there):
        raise CheckpointError(f"{folder / CONFIG} does not say which bank the weights were trained on. Fetch it again.")
    if different := difference(there, here):
        raise CheckpointError(
            f"the weights in {folder} were trained on another bank of candidates: {different}. Install the fimsde that "
            "trained them, or train a model anew."
        )
    return config


def _is_identity(value: object) -> TypeGuard[Identity]:
    return isinstance(value, Mapping) and all(
        isinstance(lines, list) and all(isinstance(line, str) for line in lines) for lines in value.values()
    )


def config_text(config: ModelConfig) -> str:
    """What stands in config.json: the settings, and the bank that the model reads, if it does."""
    bank = {_BANK: config.reader.identity} if config.reader.identity else {}
    return json.dumps({"format_version": FORMAT_VERSION, **json.loads(config.to_json()), **bank}, indent=2) + "\n"


def write_weights(
    folder: Path,
    config: ModelConfig,
    tensors: Mapping[str, Tensor],
    training: Mapping[str, Any],
    *,
    overwrite: bool = False,
) -> None:
    """Write a complete folder of weights in one step: afterwards it is there, or nothing has changed."""
    wrong = [f"{name} is {t.dtype}, expected float32" for name, t in tensors.items() if t.dtype != torch.float32]
    raise_all(wrong + non_finite(tensors), "these weights cannot be saved")
    files = {
        CONFIG: config_text(config).encode(),
        TENSORS: safetensors.torch.save(
            {k: t.detach().cpu().contiguous() for k, t in tensors.items()}, {"format": "pt"}
        ),
        CARD: _card(config, training).encode(),
        TRAINING: (json.dumps(dict(training), indent=2, allow_nan=False) + "\n").encode(),
    }
    write_folder(folder, files, overwrite=overwrite)


def _card(config: ModelConfig, training: Mapping[str, Any]) -> str:
    lines = [f"- {key}: {json.dumps(value)}" for key, value in training.items()] or [
        "No record: these weights may be random."
    ]
    return f"""---
library_name: fimsde
license: mit
tags: [fimsde, stochastic-differential-equations, in-context-learning]
---

# A recognition model for stochastic differential equations

{config.num_parameters:,} parameters, up to {config.max_dim} state components. Reads time series and returns drift and
diffusion of the equation behind them, without training on them. Architecture: "In-Context Learning of Stochastic
Differential Equations with Foundation Inference Models" (NeurIPS 2025).

```python
import fimsde

model = fimsde.FIMSDE.from_pretrained("path/to/this/folder")
sde = fimsde.estimate(observations, model)
```

## Training

{chr(10).join(lines)}
"""
