"""Noise whose components are correlated, through everything an equation goes through, against closed forms."""

import json
from dataclasses import replace

import numpy as np
import pytest
import sympy
from scipy import stats

import fimsde
from checks import check_mean, check_variance
from fimsde.analysis.cells import make_cells
from fimsde.analysis.generator import make_generator
from fimsde.analysis.oblique import selling
from fimsde.equations.changes import AffineSDE, ExpSDE, LogSDE
from fimsde.equations.sde import (
    CorrelatedSDE,
    FunctionSDE,
    correlated_noise,
    correlation,
    covariance_rate,
    is_diagonal,
    nearest_correlation,
    noise_factor,
    whiten,
)
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.filter.kalman import innovations
from fimsde.metrics.likelihood import transition_likelihood
from fimsde.metrics.vector_field import field_error
from fimsde.simulate import simulate
from fimsde.tabulate import tabulate
from problems import CorrelatedGeometricBrownianMotion, CorrelatedOrnsteinUhlenbeck, OrnsteinUhlenbeck

RHO = np.array([[1.0, -0.7], [-0.7, 1.0]])
OU = CorrelatedOrnsteinUhlenbeck(np.array([[1.0, 0.5], [-0.3, 2.0]]), np.array([0.8, 0.5]), RHO)
RHO3 = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
OU3 = CorrelatedOrnsteinUhlenbeck(np.diag([1.0, 2.0, 0.5]) + 0.1, np.array([1.0, 0.3, 2.0]), RHO3)
VARYING = FunctionSDE(  # a correlation that depends on the state
    2,
    lambda x: -x,
    lambda x: np.stack([1 + 0.1 * x[:, 0] ** 2, np.full(len(x), 0.5)], axis=1),
    lambda x: np.eye(2) + (0.8 * np.tanh(x[:, 0]))[:, None, None] * (1 - np.eye(2)),
)
X = np.random.default_rng(0).normal(size=(40, 2))
SQUARE = (np.full(2, -1.0), np.full(2, 1.0))


def observed(sde, num_paths=1, num_points=2000, dt=0.02, seed=0, substeps=5):
    start = np.zeros((num_paths, sde.dim))
    return simulate(sde, start, np.arange(num_points) * dt, substeps=substeps, seed=seed).observations()


# --- the protocol ---


def test_an_equation_without_a_correlation_is_diagonal():
    plain = OrnsteinUhlenbeck(dim=2)
    assert is_diagonal(plain)
    assert is_diagonal(FunctionSDE(2, plain.drift, plain.diffusion))
    assert is_diagonal(CorrelatedSDE(plain, np.eye(2)))
    assert not is_diagonal(CorrelatedSDE(plain, RHO))
    np.testing.assert_array_equal(correlation(plain, X), np.tile(np.eye(2), (40, 1, 1)))


def test_the_covariance_rate_is_sigma_sigma_rho():
    np.testing.assert_allclose(covariance_rate(OU, X), np.tile(OU.covariance_rate, (40, 1, 1)), rtol=1e-15)


@pytest.mark.parametrize("rho", [RHO, RHO3, np.eye(4), np.ones((2, 2)), np.array([[1.0, -1.0], [-1.0, 1.0]])])
def test_the_factor_gives_the_correlation_back_also_where_it_is_singular(rho):
    factor = noise_factor(rho)
    np.testing.assert_allclose(factor @ factor.T, rho, atol=1e-15)
    assert np.all(np.triu(factor, 1) == 0)


def test_whitening_undoes_the_factor():
    factor = np.tile(noise_factor(RHO3), (7, 1, 1))
    z = np.random.default_rng(1).normal(size=(7, 3))
    np.testing.assert_allclose(whiten(factor, np.einsum("nij,nj->ni", factor, z)), z, atol=1e-14)


def test_the_nearest_correlation_keeps_correlations_and_mends_others():
    np.testing.assert_array_equal(nearest_correlation(RHO3), RHO3)
    wrong = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    assert np.linalg.eigvalsh(wrong).min() < -0.5
    mended = nearest_correlation(wrong)
    assert np.linalg.eigvalsh(mended).min() > -1e-12
    np.testing.assert_allclose(np.diag(mended), 1.0, rtol=1e-14)


