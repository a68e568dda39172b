"""Error bars of analyses, against closed forms: normal draws of linear equations, and enumeration of what they give."""

import numpy as np
import pytest
from scipy import linalg, stats

import fimsde
from fimsde.analysis.cells import make_cells
from fimsde.analysis.current import entropy_production, probability_current
from fimsde.analysis.draws import SeparateDraws, interval_of
from fimsde.analysis.equation_draws import with_intervals
from fimsde.analysis.fixed_point_draws import with_errors
from fimsde.analysis.fixed_points import find
from fimsde.analysis.potential import Potential, drawn_potentials, potential
from fimsde.benchmark.calibration.measure import exit_times
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError
from fimsde.simulate import simulate
from problems import CorrelatedOrnsteinUhlenbeck
from test_evidence_infer import THETA, as_observations, ou_data

NUM = 2000


def double_well(a=1.0, b=1.0, s=0.7):
    return FunctionSDE(1, lambda x: a * x - b * x**3, lambda x: np.full_like(x, s))


def drawn_wells(num=NUM, spread=0.2, seed=0):
    """Draws of a x - b x³ with normal a: wells at sqrt(a), barriers a² / 4, slopes -2 a there and a at zero."""
    a = np.random.default_rng(seed).normal(1.0, spread, num)
    return a, SeparateDraws([double_well(a=value) for value in a])


def everywhere(x):
    return np.ones(len(x), bool)


@pytest.fixture(scope="module")
def well():
    """An estimate of a double well from 3000 observations."""
    obs = simulate(double_well(), np.array([[1.0]]), np.arange(3000) * 0.1, substeps=10, seed=0).observations()
    return fimsde.fit(obs, "evidence")


# ---- fixed points --------------------------------------------------------------------------------------------------


def test_a_root_beyond_a_flat_stretch_was_lost():
    """Newton's method hops to and fro around 0.5, where the drift of the draws is flat and not zero."""
    low, high = np.array([-1.0]), np.array([1.5])
    (point,) = find(FunctionSDE(1, lambda x: 0.4 - x, np.ones_like), low, high, everywhere)
    ends = np.linspace(-0.8, -0.6, 41)
    draws = [FunctionSDE(1, lambda x, a=a: -(x - a) * ((x - 0.5) ** 2 + 0.05), np.ones_like) for a in ends]
    (found,) = with_errors((point,), SeparateDraws(draws), low, high)
    assert found.error.probability == found.error.stable == 1
    expected = interval_of(ends)
    np.testing.assert_allclose([found.error.x.low[0], found.error.x.high[0]], [expected.low, expected.high], atol=1e-5)
    times = interval_of(1 / ((ends - 0.5) ** 2 + 0.05))
    seen = found.error.relaxation_time
    np.testing.assert_allclose([seen.low, seen.high], [times.low, times.high], rtol=1e-3)


def test_the_root_of_its_kind_is_that_of_a_point():
    low, high = np.array([-1.0]), np.array([1.5])
    (point,) = find(FunctionSDE(1, lambda x: 0.4 - x, np.ones_like), low, high, everywhere)
    three = FunctionSDE(1, lambda x: -(x - 0.1) * (x - 0.35) * (x - 1.2), np.ones_like)
    (found,) = with_errors((point,), SeparateDraws([three]), low, high)
    assert abs(found.error.x.low[0] - 0.1) < 1e-5, "0.35 is nearer, and unstable"
    none = FunctionSDE(1, np.ones_like, np.ones_like)
    (found,) = with_errors((point,), SeparateDraws([three, none]), low, high)
    assert found.error.probability == 0.5


