"""Densities, potentials and exit times against closed forms and quadrature."""

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.interpolate import CubicSpline
from scipy.linalg import solve_continuous_lyapunov

import fimsde
from checks import check_cdf, check_slope
from fimsde.analysis.cells import BoxCells, make_cells
from fimsde.analysis.density import stationary_density
from fimsde.analysis.exit_time import simulate_exit, suggested_step
from fimsde.analysis.generator import make_generator
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.systems import canonical
from problems import OrnsteinUhlenbeck

OU = fimsde.result(OrnsteinUhlenbeck(theta=1.5, sigma=0.7))
SD = OrnsteinUhlenbeck(theta=1.5, sigma=0.7).stationary_variance() ** 0.5
WELLS = fimsde.result(FunctionSDE(1, lambda x: x - x**3, lambda x: np.full_like(x, 0.5)))
CURVED = fimsde.result(FunctionSDE(1, lambda x: 1 - x, lambda x: np.sqrt(0.3 + 0.2 * x**2)))  # multiplicative noise
BROWNIAN = fimsde.result(FunctionSDE(1, np.zeros_like, np.ones_like))


def observe(sde, x0, num=4000, dt=0.05, seed=0):
    return fimsde.simulate(sde, np.atleast_2d(x0), np.arange(num) * dt, substeps=2, seed=seed).observations()


def mean_exit_by_quadrature(drift, diffusion, low, high, x):
    """Two integrals of the scale function: the textbook solution with both ends open. Splines on fine nodes."""
    nodes = np.linspace(low, high, 4001)
    slope = CubicSpline(nodes, 2 * drift(nodes) / diffusion(nodes) ** 2).antiderivative()
    scale = np.exp(-slope(nodes))
    speed = CubicSpline(nodes, 2 / (scale * diffusion(nodes) ** 2)).antiderivative()
    inner = CubicSpline(nodes, scale * speed(nodes)).antiderivative()
    upto = CubicSpline(nodes, scale).antiderivative()
    return upto(x) / upto(high) * inner(high) - inner(x)


def test_the_stationary_density_of_an_ornstein_uhlenbeck_process_is_normal():
    found = OU.stationary_density(box=(-8 * SD, 8 * SD))
    np.testing.assert_allclose(found.variance(), SD**2, rtol=1e-3)
    np.testing.assert_allclose(found.mean(), 0, atol=1e-9)
    exact = stats.norm.pdf(found.axes[0], scale=SD)
    np.testing.assert_allclose(found.density, exact, rtol=0, atol=2e-3 * exact.max())
    near = np.abs(found.axes[0]) < 7 * SD  # 20 orders of magnitude below the top
    np.testing.assert_allclose(np.log(found.density[near]), np.log(exact[near]), atol=0.05)


@pytest.mark.parametrize("sde", [WELLS, CURVED], ids=["double well", "multiplicative noise"])
def test_the_stationary_density_in_one_dimension_is_the_known_integral(sde):
    found = sde.stationary_density(box=(-2.5, 2.5), num_cells=800)
    x = found.axes[0]
    f, s = sde.fields(x[:, None])
    slope = CubicSpline(x, 2 * f[:, 0] / s[:, 0] ** 2)
    exact = slope.antiderivative()(x[::50]) - np.log(s[::50, 0] ** 2)
    got = np.log(found.density[::50])
    np.testing.assert_allclose(got - got[8], exact - exact[8], atol=2e-3)


def test_that_comparison_notices_a_density_without_the_multiplicative_term():
    """Forgetting the factor 1 / g (Stratonovich's reading of the equation) is off by far more than the tolerance."""
    x = CURVED.stationary_density(box=(-2.5, 2.5), num_cells=800).axes[0]
    assert np.ptp(np.log(0.3 + 0.2 * x**2)) > 100 * 2e-3


