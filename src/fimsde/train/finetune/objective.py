"""Which objective suits a data set, and the objectives as functions of the learner and a batch of windows."""

from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.utils import parametrize

from fimsde.bank.fit import fit_step
from fimsde.bank.windows import to_series
from fimsde.data.transitions import Transitions
from fimsde.model.encoder import Source
from fimsde.model.fim import FIMSDE, Context
from fimsde.model.rollout import rollout
from fimsde.shapes import Array, Float64, Int
from fimsde.train.finetune.config import FinetuneConfig, ObjectiveName
from fimsde.train.finetune.data import Windows
from fimsde.train.finetune.losses import filtered_nll, num_scored, window_nll
from fimsde.train.finetune.parameters import Learner
from fimsde.train.finetune.steps import Steps, steps_per_gap
from fimsde.train.losses import Loss, ScoredSteps, simulation_errors, simulation_mse, transition_nll
from fimsde.train.processes import Processes

_NOISY = 3.0  # standard errors that the variance of the noise must be above zero: by chance in 0.13 % of clean data
# of the variance of the states above which "noise" is not told apart from a process that forgets within a gap; by hand
_NOISE_SHARE = 0.25
_EVALUATIONS, _JUDGED = 2048, 65_536  # of the model in an iteration, and to judge it, about; by hand: bounds seconds
_PATHS, _PATH_STEPS = 64, 128  # simulated to see whether an equation explodes; by hand: bounds seconds


@dataclass(frozen=True)
class Choice:
    """An objective with all that the data decide.

    Attributes:
        objective: Which one.
        reason: Why, in one sentence.
        substeps: Steps per gap; one of Euler, more of second order in filtered, of Euler otherwise.
        look_ahead: Observations scored after each start.
        num_scored: Starts per iteration.
        num_judged: Held-out windows, at most.
        noise_var: Normalised variance of the measurement noise to start from; None if data count as exact.
    """

    objective: ObjectiveName
    reason: str
    substeps: int
    look_ahead: int
    num_scored: int
    num_judged: int
    noise_var: Float64[Array, " dim"] | None


