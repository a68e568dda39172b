"""The tables of `fimsde bench verdicts`, as Markdown: what must be said and is, false alarms, and what is named."""

from collections import Counter
from collections.abc import Sequence

from fimsde.benchmark.verdicts.right import ACCOUNTED, CELLS, SOURCES, source_of
from fimsde.benchmark.verdicts.run import Kind, Outcome

# nats by which the truth predicts better, per step and component or in all: the estimate is off, and an alarm is right;
# by hand: a diffusion off by a seventh costs as much per step, and odds of e^10 are known to the data as well
OFF, OFF_IN_ALL = 0.02, 10.0
# of steps at which the true equation has no noise: a filter has no law there, and the truth is no measure; by hand
QUIET = 0.05
# nats by which no estimate is better than the truth by chance: half of the chi-square of a hundred coefficients is 50,
# give or take 7. The true equation bends too strongly within a gap for the filter, and is no measure either; by hand
FAILS = 100.0
NEAR = 0.25  # share by which the noise that is said may differ from that of the data; by hand

Found = Sequence[tuple[Kind, list[Outcome]]]


def table(found: Found) -> str:
    """All tables, one after the other."""
    return "\n\n".join((required(found), false_alarms(found), by_source(found), named(found)))


def required(found: Found) -> str:
    """What must be said of which data, and in how many data sets it is: wrong ones at the largest strength."""
    lines = ["| data | must be said | is said |", "|---|---|--:|"]
    clean = [o for kind, some in found if kind.cell is not None and not kind.cell.noisy for o in some if _fits(o)]
    if clean:
        lines.append(f"| right class, clean | good | {sum(not _is_alarm(o) for o in clean)} of {len(clean)} |")
    for cell in ACCOUNTED:
        noisy = [o for kind, some in found if kind.cell == cell for o in some if _fits(o)]
        if noisy:
            known = [o for o in noisy if o.status == "good" and abs((o.noise or 0.0) - 1) < NEAR]
            unseen = [o for o in noisy if o.status == "good" and o.noise == 0.0]  # and the estimate fits without it
            good = f"{len(known) + len(unseen)} of {len(noisy)}, the noise said in {len(known)}"
            lines.append(f"| right class, {cell} | good, with noise that can be seen accounted for | {good} |")
    for kind, outcomes in found:
        row = kind.row
        if row is not None and kind.strength == row.strengths[-1]:
            name = row.name if row.is_record else f"{row.name}: {kind.strength:g} {row.unit}"
            said = ", then ".join(outcomes[0].causes) if row.is_record else _times(outcomes, row.verdicts)
            lines.append(f"| {name} | {' or '.join(row.verdicts)} | {said} |")
    return "\n".join(lines)


def false_alarms(found: Found) -> str:
    """Lights that are not good on data of the right class: where the estimate fits as the truth does, and elsewhere."""
    lines = [
        "| right class | data sets | estimate fits | false alarms | by verdict | wells or groups: open | "
        "estimate off: light not good | no law: light not good | CPU s |",
        "|---|--:|--:|--:|---|--:|--:|--:|--:|",
    ]
    cells = [(kind.name, outcomes) for kind, outcomes in found if kind.cell in CELLS]
    for name, outcomes in (*cells, ("all", [o for _, some in cells for o in some])):
        good = [o for o in outcomes if _fits(o)]
        lawless = [o for o in outcomes if _is_lawless(o)]
        off = [o for o in outcomes if not _fits(o) and not _is_lawless(o)]
        lines.append(
            f"| {name} | {len(outcomes)} | {len(good)} | {_alarms(good)} | {_causes(good)} "
            f"| {sum(map(_is_open, good))} | {_of(off)} | {_of(lawless)} | {_cpu(outcomes)} |"
        )
    return "\n".join(lines)


def by_source(found: Found) -> str:
    """The same by where the equation comes from."""
    lines = ["| source | data sets | estimate fits | false alarms | no estimate |", "|---|--:|--:|--:|--:|"]
    outcomes = [o for kind, some in found if kind.cell in CELLS for o in some]
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
        if kind.row is not None and not kind.row.is_record:
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


def _is_lawless(outcome: Outcome) -> bool:
    """Whether the filter of the true equation says nothing about its data."""
    return outcome.status != "none" and (outcome.quiet > QUIET or outcome.nats < -FAILS or outcome.lost is None)


def _fits(outcome: Outcome) -> bool:
    known = outcome.status != "none" and not _is_lawless(outcome)
    return known and (outcome.lost or 0.0) < OFF and outcome.nats < OFF_IN_ALL


def _of(outcomes: Sequence[Outcome]) -> str:
    return f"{sum(o.status != 'good' for o in outcomes)} of {len(outcomes)}"


def _is_alarm(outcome: Outcome) -> bool:
    """A light that is not good, or a correlation: on data of the right class the noise has none.

    Not one that says that data cannot tell wells from groups of paths: they cannot.
    """
    return (outcome.status != "good" and not _is_open(outcome)) or "correlated noise" in outcome.accounted


def _is_open(outcome: Outcome) -> bool:
    """Whether the light is yellow for the single reason that no path goes from one equilibrium to another."""
    return outcome.status == "caution" and outcome.causes == ("paths alike",)


def _alarms(outcomes: Sequence[Outcome]) -> str:
    lost = sum(map(_is_alarm, outcomes))
    return f"{lost} ({lost / max(len(outcomes), 1):.1%})"


def _causes(outcomes: Sequence[Outcome]) -> str:
    told = [(*o.causes, *o.accounted) for o in outcomes if _is_alarm(o)]
    counts = Counter(name for names in told for name in names if name != "measurement noise")
    return ", ".join(f"{name} {num}" for name, num in counts.most_common()) or "none"


def _times(outcomes: Sequence[Outcome], wanted: Sequence[str]) -> str:
    return f"{round(share_named(outcomes, wanted) * len(outcomes))} of {len(outcomes)}"


def share_named(outcomes: Sequence[Outcome], wanted: Sequence[str], *, first: bool = False) -> float:
    """Share of data sets of which one of the causes, or the first of them, has a wanted name.

    What the equation carries already stands after all causes.
    """
    told = [(*o.causes, *o.accounted) for o in outcomes]
    hits = [set(names[:1] if first else names) & set(wanted) for names in told]
    return sum(map(bool, hits)) / max(len(outcomes), 1)


def _cpu(outcomes: Sequence[Outcome]) -> str:
    """Median and largest."""
    times = sorted(o.cpu_seconds for o in outcomes)
    return f"{times[len(times) // 2]:.2f} / {times[-1]:.2f}"
