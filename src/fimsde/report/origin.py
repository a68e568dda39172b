"""Where the weights of a result came from."""

from typing import Any

from fimsde.files.identities import model_hash
from fimsde.results import Result


def weights_hash(result: Result) -> str | None:
    """SHA-256 of the weights, that of the file model.safetensors they come from; None for an equation without any."""
    model: Any = getattr(result.sde, "model", None)
    return None if model is None else model_hash(model)
