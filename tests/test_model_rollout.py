"""Paths simulated from a model with gradients: Euler steps of its own fields, padded components at zero."""

import numpy as np
import torch

from fimsde.data.transitions import Transitions
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.rollout import rollout

MODEL = FIMSDE(ModelConfig.preset("tiny"), seed=1).double().eval()


def test_a_rollout_takes_euler_steps_and_holds_padded_components_at_zero_if_asked_to():
    rng = np.random.default_rng(0)
    tr = Transitions(*rng.standard_normal((2, 30, 2)), rng.uniform(0.01, 0.05, 30), np.zeros(30, np.int64))
    generator = torch.Generator().manual_seed(0)
    start = torch.zeros(1, 4, 3, dtype=torch.float64)
    start[..., :2] = torch.randn(1, 4, 2, generator=generator, dtype=torch.float64)
    dt = torch.tensor([0.1, 0.02, 0.3], dtype=torch.float64).expand(1, 4, 3)
    noise = torch.randn(3, 1, 4, 3, generator=generator, dtype=torch.float64)
    dims = torch.tensor([[True, True, False]])
    with torch.no_grad():
        context = MODEL.encode(MODEL.read([tr]))
        pinned, free = (rollout(MODEL, context, start, dt, noise, dims, pin_padded=pin) for pin in (True, False))
        x, y = start, start
        for i, h in enumerate((0.1, 0.02, 0.3)):
            drift, diffusion = MODEL.evaluate(context, x)
            x = (x + drift * h + diffusion * h**0.5 * noise[i]) * torch.tensor([1.0, 1.0, 0.0])
            drift, diffusion = MODEL.evaluate(context, y)
            y = y + drift * h + diffusion * h**0.5 * noise[i]
            torch.testing.assert_close(pinned[:, :, i + 1], x)
            torch.testing.assert_close(free[:, :, i + 1], y)
    assert torch.all(pinned[..., 2] == 0)
    assert torch.all(free[:, :, 1:, 2] != 0)
