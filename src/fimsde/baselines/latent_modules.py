"""The networks of the LatentSDE baseline and its evidence lower bound (Li et al. 2020, as run for the FIM-SDE paper).

Latent Ito equations with diagonal noise and one diffusion g for both: the posterior dz = f(z, context) dt + g(z) dW,
the prior dz = h(z) dt + g(z) dW. Sequences are time-first here, (times, paths, ...), because every loop runs over time.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence
from torch.nn import functional

from fimsde.shapes import Array, Float64
from fimsde.simulate import euler_step

ActivationName = Literal["sigmoid", "softplus"]
LatentField = Callable[[Tensor, int], tuple[Tensor, Tensor]]  # (z, step number) -> drift, diffusion

_SAME_TIME = 1e-9  # times closer than this are one time: k * dt and j / (times - 1) differ by rounding
_SMALLEST_DIFFUSION = 1e-7  # a float32 sigmoid can reach 0; the path KL divides by it


@dataclass(frozen=True)
class StepGrid:
    """The solver's steps on [0, 1] and where the observation times fall between them.

    Attributes:
        dt: Length of each step.
        context: For each step, the number of the first observation strictly after its start (the last one at the end).
        left: For each observation, the number of the step it falls into.
        weight: For each observation, how far into that step it lies, from 0 to 1.
    """

    dt: Float[Tensor, " steps"]
    context: Int[Tensor, " steps"]
    left: Int[Tensor, " times"]
    weight: Float[Tensor, " times"]

    def at_observations(self, states: Float[Tensor, "points paths latent"]) -> Float[Tensor, "times paths latent"]:
        """The straight line between the two solver states around each observation time."""
        return torch.lerp(states[self.left], states[self.left + 1], self.weight[:, None, None])


def step_grid(
    times: Float64[Array, " times"], dt: float | None, dtype: torch.dtype = torch.float32, device: str = "cpu"
) -> StepGrid:
    """Steps of length `dt` from the first to the last of `times`, or from observation to observation if it is None.

    As in torchsde, observations do not add steps: between two solver states a path is a straight line. The number of
    steps is an integer and the last step is cut to end at the last time.
    """
    start, end = times[0], times[-1]
    if dt is None:
        steps = times
    else:
        num_steps = int(np.ceil((end - start) / dt - _SAME_TIME))
        steps = np.minimum(start + dt * np.arange(num_steps + 1), end)
    left = np.clip(np.searchsorted(steps, times, side="right") - 1, 0, len(steps) - 2)
    weight = (times - steps[left]) / (steps[left + 1] - steps[left])
    after = np.searchsorted(times, steps[:-1] + _SAME_TIME, side="right")
    return StepGrid(
        dt=torch.tensor(np.diff(steps), dtype=dtype, device=device),
        context=torch.tensor(np.minimum(after, len(times) - 1), device=device),
        left=torch.tensor(left, device=device),
        weight=torch.tensor(weight, dtype=dtype, device=device),
    )


class DiagonalDiffusion(nn.Module):
    """One network 1 -> hidden -> 1 per latent coordinate, all evaluated as one batched product; values in (0, 1)."""

    def __init__(self, latent: int, hidden: int, activation: ActivationName) -> None:
        super().__init__()
        self.activation = activation
        self.inner_weight = nn.Parameter(torch.empty(latent, hidden))
        self.inner_bias = nn.Parameter(torch.empty(latent, hidden))
        self.outer_weight = nn.Parameter(torch.empty(latent, hidden))
        self.outer_bias = nn.Parameter(torch.empty(latent))

    def forward(self, z: Float[Tensor, "*lead latent"]) -> Float[Tensor, "*lead latent"]:
        hidden = _activate(torch.addcmul(self.inner_bias, z.unsqueeze(-1), self.inner_weight), self.activation)
        return torch.sigmoid(torch.einsum("...zh,zh->...z", hidden, self.outer_weight) + self.outer_bias)


class Drift(nn.Module):
    """An MLP with two hidden layers."""

    def __init__(self, inputs: int, hidden: int, outputs: int, activation: ActivationName) -> None:
        super().__init__()
        self.activation = activation
        self.first = nn.Linear(inputs, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, outputs)

    def forward(self, inputs: Float[Tensor, "*lead inputs"]) -> Float[Tensor, "*lead outputs"]:
        return self.after_first(self.first(inputs))

    def after_first(self, first: Float[Tensor, "*lead hidden"]) -> Float[Tensor, "*lead outputs"]:
        """The rest of the network, from the first layer before its activation."""
        second = self.second(_activate(first, self.activation))
        return self.last(_activate(second, self.activation))


class LatentNetworks(nn.Module):
    """All trainable parts: encoder, posterior and prior equations with their starts, and the linear decoder."""

    def __init__(self, dim: int, latent: int, hidden: int, context: int, activation: ActivationName) -> None:
        super().__init__()
        self.latent = latent
        self.gru = nn.GRU(dim, hidden)
        self.to_context = nn.Linear(hidden, context)
        self.to_start = nn.Linear(context, 2 * latent)
        self.prior_mean = nn.Parameter(torch.zeros(latent))
        self.prior_log_std = nn.Parameter(torch.zeros(latent))
        self.posterior_drift = Drift(latent + context, hidden, latent, activation)
        self.prior_drift = Drift(latent, hidden, latent, activation)
        self.diffusion = DiagonalDiffusion(latent, hidden, activation)
        self.decoder = nn.Linear(latent, dim)

    def encode(
        self, y: Float[Tensor, "times paths dim"], at: Int[Tensor, " chosen"]
    ) -> Float[Tensor, "chosen paths context"]:
        """The context at the chosen observations i: a summary of observations i, i + 1, ... to the end.

        The times themselves are not an input, so all paths must share one grid.
        """
        backwards, _ = self.gru(y.flip(0))
        return self.to_context(backwards[len(y) - 1 - at])

    def posterior_start(self, context: Float[Tensor, "paths context"]) -> Normal:
        """The law of z at the first observation, given the context there."""
        mean, log_std = self.to_start(context).chunk(2, dim=-1)
        return Normal(mean, log_std.exp(), validate_args=False)

    def prior_start(self) -> Normal:
        """The learned law of z at the first observation before anything was seen."""
        return Normal(self.prior_mean, self.prior_log_std.exp(), validate_args=False)

    def posterior_field(self, context: Float[Tensor, "steps paths context"]) -> LatentField:
        """Drift f and diffusion g of the posterior, with the context that each step sees."""
        # The context does not depend on z: its part of the first layer is one product for all steps.
        weight_z, weight_context = self.posterior_drift.first.weight.split([self.latent, context.shape[-1]], dim=1)
        from_context = functional.linear(context, weight_context, self.posterior_drift.first.bias).unbind()

        def field(z: Tensor, step: int) -> tuple[Tensor, Tensor]:
            first = torch.addmm(from_context[step], z, weight_z.T)
            return self.posterior_drift.after_first(first), self.diffusion(z)

        return field

    def prior_field(self) -> LatentField:
        """Drift h and diffusion g of the prior, which knows neither the time nor the observations."""
        return lambda z, step: (self.prior_drift(z), self.diffusion(z))

    def decode(self, z: Float[Tensor, "times paths latent"]) -> Float[Tensor, "times paths dim"]:
        """The mean of an observation."""
        return self.decoder(z)


@dataclass(frozen=True)
class LatentPath:
    """A path on the solver's grid with the drift and diffusion that made each step."""

    states: Float[Tensor, "points paths latent"]
    drift: Float[Tensor, "steps paths latent"]
    diffusion: Float[Tensor, "steps paths latent"]


