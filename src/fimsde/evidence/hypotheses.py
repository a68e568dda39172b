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
from fimsde.evidence.smooth import LENGTHS, SmoothPosteriors, SmoothPrior, smooth_posteriors
from fimsde.evidence.sparse import Search, SparsePosteriors, SparsePrior, sparse_posteriors
from fimsde.shapes import Array, Bool, Float64

SPARSE_DRIFT = (  # a share of a third halves the probability with every further term
    SparsePrior("any", 1 / 3, (0, 1, 2, 3)),
    SparsePrior("few", 0.1, (0, 1, 2, 3)),
    SparsePrior("full", 0.95, (0, 1, 2, 3)),
    SparsePrior("odd", 1 / 3, (1, 3)),  # drifts that change their sign under a reflection
    SparsePrior("linear", 1 / 3, (0, 1)),
    SparsePrior("quadratic", 1 / 3, (0, 1, 2)),
)
SPARSE_RATE = (
    SparsePrior("any", 1 / 3, (0, 1, 2)),
    SparsePrior("few", 0.05, (0, 1, 2)),
    SparsePrior("even", 1 / 3, (0, 2)),  # variance rates that a reflection leaves alone
    SparsePrior("constant", 0.95, (0,), weight=9.0),  # most noise is the same everywhere
)
_DRIFT_SCALES, _RATE_SCALES = (1.0, 3.0, 9.0), (1.0,)  # sizes of the equation in standard deviations of the data
_LIKE = 1.5  # times: natural sizes that differ by less are one; by hand
_LARGER = (4.0, 16.0)  # natural sizes that coefficients may have as well: of a steep valley that bends, say
SMOOTH_DRIFT = tuple(SmoothPrior(length, degree) for degree in (-1, 1) for length in LENGTHS)
SMOOTH_RATE = tuple(SmoothPrior(length, 0) for length in LENGTHS[3:])
_NONE = 1 / 24  # probability that there is no drift
_OWN_WAY = 0.25  # probability that a component is of a kind of its own, whatever the others are; by hand

_NO_SIZE = 1e-100  # of a field where data do not move

PLACES = ("zero", "unknown")  # of the origin of sparse polynomials


def _names(priors: Sequence[SparsePrior], smooth: Sequence[SmoothPrior], last: Sequence[str]) -> tuple[str, ...]:
    sparse = [f"{prior.name}, origin {place}" for place in PLACES for prior in priors]
    return (*sparse, *(str(prior) for prior in smooth), *last)


DRIFT = _names(SPARSE_DRIFT, SMOOTH_DRIFT, ("none",))
RATE = _names(SPARSE_RATE, SMOOTH_RATE, ())


@dataclass(frozen=True, eq=False)
class Kept:
    """What posteriors of a field were made of; whole functions are drawn from it (`fimsde.evidence.draws`).

    Attributes:
        data: The log likelihood that hypotheses were weighed on.
        width: Natural size of the field, per component: of smooth functions.
        searches: What was looked at for sparse polynomials around each of `PLACES`; None where none was.
        num_priors: Of sparse polynomials.
        smooth: Priors of smooth functions.
    """

    data: Information
    width: Float64[Array, " dim"]
    searches: tuple[Search | None, ...]
    num_priors: int
    smooth: tuple[SmoothPrior, ...]


