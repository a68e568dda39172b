"""Fixed points of a field beside those of its formula: the same, or a sentence that says which differ and why.

Roots are partners if they turn paths the same way (sign of the determinant of the Jacobian) and are no farther apart
than the error of the drift moves them. A root without a partner is either one that the data do not decide, since
the other drift there is within its error of zero, or one that the formula is too simple for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.special import chdtri

from fimsde.analysis import fixed_points
from fimsde.analysis.box import Box, Supported, to_box
from fimsde.analysis.equation import Equation
from fimsde.analysis.fixed_points import FixedPoint
from fimsde.analysis.naming import in_text
from fimsde.equations.sde import SDE, fields
from fimsde.shapes import Array, Float64

_LEVEL = 0.95  # of the tests behind the sentence; the customary level
_SAME = 3e-3  # of the box: roots that are equal, errors aside; as in `fixed_points`
_NEVER = 1e9  # distance of roots that cannot be partners; any number far above 1, where partners end


@dataclass(frozen=True, eq=False)
class Agreement:
    """Fixed points of the field and of the formula in the same box.

    Attributes:
        points: Of the field.
        formula_points: Of the formula.
        partners: For each of `points` its number in `formula_points`; None if the formula has no such point.
        sentence: What is the same and what is not, and why.
    """

    points: tuple[FixedPoint, ...]
    formula_points: tuple[FixedPoint, ...]
    partners: tuple[int | None, ...]
    sentence: str

    @property
    def is_complete(self) -> bool:
        """Whether every fixed point has a partner."""
        return None not in self.partners and len(self.points) == len(self.formula_points)

    def in_formula(self, number: int) -> FixedPoint | None:
        """The partner of one of `points`."""
        partner = self.partners[number]
        return None if partner is None else self.formula_points[partner]


def compare_fixed_points(
    result: Supported, equation: Equation, points: Sequence[FixedPoint] | None = None, box: Box | None = None
) -> Agreement:
    """Look for the fixed points of the formula of a result where those of its field are.

    Args:
        result: The field.
        equation: Its formula.
        points: Fixed points of the field, if they are known.
        box: Where to look; by default where the data are.
    """
    low, high = to_box(box, result.dim, result.observations)
    own = fixed_points.find(result, low, high, result.inside) if points is None else tuple(points)
    still = [name for name, c in zip(equation.names, equation.drift_terms.coefficients, strict=True) if not c.any()]
    if still:
        names = ", ".join(map(in_text, still))
        sentence = f"The formula has no drift of {names}, and so no fixed points; the field has {len(own) or 'none'}."
        return Agreement(own, (), (None,) * len(own), _joined(sentence, _field_only(equation, own, high - low)))
    roots = fixed_points.find_roots(equation, low, high)
    if len(roots) > _most_roots(equation):
        sentence = "The drift of the formula vanishes along whole lines, not at single states."
        return Agreement(own, (), (None,) * len(own), sentence)
    near = result.inside(roots)
    theirs = tuple(fixed_points.describe(equation, x, high - low, bool(n)) for x, n in zip(roots, near, strict=True))
    partners = _partners(equation, own, theirs, high - low)
    return Agreement(own, theirs, partners, _sentence(result, equation, own, theirs, partners, high - low))


def _most_roots(equation: Equation) -> int:
    """Bezout: more isolated roots than the product of the degrees do not exist."""
    terms = equation.drift_terms
    degrees = [int(terms.exponents[c != 0].sum(axis=1).max()) for c in terms.coefficients]
    return int(np.prod(degrees))


def _partners(
    equation: Equation, points: Sequence[FixedPoint], others: Sequence[FixedPoint], width: Float64[Array, " dim"]
) -> tuple[int | None, ...]:
    partners: list[int | None] = [None] * len(points)
    if not points or not others:
        return tuple(partners)
    distance = np.array([[_distance(equation, p, q, width) for q in others] for p in points])
    for i, k in zip(*linear_sum_assignment(np.minimum(distance, _NEVER)), strict=True):
        if distance[i, k] <= 1:
            partners[i] = int(k)
    return tuple(partners)


def _distance(equation: Equation, point: FixedPoint, other: FixedPoint, width: Float64[Array, " dim"]) -> float:
    """sqrt(sum_i (J (x - x'))_i² / e_i² / q): distance of two roots, 1 at the edge of what the errors allow.

    J is the Jacobian of the formula at its root x', e its standard errors there and q the quantile of chi². Roots that
    are equal in the picture are near whatever the errors are.
    """
    if _turn(point) * _turn(other) < 0:
        return _NEVER
    apart = point.x - other.x
    plain = float(np.max(np.abs(apart) / width)) / _SAME
    slopes = fixed_points.jacobian(equation, other.x[None], width)[0]
    errors = equation.drift_terms.errors_at((other.x - equation.origin)[None])[0]
    moved = np.divide(slopes @ apart, errors, out=np.full(len(apart), np.inf), where=errors > 0)  # in standard errors
    return min(plain, float(np.sqrt(np.sum(moved**2) / chdtri(len(apart), 1 - _LEVEL))))


def _turn(point: FixedPoint) -> float:
    return 0.0 if point.kind == "unclear" else float(np.sign(np.prod(point.eigenvalues).real))


def _sentence(
    result: Supported,
    equation: Equation,
    points: Sequence[FixedPoint],
    others: Sequence[FixedPoint],
    partners: tuple[int | None, ...],
    width: Float64[Array, " dim"],
) -> str:
    alone = [p for p, k in zip(points, partners, strict=True) if k is None]
    missing = [q for k, q in enumerate(others) if k not in partners]
    if not alone and not missing:
        return _same(len(points))
    counts = f"The field has {_count(len(points))}, the formula {len(others) or 'none'}."
    return _joined(counts, _field_only(equation, alone, width), _why(missing, equation, result, "formula", width))


def _same(count: int) -> str:
    if count == 0:
        return "Neither the drift of the field nor that of the formula vanishes in the range of the data."
    return f"Field and formula have the same {_count(count).removeprefix('one ')}, within the errors of the drift."


def _count(count: int) -> str:
    return {0: "no fixed point", 1: "one fixed point"}.get(count, f"{count} fixed points")


def _field_only(equation: Equation, points: Sequence[FixedPoint], width: Float64[Array, " dim"]) -> str:
    return _why(points, equation, equation, "field", width)


def _why(
    points: Sequence[FixedPoint], equation: Equation, other: SDE, whose: str, width: Float64[Array, " dim"]
) -> str:
    """Why these roots are roots of one drift only: what the other drift is there."""
    far = [p for p in points if not p.inside]
    open_ones = [p for p in points if p.inside and _is_small(equation, other, p.x)]
    wrong = [p for p in points if p.inside and not _is_small(equation, other, p.x)]
    reasons = (
        (far, "no data are nearby"),
        (open_ones, "the two differ by less than the error of the drift: the data do not decide"),
        (wrong, "the two differ by more than the error of the drift: the formula is too simple there"),
    )
    said = [(_places(equation, group, width), reason) for group, reason in reasons if group]
    return " ".join(f"At {places} ({whose} only) {reason}." for places, reason in said)


def _is_small(equation: Equation, drift: SDE, x: Float64[Array, " dim"]) -> bool:
    """sum_i f_i² / e_i² <= q: whether a drift is within its errors e of zero, q being the quantile of chi²."""
    values = fields(drift, x[None])[0][0]
    errors = equation.drift_terms.errors_at((x - equation.origin)[None])[0]
    scores = np.divide(values, errors, out=np.where(values == 0, 0.0, np.inf), where=errors > 0)
    return bool(np.sum(scores**2) <= chdtri(len(x), 1 - _LEVEL))


def _places(equation: Equation, points: Sequence[FixedPoint], width: Float64[Array, " dim"]) -> str:
    shown = [", ".join(fixed_points.place(p.x, width)) for p in points]
    if equation.dim == 1:
        return f"{in_text(equation.names[0])} = {', '.join(shown)}"
    return ", ".join(f"({place})" for place in shown)


def _joined(*sentences: str) -> str:
    return " ".join(s for s in sentences if s)