@pytest.mark.parametrize(
    "rho",
    [[[1.0, 0.5], [0.4, 1.0]], [[0.9, 0.0], [0.0, 1.0]], [[1.0, 1.2], [1.2, 1.0]], [[1.0, np.nan], [np.nan, 1.0]]],
)
def test_what_is_no_correlation_is_refused_in_one_sentence(rho):
    with pytest.raises(ConfigError, match="no matrix of correlations"):
        CorrelatedSDE(OrnsteinUhlenbeck(dim=2), np.array(rho))
    wrong = FunctionSDE(2, OU.drift, OU.diffusion, lambda x: np.tile(np.array(rho), (len(x), 1, 1)))
    with pytest.raises(ConfigError, match="no matrix of correlations"):
        simulate(wrong, np.zeros((3, 2)), [0.0, 1.0])


def test_a_correlation_of_the_wrong_shape_is_refused():
    wrong = FunctionSDE(2, OU.drift, OU.diffusion, lambda x: RHO)
    with pytest.raises(InvalidObservationsError, match="one matrix for each location"):
        simulate(wrong, np.zeros((3, 2)), [0.0, 1.0])
    with pytest.raises(ConfigError, match="a row per component"):
        CorrelatedSDE(OrnsteinUhlenbeck(dim=3), RHO)


# --- the stepper ---


def test_paths_have_the_moments_of_the_euler_chain():
    """Closed form at any step size; false alarms 1e-6 per check."""
    steps = np.array([0.3, 0.1, 0.1, 0.25])
    start = np.array([1.0, -2.0])
    end = simulate(OU, np.tile(start, (20_000, 1)), np.concatenate([[0], np.cumsum(steps)]), seed=3).values[:, -1]
    mean, covariance = OU.euler_moments(start, steps)
    for direction in ([1, 0], [0, 1], [1, 1], [1, -2]):
        variance = direction @ covariance @ direction
        check_mean(end @ direction, mean @ direction, variance)
        check_variance(end @ direction, variance)


def test_that_check_notices_independent_noise():
    end = simulate(replace(OU, rho=np.eye(2)), np.zeros((20_000, 2)), [0.0, 0.5], seed=3).values[:, -1]
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(end.sum(axis=1), np.sum(OU.euler_moments(np.zeros(2), [0.5])[1]))


def test_diagonal_paths_are_the_same_bit_for_bit_with_an_identity_for_correlation():
    plain = FunctionSDE(2, OU.drift, OU.diffusion)
    said = CorrelatedSDE(plain, np.eye(2))
    counted = FunctionSDE(2, OU.drift, OU.diffusion, lambda x: np.tile(np.eye(2), (len(x), 1, 1)))
    start, times = np.ones((5, 2)), np.linspace(0, 1, 30)
    expected = simulate(plain, start, times, seed=8).values
    for sde in (said, counted):
        np.testing.assert_array_equal(simulate(sde, start, times, seed=8).values, expected)


def test_noise_that_is_the_same_moves_both_components_alike():
    same = CorrelatedSDE(FunctionSDE(2, np.zeros_like, np.ones_like), np.ones((2, 2)))
    values = simulate(same, np.zeros((4, 2)), np.linspace(0, 1, 50)).values
    np.testing.assert_array_equal(values[..., 0], values[..., 1])


def test_correlated_geometric_brownian_motion_has_its_exact_law():
    """ln x has normal increments with the covariance sigma_i sigma_j rho_ij t. Errors of 1000 Euler steps are below
    1e-3 of the standard deviations, a tenth of the standard error here; false alarms 1e-6."""
    gbm = CorrelatedGeometricBrownianMotion(np.array([0.1, 0.2]), np.array([0.3, 0.5]), RHO)
    end = np.log(simulate(gbm, np.ones((4000, 2)), [0.0, 1.0], substeps=1000, seed=5).values[:, -1])
    z = (end - gbm.mu + gbm.sigma**2 / 2) / gbm.sigma
    for direction in ([1, 0], [0, 1], [1, 1], [1, -1]):
        check_mean(z @ direction, 0.0, direction @ RHO @ direction)
        check_variance(z @ direction, direction @ RHO @ direction)


# --- changes of variables ---


