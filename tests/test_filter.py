"""The filter: against joint normal laws, its innovations for nonlinear equations, and the noise that it finds."""

import numpy as np
import pytest
from scipy import linalg, stats

import fimsde
from checks import check_cdf, check_mean, check_variance
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import InvalidObservationsError
from fimsde.filter.flow import linearise
from fimsde.filter.kalman import innovations, tabulated
from fimsde.filter.noise import fit_noise, neighbour_noise
from problems import CorrelatedOrnsteinUhlenbeck, GeometricBrownianMotion, OrnsteinUhlenbeck

TURN = CorrelatedOrnsteinUhlenbeck(
    np.array([[0.7, -1.2], [0.9, 1.1]]), np.array([0.5, 0.8]), np.array([[1.0, 0.6], [0.6, 1.0]])
)
WELL = FunctionSDE(1, lambda x: 4 * (x - x**3), lambda x: np.sqrt(0.5 + 0.3 * x**2))


def noisy(sde, std, num=4000, gap=0.02, num_paths=1, seed=0):
    start = np.full((num_paths, sde.dim), 0.5)
    paths = fimsde.simulate(sde, start, np.arange(num) * gap, substeps=20, seed=seed).values
    return fimsde.read(paths + std * np.random.default_rng(seed).standard_normal(paths.shape), dt=gap)


def joint_law(times, first, noise_var, sde):
    """Mean and covariance of all later observations of a linear equation, given the first one up to its noise."""
    dim = sde.dim
    stationary = sde.stationary_covariance()
    gaps = np.diff(times)
    ahead = [linalg.expm(-sde.pull * h) for h in gaps]
    own = [np.diag(noise_var)]
    means = [first]
    for a in ahead:
        means.append(a @ means[-1])
        own.append(a @ own[-1] @ a.T + stationary - a @ stationary @ a.T)
    n = len(gaps)
    covariance = np.zeros((n * dim, n * dim))
    for i in range(n):
        through = np.eye(dim)
        for j in range(i, n):
            if j > i:
                through = ahead[j] @ through
            block = through @ own[i + 1]
            covariance[j * dim : (j + 1) * dim, i * dim : (i + 1) * dim] = block
            covariance[i * dim : (i + 1) * dim, j * dim : (j + 1) * dim] = block.T
        covariance[i * dim : (i + 1) * dim, i * dim : (i + 1) * dim] += np.diag(noise_var)
    return np.concatenate(means[1:]), covariance


@pytest.mark.parametrize("noise_std", [(0.3, 0.1), (0.3, 0.0), (0.0, 0.0)])
def test_the_likelihood_of_a_linear_equation_is_that_of_the_joint_normal_law(noise_std):
    """Two components with correlated noise, irregular gaps, two paths; one component may be observed exactly."""
    rng = np.random.default_rng(0)
    times = [np.cumsum(rng.uniform(0.02, 0.5, n)) for n in (12, 7)]
    values = [rng.standard_normal((len(t), 2)) for t in times]
    std = np.array(noise_std)
    expected = 0.0
    for t, y in zip(times, values, strict=True):
        mean, covariance = joint_law(t, y[0], std**2, TURN)
        expected += stats.multivariate_normal(mean, covariance).logpdf(y[1:].ravel())
    found = innovations(TURN, fimsde.read(values, times=times), std)
    assert found.likelihood.sum() == pytest.approx(expected, rel=1e-6)


def test_whitened_innovations_are_those_of_the_factor_of_the_joint_law():
    rng = np.random.default_rng(1)
    times, values = np.cumsum(rng.uniform(0.05, 0.3, 9)), rng.standard_normal((9, 2))
    std = np.array([0.2, 0.4])
    mean, covariance = joint_law(times, values[0], std**2, TURN)
    expected = linalg.solve_triangular(np.linalg.cholesky(covariance), values[1:].ravel() - mean, lower=True)
    found = innovations(TURN, fimsde.read(values, times=times), std)
    np.testing.assert_allclose(found.values.ravel(), expected, rtol=1e-5, atol=1e-5)


def test_a_missing_row_is_one_longer_gap():
    """Observations 0, 1, 3 of a path: the same as a filter that is never told about 2."""
    rng = np.random.default_rng(2)
    values = rng.standard_normal((4, 2))
    kept = [0, 1, 3]
    seen = fimsde.read(values[kept], times=0.1 * np.array(kept))
    masked = fimsde.read(values, dt=0.1, mask=np.array([True, True, False, True]))
    a, b = (innovations(TURN, obs, np.array([0.1, 0.1])).likelihood for obs in (seen, masked))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_moments_of_a_cubic_drift_are_those_of_simulations():
    """From four places over a gap in which the state forgets half of where it was. A million paths each: standard
    errors of 1e-3; the linearisation may miss by 3 % of the standard deviation, and of the variance by 10 %."""
    start, gap = np.array([[-1.2], [-0.6], [0.3], [1.0]]), 0.1
    found = linearise(WELL, start, np.full(4, gap))
    many = np.repeat(start, 20_000, axis=0)
    ends = fimsde.simulate(WELL, many, [0.0, gap], substeps=40, seed=3).values[:, -1, 0].reshape(4, -1)
    std = ends.std(axis=1)
    np.testing.assert_allclose(found.ahead[:, 0], ends.mean(axis=1), atol=0.03 * std.max())
    np.testing.assert_allclose(found.covariance[:, 0, 0], std**2, rtol=0.1)
    euler = start[:, 0] + gap * WELL.drift(start)[:, 0]
    assert np.abs(euler - ends.mean(axis=1)).max() > 0.06 * std.max(), "an Euler step misses by twice as much"


