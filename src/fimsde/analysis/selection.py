"""Which terms a sparse polynomial keeps, by the Bayesian information criterion, and how it is kept positive at states.

A misfit is a quadratic form in the coefficients, c·gram·c - 2 right·c, in units of twice the log-likelihood; every term
costs a penalty.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from fimsde.shapes import Array, Bool, Float64

Criterion = Callable[[Bool[Array, " terms"]], float]
_MOST_CUTS = 300  # states at which a polynomial is held above its floor; by hand: bounds seconds
_MARGIN = 1e-6  # of the floor, by which it is held above; by hand: more than rounding, less than is seen
# what non-negative least squares leaves of one if no polynomial is above the floor: zero but for rounding; by hand
_INFEASIBLE = 1e-9


def select(
    gram: Float64[Array, "terms terms"], right: Float64[Array, " terms"], penalty: float
) -> Bool[Array, " terms"]:
    """The terms S with the smallest penalty num(S) - r_S' G_SS^-1 r_S that single additions and removals reach.

    G is `gram`, r is `right` and num(S) the number of terms. The second part is what the best
    coefficients gain; searches start from all terms and from none.
    """

    def criterion(kept: Bool[Array, " terms"]) -> float:
        solution = np.linalg.solve(gram[np.ix_(kept, kept)], right[kept])
        return float(penalty * kept.sum() - right[kept] @ solution)

    ends = [_improved(np.full(len(right), start), criterion) for start in (True, False)]
    return min(ends, key=criterion)


@dataclass(frozen=True, eq=False)
class Floor:
    """Where a polynomial must not be below a level: monomials at states, and the level there, zero or positive."""

    phi: Float64[Array, "states terms"]
    level: Float64[Array, " states"]

    def is_kept(self, coefficients: Float64[Array, " terms"]) -> bool:
        """Whether the polynomial is above the floor everywhere."""
        return bool(np.all(self.phi @ coefficients >= self.level))


def select_above(
    gram: Float64[Array, "terms terms"],
    right: Float64[Array, " terms"],
    penalty: float,
    floor: Floor,
    start: Bool[Array, " terms"],
) -> tuple[Bool[Array, " terms"], Float64[Array, " terms"]]:
    """Terms and coefficients with the smallest criterion of all polynomials above a floor, by single steps.

    The constant alone can always be above it, so there is an answer; `start` is another beginning of the search.
    """
    known: dict[bytes, Float64[Array, " terms"] | None] = {}

    def fitted(kept: Bool[Array, " terms"]) -> Float64[Array, " terms"] | None:
        key = kept.tobytes()
        if key not in known:
            known[key] = fit_above(gram, right, kept, floor)
        return known[key]

    def criterion(kept: Bool[Array, " terms"]) -> float:
        c = fitted(kept)
        return np.inf if c is None else float(penalty * kept.sum() + c @ gram @ c - 2 * right @ c)

    def bound(kept: Bool[Array, " terms"]) -> float:  # without the floor: quick, and never larger
        solution = np.linalg.solve(gram[np.ix_(kept, kept)], right[kept])
        return float(penalty * kept.sum() - right[kept] @ solution)

    constant = np.arange(len(right)) == 0
    best = min((_improved(s, criterion, bound) for s in (start | constant, constant)), key=criterion)
    coefficients = fitted(best)
    assert coefficients is not None, "a constant is above any floor"
    return best, coefficients


def fit_above(
    gram: Float64[Array, "terms terms"],
    right: Float64[Array, " terms"],
    kept: Bool[Array, " terms"],
    floor: Floor,
) -> Float64[Array, " terms"] | None:
    """The c with the smallest c' G c - 2 r' c and phi c >= level, zero for terms not kept; None if there are none.

    Lawson and Hanson's least-distance problem, with the states at which the floor was broken added one by one.
    """
    coefficients = np.zeros(len(right))
    if not kept.any():
        return coefficients if floor.is_kept(coefficients) else None
    root = np.linalg.cholesky(gram[np.ix_(kept, kept)])
    free = np.linalg.solve(root.T, np.linalg.solve(root, right[kept]))
    rows = np.linalg.solve(root, floor.phi[:, kept].T).T  # in coordinates in which the misfit is a squared distance
    size = np.linalg.norm(rows, axis=1)
    size[size == 0] = 1.0
    held: list[int] = []
    solution = free
    for _ in range(_MOST_CUTS):
        missing = (floor.level - floor.phi[:, kept] @ solution) / size
        worst = int(np.argmax(missing))
        if not missing[worst] > 0:
            coefficients[kept] = solution
            return coefficients
        if worst in held:  # rounding: it is held already
            return None
        held.append(worst)
        target = floor.level[held] * (1 + _MARGIN) + _MARGIN * floor.level.mean() * (floor.level[held] == 0)
        step = _least_distance(rows[held] / size[held, None], (target - floor.phi[held][:, kept] @ free) / size[held])
        if step is None:
            return None
        solution = free + np.linalg.solve(root.T, step)
    return None


def _least_distance(
    rows: Float64[Array, "states kept"], least: Float64[Array, " states"]
) -> Float64[Array, " kept"] | None:
    """The shortest u with rows @ u >= least; None if there is none."""
    scale = np.abs(least).max()
    matrix = np.vstack([rows.T, least / scale])
    target = np.zeros(len(matrix))
    target[-1] = 1.0
    weights, distance = nnls(matrix, target)
    residual = matrix @ weights - target
    if distance < _INFEASIBLE or not residual[-1] < 0:  # minus its square, but for rounding
        return None
    return -scale * residual[:-1] / residual[-1]


def _improved(
    kept: Bool[Array, " terms"], criterion: Criterion, bound: Criterion = lambda kept: -np.inf
) -> Bool[Array, " terms"]:
    """The end of a walk that adds or removes one term at a time as long as the criterion falls.

    What `bound`, which is never larger than the criterion, already rules out is not looked at.
    """
    best, value = kept, criterion(kept)
    while True:
        neighbours = [best ^ flip for flip in np.eye(len(kept), dtype=bool)]
        values = [criterion(n) if bound(n) < value else np.inf for n in neighbours]
        if not min(values) < value:
            return best
        best, value = neighbours[int(np.argmin(values))], min(values)
