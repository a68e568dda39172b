"""Paths simulated from the model in its normalised coordinates, batched and with gradients: for finetuning.

Users simulate an `EstimatedSDE` with `fimsde.simulate`; both take the same step.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from fimsde.model.fim import FIMSDE, Context
from fimsde.simulate import euler_step


def rollout(
    model: FIMSDE,
    context: Context,
    start: Float[Tensor, "batch paths max_dim"],
    dt: Float[Tensor, "batch paths steps"],
    noise: Float[Tensor, "steps batch paths max_dim"],
    dims: Bool[Tensor, "batch max_dim"],
    *,
    pin_padded: bool = True,
) -> Float[Tensor, "batch paths states max_dim"]:
    """The start and the state after every Euler-Maruyama step.

    Args:
        model: The model.
        context: What it has read.
        start: Initial states; padded components are zero.
        dt: Length of each step, normalised time.
        noise: Standard normal draws.
        dims: True for the real components of each system.
        pin_padded: Hold padded components at zero. The authors' evaluation lets them wander under untrained outputs and
            feeds them back as locations (False), which changes the real components.
    """
    states = [start]
    for i in range(dt.shape[-1]):
        x = states[-1]
        ahead = euler_step(x, *model.evaluate(context, x), dt[..., i, None], noise[i])
        states.append(torch.where(dims[:, None, :], ahead, 0.0) if pin_padded else ahead)
    return torch.stack(states, dim=-2)
