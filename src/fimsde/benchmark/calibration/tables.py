"""Tables of the calibration."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from fimsde.benchmark.calibration.measure import Measured
from fimsde.benchmark.calibration.run import Row
from fimsde.benchmark.tables import ResultTable

_MEASURES = ("drift", "drift_all", "diffusion", "diffusion_all")
_HEAD = ("data sets", "drift", "drift, whole curves", "diffusion", "diffusion, whole curves")
_FEWEST = 5  # data sets of a cell that is shown


def tables(rows: Sequence[Row]) -> list[ResultTable]:
    """Coverage by source, cell, family and system; ranks and distances; failures and time."""
    good = [row for row in rows if row.measured.failure is None]
    prior = [row for row in good if row.case.source == "prior"]
    found = [_coverage("Coverage of 90 % intervals", "data", good, lambda row: row.case.source)]
    by: list[tuple[str, Callable[[Row], str]]] = [
        ("dimension", lambda row: row.case.name),
        ("observations", lambda row: f"{row.case.size}"),
        ("noise", lambda row: _noise(row)),
        ("gap", lambda row: row.case.gap),
        ("dimension and noise", lambda row: f"{row.case.name}, {_noise(row)}"),
        ("observations and noise", lambda row: f"{row.case.size}, {_noise(row)}"),
        ("gap and noise", lambda row: f"gap {row.case.gap}, {_noise(row)}"),
        ("gap and observations", lambda row: f"gap {row.case.gap}, {row.case.size}"),
    ]
    found += [_coverage(f"Draws of the prior by {name}", name, prior, key) for name, key in by if prior]
    if prior:
        found.append(_by_density(prior))
    for source, what in (("wide", "family"), ("canonical", "system")):
        part = [row for row in good if row.case.source == source]
        if part:
            found.append(_coverage(f"Coverage by {what}", what, part, lambda row: row.case.name))
    return [*found, _uniform(prior or good), _summary(rows)]


def _noise(row: Row) -> str:
    return "noisy" if row.case.noise else "clean"


def _coverage(head: str, name: str, rows: Iterable[Row], key: Callable[[Row], str]) -> ResultTable:
    groups: dict[str, list[Measured]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row.measured)
    lines = []
    for group, found in groups.items():
        if len(found) >= min(_FEWEST, max(len(part) for part in groups.values())):
            shares = [np.array([getattr(m, name) for m in found], float) for name in _MEASURES]
            cells = [f"{100 * s.mean():.0f} ± {100 * s.std() / np.sqrt(len(s)):.0f} %" for s in shares]
            lines.append((group, str(len(found)), *cells))
    return ResultTable(head, (name, *_HEAD), tuple(lines))


def _by_density(rows: Sequence[Row]) -> ResultTable:
    """Places where data are rare, and where they are dense."""
    found = np.array([row.measured.density for row in rows if len(row.measured.density) == 3])  # (sets, 3, 2)
    lines = []
    for k, name in enumerate(("rarest third", "next third", "densest third")):
        if len(found):
            errors = found[:, k].std(axis=0) / np.sqrt(len(found))
            cells = [f"{100 * m:.0f} ± {100 * e:.0f} %" for m, e in zip(found[:, k].mean(axis=0), errors, strict=True)]
            lines.append((name, str(len(found)), *cells))
    columns = ("places", "data sets", "drift", "diffusion")
    return ResultTable("Draws of the prior by density of the data", columns, tuple(lines))


def _uniform(rows: Sequence[Row]) -> ResultTable:
    """Ranks and distances: mean, and how far their distribution is from a uniform one."""
    values: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, rank in (row.measured.ranks or {}).items():
            values[f"rank of the {name}"].append(rank)
        for name, share in (row.measured.tarp or {}).items():
            values[f"distance of the {name} (TARP)"].append(share)
    lines = []
    for name, found in values.items():
        ordered = np.sort(found)
        num = len(ordered)
        distance = float(np.max(np.abs(ordered - (np.arange(num) + 0.5) / num)) + 0.5 / num)
        tails = float(np.mean((ordered < 0.05) | (ordered > 0.95)))
        lines.append(
            (name, str(num), f"{np.mean(found):.2f}", f"{distance:.2f}", f"{1.36 / np.sqrt(num):.2f}", f"{tails:.0%}")
        )
    columns = ("what", "data sets", "mean", "distance from uniform", "of uniform numbers, 95 %", "in both 5 % tails")
    return ResultTable("Ranks of the truth among draws (SBC) and distances (TARP)", columns, tuple(lines))


def _summary(rows: Sequence[Row]) -> ResultTable:
    failed = [row for row in rows if row.measured.failure is not None]
    spent = [row.measured.milliseconds for row in rows if row.measured.milliseconds is not None]
    numbers = ("-", "-") if not spent else (f"{np.median(spent):.0f} ms", f"{np.quantile(spent, 0.95):.0f} ms")
    columns = ("data sets", "without an estimate", "CPU time of draws and a band at 200 places", "95 % quantile")
    return ResultTable("Time and failures", columns, ((str(len(rows)), str(len(failed)), *numbers),))
