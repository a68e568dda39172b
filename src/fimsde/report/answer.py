"""The answer in five lines: equation, verdict, what was found, how much data there are, what to do next.

The same lines begin the report, the page of the app, `print(result)`, what notebooks show, and end `fimsde estimate`.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

import numpy as np

from fimsde.analysis import formula
from fimsde.analysis.draws import Interval, interval_of
from fimsde.analysis.equation import Equation
from fimsde.analysis.fixed_points import FixedPoint, place
from fimsde.analysis.formula import plain_number
from fimsde.analysis.naming import without_units
from fimsde.analysis.remarks import little_drift
from fimsde.data.lines import Line, as_html, as_text
from fimsde.data.summary import count, covered, in_words, paths
from fimsde.report.findings import BRIEF, Findings, find, relaxation_time
from fimsde.report.formulas import formula_block
from fimsde.results.result import Result
from fimsde.shapes import Array, Bool, Float64

_ROUGH = 0.9  # share of the mean square of a field that a formula explains, below which that is said; by hand
_SURE = 0.9  # probability from which an equilibrium is called stable without a word: that of the intervals
_MOST_POINTS = 4  # equilibria that are listed; by hand: the length of a line or two
# spans of the record in relaxation times, below which slopes of the drift are uncertain by more than a fifth: the rate
# of a linear equation has the relative error sqrt(2 / span)
_LONG_ENOUGH = 50.0
_STATES = 2000  # at which the diffusion is looked at; by hand: quantiles to a percent
_FEW_STATES = 100  # at which that of every draw is; by hand: milliseconds
_USE = "It can be used: for simulations, forecasts and exit times inside the range of the data."


@dataclass(frozen=True)
class Answer:
    """Five lines about a result."""

    lines: tuple[Line, ...]
    kind: str = "answer"

    def __str__(self) -> str:
        return as_text(self.lines)

    @property
    def html(self) -> str:
        """The lines as HTML that carries its own style; every text is escaped."""
        return as_html(self.lines)

    def record(self) -> dict[str, str]:
        """The lines by their labels, ready for JSON."""
        return {line.label.lower(): line.text for line in self.lines}


def text_of(record: Mapping[str, str]) -> str:
    """The answer as text, from what `Answer.record` gave."""
    return as_text([Line(name.capitalize(), text, verbatim=name == "equation") for name, text in record.items()])


def answer(result: Result, seed: int = 0) -> Answer:
    """The answer about a result with observations."""
    return answer_of(find(result, seed, parts=BRIEF))


def answer_of(found: Findings) -> Answer:
    """The answer, from what was found already."""
    names = without_units(found.result.names)
    data = f"{count(found.observations.num_points, 'observation')} of {', '.join(names)} in {paths(found.observations)}"
    length = f"{covered(found.observations, found.health)}{_in_relaxation_times(found)}"
    parts = [*_dynamics(found, names), *_noise(found, names)]
    return Answer(
        (
            _equation(found, names),
            _verdict(found),
            Line("Found", "; ".join(part for part in parts if part)),
            Line("Data", f"{data}: {length}"),
            Line("Next", _next(found)),
        )
    )


def _equation(found: Findings, names: tuple[str, ...]) -> Line:
    if isinstance(equation := found.equation, str):
        return Line("Equation", equation, "caution")
    short = replace(equation, names=names)
    note = f"(± {formula.errors_of(equation.drift_terms)[1]}; dW: white noise)"
    if rough := _rough(short):
        note = f"{note}\n({rough})"
    text = f"{formula.text(short, errors=True)}\n{note}"
    return Line("Equation", text, None, _markup(short, escape(note).replace("\n", "<br>")), verbatim=True)


def _rough(equation: Equation) -> str:
    """Which fields the formula describes in part only."""
    parts = [
        f"{share:.0%} of the {what} of {name}"
        for what, p in (("drift", equation.drift_terms), ("variance rate", equation.diffusion_sq_terms))
        for name, share, own in zip(equation.names, p.explained.tolist(), p.coefficients, strict=True)
        if own.any() and share < _ROUGH
    ]
    return f"a rough formula: it explains {' and '.join(parts)}; the figures show all of the estimate" if parts else ""


def _markup(equation: Equation, note: str) -> str:
    return f'{formula_block(equation, errors=True).html}<small style="opacity: .7">{note}</small>'


def _verdict(found: Findings) -> Line:
    if isinstance(checks := found.checks, str):
        return Line("Verdict", checks, "caution")
    return Line("Verdict", checks.summary, checks.status)


def _dynamics(found: Findings, names: tuple[str, ...]) -> Iterator[str]:
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
    yield _equilibria(found, names, near)
    if (time := relaxation_time(points)) is not None:
        yield f"relaxation time {plain_number(time, 3)} {unit}{_range_of_time(points, time)}"
    elif _has_open_time(near):
        yield "relaxation time unknown, because the slope of the drift there may be zero"
    turning = [p for p in near if p.kind == "stable focus" and _is_seen_to_turn(p)]
    if turning:
        turn = 2 * math.pi / float(np.abs(turning[0].eigenvalues.imag).max())
        yield f"oscillations of period {plain_number(turn, 3)} {unit}"


def _equilibria(found: Findings, names: tuple[str, ...], near: list[FixedPoint]) -> str:
    if not near:
        return "no equilibrium where data are"
    stable = [p for p in near if p.is_stable]
    others = [p for p in near if not p.is_stable]
    if len(near) > _MOST_POINTS:
        return f"{len(near)} equilibria, {len(stable)} of them stable"
    shown = []
    if stable:
        noun = _stable(stable[0]) if len(stable) == 1 else f"{_word(len(stable))} stable equilibria"
        shown.append(f"{noun} at {_at(found, names, stable)}")
    for point in others:
        kind = "an unstable one" if stable else "an unstable equilibrium"
        kind = "a saddle" if point.kind == "saddle" else kind if point.kind.startswith("unstable") else "an unclear one"
        shown.append(f"{kind} at {_at(found, names, [point])}")
    return ", ".join(shown)


def _is_seen_to_turn(point: FixedPoint) -> bool:
    """Whether a radian of the turn takes less time than the way back: a slower turn is over before it is seen."""
    slowest = point.eigenvalues[np.argmax(point.eigenvalues.real)]
    return bool(abs(slowest.imag) > abs(slowest.real))


def _stable(point: FixedPoint) -> str:
    share = 1.0 if point.error is None else point.error.stable
    return f"an equilibrium, stable with probability {share:.0%}," if share < _SURE else "a stable equilibrium"


def _has_open_time(near: Sequence[FixedPoint]) -> bool:
    """Whether an equilibrium may be stable, and yet no relaxation time is known."""
    return any(p.is_stable for p in near) and relaxation_time(near) is None


def _at(found: Findings, names: tuple[str, ...], points: Sequence[FixedPoint]) -> str:
    """Places of equilibria; the names once."""
    low, high = found.observations.box()
    states = [place(_rounded(p.x, high - low), high - low) for p in points]
    if len(names) == 1:
        ranges = ["" if p.error is None else _range_of_place(p.error.x, high - low) for p in points]
        return f"{names[0]} = {' and '.join(s[0] + r for s, r in zip(states, ranges, strict=True))}"
    return f"({', '.join(names)}) = {' and '.join('(' + ', '.join(state) + ')' for state in states)}"


def _range(interval: Interval) -> str:
    """ " (0.95 to 1.02)": the interval of a number in writing; empty if it has none."""
    low, high = (float(np.ravel(end)[0]) for end in (interval.low, interval.high))
    return f" ({plain_number(low, 3)} to {plain_number(high, 3)})" if np.isfinite([low, high]).all() else ""


def _range_of_place(interval: Interval, width: Float64[Array, " dim"]) -> str:
    """The interval of an equilibrium on a line, to a thousandth of the range of the data; empty if it is narrower."""
    low, high = (np.atleast_1d(np.asarray(end, np.float64)).ravel()[:1] for end in (interval.low, interval.high))
    if not np.isfinite([low, high]).all():
        return ""
    low, high = _rounded(low, width), _rounded(high, width)
    return "" if low == high else f" ({place(low, width)[0]} to {place(high, width)[0]})"


def _range_of_time(points: Sequence[FixedPoint], time: float) -> str:
    """The interval of the relaxation time, of the equilibrium that is the slowest."""
    for point in points:
        if point.inside and point.is_stable and math.isclose(-1 / float(point.eigenvalues.real.max()), time):
            return "" if point.error is None else _range(point.error.relaxation_time)
    return ""


def _rounded(x: Float64[Array, " dim"], width: Float64[Array, " dim"]) -> Float64[Array, " dim"]:
    """To a thousandth of the range: no digits that nobody can know, and zero is zero."""
    digits = 3 - np.floor(np.log10(width)).astype(int)
    return np.array([round(value, places) + 0.0 for value, places in zip(x.tolist(), digits.tolist(), strict=True)])


def _noise(found: Findings, names: tuple[str, ...]) -> Iterator[str]:
    """What kind of noise drives the system, and how much the instrument adds."""
    obs = found.observations
    states = obs.values[:: -(-obs.num_points // _STATES)]
    size = found.result.fields(states)[1]
    low, middle, high = np.nanquantile(size, [0.05, 0.5, 0.95], axis=0)
    per = f"per √{in_words(obs.time_unit).removesuffix('s')}"
    several = len(names) > 1
    if isinstance(found.equation, str) or not (varies := _varies(found.equation)).any():
        ranges = _strengths(found.result, states, len(names))
        sizes = ", ".join(
            plain_number(m, 3) + own + (f" of {name}" if several else "")
            for m, own, name in zip(middle, ranges, names, strict=True)
        )
        yield f"noise of constant strength {sizes} {per}"
    else:
        sizes = ", ".join(
            (f"from {plain_number(a, 3)} to {plain_number(b, 3)}" if changes else plain_number(m, 3))
            + (f" of {name}" if several else "")
            for a, m, b, changes, name in zip(low, middle, high, varies, names, strict=True)
        )
        yield f"noise that depends on the state ({sizes} {per})"
    std, drawn = measurement_noise(found.result), _drawn_noise(found.result)
    seen = [
        plain_number(size, 2)
        + ("" if drawn is None else _range(interval_of(drawn[:, c])))
        + (f" of {name}" if several else "")
        for c, (size, name) in enumerate(zip(std.tolist(), names, strict=True))
        if size > 0
    ]
    yield f"measurement noise {', '.join(seen)} (standard deviation)" if seen else "no measurement noise seen"


def _strengths(result: Result, states: Float64[Array, "states dim"], num: int) -> list[str]:
    """Intervals of the median diffusion over the states in writing, per component; empty without a posterior."""
    if not result.has_posterior:
        return [""] * num
    some = states[:: -(-len(states) // _FEW_STATES)]
    drawn = np.median(result.posterior().diffusion(some), axis=1)  # (draws, dim)
    return [_range(interval_of(drawn[:, c])) for c in range(num)]


def _drawn_noise(result: Result) -> Float64[Array, "draws dim"] | None:
    """Standard deviations of the measurement noise in draws of the posterior; None if the estimator has none."""
    if not (result.has_posterior and hasattr(result.fitted, "noise_std")):
        return None
    return result.posterior().noise_std


def measurement_noise(result: Result) -> Float64[Array, " dim"]:
    """Standard deviation of the measurement noise: the estimator's own where it has one."""
    own = getattr(result.fitted, "noise_std", None)
    return result.noise_std if own is None else np.asarray(own, np.float64)