def test_a_change_of_units_keeps_correlations_and_a_reflection_turns_their_sign():
    moved = AffineSDE(VARYING, np.array([-2.0, 3.0]), np.array([0.5, 1.0]), 4.0)
    z = (X - [0.5, 1.0]) / [-2.0, 3.0]
    np.testing.assert_allclose(correlation(moved, z)[:, 0, 1], -correlation(VARYING, X)[:, 0, 1], rtol=1e-12)
    expected = covariance_rate(VARYING, X) / np.outer([-2.0, 3.0], [-2.0, 3.0]) / 4.0
    np.testing.assert_allclose(covariance_rate(moved, z), expected, rtol=1e-12)
    assert is_diagonal(AffineSDE(OrnsteinUhlenbeck(dim=2), np.ones(2), np.zeros(2)))


def test_the_logarithm_of_correlated_prices_is_a_correlated_random_walk():
    gbm = CorrelatedGeometricBrownianMotion(np.array([0.1, 0.2]), np.array([0.3, 0.5]), RHO)
    walk = LogSDE(gbm)
    np.testing.assert_allclose(walk.drift(X), np.tile(gbm.mu - gbm.sigma**2 / 2, (40, 1)), rtol=1e-12)
    np.testing.assert_allclose(correlation(walk, X), np.tile(RHO, (40, 1, 1)), rtol=1e-15)
    back = ExpSDE(walk)
    np.testing.assert_allclose(back.drift(np.exp(X)), gbm.drift(np.exp(X)), rtol=1e-12)
    np.testing.assert_allclose(correlation(back, np.exp(X)), np.tile(RHO, (40, 1, 1)), rtol=1e-15)
    assert np.isnan(correlation(back, np.array([[-1.0, 1.0]]))).all()


# --- tables ---


def test_a_table_holds_the_correlation_within_its_bound_and_paths_go_on_outside():
    table = tabulate(VARYING, np.full(2, -2.0), np.full(2, 2.0), tolerance=1e-4)
    x = np.random.default_rng(2).uniform(-2, 2, (500, 2))
    off = np.abs(correlation(table, x) - correlation(VARYING, x)).max()
    assert 0 < off <= table.correlation_error <= 1e-4
    far = np.array([[3.0, 0.0], [0.0, 0.0], [0.0, -5.0]])
    np.testing.assert_allclose(correlation(table, far)[[0, 2]], correlation(VARYING, far)[[0, 2]], rtol=1e-15)
    assert is_diagonal(tabulate(OrnsteinUhlenbeck(dim=2), np.full(2, -1.0), np.full(2, 1.0)))


def test_a_table_in_three_dimensions_simulates_the_same_law():
    table = tabulate(OU3, np.full(3, -9.0), np.full(3, 9.0), tolerance=0.01)
    end = simulate(table, np.zeros((20_000, 3)), [0.0, 0.1, 0.2], seed=1).values[:, -1]
    covariance = OU3.euler_moments(np.zeros(3), [0.1, 0.1])[1]
    for direction in ([1, 1, 0], [1, 0, 1], [0, 1, 1], [1, -1, 1]):
        check_variance(end @ direction, direction @ covariance @ direction)


# --- densities and exit times ---


@pytest.mark.parametrize("rho", [0.3, -0.9, 0.99, -0.999])
@pytest.mark.parametrize("shape", [1.0, 0.07, 13.0])
def test_the_steps_of_a_grid_add_up_to_the_variance_rate_with_weights_that_are_not_negative(rho, shape):
    matrix = np.array([[1.0, rho * shape], [rho * shape, shape**2]])[None]
    weights, steps = selling(matrix)
    assert (weights >= 0).all()
    np.testing.assert_allclose(np.einsum("ck,cki,ckj->cij", weights, steps, steps), matrix, rtol=1e-9, atol=1e-12)


def test_rates_of_jumps_give_drift_and_variance_rate_back():
    """The generator on x_i gives the drift, on x_i x_j the covariance rate, up to terms of the order of the cells."""
    cells = make_cells(np.array([-2.0, -1.0]), np.array([2.0, 1.0]), 100)
    generator = make_generator(VARYING, cells)
    x = cells.centres()
    inner = np.all(np.abs(x / [2.0, 1.0]) < 0.8, axis=1)
    drift = generator.rates @ x
    np.testing.assert_allclose(drift[inner], VARYING.drift(x)[inner], atol=1e-9)
    expected = covariance_rate(VARYING, x)
    for i, j in ((0, 0), (0, 1), (1, 1)):
        product = generator.rates @ (x[:, i] * x[:, j]) - x[:, i] * drift[:, j] - x[:, j] * drift[:, i]
        np.testing.assert_allclose(product[inner], expected[inner, i, j], rtol=1e-9, atol=1e-2)
    assert generator.rates.sum(axis=1).max() < 1e-9


