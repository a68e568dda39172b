"""An `Equation` in writing: plain text, LaTeX, SymPy and Python code."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from fimsde.analysis.naming import in_latex, in_text
from fimsde.analysis.polynomials import Polynomials, Written
from fimsde.shapes import Array

_FEWEST_DIGITS = 3  # of a coefficient; by hand: readable
_ALL_DIGITS = 17  # tell every float64 from its neighbours (IEEE 754)
# from here on, and below its inverse times 100, numbers are written with an exponent; by hand, below as Python does
_LONG_NUMBER = 1e6
_SURE = 1e-6  # of a number: an error below it is rounding
_LARGEST_INTEGER = 2**53  # that a float64 holds with all below it: 53 bits (IEEE 754)

Term = tuple[float, tuple[int, ...]]  # coefficient, exponents


def text(equation: Written, *, errors: bool = False) -> str:
    """One line per component.

    Args:
        equation: The equation.
        errors: Whether coefficients are written with their standard errors.
    """
    factors = text_factors(equation)
    lines = []
    for j, name in enumerate(equation.names):
        if errors:
            lines.append(_line_with_errors(equation, j, factors))
            continue
        drift, g = (
            _sum(terms(p, j), factors, partial(plain_number, digits=digits_of(p, j)))
            for p in (equation.drift_terms, equation.diffusion_sq_terms)
        )
        number = str(j + 1) if equation.dim > 1 else ""
        lines.append(f"d{in_text(name)} = ({drift}) dt + sqrt({g}) dW{number}")
    for k, (i, j) in pairs(equation):
        p = _correlations(equation)
        written = partial(plain_number, digits=digits_of(p, k))
        rho = bare(_sum(terms(p, k), factors, written, sizes=sizes_of(p, k) if errors else None))
        lines.append(f"dW{i + 1} dW{j + 1} = ({rho}) dt")
    return "\n".join(lines)


def _line_with_errors(equation: Written, component: int, factors: Sequence[str]) -> str:
    """dx = [(1.3 ± 0.2) x - (1.4 ± 0.2) x^3] dt + sqrt(0.25 ± 0.01) dW."""
    drift, g = (
        _sum(terms(p, component), factors, str, sizes=sizes_of(p, component))
        for p in (equation.drift_terms, equation.diffusion_sq_terms)
    )
    several = np.count_nonzero(equation.drift_terms.coefficients[component]) > 1
    alone = np.count_nonzero(equation.diffusion_sq_terms.coefficients[component, 1:]) == 0
    number = str(component + 1) if equation.dim > 1 else ""
    return (
        f"d{in_text(equation.names[component])} = {f'[{drift}]' if several else drift} dt + "
        f"sqrt({bare(g) if alone else g}) dW{number}"
    )


def bare(text: str) -> str:
    """A number with its error without brackets around the whole; one with a power of ten keeps them."""
    alone = text.count("±") == 1 and text.startswith("(") and text.endswith(")")
    return text[1:-1] if alone else text


def errors_of(polynomials: Polynomials) -> tuple[Array, str]:
    """Errors of the coefficients, and what they are: of draws of a posterior if there are any."""
    ends = polynomials.intervals
    if ends is None:
        return polynomials.standard_errors, "one standard error"
    return (ends[1] - ends[0]) / 2, f"half the width of a {100 * polynomials.level:g} % interval"


def sizes_of(polynomials: Polynomials, component: int) -> list[str]:
    """Sizes of the coefficients of a component, each with its error where there are data."""
    row, errors = polynomials.coefficients[component], errors_of(polynomials)[0][component]
    digits = digits_of(polynomials, component)
    known = polynomials.doubt is not None
    return [
        with_error(abs(float(row[k])), float(errors[k]), digits) if known else plain_number(abs(float(row[k])), digits)
        for k in np.flatnonzero(row)
    ]


def with_error(value: float, error: float, digits: int = _FEWEST_DIGITS) -> str:
    """(1.32 ± 0.21): a number with two digits of its error, and as many of its own; alone if the error is none."""
    if not (np.isfinite(error) and error > _SURE * abs(value)):
        return plain_number(value, digits)
    power = int(np.floor(np.log10(max(abs(value), error))))
    scale, end = (1.0, "") if 100 / _LONG_NUMBER <= 10.0**power < _LONG_NUMBER else (10.0**power, f"e{power:+03d}")
    places = max(0, 1 - int(np.floor(np.log10(error / scale))))
    return f"({value / scale:.{places}f} ± {error / scale:.{places}f}){end}"


def pairs(equation: Written) -> list[tuple[int, tuple[int, int]]]:
    """The pairs of components whose noise is correlated in the formula: number of the polynomial, components."""
    if equation.correlation_terms is None:
        return []
    every = zip(*np.triu_indices(equation.dim, 1), strict=True)
    return [(k, (int(i), int(j))) for k, (i, j) in enumerate(every) if equation.correlation_terms.coefficients[k].any()]


def _correlations(equation: Written) -> Polynomials:
    assert equation.correlation_terms is not None, "there are pairs"
    return equation.correlation_terms


def latex(equation: Written, digits: int | None = None) -> str:
    """An `aligned` block with one line per component."""
    names = in_latex(equation.names)
    factors = [
        rf"({name}{_minus(o, latex_number)})" if o else name
        for name, o in zip(names, equation.origin.tolist(), strict=True)
    ]
    lines = []
    for j, name in enumerate(names):
        drift, g = (
            _sum(terms(p, j), factors, partial(latex_number, digits=digits or digits_of(p, j)), power="{0}^{{{1}}}")
            for p in (equation.drift_terms, equation.diffusion_sq_terms)
        )
        wiener = f"W_{{{j + 1}}}" if equation.dim > 1 else "W"
        lines.append(rf"\mathrm{{d}}{name} &= \left({drift}\right) \mathrm{{d}}t + \sqrt{{{g}}}\, \mathrm{{d}}{wiener}")
    for k, (i, j) in pairs(equation):
        p = _correlations(equation)
        number = partial(latex_number, digits=digits or digits_of(p, k))
        rho = _sum(terms(p, k), factors, number, power="{0}^{{{1}}}")
        both = rf"\mathrm{{d}}W_{{{i + 1}}}\, \mathrm{{d}}W_{{{j + 1}}}"
        lines.append(rf"{both} &= \left({rho}\right) \mathrm{{d}}t")
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def sympy_expressions(equation: Written) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Drift and variance rate as SymPy expressions, built term by term; nothing is parsed."""
    drift, g = (
        tuple(_sympy(equation, p, j) for j in range(equation.dim))
        for p in (equation.drift_terms, equation.diffusion_sq_terms)
    )
    return drift, g


