"""Run an experiment: what is stored already is skipped, so a run can be stopped at any moment and started again."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import torch
from tqdm import tqdm

from fimsde.benchmark.measure import measure
from fimsde.benchmark.provenance import is_present
from fimsde.benchmark.results import Measurement, read, result_file, save
from fimsde.benchmark.tasks import LATENT_ITERATIONS, Experiment, Task, load, tasks
from fimsde.errors import ConfigError
from fimsde.files.place import check_place
from fimsde.files.workers import process_pool
from fimsde.methods import AnyMethod
from fimsde.systems.canonical import REPORT_SEED

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@dataclass(frozen=True)
class Options:
    """How results are computed and where they are kept.

    Attributes:
        out: Folder of the result files.
        compare_paths: Whether to simulate and compare paths, by far the longest part. A result without is completed by
            a later run that asks for it.
        data: Folder of the real series; None: that in FIMSDE_DATA.
        cache: Folder for the Grams of references, which all methods share; None: in the user's cache.
        renew: Whether results made by other or unknown code are computed again.
    """

    out: Path
    compare_paths: bool = True
    data: Path | None = None
    cache: Path | None = None
    renew: bool = False


def run(
    experiment: Experiment,
    methods: Sequence[AnyMethod],
    *,
    out: str | Path = "bench",
    seed: int = REPORT_SEED,
    repetitions: int | None = None,
    systems: Sequence[str] | None = None,
    iterations: Sequence[int] = LATENT_ITERATIONS,
    quick: bool = False,
    compare_paths: bool = True,
    data: str | Path | None = None,
    cache: str | Path | None = None,
    workers: int = 1,
    renew: bool = False,
) -> list[Measurement]:
    """Measure methods on an experiment and store every result as soon as it is known.

        def my_fit(observations, seed):
            return FunctionSDE(observations.dim, my_drift, my_diffusion)

        run("canonical", [Method("mine", "Mine", my_fit)])

    Args:
        experiment: One of `EXPERIMENTS`.
        methods: `named([...])` for those of the package, or your own `Method`.
        out: Folder of the result files; what is there is not computed again.
        seed: Of data and simulations.
        repetitions: Data sets (folds) per cell; the paper's number by default.
        systems: Some of the systems or series.
        iterations: Of training, for "convergence".
        quick: A small version.
        compare_paths: See `Options`.
        data: See `Options`.
        cache: See `Options`.
        workers: Processes, one thread each. Methods of your own must then live in a module that can be imported.
        renew: See `Options`. Of a method of your own only the data and the measures are known by their code.

    Returns:
        The results of these methods on these tasks, computed now or before.
    """
    if not methods:
        raise ConfigError("no methods to run; pass at least one.")
    options = Options(
        Path(out),
        compare_paths,
        None if data is None else Path(data),
        gram_folder() if cache is None else Path(cache),
        renew,
    )
    wanted = tasks(experiment, seed=seed, repetitions=repetitions, systems=systems, iterations=iterations, quick=quick)
    todo = list(product(methods, wanted))
    missing = [(method, task) for method, task in todo if not _is_stored(method, task, options)]
    if missing:
        check_place(options.out, "--out")
        if options.compare_paths and options.cache is not None:
            check_place(options.cache, "--cache")
    with _single_threads(workers), process_pool(workers) as executor:
        for _ in tqdm(_solve_all(missing, options, executor), total=len(missing), desc=experiment, disable=None):
            pass
    return [read(_file(method, task, options)) for method, task in todo]


def _file(method: AnyMethod, task: Task, options: Options) -> Path:
    at_end = method if task.iterations is None or method.at is None else method.at(task.iterations)
    return result_file(options.out, task, at_end.name, at_end.settings)


def _is_stored(method: AnyMethod, task: Task, options: Options) -> bool:
    file = _file(method, task, options)
    if not file.exists():
        return False
    result = read(file)
    if options.renew and not is_present(result):
        return False
    return bool(result.scores) or not options.compare_paths or task.experiment == "out-of-class"


def _solve_all(missing: list[tuple[AnyMethod, Task]], options: Options, executor: Executor | None) -> Iterator[None]:
    if executor is None:
        for method, task in missing:
            _solve(method, task, options)
            yield
        return
    for done in as_completed([executor.submit(_solve_alone, method, task, options) for method, task in missing]):
        yield done.result()


def _solve(method: AnyMethod, task: Task, options: Options) -> None:
    problem = load(task, options.data)
    save(measure(task, method, problem, compare_paths=options.compare_paths, cache=options.cache), options.out)


def _solve_alone(method: AnyMethod, task: Task, options: Options) -> None:
    torch.set_num_threads(1)
    _solve(method, task, options)


@contextmanager
def _single_threads(workers: int) -> Iterator[None]:
    """Processes started meanwhile use one thread each: several would fight over the cores."""
    before = {name: os.environ.get(name) for name in _THREADS}
    if workers > 1:
        os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def gram_folder() -> Path:
    """Where the Grams of references are kept by default."""
    return cache_folder("grams")


def cache_folder(content: str) -> Path:
    """A folder in the user's cache, or for want of a home in one that all programs share."""
    home = Path(os.path.expanduser("~"))
    usual = home / ".cache" if home.is_absolute() else Path(tempfile.gettempdir())
    return Path(os.environ.get("XDG_CACHE_HOME") or usual) / "fimsde" / content
