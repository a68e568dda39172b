"""Tables of the verdicts, from stored outcomes: false alarms, and how often each way to be wrong is named."""

from collections.abc import Callable

from fimsde.benchmark.verdicts.run import run
from fimsde.benchmark.verdicts.tables import Found, by_source, false_alarms, named
from pages.stored import Stored

SEED = 0  # of reports
NOTHING = "Nothing is stored yet."


def _found(stored: Stored) -> Found:
    return list(run(stored.folder, seed=SEED, compute=False))


def _table(part: Callable[[Found], str]) -> Callable[[Stored], str]:
    def table(stored: Stored) -> str:
        found = _found(stored)
        return part(found) if found else NOTHING

    return table


def sets(stored: Stored) -> str:
    """Data sets in all."""
    return str(sum(len(outcomes) for _, outcomes in _found(stored)))


TABLES = {
    "verdicts-false-alarms": _table(false_alarms),
    "verdicts-sources": _table(by_source),
    "verdicts-named": _table(named),
}
NUMBERS = {"verdicts-sets": sets}
