"""LatentSDE: networks, initial weights, solver grid and the terms of the bound. The bound as a whole: statistics/."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from checks import check_cdf
from fimsde.baselines.latent_modules import LatentPath, StepGrid, euler_path, evidence_bound, path_kl, step_grid
from fimsde.baselines.latent_sde import FINE, PAPER, new_networks

TINY = replace(PAPER, latent_size=2, hidden_size=8, context_size=5)


# Networks


@pytest.mark.parametrize(("dim", "count"), [(1, 75_033), (3, 75_643)])
def test_the_paper_preset_has_the_published_number_of_parameters(dim, count):
    assert sum(p.numel() for p in new_networks(dim, PAPER, seed=0).parameters()) == count


def test_context_summarises_only_the_present_and_the_future():
    networks = new_networks(2, TINY, seed=1).double()
    y = torch.randn(9, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    everywhere = torch.arange(9)
    plain = networks.encode(y, everywhere)
    first, last = y.clone(), y.clone()
    first[0] += 1
    last[-1] += 1
    changed = (networks.encode(first, everywhere) != plain).all(dim=(1, 2))
    assert changed.tolist() == [True] + 8 * [False]
    assert (networks.encode(last, everywhere) != plain).any(dim=2).all()
    torch.testing.assert_close(networks.encode(y, torch.tensor([4, 4, 0])), plain[[4, 4, 0]])


@pytest.mark.parametrize(("name", "layer"), [("sigmoid", nn.Sigmoid), ("softplus", nn.Softplus)])
def test_batched_networks_equal_separate_ones(name, layer):
    """The diffusion of each coordinate is its own MLP, and the hoisted context gives the plain posterior drift."""
    networks = new_networks(1, replace(TINY, activation=name), seed=2).double()
    generator = torch.Generator().manual_seed(1)
    z = torch.randn(7, 2, dtype=torch.float64, generator=generator)
    context = torch.randn(3, 7, 5, dtype=torch.float64, generator=generator)
    drift, diffusion = networks.posterior_field(context)(z, 1)

    plain = nn.Sequential(networks.posterior_drift.first, layer(), networks.posterior_drift.second, layer())
    assert torch.allclose(drift, networks.posterior_drift.last(plain(torch.cat([z, context[1]], dim=1))), atol=1e-14)
    for j in range(2):
        part = networks.diffusion
        hidden = layer()(z[:, j : j + 1] * part.inner_weight[j] + part.inner_bias[j])
        alone = torch.sigmoid(hidden @ part.outer_weight[j] + part.outer_bias[j])
        assert torch.allclose(diffusion[:, j], alone, atol=1e-14)


def test_initial_weights_have_the_law_of_torch_defaults():
    """Uniform on ±bound for every tensor (false alarms 1e-6 each), with torch's own layers giving the bounds."""
    networks = new_networks(1, PAPER, seed=4)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        torch_own = {"gru": nn.GRU(1, 100), "posterior_drift.first": nn.Linear(104, 100), "to_start": nn.Linear(100, 8)}
        inner, outer = nn.Linear(1, 100), nn.Linear(100, 1)
    for prefix, module in torch_own.items():
        for name, parameter in module.named_parameters():
            _check_same_uniform_law(networks.get_parameter(f"{prefix}.{name}"), parameter)
    for j in range(4):
        _check_same_uniform_law(networks.diffusion.inner_weight[j], inner.weight)
        _check_same_uniform_law(networks.diffusion.inner_bias[j], inner.bias)
        _check_same_uniform_law(networks.diffusion.outer_weight[j], outer.weight)
    assert not networks.prior_mean.any()
    assert not networks.prior_log_std.any()
    with pytest.raises(AssertionError, match="bands"):
        _check_same_uniform_law(2 * networks.gru.weight_hh_l0, torch_own["gru"].weight_hh_l0)


def _check_same_uniform_law(ours, theirs):
    bound = 1 / np.sqrt(round(1 / theirs.abs().max().item() ** 2))  # 1/sqrt(fan-in), and fan-in is an integer
    for sample in (ours, theirs):
        check_cdf(sample.detach().numpy().ravel(), stats.uniform(-bound, 2 * bound).cdf)


# Solver grid and path


def test_steps_are_counted_in_integers_and_end_at_the_last_observation():
    wind = np.arange(524) / 523
    assert len(step_grid(wind, 0.01).dt) == 100
    assert len(step_grid(wind, 1e-3).dt) == 1000
    assert len(step_grid(wind, None).dt) == 523
    assert np.allclose(step_grid(wind, 0.3, torch.float64).dt, [0.3, 0.3, 0.3, 0.1])


def test_each_step_sees_the_first_observation_strictly_after_its_start():
    """Lorenz grid: 0.05 is both step 5 and observation 2, though 5 * 0.01 and 2 * 0.025 may round apart."""
    times = np.linspace(0, 1, 41)
    expected = [min(int(k / 2.5 + 1e-6) + 1, 40) for k in range(100)]
    assert step_grid(times, 0.01).context.tolist() == expected
    assert step_grid(times, None).context.tolist() == list(range(1, 41))


