"""What is measured on what data: every experiment is a list of tasks, every task loads one problem.

A task is a few words and numbers, so that it can name a result file and travel to another process; the data are made or
read where the work is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float64
from fimsde.systems.canonical import CANONICAL, DOUBLE_WELL, PIECES, REPETITIONS, REPORT_SEED, System, context, grid
from fimsde.systems.canonical import reference as reference_of
from fimsde.systems.lorenz import LAWS, LORENZ, TIMES, lorenz_data
from fimsde.systems.out_of_class import OUT_OF_CLASS
from fimsde.systems.real_world import REAL_WORLD, Split, splits

Experiment = Literal["canonical", "lorenz", "real-world", "convergence", "context-size", "ablation", "out-of-class"]
EXPERIMENTS: tuple[Experiment, ...] = get_args(Experiment)

NOISE, STRIDES = (0.0, 0.05), (1, 10)  # of the canonical suite: gaps 0.002 and 0.02; the paper's (section 5.1)
CONTEXT_SIZES = (500, 1000, 2000, 3000, 4000, 5000, 50_000)  # the paper's, of its experiment on the size of the context
# observations of a short data set out of class; by hand: below the paper's 5000, as users have them
SHORT = (300, 1000)
LATENT_ITERATIONS = (500, 1000, 2000, 5000)  # the paper's, of its experiment on convergence
FINETUNE_ITERATIONS = (0, 20, 40, 60, 80, 100)  # likewise
# per gap of a real series: the regression's own step, and the paper's (authors' code)
SUBSTEPS = {"one step": 1, "five steps": 5}
LORENZ_SUBSTEPS = 20  # per gap; the authors' code
_QUICK_PATHS = 20  # by hand: bounds seconds
_MAX_STATES = 2000  # at which fields are compared where the data are; by hand: bounds seconds
_HELD_OUT_PATHS = 10  # on which the likelihood is taken; by hand: 4990 steps


@dataclass(frozen=True)
class Task:
    """One data set on which methods are measured.

    Attributes:
        experiment: Which table it belongs to.
        system: Name of the system or series.
        setting: What else varies, as in the heads of the tables.
        repetition: Number of the data set; of the held-out fold for real series.
        seed: `REPORT_SEED` for reports, `DEV_SEED` and above for development.
        noise_std: Measurement noise as a share of half the range.
        stride: Simulation steps between observations; None: the system's own.
        length: Observations; None: the system's own.
        iterations: Of training, where methods are compared along it.
        num_paths: Paths compared by MMD; None: all references.
    """

    experiment: Experiment
    system: str
    setting: str
    repetition: int
    seed: int = REPORT_SEED
    noise_std: float = 0.0
    stride: int | None = None
    length: int | None = None
    iterations: int | None = None
    num_paths: int | None = None


@dataclass(frozen=True, eq=False)
class Comparison:
    """Reference paths against which a model is simulated from their first points.

    Attributes:
        name: The initial law or the sub-steps, where there are several comparisons.
        reference: What the model is compared with.
        times: The grid of all paths.
        substeps: Euler steps per gap of that grid.
        given: The reference as a method that infers latent starts sees it.
        to_evaluation: From modelled values to those compared.
    """

    name: str
    reference: Float64[Array, "paths times dim"]
    times: Float64[Array, " times"]
    substeps: int
    given: Observations | None = None
    to_evaluation: Callable[[Float64[Array, "*lead"]], Float64[Array, "*lead"]] = np.positive


@dataclass(frozen=True, eq=False)
class Problem:
    """The data of a task.

    Attributes:
        observations: What a method that returns an equation is given.
        equal_paths: The same data as paths on one grid, for methods that learn from paths; None if there are none.
        truth: The true equation, if known.
        nodes: The paper's grid, on which fields are compared with the truth.
        states: Clean states of the data, where fields are compared once more.
        held_out: Steps no method has seen.
        comparisons: Empty where paths are not compared.
    """

    observations: Observations
    equal_paths: Observations | None
    truth: SDE | None
    nodes: Float64[Array, "queries dim"] | None
    states: Float64[Array, "others dim"] | None
    held_out: Observations
    comparisons: tuple[Comparison, ...]


def tasks(
    experiment: Experiment,
    *,
    seed: int = REPORT_SEED,
    repetitions: int | None = None,
    systems: Sequence[str] | None = None,
    iterations: Sequence[int] = LATENT_ITERATIONS,
    quick: bool = False,
) -> tuple[Task, ...]:
    """The tasks of an experiment, repetition after repetition, so that a run cut short covers all systems.

    Args:
        experiment: Which one.
        seed: Of the data.
        repetitions: Data sets (folds) per cell; the paper's number by default.
        systems: Names of some of the systems or series.
        iterations: Of training, for "convergence".
        quick: A small version: two systems, two repetitions, twenty paths.
    """
    names = _systems(experiment, systems, quick)
    most = 1 if experiment == "lorenz" else REPETITIONS
    number = (min(2, most) if quick else most) if repetitions is None else repetitions
    if not 1 <= number <= REPETITIONS:
        raise ConfigError(f"{number} repetitions; expected 1 to {REPETITIONS}. Take another seed for more data.")
    return tuple(
        Task(experiment, name, repetition=r, seed=seed, num_paths=compared_paths(experiment, quick), **setting)
        for r, name, setting in product(range(number), names, _settings(experiment, iterations, quick))
    )


def compared_paths(experiment: Experiment, quick: bool) -> int | None:
    """How many paths a task compares; None: all references. Ten pieces of a real series are few enough for any run."""
    return _QUICK_PATHS if quick and experiment not in ("real-world", "convergence") else None


def _systems(experiment: Experiment, chosen: Sequence[str] | None, quick: bool) -> tuple[str, ...]:
    match experiment:
        case "lorenz":
            known: tuple[str, ...] = (LORENZ.name,)
            default = known
        case "real-world" | "convergence":
            known = tuple(s.name for s in REAL_WORLD)
            default = ("oil", "facebook") if quick and experiment == "real-world" else ("oil",) if quick else known
        case "out-of-class":
            known = tuple(s.name for s in OUT_OF_CLASS)
            default = ("sine_wells", "van_der_pol") if quick else known
        case _:
            known = tuple(s.name for s in CANONICAL)
            default = ("double_well", "damped_linear") if quick or experiment == "context-size" else known
    unknown = [name for name in chosen or () if name not in known]
    if unknown:
        raise ConfigError(f"{', '.join(unknown)} is not in {experiment}; choose from {', '.join(known)}.")
    return tuple(chosen) if chosen else default


def _settings(experiment: Experiment, iterations: Sequence[int], quick: bool) -> list[dict]:
    match experiment:
        case "lorenz" | "real-world":
            return [{"setting": ""}]
        case "convergence":
            return [{"setting": f"iterations={n}", "iterations": n} for n in sorted((5, 10) if quick else iterations)]
        case "context-size":
            return [{"setting": f"length={n}", "length": n, "stride": 1} for n in CONTEXT_SIZES[: 3 if quick else None]]
        case "out-of-class":
            lengths = ((None, "full"), *((n, str(n)) for n in SHORT))
            return [
                {"setting": f"rho={rho:g},length={word}", "noise_std": rho, "length": n}
                for rho, (n, word) in product(NOISE, lengths)
            ]
        case _:
            return [
                {"setting": f"rho={rho:g},dtau={stride * DOUBLE_WELL.dt:g}", "noise_std": rho, "stride": stride}
                for rho, stride in product(NOISE, STRIDES)
            ]


def load(task: Task, data: str | Path | None = None) -> Problem:
    """The data of a task. `data` is the folder of the real series; by default that in FIMSDE_DATA."""
    match task.experiment:
        case "lorenz":
            return _lorenz(task)
        case "real-world" | "convergence":
            return _real_world(task, splits(_named(REAL_WORLD, task.system), data)[task.repetition])
        case "out-of-class":
            return _textbook(task, _named(OUT_OF_CLASS, task.system), compare_paths=False)
        case _:
            return _textbook(task, _named(CANONICAL, task.system), compare_paths=True)


def _named(items: Sequence, name: str):  # type: ignore[no-untyped-def]  # a system or a series: what is in the list
    return next(item for item in items if item.name == name)


def _textbook(task: Task, system: System, *, compare_paths: bool) -> Problem:
    def observed(noise_std: float) -> Observations:
        return context(
            system, task.repetition, noise_std=noise_std, stride=task.stride, length=task.length, seed=task.seed
        )

    reference = reference_of(system, task.repetition, seed=task.seed)[:: PIECES // (task.num_paths or PIECES)]
    times = np.arange(reference.shape[1]) * system.dt
    return Problem(
        observations=observed(task.noise_std),
        equal_paths=None,
        truth=system,
        nodes=grid(system),
        states=_thinned(observed(0.0).values),
        held_out=read(reference[:: len(reference) // _HELD_OUT_PATHS], times=times),
        comparisons=(Comparison("", reference, times, substeps=1),) if compare_paths else (),
    )


def _lorenz(task: Task) -> Problem:
    data = lorenz_data(task.seed + task.repetition)
    part = slice(task.num_paths)
    return Problem(
        observations=data.train,
        equal_paths=data.train,
        truth=data.sde,
        nodes=(grid(LORENZ) - data.mean) / data.std,
        states=_thinned(data.references["N(0,1)"].reshape(-1, LORENZ.dim)),
        held_out=data.validation,
        comparisons=tuple(
            Comparison(
                law,
                data.references[law][part],
                TIMES,
                substeps=LORENZ_SUBSTEPS,
                given=read(data.noisy_references[law][part], times=TIMES),
            )
            for law in LAWS
        ),
    )


def _real_world(task: Task, split: Split) -> Problem:
    reference = split.reference()
    times = np.arange(reference.shape[1]) * split.series.dt
    given = read(reference, times=times)
    return Problem(
        observations=split.training("separate"),
        equal_paths=split.training("forty paths"),
        truth=None,
        nodes=None,
        states=None,
        held_out=given,
        comparisons=tuple(
            Comparison(name, reference, times, substeps, given, split.series.to_evaluation)
            for name, substeps in SUBSTEPS.items()
        ),
    )


def _thinned(states: Float64[Array, "points dim"]) -> Float64[Array, "others dim"]:
    return states[:: max(1, len(states) // _MAX_STATES)]
