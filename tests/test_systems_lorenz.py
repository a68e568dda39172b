"""The Lorenz data of the paper: laws of the starts, standardisation, noise, and the accuracy of the integration."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from checks import check_mean, check_variance
from fimsde.equations.sde import FunctionSDE
from fimsde.simulate import euler_step, simulate
from fimsde.systems import lorenz
from fimsde.systems.canonical import DEV_SEED, grid
from fimsde.systems.lorenz import LAWS, LORENZ, SUBSTEPS, TIMES, lorenz_data

STD = np.array([8.9, 11.5, 15.2])  # of the paths, for errors in standardised units


@pytest.fixture(scope="module")
def data():
    return lorenz_data()


@pytest.fixture(scope="module")
def clean():
    return lorenz_data(noise_std=0.0)


def test_the_sets_have_the_sizes_of_the_paper(data):
    assert (data.train.num_paths, data.train.num_points, data.train.num_transitions) == (1024, 41984, 40960)
    assert (data.validation.num_paths, data.validation.num_points) == (128, 128 * 41)
    for law in LAWS:
        assert data.references[law].shape == data.noisy_references[law].shape == (128, 41, 3)
    times, _ = data.train.path(7)
    np.testing.assert_allclose(times, 0.025 * np.arange(41), atol=1e-15)


def test_training_values_are_standardised_with_the_unbiased_deviation(clean):
    np.testing.assert_allclose(clean.train.values.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(clean.train.values.std(axis=0, ddof=1), 1, rtol=1e-12)


def test_the_other_sets_use_the_training_statistics(clean):
    fixed = clean.references["(1,1,1)"]
    np.testing.assert_allclose(fixed[:, 0] * clean.std + clean.mean, 1, rtol=1e-12)
    assert np.abs(clean.validation.values.mean(axis=0)).max() > 1e-3  # not standardised with its own mean


def test_noise_comes_after_standardising_with_deviation_one_hundredth(data, clean):
    """0.01 is no variance. False alarms: 1e-6 per check."""
    for noise in (
        data.train.values - clean.train.values,
        data.validation.values - clean.validation.values,
        *(data.noisy_references[law] - data.references[law] for law in LAWS),
    ):
        check_mean(noise.ravel(), 0, 0.01**2)
        check_variance(noise.ravel(), 0.01**2)
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(10 * noise.ravel(), 0.01**2)
    assert np.array_equal(data.references["N(0,1)"], clean.references["N(0,1)"])


def starts(data, law):
    return (data.references[law][:, 0] * data.std + data.mean).ravel()


def test_starts_follow_their_laws_and_two_is_a_factor(clean):
    """By the authors' code "N(0,2)" is 2 N(0, I), covariance 4 I. False alarms: 1e-6 per check."""
    train_starts = np.stack([clean.train.path(k)[1][0] for k in range(1024)]) * clean.std + clean.mean
    check_variance(train_starts.ravel(), 1)
    for law, variance in (("N(0,1)", 1), ("N(0,2)", 4)):
        check_mean(starts(clean, law), 0, variance)
        check_variance(starts(clean, law), variance)
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(starts(clean, "N(0,2)"), 2)


def test_the_papers_reading_of_two_is_a_variance(monkeypatch):
    monkeypatch.setattr(lorenz, "SUBSTEPS", 10)  # starts are what is looked at; the seed is used nowhere else
    check_variance(starts(lorenz_data(DEV_SEED + 1, reading="paper"), "N(0,2)"), 2)


def test_sets_are_independent_of_each_other(clean):
    validation = np.stack([clean.validation.path(k)[1][0] for k in range(128)]) * clean.std + clean.mean
    random_starts = [starts(clean, "N(0,1)"), starts(clean, "N(0,2)"), validation.ravel()]
    assert np.abs(np.corrcoef(random_starts) - np.eye(3)).max() < 5 / np.sqrt(validation.size)
    late = clean.references["(1,1,1)"][:, -1]
    assert len(np.unique(late.round(6), axis=0)) == 128  # same start, own noise


def test_the_equation_in_standardised_units_is_that_of_the_data(clean):
    """One step of 0.025 is long, so central differences inside the paths; they agree to a few percent."""
    paths = clean.references["N(0,1)"]
    middle = paths[:, 20:-1]
    slope = (paths[:, 21:] - paths[:, 19:-2]) / 0.05
    drift = clean.sde.drift(middle.reshape(-1, 3)).reshape(middle.shape)
    assert np.sqrt(np.mean((slope - drift) ** 2)) < 0.1 * np.sqrt(np.mean(drift**2))
    assert np.allclose(clean.sde.diffusion(np.zeros((1, 3))), 0.15 / clean.std)


def test_the_vector_field_grid_has_twenty_nodes_per_axis():
    nodes = grid(LORENZ)
    assert nodes.shape == (8000, 3)
    assert nodes.min(axis=0).tolist() == [-30, -40, -10]
    assert nodes.max(axis=0).tolist() == [30, 40, 60]


def euler_error(substeps):
    """Root mean square difference to the exact solution without noise, in standardised units."""
    x0 = np.random.default_rng(0).standard_normal((4, 3))
    silent = FunctionSDE(3, LORENZ.drift, np.zeros_like)
    ours = simulate(silent, x0, TIMES, substeps=substeps).values
    exact = [
        solve_ivp(lambda _, x: LORENZ.drift(x[None])[0], (0, 1), x, "DOP853", TIMES, rtol=1e-10, atol=1e-10).y.T
        for x in x0
    ]
    return np.sqrt(np.mean(((ours - exact) / STD) ** 2))


def test_the_integration_error_is_far_below_the_measurement_noise():
    """Noise is 0.01; without it the error of Euler at step 1e-3, the step of the authors' better scheme, is above."""
    assert euler_error(SUBSTEPS) < 0.002
    assert euler_error(25) > 0.02


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torchsde's own
def test_euler_follows_the_authors_solver_on_shared_brownian_paths():
    """Buys the number in the docstring of `lorenz`: 0.0015 standard deviations against torchsde's SRK at step 1e-3."""
    import torch
    import torchsde

    class Lorenz(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def f(self, t, y):
            return torch.from_numpy(LORENZ.drift(y.numpy()))

        def g(self, t, y):
            return torch.full_like(y, 0.15)

    num_paths, num_steps = 64, 40 * SUBSTEPS
    x = np.random.default_rng(0).standard_normal((num_paths, 3))
    brownian = torchsde.BrownianInterval(
        0.0, 1.0, (num_paths, 3), torch.float64, entropy=1, dt=1e-3, levy_area_approximation="space-time"
    )
    with torch.no_grad():
        srk = torchsde.sdeint(Lorenz(), torch.from_numpy(x), torch.from_numpy(TIMES), bm=brownian, dt=1e-3)
    clock = np.linspace(0, 1, num_steps + 1)
    states = [x]
    for i in range(num_steps):
        noise = brownian(clock[i], clock[i + 1]).numpy() * np.sqrt(num_steps)
        x = euler_step(x, LORENZ.drift(x), LORENZ.diffusion(x), 1 / num_steps, noise)
        if (i + 1) % SUBSTEPS == 0:
            states.append(x)
    error = np.sqrt(np.mean(((np.stack(states) - srk.numpy()) / STD) ** 2))
    assert error < 0.002