def test_fixed_points_of_draws_have_the_law_of_the_closed_form():
    """x = sqrt(a) and a relaxation time of 1 / 2 a for normal a: the same quantiles, as roots grow with a."""
    a, draws = drawn_wells(spread=0.1)
    low, high = np.array([-2.0]), np.array([2.0])
    points = with_errors(find(double_well(), low, high, everywhere), draws, low, high)
    assert [round(float(p.x[0])) for p in points] == [-1, 0, 1]
    ends = interval_of(a, 0.9)
    right = points[2].error
    assert (right.probability, right.stable) == (1.0, 1.0)
    np.testing.assert_allclose([right.x.low[0], right.x.high[0]], np.sqrt([ends.low, ends.high]), atol=1e-3)
    times = [right.relaxation_time.low, right.relaxation_time.high]
    np.testing.assert_allclose(times, [0.5 / ends.high, 0.5 / ends.low], rtol=1e-2)
    assert points[1].error.stable == 0.0
    assert np.isnan(points[1].error.relaxation_time.low)
    assert np.isnan(right.frequency.low)  # nothing turns in one dimension


def test_the_probability_of_a_fixed_point_is_the_share_of_draws_that_have_it():
    """Wells exist where a > 0: 84 % of draws with mean 0.2 and deviation 0.2; elsewhere zero is the only root.

    There all three iterations end at zero, which is the middle point's own.
    """
    a = np.random.default_rng(1).normal(0.2, 0.2, NUM)
    draws = SeparateDraws([double_well(a=value) for value in a])
    low, high = np.array([-2.0]), np.array([2.0])
    points = with_errors(find(double_well(a=0.2), low, high, everywhere), draws, low, high)
    share = np.mean(a > 0)
    for p in (points[0], points[2]):
        assert p.error.probability == pytest.approx(share, abs=0.04)  # roots closer than 0.003 of the box are one
    assert points[1].error.probability == pytest.approx(1.0, abs=0.04)
    assert points[1].error.stable == pytest.approx(1 - share, abs=0.04)
    assert abs(points[0].error.probability - 1.0) > 0.1


def test_a_focus_has_the_frequency_of_its_eigenvalues():
    """dx = -r x + w y, dy = -w x - r y: eigenvalues -r ± i w, frequency w / 2 pi, relaxation time 1 / r."""
    rng = np.random.default_rng(2)
    r, w = rng.uniform(0.5, 1.0, 400), rng.normal(3.0, 0.2, 400)

    def focus(r, w):
        return FunctionSDE(2, lambda x: x @ np.array([[-r, -w], [w, -r]]), np.ones_like)

    low, high = np.array([-1.0, -1.0]), np.array([1.2, 1.1])
    draws = SeparateDraws([focus(*pair) for pair in zip(r, w, strict=True)])
    (point,) = with_errors(find(focus(0.7, 3.0), low, high, everywhere), draws, low, high)
    expected = interval_of(w / (2 * np.pi))
    assert point.error.frequency.low == pytest.approx(expected.low, rel=1e-6)
    assert point.error.frequency.high == pytest.approx(expected.high, rel=1e-6)
    assert point.error.relaxation_time.high == pytest.approx(interval_of(1 / r).high, rel=1e-6)


def test_estimates_say_how_sure_their_fixed_points_are(well):
    points = well.fixed_points((-1.6, 1.6))
    assert len(points) == 3
    for point, truth in zip(points, (-1.0, 0.0, 1.0), strict=True):
        assert point.error.probability > 0.9
        assert point.error.x.low[0] - 0.1 < truth < point.error.x.high[0] + 0.1
        assert point.error.x.high[0] - point.error.x.low[0] < 0.5
    assert [p.error.stable > 0.5 for p in points] == [True, False, True]
    assert fimsde.result(double_well()).fixed_points((-2.0, 2.0))[0].error is None


# ---- potentials, densities, times ----------------------------------------------------------------------------------


