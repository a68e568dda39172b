"""The formula of an equation: terms, standard errors, and that names from files stay harmless."""

import keyword
import re
from dataclasses import replace

import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import fimsde
from checks import check_variance
from fimsde.analysis.naming import to_symbols
from fimsde.baselines import kramers_moyal
from fimsde.errors import ConfigError
from fimsde.report.health import health
from fimsde.sde import FunctionSDE
from fimsde.systems import canonical
from problems import OrnsteinUhlenbeck

WELLS = FunctionSDE(1, lambda x: x - x**3, lambda x: np.full_like(x, 0.5))


def observe(sde, x0, num=5000, dt=0.05, seed=0):
    return fimsde.simulate(sde, np.atleast_2d(x0), np.arange(num) * dt, seed=seed).observations()


def support(polynomials, j=0):
    return {tuple(map(int, polynomials.exponents[k])) for k in np.flatnonzero(polynomials.coefficients[j])}


def fitted(obs):
    """Least squares on all monomials, which the readout then has to thin out."""

    def refit(o, seed):
        return kramers_moyal.fit(o, kramers_moyal.PolynomialSettings(clip=True), seed)

    return fimsde.result(refit(obs, 0), obs, refit=refit)


@pytest.mark.parametrize("system", canonical.CANONICAL[1:], ids=lambda s: s.name)
def test_the_formula_of_a_textbook_system_is_the_textbook_formula(system):
    low, high = (np.array(c) for c in zip(*system.box, strict=True))
    equation = fimsde.result(system).equation(box=(low, high))
    x = np.random.default_rng(0).uniform(low, high, (50, system.dim))
    np.testing.assert_allclose(equation.drift(x), system.drift(x), atol=1e-6)
    np.testing.assert_allclose(equation.diffusion(x), system.diffusion(x), atol=1e-6)
    np.testing.assert_allclose(equation.drift_terms.explained, 1, atol=1e-9)
    for j in range(system.dim):
        printed = system.drift_latex[j]
        if "(" not in printed:  # expanded formulas have one term between signs
            assert len(support(equation.drift_terms, j)) == len(re.findall(r"(?<!\^)[+-]?\s*[^+-]+", printed))


def test_the_terms_of_a_double_well_are_found_from_data():
    equation = fitted(observe(WELLS, 0.3)).equation()
    assert support(equation.drift_terms) == {(1,), (3,)}
    assert support(equation.diffusion_sq_terms) == {(0,)}
    assert equation.diffusion(np.zeros((1, 1)))[0, 0] == pytest.approx(0.5, rel=0.05)


def test_the_terms_of_an_ornstein_uhlenbeck_process_are_found_with_the_rate_of_the_criterion():
    """A superfluous term enters with probability P(chi² > ln n) = 0.0035 each, of three for the drift: 60 paths with
    more than 7 wrong ones have probability 1e-6."""
    ou = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)
    paths = fimsde.simulate(ou, np.zeros((60, 1)), np.arange(5000) * 0.05, seed=1)
    wrong = 0
    for values in paths.values:
        equation = fitted(fimsde.read(values, dt=0.05)).equation()
        wrong += support(equation.drift_terms) != {(1,)}
    rate = 3 * stats.chi2.sf(np.log(4999), 1)
    assert wrong <= stats.binom.isf(1e-6, 60, rate)
    assert stats.binom.isf(1e-6, 60, rate) < 10  # and the bound would notice a criterion with a penalty of 4


def test_standard_errors_are_those_of_the_coefficients():
    """The slope of an OU process over independent paths, standardised, has variance one (1e-6), and the check would
    notice standard errors of half the size. The mean is left alone: the slope of a finite path is biased."""
    ou = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)
    paths = fimsde.simulate(ou, np.zeros((150, 1)), np.arange(2000) * 0.05, seed=2)
    scores = []
    for values in paths.values:
        terms = fitted(fimsde.read(values, dt=0.05)).equation(max_degree=1).drift_terms
        scores.append((terms.coefficients[0, 1] + 1.5) / terms.standard_errors[0, 1])
    check_variance(scores, 1.0)
    with pytest.raises(AssertionError, match="variance ratio"):
        check_variance(2 * np.array(scores), 1.0)


@pytest.mark.parametrize("num", [400, 20_001], ids=["every state", "states that stand for four steps each"])
def test_standard_errors_of_constant_fields_are_those_of_a_mean_and_of_a_variance(num):
    """Of n steps in the time T the drift is known to sigma / sqrt(T) and the variance rate to g sqrt(2 / n), whether
    gaps are equal or not, and in whatever unit."""
    rng = np.random.default_rng(4)
    times = np.cumsum(rng.uniform(0.01, 0.03, num))
    steady = FunctionSDE(1, lambda x: np.full_like(x, 40.0), lambda x: np.full_like(x, 3.0))
    found = fimsde.result(steady, fimsde.read(rng.uniform(-5, 7, num), times=times)).equation()
    assert support(found.drift_terms) == support(found.diffusion_sq_terms) == {(0,)}
    assert found.drift_terms.standard_errors[0, 0] == pytest.approx(3 / np.ptp(times) ** 0.5, rel=5e-3)
    assert found.diffusion_sq_terms.standard_errors[0, 0] == pytest.approx(9 * (2 / (num - 1)) ** 0.5, rel=1e-9)


