"""How many steps a gap takes: as few as data cannot tell from more, and the equation of a chain stays one."""

import numpy as np
import pytest
import torch

from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import FunctionSDE
from fimsde.simulate import euler_step, simulate
from fimsde.train.finetune.data import Windows
from fimsde.train.finetune.steps import _divergence, steps_per_gap

THETA = 4.0


def linear(x):
    """dx = -THETA x dt + dW."""
    return -THETA * x, torch.ones_like(x)


def seen(gap, points, finer=5):
    """The process at these gaps, or with one step per gap its Euler chain."""
    sde = FunctionSDE(1, lambda x: -THETA * x, np.ones_like)
    values = simulate(sde, np.zeros((1, 1)), np.arange(points) * gap, substeps=finer, seed=1).values
    return Windows(to_transitions(read(values, dt=gap)), 1, 1, torch.float64)


def none():
    return torch.zeros(1, dtype=torch.float64)


def test_the_cost_of_an_euler_step_is_that_of_the_closed_form():
    """Two Gaussians with known moments, and the mean square of the starts; the finer law is that of two steps, which
    are off by less than a tenth of what is compared."""
    gap, windows = 0.05, seen(0.05, 257)
    right, taken = np.exp(-THETA * gap), 1 - THETA * gap
    ratio = (1 - right**2) / (2 * THETA * gap)
    square = np.mean(windows.steps.y**2)
    expected = 0.5 * (ratio - 1 - np.log(ratio) + (right - taken) ** 2 * square / gap)
    assert _divergence(linear, windows, none(), 1) == pytest.approx(expected, rel=0.1)
    assert _divergence(linear, windows, none(), 2) < expected / 50  # of second order


def test_data_that_could_not_tell_take_one_euler_step_and_more_of_the_same_take_several():
    few, many = (steps_per_gap(linear, seen(0.05, points), none()) for points in (40, 1000))
    assert (few.number, many.number) == (1, 2)
    assert "predicts the same as finer ones" in few.reason
    assert "gaps are long" in many.reason


def test_longer_gaps_take_more_steps_up_to_a_limit():
    assert [steps_per_gap(linear, seen(gap, 1000), none()).number for gap in (0.002, 0.05, 0.2, 0.4)] == [1, 2, 4, 8]


def test_noise_that_hides_the_difference_saves_steps():
    windows = seen(0.05, 1000)
    assert steps_per_gap(linear, windows, none()).number == 2
    assert steps_per_gap(linear, windows, none() + 1.0).number == 1


def test_the_equation_of_an_euler_chain_stays_one():
    """The same equation and the same gaps, but data that took one step in each: finer steps predict worse."""
    found = steps_per_gap(linear, seen(0.2, 1000, finer=1), none())
    assert found.number == 1
    assert "predicts better than finer ones" in found.reason


def test_heavy_tails_do_not_hide_an_euler_chain():
    """Noise from Student's t with three degrees of freedom and variance one: a few gains are enormous, and a rule that
    asks for many standard errors of their mean finds nothing proven."""
    gap, rng = 0.2, np.random.default_rng(2)
    values = np.zeros(1000)
    for k, noise in enumerate(rng.standard_t(3, size=999) / 3**0.5):
        values[k + 1] = euler_step(values[k], -THETA * values[k], 1.0, gap, noise)
    windows = Windows(to_transitions(read(values, dt=gap)), 1, 1, torch.float64)
    assert steps_per_gap(linear, windows, none()).number == 1


def test_fields_that_explode_within_a_gap_are_left_to_one_step():
    def exploding(x):
        return 1e200 * x**3, torch.ones_like(x)

    assert steps_per_gap(exploding, seen(0.05, 300), none()).number == 1
