"""A formula for an equation: sparse polynomials for drift and variance rate, fitted where data are.

The fields of a result are read out, not the data: distances between field and polynomial are measured by what they cost
in log-likelihood of the observed steps, the sum of dtau / g (f - polynomial)² for the drift and of
(g - polynomial)² / (2 g²) for the variance rate. A term is kept if leaving it out costs more than the penalty of the
Bayesian information criterion, the logarithm of the number of steps. Standard errors come from the same quadratic form,
and so does what is said about terms that were left out. The variance rate is positive at every observed state, and a
component that is known to drift has a term.
"""

from dataclasses import dataclass
from math import comb

import numpy as np

from fimsde.analysis.box import checked, finite_fields
from fimsde.analysis.equation import Equation
from fimsde.analysis.naming import to_symbols
from fimsde.analysis.polynomials import Doubt, Polynomials, if_added, largest_size, root_of_inverse, rounded
from fimsde.analysis.positive import ObservedStates
from fimsde.analysis.selection import select
from fimsde.bank import monomials
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import SDE, correlation, is_diagonal
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Bool, Float64, Int

_MOST_POINTS = 5000  # states at which the fields are read; by hand: bounds seconds
_LEAST_NOISE = 0.01  # of the mean variance rate: a step is not trusted beyond this; by hand: a hundred average steps
# ranges between the data and zero beyond which the formula is written around the mean; by hand: powers stay readable
_FAR = 1.0
# weight of a field without data, against its mean square: keeps all that rounding does not explain, since a misfit of
# sqrt(ln n / 1e12) = 3e-6 of the field pays for a term, and float32 rounds by 1e-7
_EXACT = 1e12
# of the diagonal: for terms that the data cannot tell apart; by hand: some thousand roundings of a float64
_RIDGE = 1e-12
_FEWEST_DIGITS, _MOST_DIGITS = 3, 17  # of a coefficient in writing; by hand: readable; and all of a float64 (IEEE 754)
_MOST_TERMS = 500  # per component: a minute of search; cubic terms in eight dimensions are 165; by hand
# 1 - rho² of noise that is taken for the same; by hand: bounds the weight of a state, as in `residuals`
_LEAST_SPREAD = 1e-3
# of the root mean square of a field: what rounded coefficients may change; by hand: less than errors of estimates
_ROUNDING = 0.01
_MOST_HALVINGS = 10  # of the penalty; by hand: a thousandth of it keeps any term


def read_out(
    sde: SDE,
    names: tuple[str, ...],
    observations: Observations | None,
    nodes: Float64[Array, "queries dim"] | None,
    drift_degree: int,
    diffusion_degree: int,
    moving: Bool[Array, " dim"] | None = None,
) -> Equation:
    """Sparse polynomials for the fields of an equation.

    Args:
        sde: Any equation.
        names: Of the components.
        observations: Where to fit, and how precisely.
        nodes: Where to fit if there are no observations; then all terms are kept that rounding does not explain.
        drift_degree, diffusion_degree: Largest total degree of the terms of f and g.
        moving: Components that are known to have a drift.
    """
    num_terms = comb(sde.dim + max(drift_degree, diffusion_degree, 0), sde.dim)
    if min(drift_degree, diffusion_degree) < 0 or max(drift_degree, diffusion_degree) > 6 or num_terms > _MOST_TERMS:
        raise ConfigError(
            f"degrees {drift_degree} and {diffusion_degree} in {sde.dim} dimensions make {num_terms} terms; expected "
            f"degrees from 0 to 6 and at most {_MOST_TERMS} terms. Pass a smaller max_degree."
        )
    place = _exactly(sde, nodes) if observations is None else _where_data_are(sde, observations, moving)
    return Equation(
        names=names,
        symbols=to_symbols(names),
        origin=place.origin,
        drift_terms=_sparse(place, place.drift, place.drift_weight, drift_degree, 1),
        diffusion_sq_terms=_sparse(place, place.diffusion_sq, place.diffusion_sq_weight, diffusion_degree, 2),
        correlation_terms=None if is_diagonal(sde) else _sparse(place, *_correlations(place), diffusion_degree, 0),
    )


