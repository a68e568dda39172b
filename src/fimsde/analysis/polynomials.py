"""Sparse polynomials with what is known about their coefficients: errors of terms that were kept and left out."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from scipy.special import ndtri

from fimsde import distributions as stats
from fimsde.bank import monomials
from fimsde.shapes import Array, Bool, Float, Float64, Int

LEVEL = 0.95  # of every interval and bound; the customary one
# of the diagonal: what the data know about a direction in the space of the terms; by hand: a thousand ridges
_LEAST_RANK = 1e-9


@dataclass(frozen=True, eq=False)
class Doubt:
    """What the data leave open about polynomials.

    Attributes:
        root: Its product with its transpose is the covariance of the coefficients if all terms of the library are kept.
        added, added_errors: Coefficient and standard error of each term that was left out, if it alone were added to
            the formula; zero for terms that were kept.
        largest: Root mean square over the data that the field may have at most (`LEVEL`), for components without any
            term; nan for the others.
    """

    root: Float64[Array, "outputs terms terms"]
    added: Float64[Array, "outputs terms"]
    added_errors: Float64[Array, "outputs terms"]
    largest: Float64[Array, " outputs"]

    def interval(self, component: int, term: int) -> tuple[float, float]:
        """c ± z e: where the coefficient of a term that was left out is, z being the normal quantile of `LEVEL`."""
        middle, error = self.added[component, term], self.added_errors[component, term]
        reach = float(ndtri((1 + LEVEL) / 2)) * error
        return float(middle - reach), float(middle + reach)


@dataclass(frozen=True, eq=False)
class Polynomials:
    """Sparse polynomials in x - origin, one per component, or one per pair of components.

    Attributes:
        exponents: Of every monomial in the library.
        coefficients: Zero for terms that were left out.
        standard_errors: Of the coefficients, given the terms; zero for terms that were left out.
        explained: Share of the mean square of the field over the data, per polynomial.
        doubt: What the data leave open; None if there are no data.
        digits: Of the coefficients in writing, per component: with them the polynomial is the same where data are.
        intervals: Ends of the intervals of the coefficients in draws of the posterior; None without one.
        probabilities: Of each term to be there, by the same draws; None if they do not say.
        level: Of the intervals.
    """

    exponents: Int[Array, "terms dim"]
    coefficients: Float64[Array, "outputs terms"]
    standard_errors: Float64[Array, "outputs terms"]
    explained: Float64[Array, " outputs"]
    doubt: Doubt | None = None
    digits: tuple[int, ...] | None = None
    intervals: Float64[Array, "2 outputs terms"] | None = None
    probabilities: Float64[Array, "outputs terms"] | None = None
    level: float = 0.9

    @property
    def degree(self) -> int:
        """Of the library."""
        return int(self.exponents.sum(axis=1).max())

    def __call__(self, z: Float[Array, "queries dim"]) -> Float64[Array, "queries outputs"]:
        """sum_k c_k z^k over the monomials z^k: values at locations z relative to the origin."""
        return monomials.evaluate(z, self.degree) @ self.coefficients.T

    def errors_at(self, z: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """sqrt(phi' C phi): standard errors of the field, were it a polynomial with all terms.

        phi are the monomials at locations relative to the origin, C the covariance of the coefficients.
        """
        if self.doubt is None:
            return np.zeros(z.shape)
        phi = monomials.evaluate(z, self.degree)
        return np.linalg.norm(np.einsum("qt,jts->jqs", phi, self.doubt.root), axis=2).T


def rounded(coefficients: Float64[Array, "*lead"], digits: int) -> Float64[Array, "*lead"]:
    """Coefficients as they are written with so many significant digits."""
    shown = [float(f"{c:.{digits}g}") for c in np.ravel(coefficients).tolist()]
    return np.array(shown).reshape(np.shape(coefficients))


def root_of_inverse(gram: Float64[Array, "terms terms"]) -> Float64[Array, "terms terms"]:
    """V L^-1/2 for gram = V L V': a matrix whose product with its transpose is the inverse."""
    values, vectors = np.linalg.eigh(gram)
    return vectors / np.sqrt(np.maximum(values, np.finfo(float).eps * values.max()))


def if_added(
    gram: Float64[Array, "terms terms"],
    right: Float64[Array, " terms"],
    kept: Bool[Array, " terms"],
    coefficients: Float64[Array, " terms"],
) -> tuple[Float64[Array, " terms"], Float64[Array, " terms"]]:
    """(r - G c)_k / s_k and 1 / sqrt(s_k): coefficient and error of term k, if it alone joins those that were kept.

    G is `gram`, r `right` and c the coefficients of the kept terms K. s_k = G_kk - G_kK G_KK^-1 G_Kk is what the terms
    that were kept leave of term k.
    """
    others = ~kept
    with_kept = np.linalg.solve(gram[np.ix_(kept, kept)], gram[np.ix_(kept, others)])
    own = gram.diagonal()[others] - np.sum(gram[np.ix_(kept, others)] * with_kept, axis=0)
    own = np.maximum(own, np.finfo(float).eps * gram.diagonal()[others])  # a term that those kept can replace
    added, errors = np.zeros((2, len(right)))
    added[others] = (right - gram @ coefficients)[others] / own
    errors[others] = 1 / np.sqrt(own)
    return added, errors


def largest_size(
    gram: Float64[Array, "terms terms"], right: Float64[Array, " terms"], weight: Float64[Array, " queries"]
) -> float:
    """sqrt(q / sum of weights): root mean square that a field may have at most, with confidence `LEVEL`.

    q is the quantile of non-central chi² with r' G^-1 r, the size of the estimate, and as many degrees of freedom as
    the data know directions.
    """
    found = max(float(right @ np.linalg.solve(gram, right)), 0.0)
    rank = np.linalg.matrix_rank(gram, tol=_LEAST_RANK * np.abs(gram).max(), hermitian=True)
    return float(np.sqrt(stats.ncx2.ppf(LEVEL, max(int(rank), 1), found) / weight.sum()))


@runtime_checkable
class Written(Protocol):
    """What is written down of an equation: polynomials in x - origin for drift and variance rate, and names."""

    @property
    def dim(self) -> int: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def symbols(self) -> tuple[str, ...]: ...

    @property
    def origin(self) -> Float64[Array, " dim"]: ...

    @property
    def drift_terms(self) -> Polynomials: ...

    @property
    def diffusion_sq_terms(self) -> Polynomials: ...

    @property
    def correlation_terms(self) -> Polynomials | None: ...
