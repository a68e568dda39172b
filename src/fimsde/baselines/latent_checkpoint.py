"""Training state of the LatentSDE baseline on disk: written in one piece, restored to the bit."""

import json
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from torch import nn

from fimsde.errors import CheckpointError
from fimsde.files.write import write_file


def save(
    file: Path, run: dict[str, str], networks: nn.Module, optimiser: torch.optim.Optimizer, losses: list[float]
) -> None:
    """Write weights, optimiser state and losses; `file` holds either the previous state or this one, never a part.

    Args:
        file: A safetensors file; an existing one is replaced.
        run: What the training depends on; `restore` refuses a file of another run.
        networks: The weights.
        optimiser: Its state after the last of `losses`.
        losses: One per iteration done.
    """
    tensors = {f"networks.{name}": tensor for name, tensor in networks.state_dict().items()}
    for number, state in optimiser.state_dict()["state"].items():
        tensors |= {f"optimiser.{number}.{name}": tensor for name, tensor in state.items()}
    tensors["losses"] = torch.tensor(losses, dtype=torch.float64)
    content = safetensors.torch.save(tensors, metadata={"run": json.dumps(run)})
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, content, CheckpointError)


def restore(file: Path, run: dict[str, str], networks: nn.Module, optimiser: torch.optim.Optimizer) -> list[float]:
    """Load the state of `run` into networks and optimiser; the losses so far, none if the file does not exist yet.

    Raises:
        CheckpointError: The file is damaged or belongs to another run.
    """
    if not file.exists():
        return []
    try:
        with safetensors.safe_open(file, "pt") as stream:
            found = json.loads(stream.metadata()["run"])
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118, not a dictionary
    except (safetensors.SafetensorError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            f"{file} is not a readable LatentSDE checkpoint ({error}). Delete it to start afresh."
        ) from error
    different = [f"{key} is {found.get(key)}, asked for {run[key]}" for key in run if found.get(key) != run[key]]
    if different:
        raise CheckpointError(
            f"{file} belongs to another run: {'; '.join(different)}. Pass another file, or delete this one."
        )
    weights: dict[str, torch.Tensor] = {}
    states: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        match name.split(".", 1):
            case ["networks", key]:
                weights[key] = tensor
            case ["optimiser", key]:
                number, part = key.split(".")
                states.setdefault(int(number), {})[part] = tensor
    networks.load_state_dict(weights)
    optimiser.load_state_dict({"state": states, "param_groups": optimiser.state_dict()["param_groups"]})
    return tensors["losses"].tolist()
