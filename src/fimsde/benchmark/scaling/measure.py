"""Arms on the paper's canonical tasks, and on contexts of several sizes; they read data as they were trained to."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from fimsde.benchmark.run import run
from fimsde.benchmark.scaling.arms import Arm
from fimsde.benchmark.scaling.reading import as_trained
from fimsde.benchmark.scaling.train import kept_weights
from fimsde.benchmark.tasks import Experiment
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.methods import Method, fim
from fimsde.train.config import TrainConfig


def measure_arms(
    arms: Sequence[Arm],
    work: Path,
    results: Path,
    milestones: Sequence[int],
    *,
    compare_paths: bool = True,
    repetitions: int | None = None,
    seed: int = 0,
    quick: bool = False,
    cache: Path | None = None,
) -> None:
    """Measure every arm at the last milestone of which weights are kept, and store the results.

    On the canonical tasks ("ablation"), and fields alone on contexts of several sizes.

    Args:
        arms: Which ones.
        work: Where `train_arms` keeps weights.
        results: Folder of the result files.
        milestones: Steps at which weights may have been kept.
        compare_paths: Whether to simulate and compare paths, by far the longest part.
        repetitions: Data sets per cell; five by default.
        seed: Of the data.
        quick: Two systems, few paths.
        cache: Folder for the Grams of references.
    """
    methods = [method for arm in arms if (method := arm_method(arm, work, milestones)) is not None]
    if not methods:
        raise ConfigError(f"no arm in {str(work)!r} is at its first milestone; train longer (--minutes).")
    experiments: tuple[tuple[Experiment, bool], ...] = (("ablation", compare_paths), ("context-size", False))
    for experiment, paths in experiments:
        run(
            experiment,
            methods,
            out=results,
            seed=seed,
            repetitions=repetitions,
            quick=quick,
            compare_paths=paths,
            cache=cache,
        )


def arm_method(arm: Arm, work: Path, milestones: Sequence[int]) -> Method | None:
    """The estimator with the last kept weights of an arm; None if there are none."""
    reached = [step for step in milestones if kept_weights(work, arm, step).exists()]
    if not reached:
        return None
    method = fim(kept_weights(work, arm, reached[-1]))
    return replace(method, title=f"{arm.name}, {reached[-1]} steps", fit=partial(_fit, method, arm.config))


def _fit(method: Method, config: TrainConfig, observations: Observations, seed: int) -> SDE:
    longest = max(setting.gap for setting in config.prior.settings)
    return method.fit(as_trained(observations, config.contexts.transitions, longest), seed)
