"""What each part of the model is worth: arms trained from scratch for equally many CPU-seconds, then compared.

    python benchmarks/ablation.py --cache FOLDER [--equations 24576] [--seconds 240] [--arms primed,paper] [--store]

Arms: the primed model; without attention (the encoder's output is silenced, candidates stay); without scales (every
candidate made from blocks of several steps is replaced by the full one made from single steps, and so is the fit that
local corrections start from); without sparse candidates (replaced by the full fits); without local corrections; and the
paper's architecture, without any priming, with about as many weights on the same prior. FOLDER keeps the contexts of
the primed arms and is filled first; its contexts and the paper's batches cost the arms nothing. Development seeds:
canonical systems, errors of drift and diffusion divided by the published FIM-SDE's; systems out of class, error of the
drift where the data are as a share of its variance, clean and with noise. Geometric means.
"""

import argparse
import copy
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from bank_canonical import PUBLISHED
from model_canonical import errors
from record import store
from torch.utils.data import Dataset

from fimsde.bank.hypotheses import DIFFUSION, DRIFT, FULL, RIDGE, STEP_FULL, Hypothesis
from fimsde.benchmark.tasks import load, tasks
from fimsde.errors import DataWarning
from fimsde.metrics.vector_field import field_error
from fimsde.model.banks import Banks
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.results.make import estimate
from fimsde.systems.canonical import CANONICAL, DEV_SEED
from fimsde.train.config import ContextConfig, TrainConfig
from fimsde.train.loop import run
from fimsde.train.pretrain.batches import Batch, StreamedBatches
from fimsde.train.pretrain.cache import CachedBatches, fill_cache
from fimsde.train.pretrain.objectives import Objective, choose_objective
from fimsde.train.pretrain.start import new_model

MOST_STEPS = 100_000
PAPER_MODEL = ModelConfig(embed=72, heads=4, functional_layers=2, feed_forward=192, head_hidden=(96, 96))
PAPER_BATCHES = 48  # made in advance, read in turn
TRIED = 20  # steps to find out how long one takes


def single_steps(banks: Banks) -> Banks:
    """A bank that knows only single steps."""
    poorer = _replaced(banks, lambda h: STEP_FULL if h.fit == "block" else h)
    return replace(poorer, reference=torch.zeros_like(banks.reference))


def full_fits(banks: Banks) -> Banks:
    """A bank without polynomials that lack terms."""
    return _replaced(banks, lambda h: h if h.form in (FULL, RIDGE) else Hypothesis(h.fit, FULL))


def polynomials(banks: Banks) -> Banks:
    """A bank without local corrections: in their place stands the full fit, as often."""
    names = ("local_drift", "local_diffusion_sq", "gain", "diffusion_gain")
    return replace(banks, **{name: torch.zeros_like(getattr(banks, name)) for name in names})


def _replaced(banks: Banks, stand_in: Callable[[Hypothesis], Hypothesis]) -> Banks:
    """Candidates replaced by others, each hypothesis by its stand-in."""
    drift, diffusion = ([field.index(stand_in(h)) for h in field] for field in (DRIFT, DIFFUSION))
    return replace(
        banks,
        drift=banks.drift[:, drift],
        misfit=banks.misfit[:, drift],
        diffusion_sq=banks.diffusion_sq[:, diffusion],
        diffusion_misfit=banks.diffusion_misfit[:, diffusion],
    )


POORER = {"no-scales": single_steps, "no-sparse": full_fits, "no-local": polynomials}
ARMS = ("primed", "no-attention", *POORER, "paper")


class InTurn(Dataset[Batch]):
    """A few batches, again and again."""

    def __init__(self, batches: list[Batch]) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return MOST_STEPS

    def __getitem__(self, index: int) -> Batch:
        return self.batches[index % len(self.batches)]


@dataclass(frozen=True)
class Arm:
    """What is trained, on what, to minimise what."""

    model: FIMSDE
    batches: Dataset[Batch]
    objective: Objective


class PoorlyPrimed(FIMSDE):
    """A primed model that reads poorer banks."""

    poorer: Callable[[Banks], Banks]

    def read(self, contexts, origin=None):
        return self.poorer(super().read(contexts, origin))


def primed_arm(name: str, config: TrainConfig, batches: Dataset[Batch]) -> Arm:
    """The primed model, or one of its parts."""
    model, objective = new_model(config), choose_objective(config)
    if name == "no-attention":
        model.encoder.register_forward_hook(silence)
    if name not in POORER:
        return Arm(model, batches, objective)
    limited, poorer = PoorlyPrimed(config.model, seed=None), POORER[name]
    limited.load_state_dict(model.state_dict(), assign=True)
    limited.poorer = poorer
    return Arm(limited, batches, lambda model, batch: objective(model, replace(batch, source=poorer(batch.source))))