def choose(config: FinetuneConfig, model: FIMSDE, context: Context, steps: Transitions) -> Choice:
    """The objective that the settings name or, with "auto", the one that the data ask for.

    Args:
        config: What is set is kept.
        model: Before finetuning.
        context: What it has read of the data.
        steps: The data, normalised.
    """
    noise_var, noise = _measurement_noise(steps)
    noisy = config.observation_noise == "learnt" or (config.observation_noise == "auto" and noise is not None)
    needed = Steps(1, "")
    if config.objective == "auto" or (config.objective == "filtered" and not config.substeps):
        weight = next(model.parameters())
        var = torch.from_numpy(noise_var if noisy else np.zeros(steps.dim)).to(weight)
        windows = Windows(steps, 1, model.config.max_dim, weight.dtype)
        needed = steps_per_gap(lambda x: model.evaluate(context, x), windows, var)
    if config.objective != "auto":
        objective, reason = cast(ObjectiveName, config.objective), "as asked for"
    elif noisy:
        objective, reason = "filtered", noise or "measurement noise is to be learnt"
    elif needed.number > 1:
        objective, reason = "filtered", needed.reason
    else:
        objective, reason = "dense", f"{needed.reason}, and no measurement noise is seen"
    noisy = noisy and objective == "filtered"
    substeps = config.substeps or {"dense": 1, "sparse": 10, "filtered": needed.number}[objective]
    look_ahead = config.look_ahead or (1 if not noisy else 2 if substeps > 1 else 8)
    cost = look_ahead * _evaluations(steps.dim, substeps)
    fitting = int(np.clip(_EVALUATIONS // cost, 32, 512))
    scored = config.num_scored or {"dense": 512, "sparse": 32, "filtered": fitting}[objective]
    judged = int(np.clip(_JUDGED // cost, 256, 4096))
    return Choice(objective, reason, substeps, look_ahead, scored, judged, noise_var if noisy else None)


def _evaluations(dim: int, substeps: int) -> int:
    """Of the model in one gap, see `predict`."""
    return (2 * dim + 1) * (1 if substeps == 1 else 3 * substeps + 1)


def _measurement_noise(steps: Transitions) -> tuple[Float64[Array, " dim"], str | None]:
    """Variance of the measurement noise per component, and a sentence about it if there is any."""
    _, scales = fit_step(to_series(steps))
    found = (scales.noise_score > _NOISY) & (scales.noise_var < _NOISE_SHARE)
    var = np.clip(scales.noise_var, 1e-6, _NOISE_SHARE)
    if not found.any():
        return var, None
    share = 100 * np.sqrt(scales.noise_var[found].max())
    return var, f"observations carry measurement noise of about {share:.2g} % of the standard deviation of the data"


@dataclass(frozen=True, eq=False)
class Judged:
    """Losses on held-out windows, in the order of time.

    Attributes:
        losses: Their sum in each window.
        counts: What each window counts for.
        log_likelihood: Log density of the windows, normalised, in nats per observed component; all constants included.
    """

    losses: Float64[Array, " windows"]
    counts: Int[Array, " windows"]
    log_likelihood: float

    @property
    def loss(self) -> float:
        """Their mean."""
        return float(self.losses.sum() / self.counts.sum())


@dataclass(frozen=True)
class WindowObjective:
    """Loss of a learner on windows; the data it reads, all of them, are encoded anew in every call.

    Attributes:
        choice: Which loss.
        source: The data as the model reads them.
        dim: Of the state.
    """

    choice: Choice
    source: Source
    dim: int

    def __call__(self, learner: Learner, steps: ScoredSteps) -> Loss:
        """What is minimised: nats per observed component up to a constant, or the squared error."""
        with parametrize.cached():
            loss = self._loss(learner, steps)
        return Loss(loss, {} if learner.noise is None else {"noise_std": learner.noise_var(self.dim).sqrt().mean()})

    def _loss(self, learner: Learner, steps: ScoredSteps) -> Float[Tensor, ""]:
        model, substeps = learner.model, self.choice.substeps
        context = model.encode(self.source)
        if self.choice.objective == "filtered":
            return filtered_nll(
                lambda x: model.evaluate(context, x), steps, learner.noise_var(self.dim), substeps=substeps
            )
        loss = transition_nll if self.choice.objective == "dense" else simulation_mse
        return loss(model, context, steps, self._noise(steps), substeps=substeps)

    @torch.no_grad()
    def judge(self, learner: Learner, steps: ScoredSteps, seed: int) -> Judged:
        """The loss of every window: minus the log-likelihood, or the squared error with the same noise every time."""
        model, substeps = learner.model, self.choice.substeps
        context = model.encode(self.source)
        nll = window_nll(lambda x: model.evaluate(context, x), steps, learner.noise_var(self.dim), substeps=substeps)
        losses, counts = nll[0].double().cpu().numpy(), num_scored(steps, self.dim)[0].cpu().numpy()
        log_likelihood = -float(losses.sum() / counts.sum())
        if self.choice.objective == "sparse":
            with Processes().randomness(seed):
                noise = self._noise(steps)
            errors = simulation_errors(model, context, steps, noise, substeps=substeps)[0]
            losses, counts = errors.sum(-1).double().cpu().numpy(), np.full(len(errors), errors.shape[-1])
        return Judged(losses, counts, log_likelihood)

    def _noise(self, steps: ScoredSteps) -> Float[Tensor, "substeps batch starts max_dim"]:
        number, start = self.choice.substeps * steps.gaps.shape[-1], steps.start
        return torch.randn(number, *start.shape, dtype=start.dtype, device=start.device)

    @torch.no_grad()
    def lost_paths(self, learner: Learner, windows: Windows, seed: int) -> int:
        """How many of a few simulated paths leave the data by more than their range, or are not finite.

        A likelihood looks one observation ahead; an equation that explodes later can have a good one.
        """
        model, substeps = learner.model, self.choice.substeps
        starts = windows.spread(_PATHS).to(next(model.parameters()).device)
        gap = float(np.exp(np.mean(np.log(windows.steps.dtau))))
        dt = torch.full((*starts.start.shape[:2], _PATH_STEPS), gap / substeps).to(starts.start)
        generator = torch.Generator().manual_seed(seed)
        noise = torch.randn(_PATH_STEPS, *starts.start.shape, generator=generator).to(starts.start)
        paths = rollout(model, model.encode(self.source), starts.start, dt, noise, starts.dims)[0, ..., : self.dim]
        low, high = (torch.from_numpy(bound).to(paths) for bound in (windows.steps.y.min(0), windows.steps.y.max(0)))
        inside = (paths >= 2 * low - high) & (paths <= 2 * high - low)  # False for NaN
        return int((~inside.all(-1).all(-1)).sum())
