"""Tables and numbers of the page on calibration, from stored rows and scripts."""

from collections.abc import Callable

import numpy as np

from fimsde.benchmark.calibration.run import Row, read_rows
from fimsde.benchmark.calibration.tables import tables
from pages.formats import markdown
from pages.stored import Stored

# of reports; 0 had been seen when the method was made, 7 and 8 are of earlier draws, 9 of a table that was not fitted
SEED = 10
NOTHING = "Nothing is stored yet."


def _rows(stored: Stored) -> list[Row]:
    return list(read_rows(stored.folder, SEED).values())


def _named(start: str) -> Callable[[Stored], str]:
    """All tables of the benchmark whose head begins so, one after the other."""

    def table(stored: Stored) -> str:
        rows = _rows(stored)
        found = [one for one in tables(rows) if one.head.startswith(start)] if rows else []
        if not found:
            return NOTHING
        parts = [markdown(list(one.columns), [list(row) for row in one.rows]) for one in found]
        return "\n\n".join(f"{one.head}.\n\n{part}" for one, part in zip(found, parts, strict=True))

    return table


def numbers(stored: Stored) -> str:
    """Exit times, entropy production and SFI's intervals."""
    if not (stored.folder / "scripts" / "posterior_numbers.json").exists():
        return NOTHING
    found = stored.script("posterior_numbers")
    rows = []
    if "exit-times" in found:
        one = found["exit-times"]
        rows.append(["mean exit time, double well", f"{one['data sets']}", f"{one['coverage']:.0%}", ""])
    if "entropy" in found:
        one = found["entropy"]
        rows.append(["entropy production, driven trap", f"{one['data sets']}", f"{one['coverage']:.0%}", ""])
    for name, one in found.get("sfi", {}).items():
        if isinstance(one, dict):
            rows.append([f"drift, {name}", f"{one['data sets']}", f"{one['ours']:.0%}", f"{one['sfi']:.0%}"])
    return markdown(["", "data sets", "fimsde", "SFI, `predict_ci`"], rows)


def share(stored: Stored, source: str, which: str) -> str:
    """Coverage over all data sets of a source, in percent."""
    found = [row.measured for row in _rows(stored) if row.case.source == source and row.measured.failure is None]
    return f"{100 * np.mean([getattr(m, which) for m in found]):.0f} %" if found else "not measured"


def count(stored: Stored, source: str) -> str:
    """Data sets of a source with an estimate."""
    return str(sum(row.case.source == source and row.measured.failure is None for row in _rows(stored)))


TABLES = {
    "calibration-all": _named("Coverage of 90 %"),
    "calibration-prior": _named("Draws of the prior"),
    "calibration-systems": _named("Coverage by"),
    "calibration-ranks": _named("Ranks"),
    "calibration-time": _named("Time"),
    "posterior-numbers": numbers,
}
NUMBERS = {"calibration": share, "calibration-sets": count}
