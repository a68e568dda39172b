"""finetune: a model adapts to one data set, judged on a part of it that it does not learn from."""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf, isfinite
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.errors import CheckpointError, ConfigError, InvalidObservationsError, OutputError
from fimsde.estimation import EstimatedSDE, bundled_model, estimate_sde
from fimsde.files.identities import SHORT, fingerprint, paths_hash
from fimsde.files.lock import only_one
from fimsde.files.settings import to_mapping
from fimsde.files.write import write_file
from fimsde.model.fim import FIMSDE
from fimsde.train import checkpoint
from fimsde.train.checkpoint import State
from fimsde.train.finetune.config import FinetuneConfig, Parameters
from fimsde.train.finetune.data import ScoredBatches, Windows, split
from fimsde.train.finetune.gain import paired_gain
from fimsde.train.finetune.objective import Choice, WindowObjective, choose
from fimsde.train.finetune.parameters import Learner, free, merged, with_correction
from fimsde.train.finetune.result import Ended, Finetuned, Judgement
from fimsde.train.finetune.start import first_guess
from fimsde.train.log import read_log
from fimsde.train.loop import RunOptions, run
from fimsde.train.losses import ScoredSteps
from fimsde.train.processes import Processes
from fimsde.train.run_folder import CHECKPOINTS, CURVE, REPORT, WEIGHTS, check_place, clear, goes_on

_LOST = 3  # simulated paths of 64 that may leave the data, 5 %: tails are heavy; by hand
_STATES = 5000  # at which the coordinates of a correction are set; by hand: bounds seconds


def finetune(
    model: FIMSDE | str | Path | None,
    observations: Observations,
    config: FinetuneConfig | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    until: int | None = None,
    options: RunOptions | None = None,
) -> Finetuned[EstimatedSDE]:
    """As `fimsde.finetune`, which has the arguments; `sde` of what is returned is the equation alone."""
    config, options = config or FinetuneConfig(), options or RunOptions(unit=" iterations")
    if out is None:
        if resume:
            raise CheckpointError("there is nothing to resume without a folder; pass out=, the folder of the run.")
        with tempfile.TemporaryDirectory(prefix="fimsde-") as folder:
            return finetune(model, observations, config, out=Path(folder) / "run", until=until, options=options)
    until = config.iterations if until is None else until
    if until != config.iterations and (until < 1 or until % config.validation_interval):
        expected = f"a multiple of validation_interval, {config.validation_interval}, or all {config.iterations}"
        raise ConfigError(f"until is {until}; expected {expected}.")
    check_place(Path(out), resume=resume)
    with only_one(Path(out)):
        base = bundled_model() if model is None else model
        base = base if isinstance(base, FIMSDE) else FIMSDE.from_pretrained(base)
        problem = _prepare(base, observations, config)
        settings = _settings(base, observations, config, problem.choice)
        return _Run(problem, config, Path(out), settings).train(observations, resume, until, options)


@dataclass(frozen=True)
class _Problem:
    """A data set ready to be learnt."""

    learner: Learner
    choice: Choice
    objective: WindowObjective
    windows: Windows  # to learn from
    held_out: ScoredSteps
    log_scale: float  # mean log of the units of the components


def _prepare(base: FIMSDE, observations: Observations, config: FinetuneConfig) -> _Problem:
    model = merged(base).float().to(Processes().device)
    max_dim, dtype = model.config.max_dim, torch.float32
    if observations.dim > max_dim:
        raise InvalidObservationsError(
            f"the observations have {observations.dim} components; this model reads at most {max_dim}. Choose some."
        )
    everything = to_transitions(observations)  # scales are those of the estimate at the end
    normaliser = fit_normaliser(everything, model.config.statistics, model.config.target_gap)
    learnt_from, judged_by = split(observations, config.hold_out, config.seed)
    steps = normaliser.transitions(to_transitions(learnt_from))
    source = model.read([steps], limited=False)
    with torch.no_grad():
        context = model.encode(source)
    choice = choose(config, model, context, steps)
    if config.correction:
        some = Windows(steps, 1, max_dim, torch.float64).spread(_STATES).start[0]
        with torch.no_grad():
            drift = model.drift(context, some[None].to(next(model.parameters())))[0].double().cpu().numpy()
        size = np.sqrt(np.mean(drift**2, axis=0)) * (np.arange(max_dim) < steps.dim)
        model = with_correction(model, some.numpy(), size)
    free(model, cast(Parameters, config.parameters), config.rank, config.seed)
    judged = steps if judged_by is None else normaliser.transitions(to_transitions(judged_by))
    held_out = Windows(judged, choice.look_ahead, max_dim, dtype).spread(choice.num_judged)
    return _Problem(
        learner=Learner(model, choice.noise_var),
        choice=choice,
        objective=WindowObjective(choice, source, steps.dim),
        windows=Windows(steps, choice.look_ahead, max_dim, dtype),
        held_out=held_out.to(Processes().device),
        log_scale=float(np.mean(np.log(normaliser.scale))),
    )