@dataclass(frozen=True, eq=False)
class Weighed:
    """Hypotheses about one field: what each makes of the data, and how likely it is, per component.

    Attributes:
        basis: Of the coefficients.
        evidence: log p(data | hypothesis), up to a constant; minus infinity if it was not considered.
        coefficients: E[b | data, hypothesis].
        weights: p(hypothesis | data).
        log_evidence: log p(data), over all hypotheses given what the other components say, up to the same constant.
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
        return float(self.weights[first : first + len(self.kept.smooth)].sum(axis=0).max())


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
    widths = [natural, speed] if (natural > _LIKE * speed).any() else [natural]
    larger = natural * _largeness(data.polynomial(basis.num_terms), basis, natural)
    if (larger > natural).any():
        widths.append(larger)
    return _weighed(data, basis, SPARSE_DRIFT, _DRIFT_SCALES, np.stack(widths), origin, SMOOTH_DRIFT, _NONE)


def _largeness(data: Information, basis: Basis, natural: Float64[Array, " dim"]) -> Float64[Array, " dim"]:
    """How many natural sizes wide the coefficients of a full polynomial are, per component: the likeliest of a few.

    A path along a valley that bends moves slowly, and across it hardly, however steep it is: there the terms of the
    drift are large, and nearly cancel each other where paths are.
    """
    slopes = np.maximum(basis.exponents.sum(axis=1) - 1, 0)
    likeliest, best = np.ones(len(natural)), np.full(len(natural), -np.inf)
    for times in (1.0, *_LARGER):
        for scale in _DRIFT_SCALES:
            precision = scale ** (2.0 * slopes) / np.maximum(times * natural[:, None], _NO_SIZE) ** 2
            found = data.log_evidence(precision)
            likeliest, best = np.where(found > best, times, likeliest), np.maximum(found, best)
    return likeliest


def weigh_rate(data: Information, basis: Basis, width: Float64[Array, " dim"], origin: Origin) -> Weighed:
    """Sparse quadratics around zero or an unknown origin, constants among them, and smooth functions."""
    return _weighed(data, basis, SPARSE_RATE, _RATE_SCALES, width[None], origin, SMOOTH_RATE, 0.0)


def _weighed(
    data: Information,
    basis: Basis,
    sparse: Sequence[SparsePrior],
    scales: Sequence[float],
    widths: Float64[Array, "widths dim"],
    origin: Origin,
    smooth: tuple[SmoothPrior, ...],
    none: float,
) -> Weighed:
    data = data.firm()
    dim, polynomial = widths.shape[1], data.polynomial(basis.num_terms)
    rest = smooth_posteriors(data, basis, smooth, widths[0])
    if none > 0:  # the log likelihood is zero at b = 0
        nothing = np.zeros((1, dim, basis.size))
        rest = SmoothPosteriors(np.vstack([rest.evidence, nothing[:, :, 0]]), np.vstack([rest.coefficients, nothing]))
    otherwise = logsumexp(rest.evidence, axis=0) - np.log(len(rest.evidence))
    found = []
    for place, considered in ((origin.place, origin.place is not None), (None, not origin.is_sure)):
        if considered:
            found.append(sparse_posteriors(polynomial, basis.degree, sparse, widths, scales, place, otherwise))
        else:
            found.append(_impossible(len(sparse), dim, basis.num_terms))
    of_sparse = np.zeros((len(PLACES) * len(sparse), dim, basis.size))
    of_sparse[:, :, : basis.num_terms] = np.concatenate([part.coefficients for part in found])
    evidence = np.vstack([*(part.evidence for part in found), rest.evidence])
    held = np.isfinite(rest.evidence[: len(smooth)]).all(axis=1)  # lengths that the grid can hold
    weights, total = _weights(evidence, _prior(sparse, held, none), _kinds(sparse, smooth, none))
    kept = Kept(data, widths[0], tuple(part.search for part in found), len(sparse), smooth)
    return Weighed(basis, evidence, np.concatenate([of_sparse, rest.coefficients]), weights, total, kept)


def _impossible(num: int, dim: int, terms: int) -> SparsePosteriors:
    return SparsePosteriors(np.full((num, dim), -np.inf), np.zeros((num, dim, terms)))


def _prior(sparse: Sequence[SparsePrior], held: Bool[Array, " smooth"], none: float) -> Float64[Array, " hypotheses"]:
    """A third each for sparse around zero, sparse around an unknown origin, and the rest; priors by their weights."""
    weights = np.array([prior.weight for prior in sparse])
    share = weights / weights.sum() / 3.0
    smooth = (1 / 3 - none) * held / max(int(held.sum()), 1)
    return np.concatenate([share, share, smooth, [none] * (none > 0)])


def _kinds(
    sparse: Sequence[SparsePrior], smooth: Sequence[SmoothPrior], none: float
) -> Bool[Array, "kinds hypotheses"]:
    """Which hypotheses are of a kind: polynomials of one degree and place, and smooth functions of one length."""
    polynomials = [(place, max(prior.degrees)) for place in PLACES for prior in sparse]
    kind_of = [*polynomials, *(("smooth", prior.length) for prior in smooth), *([("none", 0)] * (none > 0))]
    return np.array([[kind == other for other in kind_of] for kind in dict.fromkeys(kind_of)])


def _weights(
    evidence: Float64[Array, "hypotheses dim"],
    prior: Float64[Array, " hypotheses"],
    kinds: Bool[Array, "kinds hypotheses"],
) -> tuple[Float64[Array, "hypotheses dim"], Float64[Array, " dim"]]:
    """p(hypothesis | data) and log p(data) of every component, given what the others say of the kind of the equation.

    p(h_1, ..., h_d) = sum_k p(k) prod_c [(1 - ε) p(h_c | k) + ε p(h_c)]: components of an equation tend to be of one
    kind k, and each goes its own way with probability ε. By itself, a component has the prior p(h) whatever ε is.
    """
    of_kind = kinds.astype(np.float64) @ prior
    kinds, of_kind = kinds[of_kind > 0], of_kind[of_kind > 0]
    given = (1.0 - _OWN_WAY) * kinds * prior / of_kind[:, None] + _OWN_WAY * prior  # (kinds, hypotheses)
    with np.errstate(divide="ignore"):
        joint = evidence[None] + np.log(given)[:, :, None]  # (kinds, hypotheses, dim)
    own = logsumexp(joint, axis=1)  # (kinds, dim)
    others = np.log(of_kind)[:, None] + own.sum(axis=1, keepdims=True) - own
    others -= logsumexp(others, axis=0)
    total = logsumexp(others + own, axis=0)
    return np.exp(logsumexp(joint + others[:, None], axis=0) - total), total
