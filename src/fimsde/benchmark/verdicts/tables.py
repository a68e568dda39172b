"""The tables of `fimsde bench verdicts`: false alarms, and how often each way to be wrong is named, as Markdown."""

from collections import Counter
from collections.abc import Sequence

from fimsde.benchmark.verdicts.right import SOURCES, source_of
from fimsde.benchmark.verdicts.run import Kind, Outcome

# nats by which the truth predicts better, per step and component or in all: the estimate is off, and an alarm is right;
# by hand: a diffusion off by a seventh costs as much per step, and odds of e^10 are known to the data as well
OFF, OFF_IN_ALL = 0.02, 10.0
# of steps at which the true equation has no noise: a filter has no law there, and the truth is no measure; by hand
QUIET = 0.05

Found = Sequence[tuple[Kind, list[Outcome]]]


def table(found: Found) -> str:
    """All tables, one after the other."""
    return "\n\n".join((false_alarms(found), by_source(found), named(found)))


def false_alarms(found: Found) -> str:
    """Lights that are not good on data of the right class: where the estimate fits as the truth does, and elsewhere."""
    lines = [
        "| right class | data sets | estimate fits | false alarms | by verdict | estimate off: light not good | "
        "noise vanishes: light not good | CPU s |",
        "|---|--:|--:|--:|---|--:|--:|--:|",
    ]
    cells = [(kind.name, outcomes) for kind, outcomes in found if kind.row is None]
    for name, outcomes in (*cells, ("all", [o for _, some in cells for o in some])):
        good = [o for o in outcomes if _fits(o)]
        quiet = [o for o in outcomes if _is_quiet(o)]
        off = [o for o in outcomes if not _fits(o) and not _is_quiet(o)]
        lines.append(
            f"| {name} | {len(outcomes)} | {len(good)} | {_alarms(good)} | {_causes(good)} | {_of(off)} | {_of(quiet)} "
            f"| {_cpu(outcomes)} |"
        )
    return "\n".join(lines)


def by_source(found: Found) -> str:
    """The same by where the equation comes from."""
    lines = ["| source | data sets | estimate fits | false alarms | no estimate |", "|---|--:|--:|--:|--:|"]
    outcomes = [o for kind, some in found if kind.row is None for o in some]
    for source in SOURCES:
        own = [o for o in outcomes if source_of(o.seed) == source]
        good = [o for o in own if _fits(o)]
        lines.append(
            f"| {source} | {len(own)} | {len(good)} | {_alarms(good)} | {sum(o.status == 'none' for o in own)} |"
        )
    return "\n".join(lines)


def named(found: Found) -> str:
    """How often the cause is named, at three strengths; the last one is that of the specification."""
    rows: dict[str, dict[float, list[Outcome]]] = {}
    known = {kind.row.name: kind.row for kind, _ in found if kind.row is not None}
    for kind, outcomes in found:
        if kind.row is not None:
            rows.setdefault(kind.row.name, {})[kind.strength] = outcomes
    lines = [
        "| wrong class | named by | strengths | named | first of all causes | CPU s |",
        "|---|---|---|--:|--:|--:|",
    ]
    for name, strengths in rows.items():
        row = known[name]
        there = [s for s in row.strengths if s in strengths]
        of = " / ".join(f"{s:g}" for s in there) + f" {row.unit}"
        shares = " / ".join(f"{share_named(strengths[s], row.verdicts):.0%}" for s in there)
        first = " / ".join(f"{share_named(strengths[s], row.verdicts, first=True):.0%}" for s in there)
        lines.append(
            f"| {name} | {' or '.join(row.verdicts)} | {of} | {shares} | {first} | {_cpu(strengths[there[-1]])} |"
        )
    return "\n".join(lines)


def _is_quiet(outcome: Outcome) -> bool:
    return outcome.quiet > QUIET


def _fits(outcome: Outcome) -> bool:
    known = outcome.status != "none" and outcome.lost is not None and not _is_quiet(outcome)
    return known and (outcome.lost or 0.0) < OFF and outcome.nats < OFF_IN_ALL


def _of(outcomes: Sequence[Outcome]) -> str:
    return f"{sum(o.status != 'good' for o in outcomes)} of {len(outcomes)}"


def _alarms(outcomes: Sequence[Outcome]) -> str:
    lost = sum(o.status != "good" for o in outcomes)
    return f"{lost} ({lost / max(len(outcomes), 1):.1%})"


def _causes(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(name for o in outcomes for name in o.causes)
    return ", ".join(f"{name} {num}" for name, num in counts.most_common()) or "none"


def share_named(outcomes: Sequence[Outcome], wanted: Sequence[str], *, first: bool = False) -> float:
    """Share of data sets of which one of the causes, or the first of them, has a wanted name."""
    hits = [set(o.causes[:1] if first else o.causes) & set(wanted) for o in outcomes]
    return sum(map(bool, hits)) / max(len(outcomes), 1)


def _cpu(outcomes: Sequence[Outcome]) -> str:
    times = sorted(o.cpu_seconds for o in outcomes)
    return f"{times[len(times) // 2]:.2f}"
