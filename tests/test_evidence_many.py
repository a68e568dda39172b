"""More than three components: polynomials alone, and the same laws."""

import numpy as np
import pytest

import fimsde
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import InvalidObservationsError
from fimsde.evidence.estimate import STRICT, fit
from fimsde.evidence.infer import MOST_COMPONENTS
from fimsde.evidence.settle import drift_degree, rate_degree
from fimsde.simulate import simulate


def ring(x):
    """Lorenz's ring of 1996: every component is moved by a product of three neighbours' differences."""
    return np.roll(x, 1, axis=1) * (np.roll(x, -1, axis=1) - np.roll(x, 2, axis=1)) - x + 8.0


def ring_path(dim, num, noise=0.0, seed=0):
    truth = FunctionSDE(dim, ring, np.ones_like)
    rng = np.random.default_rng(seed)
    path = simulate(truth, 8.0 + rng.standard_normal((1, dim)), 0.02 * np.arange(num + 100), substeps=20, seed=seed)
    clean = path.values[0, 100:]
    return truth, clean, clean + noise * rng.standard_normal(clean.shape)


def error_of(drift, truth, states):
    return np.mean((drift - truth.drift(states)) ** 2) / np.mean(truth.drift(states) ** 2)


def test_degrees_fall_with_the_number_of_components():
    assert [drift_degree(dim) for dim in range(1, 9)] == [3, 3, 3, 3, 3, 2, 2, 2]
    assert [rate_degree(dim) for dim in range(1, 9)] == [2, 2, 2, 2, 2, 2, 1, 1]


@pytest.mark.parametrize("noise", [0.0, 0.3], ids=["clean", "noisy"])
def test_five_components_that_multiply_each_other_are_found(noise):
    """The error of true terms alone is about 1e-4 here; a drift that is linear in the states has 0.6."""
    truth, states, seen = ring_path(5, 2000, noise)
    found = fit(fimsde.read(seen, dt=0.02), STRICT)
    assert error_of(found.drift(states), truth, states) < 2e-3
    np.testing.assert_allclose(found.diffusion(states).mean(axis=0), 1.0, atol=0.15)
    np.testing.assert_allclose(found.noise_std, noise, atol=0.03)
    design = np.column_stack([np.ones(len(states) - 1), states[:-1]])
    linear = np.linalg.lstsq(design, np.diff(states, axis=0) / 0.02, rcond=None)[0]
    assert error_of(np.column_stack([np.ones(len(states)), states]) @ linear, truth, states) > 0.3


def test_order_sign_and_units_of_four_components_move_the_answer_along():
    _, _, seen = ring_path(4, 400, 0.1, seed=1)
    order, scale = [2, 0, 3, 1], np.array([-2.0, 0.5, 8.0, -1.0])
    plain = fit(fimsde.read(seen, dt=0.02), STRICT)
    moved = fit(fimsde.read(seen[:, order] * scale + 4.0, dt=0.04), STRICT)
    x = seen[::40]
    for one, other in (
        (moved.drift(x[:, order] * scale + 4.0), scale / 2 * plain.drift(x)[:, order]),
        (moved.diffusion(x[:, order] * scale + 4.0), np.abs(scale) / 2**0.5 * plain.diffusion(x)[:, order]),
    ):
        assert (np.abs(one - other) / np.abs(other).max(axis=0)).max() < 1e-9


def test_few_observations_of_eight_components_have_an_answer_with_error_bars():
    rng = np.random.default_rng(0)
    result = fimsde.estimate(fimsde.read(np.cumsum(0.1 * rng.standard_normal((40, 8)), axis=0), dt=0.01))
    x = result.observations.values[::10]
    drift, diffusion = result.fields(x)
    assert np.isfinite(drift).all()
    assert (diffusion > 0).all()
    band = result.band(x)
    assert (band.drift_low <= band.drift_high).all()
    assert (band.diffusion_low > 0).all()
    assert np.isfinite(band.drift_high).all()


def test_nine_components_are_refused_with_their_number():
    rng = np.random.default_rng(0)
    with pytest.raises(
        InvalidObservationsError, match=rf"9 components; hypotheses are known for at most {MOST_COMPONENTS}"
    ):
        fit(fimsde.read(np.cumsum(rng.standard_normal((50, 9)), axis=0), dt=0.1))
