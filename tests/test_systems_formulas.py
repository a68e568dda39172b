"""Every system computes what its printed formula says, and is a well-formed equation."""

import re

import numpy as np
import pytest
import sympy
from sympy.parsing.sympy_parser import implicit_multiplication, parse_expr, standard_transformations

from fimsde.equations.sde import SDE
from fimsde.systems.canonical import CANONICAL, System, grid
from fimsde.systems.lorenz import LORENZ
from fimsde.systems.out_of_class import MULLER_BROWN, OUT_OF_CLASS
from printed import PRINTED

SYSTEMS = (*CANONICAL, LORENZ, *OUT_OF_CLASS)


@pytest.fixture(params=SYSTEMS, ids=lambda s: s.name)
def system(request) -> System:
    return request.param


def evaluate(latex: str, x):
    """A LaTeX formula of x, or of x_1, x_2, ..., at locations (queries, dim)."""
    text = re.sub(r"\\frac\{([^{}]*)\}\{([^{}]*)\}", r"((\1) / (\2))", latex)
    for written, meant in (("{", "("), ("}", ")"), (r"\max", "Max"), ("\\", ""), ("_", ""), ("^", "**")):
        text = text.replace(written, meant)
    symbols = sympy.symbols("x" if x.shape[1] == 1 else f"x1:{x.shape[1] + 1}", seq=True)
    known = {str(s): s for s in symbols}
    formula = parse_expr(text, known, (*standard_transformations, implicit_multiplication))
    assert formula.free_symbols <= set(symbols), f"unknown symbols in {latex}"
    return np.broadcast_to(sympy.lambdify(symbols, formula)(*x.T), len(x))


def test_drift_and_diffusion_agree_with_the_printed_formulas(system):
    rng = np.random.default_rng(0)
    low, high = np.array(system.box, float).T
    x = rng.uniform(low - 0.5, high + 0.5, (200, system.dim))  # beyond the box too, where clipping acts
    for field, formulas in zip((system.drift, system.diffusion), PRINTED[system.name], strict=True):
        assert len(formulas) == system.dim
        printed = np.stack([evaluate(formula, x) for formula in formulas], axis=1)
        np.testing.assert_allclose(field(x), printed, rtol=1e-9, atol=1e-9)


def test_a_wrong_coefficient_in_a_formula_would_be_noticed():
    x = np.array([[0.5], [2.0]])
    assert not np.allclose(CANONICAL[0].drift(x), np.stack([evaluate("4 (x - 1.1 x^3)", x)], axis=1))


def test_systems_are_equations_with_unique_names(system):
    assert isinstance(system, SDE)
    assert [s.name for s in SYSTEMS].count(system.name) == 1
    assert len(system.box) == system.dim
    nodes = grid(system)
    for field in (system.drift, system.diffusion):
        values = field(nodes)
        assert values.shape == nodes.shape
        assert np.isfinite(values).all()
    assert (system.diffusion(nodes) >= 0).all()


@pytest.mark.parametrize("minimum", [(-0.558224, 1.441726), (0.623499, 0.028038), (-0.050011, 0.466694)])
def test_muller_brown_rests_at_the_published_minima(minimum):
    """The minima of the original potential to six decimals; the steepest curvature is about 150 per unit there."""
    assert np.abs(MULLER_BROWN.drift(np.array([minimum]))).max() < 150 * 1e-6
    assert np.abs(MULLER_BROWN.drift(np.array([minimum]) + 1e-4)).max() > 1e-4
