"""An `Equation` in writing: plain text, LaTeX, SymPy and Python code.

Names come from users' files. In formulas they appear only as symbols made of letters, digits and underscores, and as
quoted text beside them, so that no name can break a formula or run as code.
"""

import keyword
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from fimsde.analysis.equation import Equation, Polynomials

_TAKEN = {"np", "states", "t", "d", "dt", "dW", "drift", "diffusion", "sqrt"}  # used by the code or by the notation
_LONGEST = 24  # characters of a symbol

Term = tuple[float, tuple[int, ...]]  # coefficient, exponents


def to_symbols(names: Sequence[str]) -> tuple[str, ...]:
    """A symbol for every name: the name itself if it is a plain identifier, else what is left of it, or x1, x2, ..."""
    symbols: list[str] = []
    for j, name in enumerate(names):
        symbol = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")[:_LONGEST].rstrip("_")
        if not re.match(r"[A-Za-z]", symbol) or symbol in _TAKEN or keyword.iskeyword(symbol):
            symbol = f"x{j + 1}"
        while symbol in symbols:
            symbol += f"_{j + 1}"
        symbols.append(symbol)
    return tuple(symbols)


def text(equation: "Equation") -> str:
    """One line per component, and a legend for names that are no symbols."""
    lines = []
    for j, symbol in enumerate(equation.symbols):
        drift = _sum(terms(equation.drift_terms, j), _plain_factors(equation))
        g = _sum(terms(equation.diffusion_sq_terms, j), _plain_factors(equation))
        number = str(j + 1) if equation.dim > 1 else ""
        lines.append(f"d{symbol} = ({drift}) dt + sqrt({g}) dW{number}")
    renamed = [(s, n) for s, n in zip(equation.symbols, equation.names, strict=True) if s != n]
    return "\n".join(lines + [f"with {s} = {n!r}" for s, n in renamed])


def latex(equation: "Equation", digits: int = 3) -> str:
    """An `aligned` block with one line per component."""
    factors = [_latex_factor(s, o) for s, o in zip(equation.symbols, equation.origin, strict=True)]
    lines = []
    for j, symbol in enumerate(equation.symbols):
        drift, g = (
            _sum(terms(p, j), factors, digits, power="{0}^{{{1}}}", number=_latex_number)
            for p in (equation.drift_terms, equation.diffusion_sq_terms)
        )
        wiener = f"W_{{{j + 1}}}" if equation.dim > 1 else "W"
        lines.append(
            rf"\mathrm{{d}}{_latex_symbol(symbol)} &= \left({drift}\right) \mathrm{{d}}t"
            rf" + \sqrt{{{g}}}\, \mathrm{{d}}{wiener}"
        )
    return "\\begin{aligned}\n" + " \\\\\n".join(lines) + "\n\\end{aligned}"


def sympy_expressions(equation: "Equation") -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Drift and variance rate as SymPy expressions, built term by term; nothing is parsed."""
    import sympy  # takes a while to import

    x = [
        sympy.Symbol(s, real=True) - sympy.Float(float(o)) if o else sympy.Symbol(s, real=True)
        for s, o in _pairs(equation)
    ]

    def expression(polynomials: "Polynomials", j: int) -> Any:
        products = [
            sympy.Float(c) * sympy.prod([x[i] ** p for i, p in enumerate(powers)])
            for c, powers in terms(polynomials, j)
        ]
        return sympy.Add(*products)

    return tuple(
        tuple(expression(p, j) for j in range(equation.dim))
        for p in (equation.drift_terms, equation.diffusion_sq_terms)
    )  # type: ignore[return-value]


def code(equation: "Equation") -> str:
    """Source of `drift(states)` and `diffusion(states)` for arrays of shape (queries, dim)."""
    columns = [f"    {s} = states[:, {j}]{_minus(o)}" for j, (s, o) in enumerate(_pairs(equation))]
    lines = ["import numpy as np", ""]
    for name, what, polynomials in (
        ("drift", "Drift f, state per time", equation.drift_terms),
        ("diffusion", "Diffusion sqrt(g), state per square root of time", equation.diffusion_sq_terms),
    ):
        parts = [
            _sum(terms(polynomials, j), list(equation.symbols), None, "{0} ** {1}", " * ", repr)
            for j in range(equation.dim)
        ]
        parts = [f"0.0 * {equation.symbols[0]} + {part}" for part in parts]  # a constant is a column, too
        if name == "diffusion":
            parts = [f"np.sqrt(np.maximum({part}, 0.0))" for part in parts]
        body = ",\n        ".join(parts)
        lines += ["", f"def {name}(states):", f'    """{what}, at states of shape (queries, {equation.dim})."""']
        lines += [*columns, "    return np.stack([", f"        {body},", "    ], axis=1)", ""]
    return "\n".join(lines)


def terms(polynomials: "Polynomials", component: int) -> list[Term]:
    """The terms kept for a component, constant first."""
    row = polynomials.coefficients[component]
    return [(float(row[k]), tuple(int(p) for p in polynomials.exponents[k])) for k in np.flatnonzero(row)]


def _pairs(equation: "Equation") -> list[tuple[str, float]]:
    return list(zip(equation.symbols, equation.origin.tolist(), strict=True))


def _plain_factors(equation: "Equation") -> list[str]:
    return [f"({s}{_minus(o)})" if o else s for s, o in _pairs(equation)]


def _minus(offset: float) -> str:
    return "" if not offset else f" - {offset!r}" if offset > 0 else f" + {-offset!r}"


def _sum(
    parts: list[Term],
    factors: Sequence[str],
    digits: int | None = 3,
    power: str = "{0}^{1}",
    times: str = " ",
    number: Any = str,
) -> str:
    """The polynomial as text."""
    out = ""
    for coefficient, powers in parts:
        size = number(abs(coefficient)) if digits is None else number(f"{abs(coefficient):.{digits}g}")
        shown = [f if p == 1 else power.format(f, p) for f, p in zip(factors, powers, strict=True) if p]
        shown = shown if shown and size == "1" else [size, *shown]
        sign = "-" if coefficient < 0 else "+" if out else ""
        out += (f" {sign} " if out else sign) + times.join(shown)
    return out or ("0.0" if digits is None else "0")


def _latex_number(shown: str) -> str:
    mantissa, _, exponent = shown.partition("e")
    return mantissa if not exponent else rf"{mantissa} \times 10^{{{int(exponent)}}}"


def _latex_symbol(symbol: str) -> str:
    match = re.fullmatch(r"([A-Za-z]+)_?([0-9]*)", symbol)
    if match is None:
        return rf"\mathrm{{{symbol.replace('_', chr(92) + '_')}}}"
    letters, digits = match.groups()
    shown = letters if len(letters) == 1 else rf"\mathrm{{{letters}}}"
    return f"{shown}_{{{digits}}}" if digits else shown


def _latex_factor(symbol: str, offset: float) -> str:
    shown = _latex_symbol(symbol)
    return rf"({shown}{_minus(offset)})" if offset else shown
