"""Limit cycles against closed forms: radius and period of the normal form, the known period of van der Pol's."""

import numpy as np
import pytest

import fimsde
from fimsde.analysis.cycles import find_cycle

SQUARE = (np.array([-2.0, -2.0]), np.array([2.0, 2.0]))


def everywhere(x):
    return np.ones(len(x), bool)


def found(drift, box=SQUARE, inside=everywhere):
    sde = fimsde.FunctionSDE(2, drift, lambda x: np.full_like(x, 0.1))
    return find_cycle(sde, fimsde.result(sde).fixed_points(box), *box, inside)


def normal_form(x, growth=1.0, turn=3.0, centre=(0.0, 0.0)):
    """r' = r (growth - r²), angle' = turn: radius sqrt(growth), period 2 pi / turn."""
    a, b = (x - np.array(centre)).T
    size = growth - a**2 - b**2
    return np.stack([a * size - turn * b, b * size + turn * a], axis=1)


@pytest.mark.parametrize("turn", [3.0, -0.7])
@pytest.mark.parametrize("centre", [(0.0, 0.0), (0.3, -0.2)])
def test_radius_and_period_of_the_normal_form(turn, centre):
    cycle = found(lambda x: normal_form(x, 1.0, turn, centre))
    assert cycle.period == pytest.approx(2 * np.pi / abs(turn), rel=2e-3)
    np.testing.assert_allclose(cycle.low, np.array(centre) - 1, atol=0.01)
    np.testing.assert_allclose(cycle.high, np.array(centre) + 1, atol=0.01)


def test_period_of_van_der_pol():
    """6.6633 at mu = 1, amplitude 2.0086: known to more digits than this."""
    box = np.array([-2.4, -3.0]), np.array([2.4, 3.0])
    cycle = found(lambda x: np.stack([x[:, 1], (1 - x[:, 0] ** 2) * x[:, 1] - x[:, 0]], axis=1), box)
    assert cycle.period == pytest.approx(6.6633, rel=2e-3)
    assert cycle.high[0] == pytest.approx(2.0086, rel=5e-3)


def test_there_is_none_where_paths_come_to_rest_turn_for_ever_or_leave():
    assert found(lambda x: -x) is None
    assert found(lambda x: np.stack([-x[:, 1], x[:, 0]], axis=1)) is None
    assert found(lambda x: np.stack([0.3 * x[:, 0] - x[:, 1], 0.3 * x[:, 1] + x[:, 0]], axis=1)) is None


def test_a_cycle_that_data_never_saw_is_none():
    assert found(normal_form, inside=lambda x: x[:, 0] > 0) is None


def test_cycles_are_looked_for_in_the_plane_alone():
    sde = fimsde.FunctionSDE(1, lambda x: x - x**3, np.ones_like)
    box = (np.array([-2.0]), np.array([2.0]))
    assert find_cycle(sde, fimsde.result(sde).fixed_points(box), *box, everywhere) is None
