"""Formulas as text with marks, broken only between terms: no script, no font and no picture is needed to read them."""

from collections.abc import Sequence

import numpy as np

from fimsde.analysis import formula
from fimsde.analysis.equation import Equation
from fimsde.analysis.formula import bare, digits_of, plain_number, text_factors
from fimsde.analysis.naming import on_one_line
from fimsde.analysis.polynomials import Polynomials
from fimsde.analysis.remarks import left_out
from fimsde.report.blocks import Formula, FormulaLine, Piece

_MINUS = "\N{MINUS SIGN}"


def formula_block(equation: Equation, *, errors: bool = False) -> Formula:
    """One line per component; terms are not broken unless they are longer than the page is wide.

    Args:
        equation: The equation.
        errors: Whether coefficients are written with their standard errors.
    """
    groups = [_groups(equation, j, errors) for j in range(equation.dim)]
    groups += [_correlation_groups(equation, k, pair, errors) for k, pair in formula.pairs(equation)]
    texts = formula.text(equation, errors=errors).splitlines()
    return Formula(tuple(FormulaLine(line, text) for line, text in zip(groups, texts, strict=True)))


def columns(equation: Equation) -> tuple[str, ...]:
    """What `terms` gives of each term: its error is that of the answer, by draws of a posterior if there are any."""
    drift = equation.drift_terms
    if drift.intervals is None:
        return "term", "coefficient", "standard error"
    return "term", "coefficient", f"{drift.level:.0%} interval", "probability"


def terms(equation: Equation, polynomials: Polynomials, component: int) -> list[tuple[str, ...]]:
    """Term, coefficient and its error, of everything that was kept for a component."""
    rows, factors = [], text_factors(equation)
    digits = max(4, digits_of(polynomials, component))
    for k, powers in enumerate(polynomials.exponents):
        if coefficient := float(polynomials.coefficients[component, k]):
            term = formula.monomial(powers.tolist(), factors) or "1"
            rows.append((term, plain_number(coefficient, digits), *_error(polynomials, component, k)))
    return rows


def _error(polynomials: Polynomials, component: int, term: int) -> tuple[str, ...]:
    if polynomials.intervals is None:
        return (f"{polynomials.standard_errors[component, term]:.2g}",)
    low, high = (plain_number(float(end), 3) for end in polynomials.intervals[:, component, term])
    shares = polynomials.probabilities
    known = shares is not None and np.isfinite(shares[component, term])
    return f"{low} to {high}", f"{shares[component, term]:.0%}" if shares is not None and known else ""


def left_out_text(equation: Equation) -> str:
    """All terms that were left out, with the intervals of their coefficients; empty without data."""
    lines = []
    for j, name in enumerate(equation.names):
        for what, polynomials in (("drift", equation.drift_terms), ("g", equation.diffusion_sq_terms)):
            rows = left_out(equation, polynomials, j, polynomials.degree)
            lines += [f"{what} of {on_one_line(name)}: {t} between {a:.3g} and {b:.3g}" for t, a, b in rows]
    return "\n".join(lines)


def _groups(equation: Equation, component: int, errors: bool) -> tuple[tuple[Piece, ...], ...]:
    """The pieces of a line; a line may be broken between groups."""
    drift, g = (
        _terms(equation, p, component, errors) or [(Piece("0"),)]
        for p in (equation.drift_terms, equation.diffusion_sq_terms)
    )
    if len(drift) > 1:
        drift = _enclosed("[", drift, "]") if errors else _enclosed("(", drift, ")")
    wiener = [Piece(" dW"), *([Piece(str(component + 1), "index")] if equation.dim > 1 else [])]
    if len(g) == 1 and len(g[0]) == 1:  # a number: the brackets of the root are enough
        g = [(Piece(bare(g[0][0].text)),)]
    g = _enclosed("+ \N{SQUARE ROOT}(", g, ")")
    left = (Piece("d"), _name(equation.names[component]), Piece(" ="))
    return (left, *drift[:-1], (*drift[-1], Piece(" dt")), *g[:-1], (*g[-1], *wiener))


def _correlation_groups(
    equation: Equation, row: int, pair: tuple[int, int], errors: bool
) -> tuple[tuple[Piece, ...], ...]:
    """dW_i dW_j = rho dt."""
    assert equation.correlation_terms is not None, "there are pairs"
    rho = _terms(equation, equation.correlation_terms, row, errors)
    rho = _enclosed("(", rho, ")") if len(rho) > 1 else rho
    first, second = (Piece(str(i + 1), "index") for i in pair)
    return ((Piece("dW"), first, Piece(" dW"), second, Piece(" =")), *rho[:-1], (*rho[-1], Piece(" dt")))


def _terms(equation: Equation, polynomials: Polynomials, component: int, errors: bool) -> list[tuple[Piece, ...]]:
    out: list[tuple[Piece, ...]] = []
    digits = digits_of(polynomials, component)
    parts = formula.terms(polynomials, component)
    numbers = [plain_number(abs(c), digits) for c, _ in parts]
    if errors:
        numbers = formula.sizes_of(polynomials, component)
    for number, (coefficient, powers) in zip(numbers, parts, strict=True):
        sign = _MINUS if coefficient < 0 else "+" if out else ""
        product = _product(equation, powers)
        shown = [Piece(f"{sign}\N{NO-BREAK SPACE}" if out else sign)] if sign else []
        if not product or number != "1":
            shown += [*_number(number), *([Piece(" ")] if product else [])]
        out.append((*shown, *product))
    return out


def _product(equation: Equation, powers: Sequence[int]) -> list[Piece]:
    pieces: list[Piece] = []
    for name, origin, power in zip(equation.names, equation.origin.tolist(), powers, strict=True):
        if not power:
            continue
        if pieces:
            pieces.append(Piece(" \N{MIDDLE DOT}\N{NO-BREAK SPACE}"))
        is_word = name.isidentifier()
        if origin:
            minus, size = (_MINUS, origin) if origin > 0 else ("+", -origin)
            pieces += [Piece("("), _name(name), Piece(f" {minus} "), *_number(plain_number(size)), Piece(")")]
        elif is_word or power == 1:
            pieces.append(_name(name))
        else:
            pieces += [Piece("("), _name(name), Piece(")")]
        if power > 1:
            pieces.append(Piece(str(power), "power"))
    return pieces


def _enclosed(before: str, groups: list[tuple[Piece, ...]], after: str) -> list[tuple[Piece, ...]]:
    first = [(Piece(before), *groups[0]), *groups[1:]]
    return [*first[:-1], (*first[-1], Piece(after))]


def _name(name: str) -> Piece:
    return Piece(on_one_line(name), "name")


def _number(shown: str) -> list[Piece]:
    mantissa, _, exponent = shown.partition("e")
    if not exponent:
        return [Piece(shown)]
    power = exponent.lstrip("+").lstrip("0") if not exponent.startswith("-") else _MINUS + exponent[1:].lstrip("0")
    return [Piece("10" if mantissa == "1" else f"{mantissa} \N{MULTIPLICATION SIGN} 10"), Piece(power, "power")]
