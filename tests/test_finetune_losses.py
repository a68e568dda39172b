"""The filtered likelihood: equal to Kalman's filter where that is exact, and to the dense one without noise."""

import math

import numpy as np
import pytest
import torch

from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import FunctionSDE
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.paper import Tokens
from fimsde.simulate import simulate
from fimsde.train.finetune.data import Windows
from fimsde.train.finetune.losses import advance, filtered_nll, num_scored, predict, window_nll
from fimsde.train.losses import ScoredSteps, transition_nll

A = np.array([[-1.5, 0.8], [-0.6, -0.9]])  # drift A x + B
B = np.array([0.3, -0.2])
G = np.array([0.7, 0.4])  # diffusion


def normal(*shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def affine(x):
    """Both fields, padded to three components."""
    plane = x[..., :2]
    drift = plane @ torch.from_numpy(A.T) + torch.from_numpy(B)
    return tuple(torch.nn.functional.pad(f, (0, 1)) for f in (drift, torch.from_numpy(G).expand_as(plane)))


def windows(gaps, starts=5, seed=0):
    valid = torch.ones(1, starts, gaps, dtype=torch.bool)
    pad = torch.nn.functional.pad
    return ScoredSteps(
        start=pad(normal(1, starts, 2, seed=seed), (0, 1)),
        gaps=0.1 + normal(1, starts, gaps, seed=seed + 1).abs(),
        target=pad(normal(1, starts, gaps, 2, seed=seed + 2), (0, 1)),
        valid=valid,
        dims=torch.tensor([[True, True, False]]),
    )


def kalman(steps, noise_var, substeps):
    """The textbook recursion for one Euler step or several midpoint steps, each between two halves of its noise; one
    window at a time."""
    total, number = 0.0, 0
    for s in range(steps.start.shape[1]):
        mean, cov = steps.start[0, s, :2].numpy(), np.diag(noise_var)
        for k in range(steps.gaps.shape[2]):
            if not steps.valid[0, s, k]:
                break
            dt = float(steps.gaps[0, s, k]) / substeps
            half = np.eye(2) + (A * dt / 2 if substeps > 1 else 0)
            move = np.eye(2) + A @ half * dt
            before, after = (0, 1) if substeps == 1 else (0.5, 0.5)
            noise = np.diag(G**2) * dt
            for _ in range(substeps):
                mean, cov = move @ mean + half @ B * dt, move @ (cov + before * noise) @ move.T + after * noise
            seen = cov + np.diag(noise_var)
            miss = steps.target[0, s, k, :2].numpy() - mean
            total += 0.5 * (miss @ np.linalg.solve(seen, miss) + np.log(np.linalg.det(2 * math.pi * seen)))
            number += 2
            gain = cov @ np.linalg.inv(seen)
            mean, cov = mean + gain @ miss, cov - gain @ cov
    return total / number


@pytest.mark.parametrize("substeps", [1, 4])
@pytest.mark.parametrize("gaps", [1, 3])
def test_it_is_kalmans_filter_for_a_linear_equation(substeps, gaps):
    steps, noise_var = windows(gaps), np.array([0.04, 0.3])
    found = filtered_nll(affine, steps, torch.from_numpy(noise_var), substeps=substeps)
    assert float(found) == pytest.approx(kalman(steps, noise_var, substeps), rel=1e-5)


def test_a_window_ends_at_the_first_observation_that_does_not_count():
    """What lies behind has no influence on loss or gradient, whatever it holds (T3)."""
    steps, noise_var = windows(3), np.array([0.04, 0.3])
    steps.valid[0, 1, 1] = steps.valid[0, 2, 0] = False
    found = filtered_nll(affine, steps, torch.from_numpy(noise_var), substeps=2)
    assert float(found) == pytest.approx(kalman(steps, noise_var, 2), rel=1e-5)
    steps.target[0, 1, 1:] = steps.target[0, 2, 0] = torch.nan
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    again = filtered_nll(lambda x: tuple(scale * f for f in affine(x)), steps, torch.from_numpy(noise_var), substeps=2)
    assert float(again.detach()) == float(found)
    assert torch.autograd.grad(again, scale)[0].isfinite()


def test_a_drift_learnt_through_sub_steps_is_that_of_the_equation_and_not_of_its_euler_chain():
    """The state after a gap is known in closed form. Five midpoint steps miss it by less than fifty Euler steps do, and
    the error falls with the square of their length."""

    def end(number, midpoint):
        x, dt = torch.tensor([[[1.0]]], dtype=torch.float64), torch.full((1, 1, 1), 1.0 / number, dtype=torch.float64)
        for _ in range(number):
            x, _ = advance(lambda x: (-x, torch.zeros_like(x)), x, dt, midpoint)
        return abs(float(x) - math.exp(-1))

    assert end(5, True) < end(50, False)
    assert end(40, True) / end(80, True) == pytest.approx(4, rel=0.05)
    assert end(40, False) / end(80, False) == pytest.approx(2, rel=0.05)  # the check can tell them apart


def test_mean_and_variance_after_a_gap_are_of_second_order():
    """The Ornstein-Uhlenbeck process with theta 8 and a gap of 0.05, in closed form. The error falls with the square of
    the number of steps; where noise is added at the end of each step, as in an Euler chain, only with the number."""
    theta, sigma, gap = 8.0, 1.7, 0.05
    one = torch.ones(1, 1, 1, dtype=torch.float64)
    mean, var = math.exp(-theta * gap), sigma**2 * (1 - math.exp(-2 * theta * gap)) / (2 * theta)

    def fields(x):
        return -theta * x, torch.full_like(x, sigma)

    def errors(number):
        end, spread = predict(fields, one, 0 * one[..., None], gap * one[..., 0], 3, number)
        return np.abs([float(end) / mean - 1, float(spread) / var - 1])

    assert (errors(2) < 0.03).all()
    np.testing.assert_allclose(errors(16) / errors(32), 4, rtol=0.05)
    assert errors(1)[1] > 0.3  # one Euler step: the noise is not pulled back at all


def test_windows_add_up_to_the_mean():
    steps, noise_var = windows(3), torch.tensor([0.04, 0.3], dtype=torch.float64)
    steps.valid[0, 1, 1] = False
    each, number = window_nll(affine, steps, noise_var, substeps=2), num_scored(steps, 2)
    assert number[0].tolist() == [6, 2, 6, 6, 6]
    assert float(each.sum() / number.sum()) == float(filtered_nll(affine, steps, noise_var, substeps=2))


def test_without_noise_and_sub_steps_it_is_the_dense_likelihood():
    """For fields that are neither linear nor constant; the dense loss drops ln(2 pi dt)/2."""
    config = ModelConfig(embed=8, heads=2, encoder_layers=1, functional_layers=1, feed_forward=8, head_hidden=(8,))
    model, steps = FIMSDE(config, seed=1).double().eval(), windows(1)
    tokens = Tokens(
        normal(1, 6, 3, seed=3), normal(1, 6, 3, seed=4), normal(1, 6, seed=5).abs(), torch.ones(1, 6, dtype=torch.bool)
    )
    with torch.no_grad():
        context = model.encode(tokens)
        dense = transition_nll(model, context, steps, normal(1, 1, 5, 3, seed=6))
        zero = torch.zeros(2, dtype=torch.float64)
        filtered = filtered_nll(lambda x: model.evaluate(context, x), steps, zero, substeps=1)
    constant = 0.5 * torch.log(2 * math.pi * steps.gaps).mean()
    assert float(filtered) == pytest.approx(float(dense + constant), rel=1e-3)  # up to the smallest variances it knows


def test_its_gradient_is_that_of_finite_differences():
    """T1, with respect to scales of both fields and to the noise; several gaps and sub-steps."""
    steps = windows(2)
    start = torch.tensor([1.0, 1.0, 0.2], dtype=torch.float64)

    def loss(p):
        def fields(x):
            drift, diffusion = affine(x)
            return p[0] * torch.tanh(drift), p[1] * diffusion * (1 + 0.3 * torch.sin(x))

        return filtered_nll(fields, steps, p[2].expand(2), substeps=3)

    point = start.clone().requires_grad_()
    gradient = torch.autograd.grad(loss(point), point)[0]
    for i in range(3):
        away = 1e-5 * torch.eye(3, dtype=torch.float64)[i]
        slope = (loss(start + away) - loss(start - away)) / 2e-5
        assert float(slope) == pytest.approx(float(gradient[i]), rel=1e-6)


@pytest.fixture(scope="module")
def noisy_paths():
    """An Ornstein-Uhlenbeck process seen with noise: dx = -x dt + dW every 0.1, noise variance 0.05."""
    ou = FunctionSDE(1, lambda x: -x, np.ones_like)
    rng = np.random.default_rng(0)
    paths = simulate(ou, rng.normal(0, 0.5**0.5, (400, 1)), np.arange(20) * 0.1, seed=1)
    values = paths.values + 0.05**0.5 * rng.standard_normal(paths.values.shape)
    return to_transitions(read(values, dt=0.1))


def test_windows_of_several_observations_tell_noise_from_diffusion(noisy_paths):
    """All variance of a single step as diffusion (0.1 g + 2 v = 0.2) against the truth: alike for one observation
    ahead, and far worse for several. 400 paths; the gap is about 40 standard errors."""

    def loss(look_ahead, diffusion_sq, noise_var):
        steps = Windows(noisy_paths, look_ahead, 1, torch.float64).spread(10_000)
        noise = torch.tensor([noise_var], dtype=torch.float64)
        return float(filtered_nll(lambda x: (-x, torch.full_like(x, diffusion_sq**0.5)), steps, noise, substeps=1))

    assert abs(loss(1, 2.0, 0.0) - loss(1, 1.0, 0.05)) < 0.01
    assert loss(6, 2.0, 0.0) - loss(6, 1.0, 0.05) > 0.02
    assert loss(6, 1.0, 0.05) < min(loss(6, 1.3, 0.05), loss(6, 0.7, 0.05), loss(6, 1.0, 0.08), loss(6, 1.0, 0.03))


def test_a_covariance_that_is_lost_gives_a_loss_that_is_not_finite():
    """So that the loop skips and counts the step; nothing is repaired."""
    exploding = lambda x: (1e300 * x**3, torch.ones_like(x))  # noqa: E731
    found = filtered_nll(exploding, windows(1), torch.full((2,), 0.1, dtype=torch.float64), substeps=3)
    assert not found.isfinite()
