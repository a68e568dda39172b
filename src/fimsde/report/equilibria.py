"""Equilibria, cycles and times in words: what the third line of the answer says about the drift."""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from fimsde.analysis.draws import Interval
from fimsde.analysis.equation import Equation
from fimsde.analysis.fixed_points import FixedPoint, place
from fimsde.analysis.formula import plain_number
from fimsde.data.summary import in_words
from fimsde.report.findings import Findings, relaxation_time, slowest_point
from fimsde.shapes import Array, Float64

# probability from which an equilibrium is told, or called stable, without a word: that of the intervals
_SURE = 0.9
_DIGITS = (3, 4, 5, 6)  # of the ends of an interval: as few of these as tell them apart
_MOST_POINTS = 4  # equilibria that are listed; by hand: the length of a line or two


def dynamics(found: Findings, names: tuple[str, ...]) -> Iterator[str]:
    """Equilibria or cycle, and times."""
    if isinstance(found.equation, Equation):
        seen = [bool(own.any()) for own in found.equation.drift_terms.coefficients]
        if not all(seen):  # of an equation without a drift there is no equilibrium to tell
            of = f" of {' and '.join(n for n, s in zip(names, seen, strict=True) if not s)}" if any(seen) else ""
            yield f"no drift{of} could be seen, so equilibria and times cannot be told"
            return
    if isinstance(points := found.points, str):
        yield points
        return
    unit = in_words(found.result.time_unit)
    near = [p for p in points if p.inside]
    if (cycle := found.cycle) is not None:
        where = _at(found, names, [cycle.around])
        period = f"{plain_number(cycle.period, 3)} {unit}"
        yield f"a limit cycle of period {period} around an unstable equilibrium at {where}"
        return
    between = _between(points, near)
    yield _equilibria(found, names, near, between) + _beyond(points)
    yield _of_formula(found, names, [*near, *between])
    if (time := relaxation_time(points)) is not None:
        yield f"relaxation time {_time(points, time, unit)}"
    elif has_open_time(near):
        yield "relaxation time unknown, because the slope of the drift there may be zero"
    turning = [p for p in near if p.kind == "stable focus" and _is_seen_to_turn(p)]
    if turning:
        turn = 2 * math.pi / float(np.abs(turning[0].eigenvalues.imag).max())
        yield f"oscillations of period {plain_number(turn, 3)} {unit}"


def _between(points: Sequence[FixedPoint], near: list[FixedPoint]) -> list[FixedPoint]:
    """On a line, surely existing ones between two that are told, where no data are: paths cross, and do not stay."""
    if len(near) < 2 or len(near[0].x) > 1:
        return []
    low, high = min(p.x[0] for p in near), max(p.x[0] for p in near)
    return [p for p in points if not p.inside and low < p.x[0] < high and _exists(p) >= _SURE]


def _beyond(points: Sequence[FixedPoint]) -> str:
    """In the plane and in space, how many surely exist between the ends of the data where none are nearby."""
    more = [p for p in points if not p.inside and len(p.x) > 1 and _exists(p) >= _SURE]
    return f" (and {_word(len(more))} more where no data are nearby)" if more else ""


def _equilibria(
    found: Findings, names: tuple[str, ...], near: list[FixedPoint], between: Sequence[FixedPoint] = ()
) -> str:
    """Those that the posterior has, then those that it may have, with their probabilities."""
    if not near:
        return "no equilibrium where data are"
    if len(near) > _MOST_POINTS:
        return f"{len(near)} equilibria, {sum(p.is_stable for p in near)} of them stable"
    sure = [p for p in near if _exists(p) >= _SURE]
    open_ones = sorted((p for p in near if _exists(p) < _SURE), key=lambda p: not p.is_stable)  # as they are listed
    shown = _listed(found, names, sure)
    if open_ones:
        shares = " and ".join(f"{_exists(p):.0%}" for p in open_ones)
        chance = f"{'probabilities' if len(open_ones) > 1 else 'probability'} {shares}"
        shown += [f"perhaps {', '.join(_listed(found, names, open_ones))} ({chance})"]
    if between:
        noun = _unstable(between[0], True) if len(between) == 1 else f"{_word(len(between))} more"
        shown += [f"between them {noun} at {_at(found, names, between)}, where no data are"]
    return ", ".join(shown)


def _of_formula(found: Findings, names: tuple[str, ...], told: Sequence[FixedPoint]) -> str:
    """In what the formula of the first line differs where data are; empty if its equilibria are those told."""
    if (both := found.agreement) is None:
        return ""
    more = [
        p
        for k, p in enumerate(both.formula_points)
        if p.inside and k not in both.partners and not any(_may_be(p, own) for own in told)
    ]
    sure = [(p, k) for p, k in zip(both.points, both.partners, strict=True) if p.inside and _exists(p) >= _SURE]
    less = [p for p, k in sure if k is None]
    if not (more or less) or len(both.formula_points) > _MOST_POINTS:
        return ""
    here = f"none at {_at(found, names, less, plain=True)}" if less else ""
    there = ", ".join(_listed(found, names, more))
    if more and less:
        return f"the formula by itself has {there}, and {here}"
    return f"the formula by itself has {f'also {there}' if more else here}"


def _may_be(point: FixedPoint, own: FixedPoint) -> bool:
    """Whether an equilibrium of the formula lies in the interval of one of the same stability."""
    if own.error is None or own.is_stable != point.is_stable:
        return False
    low, high = (np.atleast_1d(np.asarray(end, np.float64)) for end in (own.error.x.low, own.error.x.high))
    return bool(np.all((low <= point.x) & (point.x <= high)))


