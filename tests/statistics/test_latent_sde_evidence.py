"""Q4: the evidence lower bound of LatentSDE against the exact evidence of a linear-Gaussian model.

Prior dz = (b - a z) dt + g dW from N(m, s²), observed as y = c z + d + noise. On the solver's grid this is a Gaussian
chain, so ln p(y) is the density of one multivariate normal, and the bound must stay below it.
"""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.distributions import Normal

from checks import check_mean
from fimsde.baselines.latent_modules import LatentNetworks, evidence_bound, step_grid

A, B, G = 1.3, 0.4, 0.6  # drift b - a z, diffusion
START_MEAN, START_STD = 0.5, 0.8
C, D, NOISE_STD = 1.7, -0.2, 0.35  # decoder and observation noise
TIMES = np.linspace(0, 1, 6)
Y = np.array([1.6, 0.3, -0.4, 0.9, 1.2, 0.1])
NUM_DRAWS = 40_000


class PriorDrift(nn.Module):
    def forward(self, z):
        return B - A * z


class LinearGaussian(LatentNetworks):
    """The linear model in place of the networks, with a posterior whose drift is p_k + q_k z in step k."""

    def __init__(self, start_mean, start_std, intercepts, slopes):
        super().__init__(dim=1, latent=1, hidden=1, context=1, activation="sigmoid")
        self.start = Normal(*(torch.full((NUM_DRAWS, 1), v, dtype=torch.float64) for v in (start_mean, start_std)))
        self.intercepts, self.slopes = intercepts, slopes
        self.prior_drift = PriorDrift()

    def encode(self, y, at):
        return torch.zeros(len(at), y.shape[1], 1, dtype=y.dtype)

    def posterior_start(self, context):
        return self.start

    def prior_start(self):
        return Normal(*(torch.tensor([v], dtype=torch.float64) for v in (START_MEAN, START_STD)))

    def posterior_field(self, context):
        return lambda z, k: (self.intercepts[k] + self.slopes[k] * z, torch.full_like(z, G))

    def decode(self, z):
        return C * z + D


def draw_bound(model, grid, seed=0):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(len(grid.dt) + 1, NUM_DRAWS, 1, dtype=torch.float64, generator=generator)
    y = torch.tensor(Y)[:, None, None].expand(-1, NUM_DRAWS, -1)
    return evidence_bound(model, y, grid, NOISE_STD, noise[0], noise[1:])


def prior_at_observations(grid):
    """Mean and covariance of C z + D at the observation times under the Euler chain of the prior, interpolated."""
    dt = grid.dt.numpy()
    mean, rows = [START_MEAN], [np.r_[START_STD, np.zeros(len(dt))]]  # a state is mean + row @ (standard normals)
    for k, h in enumerate(dt):
        mean.append(mean[-1] + (B - A * mean[-1]) * h)
        rows.append((1 - A * h) * rows[-1])
        rows[-1][k + 1] = G * np.sqrt(h)
    weights = np.zeros((len(TIMES), len(mean)))
    left, share = grid.left.numpy(), grid.weight.numpy()
    weights[np.arange(len(TIMES)), left] = 1 - share
    weights[np.arange(len(TIMES)), left + 1] += share
    root = C * weights @ np.array(rows)
    return C * weights @ np.array(mean) + D, root @ root.T


def log_evidence(grid):
    mean, covariance = prior_at_observations(grid)
    return stats.multivariate_normal(mean, covariance + NOISE_STD**2 * np.eye(len(TIMES))).logpdf(Y)


