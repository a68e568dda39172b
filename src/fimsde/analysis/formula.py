"""An `Equation` in writing: plain text, LaTeX, SymPy and Python code."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np

from fimsde.analysis.naming import in_latex, in_text
from fimsde.analysis.polynomials import Polynomials, Written

_FEWEST_DIGITS = 3  # of a coefficient
_ALL_DIGITS = 17
_LONG_NUMBER = 1e6  # from here on, and below its inverse times 100, numbers are written with an exponent
_LARGEST_INTEGER = 2**53  # that a float64 holds with all below it

Term = tuple[float, tuple[int, ...]]  # coefficient, exponents


def text(equation: Written) -> str:
    """One line per component."""
    factors = text_factors(equation)
    lines = []
    for j, name in enumerate(equation.names):
        drift, g = (
            _sum(terms(p, j), factors, partial(plain_number, digits=digits_of(p, j)))
            for p in (equation.drift_terms, equation.diffusion_sq_terms)
        )
        number = str(j + 1) if equation.dim > 1 else ""
        lines.append(f"d{in_text(name)} = ({drift}) dt + sqrt({g}) dW{number}")
    return "\n".join(lines)


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
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def sympy_expressions(equation: Written) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Drift and variance rate as SymPy expressions, built term by term; nothing is parsed."""
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

    return tuple(
        tuple(sympy.Add(*(product(*term) for term in terms(p, j))) for j in range(equation.dim))
        for p in (equation.drift_terms, equation.diffusion_sq_terms)
    )  # type: ignore[return-value]


def code(equation: Written) -> str:
    """Source of `drift(states)` and `diffusion(states)` for arrays of shape (queries, dim)."""
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
    used = {i for part in parts for _, powers in part for i, p in enumerate(powers) if p}
    lines = ["    states = np.asarray(states, dtype=float)"]
    for i, (symbol, origin) in enumerate(zip(equation.symbols, equation.origin.tolist(), strict=True)):
        if i in used:
            lines.append(f"    {symbol} = states[:, {i}]{_minus(origin, repr) if origin else ''}")
    lines.append("    out = np.zeros(states.shape)")
    for j, part in enumerate(parts):
        if not part:
            continue
        total = _sum(part, equation.symbols, repr, "{0} ** {1}", " * ")
        positive = all(c > 0 and not any(p % 2 for p in powers) for c, powers in part)
        root = f"np.sqrt({total})" if positive else f"np.sqrt(np.maximum({total}, 0.0))"
        lines.append(f"    out[:, {j}] = {root if is_root else total}")
    return lines


def _minus(offset: float, number: Callable[[float], str]) -> str:
    return f" - {number(offset)}" if offset > 0 else f" + {number(-offset)}"


def _sum(
    parts: Sequence[Term],
    factors: Sequence[str],
    number: Callable[[float], str],
    power: str = "{0}^{1}",
    times: str = " ",
) -> str:
    """The polynomial as text."""
    out = ""
    for coefficient, powers in parts:
        size, product = number(abs(coefficient)), monomial(powers, factors, power, times)
        is_one = product and size in ("1", "1.0")
        shown = product if is_one else f"{size}{times}{product}" if product else size
        sign = "-" if coefficient < 0 else "+"
        out += f" {sign} {shown}" if out else shown if sign == "+" else f"-{shown}"
    return out or "0"