@pytest.mark.parametrize("rho", [0.5, -0.9, 0.99])
def test_the_stationary_density_has_the_covariance_of_lyapunovs_equation(rho):
    ou = replace(OU, rho=np.array([[1.0, rho], [rho, 1.0]]))
    exact = ou.stationary_covariance()
    side = 4.5 * np.sqrt(np.diag(exact))
    off = []
    for num in (50, 100):
        found = fimsde.result(ou).stationary_density(box=(-side, side), num_cells=num)
        mass = found.density * np.prod(found.cells.width)
        assert (mass > 0).all()
        x = found.cells.centres()
        covariance = np.einsum("c,ci,cj->ij", mass.ravel(), x, x)
        off.append(np.abs(covariance / exact - 1).max())
    assert off[1] < 0.015
    assert off[1] < 0.4 * off[0] or off[1] < 1e-3, "the error falls as the square of the cells"


def test_the_exit_time_is_that_of_simulated_paths_and_not_that_of_independent_noise():
    """A stated 1e-6 of false alarms, plus half a percent for cells and steps."""
    ou = replace(OU, rho=np.array([[1.0, 0.95], [0.95, 1.0]]))
    box = (np.array([-0.7, -0.5]), np.array([0.7, 0.6]))
    found = fimsde.result(ou).exit_time(box).at(np.zeros((1, 2)))[0]
    simulated = fimsde.result(ou).simulate_exit(np.zeros(2), box, num_paths=2000, dt=2e-3, max_time=20.0)
    allowed = stats.norm.isf(5e-7) * simulated.standard_error + 0.005 * found
    assert abs(found - simulated.mean) < allowed
    independent = fimsde.result(replace(OU, rho=np.eye(2))).exit_time(box).at(np.zeros((1, 2)))[0]
    assert abs(independent - simulated.mean) > allowed


def test_independent_noise_leaves_a_box_at_the_same_time_on_both_kinds_of_grid():
    """A correlation of next to nothing takes the grid of oblique jumps, none that of straight ones: both tend to the
    exact time with the square of the cells, here 0.5894 for a Brownian motion in the middle of a square of side 2."""
    walk = FunctionSDE(2, np.zeros_like, np.ones_like)
    nearly = CorrelatedSDE(walk, np.array([[1.0, 1e-9], [1e-9, 1.0]]))
    for sde in (walk, nearly):
        found = fimsde.result(sde).exit_time(SQUARE, num_cells=40).at(np.zeros((1, 2)))[0]
        assert found == pytest.approx(0.58937, rel=2e-3)


def test_a_brownian_motion_with_one_noise_leaves_a_square_as_on_a_line():
    """Components that move alike: leaving [-1, 1]² from (0, 0) is leaving [-1, 1] from 0, mean time 1 / sigma². The
    grid takes correlations above 0.999 for 0.999."""
    same = CorrelatedSDE(FunctionSDE(2, np.zeros_like, lambda x: np.full_like(x, 0.5)), np.full((2, 2), 1.0))
    found = fimsde.result(same).exit_time(SQUARE).at(np.zeros((1, 2)))[0]
    assert found == pytest.approx(1 / 0.25, rel=0.05)


def test_noise_that_vanishes_somewhere_still_has_rates():
    corner = FunctionSDE(
        2, lambda x: -x, lambda x: np.maximum(np.abs(x), 1e-12), lambda x: np.tile(RHO, (len(x), 1, 1))
    )
    found = fimsde.result(corner).exit_time(SQUARE, num_cells=20)
    assert np.isfinite(found.mean).all()


# --- likelihood, residuals, metrics ---


def test_the_likelihood_is_that_of_a_normal_step():
    obs = observed(OU, num_points=50)
    steps = np.diff(obs.values, axis=0)
    expected = [
        stats.multivariate_normal(y + OU.drift(y[None])[0] * 0.02, OU.covariance_rate * 0.02).logpdf(y + d)
        for y, d in zip(obs.values, steps, strict=False)
    ]
    assert transition_likelihood(OU, obs).mean == pytest.approx(np.mean(expected) / 2, rel=1e-9)