def silence(encoder, source, output):
    """What attention reads is nothing."""
    encoded, mask = output
    return torch.zeros_like(encoded), mask


def paper_arm(config: TrainConfig) -> Arm:
    """The paper's architecture."""
    batches = StreamedBatches(config)
    return Arm(new_model(config), InTurn([batches[i] for i in range(PAPER_BATCHES)]), choose_objective(config))


def paper_config(primed: TrainConfig) -> TrainConfig:
    """Its settings: the primed prior and loop, the paper's contexts and loss."""
    return replace(
        primed,
        model=PAPER_MODEL,
        contexts=ContextConfig(most=3000),
        objective="authors",
        batch_size=8,
        num_queries=32,
        cache_equations=0,
    )


def train(arm: Arm, config: TrainConfig, seconds: float) -> tuple[FIMSDE, int]:
    """The averaged weights after about `seconds` of CPU, and the number of steps; a few steps tell how many fit in."""
    rehearsal = copy.deepcopy(arm.model)
    spent = [run_steps(rehearsal, arm, config, n) for n in (1, TRIED + 1)]
    steps = max(TRIED, round(seconds * TRIED / (spent[1] - spent[0])))
    run_steps(arm.model, arm, config, steps)
    return arm.model.eval(), steps


def run_steps(model: FIMSDE, arm: Arm, config: TrainConfig, steps: int) -> float:
    """Train and leave the averaged weights in the model; CPU-seconds."""
    warm_up = min(config.loop.schedule.warm_up, steps // 4)
    schedule = replace(config.loop.schedule, warm_up=warm_up)
    loop = replace(config.loop, steps=steps, checkpoint_interval=steps, schedule=schedule)
    begin = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        state = run(model, arm.batches, arm.objective, loop, Path(folder), settings=config.to_mapping())
    if state.step < steps:
        raise SystemExit(f"stopped after {state.step} of {steps} steps; an arm that is not done is not reported.")
    seconds = time.process_time() - begin
    model.load_state_dict(state.ema or state.model.state_dict())
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--equations", type=int, default=24_576)
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--arms", default=",".join(ARMS))
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    if unknown := set(options.arms.split(",")) - set(ARMS):
        parser.error(f"no arm {', '.join(sorted(unknown))}; choose from {', '.join(ARMS)}")
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", DataWarning)
    config = replace(TrainConfig.preset("primed"), validation_batches=0, cache_equations=options.equations)
    config = replace(config, loop=replace(config.loop, ema_decay=0.98))
    fill_cache(config, options.cache, workers=2, show_progress=True)
    batches = CachedBatches(config, options.cache)
    settings = ", ".join(f"{n:g}/{g:g}" for n, g in PUBLISHED)
    print(f"arm, weights, steps: drift, then diffusion, at noise/gap {settings}; drift out of class, clean and noisy")
    rows = []
    for name in options.arms.split(","):
        own = paper_config(config) if name == "paper" else config
        arm = paper_arm(own) if name == "paper" else primed_arm(name, own, batches)
        model, steps = train(arm, own, options.seconds)
        found = [*compared(model, options.repetitions), *out_of_class(model, options.repetitions)]
        rows.append({"arm": name, "weights": own.model.num_parameters, "steps": steps, "errors": found})
        print(f"{name:13s}{own.model.num_parameters:9d}{steps:7d}", *(f"{r:9.3g}" for r in found), flush=True)
    if options.store:
        store("ablation", {"rows": rows})


def compared(model: FIMSDE, repetitions: int) -> list[float]:
    """Geometric means over the systems of errors divided by published ones: drift by setting, then diffusion."""
    ratios = []
    for (noise_std, gap), published in PUBLISHED.items():
        runs = [[errors(model, s, noise_std, gap, r, False) for r in range(repetitions)] for s in CANONICAL]
        ratios.append(np.exp(np.log(np.array(runs).mean(axis=1).T / np.array(published)).mean(axis=1)))
    return np.array(ratios).T.ravel().tolist()


def out_of_class(model: FIMSDE, repetitions: int) -> list[float]:
    """Relative errors of the drift where the data are, geometric means over data sets: clean, then noisy."""
    logs = defaultdict(list)
    for task in tasks("out-of-class", seed=DEV_SEED, repetitions=repetitions):
        if task.length is None:
            problem = load(task)
            found = field_error(estimate(problem.observations, model), problem.truth, problem.states)
            logs[task.noise_std].append(np.log(found.relative_drift))
    return [float(np.exp(np.mean(values))) for _, values in sorted(logs.items())]


if __name__ == "__main__":
    main()
