"""Tables of the verdicts, from stored outcomes: what must be said and is, false alarms, and what is named."""

from collections.abc import Callable

from fimsde.benchmark.verdicts.run import run
from fimsde.benchmark.verdicts.tables import Found, by_source, false_alarms, named, required
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
    "verdicts-required": _table(required),
    "verdicts-false-alarms": _table(false_alarms),
    "verdicts-sources": _table(by_source),
    "verdicts-named": _table(named),
}
NUMBERS = {"verdicts-sets": sets}