def sympy_correlation(equation: Written) -> dict[tuple[int, int], Any]:
    """Correlation of the noise of each pair of components that has one."""
    return {pair: _sympy(equation, _correlations(equation), k) for k, pair in pairs(equation)}


def _sympy(equation: Written, polynomials: Polynomials, row: int) -> Any:
    import sympy  # takes a while to import

    def number(value: float) -> Any:
        whole = value.is_integer() and abs(value) < _LARGEST_INTEGER
        return sympy.Integer(int(value)) if whole else sympy.Float(value)

    x = [
        sympy.Symbol(s, real=True) - number(o) if o else sympy.Symbol(s, real=True)
        for s, o in zip(equation.symbols, equation.origin.tolist(), strict=True)
    ]

    def product(coefficient: float, powers: tuple[int, ...]) -> Any:
        monomial = sympy.prod([x[i] ** p for i, p in enumerate(powers)])
        # Not evaluated: multiplied out, large numbers would cancel far from zero.
        return (
            sympy.Mul(number(coefficient), monomial, evaluate=False)
            if monomial.is_Add
            else number(coefficient) * monomial
        )

    return sympy.Add(*(product(*term) for term in terms(polynomials, row)))


def code(equation: Written) -> str:
    """Source of `drift`, `diffusion` and, if there is one, `correlation` as functions of states (queries, dim)."""
    lines = ["import numpy as np", ""]
    renamed = [(s, n) for s, n in zip(equation.symbols, equation.names, strict=True) if s != n]
    lines += [*(f"# {symbol} is {name!r}" for symbol, name in renamed), *([""] if renamed else [])]
    for name, what, polynomials in (
        ("drift", "Drift f, state per time", equation.drift_terms),
        ("diffusion", "Diffusion sqrt(g), state per square root of time", equation.diffusion_sq_terms),
    ):
        lines += ["", f"def {name}(states):", f'    """{what}, at states of shape (queries, {equation.dim})."""']
        lines += _body(equation, polynomials, is_root=name == "diffusion")
        lines += ["    return out", ""]
    if pairs(equation):
        what = "Correlation of the noise of each two components"
        lines += ["", "def correlation(states):", f'    """{what}, at states of shape (queries, {equation.dim})."""']
        lines += [*_correlation_body(equation), "    return out", ""]
    return "\n".join(lines)


def terms(polynomials: Polynomials, component: int) -> list[Term]:
    """The terms kept for a component, constant first."""
    row = polynomials.coefficients[component]
    return [(float(row[k]), tuple(int(p) for p in polynomials.exponents[k])) for k in np.flatnonzero(row)]