@pytest.mark.parametrize("num", [400, 20_001], ids=["every state", "states that stand for four steps each"])
@pytest.mark.parametrize(("share", "is_kept"), [(0.93, False), (1.07, True)])
def test_a_term_is_kept_if_leaving_it_out_costs_more_than_the_logarithm_of_the_number_of_steps(num, share, is_kept):
    """A slope a beside a constant costs a² var(x) T / (2 g) of log-likelihood in the drift, twice of which is compared
    with ln n, and a² var(x) n / (2 g²) in that of the variance rate."""
    rng = np.random.default_rng(5)
    x, dt, g = rng.permutation(np.linspace(-1, 1, num)), 0.02, 4.0
    n, cost = num - 1, share * np.log(num - 1)
    drift_slope = np.sqrt(cost * g / (np.var(x) * n * dt))
    g_slope = np.sqrt(cost * 2 * g**2 / (np.var(x) * n))
    sde = FunctionSDE(1, lambda z: 100 + drift_slope * z, lambda z: np.sqrt(g + g_slope * z))
    found = fimsde.result(sde, fimsde.read(x, dt=dt)).equation(max_degree=1, diffusion_degree=1)
    expected = {(0,), (1,)} if is_kept else {(0,)}
    assert support(found.drift_terms) == expected
    assert support(found.diffusion_sq_terms) == expected


def test_what_is_said_about_a_term_that_was_left_out_is_its_slope_and_the_error_of_it():
    """A slope that is too small to be kept, beside a constant: known to sqrt(g / (var(x) T)); 95 % is 1.96 of that."""
    x, dt, g, slope = np.random.default_rng(5).permutation(np.linspace(-1, 1, 400)), 0.02, 4.0, 1.5
    sde = FunctionSDE(1, lambda z: 100 + slope * z, lambda z: np.full_like(z, g**0.5))
    doubt = fimsde.result(sde, fimsde.read(x, dt=dt)).equation(max_degree=1).drift_terms.doubt
    error = np.sqrt(g / (np.var(x[:-1]) * 399 * dt))
    assert slope < 2.4 * error, "ln 399 is 2.4 squared"
    assert doubt.added[0] == pytest.approx([0, slope])
    assert doubt.added_errors[0] == pytest.approx([0, error])
    assert doubt.interval(0, 1) == pytest.approx((slope - 1.959964 * error, slope + 1.959964 * error), rel=1e-6)


@pytest.mark.parametrize(("degree", "quantile"), [(0, 3.841459), (1, 5.991465), (3, 9.487729)])
def test_where_there_is_no_drift_the_largest_one_that_data_allow_is_a_quantile_of_chi_square(degree, quantile):
    """A field of k terms that is zero in truth has a mean square of g / T times chi-square with k degrees of freedom;
    95 % of them are below the quantile."""
    x, dt, g = np.random.default_rng(5).permutation(np.linspace(-1, 1, 400)), 0.02, 4.0
    still = FunctionSDE(1, np.zeros_like, lambda z: np.full_like(z, g**0.5))
    doubt = fimsde.result(still, fimsde.read(x, dt=dt)).equation(max_degree=degree).drift_terms.doubt
    assert doubt.largest[0] == pytest.approx(np.sqrt(quantile * g / (399 * dt)), rel=1e-6)


@pytest.mark.parametrize(
    ("low", "high", "is_far"), [(1.0, 3.0, False), (-3.0, -1.0, False), (3.0, 5.0, True), (-5.0, -3.0, True)]
)
def test_the_formula_is_written_around_the_mean_if_zero_is_more_than_a_range_away(low, high, is_far):
    obs = fimsde.read(np.random.default_rng(0).permutation(np.linspace(low, high, 300)), dt=0.1)
    found = fimsde.result(FunctionSDE(1, lambda x: -x, np.ones_like), obs).equation()
    assert found.origin[0] == pytest.approx((low + high) / 2 if is_far else 0, abs=0.05)


def test_the_formula_follows_a_change_of_units():
    obs = observe(WELLS, 0.3)
    plain, moved = fitted(obs).equation(), fitted(obs.with_units(scale=1e6, time_scale=1e-3)).equation()
    assert support(plain.drift_terms) == support(moved.drift_terms)
    x = np.linspace(-1, 1, 9)[:, None]
    np.testing.assert_allclose(moved.drift(1e6 * x), 1e9 * plain.drift(x), rtol=1e-6, atol=1)


def test_far_from_zero_the_formula_is_written_around_a_rounded_mean():
    obs = observe(OrnsteinUhlenbeck(theta=1.0, sigma=0.5), 0.0).with_units(offset=293.15)
    equation = fitted(obs).equation()
    assert abs(equation.origin[0] - 293.15) < 0.2
    assert f"x1 - {float(equation.origin[0])!r}" in str(equation)
    assert support(equation.drift_terms) <= {(0,), (1,)}
    namespace = {}
    exec(equation.code(), namespace)
    x = np.linspace(292, 294, 7)[:, None]
    np.testing.assert_allclose(namespace["drift"](x), equation.drift(x), rtol=1e-12)


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


