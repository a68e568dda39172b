"""Pages of the suites against specialists, whole: one for each suite of which report scores are stored."""

from pathlib import Path

from fimsde.benchmark.suites.cases import SUITES, Suite
from fimsde.benchmark.suites.run import other_code, stored
from fimsde.benchmark.suites.tables import tables
from fimsde.methods import named
from fimsde.systems.canonical import REPORT_SEED

METHODS = ("evidence", "ours", "ours-origin", "sfi-linear", "sfi-parametric")


def page(folder: Path, suite: Suite) -> str | None:
    """All tables of a suite; None if nothing is stored."""
    results = stored(suite, named(METHODS), out=folder, seed=REPORT_SEED)
    if not results:
        return None
    numbers = [len(scores) for scores in results.values()]
    said = ", ".join(f"{name} {number}" for name, number in zip(results, numbers, strict=True))
    head = (
        f"# {suite}\n\nWritten from stored scores (`fimsde bench {suite} --summary --out benchmarks/results`). What "
        f"is measured: [Suites against specialists](../benchmark.md#suites-against-specialists). Data sets: {said}.\n"
    )
    return "\n".join([head, *map(str, tables(suite, results))])


def remarks(folder: Path) -> list[str]:
    """One sentence for every method with scores that the present code did not make."""
    return [line for s in SUITES for line in other_code(s, stored(s, named(METHODS), out=folder, seed=REPORT_SEED))]
