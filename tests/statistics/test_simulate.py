"""Moments, laws and orders of the stepper against closed forms. False alarms: 1e-6 per check.

Where possible the Euler chain itself is the reference: for a linear equation it is Gaussian with known moments at any
step size, so there is no discretisation error to excuse a miss.
"""

import numpy as np
import pytest
from scipy import stats

from checks import check_cdf, check_mean, check_slopes, check_variance
from fimsde.equations.changes import LogSDE
from fimsde.equations.sde import FunctionSDE
from fimsde.simulate import euler_step, simulate
from problems import GeometricBrownianMotion, OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)
BROWNIAN = FunctionSDE(3, np.zeros_like, np.ones_like)
GRIDS = [np.array([0.0, 0.5]), np.array([3.0, 3.05, 3.6, 3.7]), np.cumsum([1e3, 0.2, 0.01, 0.3, 0.001])]


def step_lengths(grid, substeps):
    return np.repeat(np.diff(grid) / substeps, substeps)


@pytest.mark.parametrize("substeps", [1, 3, 20])
def test_paths_on_irregular_grids_have_the_moments_of_the_euler_chain(substeps):
    """4000 paths on each of three grids: bands of 0.08 standard deviations for the mean, 11 % for the variance."""
    grids = [GRIDS[k % 3] for k in range(12_000)]
    paths = simulate(OU, np.full((12_000, 1), 2.0), grids, substeps=substeps, seed=substeps)
    for k, grid in enumerate(GRIDS):
        for i in range(1, len(grid)):
            sample = paths.values[k::3, i, 0]
            mean, variance = OU.euler_moments(2.0, step_lengths(grid[: i + 1], substeps))
            check_mean(sample, mean, variance)
            check_variance(sample, variance)


def test_that_check_notices_a_lost_substep():
    """A stepper that starts every sub-step from the last grid point keeps one of them: 174 standard errors away."""
    x = np.full((4000, 1), 2.0)
    noise = np.random.default_rng(0).standard_normal((20, 4000, 1))
    for z in noise:
        ahead = euler_step(x, OU.drift(x), OU.diffusion(x), 0.5 / 20, z)  # x is not carried on
    mean, variance = OU.euler_moments(2.0, step_lengths(GRIDS[0], 20))
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(ahead[:, 0], mean, variance)
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(ahead[:, 0], variance)


def test_that_check_notices_a_step_with_dt_for_its_root():
    mean, variance = OU.euler_moments(2.0, step_lengths(GRIDS[0], 5))
    too_quiet = OrnsteinUhlenbeck(theta=1.5, sigma=0.7 * np.sqrt(0.1))  # sqrt(0.1) sqrt(dt) = dt for dt = 0.1
    end = simulate(too_quiet, np.full((4000, 1), 2.0), GRIDS[0], substeps=5).values[:, -1, 0]
    with pytest.raises(AssertionError, match=r"variance ratio 0\.1"):
        check_variance(end, variance)
    check_mean(end, mean, variance)


def test_increments_are_standard_normal_and_independent():
    """Over steps, components, paths and seeds: products of different increments have mean 0 and variance 1.

    About 24,000 products in each check: the band for a correlation is 0.03.
    """
    noise = [np.diff(simulate(BROWNIAN, np.zeros((200, 3)), np.arange(41.0), seed=s).values, axis=1) for s in (0, 1)]
    z = noise[0]  # (paths, steps, dim)
    check_cdf(z.ravel(), stats.norm.cdf)
    for a, b in [
        (z[:, 1:], z[:, :-1]),
        (z[..., 1:], z[..., :-1]),
        (z[1:], z[:-1]),
        (z, noise[1]),
        (z[1:], noise[1][:-1]),
        (z[:-1], noise[1][1:]),
    ]:
        check_mean((a * b).ravel(), 0.0, 1.0)
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean((z * (z + 20 * noise[1]) / np.sqrt(401)).ravel(), 0.0, 1.0)  # a correlation of 0.05


def test_the_stationary_law_of_the_euler_chain_is_its_normal_law():
    """Dvoretzky-Kiefer-Wolfowitz band, alpha = 1e-6; n for a band of 0.01, so that a gap of 0.02 is detected.

    Eight components of 9100 paths are 72,800 independent draws. After 60 steps with 1 - theta h = 0.75 the start is
    forgotten to 1e-15 of the variance.
    """
    h = 0.25 / OU.theta
    ou = OrnsteinUhlenbeck(theta=OU.theta, sigma=OU.sigma, dim=8)
    end = simulate(ou, np.zeros((9100, 8)), [0.0, 60 * h], substeps=60, seed=4).values[:, -1].ravel()
    variance = OU.sigma**2 * h / (1 - (1 - OU.theta * h) ** 2)
    check_cdf(end, stats.norm(scale=np.sqrt(variance)).cdf)
    with pytest.raises(AssertionError, match="bands"):  # gap 0.02: the standard deviation off by 8.5 %
        check_cdf(end, stats.norm(scale=1.085 * np.sqrt(variance)).cdf)
    # The law of the equation itself is 0.016 away at this step: that much of a difference is also seen.
    with pytest.raises(AssertionError, match="bands"):
        check_cdf(end, stats.norm(scale=np.sqrt(OU.stationary_variance())).cdf)