def test_the_true_correlation_is_the_most_likely_one():
    obs = observed(OU, num_points=4000)
    scores = [
        transition_likelihood(CorrelatedSDE(OU, np.array([[1, r], [r, 1.0]])), obs).mean for r in (-0.5, -0.7, -0.85)
    ]
    assert np.argmax(scores) == 1
    assert transition_likelihood(FunctionSDE(2, OU.drift, OU.diffusion), obs).mean < min(scores) + 0.2


def test_a_singular_correlation_has_no_density():
    found = transition_likelihood(CorrelatedSDE(OU, np.ones((2, 2))), observed(OU, num_points=20))
    assert (found.num_invalid, found.mean) == (19, -np.inf)


def test_residuals_are_whitened_by_the_factor():
    obs = observed(OU, num_points=5000, substeps=1)
    blind = FunctionSDE(2, OU.drift, OU.diffusion)
    white, plain = innovations(OU, obs).values, innovations(blind, obs).values
    n = len(white)
    assert abs(np.corrcoef(white.T)[0, 1]) < stats.norm.isf(5e-7) / np.sqrt(n)
    assert np.corrcoef(plain.T)[0, 1] == pytest.approx(-0.7, abs=0.05)
    np.testing.assert_allclose(innovations(OU, obs).plain, innovations(blind, obs).plain, rtol=0.01, atol=0.01)


def test_errors_of_fields_count_the_correlation():
    plain = FunctionSDE(2, OU.drift, OU.diffusion)
    assert field_error(OU, OU, X).correlation == 0.0
    assert field_error(plain, OU, X).correlation == pytest.approx(0.49)
    assert field_error(plain, plain, X).correlation == 0.0


# --- results: formula, files, figures, report ---


def test_the_formula_says_the_correlation_and_is_an_equation_with_it():
    result = fimsde.result(OU)
    equation = result.equation(box=SQUARE)
    assert str(equation).splitlines()[-1] == "dW1 dW2 = (-0.7) dt"
    assert r"\mathrm{d}W_{1}\, \mathrm{d}W_{2} &= \left(-0.7\right) \mathrm{d}t" in equation.latex()
    np.testing.assert_allclose(correlation(equation, X), correlation(OU, X), rtol=1e-9)
    assert float(equation.sympy_correlation()[0, 1]) == pytest.approx(-0.7)
    names: dict = {}
    exec(equation.code(), names)
    np.testing.assert_allclose(names["correlation"](X), correlation(OU, X), rtol=1e-9)
    np.testing.assert_allclose(names["drift"](X), OU.drift(X), rtol=1e-9)


def test_a_correlation_that_depends_on_the_state_is_a_polynomial():
    bent = replace(VARYING, correlation=lambda x: np.eye(2) + (0.5 * x[:, 0])[:, None, None] * (1 - np.eye(2)))
    equation = fimsde.result(bent).equation(box=SQUARE)
    assert str(equation).splitlines()[-1] == "dW1 dW2 = (0.5 x1) dt"
    assert sympy.simplify(equation.sympy_correlation()[0, 1] - 0.5 * sympy.Symbol("x1", real=True)).is_zero is not False


def test_a_diagonal_formula_is_written_as_before():
    equation = fimsde.result(OrnsteinUhlenbeck(dim=2)).equation(box=SQUARE)
    assert equation.is_diagonal
    assert "dW1 dW2" not in str(equation)
    assert "correlation" not in equation.code()


def test_a_result_answers_simulates_and_is_analysed_with_its_correlation():
    obs = observed(OU)
    result = fimsde.result(OU, obs)
    np.testing.assert_array_equal(result.correlation(obs.values[:5]), correlation(OU, obs.values[:5]))
    assert not result.is_diagonal
    np.testing.assert_array_equal(
        result.simulate(np.zeros(2), [0.0, 1.0], 3, seed=2).values,
        simulate(OU, np.zeros((3, 2)), [0.0, 1.0], seed=2).values,
    )
    assert "bad" not in {verdict.status for verdict in result.check()}
    plain = fimsde.result(FunctionSDE(2, OU.drift, OU.diffusion), obs)
    assert abs(np.corrcoef(innovations(result, obs).values.T)[0, 1]) < abs(
        np.corrcoef(innovations(plain, obs).values.T)[0, 1]
    )