def _varies(equation: Equation) -> Bool[Array, " dim"]:
    """Whether the variance rate of a component depends on the state, in the formula."""
    terms = equation.diffusion_sq_terms
    return np.asarray(terms.coefficients[:, terms.exponents.sum(axis=1) > 0].any(axis=1))


def _in_relaxation_times(found: Findings) -> str:
    if (spans := _spans(found)) is None:
        return ""
    return f" ({spans:.2g} relaxation times)" if spans < 100 else f" ({spans:.0f} relaxation times)"


def _spans(found: Findings) -> float | None:
    """Length of the record in relaxation times; None if no drift was seen."""
    if isinstance(found.equation, str) or not found.equation.drift_terms.coefficients.any():
        return None
    time = relaxation_time(found.points)
    return None if time is None else found.health.span / time


def _next(found: Findings) -> str:
    """The first thing to do about the first thing that is wrong; if nothing is, what limits the answer."""
    if isinstance(found.checks, str):
        return "Record more: with this much data the equation cannot be checked."
    steps = [cause.next_step for cause in found.checks.causes if cause.next_step]
    if steps:
        return steps[0]
    if isinstance(found.equation, Equation) and little_drift(found.equation):
        return "Record longer, or more paths: the drift is too small to be seen in this much data."
    if not isinstance(found.points, str) and _has_open_time([p for p in found.points if p.inside]):
        return "Record longer, or more paths: the slope of the drift at the equilibrium is not known."
    spans = _spans(found)
    if spans is not None and spans < _LONG_ENOUGH:
        return (
            f"Record longer, or more paths: over {spans:.2g} relaxation times the slopes of the drift are known to "
            f"about {math.sqrt(2 / spans):.0%}."
        )
    return found.health.remarks[0] if found.health.remarks else _USE


def _word(number: int) -> str:
    return ("zero", "one", "two", "three", "four")[number] if number <= _MOST_POINTS else str(number)