def test_barriers_have_the_law_of_the_closed_form():
    """V = -a x² / 2 + x⁴ / 4 has barriers a² / 4, and 2 V / g for constant g."""
    a, draws = drawn_wells(spread=0.1)
    found = potential(double_well(), -2.0, 2.0)
    found = Potential(
        found.x, found.drift_potential, found.effective_potential, lambda: drawn_potentials(draws, found.x)
    )
    left, right = found.barriers()
    assert (left.well, left.top, right.well) == pytest.approx((-1.0, 0.0, 1.0), abs=0.01)
    assert right.height == pytest.approx(0.25, abs=1e-4)
    assert right.effective == pytest.approx(0.5 / 0.49, abs=1e-3)
    ends = interval_of(a**2 / 4)
    np.testing.assert_allclose([right.interval.low, right.interval.high], [ends.low, ends.high], rtol=1e-3)
    np.testing.assert_allclose(right.effective_interval.high, 2 * ends.high / 0.49, rtol=1e-3)
    assert potential(double_well(), -2.0, 2.0).barriers()[0].interval is None
    with pytest.raises(ConfigError, match="no posterior"):
        potential(double_well(), -2.0, 2.0).interval()


def test_densities_and_exit_times_of_estimates_have_intervals_around_them(well):
    density = well.stationary_density((-2.0, 2.0), 80)
    ends = density.interval()
    inside = (ends.low <= density.density) & (density.density <= ends.high)
    assert inside.mean() > 0.95
    truth = fimsde.result(double_well()).stationary_density((-2.0, 2.0), 80).density
    assert np.mean((ends.low <= truth) & (truth <= ends.high)) > 0.5  # one data set
    passage = well.first_passage(-1.0, 1.0)
    interval = passage.interval(-1.0)
    assert interval.low[0] < passage.at(-1.0)[0] < interval.high[0]
    assert interval.high[0] < 3 * interval.low[0]
    for nothing in (fimsde.result(double_well()).first_passage(-1.0, 1.0, walls=(-2.0, 2.0)),):
        with pytest.raises(ConfigError, match="no posterior"):
            nothing.interval(0.0)


def test_exit_times_by_quadrature_are_those_of_brownian_motion_and_of_the_grid():
    """(L / 2)² / g from the middle of an interval of length L without drift; and the backward equation with it."""
    x = np.linspace(-1.0, 1.0, 201)
    times = exit_times(x, np.zeros((1, 201)), np.full((1, 201), 0.5))
    assert times[0] == pytest.approx(2.0, rel=1e-4)
    sde = double_well()
    found = fimsde.result(sde).exit_time((-1.0, 1.0)).at(0.0)[0]
    own = exit_times(x, sde.drift(x[:, None])[None, :, 0], sde.diffusion(x[:, None])[None, :, 0] ** 2)[0]
    assert own == pytest.approx(found, rel=1e-3)
    assert own != pytest.approx(1.0 / 0.49, rel=0.05)  # without drift it would be another time


# ---- formulas ------------------------------------------------------------------------------------------------------


def test_coefficients_of_a_formula_have_the_law_of_the_draws(well):
    """Draws a x - b x³ with normal a: the interval of the linear term is that of a, of the cubic one a point."""
    a, draws = drawn_wells(spread=0.1)
    result = fimsde.result(double_well(), well.observations)
    found = with_intervals(result.equation(), double_well(), draws, well.observations)
    low, high = found.drift_terms.intervals[:, 0]
    ends = interval_of(a)
    np.testing.assert_allclose([low[1], high[1]], [ends.low, ends.high], rtol=1e-8)
    np.testing.assert_allclose([low[3], high[3]], [-1.0, -1.0], rtol=1e-8)
    assert found.drift_terms.probabilities is None
    table = found.to_pandas()
    assert list(table.columns[-3:]) == ["low", "high", "probability"]


def test_terms_of_an_estimate_have_probabilities(well):
    """Linear and cubic terms of a double well are certain with 3000 observations; the even ones are not there."""
    terms = well.equation().drift_terms
    probabilities = terms.probabilities[0]
    assert probabilities[1] > 0.95
    assert probabilities[3] > 0.95
    assert probabilities[2] < 0.6
    table = well.equation().to_pandas()
    row = table[(table.field == "drift") & (table.term == "x1")].iloc[0]
    assert row.low < 1.0 < row.high
    assert row.low < row.coefficient < row.high


