"""LatentSDE as users call it: schedule, fitting, refusals and sampling."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from checks import check_mean, check_variance
from fimsde.baselines.latent_sde import (
    PAPER,
    FittedLatentSDE,
    LatentSDESettings,
    fit,
    new_networks,
    shared_grid,
    standardised,
)
from fimsde.data.normalise import Normaliser
from fimsde.data.observations import read
from fimsde.errors import ConfigError, FimsdeError, InvalidObservationsError

TINY = replace(PAPER, latent_size=2, hidden_size=8, context_size=5, dt=0.1, sample_dt=0.05, iterations=12, kl_warmup=4)


@pytest.fixture(scope="module")
def paths():
    values = np.cumsum(np.random.default_rng(3).standard_normal((6, 21, 1)), axis=1)
    return read(values, dt=0.25)


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
    """To 0.34, 0.27 and 0.28 of the first losses with seeds 0, 1 and 2."""
    losses = fit(paths, replace(TINY, iterations=40, dt=None), seed=0).losses
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