def test_an_equation_can_be_simulated_and_analysed():
    equation = fimsde.result(WELLS).equation(box=(-2.0, 2.0))
    assert isinstance(equation, fimsde.SDE)
    assert len(fimsde.result(equation).fixed_points(box=(-2.0, 2.0))) == 3


EVIL = ["x; import os", "__import__('os').system('x')", "a\nb", "}\\input{/etc/passwd}", "", "1st"]
EVIL += ["lambda", "np", "states", "Ω"]


@pytest.mark.parametrize("name", EVIL)
def test_a_hostile_name_can_neither_run_nor_break_a_formula(name):
    equation = fimsde.result(WELLS, names=[name]).equation(box=(-2.0, 2.0))
    symbol = equation.symbols[0]
    assert re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", symbol)
    namespace = {}
    exec(equation.code(), namespace)
    assert set(namespace) == {"__builtins__", "np", "drift", "diffusion"}
    assert "/" not in equation.latex()
    assert set(re.findall(r"\\[a-z]+", equation.latex())) <= {
        *(r"\begin", r"\end", r"\mathrm", r"\left", r"\right", r"\sqrt", r"\times")
    }
    assert len(str(equation).splitlines()) <= 2


@given(st.lists(st.text(max_size=12), min_size=1, max_size=3))
def test_symbols_are_distinct_identifiers_for_any_names(names):
    symbols = to_symbols(names)
    assert len(set(symbols)) == len(names)
    assert all(s.isidentifier() and s.isascii() and not keyword.iskeyword(s) for s in symbols)


def test_without_data_or_a_box_there_is_no_formula():
    with pytest.raises(ConfigError, match="box="):
        fimsde.result(WELLS).equation()
    with pytest.raises(ConfigError, match="degrees 9"):
        fimsde.result(WELLS).equation(max_degree=9, box=(-1.0, 1.0))


SEEN = observe(WELLS, 0.3, num=600)


def in_units(size, offset=0.0):
    """The double well and its data in other units."""
    moved = FunctionSDE(
        1, lambda x: size * WELLS.drift((x - offset) / size), lambda x: size * WELLS.diffusion((x - offset) / size)
    )
    return fimsde.result(moved, SEEN.with_units(scale=size, offset=offset))


@pytest.mark.parametrize("size", [1e-69, 1e-30, 1e30, 1e69])
def test_the_terms_do_not_depend_on_the_unit_even_if_powers_of_it_are_huge(size):
    plain, found = in_units(1.0).equation(), in_units(size).equation()
    x = SEEN.values[:50]
    assert support(found.drift_terms) == support(plain.drift_terms) == {(1,), (3,)}
    np.testing.assert_allclose(found.drift(size * x) / size, plain.drift(x), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.diffusion(size * x) / size, plain.diffusion(x), rtol=1e-9)
    ratio = found.drift_terms.standard_errors[0, 3] / plain.drift_terms.standard_errors[0, 3]
    assert ratio * size**2 == pytest.approx(1)


def test_far_from_zero_the_formula_is_still_written_around_the_mean():
    found = in_units(1e30, offset=1e32).equation()
    assert found.origin[0] == pytest.approx(1e32, rel=0.02)
    np.testing.assert_allclose(found.drift(found.origin[None] + 1e30) / 1e30, [[0.0]], atol=0.1)


@pytest.mark.parametrize("size", [1e-200, 1e-100, 1e100, 1e200])
def test_numbers_whose_powers_no_float_holds_end_in_a_sentence_not_in_an_endless_loop(size):
    result = in_units(size)
    calls = (result.equation, result.check, result.potential, result.stationary_density, result.plot)
    for analyse in (*calls, lambda: result.exit_time((-size, size)), lambda: result.report("never.html")):
        with pytest.raises(ConfigError, match=r"no float64 holds.*with_units"):
            analyse()


def test_coefficients_that_no_float_holds_are_refused():
    assert in_units(1e69).equation(max_degree=4).dim == 1
    with pytest.raises(ConfigError, match="degree 6 are no float64"):
        in_units(1e69).equation(max_degree=6)


@pytest.mark.parametrize("level", [0.0, 7.0])
def test_a_component_that_never_moves_has_a_formula(level):
    """Reading refuses such data; paths drawn again or thinned out may be like that."""
    obs = fimsde.read(np.column_stack([SEEN.values[:, 0], np.arange(600.0)]), times=SEEN.times)
    still = replace(obs, values=np.where([True, False], obs.values, level))
    sde = FunctionSDE(2, lambda x: np.stack([-x[:, 0], 0 * x[:, 1]], 1), lambda x: 0.5 + 0 * x)
    equation = fimsde.result(sde, still).equation()
    np.testing.assert_allclose(equation.drift(still.values), sde.drift(still.values), atol=1e-9)
    assert health(still).deviations == pytest.approx([SEEN.values.std(), 0])
