"""Fixed points as a table of the report."""

import numpy as np

from fimsde.analysis.draws import LEVEL
from fimsde.analysis.fixed_points import FixedPoint, place
from fimsde.plots.style import time_word
from fimsde.report.blocks import Block, Note, Paragraph, table
from fimsde.report.findings import Findings
from fimsde.shapes import Array, Float64

_NO_BREAK, _MINUS = "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"


def fixed_points(found: Findings) -> Block:
    """States at which the drift vanishes, with their errors and what the formula says."""
    if isinstance(points := found.points, str):
        return Note("caution", points)
    if not points:
        return Paragraph("The drift vanishes nowhere in the range of the data: no fixed point.")
    head = (*found.result.names, "kind", f"eigenvalues (1 / {time_word(found.result.time_unit)})", "data nearby")
    low, high = found.observations.box()
    rows = [_point(p, high - low) for p in points]
    if all(p.error is not None for p in points):
        head = (*head, f"where ({LEVEL:.0%})", "probability")
        rows = [(*row, *_error(p, high - low)) for row, p in zip(rows, points, strict=True)]
    if (agreement := found.agreement) is not None:
        head = (*head, "in the formula")
        partners = [agreement.in_formula(k) for k in range(len(points))]
        rows = [
            (*row, "no" if p is None else f"at {', '.join(place(p.x, high - low))}")
            for row, p in zip(rows, partners, strict=True)
        ]
    return table(head, rows, "States at which the drift vanishes.")


def _point(point: FixedPoint, width: Float64[Array, " dim"]) -> tuple[str, ...]:
    return (
        *place(point.x, width),
        point.kind,
        ", ".join(_complex(e) for e in point.eigenvalues),
        "yes" if point.inside else "no",
    )


def _error(point: FixedPoint, width: Float64[Array, " dim"]) -> tuple[str, str]:
    """Between which states draws of the posterior have the point, and how many of them have it."""
    assert point.error is not None, "asked for by the caller"
    if point.error.probability == 0:
        return "in no draw", "0 %"
    ends = (place(np.atleast_1d(end), width) for end in (point.error.x.low, point.error.x.high))
    return "; ".join(
        f"{low} to {high}".replace(" ", _NO_BREAK) for low, high in zip(*ends, strict=True)
    ), f"{point.error.probability:.0%}"


def _complex(number: complex) -> str:
    if abs(number.imag) < 1e-9 * max(abs(number), 1e-300):
        return f"{number.real:.3g}"
    return f"{number.real:.3g}{_NO_BREAK}{'+' if number.imag > 0 else _MINUS}{_NO_BREAK}{abs(number.imag):.3g}i"
