"""Hypotheses about a field, with their evidences and posterior means, and how they are averaged.

`DRIFT` and `RATE` name them in order. All of them are priors of coefficients in one basis, weighed on one quadratic log
likelihood, so that their evidences can be compared.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fimsde.distributions import logsumexp
from fimsde.evidence.basis import Basis
from fimsde.evidence.information import Information
from fimsde.evidence.smooth import LENGTHS, SmoothPosteriors, smooth_posteriors
from fimsde.evidence.sparse import Search, SparsePosteriors, SparsePrior, sparse_posteriors
from fimsde.shapes import Array, Float64

SPARSE_DRIFT = (  # a share of a third halves the probability with every further term
    SparsePrior("any", 1 / 3, (0, 1, 2, 3)),
    SparsePrior("few", 0.1, (0, 1, 2, 3)),
    SparsePrior("full", 0.95, (0, 1, 2, 3)),
    SparsePrior("odd", 1 / 3, (1, 3)),  # drifts that change their sign under a reflection
    SparsePrior("linear", 1 / 3, (0, 1)),
)
SPARSE_RATE = (
    SparsePrior("any", 1 / 3, (0, 1, 2)),
    SparsePrior("few", 0.05, (0, 1, 2)),
    SparsePrior("even", 1 / 3, (0, 2)),  # variance rates that a reflection leaves alone
    SparsePrior("constant", 0.95, (0,), weight=9.0),  # most noise is the same everywhere
)
_DRIFT_SCALES, _RATE_SCALES = (1.0, 3.0, 9.0), (1.0,)  # sizes of the equation in standard deviations of the data
_LIKE = 1.5  # times: natural sizes that differ by less are one; by hand
_LINEAR, _CONSTANT = 1, 0  # degrees of the polynomials beside a process
RATE_LENGTHS = LENGTHS[3:]

PLACES = ("zero", "unknown")  # of the origin of sparse polynomials


def _names(priors: Sequence[SparsePrior], lengths: Sequence[float], last: Sequence[str]) -> tuple[str, ...]:
    sparse = [f"{prior.name}, origin {place}" for place in PLACES for prior in priors]
    return (*sparse, *(f"smooth {length:g}" for length in lengths), *last)


DRIFT = _names(SPARSE_DRIFT, LENGTHS, ("none",))
RATE = _names(SPARSE_RATE, RATE_LENGTHS, ())


@dataclass(frozen=True, eq=False)
class Kept:
    """What posteriors of a field were made of; whole functions are drawn from it (`fimsde.evidence.draws`).

    Attributes:
        data: The log likelihood that hypotheses were weighed on.
        width: Natural size of the field, per component: of smooth functions.
        searches: What was looked at for sparse polynomials around each of `PLACES`; None where none was.
        num_priors: Of sparse polynomials.
        lengths: Of smooth functions.
        degree: Of the polynomials beside these.
    """

    data: Information
    width: Float64[Array, " dim"]
    searches: tuple[Search | None, ...]
    num_priors: int
    lengths: tuple[float, ...]
    degree: int


@dataclass(frozen=True, eq=False)
class Weighed:
    """Hypotheses about one field: what each makes of the data, and how likely it is, per component.

    Attributes:
        basis: Of the coefficients.
        evidence: log p(data | hypothesis), up to a constant; minus infinity if it was not considered.
        coefficients: E[b | data, hypothesis].
        weights: p(hypothesis | data).
        log_evidence: log p(data), over all hypotheses, up to the same constant.
        kept: What draws are made of.
    """

    basis: Basis
    evidence: Float64[Array, "hypotheses dim"]
    coefficients: Float64[Array, "hypotheses dim size"]
    weights: Float64[Array, "hypotheses dim"]
    log_evidence: Float64[Array, " dim"]
    kept: Kept

    @property
    def mean(self) -> Float64[Array, "size dim"]:
        """E[b | data], over all hypotheses."""
        return np.ascontiguousarray(np.einsum("hd,hdt->td", self.weights, self.coefficients))

    @property
    def smooth_share(self) -> float:
        """The probability that the field is no polynomial, of the component where it is largest."""
        first = len(PLACES) * self.kept.num_priors
        return float(self.weights[first : first + len(self.kept.lengths)].sum(axis=0).max())


@dataclass(frozen=True, eq=False)
class Origin:
    """Where polynomials may be sparse around: a place that is special, an unknown one, or either.

    Attributes:
        place: The place, in normalised coordinates; None: no place is special.
        is_sure: Whether it must be that place.
    """

    place: Float64[Array, " dim"] | None
    is_sure: bool = False


def weigh_drift(
    data: Information, basis: Basis, speed: Float64[Array, " dim"], level: Float64[Array, " dim"], origin: Origin
) -> Weighed:
    """Sparse cubics around zero or an unknown origin, smooth functions of every length, and none.

    Coefficients are of the size of what moves a path by a standard deviation, the speed, or of what holds it against
    its noise: in a stationary state f = g (log p)' / 2, and log p changes by a few units in a standard deviation, so
    that drifts are of the size of g even where paths rarely leave a well, and are slow.
    """
    natural = np.maximum(speed, level)
    smooth = smooth_posteriors(data, basis, _LINEAR, natural)
    none = np.zeros(len(speed))  # the log likelihood is zero at b = 0
    widths = np.stack([speed, natural] if (natural > _LIKE * speed).any() else [natural])
    sparse = SPARSE_DRIFT, _DRIFT_SCALES
    return _weighed(data, basis, *sparse, widths, origin, smooth, LENGTHS, _LINEAR, none)


def weigh_rate(data: Information, basis: Basis, width: Float64[Array, " dim"], origin: Origin) -> Weighed:
    """Sparse quadratics around zero or an unknown origin, constants among them, and smooth functions."""
    smooth = smooth_posteriors(data, basis, _CONSTANT, width, RATE_LENGTHS)
    sparse = SPARSE_RATE, _RATE_SCALES
    return _weighed(data, basis, *sparse, width[None], origin, smooth, RATE_LENGTHS, _CONSTANT, None)


def _weighed(
    data: Information,
    basis: Basis,
    priors: Sequence[SparsePrior],
    scales: Sequence[float],
    widths: Float64[Array, "widths dim"],
    origin: Origin,
    smooth: SmoothPosteriors,
    lengths: tuple[float, ...],
    degree: int,
    none: Float64[Array, " dim"] | None,
) -> Weighed:
    dim, evidence, coefficients = widths.shape[1], smooth.evidence, smooth.coefficients
    polynomial = data.polynomial(basis.num_terms)
    rest = evidence if none is None else np.vstack([evidence, none])
    otherwise = logsumexp(rest, axis=0) - np.log(len(rest)) if len(rest) else np.full(dim, -np.inf)
    found = []
    for place, considered in ((origin.place, origin.place is not None), (None, not origin.is_sure)):
        if considered:
            found.append(sparse_posteriors(polynomial, basis.degree, priors, widths, scales, place, otherwise))
        else:
            found.append(_impossible(len(priors), dim, basis.num_terms))
    sparse = np.zeros((len(PLACES) * len(priors), dim, basis.size))
    sparse[:, :, : basis.num_terms] = np.concatenate([part.coefficients for part in found])
    all_evidence = np.vstack([*(part.evidence for part in found), rest])
    all_coefficients = np.concatenate(
        [sparse, coefficients, *([] if none is None else [np.zeros((1, dim, basis.size))])]
    )
    prior = _log_prior(priors, len(rest))
    weights = all_evidence + prior[:, None]
    total = logsumexp(weights, axis=0)
    kept = Kept(data, widths[-1], tuple(part.search for part in found), len(priors), lengths, degree)
    return Weighed(basis, all_evidence, all_coefficients, np.exp(weights - total), total, kept)


def _impossible(num: int, dim: int, terms: int) -> SparsePosteriors:
    return SparsePosteriors(np.full((num, dim), -np.inf), np.zeros((num, dim, terms)))


def _log_prior(priors: Sequence[SparsePrior], num_rest: int) -> Float64[Array, " hypotheses"]:
    """A third each for sparse around zero, sparse around an unknown origin, and the rest; priors by their weights."""
    sparse = np.array([prior.weight for prior in priors]) / sum(prior.weight for prior in priors)
    return np.log(np.concatenate([sparse, sparse, np.full(num_rest, 1.0 / max(num_rest, 1))]) / 3.0)