@pytest.mark.parametrize(("dt", "straight"), [(PAPER.dt, True), (FINE.dt, False)])
def test_a_paper_path_is_straight_between_solver_steps_and_a_fine_one_is_not(dt, straight):
    times = np.arange(524) / 523
    grid = step_grid(times, dt, torch.float64)
    noise = torch.randn(len(grid.dt), 1, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    brownian = euler_path(lambda z, k: (0 * z, 0 * z + 1), torch.zeros(1, 1).double(), grid.dt, noise)
    seen = grid.at_observations(brownian.states)[:, 0, 0].numpy()
    share = np.mean(np.abs(np.diff(seen, 2)) < 1e-12)
    assert share > 0.5 if straight else share == 0


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-11)])
def test_states_and_path_kl_equal_torchsde_under_the_same_brownian_path(dtype, tolerance):
    """Step 1/128: torchsde adds up its steps in floating point, and only then does its grid equal ours to the bit."""
    torchsde = pytest.importorskip("torchsde")
    generator = torch.Generator().manual_seed(5)
    networks = new_networks(1, replace(TINY, hidden_size=16, latent_size=4), seed=5).to(dtype)
    times = np.concatenate([[0], np.sort(np.random.default_rng(0).uniform(size=30)), [1]])
    grid = step_grid(times, 1 / 128, dtype)
    context = networks.encode(torch.randn(32, 8, 1, dtype=dtype, generator=generator), torch.arange(32))
    start = torch.randn(8, 4, dtype=dtype, generator=generator)
    ts = torch.tensor(times, dtype=dtype)

    class Posterior(nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t, z):
            after = min(int(torch.searchsorted(ts, t, right=True)), len(ts) - 1)
            return networks.posterior_drift(torch.cat([z, context[after]], dim=1))

        def h(self, t, z):
            return networks.prior_drift(z)

        def g(self, t, z):
            return networks.diffusion(z)

    brownian = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=(8, 5), dtype=dtype, entropy=7)  # logqp: one more
    noise = torch.stack([brownian(k / 128, (k + 1) / 128)[:, :4] * 128**0.5 for k in range(128)])
    with torch.no_grad():
        theirs, their_kl = torchsde.sdeint(Posterior(), start, ts, bm=brownian, method="euler", dt=1 / 128, logqp=True)
        path = euler_path(networks.posterior_field(context[grid.context]), start, grid.dt, noise)
        kl = path_kl(path, networks.prior_drift(path.states[:-1]), grid.dt)
    assert torch.allclose(grid.at_observations(path.states), theirs, rtol=0, atol=tolerance)
    assert torch.allclose(kl, their_kl.sum(0), rtol=tolerance, atol=tolerance)


def test_path_kl_vanishes_without_a_drift_gap_and_has_its_closed_form_with_a_constant_one():
    """u² T / (2 g²) in each coordinate, over steps of unequal length with T = 1."""
    grid = step_grid(np.linspace(0, 1, 5), 0.3, torch.float64)
    drift = torch.randn(4, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    diffusion = torch.tensor([0.5, 0.2], dtype=torch.float64).expand(4, 3, 2)
    path = LatentPath(torch.zeros(5, 3, 2, dtype=torch.float64), drift, diffusion)
    assert torch.equal(path_kl(path, drift, grid.dt), torch.zeros(3, dtype=torch.float64))
    gap = torch.tensor([0.3, -0.1], dtype=torch.float64)
    assert torch.allclose(
        path_kl(path, drift - gap, grid.dt), torch.full((3,), 0.3**2 / (2 * 0.5**2) + 0.1**2 / (2 * 0.2**2)).double()
    )


def test_the_bound_of_networks_with_constant_output_is_the_sum_of_its_closed_forms():
    """Constant f, h, g and start laws through the real networks: every term of the bound by hand."""
    networks = new_networks(1, TINY, seed=0).double()
    with torch.no_grad():
        for layer in (networks.posterior_drift.last, networks.prior_drift.last, networks.to_start, networks.decoder):
            layer.weight.zero_()
        networks.diffusion.outer_weight.zero_()
        networks.posterior_drift.last.bias.copy_(torch.tensor([0.7, 0.1]))
        networks.prior_drift.last.bias.copy_(torch.tensor([0.2, 0.1]))
        networks.diffusion.outer_bias.zero_()  # g = sigmoid(0) = 1/2
        networks.to_start.bias.copy_(torch.tensor([1.0, 0.0, 0.0, np.log(2.0)]))
        networks.decoder.bias.fill_(0.5)
    y = torch.ones(6, 4, 1, dtype=torch.float64)
    grid = step_grid(np.linspace(0, 1, 6), 0.1, torch.float64)
    zeros = torch.zeros(10, 4, 2, dtype=torch.float64)
    bound = evidence_bound(networks, y, grid, 0.25, zeros[0], zeros)
    expected = 6 * stats.norm(0.5, 0.25).logpdf(1.0)
    start_kl = 0.5 * 1.0**2 + (0.5 * 2.0**2 - 0.5 - np.log(2.0))
    assert np.allclose(bound.log_likelihood.detach(), expected)
    assert np.allclose(bound.start_kl.detach(), start_kl)
    assert np.allclose(bound.path_kl.detach(), 0.5 * (0.5 / 0.5) ** 2)
    assert np.allclose(bound.value(0.25).detach(), expected - 0.25 * (start_kl + 0.5))


def test_a_grid_is_read_back_by_interpolation():
    grid = StepGrid(torch.ones(2), torch.tensor([1, 1]), torch.tensor([0, 1]), torch.tensor([0.25, 1.0]))
    states = torch.tensor([0.0, 4.0, 6.0])[:, None, None]
    assert grid.at_observations(states).flatten().tolist() == [1.0, 6.0]