def test_innovations_of_a_noisy_nonlinear_equation_are_independent_standard_normal_numbers():
    """False alarms 1e-6 each. Negative control: a filter that ignores the noise fails in variance and lag one."""
    obs = noisy(WELL, 0.1, num=5000)
    z = innovations(WELL, obs, np.array([0.1])).values[:, 0]
    check_mean(z, 0.0, 1.0)
    check_variance(z, 1.0)
    check_cdf(z, stats.norm.cdf)
    check_mean(z[1:] * z[:-1], 0.0, 1.0)
    blind = innovations(WELL, obs).values[:, 0]
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(blind, 1.0)
    blind /= blind.std()
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(blind[1:] * blind[:-1], 0.0, 1.0)


def test_noise_that_grows_with_the_state_does_not_make_innovations_skew():
    """Steps of geometric Brownian motion over 0.1 have a skewness of 3 sigma sqrt(h) = 0.47; ten thousand paths. The
    standard error is 0.024; what is left of higher order in the step may be as large."""
    gbm = GeometricBrownianMotion()
    steps = np.random.default_rng(5).standard_normal(10_000) * 0.1**0.5
    values = np.stack([np.ones(10_000), gbm.exact(1.0, 0.1, steps)], axis=1)[:, :, None]
    found = innovations(gbm, fimsde.read(values, dt=0.1))
    assert stats.skew(found.plain[:, 0]) > 0.4
    assert abs(stats.skew(found.values[:, 0])) < 0.05
    assert abs(stats.kurtosis(found.values[:, 0])) < 0.15


@pytest.mark.parametrize("sde", [OrnsteinUhlenbeck(1.5, 0.7, dim=2), WELL], ids=["linear", "double well"])
def test_the_noise_is_found_with_its_size(sde):
    """0.1 beside steps of 0.1: known to 3 %; five of these are allowed. The diffusion is right: its factors are one."""
    obs = noisy(sde, 0.1, num=5000)
    found = fit_noise(sde, obs)
    np.testing.assert_allclose(found.std, 0.1, rtol=0.15)
    np.testing.assert_allclose(found.scale, 1.0, atol=0.1)
    assert np.all(found.p_value < 1e-6)


def test_a_diffusion_that_is_too_large_gets_the_factor_that_undoes_it():
    wrong = FunctionSDE(1, lambda x: -1.5 * x, lambda x: np.full_like(x, 1.0))
    obs = noisy(OrnsteinUhlenbeck(1.5, 0.7), 0.1, num=5000)
    found = fit_noise(wrong, obs)
    np.testing.assert_allclose([found.std[0], found.scale[0]], [0.1, 0.7], rtol=0.12)
    assert fit_noise(wrong, obs, scales=False).scale[0] == 1


def test_without_noise_none_is_found_in_a_thousandth_of_data_sets():
    """100 data sets: more than four with noise have a probability of 1e-6."""
    ou = OrnsteinUhlenbeck(1.5, 0.7)
    paths = fimsde.simulate(ou, np.zeros((100, 1)), 0.02 * np.arange(400), substeps=10, seed=7).values
    found = [fit_noise(ou, fimsde.read(values, dt=0.02)).std[0] > 0 for values in paths]
    assert sum(found) <= stats.binom.isf(1e-6, 100, 1e-3)


def test_no_place_outside_a_table_and_no_hole_in_the_fields_stops_the_filter():
    """A root of a negative number somewhere in the box around the data: no table, and the equation itself is asked."""
    holes = FunctionSDE(1, lambda x: -x, lambda x: np.sqrt(np.where(x > -2, 0.5, np.nan)))
    obs = fimsde.read(np.linspace(-1.5, 1.5, 2000) + 0.01 * np.sin(np.arange(2000)), dt=0.1)
    with np.errstate(invalid="ignore"):
        assert tabulated(holes, obs) is holes
        assert np.isfinite(innovations(holes, obs).values).all()
        with pytest.raises(InvalidObservationsError, match="not finite at"):
            innovations(FunctionSDE(1, lambda x: -x, lambda x: np.sqrt(x)), obs)


