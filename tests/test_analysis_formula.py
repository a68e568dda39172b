"""Equations in writing: text, LaTeX, SymPy and code say the same, cleanly, and names from files stay harmless."""

import keyword
import re
import unicodedata

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import fimsde
from fimsde.analysis import naming
from fimsde.analysis.equation import Equation
from fimsde.analysis.naming import in_latex, in_text, to_symbols
from fimsde.analysis.polynomials import Polynomials
from fimsde.bank import monomials
from fimsde.equations.sde import FunctionSDE
from fimsde.report.formulas import formula_block
from fimsde.systems import canonical

WELLS = FunctionSDE(1, lambda x: x - x**3, lambda x: np.full_like(x, 0.5))


def written(coefficients, diffusion_sq, origin, names, digits=None):
    """An equation from coefficients of cubic drifts and quadratic variance rates."""

    def polynomials(values, degree):
        values = np.array(values, np.float64)
        exponents = monomials.exponents(len(names), degree)
        shown = None if digits is None else (digits,) * len(names)
        return Polynomials(exponents, values, np.zeros_like(values), np.ones(len(names)), digits=shown)

    return Equation(
        tuple(names),
        to_symbols(names),
        np.array(origin, np.float64),
        polynomials(coefficients, 3),
        polynomials(diffusion_sq, 2),
    )


def run(code):
    """What the code of an equation defines."""
    namespace = {}
    exec(code, namespace)
    assert set(namespace) == {"__builtins__", "np", "drift", "diffusion"}
    return namespace


def from_text(shown, **values):
    """The value of a polynomial as plain text, by the rules of the notation: spaces multiply, ^ is a power."""
    code = shown.replace("^", "**").replace(" + ", "+").replace(" - ", "-").replace(" ", "*")
    return eval(code, {"__builtins__": {}}, values)


def from_latex(shown):
    """A polynomial in LaTeX as plain text."""
    shown = re.sub(r"([\d.]+) \\times 10\^\{(-?\d+)\}", r"\1e\2", shown)
    shown = re.sub(r"(?<![\d.])10\^\{(-?\d+)\}", r"1e\1", shown)
    return re.sub(r"\^\{(\d+)\}", r"^\1", shown)


ODD = [1.0, -1.0, 2.0, 10.0, 1e-30, -1e25, 0.99999, 123456.0, 1e6, -9.9999e-5]


def at_random(seed):
    """An equation of one to three components with every kind of coefficient, around zero or another origin."""
    rng = np.random.default_rng(seed)
    dim = int(rng.integers(1, 4))

    def coefficients(degree):
        shape = (dim, len(monomials.exponents(dim, degree)))
        wild = rng.uniform(-9.99, 9.99, shape) * 10.0 ** rng.integers(-40, 40, shape)
        return np.choose(
            rng.integers(4, size=shape), [0 * wild, wild, rng.standard_normal(shape), rng.choice(ODD, shape)]
        )

    origin = rng.choice([0.0, 12.0, -3.25, 1e9, 293.15], dim)
    return written(coefficients(3), coefficients(2), origin, ["a", "b", "c"][:dim], int(rng.integers(3, 18)))


UNCLEAN = (
    r"np\.float",
    r"[+-] [+-]",  # + -
    r"(?<![\w.])-0(?![\d.])",
    r"(?<![\w.^{])0(\.0)? ?\* ?\w",  # 0.0 * x +
    r"(?<![\w.^{])1(\.0)? ?\*? ?[abc(]",  # 1 x
)


@pytest.mark.parametrize("seed", range(25))
def test_zeros_and_signs_and_digits_are_clean_and_all_four_forms_are_the_formula(seed):
    equation = at_random(seed)
    x = equation.origin + np.random.default_rng(0).uniform(-2, 2, (5, equation.dim))
    z = x - equation.origin
    both = equation.drift_terms, equation.diffusion_sq_terms
    values = [p(z) for p in both]
    largest = [monomials.evaluate(np.abs(z), p.degree) @ np.abs(p.coefficients).T for p in both]
    code, by_sympy = equation.code(), equation.sympy()
    functions = run(code)
    assert np.all(np.abs(functions["drift"](x) - values[0]) <= 1e-13 * largest[0])
    assert np.all(np.abs(functions["diffusion"](x) ** 2 - np.maximum(values[1], 0)) <= 1e-13 * largest[1])
    lines = zip(str(equation).splitlines(), equation.latex().splitlines()[1:-1], strict=True)
    for j, (line, latex) in enumerate(lines):
        texts = re.fullmatch(r"d\w+ = \((.*)\) dt \+ sqrt\((.*)\) dW\d?", line).groups()
        formulas = re.fullmatch(r".* &= \\left\((.*)\\right\) \\mathrm\{d\}t \+ \\sqrt\{(.*)\}\\, .*", latex).groups()
        for p, size, value, expressions, text, formula in zip(
            both, largest, values, by_sympy, texts, formulas, strict=True
        ):
            near = (10.0 ** (1 - p.digits[j]) + 1e-13) * size[:, j]
            for shown in (text, from_latex(formula)):
                assert np.all(np.abs(from_text(shown, **dict(zip("abc", x.T, strict=False))) - value[:, j]) <= near)
            numbers = [expressions[j].xreplace(dict(zip(symbols(equation), row, strict=True))) for row in x.tolist()]
            assert np.all(np.abs(np.array(numbers, float) - value[:, j]) <= 1e-13 * size[:, j])
            for form in (text, formula, str(expressions[j]), code):
                assert not re.search("|".join(UNCLEAN), form), form


