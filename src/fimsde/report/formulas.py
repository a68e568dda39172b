"""Formulas as pictures, set by matplotlib: no script and no font is needed to read them."""

import io
import re

import matplotlib
from matplotlib.font_manager import FontProperties
from matplotlib.mathtext import math_to_image

from fimsde.analysis.equation import Equation, Polynomials
from fimsde.report.blocks import Image


def formula_images(equation: Equation) -> tuple[Image, ...]:
    """One picture per component."""
    lines = re.sub(r"\\(begin|end)\{aligned\}", "", equation.latex()).split(r"\\")
    texts = str(equation).splitlines()
    return tuple(_image(line, text) for line, text in zip(lines, texts, strict=False))


def terms(polynomials: Polynomials, component: int, symbols: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """Term, coefficient and standard error of everything that was kept for a component."""
    rows = []
    for k, powers in enumerate(polynomials.exponents):
        coefficient, error = polynomials.coefficients[component, k], polynomials.standard_errors[component, k]
        if coefficient:
            rows.append((_monomial(powers.tolist(), symbols), f"{coefficient:.4g}", f"{error:.2g}"))
    return rows


def _image(line: str, text: str) -> Image:
    target = io.BytesIO()
    with matplotlib.rc_context({"mathtext.fontset": "cm", "svg.hashsalt": "fimsde"}):
        formula = " ".join(line.replace("&", "").split())
        math_to_image(f"${formula}$", target, prop=FontProperties(size=13), dpi=96, format="svg")
    return Image(target.getvalue(), alt=text, mime="image/svg+xml")


def _monomial(powers: list[int], symbols: tuple[str, ...]) -> str:
    factors = [s if p == 1 else f"{s}^{p}" for s, p in zip(symbols, powers, strict=True) if p]
    return " ".join(factors) or "1"
