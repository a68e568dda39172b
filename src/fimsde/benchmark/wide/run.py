"""Run the wide suite: what is stored already is skipped, so a run can be stopped at any moment and started again."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tqdm import tqdm

from fimsde.benchmark.wide.data import load
from fimsde.benchmark.wide.measure import measure
from fimsde.benchmark.wide.store import Stored, file_of, fingerprint, read, save
from fimsde.benchmark.wide.tasks import Chosen, wide_tasks
from fimsde.errors import ConfigError
from fimsde.files.place import check_place
from fimsde.methods import AnyMethod, Method
from fimsde.systems.canonical import DEV_SEED
from fimsde.systems.wide.paths import DRAWS

_PATIENCE = 5.0  # seconds of work that a crash may cost; an interruption costs the fit it interrupts


def run_wide(
    methods: Sequence[AnyMethod],
    *,
    out: str | Path = "bench",
    families: Chosen | Sequence[str] = "development",
    seed: int = DEV_SEED,
    draws: int = DRAWS,
    every: int = 1,
    quick: bool = False,
    renew: bool = False,
    cache: Path | None = None,
) -> list[Stored]:
    """Measure methods on the wide suite, system after system, and store every result.

    Args:
        methods: `named([...])` for those of the package, or your own `Method`.
        out: Folder of the result files; what is there is not computed again.
        families: "development", "reported", "all", or names of families.
        seed: Of systems and data; 0 for reports, `DEV_SEED` and above for development.
        draws: Systems of each family.
        every: Only every so many of them, for methods that take long.
        quick: A small version: two systems of each family, two columns.
        renew: Whether results made by other code are computed again.
        cache: Folder for simulated paths; None: in the user's cache.

    Returns:
        All stored results of these methods on these families, of this run and of earlier ones.
    """
    chosen = [with_fields(method) for method in methods]
    if not chosen:
        raise ConfigError("no methods to run; pass at least one.")
    folder = Path(out)
    check_place(folder, "--out")
    tasks = wide_tasks(families, seed=seed, draws=draws, every=every, quick=quick)
    files = {(m.name, t.family): _open(folder, m, t.family, seed) for t in tasks for m in chosen}
    codes = {m.name: fingerprint(m.name) for m in chosen}  # now: the files may change while this runs
    missing = [
        (m, t) for t in tasks for m in chosen if not files[m.name, t.family].has(t, codes[m.name] if renew else None)
    ]
    with _saved_in_the_end(folder) as changed:
        for method, task in tqdm(missing, desc="wide", disable=None):
            stored = files[method.name, task.family]
            result = measure(task, method, load(task, cache))
            stored.rows[task.draw, task.column] = (result, codes[method.name])
            changed(stored)
    return list(files.values())


def with_fields(method: AnyMethod) -> Method:
    """The method, if it gives drift and diffusion."""
    if not isinstance(method, Method):
        raise ConfigError(f"{method.title} samples paths and gives neither drift nor diffusion. Leave it out.")
    return method


def _open(folder: Path, method: Method, family: str, seed: int) -> Stored:
    file = file_of(folder, family, method.name, method.settings, seed)
    return read(file) if file.exists() else Stored(family, method.name, method.title, method.settings, seed)


class _Changes:
    """Files with results that are not on the disk yet; written every few seconds, and when the next file begins."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.open, self.since = folder, dict[int, Stored](), time.monotonic()

    def __call__(self, stored: Stored) -> None:
        self.open[id(stored)] = stored
        if time.monotonic() - self.since > _PATIENCE:
            self.write()

    def write(self) -> None:
        for stored in self.open.values():
            save(stored, self.folder)
        self.open, self.since = {}, time.monotonic()


@contextmanager
def _saved_in_the_end(folder: Path) -> Iterator[_Changes]:
    changes = _Changes(folder)
    try:
        yield changes
    finally:
        changes.write()