def test_the_error_of_the_density_falls_with_the_square_of_the_step():
    """For the double well; linear drift with constant noise is exact at any step."""
    nodes = np.linspace(-2.5, 2.5, 100_001)
    weight = np.exp(8 * (nodes**2 / 2 - nodes**4 / 4))
    exact = np.sum(weight * nodes**2) / np.sum(weight)
    nums = np.array([25, 50, 100, 200])
    errors = [abs(WELLS.stationary_density(box=(-2.5, 2.5), num_cells=int(n)).variance()[0] - exact) for n in nums]
    check_slope(1.0 / nums, errors, 2, 0.2)
    np.testing.assert_allclose(OU.stationary_density(box=(-3, 3), num_cells=25).variance(), SD**2, rtol=1e-9)


def test_a_density_in_two_dimensions_with_rotation_has_the_covariance_of_lyapunov():
    """No potential exists here: probability flows in circles at rest."""
    a = np.array([[-1.0, 1.5], [-1.0, -0.5]])
    s = np.array([0.6, 0.4])
    sde = fimsde.result(FunctionSDE(2, lambda x: x @ a.T, lambda x: np.tile(s, (len(x), 1))))
    exact = solve_continuous_lyapunov(a, -np.diag(s**2))
    found = sde.stationary_density(box=(np.full(2, -2.5), np.full(2, 2.5)), num_cells=150)
    np.testing.assert_allclose(found.variance(), np.diag(exact), rtol=0.02)
    x, y = np.meshgrid(*found.axes, indexing="ij")
    covariance = (found.density * x * y).sum() / found.density.sum()
    np.testing.assert_allclose(covariance, exact[0, 1], rtol=0.05)


def test_densities_are_positive_and_mass_is_conserved_on_every_canonical_system():
    for system in canonical.CANONICAL:
        low, high = (np.array(c) for c in zip(*system.box, strict=True))
        found = fimsde.result(system).stationary_density(box=(low, high), num_cells=60)
        assert np.all(found.density >= 0)
        assert found.density.sum() * np.prod(found.cells.width) == pytest.approx(1, abs=1e-9)
        rates = make_generator(system, make_cells(low, high, 60)).rates
        assert np.abs(np.asarray(rates.sum(axis=1))).max() <= 1e-9 * np.abs(rates.diagonal()).max()


def test_the_density_agrees_with_the_histogram_of_a_long_path():
    """The share of time below 0, by the density and by independent paths (DKW band, 1e-6)."""
    ends = fimsde.simulate(WELLS, np.tile(np.linspace(-1, 1, 4000)[:, None], (1, 1)), [0.0, 40.0], dt=0.02, seed=3)
    found = WELLS.stationary_density(box=(-2.5, 2.5))
    cdf = np.cumsum(found.density) * found.cells.width[0]
    check_cdf(ends.values[:, -1, 0], lambda x: np.interp(x, found.axes[0] + found.cells.width[0] / 2, cdf))


def test_the_histogram_of_the_data_is_close_to_the_density_of_its_equation_and_far_from_another():
    obs = observe(WELLS, [[1.0], [-1.0]], num=10_000)
    near = fimsde.result(WELLS, obs).stationary_density()
    far = fimsde.result(OU, obs).stationary_density()
    assert near.histogram is not None
    assert near.distance() < 0.12 < 0.3 < far.distance()
    widths = [np.diff(e)[0] for e in near.bin_edges]
    assert near.histogram.sum() * np.prod(widths) == pytest.approx(1)
    assert near.unsupported_share < 0.02
    assert near.edge_share < 1e-3


def test_marginals_of_independent_components_are_their_densities():
    two = fimsde.result(OrnsteinUhlenbeck(theta=1.5, sigma=0.7, dim=2))
    found = two.stationary_density(box=(np.full(2, -3.0), np.full(2, 3.0)), num_cells=80)
    one = OU.stationary_density(box=(-3, 3), num_cells=80)
    for j in (0, 1):
        np.testing.assert_allclose(found.marginal(j), one.density, atol=1e-6)