class _Run:
    """One run in a folder: judges, keeps the best weights, and ends when nothing gets better."""

    def __init__(self, problem: _Problem, config: FinetuneConfig, out: Path, settings: Mapping[str, Any]) -> None:
        self.problem, self.config, self.out, self.settings = problem, config, out, settings
        self.curve: list[Judgement] = []
        self.at_first = problem.objective.judge(problem.learner.eval(), problem.held_out, config.seed)

    def train(
        self, observations: Observations, resume: bool, until: int, options: RunOptions
    ) -> Finetuned[EstimatedSDE]:
        problem, config = self.problem, self.config
        go_on = goes_on(self.out, self.settings, resume=resume, is_finished=self._is_finished)
        if go_on:
            last = checkpoint.steps(self.out / CHECKPOINTS)[-1]
            self.curve = [Judgement(**line) for line in read_log(self.out, CURVE) if line["iteration"] <= last]
        else:
            self._judge(0)
            self._guess()
        state: State | None = None
        if config.iterations:
            batches = ScoredBatches(problem.windows, problem.choice.num_scored, config.seed)
            state = run(
                problem.learner,
                batches,
                problem.objective,
                config.loop(),
                self.out,
                settings=self.settings,
                resume=go_on,
                milestone=lambda state: self._reach(state.step) or state.step >= until,
                options=options,
            )
        return self._finish(observations, state)

    def _guess(self) -> None:
        """Begin with the correction that closed forms give, if it predicts better than none."""
        learner, objective = self.problem.learner, self.problem.objective
        correction = learner.model.correction
        if correction is None or not self.config.iterations or not self.config.first_guess:
            return
        nothing = {name: tensor.clone() for name, tensor in correction.state_dict().items()}
        with torch.no_grad():
            context = learner.model.eval().encode(objective.source)
        first_guess(learner, context, self.problem.windows, self.problem.choice.substeps)
        self._judge(0)
        if self._lowest() != self.curve[-1]:
            correction.load_state_dict(nothing)

    def _is_finished(self) -> bool:
        """Whether the report of the whole run is there; that of an interrupted one says so."""
        report = self.out / REPORT
        return report.exists() and json.loads(report.read_bytes())["ended"] != "interrupted"

    def _reach(self, iteration: int) -> bool:
        """Judge where it is planned. An interrupt in between decides nothing, so the resumed run is the same."""
        planned = iteration % self.config.validation_interval == 0 or iteration == self.config.iterations
        return self._judge(iteration) if planned else False

    def _judge(self, iteration: int) -> bool:
        """Judge the weights, keep them if they are the best so far; True if it is time to end."""
        learner, was_training = self.problem.learner, self.problem.learner.training
        learner.eval()
        judgement = self._judgement(iteration)
        learner.train(was_training)
        self.curve = [*(j for j in self.curve if j.iteration < max(iteration, 1)), judgement]
        self.out.mkdir(parents=True, exist_ok=True)
        if self._best() == judgement:
            record = {"finetuning": {**self.settings, "iteration": iteration}, "before": self._base_record()}
            merged(learner.model).save_pretrained(self.out / WEIGHTS, training=record, overwrite=True)
        lines = [json.dumps(asdict(j), allow_nan=False) + "\n" for j in self.curve]
        write_file(self.out / CURVE, "".join(lines).encode(), OutputError)
        return self._is_stale()

    def _is_stale(self) -> bool:
        """Whether the loss has not fallen for long. Weights that are refused for lost paths count as progress too."""
        trained = [j for j in self.curve if j.iteration or j == self._lowest()]  # a guess that is refused is forgotten
        lowest = min(trained, key=_order).iteration
        waited = sum(j.iteration > lowest for j in self.curve)
        return self.config.hold_out > 0 and waited >= self.config.patience

    def _base_record(self) -> Mapping[str, Any]:
        return self.problem.learner.model.training_record

    def _judgement(self, iteration: int) -> Judgement:
        objective, learner, seed = self.problem.objective, self.problem.learner, self.config.seed
        judged = objective.judge(learner, self.problem.held_out, seed)
        gain = paired_gain(self.at_first.losses, judged.losses, judged.counts)
        return Judgement(
            iteration,
            _finite(judged.loss),
            _finite(judged.log_likelihood - self.problem.log_scale),
            _finite(gain.mean),
            _finite(gain.error),
            objective.lost_paths(learner, self.problem.windows, seed),
        )

    def _allowed(self) -> list[Judgement]:
        most = max(self.curve[0].lost_paths, _LOST)
        return [j for j in self.curve if j.lost_paths <= most]

    def _lowest(self) -> Judgement:
        """The judgement with the smallest loss, by chance or not; the earliest of equals."""
        return min(self._allowed(), key=_order)

    def _best(self) -> Judgement:
        """What is returned: the smallest loss that is no chance, or the beginning; the last if nothing was held out.

        The smallest of many losses is a little too good to be true, which `min_z` has to make up for.
        """
        if not self.config.hold_out:
            return self.curve[-1]
        proven = [j for j in self._allowed() if j.is_proven(self.config.min_z)]
        return min(proven, key=_order, default=self.curve[0])

    def _verdict(self) -> str:
        best = self._best()
        if not self.config.iterations:
            return "no iterations: the zero-shot estimate is returned"
        if not self.config.hold_out:
            return "nothing was held out: the last weights are returned"
        if best == self.curve[0]:
            return "no improvement beyond chance: the zero-shot estimate is returned"
        unit = "in squared error" if self.problem.choice.objective == "sparse" else "nats"
        return (
            f"held-out data are predicted better by {best.gain:.2g} {unit}, with a standard error of "
            f"{best.gain_error:.1g}: the weights of iteration {best.iteration} are returned"
        )

    def _finish(self, observations: Observations, state: State | None) -> Finetuned[EstimatedSDE]:
        best = FIMSDE.from_pretrained(self.out / WEIGHTS)
        done = 0 if state is None else state.step
        ended: Ended = "finished"
        if done < self.config.iterations:
            ended = "stopped early" if self._is_stale() else "interrupted"
        result = Finetuned(
            model=best,
            sde=estimate_sde(observations, best),
            objective=self.problem.choice.objective,
            reason=self.problem.choice.reason,
            before=self.curve[0],
            after=self._best(),
            verdict=self._verdict(),
            curve=tuple(self.curve),
            iterations=done,
            ended=ended,
            skipped=0 if state is None else state.skipped,
            seconds=0.0 if state is None else round(state.seconds, 1),
        )
        content = (json.dumps(result.report(), indent=1, allow_nan=False) + "\n").encode()
        write_file(self.out / REPORT, content, OutputError)
        clear(self.out)
        return result


def _order(judgement: Judgement) -> tuple[float, int]:
    return inf if judgement.loss is None else judgement.loss, judgement.iteration


def _finite(value: float) -> float | None:
    return value if isfinite(value) else None


def _settings(base: FIMSDE, observations: Observations, config: FinetuneConfig, choice: Choice) -> dict[str, Any]:
    """All that a run depends on, as it is compared on resume."""
    chosen = {"objective": choice.objective, "substeps": choice.substeps, "look_ahead": choice.look_ahead}
    return {
        **to_mapping(config),
        "chosen": {**chosen, "num_scored": choice.num_scored},
        "observations": paths_hash(observations)[:SHORT],
        "weights": fingerprint(base),
    }