def digits_of(polynomials: Polynomials, component: int) -> int:
    """Significant digits of the coefficients of a component in writing."""
    return _FEWEST_DIGITS if polynomials.digits is None else polynomials.digits[component]


def text_factors(equation: Written) -> list[str]:
    """What is raised to powers in plain text: a name, or its distance from the origin."""
    return [
        f"({in_text(name)}{_minus(o, plain_number)})" if o else in_text(name)
        for name, o in zip(equation.names, equation.origin.tolist(), strict=True)
    ]


def monomial(powers: Sequence[int], factors: Sequence[str], power: str = "{0}^{1}", times: str = " ") -> str:
    """A product of powers; empty for the constant."""
    return times.join(f if p == 1 else power.format(f, p) for f, p in zip(factors, powers, strict=True) if p)


def plain_number(value: float, digits: int = _ALL_DIGITS) -> str:
    """A number with at most so many significant digits, without an exponent unless it is very large or small."""
    shown = repr(value) if digits >= _ALL_DIGITS else f"{value:.{digits}g}"
    if value == 0 or 100 / _LONG_NUMBER <= abs(value) < _LONG_NUMBER:
        shown = f"{Decimal(shown):f}"
        return shown.rstrip("0").rstrip(".") if "." in shown else shown
    mantissa, _, exponent = shown.partition("e")
    return f"{mantissa}e{exponent}" if exponent else shown.removesuffix(".0")


def latex_number(value: float, digits: int = _ALL_DIGITS) -> str:
    """The same, with powers of ten."""
    mantissa, _, exponent = plain_number(value, digits).partition("e")
    power = rf"10^{{{int(exponent or 0)}}}"
    return mantissa if not exponent else power if mantissa == "1" else rf"{mantissa} \times {power}"


def _body(equation: Written, polynomials: Polynomials, is_root: bool) -> list[str]:
    """The lines of a function that fill `out`."""
    parts = [terms(polynomials, j) for j in range(equation.dim)]
    lines = [*_named_states(equation, parts), "    out = np.zeros(states.shape)"]
    for j, part in enumerate(parts):
        if not part:
            continue
        total = _sum(part, equation.symbols, repr, "{0} ** {1}", " * ")
        positive = all(c > 0 and not any(p % 2 for p in powers) for c, powers in part)
        root = f"np.sqrt({total})" if positive else f"np.sqrt(np.maximum({total}, 0.0))"
        lines.append(f"    out[:, {j}] = {root if is_root else total}")
    return lines


def _correlation_body(equation: Written) -> list[str]:
    parts = {pair: terms(_correlations(equation), k) for k, pair in pairs(equation)}
    lines = _named_states(equation, list(parts.values()))
    lines.append(f"    out = np.tile(np.eye({equation.dim}), (len(states), 1, 1))")
    for (i, j), part in parts.items():
        total = _sum(part, equation.symbols, repr, "{0} ** {1}", " * ")
        lines.append(f"    out[:, {i}, {j}] = out[:, {j}, {i}] = np.clip({total}, -1.0, 1.0)")
    return lines


def _named_states(equation: Written, parts: Sequence[Sequence[Term]]) -> list[str]:
    """The states that these terms need, by name."""
    used = {i for part in parts for _, powers in part for i, p in enumerate(powers) if p}
    lines = ["    states = np.asarray(states, dtype=float)"]
    for i, (symbol, origin) in enumerate(zip(equation.symbols, equation.origin.tolist(), strict=True)):
        if i in used:
            lines.append(f"    {symbol} = states[:, {i}]{_minus(origin, repr) if origin else ''}")
    return lines


def _minus(offset: float, number: Callable[[float], str]) -> str:
    return f" - {number(offset)}" if offset > 0 else f" + {number(-offset)}"


def _sum(
    parts: Sequence[Term],
    factors: Sequence[str],
    number: Callable[[float], str],
    power: str = "{0}^{1}",
    times: str = " ",
    sizes: Sequence[str] | None = None,  # of the coefficients in writing, in place of `number`
) -> str:
    """The polynomial as text."""
    out = ""
    for k, (coefficient, powers) in enumerate(parts):
        size = number(abs(coefficient)) if sizes is None else sizes[k]
        product = monomial(powers, factors, power, times)
        is_one = product and size in ("1", "1.0")
        shown = product if is_one else f"{size}{times}{product}" if product else size
        sign = "-" if coefficient < 0 else "+"
        out += f" {sign} {shown}" if out else shown if sign == "+" else f"-{shown}"
    return out or "0"
