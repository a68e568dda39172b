"""Systems of the suites: equations, samples, and the noise on them."""

import numpy as np
import pytest

from checks import check_same_observations, check_variance
from fimsde.equations.changes import AffineSDE
from fimsde.equations.sde import FunctionSDE, covariance_rate
from fimsde.errors import ConfigError
from fimsde.systems import gallery
from fimsde.systems.bursts import BURSTING, burst_sample
from fimsde.systems.canonical import DEV_SEED
from fimsde.systems.gallery import GALLERY, gallery_sample
from fimsde.systems.random_cubic import FAMILIES, cubic_sample, natural_time

X2 = np.array([[0.5, -1.0], [1.2, 0.3]])


@pytest.mark.parametrize(
    ("name", "x", "drift", "half_rate"),
    [
        ("ou", [2.0], [-2.0], [0.5]),
        ("double_well_diag", [2.0], [-6.0], [0.15]),
        ("double_well_noisy", [-0.5], [-0.375], [0.15]),
        ("blowtorch", [1.0], [0.0], [0.65]),
        ("limit_cycle", [1.0, 2.0], [-4.0 - 4.0, -8.0 + 2.0], [0.1, 0.1]),
        ("driven_trap", [1.0, 2.0], [-1.0 - 0.6, -2.0 + 0.3], [0.5, 0.5]),
        ("ring_anisotropic", [2.0, 0.0], [-4 * (4 - 2.25) * 2, 0.0], [0.8, 0.2]),
        ("lorenz", [1.0, 2.0, 3.0], [20.0, 8.0 - 3.0 - 2.0, 2.0 - 6.0], [5.0, 5.0, 5.0]),
        ("test_ou2", [1.0, 2.0], [-1.2, -3.1], [0.5, 0.3]),
    ],
)
def test_equations_of_the_gallery_at_one_place(name, x, drift, half_rate):
    place = np.array([x])
    np.testing.assert_allclose(GALLERY[name].drift(place), [drift], atol=1e-12)
    np.testing.assert_allclose(GALLERY[name].diffusion(place) ** 2 / 2, [half_rate])


def test_the_drift_of_the_surface_is_minus_the_gradient_of_its_potential():
    """By central differences of the potential, written out term by term."""

    def potential(x, y):
        return 0.01 * (
            -200 * np.exp(-((x - 1) ** 2) - 10 * y**2)
            - 100 * np.exp(-(x**2) - 10 * (y - 0.5) ** 2)
            - 170 * np.exp(-6.5 * (x + 0.5) ** 2 + 11 * (x + 0.5) * (y - 1.5) - 6.5 * (y - 1.5) ** 2)
            + 15 * np.exp(0.7 * (x + 1) ** 2 + 0.6 * (x + 1) * (y - 1) + 0.7 * (y - 1) ** 2)
        )

    h, (x, y) = 1e-5, X2.T
    slopes = [potential(x + h, y) - potential(x - h, y), potential(x, y + h) - potential(x, y - h)]
    np.testing.assert_allclose(GALLERY["muller_brown"].drift(X2), -np.transpose(slopes) / (2 * h), rtol=1e-6)


def test_the_noise_of_the_ring_is_stronger_along_the_radius():
    expected = 2 * (0.2 * np.eye(2) + 0.15 * X2[:, :, None] * X2[:, None, :])
    np.testing.assert_allclose(covariance_rate(GALLERY["ring_anisotropic"], X2), expected)


def test_samples_of_the_gallery_are_told_apart_by_number_and_seed():
    one = gallery_sample(GALLERY["ou"], 3, seed=DEV_SEED)
    check_same_observations(one.observations, gallery_sample(GALLERY["ou"], 3, seed=DEV_SEED).observations)
    np.testing.assert_array_equal(one.observations.values, one.states)  # no measurement noise
    assert one.states.shape == (500, 1)
    np.testing.assert_allclose(np.diff(one.observations.times), 0.1)
    for other in (gallery_sample(GALLERY["ou"], 4, seed=DEV_SEED), gallery_sample(GALLERY["ou"], 3)):
        assert abs(np.corrcoef(one.states[:, 0], other.states[:, 0])[0, 1]) < 0.9
    with pytest.raises(ConfigError, match="repetition is 20; expected 0 to 19"):
        gallery_sample(GALLERY["ou"], 20)


