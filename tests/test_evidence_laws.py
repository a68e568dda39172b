"""Laws of the evidence estimator: what an answer must follow, and what it must not depend on. Float64."""

from itertools import permutations

import numpy as np
import pytest

from fimsde.data.observations import read
from fimsde.equations.sde import FunctionSDE
from fimsde.evidence import estimate as evidence
from fimsde.evidence.estimate import AUTO, STRICT, fit
from fimsde.evidence.frame import Frame
from fimsde.simulate import simulate

DIMS = pytest.mark.parametrize("dim", [1, 2, 3])
NOISES = pytest.mark.parametrize("noise", [0.0, 0.1], ids=["clean", "noisy"])
PULL = np.array([[-1.0, 0.6, 0.0], [-0.5, -0.8, 0.3], [0.2, 0.0, -1.2]])


def make_paths(dim, noise, lengths=(90, 60, 120), seed=0):
    """A damped cubic with units of its own in every component, on irregular dyadic times, and noise."""
    pull = PULL[:dim, :dim]
    truth = FunctionSDE(dim, lambda x: x @ pull.T - 0.4 * x**3, lambda x: 0.6 + 0.1 * np.tanh(x))
    rng = np.random.default_rng(seed)
    values, times = [], []
    for k, length in enumerate(lengths):
        times.append(np.cumsum(rng.integers(1, 40, length)) / 512)
        clean = simulate(truth, rng.standard_normal((1, dim)), times[-1], substeps=4, seed=k).values[0]
        seen = clean + noise * rng.standard_normal(clean.shape)
        values.append(seen * np.array([2.0, 0.5, 7.0])[:dim] + np.array([1.0, -3.0, 0.0])[:dim])
    return values, times


def check(found, x, drift, diffusion, tolerance):
    for one, other in ((found.drift(x), drift), (found.diffusion(x), diffusion)):
        assert (np.abs(one - other) / np.abs(other).max(axis=0)).max() < tolerance


@DIMS
@NOISES
def test_a_change_of_units_and_a_shift_move_the_answer_along(dim, noise):
    values, times = make_paths(dim, noise)
    obs = read(values, times=times)
    plain, x = fit(obs, STRICT), obs.grid(5, widen=0.2)
    drift, diffusion = plain.drift(x), plain.diffusion(x)
    a, b, c = np.array([3.7, 1e-5, 2e7])[:dim], np.array([11.0, -2e-5, 1e8])[:dim], 123.4
    moved = fit(obs.with_units(scale=a, offset=b, time_scale=c), STRICT)
    check(moved, a * x + b, a / c * drift, a / c**0.5 * diffusion, 1e-9)
    np.testing.assert_allclose(moved.noise_std, a * plain.noise_std, rtol=1e-9)
    with pytest.raises(AssertionError):  # the law can fail
        check(moved, a * x + b, a / c * drift, a / c * diffusion, 1e-9)


@DIMS
@NOISES
def test_where_zero_may_be_special_a_change_of_units_moves_the_answer_along(dim, noise):
    values, times = make_paths(dim, noise)
    obs = read(values, times=times)
    plain, x = fit(obs, AUTO), obs.grid(5, widen=0.2)
    a, c = np.array([3.7, 1e-5, 2e7])[:dim], 1e-4
    moved = fit(obs.with_units(scale=a, time_scale=c), AUTO)
    check(moved, a * x, a / c * plain.drift(x), a / c**0.5 * plain.diffusion(x), 1e-9)


@DIMS
@NOISES
def test_the_order_of_paths_does_not_matter(dim, noise):
    values, times = make_paths(dim, noise)
    obs = read(values, times=times)
    plain, x = fit(obs, STRICT), obs.grid(5, widen=0.2)
    for order in ([2, 1, 0], [1, 2, 0]):
        other = fit(read([values[k] for k in order], times=[times[k] for k in order]), STRICT)
        check(other, x, plain.drift(x), plain.diffusion(x), 1e-9)


def check_symmetries(dim, noise, tolerance):
    """Reflections of one and of all axes, and every permutation of them."""
    values, times = make_paths(dim, noise)
    obs = read(values, times=times)
    plain, x = fit(obs, STRICT), obs.grid(5, widen=0.2)
    drift, diffusion = plain.drift(x), plain.diffusion(x)
    for signs in (np.array([-1.0, 1.0, 1.0])[:dim], -np.ones(dim)):
        mirrored = fit(obs.with_units(scale=signs), STRICT)
        check(mirrored, signs * x, signs * drift, diffusion, tolerance)
    for order in map(list, permutations(range(dim))):
        permuted = fit(read([path[:, order] for path in values], times=times), STRICT)
        check(permuted, x[:, order], drift[:, order], diffusion[:, order], tolerance)


@DIMS
@NOISES
def test_reflections_and_permutations_of_axes_move_the_answer_along(dim, noise):
    check_symmetries(dim, noise, 1e-9)


def test_without_a_frame_of_their_own_reflected_data_get_another_answer(monkeypatch):
    """The law can fail: the factor of a kernel begins at the lowest corner of the grid, and leaves out 1e-4."""
    monkeypatch.setattr(evidence, "choose_frame", lambda tr: Frame(np.arange(2), np.ones(2)))
    with pytest.raises(AssertionError):
        check_symmetries(2, 0.1, 1e-9)