def test_a_table_answers_for_the_equation_where_data_are():
    obs = noisy(WELL, 0.05)
    table = tabulated(WELL, obs)
    assert table is not WELL
    a, b = (innovations(sde, obs, np.array([0.05])).likelihood.sum() for sde in (table, WELL))
    assert a == pytest.approx(b, abs=0.2)


def test_the_likelihood_of_an_equation_of_another_dimension_is_refused():
    with pytest.raises(InvalidObservationsError, match="dimension 2 for an equation of dimension 1"):
        innovations(WELL, fimsde.read(np.random.default_rng(0).standard_normal((9, 2)), dt=0.1))


def test_measurement_noise_is_the_covariance_of_neighbouring_increments_of_a_path():
    """Restated in a loop over two paths of a walk: no product joins them."""
    rng = np.random.default_rng(3)
    walk = FunctionSDE(1, np.zeros_like, np.ones_like)
    values = [rng.standard_normal((n, 1)) for n in (40, 25)]
    products = []
    for y in values:
        steps = np.diff(y[:, 0])
        products += [-a * b for a, b in zip(steps[1:], steps[:-1], strict=True)]
    variance, p = neighbour_noise(innovations(walk, fimsde.read(values, dt=1.0)))
    assert variance[0] == pytest.approx(np.mean(products))
    assert p[0] == pytest.approx(stats.norm.sf(np.sum(products) / np.sqrt(np.sum(np.square(products)))), rel=1e-9)


def test_the_response_to_a_further_drift_is_what_that_drift_adds_to_innovations():
    """Observations moved by what a constant drift adds to a linear equation: innovations move by the response."""
    rng = np.random.default_rng(4)
    times, values = np.cumsum(rng.uniform(0.01, 0.03, 30)), rng.standard_normal((30, 2))
    std, extra = np.array([0.3, 0.0]), np.array([0.4, -0.2])
    before = innovations(TURN, fimsde.read(values, times=times), std)
    pushed = FunctionSDE(2, lambda x: TURN.drift(x) - extra, TURN.diffusion, TURN.correlation)
    after = innovations(pushed, fimsde.read(values, times=times), std)  # the filter expects less by as much
    found = before.response(np.tile(extra[None, :, None], (29, 1, 1)))[:, :, 0]
    np.testing.assert_allclose(after.values - before.values, found, atol=0.03 * np.abs(found).max())


def test_a_filter_follows_chaos_through_noise():
    """Lorenz's equations, whose errors grow tenfold in a gap: innovations keep mean square one over 3000 steps, up to
    five standard errors (1e-6); without symmetry the covariances are rounding after a few hundred."""
    lorenz = FunctionSDE(
        3,
        lambda x: np.stack(
            [10 * (x[:, 1] - x[:, 0]), x[:, 0] * (28 - x[:, 2]) - x[:, 1], x[:, 0] * x[:, 1] - 8 / 3 * x[:, 2]], 1
        ),
        lambda x: np.full_like(x, 1.0),
    )
    paths = fimsde.simulate(lorenz, np.ones((1, 3)), 0.05 * np.arange(3300), substeps=50, seed=6).values[:, 300:]
    noise = 0.5 * np.random.default_rng(6).standard_normal(paths.shape)
    found = innovations(lorenz, fimsde.read(paths + noise, dt=0.05), np.full(3, 0.5))
    assert np.mean(found.values**2) == pytest.approx(1.0, abs=5 * np.sqrt(2 / found.values.size) + 0.02)


def test_units_of_the_components_change_nothing_but_the_units():
    """A price in thousands beside a rate: covariances and likelihoods follow exactly, of a nonlinear equation too."""
    obs = fimsde.simulate(_MIXED, np.zeros((1, 2)), 0.2 * np.arange(300), substeps=10, seed=4).observations()
    unit, zero = np.array([-3e4, 2e-3]), np.array([5e4, 1.0])
    size = np.abs(unit)
    other = FunctionSDE(
        2, lambda y: unit * _MIXED.drift((y - zero) / unit), lambda y: size * _MIXED.diffusion((y - zero) / unit)
    )
    moved = fimsde.read(obs.values * unit + zero, dt=0.2)
    for noise in (np.zeros(2), np.array([0.05, 0.1])):
        one, two = innovations(_MIXED, obs, noise), innovations(other, moved, noise * size)
        np.testing.assert_allclose(two.likelihood, one.likelihood - np.log(size).sum(), atol=1e-6)
        np.testing.assert_allclose(np.abs(two.values), np.abs(one.values), atol=1e-5)


_MIXED = FunctionSDE(
    2,
    lambda x: np.stack([x[:, 0] - x[:, 0] ** 3 - x[:, 1], 0.8 * x[:, 0] - 1.2 * x[:, 1]], axis=1),
    lambda x: np.stack([0.4 * np.sqrt(1 + 0.3 * x[:, 0] ** 2), np.full(len(x), 0.3)], axis=1),
)