@dataclass(frozen=True, eq=False)
class _Fields:
    """The fields at states, and what a squared distance there costs in log-likelihood.

    States are counted from `origin`, and they and the fields in a `unit` per component: powers of the numbers in users'
    files may overflow.
    """

    x: Float64[Array, "queries dim"]
    origin: Float64[Array, " dim"]
    unit: Float64[Array, " dim"]
    drift: Float64[Array, "queries dim"]
    diffusion_sq: Float64[Array, "queries dim"]
    drift_weight: Float64[Array, "queries dim"]
    diffusion_sq_weight: Float64[Array, "queries dim"]
    penalty: float
    sde: SDE
    share: float = 1.0  # transitions that each state stands for
    observed: Float64[Array, "states dim"] | None = None  # all of them, for a variance rate that is positive there
    moving: frozenset[int] = frozenset()  # components that are known to have a drift, whatever a criterion says

    def states(self, component: int, degree: int, size: Float64[Array, " terms"]) -> ObservedStates | None:
        """The observed states, and the variance rate there; None without data."""
        if self.observed is None:
            return None

        def diffusion_sq(x: Float64[Array, "queries dim"]) -> Float64[Array, " queries"]:
            return (finite_fields(self.sde, x * self.unit + self.origin)[1] / self.unit)[:, component] ** 2

        return ObservedStates(self.observed, degree, size, diffusion_sq)