def test_an_estimate_with_a_correlation_is_saved_and_loaded(tmp_path):
    obs = observed(OU, num_points=400)
    estimated = fimsde.estimate(obs)
    result = estimated.with_correlation(RHO)
    result.save(tmp_path / "kept")
    assert json.loads((tmp_path / "kept" / "result.json").read_text())["correlation"] == RHO.tolist()
    again = fimsde.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.correlation(obs.values[:3]), result.correlation(obs.values[:3]))
    np.testing.assert_array_equal(again.drift(obs.values[:3]), estimated.drift(obs.values[:3]))
    drawn = result.resampled(2)
    assert all(sde is not None and not is_diagonal(sde) for sde in drawn)


def test_figures_show_the_correlation():
    obs = observed(OU, num_points=500)
    figure = fimsde.result(OU, obs).plot(resamples=0)
    labels = " ".join(axes.get_title() + axes.get_ylabel() + axes.get_xlabel() for axes in figure.axes)
    texts = labels + " ".join(text.get_text() for axes in figure.axes for text in axes.texts)
    assert "correlation" in texts
    plain = fimsde.result(FunctionSDE(2, OU.drift, OU.diffusion), obs).plot(resamples=0)
    assert len(figure.axes) > len(plain.axes)


def test_a_report_and_its_table_hold_the_correlation(tmp_path):
    obs = observed(OU, num_points=500)
    result = fimsde.estimate(obs).with_correlation(RHO)
    page = result.report(tmp_path / "report.html", resamples=0).read_text()
    assert "dW1 dW2 = (-0.7) dt" in page


# --- more dimensions ---


@pytest.mark.parametrize("dim", [4, 8])
def test_equations_of_many_components_are_simulated_analysed_and_written_down(dim):
    rng = np.random.default_rng(dim)
    rho = np.corrcoef(rng.normal(size=(dim, 3 * dim)))
    pull = np.diag(rng.uniform(0.5, 2.0, dim))
    pull[0, 1] = 0.3
    ou = CorrelatedOrnsteinUhlenbeck(pull, rng.uniform(0.3, 1.0, dim), rho)
    end = simulate(ou, np.ones((4000, dim)), [0.0, 0.3, 0.5], seed=1).values[:, -1]
    mean, covariance = ou.euler_moments(np.ones(dim), [0.3, 0.2])
    direction = rng.normal(size=dim)
    check_mean(end @ direction, mean @ direction, direction @ covariance @ direction)
    check_variance(end @ direction, direction @ covariance @ direction)
    box = (np.full(dim, -1.0), np.full(dim, 1.0))
    points = fimsde.result(ou).fixed_points(box)
    assert len(points) == 1
    np.testing.assert_allclose(points[0].x, 0.0, atol=1e-6)
    assert points[0].kind == "stable node"
    equation = fimsde.result(ou).equation(1, diffusion_degree=0, box=box)
    x = rng.uniform(-1, 1, (20, dim))
    np.testing.assert_allclose(equation.drift(x), ou.drift(x), atol=1e-8)
    np.testing.assert_allclose(correlation(equation, x), correlation(ou, x), atol=1e-6)
    obs = simulate(ou, np.zeros((1, dim)), np.arange(300) * 0.05, seed=2).observations()
    assert np.isfinite(transition_likelihood(ou, obs).mean)


def test_fixed_points_in_five_dimensions_are_found_where_cells_are_wide():
    """Five independent double wells have 3⁵ = 243 fixed points; a grid of six nodes per axis finds most of them."""
    wells = FunctionSDE(5, lambda x: x - x**3, np.ones_like)
    points = fimsde.result(wells).fixed_points((np.full(5, -1.6), np.full(5, 1.7)))
    found = {tuple(np.round(point.x).astype(int)) for point in points}
    assert len(found) == len(points) > 200


def test_three_roots_inside_one_wide_cell_are_found():
    """Zero and ±0.1 lie between the nodes at ±0.2 of six per axis: the nodes beside them start the search."""
    close = FunctionSDE(5, lambda x: np.where(np.arange(5) == 0, x * (0.01 - x**2), -x), np.ones_like)
    points = fimsde.result(close).fixed_points((np.full(5, -1.0), np.full(5, 1.0)))
    np.testing.assert_allclose([point.x[0] for point in points], [-0.1, 0.0, 0.1], atol=1e-6)


def test_noise_drawn_for_a_path_keeps_its_rows_apart():
    z = np.random.default_rng(4).normal(size=(6, 2))
    both = correlated_noise(VARYING, X[:6], z)
    for k in range(6):
        np.testing.assert_allclose(correlated_noise(VARYING, X[k : k + 1], z[k : k + 1])[0], both[k], rtol=1e-15)
