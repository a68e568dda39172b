"""Identities: SHA-256 digests by which data, settings and weights are known again.

Digests stand in files (results, checkpoints, caches, data sets), so what a function here returns never changes:
tests/test_files.py holds values that were stored by earlier versions.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fimsde.shapes import Array

SHORT = 16  # hexadecimal digits of a digest in names and records: 64 bits, so 1e6 runs share one with chance 3e-8


@runtime_checkable
class _Observed(Protocol):
    """What `fimsde.read` returns, as far as it is looked at here."""

    @property
    def names(self) -> tuple[str, ...]: ...
    @property
    def times(self) -> Array: ...
    @property
    def values(self) -> Array: ...
    @property
    def path_starts(self) -> Array: ...


def sha256(*parts: str | bytes | Array) -> str:
    """SHA-256 of parts in a row: texts as UTF-8, arrays as their numbers in C order, lowest byte first."""
    digest = hashlib.sha256()
    for part in parts:
        match part:
            case str():
                digest.update(part.encode())
            case bytes():
                digest.update(part)
            case _:
                digest.update(np.ascontiguousarray(part, dtype=part.dtype.newbyteorder("<")).data)
    return digest.hexdigest()


def file_hash(file: Path) -> str:
    """That of the bytes of a file."""
    return sha256(file.read_bytes())


def settings_hash(settings: Mapping[str, Any]) -> str:
    """That of settings, whatever the order of their names."""
    return sha256(json.dumps(settings, sort_keys=True))


def paths_hash(observations: _Observed) -> str:
    """That of values, times and the ends of paths: all that training depends on."""
    return sha256(observations.values, observations.times, observations.path_starts)


def data_hash(observations: _Observed) -> str:
    """That of names, times, values and the ends of paths: all that a report shows."""
    starts = observations.path_starts.astype(np.int64)
    return sha256("\0".join(observations.names), observations.times, observations.values, starts)


def model_hash(model: Any) -> str:
    """That of the weights of a model as they would be written to disk, so that of the file model.safetensors."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    return sha256(save(tensors, {"format": "pt"}))


def fingerprint(model: Any) -> str:
    """That of the numbers in the weights alone, short; runs are recorded with it."""
    return sha256(*(t.detach().cpu().contiguous().numpy() for t in model.state_dict().values()))[:SHORT]
