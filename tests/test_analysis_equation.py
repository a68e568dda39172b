"""The formula of an equation: terms, standard errors, and that names from files stay harmless."""

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import fimsde
from checks import check_variance
from fimsde.baselines import kramers_moyal
from fimsde.data.health import health
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError
from fimsde.systems import canonical
from printed import PRINTED
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
        printed = PRINTED[system.name][0][j]
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


def test_an_equation_can_be_simulated_and_analysed():
    equation = fimsde.result(WELLS).equation(box=(-2.0, 2.0))
    assert isinstance(equation, fimsde.SDE)
    assert len(fimsde.result(equation).fixed_points(box=(-2.0, 2.0))) == 3


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


DAMPED = FunctionSDE(
    2, lambda x: np.stack([-0.1 * x[:, 0] + 2 * x[:, 1], -2 * x[:, 0] - 0.1 * x[:, 1]], axis=1), np.ones_like
)


def test_a_damped_oscillator_is_not_printed_as_undamped_without_a_word():
    """A damping of 0.1 is 1.3 standard errors over twenty time units of noise: no formula can decide about it."""
    for seed in range(3):
        obs = fimsde.read(observe(DAMPED, [2.5, 0.0], num=1000, dt=0.02, seed=seed).values, dt=0.02, names=["u", "v"])
        equation = fitted(obs).equation()
        assert (1, 0) not in support(equation.drift_terms, 0)
        low, high = equation.drift_terms.doubt.interval(0, 1)
        assert low < -0.1 < high
        said = next(line for line in str(equation).splitlines() if line.startswith("left out of the drift of u"))
        assert f"u between {low:.2g} and {high:.2g}" in said
        assert said in equation.remarks()


def test_intervals_of_terms_left_out_hold_the_truth_at_their_level():
    """The constant of an OU process is zero: 95 % intervals miss it in 10 or fewer of 60 paths (1e-3), and intervals of
    half the width would miss it more often."""
    paths = fimsde.simulate(OrnsteinUhlenbeck(theta=1.5, sigma=0.7), np.zeros((60, 1)), np.arange(1000) * 0.05, seed=3)
    scores = []
    for values in paths.values:
        equation = fitted(fimsde.read(values, dt=0.05)).equation(max_degree=1)
        doubt = equation.drift_terms.doubt
        if equation.drift_terms.coefficients[0, 0] == 0:
            scores.append(doubt.added[0, 0] / doubt.added_errors[0, 0])
    assert len(scores) > 50
    most = stats.binom.isf(1e-3, len(scores), 0.05)
    assert np.sum(np.abs(scores) > 1.96) <= most
    assert np.sum(np.abs(scores) > 0.98) > most


def test_an_added_term_is_that_of_a_fit_with_it():
    result = fitted(observe(WELLS, 0.3))
    equation = result.equation()
    terms, x = equation.drift_terms, result.observations.values[:-1]
    field = result.fields(x)
    phi = np.concatenate([x, x**3, x**2], axis=1) / field[1]  # weights up to a constant: gaps are equal
    expected = np.linalg.lstsq(phi, (field[0] / field[1])[:, 0], rcond=None)[0][2]
    assert terms.doubt.added[0, 2] == pytest.approx(expected, rel=1e-6)
    error = np.sqrt(np.linalg.inv(phi.T @ phi * 0.05)[2, 2])
    assert terms.doubt.added_errors[0, 2] == pytest.approx(error, rel=1e-6)


@pytest.mark.parametrize("rate", [0.0, 0.05])
def test_an_equation_without_drift_says_so_with_a_bound_that_holds(rate):
    """Weak drifts that are not found: the bound is above the truth in all but 5 % of paths (1e-6), and it is no farther
    from zero than the noise of four terms over thirty time units and a drift just not found put it: 0.41."""
    sde = FunctionSDE(1, lambda x: -rate * x, lambda x: np.full_like(x, 0.5))
    paths = fimsde.simulate(sde, np.zeros((40, 1)), np.arange(600) * 0.05, seed=4)
    bounds, truths = [], []
    for values in paths.values:
        equation = fitted(fimsde.read(values, dt=0.05)).equation()
        if support(equation.drift_terms):
            continue
        bound = equation.drift_terms.doubt.largest[0]
        assert str(equation).startswith("dx1 = (0) dt")
        assert f"no drift of x1 was found: the data allow a root mean square of at most {bound:.2g} per time" in str(
            equation
        )
        bounds.append(bound)
        truths.append(np.sqrt(np.mean((rate * values) ** 2)))
    assert len(bounds) > 20
    assert np.sum(np.array(bounds) < truths) <= stats.binom.isf(1e-6, len(bounds), 0.05)
    assert np.median(bounds) < 0.45


def test_coefficients_that_cancel_are_written_with_the_digits_they_need():
    """Far from zero, but not so far that the formula is centred: a cubic in three digits would be another one."""
    sde = FunctionSDE(1, lambda x: (x - 1.2345) * (x - 1.4987) * (1.7613 - x), lambda x: 0.01 + 0 * x)
    obs = fimsde.read(0.9 + np.random.default_rng(0).uniform(size=3000), dt=0.1)
    equation = fimsde.result(sde, obs).equation()
    assert equation.origin[0] == 0
    shown = re.search(r"\((.*)\) dt", str(equation))[1].replace("^", "**").replace(" + ", "+").replace(" - ", "-")
    x = obs.values[:, 0]
    printed = eval(shown.replace(" ", "*"), {"__builtins__": {}}, {"x1": x})
    exact = equation.drift(obs.values)[:, 0]
    assert np.sqrt(np.mean((printed - exact) ** 2)) < 0.011 * np.sqrt(np.mean(exact**2))
    assert equation.drift_terms.digits[0] > 3


def test_a_drift_that_the_posterior_is_sure_of_has_a_term_in_the_formula():
    """A slope of 4.2 standard errors: the information criterion asks for 5.5 once the mean is in the formula, too."""
    rng, values = np.random.default_rng(0), np.zeros((2000, 1))
    for i in range(1999):
        values[i + 1] = 0.98 * values[i] + 0.14 * rng.standard_normal()
    found = fimsde.estimate(fimsde.read(values + 5.0, dt=0.02))
    assert found.sde.has_drift.all()
    assert found.equation().drift_terms.coefficients.any()
    walk = fimsde.estimate(fimsde.read(np.cumsum(0.14 * rng.standard_normal((2000, 1)), axis=0), dt=0.02))
    assert not walk.sde.has_drift.any()
    assert not walk.equation().drift_terms.coefficients.any()
