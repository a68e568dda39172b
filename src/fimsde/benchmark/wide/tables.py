"""Tables of regrets: per family and column, with the worst family and the mean over families below."""

from collections.abc import Iterable, Sequence

from fimsde.benchmark.tables import ResultTable, three_digits
from fimsde.benchmark.wide.regret import MEASURES, Measure, Regret, geometric_mean, over_families, regrets
from fimsde.benchmark.wide.store import Stored
from fimsde.benchmark.wide.tasks import COLUMNS, Column
from fimsde.systems.wide.families import FAMILIES

_TITLES = {family.name: family.title for family in FAMILIES}
_ORDER = [family.name for family in FAMILIES]
_WORDS: dict[Measure, str] = {
    "drift": "drift where the data are",
    "diffusion": "diffusion where the data are",
    "drift_outside": "drift one standard deviation outside the data",
    "diffusion_outside": "diffusion one standard deviation outside the data",
}


def regret_tables(stored: Sequence[Stored], method: str) -> list[ResultTable]:
    """One table for each measure: families by columns, the geometric mean over families and the worst family."""
    found = regrets(stored, method)
    return [table for measure in MEASURES if (table := _table(found, method, measure))]


def _table(found: Sequence[Regret], method: str, measure: Measure) -> ResultTable | None:
    part = {(r.family, r.column): r for r in found if r.measure == measure}
    columns = [column for column in COLUMNS if any(c == column for _, c in part)]
    families = sorted({family for family, _ in part}, key=_ORDER.index)
    if not part:
        return None
    rows = [(_TITLES[family], *(_regret_text(part.get((family, column))) for column in columns)) for family in families]
    both = [over_families(found, column, measure) for column in columns]
    rows.append(("**geometric mean**", *(f"**{three_digits(b[0])}**" if b else "" for b in both)))
    rows.append(("**worst family**", *(f"**{three_digits(b[1].value)}**" if b else "" for b in both)))
    head = f"Regret of {method}, {_WORDS[measure]}: its error over the best specialist's"
    return ResultTable(head, ("family", *map(str, columns)), tuple(rows))


def _regret_text(regret: Regret | None) -> str:
    if regret is None:
        return ""
    return f"{three_digits(regret.value)} {regret.best}" + (f" [{regret.draws}]" if regret.draws < regret.of else "")


def error_tables(stored: Iterable[Stored]) -> list[ResultTable]:
    """The geometric means of the errors of all methods themselves, one table per family and measure of the inside."""
    files: dict[str, list[Stored]] = {}
    for file in stored:
        files.setdefault(file.family, []).append(file)
    return [
        ResultTable(
            f"{_TITLES[family]}: {_WORDS[measure]}, geometric mean of relative errors",
            ("method", *map(str, COLUMNS), "draws"),
            tuple(
                (f.title, *(_error_text(f, column, measure) for column in COLUMNS), _draws(f)) for f in files[family]
            ),
        )
        for family in sorted(files, key=_ORDER.index)
        for measure in MEASURES[:2]
    ]


def _error_text(file: Stored, column: Column, measure: Measure) -> str:
    errors = [getattr(r.errors, measure) for (_, c), (r, _) in file.rows.items() if c == column]
    mean = geometric_mean(errors) if errors else None
    failed = sum(error is None for error in errors)
    return "" if mean is None else three_digits(mean) + (f"<sup>{failed}</sup>" if failed else "")


def _draws(file: Stored) -> str:
    return str(len({draw for draw, _ in file.rows}))
