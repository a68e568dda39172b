"""Weights on disk: a folder with config.json, model.safetensors, README.md and training.json."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from huggingface_hub import snapshot_download
from torch import Tensor

from fimsde.errors import CheckpointError
from fimsde.files.outputs import write_folder
from fimsde.model.config import ModelConfig
from fimsde.model.untrusted import non_finite, raise_all, read_json, refuse_pickles

CONFIG, TENSORS, CARD, TRAINING = "config.json", "model.safetensors", "README.md", "training.json"
FORMAT_VERSION = 1


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
    return ModelConfig.from_mapping(settings)


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
    settings = {"format_version": FORMAT_VERSION, **json.loads(config.to_json())}
    files = {
        CONFIG: (json.dumps(settings, indent=2) + "\n").encode(),
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