def test_the_logarithm_of_geometric_brownian_motion_is_simulated_exactly():
    """In log space the chain is exact at any step, and the mean shows Ito's correction: 0.125 is 16 standard errors."""
    log = LogSDE(GeometricBrownianMotion(mu=0.3, sigma=0.5))
    end = simulate(log, np.zeros((4000, 1)), [0.0, 1.0], substeps=2, seed=2).values[:, -1, 0]
    check_mean(end, 0.3 - 0.125, 0.25)
    check_variance(end, 0.25)
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(end, 0.3, 0.25)


LEVELS = 2 ** np.arange(3, 9)  # steps per unit of time


def euler_end(sde, x0, increments):
    """The Euler chain driven by these Brownian increments, over one unit of time."""
    num_steps = increments.shape[1]
    h = 1 / num_steps
    x = np.full((len(increments), 1), x0)
    for dw in increments.T[..., None]:
        x = euler_step(x, sde.drift(x), sde.diffusion(x), h, dw / np.sqrt(h))
    return x[:, 0]


def strong_slope(sde, x0, exact, increments):
    """Slope of ln E|Euler - exact| against ln h, coarser chains being driven by sums of the same increments."""
    coarse = [increments.reshape(len(increments), n, -1).sum(axis=2) for n in LEVELS]
    errors = [np.abs(euler_end(sde, x0, dw) - exact).mean() for dw in coarse]
    return np.polyfit(np.log(1 / LEVELS), np.log(errors), 1)[0]


def test_strong_order_is_one_half_for_multiplicative_noise():
    gbm = GeometricBrownianMotion(mu=0.3, sigma=1.0)
    slopes = []
    for seed in range(10):
        dw = np.random.default_rng(seed).normal(scale=LEVELS[-1] ** -0.5, size=(1000, LEVELS[-1]))
        slopes.append(strong_slope(gbm, 1.0, gbm.exact(1.0, 1.0, dw.sum(axis=1)), dw))
    check_slopes(slopes, 0.5, tolerance=0.1)
    with pytest.raises(AssertionError, match="slope"):
        check_slopes(slopes, 1.0, tolerance=0.1)


def test_strong_order_is_one_for_additive_noise():
    """The exact Ornstein-Uhlenbeck path over a step h adds an integral that is normal and correlated with dw."""
    h = 1 / LEVELS[-1]
    covariance = (1 - np.exp(-OU.theta * h)) / OU.theta
    rest = np.sqrt((1 - np.exp(-2 * OU.theta * h)) / (2 * OU.theta) - covariance**2 / h)
    slopes = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        dw = rng.normal(scale=np.sqrt(h), size=(400, LEVELS[-1]))
        integrals = covariance / h * dw + rest * rng.standard_normal(dw.shape)
        decay = np.exp(-OU.theta * h * np.arange(LEVELS[-1])[::-1])
        exact = 2.0 * np.exp(-OU.theta) + OU.sigma * integrals @ decay
        slopes.append(strong_slope(OU, 2.0, exact, dw))
    check_slopes(slopes, 1.0, tolerance=0.1)


def test_weak_order_is_one():
    """Error of E[x] for geometric Brownian motion, by `simulate` itself at every level.

    The Brownian path of every simulated path is read back from its steps and gives the exact solution, whose mean is
    known: a control variate that takes away most of the noise. The chain's mean is known too, (1 + mu h)^n, so the
    bias at each level is checked as well as the slope.
    """
    gbm, levels, batches = GeometricBrownianMotion(mu=1.0, sigma=0.25), (8, 16, 32, 64), 20
    errors = np.empty((batches, len(levels)))
    for j, n in enumerate(levels):
        x = simulate(gbm, np.ones((10_000, 1)), np.arange(n + 1) / n, seed=j).values[..., 0]
        dw = (np.diff(x, axis=1) / x[:, :-1] - gbm.mu / n) / gbm.sigma
        check_variance(dw.ravel(), 1 / n)
        exact = gbm.exact(1.0, 1.0, dw.sum(axis=1))
        check_mean(np.log(exact), gbm.mu - gbm.sigma**2 / 2, gbm.sigma**2)
        difference = x[:, -1] - exact
        check_mean(difference, (1 + gbm.mu / n) ** n - np.exp(gbm.mu), difference.var())
        errors[:, j] = -difference.reshape(batches, -1).mean(axis=1)
    slopes = np.polyfit(-np.log(levels), np.log(errors.T), 1)[0]
    check_slopes(slopes, 1.0, tolerance=0.2)
    with pytest.raises(AssertionError, match="slope"):
        check_slopes(slopes, 0.5, tolerance=0.2)