def euler_path(
    field: LatentField,
    start: Float[Tensor, "paths latent"],
    dt: Float[Tensor, " steps"],
    noise: Float[Tensor, "steps paths latent"],
) -> LatentPath:
    """Follow `field` from `start`; gradients flow through every step."""
    states, drifts, diffusions = [start], [], []
    for step, (length, step_noise) in enumerate(zip(dt, noise, strict=True)):
        drift, diffusion = field(states[-1], step)
        states.append(euler_step(states[-1], drift, diffusion, length, step_noise))
        drifts.append(drift)
        diffusions.append(diffusion)
    return LatentPath(torch.stack(states), torch.stack(drifts), torch.stack(diffusions))


@dataclass(frozen=True)
class EvidenceBound:
    """The three terms of the evidence lower bound, per path, for one draw of the posterior."""

    log_likelihood: Float[Tensor, " paths"]
    start_kl: Float[Tensor, " paths"]
    path_kl: Float[Tensor, " paths"]

    def value(self, kl_weight: float = 1.0) -> Float[Tensor, " paths"]:
        """The bound on ln p(y), or the training objective while `kl_weight` is below 1."""
        return self.log_likelihood - kl_weight * (self.start_kl + self.path_kl)


def evidence_bound(
    networks: LatentNetworks,
    y: Float[Tensor, "times paths dim"],
    grid: StepGrid,
    noise_std: float,
    start_noise: Float[Tensor, "paths latent"],
    step_noise: Float[Tensor, "steps paths latent"],
) -> EvidenceBound:
    """Draw one posterior path per observed path and compare it with the data and with the prior.

    On the Euler grid the path KL is exact, not an approximation of the integral: two Gaussian steps with means apart by
    (f - h) dt and the same variance g² dt have KL divergence ½ ((f - h) / g)² dt.
    """
    first = torch.zeros(1, dtype=grid.context.dtype, device=grid.context.device)
    context = networks.encode(y, torch.cat([first, grid.context]))  # (1 + steps, paths, context)
    start = networks.posterior_start(context[0])
    path = euler_path(
        networks.posterior_field(context[1:]), start.mean + start.stddev * start_noise, grid.dt, step_noise
    )
    # A mean that is not finite is no error here: training stops with its own message when the loss shows it.
    decoded = Normal(networks.decode(grid.at_observations(path.states)), noise_std, validate_args=False)
    return EvidenceBound(
        log_likelihood=decoded.log_prob(y).sum((0, 2)),
        start_kl=kl_divergence(start, networks.prior_start()).sum(-1),
        path_kl=path_kl(path, networks.prior_drift(path.states[:-1]), grid.dt),
    )


