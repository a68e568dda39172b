"""LatentSDE: networks, solver grid, training schedule, checkpoints and sampling. Its bound: statistics/."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from checks import check_cdf, check_mean, check_variance
from fimsde.baselines.latent_modules import (
    LatentPath,
    StepGrid,
    euler_path,
    evidence_bound,
    path_kl,
    step_grid,
)
from fimsde.baselines.latent_sde import (
    FINE,
    PAPER,
    FittedLatentSDE,
    LatentSDESettings,
    fit,
    new_networks,
    shared_grid,
    standardised,
)
from fimsde.errors import CheckpointError, ConfigError, FimsdeError, InvalidObservationsError
from fimsde.normalise import Normaliser
from fimsde.observations import read

TINY = replace(PAPER, latent_size=2, hidden_size=8, context_size=5, dt=0.1, sample_dt=0.05, iterations=12, kl_warmup=4)


@pytest.fixture(scope="module")
def paths():
    values = np.cumsum(np.random.default_rng(3).standard_normal((6, 21, 1)), axis=1)
    return read(values, dt=0.25)


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
    assert torch.equal(networks.encode(y, torch.tensor([4, 4, 0])), plain[[4, 4, 0]])


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


# Schedule


def test_the_kl_weight_warms_up_over_fifty_iterations():
    assert [PAPER.kl_weight(k) for k in (0, 25, 50, 51, 4999)] == [0.0, 0.5, 1.0, 1.0, 1.0]


def test_the_learning_rate_decays_as_in_the_paper():
    assert PAPER.learning_rate_at(0) == 0.01
    assert PAPER.learning_rate_at(5000) == pytest.approx(6.7e-5, rel=5e-3)


def test_training_follows_both_schedules(paths):
    """The first two losses and the first Adam step by hand: |step| = learning rate where the gradient is not zero."""
    settings = replace(TINY, iterations=2, kl_warmup=2, learning_rate=0.003, learning_rate_decay=0.5)
    before = new_networks(1, settings, seed=0).decoder.bias.item()
    once = fit(paths, replace(settings, iterations=1), seed=0).networks.decoder.bias.item()
    twice = fit(paths, settings, seed=0)
    assert abs(once - before) == pytest.approx(0.003, rel=1e-3)
    assert 0 < abs(twice.networks.decoder.bias.item() - once) < 0.0016  # half the rate, momentum of equal signs


# Fitting


def test_the_seed_decides_everything_and_no_global_random_state_is_touched(paths):
    state = torch.random.get_rng_state()
    one, same, other = (fit(paths, TINY, seed=s) for s in (1, 1, 2))
    assert np.array_equal(one.losses, same.losses)
    assert not np.isclose(one.losses[0], other.losses[0], rtol=1e-6)
    assert np.array_equal(one.sample(paths, seed=5).values, same.sample(paths, seed=5).values)
    assert not np.isclose(one.sample(paths, seed=5).values, one.sample(paths, seed=6).values).all()
    assert torch.equal(state, torch.random.get_rng_state())


def test_training_lowers_the_loss(paths):
    settings = replace(TINY, iterations=60, dt=None)
    losses = fit(paths, settings, seed=0).losses
    assert losses[-10:].mean() < 0.7 * losses[:5].mean()


def test_units_of_state_and_time_do_not_matter(paths):
    """Powers of two, so that the standardised data agree to the bit."""
    plain, moved = fit(paths, TINY, seed=0), fit(paths.with_units(scale=4.0, time_scale=0.125), TINY, seed=0)
    assert np.array_equal(plain.losses, moved.losses)
    sample = moved.sample(paths.with_units(scale=4.0, time_scale=0.125), seed=3)
    assert np.allclose(sample.values, 4.0 * plain.sample(paths, seed=3).values, rtol=1e-12)


def test_standardisation_has_population_statistics_and_can_be_undone(paths):
    fitted = fit(paths, replace(TINY, iterations=1), seed=0)
    y = standardised(paths, fitted.normaliser)
    assert y.shape == (21, 6, 1)
    assert torch.allclose(y.mean(), torch.zeros(()).double(), atol=1e-14)
    assert torch.allclose(y.std(correction=0), torch.ones(()).double())
    assert np.allclose(fitted.normaliser.undo_states(y.numpy()).swapaxes(0, 1).reshape(-1, 1), paths.values)
    assert np.allclose(fitted.times, np.arange(21) / 20)


def test_clocks_may_start_anywhere_and_round(paths):
    values = paths.values.reshape(6, 21, 1)
    late = read(list(values), times=[1e4 * k + np.arange(21) / 4 * (1 + 1e-9) for k in range(6)])
    assert np.allclose(shared_grid(late), np.arange(21) / 4)


def test_a_loss_that_is_not_finite_stops_the_training(paths):
    with pytest.raises(FimsdeError, match=r"iteration \d+. Lower learning_rate"):
        fit(paths, replace(TINY, learning_rate=1e30), seed=0)


BAD_GRIDS = {
    "unequal lengths": ([np.arange(5.0), np.arange(4.0)], "path 1 has 4 observations and path 0 has 5"),
    "a gap in one path": ([np.arange(5.0), np.array([0, 1, 2, 4, 5.0])], "observation 3 of path 1 comes 4 after"),
    "jitter": ([np.arange(5.0), np.array([0, 1, 2.01, 3, 4])], "observation 2 of path 1 comes 2.01 after"),
    "single points": ([np.zeros(1), np.arange(4.0)], "path 0 has one observation"),
}


@pytest.mark.parametrize("times, words", BAD_GRIDS.values(), ids=BAD_GRIDS.keys())  # noqa: PT006
def test_paths_without_a_shared_grid_are_refused(times, words):
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidObservationsError, match=words):
        fit(read([rng.standard_normal(len(t)) for t in times], times=times), TINY)


def test_references_off_the_training_grid_are_refused(paths):
    fitted = fit(paths, replace(TINY, iterations=1))
    with pytest.raises(InvalidObservationsError, match="over 2 times the training duration"):
        fitted.sample(paths.with_units(time_scale=2.0))
    with pytest.raises(InvalidObservationsError, match="have 20 observations"):
        fitted.sample(read(paths.values.reshape(6, 21, 1)[:, 1:], dt=0.25))
    with pytest.raises(InvalidObservationsError, match="2 components, the model 1"):
        fitted.sample(read(np.random.default_rng(0).standard_normal((2, 21, 2)), dt=0.25))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"latent_size": 0}, "latent_size is 0"),
        ({"noise_std": 0.0}, "noise_std is 0.0"),
        ({"learning_rate": np.inf}, "learning_rate is inf"),
        ({"dt": 2.0}, "dt is 2.0"),
        ({"sample_dt": None, "sample_solver": "srk"}, "set sample_dt"),
    ],
)
def test_impossible_settings_are_refused(wrong, words):
    with pytest.raises(ConfigError, match=words):
        LatentSDESettings(**wrong)


def test_negative_seeds_and_checkpoint_intervals_below_one_are_refused(paths):
    with pytest.raises(ConfigError, match="seed is -1"):
        fit(paths, TINY, seed=-1)
    with pytest.raises(ConfigError, match="checkpoint_every is 0"):
        fit(paths, TINY, checkpoint_every=0)


# Checkpoints


def test_an_interrupted_training_continues_to_the_bit(paths, tmp_path):
    whole = fit(paths, TINY, seed=0)
    file = tmp_path / "runs" / "latent.safetensors"

    def interrupt(k, loss):
        if k == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(paths, TINY, seed=0, checkpoint=file, checkpoint_every=3, on_iteration=interrupt)
    done = []
    resumed = fit(paths, TINY, seed=0, checkpoint=file, on_iteration=lambda k, loss: done.append(k))
    assert done == list(range(6, 12))
    _assert_same(resumed, whole)
    assert [f.name for f in file.parent.iterdir()] == ["latent.safetensors"]
    done.clear()
    _assert_same(fit(paths, TINY, seed=0, checkpoint=file, on_iteration=lambda k, loss: done.append(k)), whole)
    assert not done


def test_a_finished_training_can_be_extended_but_not_shortened(paths, tmp_path):
    file = tmp_path / "latent.safetensors"
    fit(paths, replace(TINY, iterations=5), seed=0, checkpoint=file)
    _assert_same(fit(paths, replace(TINY, sample_dt=0.01), seed=0, checkpoint=file), fit(paths, TINY, seed=0))
    with pytest.raises(CheckpointError, match="holds 12 iterations, asked for 5"):
        fit(paths, replace(TINY, iterations=5), seed=0, checkpoint=file)


def test_checkpoints_of_other_runs_and_damaged_ones_are_refused(paths, tmp_path):
    file = tmp_path / "latent.safetensors"
    fit(paths, replace(TINY, iterations=2), seed=0, checkpoint=file)
    with pytest.raises(CheckpointError, match="seed is 0, asked for 1"):
        fit(paths, TINY, seed=1, checkpoint=file)
    with pytest.raises(CheckpointError, match="another run: settings"):
        fit(paths, replace(TINY, dt=0.2), seed=0, checkpoint=file)
    with pytest.raises(CheckpointError, match="another run: data"):
        fit(paths.with_units(scale=2.0), TINY, seed=0, checkpoint=file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="not a readable"):
        fit(paths, TINY, seed=0, checkpoint=file)


def _assert_same(one, other):
    assert np.array_equal(one.losses, other.losses)
    for a, b in zip(one.networks.parameters(), other.networks.parameters(), strict=True):
        assert torch.equal(a, b)


# Sampling


@pytest.mark.parametrize(
    "settings",
    [TINY, replace(TINY, sample_dt=None), replace(TINY, sample_solver="srk")],
    ids=["paper", "fine", "srk"],
)
def test_samples_of_a_prior_with_constant_coefficients_have_its_closed_form_law(settings):
    """Brownian motion with drift: data end at offset + scale (start + drift ± diffusion); false alarms 1e-6."""
    if settings.sample_solver == "srk":
        pytest.importorskip("torchsde")
    networks = new_networks(1, settings, seed=0)
    with torch.no_grad():
        for layer in (networks.prior_drift.last, networks.to_start):
            layer.weight.zero_()
        networks.diffusion.outer_weight.zero_()
        networks.prior_drift.last.bias.copy_(torch.tensor([0.7, -3.0]))
        networks.diffusion.outer_bias.zero_()  # g = 1/2
        networks.to_start.bias.copy_(torch.tensor([0.2, 0.0, np.log(0.3), 0.0]))
        networks.decoder.weight.copy_(torch.tensor([[1.0, 0.0]]))
        networks.decoder.bias.zero_()
    normaliser = Normaliser(offset=np.array([10.0]), scale=np.array([2.0]), time_scale=1 / 5.0)
    fitted = FittedLatentSDE(networks, settings, normaliser, np.linspace(0, 1, 21), np.zeros(0))
    reference = read(np.random.default_rng(0).standard_normal((4000, 21, 1)), dt=0.25)
    paths = fitted.sample(reference, seed=1)
    assert paths.num_diverged == 0
    assert np.array_equal(paths.times[0], reference.path(0)[0])
    end = paths.values[:, -1, 0]
    check_mean(end, 10 + 2 * (0.2 + 0.7), 4 * (0.09 + 0.25))
    check_variance(end, 4 * (0.09 + 0.25))
    check_variance(paths.values[:, 0, 0], 4 * 0.09)
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(end, 4 * (0.09 + 0.5))
    assert np.array_equal(end, fitted.sample(reference, seed=1).values[:, -1, 0])


def test_a_grid_is_read_back_by_interpolation():
    grid = StepGrid(torch.ones(2), torch.tensor([1, 1]), torch.tensor([0, 1]), torch.tensor([0.25, 1.0]))
    states = torch.tensor([0.0, 4.0, 6.0])[:, None, None]
    assert grid.at_observations(states).flatten().tolist() == [1.0, 6.0]