# ---- currents and entropy ------------------------------------------------------------------------------------------


def turning(w, theta=1.0, sigma=(1.0, 1.0)):
    return CorrelatedOrnsteinUhlenbeck(np.array([[theta, -w], [w, theta]]), np.array(sigma), np.eye(2))


def exact_production(sde):
    """<f' D⁻¹ f> + <div f> for dx = -A x dt + noise of constant D: tr(A' D⁻¹ A C) - tr A."""
    inverse = np.linalg.inv(sde.covariance_rate / 2)
    return float(np.trace(sde.pull.T @ inverse @ sde.pull @ sde.stationary_covariance()) - np.trace(sde.pull))


@pytest.mark.parametrize(("w", "sigma"), [(0.5, (1.0, 1.0)), (1.0, (1.0, 1.0)), (0.0, (1.0, 2.0)), (0.4, (1.0, 1.5))])
def test_entropy_production_of_linear_equations_is_the_closed_form(w, sigma):
    """2 w² / theta for a rotation with the same noise in both components; zero without rotation. Errors fall as h²."""
    sde = turning(w, sigma=sigma)
    if sigma == (1.0, 1.0):
        assert exact_production(sde) == pytest.approx(2 * w**2)
    reach = 4.5 * np.sqrt(np.diag(sde.stationary_covariance()))
    found = [entropy_production(sde, make_cells(-reach, reach, num)) for num in (40, 80)]
    assert found[1] == pytest.approx(exact_production(sde), abs=0.02 * max(2 * w**2, 0.05))
    assert abs(found[1] - exact_production(sde)) <= abs(found[0] - exact_production(sde)) + 1e-9


def test_currents_of_a_rotation_go_round():
    """J = w (y, -x) p for dx = -theta x + w y, dy = -w x - theta y, with the density of a normal law."""
    sde = turning(0.7)
    found = probability_current(sde, make_cells(np.full(2, -3.2), np.full(2, 3.2), 80))
    x, y = np.meshgrid(*found.axes, indexing="ij")
    density = stats.norm.pdf(x, scale=np.sqrt(0.5)) * stats.norm.pdf(y, scale=np.sqrt(0.5))
    exact = 0.7 * density[..., None] * np.stack([y, -x], axis=-1)
    assert np.abs(found.current - exact).max() < 0.02 * np.abs(exact).max()
    assert np.abs(found.current + exact).max() > 0.5 * np.abs(exact).max()
    with pytest.raises(ConfigError, match="in two"):
        probability_current(double_well(), make_cells(np.array([-1.0]), np.array([1.0]), 20))


def test_the_entropy_production_of_an_estimate_has_an_interval():
    sde = turning(1.0)
    ahead = linalg.expm(-0.1 * sde.pull)
    spread = np.linalg.cholesky(sde.stationary_covariance() - ahead @ sde.stationary_covariance() @ ahead.T)
    rng, x = np.random.default_rng(0), np.zeros((2000, 2))
    for k in range(1, len(x)):
        x[k] = ahead @ x[k - 1] + spread @ rng.standard_normal(2)
    found = fimsde.fit(fimsde.read(x, dt=0.1), "evidence").current(num_cells=30)
    ends = found.interval()
    assert 0 < ends.low < found.entropy_production < ends.high
    assert ends.low < 2.0 < 1.5 * ends.high  # walls around the data take a little of it away


def test_posterior_intervals_of_any_number_can_be_asked_for():
    result = fimsde.fit(as_observations(ou_data(500, 2)), "evidence")
    found = result.posterior(100).interval(lambda r: float(r.drift(0.3)))
    band = result.band(0.3)
    assert found.low < -0.3 * THETA * 0.5
    assert abs(found.low - band.drift_low[0, 0]) < 0.5 * (band.drift_high - band.drift_low)[0, 0]
