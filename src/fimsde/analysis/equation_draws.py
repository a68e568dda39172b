"""Error bars of a formula: its coefficients in every draw of the posterior, and the probability of each term."""

from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fimsde.analysis.draws import LEVEL, CorrelatedDraws, Draws, interval_of
from fimsde.analysis.equation import Equation
from fimsde.analysis.polynomials import Polynomials
from fimsde.bank import monomials
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import SDE, fields
from fimsde.shapes import Array, Float64, Int

_STATES = 600  # at which draws are read; by hand: bounds the time, and smooth fields need no more


@runtime_checkable
class KnowsTerms(Protocol):
    """Draws that know which terms they have."""

    def term_probabilities(self, which: str, exponents: Int[Array, "terms dim"], *, around_zero: bool) -> Array: ...


def with_intervals(
    equation: Equation, sde: SDE, draws: Draws, observations: Observations, level: float = LEVEL
) -> Equation:
    """The formula, with intervals of its coefficients.

    In every draw the fields are projected on the terms of the formula, as those of the estimate were: with the weights
    dtau / g for the drift and 1 / 2 g² for the variance rate, where data are.

    Args:
        equation: Read out of the estimate.
        sde: The estimate.
        draws: Of its posterior.
        observations: The data.
        level: Of the intervals.
    """
    steps = to_transitions(observations)
    every = -(-len(steps) // _STATES)
    x, gaps = steps.y[::every], steps.dtau[::every, None]
    g = np.asarray(fields(sde, x)[1], np.float64) ** 2
    mean = g.mean(axis=0)  # weights are relative; as in the readout, no state gets all of them
    g = np.where(mean > 0, np.maximum(g / np.where(mean > 0, mean, 1.0), 0.01), 1.0)
    drift, diffusion = draws.fields(x)
    z, around_zero = x - equation.origin, not equation.origin.any()
    parts: dict[str, Any] = {}
    for name, which, drawn, weight in (
        ("drift_terms", "drift", drift, gaps / g),
        ("diffusion_sq_terms", "rate", diffusion**2, 1.0 / (2.0 * g**2)),
    ):
        terms: Polynomials = getattr(equation, name)
        values = _projected(terms, z, drawn, weight)
        ends = interval_of(values, level)
        shares = (
            draws.term_probabilities(which, terms.exponents, around_zero=around_zero)
            if isinstance(draws, KnowsTerms)
            else None
        )
        parts[name] = replace(terms, intervals=np.stack([ends.low, ends.high]), probabilities=shares, level=level)
    if isinstance(draws, CorrelatedDraws) and equation.correlation_terms is not None:
        parts["correlation_terms"] = _as_drawn(equation.correlation_terms, draws, level)
    return replace(equation, **parts)


def _as_drawn(terms: Polynomials, draws: CorrelatedDraws, level: float) -> Polynomials:
    """Correlations that are the same everywhere, with their intervals."""
    constant = int(np.flatnonzero(terms.exponents.sum(axis=1) == 0)[0])
    ends = interval_of(draws.rho[:, *np.triu_indices(draws.dim, 1)], level)
    intervals = np.zeros((2, *terms.coefficients.shape))
    intervals[:, :, constant] = np.stack([ends.low, ends.high])
    return replace(terms, intervals=np.where(terms.coefficients != 0, intervals, 0.0), level=level)


def _projected(
    terms: Polynomials,
    z: Float64[Array, "queries dim"],
    drawn: Float64[Array, "draws queries outputs"],
    weight: Float64[Array, "queries outputs"],
) -> Float64[Array, "draws outputs terms"]:
    """argmin sum w (f_i - sum_k c_k z^k)² over the terms that the formula has; zero for the others."""
    phi = monomials.evaluate(z, terms.degree)
    out = np.zeros((len(drawn), *terms.coefficients.shape))
    for j in range(drawn.shape[2]):
        kept = np.flatnonzero(terms.coefficients[j])
        if len(kept):
            size = np.maximum(np.abs(phi[:, kept]).max(axis=0), np.finfo(float).tiny)  # zero: at zero all the time
            root = np.sqrt(weight[:, j, None])
            out[:, j, kept] = (
                np.linalg.lstsq(root * phi[:, kept] / size, root * drawn[:, :, j].T, rcond=None)[0].T / size
            )
    return out