def test_marginals_of_a_box_with_unequal_sides_are_densities_of_their_own_components():
    two = fimsde.result(OrnsteinUhlenbeck(theta=1.5, sigma=0.7, dim=2))
    found = two.stationary_density(box=(np.array([-2.5, -5.0]), np.array([2.5, 5.0])), num_cells=60)
    for j, end in enumerate((2.5, 5.0)):
        one = OU.stationary_density(box=(-end, end), num_cells=60)
        np.testing.assert_allclose(found.marginal(j), one.density, atol=1e-6)
    np.testing.assert_allclose(found.variance(), SD**2, rtol=1e-2)


def test_a_histogram_where_the_density_is_not_is_at_distance_one_and_data_outside_the_box_are_missing():
    far = fimsde.read(np.linspace(2.0, 2.4, 100), dt=1.0)
    assert fimsde.result(OU, far).stationary_density(box=(-2.5, 2.5)).distance() == pytest.approx(1, abs=1e-3)
    half = fimsde.result(OU, far).stationary_density(box=(-2.5, 2.2))
    assert half.histogram.sum() * np.diff(half.bin_edges[0])[0] == pytest.approx(0.5)


def test_the_unsupported_share_is_the_probability_of_all_cells_without_data():
    cells = make_cells(np.full(1, -2.5), np.full(1, 2.5), 200)
    inside = np.abs(cells.axes[0]) < SD
    found = stationary_density(OU, cells, None, inside)
    assert found.unsupported_share == pytest.approx(2 * stats.norm.sf(1), abs=0.01)


def test_potentials_of_the_double_well_are_the_known_polynomials():
    found = WELLS.potential(box=(-1.8, 1.8))
    exact = found.x**4 / 4 - found.x**2 / 2
    exact -= exact.min()
    np.testing.assert_allclose(found.drift_potential, exact, atol=1e-9)
    np.testing.assert_allclose(found.effective_potential, 2 * exact / 0.25, atol=1e-8)


def test_the_effective_potential_is_minus_the_logarithm_of_the_density():
    quasi = CURVED.quasi_potential(box=(-2, 3))
    found = CURVED.potential(box=(-2, 3), num=4001)
    exact = np.interp(quasi.axes[0], found.x, found.effective_potential)
    np.testing.assert_allclose(quasi.values, exact - exact.min(), atol=2e-3)
    assert np.argmin(found.drift_potential) != np.argmin(found.effective_potential)  # noise moves the likely state


def test_the_quasi_potential_of_a_linear_system_in_two_dimensions_is_quadratic():
    two = fimsde.result(OrnsteinUhlenbeck(theta=1.5, sigma=0.7, dim=2))
    found = two.quasi_potential(box=(np.full(2, -2.0), np.full(2, 2.0)))
    x, y = np.meshgrid(*found.axes, indexing="ij")
    exact = (x**2 + y**2) / (2 * SD**2)
    np.testing.assert_allclose(found.values, exact - exact.min(), atol=0.05)


def test_brownian_motion_leaves_an_interval_after_its_known_mean_time():
    found = BROWNIAN.exit_time((-1.0, 2.0))
    x = np.linspace(-0.9, 1.9, 15)
    np.testing.assert_allclose(found.at(x), (x + 1) * (2 - x), rtol=1e-3)
    assert found.at(-3.0)[0] == 0


@pytest.mark.parametrize(
    ("sde", "low", "high", "x"), [(OU, -0.8, 0.6, 0.1), (WELLS, -1.6, 0.0, -1.0), (CURVED, -0.5, 2.0, 0.9)]
)
def test_exit_times_agree_with_quadrature(sde, low, high, x):
    nodes = np.linspace(low, high, 401)
    drift, diffusion = (CubicSpline(nodes, v[:, 0]) for v in sde.fields(nodes[:, None]))
    exact = mean_exit_by_quadrature(drift, diffusion, low, high, x)
    assert sde.exit_time((low, high)).at(x)[0] == pytest.approx(exact, rel=1e-3)


def test_first_passage_over_the_barrier_has_one_open_end():
    """With a reflecting wall the inner integral starts there: T = ∫ s(y) ∫ m(z) dz dy from the start to the level."""
    found = WELLS.first_passage(-1.0, 0.5, walls=(-2.5, 2.5))

    def potential(z):
        return (z**4 / 4 - z**2 / 2) * 8  # 2 V / g

    exact = quad(lambda y: np.exp(potential(y)) * quad(lambda z: 8 * np.exp(-potential(z)), -2.5, y)[0], -1.0, 0.5)[0]
    assert found.at(-1.0)[0] == pytest.approx(exact, rel=1e-3)
    assert np.isneginf(found.low[0])


