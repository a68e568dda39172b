"""Where a result came from: versions, checksums, seeds."""

import hashlib
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from fimsde._version import __version__
from fimsde.data.observations import Observations
from fimsde.results.result import Result

_PACKAGES = ("torch", "numpy", "scipy", "numba")


def versions() -> tuple[tuple[str, str], ...]:
    """fimsde, Python and the packages that numbers depend on."""
    found = [("fimsde", __version__), ("Python", platform.python_version())]
    for name in _PACKAGES:
        try:
            found.append((name, version(name)))
        except PackageNotFoundError:
            continue
    return (*found, ("machine", f"{platform.system()} {platform.machine()}"))


def weights_hash(result: Result) -> str | None:
    """SHA-256 of the weights, that of the file model.safetensors they come from; None for an equation without any."""
    model: Any = getattr(result.fitted, "model", None)
    return None if model is None else model_hash(model)


def model_hash(model: Any) -> str:
    """SHA-256 of the weights of a model, as they would be written to disk."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    return hashlib.sha256(save(tensors, {"format": "pt"})).hexdigest()


def data_hash(observations: Observations) -> str:
    """SHA-256 of names, times, values and the ends of paths."""
    digest = hashlib.sha256("\0".join(observations.names).encode())
    for array in (observations.times, observations.values, observations.path_starts.astype(np.int64)):
        digest.update(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes())
    return digest.hexdigest()