def exact_posterior(grid, substeps):
    """The exact posterior's start and mean steps by a backward information filter, and the gap that they leave.

    p(future y | z) is exp(-l z²/2 + e z) up to a factor. A step of the prior with mean m and variance v = G² dt has,
    given the future, the mean (m + v e) / (1 + v l) and the variance v / (1 + v l). Our posterior copies the mean but
    keeps the variance v, because it shares the prior's diffusion: a KL of (v l - ln(1 + v l)) / 2 remains per step.
    """
    dt = grid.dt.numpy()
    intercepts, slopes, gap = np.empty(len(dt)), np.empty(len(dt)), 0.0
    information, pull = 0.0, 0.0
    for k in reversed(range(len(dt))):
        if (k + 1) % substeps == 0:
            information += (C / NOISE_STD) ** 2
            pull += C * (Y[(k + 1) // substeps] - D) / NOISE_STD**2
        v, stretch, shift = G**2 * dt[k], 1 - A * dt[k], B * dt[k]
        shrink = 1 + v * information
        gap += 0.5 * (v * information - np.log(shrink))
        intercepts[k], slopes[k] = (shift + v * pull) / shrink / dt[k], (stretch / shrink - 1) / dt[k]
        information, pull = stretch**2 * information / shrink, stretch * (pull - information * shift) / shrink
    precision = START_STD**-2 + information + (C / NOISE_STD) ** 2
    weighted = START_MEAN / START_STD**2 + pull + C * (Y[0] - D) / NOISE_STD**2
    return LinearGaussian(weighted / precision, precision**-0.5, intercepts, slopes), gap


def test_the_bound_reaches_the_evidence_as_the_steps_shrink_when_the_posterior_is_exact():
    """The mean bound equals ln p(y) minus the known gap (false alarms 1e-6 each), and that gap closes with the step."""
    gaps = []
    for substeps in (2, 8, 32):
        grid = step_grid(TIMES, 0.2 / substeps, torch.float64)
        model, gap = exact_posterior(grid, substeps)
        bound = draw_bound(model, grid).value().numpy()
        check_mean(bound, log_evidence(grid) - gap, bound.var())
        gaps.append(gap)
    assert gaps[0] > 4 * gaps[1] > 16 * gaps[2] > 0
    assert gaps[2] < 0.05


def test_the_bound_without_its_path_kl_exceeds_the_evidence():
    """Negative control: the test above would notice."""
    grid = step_grid(TIMES, 0.2 / 32, torch.float64)
    model, gap = exact_posterior(grid, 32)
    bound = draw_bound(model, grid)
    wrong = (bound.log_likelihood - bound.start_kl).numpy()
    assert wrong.mean() > log_evidence(grid) + 1
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(wrong, log_evidence(grid) - gap, wrong.var())


@pytest.mark.parametrize("dt", [0.05, 0.07, 0.3])
def test_the_prior_as_posterior_gives_its_expected_likelihood_below_the_evidence(dt):
    """No KL at all; observations fall between the steps (and several into one), so the interpolation counts too."""
    grid = step_grid(TIMES, dt, torch.float64)
    steps = len(grid.dt)
    model = LinearGaussian(START_MEAN, START_STD, np.full(steps, B), np.full(steps, -A))
    bound = draw_bound(model, grid)
    assert torch.all(bound.start_kl == 0)
    assert torch.all(bound.path_kl.abs() < 1e-20)
    mean, covariance = prior_at_observations(grid)
    squares = (Y - mean) ** 2 + np.diag(covariance)
    expected = np.sum(-0.5 * np.log(2 * np.pi * NOISE_STD**2) - 0.5 * squares / NOISE_STD**2)
    value = bound.value().numpy()
    check_mean(value, expected, value.var())
    assert expected < log_evidence(grid) - 1


def test_any_departure_from_the_exact_posterior_lowers_the_bound():
    grid = step_grid(TIMES, 0.2 / 8, torch.float64)
    exact, gap = exact_posterior(grid, 8)
    best = log_evidence(grid) - gap
    mean, std = exact.start.mean[0].item(), exact.start.stddev[0].item()
    for model in (
        LinearGaussian(mean + 0.3, std, exact.intercepts, exact.slopes),
        LinearGaussian(mean, 1.5 * std, exact.intercepts, exact.slopes),
        LinearGaussian(mean, std, exact.intercepts + 0.5, exact.slopes),
        LinearGaussian(mean, std, exact.intercepts, exact.slopes + 2.0),
    ):
        bound = draw_bound(model, grid).value().numpy()
        margin = stats.norm.isf(1e-6) * bound.std() / np.sqrt(NUM_DRAWS)
        assert bound.mean() + margin < best
