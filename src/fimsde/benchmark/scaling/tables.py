"""Tables of the arms: where they are, sizes against data at equal steps, degrees, equal compute, and power laws.

Differences are paired: both arms are judged on the same held-out equations, so their standard error is that of the
difference over held-out batches.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Any

import numpy as np

from fimsde.benchmark.scaling.arms import BOUND, CONSTANT, DATA, DEGREE, OTHER_BOUND, SIZES, Arm
from fimsde.benchmark.scaling.cost import step_operations
from fimsde.benchmark.scaling.curves import Curve, Point
from fimsde.benchmark.scaling.powerlaw import LEVEL, Interval, fit_exponent, interval, slope_at_end
from fimsde.benchmark.tables import ResultTable, to_markdown
from fimsde.shapes import Array, Float64

MEASURES = {  # of a judgement, as tables name them
    "held_loss": "held loss",
    "typical_loss": "typical loss",
    "drift": "log10 error, drift",
    "diffusion": "log10 error, diffusion",
    "easy_drift": "easy quarter, drift",
    "easy_diffusion": "easy quarter, diffusion",
}
FAR = {"far_drift": "log10 error, drift", "far_diffusion": "log10 error, diffusion"}
_FEWEST = 5  # judgements for a fit
Curves = Mapping[str, Curve]


def tables(arms: Sequence[Arm], curves: Curves) -> list[ResultTable]:
    """All tables for which there are curves."""
    makers: tuple[Callable[[Sequence[Arm], Curves], ResultTable | None], ...] = (
        progress,
        far_away,
        sizes_and_data,
        steps_between,
        degrees,
        schedules,
        bounds,
        equal_compute,
        power_laws,
    )
    return [table for make in makers if (table := make(arms, curves)) is not None]


def text_tables(arms: Sequence[Arm], curves: Curves) -> str:
    """All tables in Markdown."""
    return "\n".join(to_markdown(table) for table in tables(arms, curves))


def as_json(arms: Sequence[Arm], curves: Curves) -> list[dict[str, Any]]:
    """The last judgement of every arm, and the intervals of its power law."""
    found = []
    for arm in arms:
        if arm.name in curves and (judged := curves[arm.name].judged):
            last = judged[-1]
            numbers = {name: summary(last, name)[0] for name in MEASURES if values(last, name) is not None}
            laws = {k: vars(v) for k, v in exponents(curves[arm.name]).items()}
            where = {"step": last.step, "equations": last.equations, "cpu_seconds": last.cpu_seconds}
            found.append({"arm": arm.name, "parameters": curves[arm.name].parameters, **where, **numbers, "laws": laws})
    return found


def progress(arms: Sequence[Arm], curves: Curves) -> ResultTable | None:
    """Where every arm is."""
    rows = []
    for arm in arms:
        if arm.name in curves and (judged := curves[arm.name].judged):
            last = judged[-1]
            speed = ""
            if arm.size != "primed":
                speed = f"{step_operations(arm.config) * last.step / last.cpu_seconds / 1e9:.0f}"
            counts = (str(curves[arm.name].parameters), str(last.step), str(last.equations), f"{last.cpu_seconds:.0f}")
            rows.append((arm.name, *counts, speed, *(text(last, name) for name in MEASURES)))
    heads = ("arm", "weights", "steps", "equations read", "CPU-seconds", "10⁹ operations/s", *MEASURES.values())
    return ResultTable("Arms, as far as they are trained (mean ± standard error)", heads, tuple(rows)) if rows else None


def far_away(arms: Sequence[Arm], curves: Curves) -> ResultTable | None:
    """Errors at locations that are not near the data."""
    rows = []
    for arm in arms:
        if arm.name in curves and (judged := curves[arm.name].judged):
            rows.append((arm.name, str(judged[-1].step), *(text(judged[-1], name) for name in FAR)))
    return ResultTable("Far from the data", ("arm", "steps", *FAR.values()), tuple(rows)) if rows else None


def sizes_and_data(arms: Sequence[Arm], curves: Curves) -> ResultTable | None:
    """Sizes against numbers of equations, at equal steps: the last that all shown arms have."""
    shown = [arm for arm in arms if not arm.change and arm.size in SIZES and arm.name in curves]
    step = _common_step([curves[arm.name] for arm in shown])
    if len(shown) < 2 or step is None:
        return None
    at = {(arm.size, arm.data): _at_step(curves[arm.name], step) for arm in shown}
    rows = [
        (f"{size}, {title}", *(text(at[size, data], name) if (size, data) in at else "" for data in DATA))
        for name, title in MEASURES.items()
        for size in sorted(SIZES)
    ]
    return ResultTable(f"Sizes and data, after {step} steps each", ("weights", *_data_heads()), tuple(rows))


def steps_between(arms: Sequence[Arm], curves: Curves) -> ResultTable | None:
    """What the next size, and more equations, change: paired differences at equal steps."""
    known = {(a.size, a.data): curves[a.name] for a in arms if not a.change and a.name in curves}
    order = sorted(SIZES)
    pairs = [((small, "streaming"), (large, "streaming")) for small, large in pairwise(order)]
    pairs += [((size, few), (size, more)) for size in order for few, more in pairwise(sorted(DATA, key=_amount))]
    pairs += [((size, "3000"), (size, "streaming")) for size in order]
    rows = [_difference_row(known[a], known[b], "–".join(a), "–".join(b)) for a, b in pairs if {a, b} <= set(known)]
    found = [row for row in rows if row is not None]
    heads = ("from", "to", "steps", *MEASURES.values())
    return ResultTable("Paired differences at equal steps (below zero: better)", heads, tuple(found)) if found else None


def degrees(arms: Sequence[Arm], curves: Curves) -> ResultTable | None:
    """Degree 3 against 4, at the same size, data and steps; held-out equations have degree 3."""
    head = "Prior of degree 3 against 4, paired, on held-out equations of degree 3 (below zero: 4 is better)"
    return _of_change(DEGREE, head, arms, curves)


def schedules(arms: Sequence[Arm], curves: Curves) -> ResultTable | None:
    """The falling rate against a constant one, at the same size, data and steps."""
    head = "A learning rate that falls against a constant one, paired (below zero: constant is better)"
    return _of_change(CONSTANT, head, arms, curves)


def bounds(arms: Sequence[Arm], curves: Curves) -> ResultTable | None:
    """Gradients of locations held at 2 against 5, at the same size, data and steps, both at a constant rate."""
    head = f"Gradients of a location held at 2 against {OTHER_BOUND:g}, paired (below zero: {OTHER_BOUND:g} is better)"
    return _of_change(BOUND, head, arms, curves, CONSTANT)


def equal_compute(arms: Sequence[Arm], curves: Curves) -> ResultTable | None:
    """Streaming arms and the primed one after equally many CPU-seconds: as many as the one that has fewest."""
    plain = [a for a in arms if not a.change and a.name in curves]
    shown = [a for a in plain if a.data == "streaming" or a.size == "primed"]
    if not any(a.size == "primed" for a in shown) or len(shown) < 2:
        return None
    seconds = min(curves[arm.name].judged[-1].cpu_seconds for arm in shown)
    rows = []
    for arm in shown:
        before = [point for point in curves[arm.name].judged if point.cpu_seconds <= seconds]
        if before:
            cells = (f"{before[-1].cpu_seconds:.0f}", str(before[-1].step))
            rows.append((arm.name, *cells, *(text(before[-1], name) for name in ("drift", "diffusion"))))
        else:
            rows.append((arm.name, "", "", "", ""))
    heads = ("arm", "CPU-seconds", "steps", MEASURES["drift"], MEASURES["diffusion"])
    head = f"Equal compute: the last judgement within {seconds:.0f} CPU-seconds of training"
    return ResultTable(head, heads, tuple(rows))


def power_laws(arms: Sequence[Arm], curves: Curves) -> ResultTable | None:
    """Exponents along each curve, and what the next doubling of equations would change."""
    rows = []
    for arm in arms:
        if arm.name in curves and (laws := exponents(curves[arm.name])):
            cells = tuple(str(laws[name]) if name in laws else "" for name in ("drift", "diffusion", "doubling"))
            rows.append((arm.name, str(len(curves[arm.name].judged)), *cells))
    heads = ("arm", "points", "exponent, drift error", "exponent, diffusion error", "next doubling, held loss")
    head = f"Power laws in the equations read, with intervals of {100 * LEVEL:.0f} %"
    return ResultTable(head, heads, tuple(rows)) if rows else None


def exponents(curve: Curve) -> dict[str, Interval]:
    """Exponents of the errors, and the change of the held loss at the next doubling; empty for few points.

    The first half of the curve on a logarithmic scale, with the warm-up, is left out.
    """
    points = _second_half(curve.judged)
    if len(points) < _FEWEST:
        return {}
    x = np.array([float(point.equations) for point in points])
    found = {name: interval(_columns(points, name), lambda y: fit_exponent(x, y)) for name in ("drift", "diffusion")}
    if all(values(point, "held_loss") is not None for point in points):
        found["doubling"] = interval(_columns(points, "held_loss"), lambda y: slope_at_end(x, y))
    return found


def values(point: Point, name: str) -> tuple[float, ...] | None:
    """The numbers of a measure, one per held-out batch."""
    return None if point.judgement is None else getattr(point.judgement, name)


def summary(point: Point, name: str) -> tuple[float, float]:
    """Mean over held-out batches and its standard error."""
    found = values(point, name)
    assert found is not None, f"{name} was not judged"
    return fmean(found), stdev(found) / sqrt(len(found)) if len(found) > 1 else 0.0


def text(point: Point, name: str) -> str:
    """Mean ± standard error; empty where the measure is not of this arm."""
    return "" if values(point, name) is None else _plus_minus(*summary(point, name))


def _plus_minus(mean: float, error: float) -> str:
    digits = 1 if max(abs(mean), error) >= 10 else 3
    return f"{mean:.{digits}f} ± {error:.{digits}f}".replace("-", "−")


def _of_change(change: str, head: str, arms: Sequence[Arm], curves: Curves, earlier: str = "") -> ResultTable | None:
    """The arm with a change against that without it, or with an earlier one."""
    after = next((a for a in arms if a.change == change and a.name in curves), None)
    alike = [a for a in arms if after and a.change == earlier and (a.size, a.data) == (after.size, after.data)]
    before = next(iter(alike), None)
    if after is None or before is None or before.name not in curves:
        return None
    row = _difference_row(curves[before.name], curves[after.name], before.name, after.name)
    return None if row is None else ResultTable(head, ("from", "to", "steps", *MEASURES.values()), (row,))


def _difference_row(a: Curve, b: Curve, from_: str, to: str) -> tuple[str, ...] | None:
    step = _common_step([a, b])
    if step is None:
        return None
    cells = [_difference(_at_step(a, step), _at_step(b, step), name) for name in MEASURES]
    return (from_, to, str(step), *cells)


def _difference(a: Point, b: Point, name: str) -> str:
    first, second = values(a, name), values(b, name)
    if first is None or second is None:
        return ""
    pairs = zip(first, second, strict=False)  # of earlier curves fewer batches were judged: the first ones
    found = [after - before for before, after in pairs]
    return _plus_minus(fmean(found), stdev(found) / sqrt(len(found)))


def _common_step(curves: Sequence[Curve]) -> int | None:
    """The last step at which all curves were judged."""
    if not curves:
        return None
    common = set.intersection(*({point.step for point in curve.judged} for curve in curves))
    return max(common, default=None)


def _at_step(curve: Curve, step: int) -> Point:
    return next(point for point in curve.judged if point.step == step)


def _second_half(points: Sequence[Point]) -> Sequence[Point]:
    if not points:
        return points
    middle = sqrt(points[0].step * points[-1].step)
    return [point for point in points if point.step >= middle]


def _columns(points: Sequence[Point], name: str) -> Float64[Array, "points batches"]:
    rows = [values(point, name) or () for point in points]
    return np.array([row[: min(map(len, rows))] for row in rows])  # of earlier curves fewer batches were judged


def _amount(data: str) -> float:
    return inf if data == "streaming" else float(data)


def _data_heads() -> tuple[str, ...]:
    return tuple(data if data == "streaming" else f"{int(data):,} equations".replace(",", " ") for data in DATA)
