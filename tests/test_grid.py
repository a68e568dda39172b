"""The one regular grid, and that everybody uses it."""

from itertools import pairwise

import numpy as np
import pytest

from fimsde.data.grid import regular_grid
from fimsde.data.observations import read
from fimsde.errors import ConfigError
from fimsde.systems.canonical import WANG_2D, grid


def test_a_grid_has_its_ends_and_the_last_axis_fastest():
    nodes = regular_grid([-1.0, 0.0], [1.0, 4.0], 3)
    expected = [(a, b) for a in (-1.0, 0.0, 1.0) for b in (0.0, 2.0, 4.0)]
    assert np.array_equal(nodes, expected)
    assert regular_grid([-2.0], [2.0], 1024).shape == (1024, 1)


@pytest.mark.parametrize(
    ("low", "high", "num"),
    [
        ([0.0], [1.0], 1),
        ([1.0], [0.0], 5),
        ([1.0], [1.0], 5),
        ([], [], 5),
        ([0.0], [1.0, 2.0], 5),
        ([np.nan], [1.0], 5),
    ],
)
def test_impossible_grids_are_refused(low, high, num):
    with pytest.raises(ConfigError, match="not possible"):
        regular_grid(low, high, num)


def test_data_and_systems_share_one_grid():
    corners = np.array([[-4.0, -4.0], [4.0, 4.0], [0.0, 0.0]])
    nodes = [read(corners, dt=1.0).grid(32), grid(WANG_2D), regular_grid([-4.0, -4.0], [4.0, 4.0], 32)]
    assert all(np.array_equal(a, b) for a, b in pairwise(nodes))