def _where_data_are(sde: SDE, observations: Observations, moving: Bool[Array, " dim"] | None) -> _Fields:
    steps = to_transitions(observations)
    every = -(-len(steps) // _MOST_POINTS)
    x, share = steps.y[::every], len(steps) / len(steps.y[::every])
    low, high = checked(*observations.box())
    unit = np.where(high > low, high - low, 1.0)  # a component that never moves: every unit will do
    drift, diffusion = (field / unit for field in finite_fields(sde, x))
    noise = np.maximum(diffusion**2, _LEAST_NOISE * np.mean(diffusion**2, axis=0))
    noise = np.where(noise > 0, noise, 1.0)  # a component without any noise: every weight will do
    far = np.maximum(low, -high) > _FAR * (high - low)
    origin = np.where(far, _rounded(observations.values.mean(axis=0), unit), 0.0)
    return _Fields(
        x=(x - origin) / unit,
        origin=origin,
        unit=unit,
        drift=drift,
        diffusion_sq=diffusion**2,
        drift_weight=share * steps.dtau[::every, None] / noise,
        diffusion_sq_weight=share / (2 * noise**2),
        penalty=float(np.log(len(steps))),
        sde=sde,
        share=share,
        observed=(observations.values - origin) / unit,
        moving=frozenset() if moving is None else frozenset(np.flatnonzero(moving).tolist()),
    )


def _exactly(sde: SDE, nodes: Float64[Array, "queries dim"] | None) -> _Fields:
    if nodes is None:
        raise ConfigError("there are no data to say where the formula should hold. Pass box=(low, high).")
    unit = np.ptp(nodes, axis=0)
    drift, diffusion = (field / unit for field in finite_fields(sde, nodes))
    return _Fields(
        x=nodes / unit,
        origin=np.zeros(sde.dim),
        unit=unit,
        drift=drift,
        diffusion_sq=diffusion**2,
        drift_weight=_exact_weight(drift),
        diffusion_sq_weight=_exact_weight(diffusion**2),
        penalty=float(np.log(len(nodes))),
        sde=sde,
    )


def _correlations(place: _Fields) -> tuple[Float64[Array, "queries pairs"], Float64[Array, "queries pairs"]]:
    """Correlations of all pairs, and what a squared distance costs: an estimate of rho has the variance (1 - rho²)²."""
    i, j = np.triu_indices(len(place.unit), 1)
    rho = correlation(place.sde, place.x * place.unit + place.origin)[:, i, j]
    if place.observed is None:
        return rho, _exact_weight(rho)
    return rho, place.share / np.maximum(1 - rho**2, _LEAST_SPREAD) ** 2


def _exact_weight(field: Float64[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
    size = np.sum(field**2, axis=0)
    return np.tile(_EXACT / np.where(size > 0, size, 1.0), (len(field), 1))


def _sparse(
    place: _Fields,
    field: Float64[Array, "queries dim"],
    weight: Float64[Array, "queries dim"],
    degree: int,
    power: int,  # of the unit of the component in that of the field: 2 for the variance rate, which must be positive, 0
    # for correlations, of which there is one for every pair of components
) -> Polynomials:
    phi = monomials.evaluate(place.x, degree)
    size = np.abs(phi).max(axis=0)  # columns of unit size: the selection must not depend on the units of the state
    size[size == 0] = 1.0
    phi = phi / size
    num, terms = field.shape[1], phi.shape[1]
    exponents = monomials.exponents(len(place.unit), degree)
    unit = place.unit if power else np.ones(num)
    factor = _in_units_of_the_data(unit**power, place.unit, exponents) / size
    coefficients, errors, added, added_errors = np.zeros((4, num, terms))
    root, largest, digits = np.zeros((num, terms, terms)), np.full(num, np.nan), [0] * num
    for j in range(num):
        gram = (phi * weight[:, j, None]).T @ phi
        gram[np.diag_indices_from(gram)] += _RIDGE * gram.diagonal() + (gram.diagonal() == 0)  # a term that is 0
        right = phi.T @ (weight[:, j] * field[:, j])
        kept = select(gram, right, place.penalty)
        if power == 1 and j in place.moving and not kept.any():
            kept = _some(gram, right, place.penalty)
        coefficients[j, kept] = np.linalg.solve(gram[np.ix_(kept, kept)], right[kept])
        states = place.states(j, degree, size) if power == 2 else None
        if states is not None and not states.are_positive(coefficients[j]):
            kept, coefficients[j] = states.make_positive(gram, right, place.penalty, phi, field[:, j], kept)
        errors[j, kept] = np.sqrt(np.diag(np.linalg.inv(gram[np.ix_(kept, kept)])))
        added[j], added_errors[j] = if_added(gram, right, kept, coefficients[j])
        root[j] = root_of_inverse(gram)
        if not kept.any():
            largest[j] = largest_size(gram, right, weight[:, j]) * unit[j] ** power
        digits[j] = _digits(phi, coefficients[j], factor[j], states)
    misfit = np.mean((field - phi @ coefficients.T) ** 2, axis=0)
    size_of_field = np.mean(field**2, axis=0)
    explained = 1 - np.divide(misfit, size_of_field, out=np.zeros_like(misfit), where=size_of_field > 0)
    doubt = Doubt(factor[:, :, None] * root, added * factor, added_errors * factor, largest)
    return Polynomials(
        exponents,
        coefficients * factor,
        errors * factor,
        explained,
        None if place.observed is None else doubt,
        tuple(digits),
    )


def _some(
    gram: Float64[Array, "terms terms"], right: Float64[Array, " terms"], penalty: float
) -> Bool[Array, " terms"]:
    """The terms with the largest penalty that keeps any: of a drift that is there, but small beside its error.

    A posterior mean is nearer to zero than what the data say, and a penalty on top of that would be one too many.
    """
    for halvings in range(1, _MOST_HALVINGS):
        kept = select(gram, right, penalty * 0.5**halvings)
        if kept.any():
            return kept
    return np.zeros(len(right), bool)


def _in_units_of_the_data(
    field: Float64[Array, " outputs"], unit: Float64[Array, " dim"], exponents: Int[Array, "terms dim"]
) -> Float64[Array, "outputs terms"]:
    """What multiplies the coefficients of each polynomial: the unit of the field over those of the monomials."""
    with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
        factor = field[:, None] / np.prod(unit**exponents, axis=1)
    if not (np.isfinite(factor).all() and (factor > 0).all()):
        raise ConfigError(
            f"components range over {unit}, and some coefficients of degree {exponents.sum(axis=1).max()} are no "
            "float64 then. Choose other units, e.g. with observations.with_units(scale=...), or a smaller degree."
        )
    return factor


def _digits(
    phi: Float64[Array, "queries terms"],
    coefficients: Float64[Array, " terms"],
    factor: Float64[Array, " terms"],
    states: ObservedStates | None,
) -> int:
    """How many digits of the coefficients must be written for the same polynomial where data are."""
    exact = phi @ coefficients
    for digits in range(_FEWEST_DIGITS, _MOST_DIGITS):
        written = rounded(coefficients * factor, digits) / factor
        near = np.mean((phi @ written - exact) ** 2) <= _ROUNDING**2 * np.mean(exact**2)
        if near and (states is None or states.are_positive(written)):
            return digits
    return _MOST_DIGITS


def _rounded(mean: Float64[Array, " dim"], spread: Float64[Array, " dim"]) -> Float64[Array, " dim"]:
    """The mean to about a hundredth of the spread, so that formulas stay readable."""
    decimals = -np.floor(np.log10(spread / 10)).astype(int)
    return np.array([round(m, d) for m, d in zip(mean.tolist(), decimals.tolist(), strict=True)])