def symbols(equation):
    return [sympy.Symbol(s, real=True) for s in equation.symbols]


@pytest.mark.parametrize(
    "shown", ["np.float64(12.0)", "2 a + -3 b", "-0 a", "0.0 * a + 0.3", "1 a", "a + 1.0*b", "1 (a - 2)"]
)
def test_that_check_notices_what_is_not_clean(shown):
    assert re.search("|".join(UNCLEAN), shown)


def test_a_centred_equation_is_written_without_the_types_of_numpy():
    equation = written([[0, -1.5, 0, 0]], [[0.25, 0, 0]], [12.0], ["x"])
    assert str(equation) == "dx = (-1.5 (x - 12)) dt + sqrt(0.25) dW"
    assert equation.latex().splitlines()[1] == (
        r"\mathrm{d}x &= \left(-1.5 (x - 12)\right) \mathrm{d}t + \sqrt{0.25}\, \mathrm{d}W"
    )
    assert "    x = states[:, 0] - 12.0\n" in equation.code()
    for shown in (str(equation), equation.latex(), equation.code(), str(equation.sympy())):
        assert "float" not in shown.replace("dtype=float", "")


def test_the_code_of_a_constant_is_not_zero_times_a_state_plus_the_constant():
    code = written([[0.3, 0, 0, 0]], [[0.25, 0, 0]], [0.0], ["x"]).code()
    assert "0.0 *" not in code
    assert "    out[:, 0] = 0.3\n" in code
    np.testing.assert_array_equal(run(code)["drift"](np.zeros((4, 1), int)), np.full((4, 1), 0.3))
    assert run(code)["drift"]([[1], [2]]).shape == (2, 1)


def test_a_small_coefficient_is_not_rounded_to_zero():
    equation = written([[0, -1e-9, 0, 4e-320]], [[1e12, 0, 0]], [0.0], ["x"])
    assert str(equation) == "dx = (-1e-09 x + 4e-320 x^3) dt + sqrt(1e+12) dW"
    assert r"-10^{-9} x + 4 \times 10^{-320} x^{3}" in equation.latex()


def test_text_latex_sympy_and_code_say_the_same():
    equation = fimsde.result(canonical.WANG_2D, names=["u", "v"]).equation(box=(np.full(2, -2.0), np.full(2, 2.0)))
    assert str(equation).splitlines()[0] == "du = (u - v - u^3 - u v^2) dt + sqrt(1 + v^2) dW1"
    assert r"\sqrt{1 + u^{2}}\, \mathrm{d}W_{2}" in equation.latex()
    drift, diffusion_sq = equation.sympy()
    u, v = sympy.symbols("u v", real=True)
    x = np.random.default_rng(1).standard_normal((6, 2))
    namespace = {}
    exec(equation.code(), namespace)
    np.testing.assert_allclose(namespace["drift"](x), equation.drift(x), rtol=1e-12)
    np.testing.assert_allclose(namespace["diffusion"](x), equation.diffusion(x), rtol=1e-12)
    for j in (0, 1):
        by_sympy = sympy.lambdify((u, v), drift[j])(*x.T)
        np.testing.assert_allclose(by_sympy, equation.drift(x)[:, j], rtol=1e-9)
        np.testing.assert_allclose(
            sympy.lambdify((u, v), diffusion_sq[j])(*x.T), equation.diffusion_sq(x)[:, j], rtol=1e-9
        )


def test_columns_called_x_and_y_keep_their_names():
    equation = fimsde.result(canonical.WANG_2D, names=["x", "y"]).equation(box=(np.full(2, -2.0), np.full(2, 2.0)))
    assert str(equation).splitlines()[0] == "dx = (x - y - x^3 - x y^2) dt + sqrt(1 + y^2) dW1"
    assert "with" not in str(equation)
    namespace = {}
    exec(equation.code(), namespace)
    states = np.random.default_rng(1).standard_normal((6, 2))
    np.testing.assert_allclose(namespace["drift"](states), equation.drift(states), rtol=1e-12)


def test_the_code_of_constant_fields_runs():
    sde = FunctionSDE(2, np.zeros_like, np.ones_like)
    equation = fimsde.result(sde).equation(box=(np.full(2, -2.0), np.full(2, 2.0)))
    namespace = {}
    exec(equation.code(), namespace)
    np.testing.assert_array_equal(namespace["drift"](np.ones((3, 2))), np.zeros((3, 2)))
    assert str(equation).startswith("dx1 = (0) dt + sqrt(1) dW1")


