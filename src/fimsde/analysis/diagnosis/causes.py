"""One voice: which verdict explains which others. Root causes stand first, what they explain is folded under them."""

from collections.abc import Sequence
from dataclasses import replace

from fimsde.analysis.diagnosis.verdict import Verdict

_FIT = ("white innovations", "normal innovations", "size of the noise", "simulated like observed", "extrapolation")
_TAILS = ("jumps", "heavy tails")
_TIME = ("season", "trend", "change of regime")
# what each verdict explains, if it is not good; the first in this order that is not explained itself is the cause
_MEAN = ("second order", "memory", *_TIME, "paths alike")  # what a wrong drift looks like
_SIZE = (*_TAILS, "volatility", "correlated noise")  # what a wrong diffusion looks like
EXPLAINS: dict[str, tuple[str, ...]] = {
    "resolution": ("outliers", "prediction", "memory", "volatility", *_TAILS, *_TIME, "paths alike", *_FIT),
    "outliers": ("prediction", *_MEAN, *_SIZE, *_FIT),
    "prediction": (*_MEAN, *_SIZE, "sampling interval", *_FIT),
    "season": ("second order", "memory", "volatility", "change of regime", "paths alike", *_TAILS, *_FIT),
    "second order": ("memory", "volatility", "trend", "change of regime", "paths alike", *_TAILS, *_FIT),
    "trend": ("change of regime", "memory", "paths alike", "sampling interval", *_FIT),
    "paths alike": ("memory", "volatility", *_TIME, *_TAILS, *_FIT),
    "change of regime": ("trend", "memory", "volatility", *_TAILS, *_FIT),
    "volatility": (*_TAILS, "memory", "change of regime", "paths alike", *_FIT),
    "jumps": ("heavy tails", "volatility", "memory", *_FIT),
    "heavy tails": _FIT,
    "memory": ("volatility", *_TAILS, "sampling interval", *_FIT),
    "correlated noise": _FIT,
    "size of the noise": ("white innovations", "normal innovations", "simulated like observed", "extrapolation"),
}
_LEAST = 1e-300  # p-values below it are the same


def folded(verdicts: Sequence[Verdict]) -> tuple[Verdict, ...]:
    """Causes first, each followed by what it explains; then what is good, in the order given."""
    by_name = {v.name: v for v in verdicts}
    because = _by_size(by_name)
    for cause, others in _in_order(by_name):
        if cause in because or cause not in by_name or by_name[cause].status == "good":
            continue
        for other in others:
            if other in by_name and by_name[other].status != "good" and other not in because:
                because[other] = cause
    roots = {name: because.get(cause, cause) for name, cause in because.items()}
    marked = [replace(v, because=roots.get(v.name, "")) for v in verdicts]
    doubts = [v for v in marked if v.status != "good" and not v.because]
    out: list[Verdict] = []
    for root in sorted(doubts, key=lambda v: v.status != "bad"):
        out += [root, *(v for v in marked if v.because == root.name)]
    return (*out, *(v for v in marked if v.status == "good"))


def _by_size(by_name: dict[str, Verdict]) -> dict[str, str]:
    """What a diffusion that is off in some places explains: class verdicts with less evidence than it has itself."""
    size = by_name.get("size of the noise")
    if size is None or size.status == "good" or size.p_value is None:
        return {}
    evidence = max(size.p_value, _LEAST)
    found = {}
    for name in (*_MEAN, *_SIZE):
        v = by_name.get(name)
        if v is not None and v.status != "good" and v.p_value is not None:
            same = name in _SIZE and v.p_value <= _LEAST
            if evidence < v.p_value or (same and evidence <= _LEAST):
                found[name] = size.name
    return found


def _in_order(by_name: dict[str, Verdict]) -> list[tuple[str, tuple[str, ...]]]:
    """What explains what; of a trend and a change of regime the one with more evidence comes first."""
    order = list(EXPLAINS.items())
    trend, change = (by_name.get(name) for name in ("trend", "change of regime"))
    if trend is not None and change is not None and (change.p_value or 0.0) < (trend.p_value or 0.0):
        names = [name for name, _ in order]
        i, j = names.index("trend"), names.index("change of regime")
        order[i], order[j] = order[j], order[i]
    return order