def path_kl(
    path: LatentPath, prior_drift: Float[Tensor, "steps paths latent"], dt: Float[Tensor, " steps"]
) -> Float[Tensor, " paths"]:
    """Sum of ½ |(f - h) / g|² dt over the steps of each path."""
    gap = (path.drift - prior_drift) / path.diffusion.clamp(min=_SMALLEST_DIFFUSION)
    return 0.5 * torch.einsum("spz,spz,s->p", gap, gap, dt)


def initialise(networks: LatentNetworks, generator: torch.Generator) -> None:
    """PyTorch's default initialisation, drawn from `generator` instead of the global one.

    Every default is uniform on ±1/sqrt(fan-in), biases included; a GRU counts its hidden size as the fan-in.
    """
    for module in networks.modules():
        match module:
            case nn.Linear():
                _uniform(module.parameters(recurse=False), module.in_features, generator)
            case nn.GRU():
                _uniform(module.parameters(recurse=False), module.hidden_size, generator)
            case DiagonalDiffusion():
                _uniform([module.inner_weight, module.inner_bias], 1, generator)
                _uniform([module.outer_weight, module.outer_bias], module.outer_weight.shape[1], generator)
    with torch.no_grad():
        networks.prior_mean.zero_()
        networks.prior_log_std.zero_()


def _uniform(parameters: Iterable[Tensor], fan_in: int, generator: torch.Generator) -> None:
    bound = fan_in**-0.5
    with torch.no_grad():
        for parameter in parameters:
            parameter.uniform_(-bound, bound, generator=generator)


def _activate(x: Tensor, name: ActivationName) -> Tensor:
    match name:
        case "sigmoid":
            return torch.sigmoid(x)
        case "softplus":
            return functional.softplus(x)
        case _:
            assert_never(name)