EVIL = [
    "x; import os",
    "__import__('os').system('x')",
    "a\nb",
    "}\\input{/etc/passwd}",
    "",
    "1st",
    '"""',
    "\\",
    "%\n\n",
]
EVIL += [
    "lambda",
    "np",
    "states",
    "out",
    "sum",
    "__builtins__",
    "Ω",
    "größe µm",
    "<script>alert(1)</script>",
    "$x^{2}$",
]
EVIL += ["\u202e\u2028rtl", "d", "dt", "match", "it's", "a--b", "x" * 200, "名前 (単位)", "#{}~^&_"]
COMMANDS = {"begin", "end", "mathrm", "left", "right", "sqrt", "times", "text", "mu", "Omega", "textbackslash"}
COMMANDS |= {"char", "textasciicircum", "textasciitilde", "textquotesingle", "textless", "textgreater"}


def tokens(latex):
    """The names of all commands; an error if a group is not closed, or if mathematics or a comment begins in it."""
    depth, mathematics, commands = [], 0, set()
    for token in re.findall(r"\\[A-Za-z]+|\\.|[^\\]", latex):
        if token == "{":
            depth.append(token)
        elif token == "}":
            depth.pop()
        elif token == "$":
            mathematics += 1
        elif len(token) > 1 and token[1].isalpha():
            commands.add(token[1:])
        assert token not in ("%", "#", "~"), f"{token} is not escaped in {latex!r}"
    assert not depth
    assert mathematics % 2 == 0
    return commands


@pytest.mark.parametrize("name", EVIL)
def test_a_hostile_name_can_neither_run_nor_break_a_formula(name):
    equation = fimsde.result(WELLS, names=[name]).equation(box=(-2.0, 2.0))
    functions = run(equation.code())
    np.testing.assert_allclose(functions["drift"](np.full((1, 1), 0.5)), [[0.375]], atol=1e-9)
    assert name == equation.symbols[0] or f"# {equation.symbols[0]} is {name!r}\n" in equation.code()
    assert tokens(equation.latex()) <= COMMANDS
    assert len(equation.latex().splitlines()) == 3
    assert len(str(equation).splitlines()) == 1
    html = formula_block(equation).html
    assert set(re.findall(r"<(\w+)", html)) <= {"div", "p", "span", "i", "sup", "sub"}
    assert str(equation.sympy()[0][0].free_symbols) == f"{{{equation.symbols[0]}}}"


def test_a_name_with_an_umlaut_a_space_and_a_micro_sign_is_not_written_without_them():
    equation = fimsde.result(canonical.WANG_2D, names=["größe µm", "v"]).equation(
        box=(np.full(2, -2.0), np.full(2, 2.0))
    )
    assert equation.symbols == ("größe_µm", "v")
    first = "d'größe µm' = ('größe µm' - v - 'größe µm'^3 - 'größe µm' v^2) dt + sqrt(1 + v^2) dW1"
    assert str(equation).splitlines()[0] == first
    assert r"\mathrm{d}\text{größe $\mu$m} &=" in equation.latex()
    assert "# größe_µm is 'größe µm'\n" in equation.code()
    assert "<i>größe µm</i>" in formula_block(equation).html
    run(equation.code())


@pytest.mark.parametrize(
    "names",
    [["a b", "a_b"], ["a_b", "a b"], ["µ", "μ"], ["x1", "x_1"], ["", " "], ["ﬁ", "fi"], ["1", "x_1"], ["a\n", "a"]],
)
def test_two_names_never_become_one(names):
    equation = fimsde.result(canonical.WANG_2D, names=names).equation(box=(np.full(2, -2.0), np.full(2, 2.0)))
    assert len({unicodedata.normalize("NFKC", s) for s in equation.symbols}) == 2
    assert len(set(in_latex(names))) == 2
    assert len({in_text(name) for name in names}) == 2
    x = np.random.default_rng(1).standard_normal((6, 2))
    np.testing.assert_allclose(run(equation.code())["drift"](x), equation.drift(x), rtol=1e-12)
    assert len(set().union(*(e.free_symbols for e in equation.sympy()[0]))) == 2


@given(st.lists(st.text(max_size=12), min_size=1, max_size=3, unique=True))
def test_symbols_are_distinct_identifiers_for_any_names(names):
    symbols = to_symbols(names)
    assert len({unicodedata.normalize("NFKC", s) for s in symbols}) == len(names)
    assert all(s.isidentifier() and not keyword.iskeyword(unicodedata.normalize("NFKC", s)) for s in symbols)
    assert len(set(in_latex(names))) == len(names)
    assert all(len(in_text(name).splitlines()) == 1 for name in names)


@given(st.text(max_size=20))
def test_any_name_is_text_in_latex(name):
    words = tokens(in_latex([name])[0])
    assert words <= COMMANDS | {word.removeprefix("\\") for word in naming._GREEK.values()} | {
        "textbar",
        "textasciigrave",
    }