def test_brownian_motion_leaves_a_square_after_its_known_mean_time():
    """The torsion of the unit square at its centre, 0.0736713, twice because half the Laplacian acts."""
    two = fimsde.result(FunctionSDE(2, np.zeros_like, np.ones_like))
    found = two.exit_time((np.zeros(2), np.ones(2)))
    assert found.at(np.array([[0.5, 0.5]]))[0] == pytest.approx(2 * 0.0736713, rel=1e-3)


@pytest.mark.parametrize(
    ("sde", "box", "x0"),
    [
        (BROWNIAN, (-1.0, 1.0), 0.3),
        (CURVED, (-np.inf, 1.5), 0.9),
        (
            fimsde.result(OrnsteinUhlenbeck(theta=1.5, sigma=0.7, dim=2)),
            (np.array([-0.6, -0.7]), np.array([0.5, np.inf])),
            np.array([0.1, 0.0]),
        ),
    ],
    ids=["brownian", "one open end, multiplicative noise", "two dimensions"],
)
def test_simulated_exit_times_agree_with_the_backward_equation(sde, box, x0):
    """Five standard errors (6e-7) plus one percent for the step of the simulation."""
    walls = (np.full(sde.dim, -3.0), np.full(sde.dim, 3.0)) if sde.dim == 2 else (-3.0, 3.0)
    exact = sde.exit_time(box, walls=walls).at(np.atleast_2d(x0))[0]
    low, high = (np.atleast_1d(np.array(c, float)) for c in box)
    found = with_walls(sde).simulate_exit(
        x0, box, num_paths=3000, dt=None if sde.dim == 2 else 0.002, max_time=50 * exact, seed=5
    )
    assert found.num_inside == found.num_diverged == 0
    assert abs(found.mean - exact) < 5 * found.standard_error + 0.01 * exact
    assert found.standard_error < 0.03 * exact
    assert np.all(low < high)


def with_walls(sde):
    """The equation with data between -3 and 3, so that infinite sides have a place to look at."""
    corners = np.array([np.full(sde.dim, -3.0), np.zeros(sde.dim), np.full(sde.dim, 3.0)])
    return fimsde.result(sde, fimsde.read(corners, dt=1.0))


def test_simulated_exit_counts_crossings_between_steps():
    """Negative control: without the bridge a coarse step overestimates the time by far more than the error."""
    coarse = with_walls(BROWNIAN).simulate_exit(0.0, (-1.0, 1.0), num_paths=20_000, dt=0.02, seed=0)
    assert abs(coarse.mean - 1) < 5 * coarse.standard_error + 0.01
    # the known shift of a discretely watched wall: 0.5826 sqrt(g dt) on each side
    assert 10 * coarse.standard_error < (1 + 0.5826 * 0.02**0.5) ** 2 - 1


def test_paths_that_are_still_inside_are_counted_and_the_mean_allows_for_them():
    found = with_walls(WELLS).simulate_exit(-1.0, (-np.inf, 1.0), num_paths=300, dt=0.01, max_time=4.0, seed=1)
    assert 0 < found.num_inside < 300
    assert np.isnan(found.times).sum() == found.num_inside
    assert found.mean > 4.0


def test_an_exit_is_counted_in_the_middle_of_its_step():
    """With hardly any noise a path of speed one leaves (-1, 0.95) in its tenth step of 0.1, from 0.9 to 1."""
    moving = FunctionSDE(1, np.ones_like, lambda x: np.full_like(x, 1e-9))
    found = simulate_exit(moving, np.zeros(1), np.full(1, -1.0), np.full(1, 0.95), max_time=2.0, dt=0.1, num_paths=3)
    np.testing.assert_allclose(found.times, 0.95, rtol=1e-12)
    assert found.mean == pytest.approx(0.95)


