"""LatentSDE (Li et al. 2020) as the FIM-SDE paper ran it: a variational fit that samples paths.

It learns a latent equation and a linear map to the data, so there is no drift or diffusion in data space to compare.
Sampling encodes the *whole* reference path to choose the latent start, where other methods get its first point only;
say so next to any table.
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from fimsde.baselines import latent_checkpoint
from fimsde.baselines.latent_modules import (
    ActivationName,
    LatentNetworks,
    StepGrid,
    euler_path,
    evidence_bound,
    initialise,
    step_grid,
)
from fimsde.baselines.latent_srk import srk_states
from fimsde.data.normalise import Normaliser, fit_normaliser
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.errors import CheckpointError, ConfigError, FimsdeError, InvalidObservationsError
from fimsde.files.identities import paths_hash
from fimsde.shapes import Array, Float64
from fimsde.simulate import Paths

# share of the duration by which the times of two paths may differ and still be one grid; by hand: seven digits
_SAME_GRID = 1e-6
_FREE_LATER = {"iterations", "sample_dt", "sample_solver"}  # settings that two calls sharing a checkpoint may change


@dataclass(frozen=True)
class LatentSDESettings:
    """Sizes and schedule; times are shares of a path's duration, values are standardised. Defaults: `PAPER`."""

    latent_size: int = 4
    hidden_size: int = 100  # of the GRU and of every hidden layer
    context_size: int = 100  # the paper does not give it; 100 in the runs it reports
    activation: ActivationName = "sigmoid"  # the paper says softplus, its runs used sigmoid
    noise_std: float = 0.01  # of an observation, in standard deviations of the data
    dt: float | None = 0.01  # Euler step in training; None: from observation to observation
    iterations: int = 5000  # of full-batch Adam
    learning_rate: float = 0.01
    learning_rate_decay: float = 0.999  # factor per iteration
    kl_warmup: int = 50  # iterations until the KL terms count fully
    sample_dt: float | None = 1e-3  # step when sampling; None: from observation to observation
    sample_solver: Literal["euler", "srk"] = "euler"  # the paper: "srk", torchsde's stochastic Runge-Kutta

    def __post_init__(self) -> None:
        for name in ("latent_size", "hidden_size", "context_size", "iterations", "kl_warmup"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be at least 1.")
        for name in ("noise_std", "learning_rate", "learning_rate_decay"):
            if not 0 < getattr(self, name) < np.inf:
                raise ConfigError(f"{name} is {getattr(self, name)}; it must be positive and finite.")
        for name in ("dt", "sample_dt"):
            step = getattr(self, name)
            if step is not None and not 0 < step <= 1:
                raise ConfigError(f"{name} is {step}; it is a share of a path's duration, so above 0 and at most 1.")
        if self.sample_solver == "srk" and self.sample_dt is None:
            raise ConfigError("sample_solver 'srk' marches with one fixed step; set sample_dt, for example to 1e-3.")

    def kl_weight(self, iteration: int) -> float:
        """Weight of the KL terms: 0 in iteration 0, rising linearly to 1."""
        return min(iteration / self.kl_warmup, 1.0)

    def learning_rate_at(self, iteration: int) -> float:
        """Adam's step size in an iteration, counted from 0."""
        return self.learning_rate * self.learning_rate_decay**iteration


PAPER = LatentSDESettings()
# With step 0.01 a path of 524 observations has 100 random increments and straight lines in between, which cannot follow
# nearly white series. `FINE` steps from observation to observation, in training and in sampling.
FINE = LatentSDESettings(dt=None, sample_dt=None)


@dataclass(frozen=True)
class FittedLatentSDE:
    """A trained LatentSDE.

    Attributes:
        networks: The trained parts; latent space and standardised data.
        settings: What it was trained with.
        normaliser: From data units to standardised values and times on [0, 1].
        times: The grid all paths share, on [0, 1].
        losses: Negative evidence lower bound (KL terms weighted) before each iteration, mean over paths.
    """

    networks: LatentNetworks
    settings: LatentSDESettings
    normaliser: Normaliser
    times: Float64[Array, " times"]
    losses: Float64[Array, " iterations"]

    def sample(self, reference: Observations, seed: int = 0) -> Paths:
        """One path per reference path, from a latent start drawn given that reference path, then by the prior alone.

        Args:
            reference: Paths in data units on the training grid (their clocks may start anywhere).
            seed: Seed of starts and noise.

        Returns:
            Paths in data units at the reference times, without observation noise.
        """
        if reference.dim != self.networks.decoder.out_features:
            raise InvalidObservationsError(
                f"the reference has {reference.dim} components, the model {self.networks.decoder.out_features}."
            )
        grid = shared_grid(reference) * self.normaliser.time_scale
        if len(grid) != len(self.times) or np.max(np.abs(grid - self.times)) > _SAME_GRID:
            raise InvalidObservationsError(
                f"the reference paths have {len(grid)} observations over {grid[-1]:g} times the training duration, the "
                f"training paths {len(self.times)} over 1. The encoder does not see times: cut both to the same grid."
            )
        weight = self.networks.decoder.weight
        y = standardised(reference, self.normaliser).to(weight)
        first = torch.zeros(1, dtype=torch.int64, device=weight.device)
        with torch.no_grad():
            start = self.networks.posterior_start(self.networks.encode(y, first)[0])
            noise = standard_normal(_generator(seed, 2), start.mean.shape, weight)
            states = self._prior_states(start.mean + start.stddev * noise, seed)
            decoded = self.networks.decode(states).double().cpu().numpy().swapaxes(0, 1)
        return _paths(reference, self.normaliser.undo_states(decoded))

    def _prior_states(self, start: Float[Tensor, "paths latent"], seed: int) -> Float[Tensor, "times paths latent"]:
        match self.settings.sample_solver:
            case "srk":
                return srk_states(self.networks, start, self.times, float(self.settings.sample_dt or 0), seed)
            case "euler":
                grid = step_grid(self.times, self.settings.sample_dt, start.dtype, str(start.device))
                noise = standard_normal(_generator(seed, 3), (len(grid.dt), *start.shape), start)
                return grid.at_observations(euler_path(self.networks.prior_field(), start, grid.dt, noise).states)


def fit(
    paths: Observations,
    settings: LatentSDESettings = PAPER,
    seed: int = 0,
    *,
    checkpoint: Path | None = None,
    checkpoint_every: int = 25,
    device: str = "cpu",
) -> FittedLatentSDE:
    """Train a LatentSDE on paths that share one observation grid.

    Values are standardised per component and each path's time is mapped to [0, 1], so units do not matter.

    Args:
        paths: Training paths of equal length on one grid, up to rounding and a shift of the clock.
        settings: `PAPER`, `FINE` or your own.
        seed: Seed of initial weights and noise. The same seed gives the same result, interrupted or not.
        checkpoint: A file that receives the training state. If it exists, training goes on from there, also to more
            iterations than were asked for first.
        checkpoint_every: Iterations between two writes of that file; the most an interruption can lose.
        device: Where to train, for example "cuda".

    Raises:
        InvalidObservationsError: The paths do not share one grid.
        CheckpointError: `checkpoint` belongs to another run or has gone further than `settings.iterations`.
        FimsdeError: The loss is no longer finite.
    """
    if checkpoint_every < 1:
        raise ConfigError(f"checkpoint_every is {checkpoint_every}; it must be at least 1.")
    grid = shared_grid(paths)
    normaliser = replace(fit_normaliser(to_transitions(paths)), time_scale=1 / grid[-1])
    times = grid / grid[-1]
    networks = new_networks(paths.dim, settings, seed).to(device)
    y = standardised(paths, normaliser).to(networks.decoder.weight)
    steps = step_grid(times, settings.dt, device=device)
    optimiser = torch.optim.Adam(networks.parameters(), lr=settings.learning_rate)
    run = _describe_run(paths, settings, seed)
    losses = latent_checkpoint.restore(checkpoint, run, networks, optimiser) if checkpoint else []
    if len(losses) > settings.iterations:
        raise CheckpointError(
            f"{checkpoint} holds {len(losses)} iterations, asked for {settings.iterations}. Training cannot go back: "
            f"ask for at least {len(losses)}, or pass another file."
        )
    for k in tqdm(range(len(losses), settings.iterations), desc="LatentSDE", disable=None):
        losses.append(_iterate(networks, optimiser, y, steps, settings, seed, k))
        if checkpoint and ((k + 1) % checkpoint_every == 0 or k + 1 == settings.iterations):
            latent_checkpoint.save(checkpoint, run, networks, optimiser, losses)
    return FittedLatentSDE(networks, settings, normaliser, times, np.array(losses))


def _iterate(
    networks: LatentNetworks,
    optimiser: torch.optim.Optimizer,
    y: Float[Tensor, "times paths dim"],
    grid: StepGrid,
    settings: LatentSDESettings,
    seed: int,
    k: int,
) -> float:
    generator = _generator(seed, 1, k)  # a function of (seed, k), so that a resumed run draws the same noise
    shape = (y.shape[1], settings.latent_size)
    start_noise, step_noise = (standard_normal(generator, s, y) for s in (shape, (len(grid.dt), *shape)))
    for group in optimiser.param_groups:
        group["lr"] = settings.learning_rate_at(k)
    optimiser.zero_grad()
    bound = evidence_bound(networks, y, grid, settings.noise_std, start_noise, step_noise)
    loss = -bound.value(settings.kl_weight(k)).mean()
    loss.backward()
    value = loss.item()
    if not np.isfinite(value):
        raise FimsdeError(
            f"the loss of LatentSDE is {value} in iteration {k}. Lower learning_rate or try another seed."
        )
    optimiser.step()
    return value


def new_networks(dim: int, settings: LatentSDESettings, seed: int) -> LatentNetworks:
    """Untrained networks; torch's global random state is neither read nor changed."""
    with torch.device("meta"):  # the default initialisation of torch's layers draws from the global generator
        networks = LatentNetworks(
            dim, settings.latent_size, settings.hidden_size, settings.context_size, settings.activation
        )
    networks.to_empty(device="cpu")
    initialise(networks, _generator(seed, 0))
    return networks


def shared_grid(paths: Observations) -> Float64[Array, " times"]:
    """The observation times since the start of a path, if they are the same for all paths."""
    first = paths.path(0)[0] - paths.path(0)[0][0]
    if len(first) < 2:
        raise InvalidObservationsError("path 0 has one observation; LatentSDE needs paths of at least two.")
    for k in range(1, paths.num_paths):
        times = paths.path(k)[0] - paths.path(k)[0][0]
        if len(times) != len(first):
            raise InvalidObservationsError(
                f"path {k} has {len(times)} observations and path 0 has {len(first)}. LatentSDE needs paths of equal "
                f"length on one grid: cut them, or use another method."
            )
        gap = np.abs(times - first)
        if gap.max() > _SAME_GRID * first[-1]:
            i = int(gap.argmax())
            raise InvalidObservationsError(
                f"observation {i} of path {k} comes {times[i]:g} after its start, that of path 0 {first[i]:g}. "
                f"LatentSDE needs one grid for all paths, without gaps in some: cut the paths, or use another method."
            )
    return first


def standardised(paths: Observations, normaliser: Normaliser) -> Float[Tensor, "times paths dim"]:
    """The values of paths of equal length in normalised units, time first."""
    values = normaliser.states(paths.values).reshape(paths.num_paths, -1, paths.dim)
    return torch.from_numpy(np.ascontiguousarray(values.swapaxes(0, 1)))


def standard_normal(generator: torch.Generator, shape: tuple[int, ...], like: Tensor) -> Tensor:
    """Drawn on the CPU, so that every device sees the same numbers."""
    return torch.randn(shape, generator=generator, dtype=like.dtype).to(like.device)


def _generator(seed: int, *key: int) -> torch.Generator:
    if seed < 0:
        raise ConfigError(f"seed is {seed}; it must not be negative.")
    state = np.random.SeedSequence([seed, *key]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))


def _describe_run(paths: Observations, settings: LatentSDESettings, seed: int) -> dict[str, str]:
    kept = {name: value for name, value in asdict(settings).items() if name not in _FREE_LATER}
    return {"settings": json.dumps(kept), "seed": str(seed), "data": paths_hash(paths)}


def _paths(reference: Observations, values: Float64[Array, "paths times dim"]) -> Paths:
    times = reference.times.reshape(reference.num_paths, -1)
    mask = np.isfinite(values).all(axis=-1)
    lost = np.where(mask.all(axis=1), np.nan, times[np.arange(len(times)), (~mask).argmax(axis=1)])
    return Paths(times, values, mask, lost)
