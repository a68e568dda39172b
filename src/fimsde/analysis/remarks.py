"""What a formula does not say by itself: components without drift, and terms that the data leave open."""

import numpy as np

from fimsde.analysis.formula import monomial, text_factors
from fimsde.analysis.naming import in_text
from fimsde.analysis.polynomials import LEVEL, Polynomials, Written

_MOST_TERMS = 4  # in a sentence; `left_out` has all of them; by hand: the length of a line or two
_LITTLE = 0.5  # of the mean square of a field: what a formula that explains less leaves out is most of it
_PERCENT = f"{100 * LEVEL:g} %"


def little_drift(equation: Written) -> tuple[str, ...]:
    """One sentence per component in whose formula there is no drift, or little of that of the field."""
    drift = equation.drift_terms
    if drift.doubt is None:
        return ()
    said = []
    for name, coefficients, largest, explained in zip(
        equation.names, drift.coefficients, drift.doubt.largest, drift.explained.tolist(), strict=True
    ):
        if not coefficients.any():
            said.append(
                f"no drift of {in_text(name)} was found: the data allow a root mean square of at most {largest:.2g} "
                f"per time ({_PERCENT} confidence)"
            )
        elif explained < _LITTLE:
            said.append(
                f"the formula explains {max(explained, 0.0):.0%} of the mean square of the estimated drift of "
                f"{in_text(name)}: for the rest there is too little evidence, or it is no polynomial of this degree"
            )
    return tuple(said)


def open_terms(equation: Written) -> tuple[str, ...]:
    """One sentence per component with a drift: which terms, up to the degree of those kept, may be there as well."""
    drift, said = equation.drift_terms, []
    for j, name in enumerate(equation.names):
        kept = np.flatnonzero(drift.coefficients[j])
        if not len(kept):
            continue
        others = left_out(equation, drift, j, max(1, int(drift.exponents[kept].sum(axis=1).max())))
        if others:
            shown = "; ".join(f"{term} between {low:.2g} and {high:.2g}" for term, low, high in others[:_MOST_TERMS])
            more = f"; and {len(others) - _MOST_TERMS} more" if len(others) > _MOST_TERMS else ""
            said.append(
                f"left out of the drift of {in_text(name)} for lack of evidence ({_PERCENT} intervals): {shown}{more}"
            )
    return tuple(said)


def left_out(
    equation: Written, polynomials: Polynomials, component: int, degree: int
) -> list[tuple[str, float, float]]:
    """Terms up to a degree that were left out, and between what their coefficients are if one alone were added.

    Those with the most evidence come first.
    """
    doubt = polynomials.doubt
    if doubt is None:
        return []
    is_open = (polynomials.coefficients[component] == 0) & (doubt.added_errors[component] > 0)  # zero: noise has no say
    others = np.flatnonzero(is_open & (polynomials.exponents.sum(axis=1) <= degree))
    evidence = np.abs(doubt.added[component, others]) / doubt.added_errors[component, others]
    factors = text_factors(equation)
    return [
        (monomial(polynomials.exponents[k].tolist(), factors) or "1", *doubt.interval(component, k))
        for k in others[np.argsort(-evidence, kind="stable")].tolist()
    ]
