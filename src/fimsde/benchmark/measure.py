"""One method on one task: fit, compare fields, score held-out steps, simulate, compare paths."""

import platform
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

from fimsde.benchmark.fingerprint import fingerprint
from fimsde.benchmark.results import Measurement, PathScore
from fimsde.benchmark.tasks import Comparison, Problem, Task
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE, fields
from fimsde.errors import ConfigError, DataWarning
from fimsde.methods import AnyMethod, Method, PathSampler
from fimsde.metrics.likelihood import TransitionLikelihood, transition_likelihood
from fimsde.metrics.mmd import mmd
from fimsde.metrics.vector_field import FieldError, field_error
from fimsde.shapes import Array, Float64
from fimsde.simulate import Paths, simulate
from fimsde.systems.canonical import simulation_seed


def measure(
    task: Task, method: AnyMethod, problem: Problem, *, compare_paths: bool = True, cache: Path | None = None
) -> Measurement:
    """Everything that is reported about a method on a task. What goes wrong inside the method becomes a failure.

    Args:
        task: Names the data and decides the seeds.
        method: Not yet at the iterations of the task.
        problem: What `load` returns for the task.
        compare_paths: Whether to simulate and compare paths, by far the longest part.
        cache: Folder for the Grams of references.
    """
    method = at_iterations(method, task.iterations)
    fitted: SDE | PathSampler | None = None
    failure: str | None = None
    before = time.process_time()
    try:
        with warnings.catch_warnings():  # the grids of the paper leave the data on purpose
            warnings.simplefilter("ignore", DataWarning)
            fitted = method.fit(_training_data(method, problem, task), _seed(task, "fit"))
    except ConfigError:
        raise
    except Exception as error:  # whatever a method raises is a result: it failed on these data
        failure = f"{type(error).__name__}: {error}"
    seconds = time.process_time() - before
    grid_error = data_error = likelihood = None
    scores: dict[str, PathScore] = {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", DataWarning)
        if fitted is not None and isinstance(method, Method):
            grid_error, data_error, likelihood = _fields(fitted, problem)  # type: ignore[arg-type]
        if compare_paths:
            scores = {c.name: _score(fitted, failure, c, task, cache) for c in problem.comparisons}
    return Measurement(
        task=task,
        method=method.name,
        title=method.title,
        method_settings=method.settings,
        failure=failure,
        fit_cpu_seconds=round(seconds, 4),
        grid_error=grid_error,
        data_error=data_error,
        likelihood=likelihood,
        scores=scores,
        versions={"python": platform.python_version()} | {name: version(name) for name in ("fimsde", "numpy", "torch")},
        code=fingerprint(method.name),
    )


def at_iterations(method: AnyMethod, iterations: int | None) -> AnyMethod:
    """The method as a task along training asks for it; None: as it is."""
    if iterations is None:
        return method
    if method.at is None:
        raise ConfigError(f"{method.title} does not train in iterations; leave it out of the convergence experiment.")
    return method.at(iterations)


def _training_data(method: AnyMethod, problem: Problem, task: Task) -> Observations:
    if isinstance(method, Method):
        return problem.observations
    if problem.equal_paths is None:
        raise ConfigError(
            f"{method.title} learns from paths on the grid of the reference; {task.experiment} has a single path. "
            "Leave the method out, or choose lorenz, real-world or convergence."
        )
    return problem.equal_paths


def _seed(task: Task, *purpose: str) -> int:
    """The same for all methods and settings: differences between them are not due to the noise."""
    return simulation_seed(task.seed, task.system, *purpose, task.repetition)


def _fields(sde: SDE, problem: Problem) -> tuple[FieldError | None, FieldError | None, TransitionLikelihood]:
    likelihood = transition_likelihood(sde, problem.held_out)
    if problem.truth is None or problem.nodes is None or problem.states is None:
        return None, None, likelihood
    return field_error(sde, problem.truth, problem.nodes), field_error(sde, problem.truth, problem.states), likelihood


def _score(
    fitted: SDE | PathSampler | None, failure: str | None, c: Comparison, task: Task, cache: Path | None
) -> PathScore:
    if fitted is None:
        return PathScore(failure or "no estimate", None, None, None, 0.0)
    seed = _seed(task, "model", c.name)
    before = time.process_time()
    if isinstance(fitted, SDE):
        paths = simulate(fitted, c.reference[:, 0], c.times, substeps=c.substeps, seed=seed)
    else:
        assert c.given is not None, "path samplers are refused where nothing is given"
        paths = fitted.sample(c.given, seed)
    seconds = round(time.process_time() - before, 4)
    model = c.to_evaluation(paths.values)
    if not np.isfinite(model).all():
        return PathScore(_loss(fitted, paths), None, None, None, seconds)
    found = mmd(c.to_evaluation(c.reference), model, seed=seed % 2**32, cache=cache)
    return PathScore(None, found.value, found.unmatched, found.p_value, seconds)


def _loss(fitted: SDE | PathSampler, paths: Paths) -> str:
    """What became of the lost paths."""
    lost = np.flatnonzero(~paths.mask.all(axis=1))
    if not len(lost):
        return "paths overflow when transformed back"
    first = f"{len(lost)} of {len(paths.mask)} paths were lost, the first at time {np.nanmin(paths.diverged_at):g}"
    invalid = isinstance(fitted, SDE) and _is_invalid(fitted, _last_states(paths, lost))
    return f"invalid equation (negative g): {first}" if invalid else f"diverged: {first}"


def _last_states(paths: Paths, lost: Array) -> Float64[Array, "paths dim"]:
    last = np.maximum(paths.mask[lost].sum(axis=1) - 1, 0)
    return paths.values[lost, last]


def _is_invalid(sde: SDE, x: Float64[Array, "paths dim"]) -> bool:
    drift, diffusion = fields(sde, x)
    return bool(np.any(np.isnan(diffusion) & np.isfinite(drift)))