def _listed(found: Findings, names: tuple[str, ...], points: list[FixedPoint]) -> list[str]:
    """Kinds and places, the stable ones first."""
    stable, others = [p for p in points if p.is_stable], [p for p in points if not p.is_stable]
    shown = []
    if stable:
        noun = _stable(stable[0]) if len(stable) == 1 else f"{_word(len(stable))} stable equilibria"
        shown.append(f"{noun} at {_at(found, names, stable)}")
    shown += [f"{_unstable(p, bool(stable))} at {_at(found, names, [p])}" for p in others]
    return shown


def _exists(point: FixedPoint) -> float:
    """The share of the posterior that has an equilibrium there."""
    return 1.0 if point.error is None else point.error.probability


def _is_seen_to_turn(point: FixedPoint) -> bool:
    """Whether a radian of the turn takes less time than the way back: a slower turn is over before it is seen."""
    slowest = point.eigenvalues[np.argmax(point.eigenvalues.real)]
    return bool(abs(slowest.imag) > abs(slowest.real))


def _stable(point: FixedPoint) -> str:
    share = 1.0 if point.error is None else point.error.stable
    return _perhaps_stable(share) if share < _SURE else "a stable equilibrium"


def _unstable(point: FixedPoint, is_next: bool) -> str:
    """What an equilibrium that is not stable is called, beside stable ones or by itself."""
    if point.error is not None and point.error.stable > 1 - _SURE:
        return _perhaps_stable(point.error.stable)
    if point.kind == "saddle":
        return "a saddle"
    if not point.kind.startswith("unstable"):
        return "an unclear one" if is_next else "an unclear equilibrium"
    return "an unstable one" if is_next else "an unstable equilibrium"


def _perhaps_stable(share: float) -> str:
    return f"an equilibrium, stable with probability {share:.0%},"


def has_open_time(near: Sequence[FixedPoint]) -> bool:
    """Whether an equilibrium may be stable, and yet no relaxation time is known."""
    return any(p.is_stable for p in near) and relaxation_time(near) is None


def went_over(found: Findings) -> int | None:
    """How often paths went from near one stable equilibrium to near another; None if there are not two.

    Near is within a quarter of the distance to the next of them, in units of the range of the data: who turns back half
    way has not gone over.
    """
    if isinstance(found.points, str):
        return None
    stable = np.array([p.x for p in found.points if p.inside and p.is_stable and _exists(p) >= _SURE])
    if len(stable) < 2:
        return None
    obs, (low, high) = found.observations, found.observations.box()
    width = high - low
    between = np.linalg.norm((stable[:, None] - stable) / width, axis=2)
    reach = np.where(between > 0, between, np.inf).min(axis=1) / 4
    near = np.stack([np.linalg.norm((obs.values - x) / width, axis=1) for x in stable], axis=1) < reach
    seen, at = near.any(axis=1), near.argmax(axis=1)
    starts = obs.path_starts
    visits = (at[a:b][seen[a:b]] for a, b in pairwise(starts.tolist()))
    return sum(int(np.count_nonzero(np.diff(visited))) for visited in visits)


def _at(found: Findings, names: tuple[str, ...], points: Sequence[FixedPoint], *, plain: bool = False) -> str:
    """Places of equilibria, with intervals unless they should be plain; the names once."""
    low, high = found.observations.box()
    states = [place(_rounded(p.x, high - low), high - low) for p in points]
    if len(names) == 1:
        ranges = ["" if plain or p.error is None else _range_of_place(p.error.x, high - low) for p in points]
        return f"{names[0]} = {' and '.join(s[0] + r for s, r in zip(states, ranges, strict=True))}"
    return f"({', '.join(names)}) = {' and '.join('(' + ', '.join(state) + ')' for state in states)}"


def interval_in_words(interval: Interval) -> str:
    """ " (0.95 to 1.02)": the interval of a number in writing; empty if it has none."""
    low, high = (float(np.ravel(end)[0]) for end in (interval.low, interval.high))
    if not np.isfinite([low, high]).all():
        return ""
    shown = [(plain_number(low, digits), plain_number(high, digits)) for digits in _DIGITS]
    first, last = next((both for both in shown if both[0] != both[1]), shown[-1])
    return f" ({first} to {last})"


def _range_of_place(interval: Interval, width: Float64[Array, " dim"]) -> str:
    """The interval of an equilibrium on a line, to a thousandth of the range of the data; empty if it is narrower."""
    low, high = (np.atleast_1d(np.asarray(end, np.float64)).ravel()[:1] for end in (interval.low, interval.high))
    if not np.isfinite([low, high]).all():
        return ""
    low, high = _rounded(low, width), _rounded(high, width)
    return "" if low == high else f" ({place(low, width)[0]} to {place(high, width)[0]})"


def _time(points: Sequence[FixedPoint], time: float, unit: str) -> str:
    """The relaxation time with its interval; the interval alone if that of the average lies outside."""
    point = slowest_point(points)
    assert point is not None, "it has this time"
    own = f"{plain_number(time, 3)} {unit}"
    if point.error is None:
        return own
    ends = interval_in_words(point.error.relaxation_time)
    if math.isclose(-1 / float(point.eigenvalues.real.max()), time):
        return f"{own}{ends}"
    return f"between {ends.strip(' ()').replace(' to ', ' and ')} {unit}"


def _rounded(x: Float64[Array, " dim"], width: Float64[Array, " dim"]) -> Float64[Array, " dim"]:
    """To a thousandth of the range: no digits that nobody can know, and zero is zero."""
    digits = 3 - np.floor(np.log10(width)).astype(int)
    return np.array([round(value, places) + 0.0 for value, places in zip(x.tolist(), digits.tolist(), strict=True)])


def _word(number: int) -> str:
    return ("zero", "one", "two", "three", "four")[number] if number <= _MOST_POINTS else str(number)
