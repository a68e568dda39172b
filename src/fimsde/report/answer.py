"""The answer in five lines: equation, verdict, what was found, how much data there are, what to do next.

The same lines begin the report, the page of the app, `print(result)`, what notebooks show, and end `fimsde estimate`.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

import numpy as np

from fimsde.analysis import formula
from fimsde.analysis.check import Checks, Verdict
from fimsde.analysis.draws import CorrelatedDraws, interval_of
from fimsde.analysis.equation import Equation
from fimsde.analysis.formula import plain_number
from fimsde.analysis.naming import without_units
from fimsde.analysis.remarks import little_drift
from fimsde.data.lines import Line, as_html, as_text
from fimsde.data.summary import count, covered, in_words, paths
from fimsde.equations.sde import CorrelatedSDE
from fimsde.report.classes import probabilities
from fimsde.report.equilibria import dynamics, has_open_time, interval_in_words, went_over
from fimsde.report.findings import BRIEF, Findings, find, measurement_noise, relaxation_time
from fimsde.report.formulas import formula_block
from fimsde.report.weekends import resting
from fimsde.results.result import Result
from fimsde.shapes import Array, Bool, Float64

_ROUGH = 0.9  # share of the mean square of a field that a formula explains, below which that is said; by hand
# spans of the record in relaxation times, below which slopes of the drift are uncertain by more than a fifth: the rate
# of a linear equation has the relative error sqrt(2 / span)
_LONG_ENOUGH = 50.0
_SURE = 0.9  # probability from which a term of the formula is told without a word, as equilibria are
# the same of "constant noise", which the estimate holds for likely before it sees data: below it they speak against it
_SURELY_CONSTANT = 0.8
_MOST_TERMS = 4  # unsure ones that are listed; by hand: the length of a line or two
_STATES = 2000  # at which the diffusion is looked at; by hand: quantiles to a percent
_FEW_STATES = 100  # at which that of every draw is; by hand: milliseconds
_APART = (
    "Readings next to each other agree too little to tell drift from noise: read more often; or, if it is the "
    "instrument that errs so much, average a few neighbouring readings first."
)
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
    parts = [*dynamics(found, names), *_noise(found, names)]
    return Answer(
        (
            _equation(found),
            _verdict(found),
            Line("Found", "; ".join(part for part in parts if part)),
            Line("Data", f"{data}: {length}"),
            Line("Next", _next(found)),
        )
    )


def _equation(found: Findings) -> Line:
    if isinstance(equation := found.equation, str):
        return Line("Equation", equation, "caution")
    note = f"(± {formula.errors_of(equation.drift_terms)[1]}; dW: white noise)"
    for remark in (_rough(equation), _unsure(equation)):
        note += f"\n({remark})" if remark else ""
    text = f"{formula.text(equation, errors=True)}\n{note}"
    return Line("Equation", text, None, _markup(equation, escape(note).replace("\n", "<br>")), verbatim=True)


def _rough(equation: Equation) -> str:
    """Which fields the formula describes in part only."""
    parts = [
        f"{share:.0%} of the {what} of {name}"
        for what, p in (("drift", equation.drift_terms), ("variance rate", equation.diffusion_sq_terms))
        for name, share, own in zip(equation.names, p.explained.tolist(), p.coefficients, strict=True)
        if own.any() and share < _ROUGH
    ]
    return f"a rough formula: it explains {' and '.join(parts)}; the figures show all of the estimate" if parts else ""


def _unsure(equation: Equation) -> str:
    """Which terms may be absent, with their probabilities: an interval says how large one is if it is there."""
    factors, several = formula.text_factors(equation), equation.dim > 1
    found = []
    for where, p in (("the drift", equation.drift_terms), ("the variance rate", equation.diffusion_sq_terms)):
        shares = np.full(p.coefficients.shape, np.nan) if p.probabilities is None else p.probabilities
        for j, k in np.argwhere((p.coefficients != 0) & (p.exponents.sum(axis=1) > 0) & (shares < _SURE)).tolist():
            term = formula.monomial(p.exponents[k].tolist(), factors)
            of = f" in {where} of {equation.names[j]}" if several else f" in {where}"
            found.append((float(shares[j, k]), f"{term}{of}"))
    if not found:
        return ""
    found.sort()
    said = [f"{term}, {'' if k else 'probability '}{share:.0%}" for k, (share, term) in enumerate(found[:_MOST_TERMS])]
    more = [f"{len(found) - _MOST_TERMS} more"] if len(found) > _MOST_TERMS else []
    shown = "; ".join([*said, *more])
    return f"unsure: {shown}; without {'them others take their' if len(found) > 1 else 'it others take its'} place"


def _markup(equation: Equation, note: str) -> str:
    return f'{formula_block(equation, errors=True).html}<small style="opacity: .7">{note}</small>'


def _verdict(found: Findings) -> Line:
    if isinstance(checks := found.checks, str):
        return Line("Verdict", checks, "caution")
    return Line("Verdict", checks.summary, checks.status)


def _noise(found: Findings, names: tuple[str, ...]) -> Iterator[str]:
    """What kind of noise drives the system, and how much the instrument adds."""
    obs = found.observations
    states = obs.values[:: -(-obs.num_points // _STATES)]
    size = found.result.fields(states)[1]
    low, middle, high = np.nanquantile(size, [0.05, 0.5, 0.95], axis=0)
    per = f"per √{in_words(obs.time_unit).removesuffix('s')}"
    several = len(names) > 1
    varies = np.zeros(len(names), bool) if isinstance(found.equation, str) else _varies(found.equation)
    if not varies.any():
        ranges = _strengths(found.result, states, len(names))
        sizes = ", ".join(
            plain_number(m, 3) + own + (f" of {name}" if several else "")
            for m, own, name in zip(middle, ranges, names, strict=True)
        )
        share = _share_of_told(found, varies)
        doubt = f", with probability {share:.0%}" if 0.5 <= share < _SURELY_CONSTANT else ""
        if share < 0.5:
            doubt = f", which with probability {1 - share:.0%} depends on the state"
        yield f"noise of {'typical' if share < 0.5 else 'constant'} strength {sizes} {per}{doubt}"
    else:
        sizes = ", ".join(
            (f"from {plain_number(a, 3)} to {plain_number(b, 3)}" if changes else plain_number(m, 3))
            + (f" of {name}" if several else "")
            for a, m, b, changes, name in zip(low, middle, high, varies, names, strict=True)
        )
        share = _share_of_told(found, varies)
        doubt = f", with probability {share:.0%}" if share < _SURELY_CONSTANT else ""
        yield f"noise that depends on the state ({sizes} {per}){doubt}"
    if isinstance(sde := found.result.sde, CorrelatedSDE) and not sde.is_diagonal:
        yield _correlated(found.result, sde.rho, names)
    yield _of_instrument(found, names)


def _share_of_told(found: Findings, varies: Bool[Array, " dim"]) -> float:
    """How probable it is that the noise depends on the state where it is told to, and nowhere else."""
    shares = probabilities(found.result).get("diffusion", {}).get("constant")
    if shares is None:
        return 1.0
    return min(1 - share if changes else share for share, changes in zip(shares, varies.tolist(), strict=True))


def _of_instrument(found: Findings, names: tuple[str, ...]) -> str:
    """Measurement noise with its intervals; "perhaps" where an interval begins at none."""
    std, drawn = measurement_noise(found.result), _drawn_noise(found.result)
    seen = [c for c, size in enumerate(std.tolist()) if size > 0]
    if not seen:
        return "no measurement noise seen"
    intervals = {c: None if drawn is None else interval_of(drawn[:, c]) for c in seen}
    sizes = [
        plain_number(float(std[c]), 2)
        + ("" if (own := intervals[c]) is None else interval_in_words(own))
        + (f" of {names[c]}" if len(names) > 1 else "")
        for c in seen
    ]
    may_be_none = all(own is not None and not np.any(np.asarray(own.low) > 0) for own in intervals.values())
    return f"{'perhaps ' if may_be_none else ''}measurement noise {', '.join(sizes)} (standard deviation)"


def _correlated(result: Result, rho: Float64[Array, "dim dim"], names: tuple[str, ...]) -> str:
    """Correlations of the noise, with their intervals where there is a posterior."""
    draws = result.posterior().draws if result.has_posterior else None
    drawn = draws.rho if isinstance(draws, CorrelatedDraws) else None
    parts = []
    for i, j in np.argwhere(np.triu(rho, 1)).tolist():
        ends = "" if drawn is None or np.ptp(drawn[:, i, j]) == 0 else interval_in_words(interval_of(drawn[:, i, j]))
        parts.append(f"{plain_number(round(float(rho[i, j]), 3))}{ends} between {names[i]} and {names[j]}")
    return f"noise that is correlated: {', '.join(parts)}"


def _strengths(result: Result, states: Float64[Array, "states dim"], num: int) -> list[str]:
    """Intervals of the median diffusion over the states in writing, per component; empty without a posterior."""
    if not result.has_posterior:
        return [""] * num
    some = states[:: -(-len(states) // _FEW_STATES)]
    drawn = np.median(result.posterior().diffusion(some), axis=1)  # (draws, dim)
    return [interval_in_words(interval_of(drawn[:, c])) for c in range(num)]


def _drawn_noise(result: Result) -> Float64[Array, "draws dim"] | None:
    """Standard deviations of the measurement noise in draws of the posterior; None if the estimator has none."""
    if not (result.has_posterior and hasattr(result.fitted, "noise_std")):
        return None
    return result.posterior().noise_std


def _varies(equation: Equation) -> Bool[Array, " dim"]:
    """Whether the variance rate of a component depends on the state, in the formula."""
    terms = equation.diffusion_sq_terms
    return np.asarray(terms.coefficients[:, terms.exponents.sum(axis=1) > 0].any(axis=1))


def _in_relaxation_times(found: Findings) -> str:
    if (spans := _spans(found)) is None:
        return ""
    return f" ({spans:.2g} relaxation times)" if spans < 100 else f" ({spans:.0f} relaxation times)"


def _spans(found: Findings) -> float | None:
    """Length of the record in relaxation times; None where no drift of a component was seen."""
    if isinstance(found.equation, str) or not found.equation.drift_terms.coefficients.any(axis=1).all():
        return None
    time = relaxation_time(found.points)
    return None if time is None else found.health.span / time


def _next(found: Findings) -> str:
    """The first thing to do about the first thing that is wrong; if nothing is, what limits the answer."""
    if isinstance(found.checks, str):
        return "Record more: with this much data the equation cannot be checked."
    if rest := resting(found.observations):
        return rest
    steps = [step for cause in found.checks.causes if (step := _advice(cause, found.checks))]
    if steps:
        return steps[0]
    if isinstance(found.equation, Equation) and little_drift(found.equation):
        return "Record longer, or more paths: the drift is too small to be seen in this much data."
    if went_over(found) == 1:
        return (
            "Record until paths go over again: they went from one stable equilibrium to another only once, and a "
            "single one that moved would look the same."
        )
    if not isinstance(found.points, str) and has_open_time([p for p in found.points if p.inside]):
        return "Record longer, or more paths: the slope of the drift at the equilibrium is not known."
    spans = _spans(found)
    if spans is not None and spans < _LONG_ENOUGH:
        return (
            f"Record longer, or more paths: over {spans:.2g} relaxation times the slopes of the drift are known to "
            f"about {math.sqrt(2 / spans):.0%}."
        )
    return found.health.remarks[0] if found.health.remarks else _USE


def _advice(cause: Verdict, checks: Checks) -> str:
    """What to do about a cause; bad predictions may come of readings that know little of each other."""
    apart = any(v.name == "sampling interval" and v.status != "good" for v in checks)
    return _APART if cause.name == "prediction" and apart else cause.next_step