def test_increments_of_the_gallery_have_the_rate_of_its_noise():
    """(dx + x h)² over a gap h of four Euler steps q = 1 - h/4 is normal with a known variance. False alarms: 1e-6."""
    x = np.concatenate([gallery_sample(GALLERY["ou"], r).states[:, 0] for r in range(1)])
    q = 1 - 0.1 / 4
    variance = 2 * 0.5 * 0.1 / 4 * sum(q ** (2 * k) for k in range(4))
    left = x[1:] - q**4 * x[:-1]
    check_variance(left, variance)
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(left, 2 * variance)


def test_noisy_observations_have_the_stated_noise():
    """False alarms: 1e-6 for each component."""
    small = gallery.GallerySystem(
        *("small", "Small", lambda x: -x, lambda x: np.ones_like(x), (0.0, 0.0), 0.1, 400, 1), noise_std=0.3
    )
    found = gallery_sample(small)
    for j in range(2):
        check_variance((found.observations.values - found.states)[:, j], 0.09)


def test_a_natural_time_is_that_of_a_decay_and_of_a_rotation_in_any_units():
    x = np.random.default_rng(0).standard_normal((2000, 2))
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    decay = FunctionSDE(2, lambda x: -4 * x, np.ones_like)
    turn = FunctionSDE(2, lambda x: 5 * x[:, ::-1] * [-1, 1], np.ones_like)
    np.testing.assert_allclose([natural_time(decay, x), natural_time(turn, x)], [1 / 4, 1 / 5], rtol=1e-6)
    moved = AffineSDE(turn, scale=np.array([10.0, 0.1]), offset=np.array([1.0, 2.0]), time_scale=3.0)
    np.testing.assert_allclose(natural_time(moved, (x - [1.0, 2.0]) / [10.0, 0.1]), 3 / 5, rtol=1e-6)


def test_random_cubic_systems_are_cubic():
    """The fourth differences of a cubic along any line are zero; those of its third are not all."""
    r = np.random.default_rng(1)
    for draw in FAMILIES.values():
        dim, drift = draw(r)
        start, way = r.standard_normal((2, dim))
        values = drift(start + np.arange(-3, 4)[:, None] * way)
        assert np.abs(np.diff(values, 3, axis=0)).max() > 1e-3
        np.testing.assert_allclose(np.diff(values, 4, axis=0), 0.0, atol=1e-9 * np.abs(values).max())


def test_both_gaps_of_a_random_cubic_are_of_one_system_and_its_noise_is_a_share_of_the_range(monkeypatch):
    monkeypatch.setattr("fimsde.systems.random_cubic.LENGTH", 500)
    monkeypatch.setattr("fimsde.systems.random_cubic._PRERUN", 2.0)
    near, far = (cubic_sample("coupled_wells", gap, 1, seed=DEV_SEED) for gap in (0.01, 0.1))
    gaps = [np.diff(s.observations.times).mean() for s in (near, far)]
    np.testing.assert_allclose(gaps[1], 10 * gaps[0])
    np.testing.assert_array_equal(near.truth.drift(X2), far.truth.drift(X2))
    np.testing.assert_allclose(near.noise_std, 0.05 * np.ptp(near.states, axis=0) / 2)
    check_variance((near.observations.values - near.states)[:, 0], near.noise_std[0] ** 2)
    other = cubic_sample("coupled_wells", 0.01, 2, seed=DEV_SEED)
    assert not np.allclose(other.truth.drift(X2), near.truth.drift(X2))
    with pytest.raises(ConfigError, match=r"gap 0\.5"):
        cubic_sample("duffing", 0.5)


def test_a_burst_leaves_a_rest_that_noise_buries():
    sample = burst_sample(0, seed=DEV_SEED)
    z = sample.states[:, BURSTING]
    assert np.median(z) < 0.3 * sample.noise_std[BURSTING]
    assert z.max() > 10 * sample.noise_std[BURSTING]
    np.testing.assert_allclose(sample.noise_std, 0.05 * np.ptp(sample.states, axis=0) / 2)
    for j in range(3):
        check_variance((sample.observations.values - sample.states)[:, j], sample.noise_std[j] ** 2)
