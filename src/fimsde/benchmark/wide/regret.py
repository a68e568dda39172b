"""Regret: how much larger our errors are than those of the specialist that is best in a family and column.

    regret = geometric mean over draws of our errors / the smallest such mean of a specialist

Means are over the same draws for both; specialists that were run on some draws only are compared on these. The best
method data set by data set would be luck in hindsight: no estimator can reach it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from fimsde.benchmark.wide.store import Stored
from fimsde.benchmark.wide.tasks import Column

Measure = Literal["drift", "diffusion", "drift_outside", "diffusion_outside"]
MEASURES: tuple[Measure, ...] = get_args(Measure)
OURS = ("evidence", "evidence-unknown-origin", "ours", "ours-origin", "ours-finetuned", "fim")  # others: specialists
_LEAST = 1e-12  # an error below this is none: rounding


@dataclass(frozen=True)
class Regret:
    """Our errors beside the best specialist's in a family and column.

    Attributes:
        method: Whose regret.
        family: Name of the family.
        column: Noise, gap and length.
        measure: Which error.
        error: Geometric mean of our errors over the draws of `draws`.
        best: The specialist with the smallest geometric mean.
        best_error: Its mean.
        draws: Number of draws on which both were run.
        of: Number of draws on which we were run.
    """

    method: str
    family: str
    column: Column
    measure: Measure
    error: float
    best: str
    best_error: float
    draws: int
    of: int

    @property
    def value(self) -> float:
        """Above one: the specialist is better."""
        return self.error / self.best_error


def is_ours(method: str) -> bool:
    """Whether a method is ours: its regret is asked for, and it is no specialist."""
    return method in OURS or method.startswith("fim-")


def regrets(stored: Iterable[Stored], method: str = "evidence") -> list[Regret]:
    """All regrets of a method, wherever it and at least one specialist were measured."""
    by_family: dict[str, list[Stored]] = {}
    for file in stored:
        by_family.setdefault(file.family, []).append(file)
    found = []
    for family, files in by_family.items():
        mine = next((file for file in files if file.method == method), None)
        others = [file for file in files if not is_ours(file.method)]
        columns = dict.fromkeys(column for _, column in (mine.rows if mine else ()))
        for column in columns:
            for measure in MEASURES:
                regret = _regret(family, column, measure, mine, others) if mine else None
                found += [regret] if regret else []
    return found


def _regret(family: str, column: Column, measure: Measure, mine: Stored, others: Sequence[Stored]) -> Regret | None:
    ours = _errors(mine, column, measure)
    best: Regret | None = None
    for other in others:
        theirs = _errors(other, column, measure)
        draws = sorted(ours.keys() & theirs.keys())
        if not draws:
            continue
        own, own_best = (geometric_mean([errors[d] for d in draws]) for errors in (ours, theirs))
        if own is None or own_best is None:
            continue
        candidate = Regret(mine.method, family, column, measure, own, other.method, own_best, len(draws), len(ours))
        if best is None or candidate.value > best.value:
            best = candidate
    return best


def _errors(file: Stored, column: Column, measure: Measure) -> dict[int, float | None]:
    return {d: getattr(result.errors, measure) for (d, c), (result, _) in file.rows.items() if c == column}


def geometric_mean(errors: Sequence[float | None]) -> float | None:
    """exp(mean log error); a fit without a finite error counts as the worst of the others, and as one at least.

    One is the error of the answer "zero everywhere". None if no fit has an error: then none is defined.
    """
    known = [error for error in errors if error is not None]
    if not known:
        return None
    failed = max(1.0, *known)
    values = [failed if error is None else max(error, _LEAST) for error in errors]
    return float(np.exp(np.mean(np.log(values))))


def over_families(found: Iterable[Regret], column: Column, measure: Measure) -> tuple[float, Regret] | None:
    """The geometric mean over families in a column, and the family of the largest regret."""
    part = [regret for regret in found if regret.column == column and regret.measure == measure]
    if not part:
        return None
    mean = float(np.exp(np.mean([np.log(regret.value) for regret in part])))
    return mean, max(part, key=lambda regret: regret.value)