def test_the_mean_exit_time_and_its_error_are_those_of_the_times_and_of_a_constant_rate():
    """All paths leave: mean and its standard error. Some do not: time simulated in all over the number of exits, and
    the error of the maximum likelihood estimate for a constant rate, mean / sqrt(exits)."""
    walls = np.full(1, -0.6), np.full(1, 0.6)
    everyone = simulate_exit(OU, np.zeros(1), *walls, max_time=1e3, dt=0.01, num_paths=60, seed=1)
    assert everyone.num_inside == 0
    assert everyone.mean == pytest.approx(everyone.times.mean())
    assert everyone.standard_error == pytest.approx(everyone.times.std() / 60**0.5)
    some = simulate_exit(OU, np.zeros(1), *walls, max_time=0.5, dt=0.01, num_paths=60, seed=1)
    left = some.times[np.isfinite(some.times)]
    assert 5 < len(left) < 55
    assert some.mean == pytest.approx((left.sum() + (60 - len(left)) * 0.5) / len(left))
    assert some.standard_error == pytest.approx(some.mean / len(left) ** 0.5)


def test_the_suggested_step_moves_paths_by_a_fiftieth_of_the_box():
    corners = np.full(1, -1.0), np.full(1, 1.0)
    assert suggested_step(OU, *corners) == pytest.approx((0.04 / 0.7) ** 2)
    fast = FunctionSDE(1, lambda x: np.full_like(x, 100.0), lambda x: np.full_like(x, 0.7))
    assert suggested_step(fast, *corners) == pytest.approx(0.04 / 100)


def test_three_dimensions_are_refused_on_a_grid_and_possible_by_simulation():
    three = fimsde.result(OrnsteinUhlenbeck(dim=3))
    box = (np.full(3, -1.0), np.full(3, 1.0))
    for call in (three.stationary_density, three.quasi_potential, three.exit_time):
        with pytest.raises(ConfigError, match=r"3 dimensions.*Simulate"):
            call(box)
    with pytest.raises(ConfigError, match="max_time"):
        three.simulate_exit(np.zeros(3), box)
    assert three.simulate_exit(np.zeros(3), box, max_time=100.0, num_paths=50).num_inside == 0


BAD = {
    "no box": (lambda r: r.stationary_density(), ["no box", "box=(low, high)"]),
    "upside down": (lambda r: r.stationary_density(box=(1.0, -1.0)), ["low < high"]),
    "wrong dimension": (lambda r: r.exit_time((np.zeros(2), np.ones(2))), ["1 number"]),
    "nothing open": (lambda r: r.exit_time((-np.inf, np.inf), walls=(-1.0, 1.0)), ["no finite side"]),
    "start outside": (lambda r: r.simulate_exit(5.0, (-1.0, 1.0)), ["not inside the box"]),
    "too many cells": (lambda r: r.stationary_density(box=(-1.0, 1.0), num_cells=10**6), ["num_cells"]),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_boxes_are_refused_with_advice(name):
    call, words = BAD[name]
    with pytest.raises((ConfigError, InvalidObservationsError)) as error:
        call(OU)
    assert all(word in str(error.value) for word in words)


def test_fields_that_are_not_finite_are_named():
    holes = fimsde.result(FunctionSDE(1, lambda x: -x, lambda x: np.sqrt(np.where(x > 0.5, np.nan, 1.0))))
    with pytest.raises(InvalidObservationsError, match="not finite"):
        holes.stationary_density(box=(-1.0, 1.0))
    assert isinstance(make_cells(np.zeros(1), np.ones(1), None), BoxCells)


def test_paths_without_noise_overflowed_on_their_way_out():
    """They leave when the drift has carried them to the wall."""
    straight = fimsde.result(fimsde.FunctionSDE(1, lambda x: 1.0 + 0 * x, lambda x: 0 * x))
    found = straight.simulate_exit(0.0, (-1.0, 1.0), max_time=5.0, num_paths=3, dt=0.01)
    assert abs(found.mean - 1.0) <= 0.011
