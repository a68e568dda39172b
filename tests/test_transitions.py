"""Observations become steps; nothing is joined across paths and nothing is lost."""

import numpy as np

from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions

PIECES = [
    np.array([[1.0, 2.0], [3.0, 5.0], [4.0, 1.0]]),
    np.array([[100.0, 7.0]]),
    np.array([[-5.0, 0.0], [-6.0, 9.0]]),
]
TIMES = [np.array([0.0, 0.5, 2.0]), np.array([7.0]), np.array([1.0, 1.25])]
STEPS = to_transitions(read(PIECES, times=TIMES))


def test_rows_are_the_steps_inside_each_path_in_time_order():
    np.testing.assert_array_equal(STEPS.y, [[1, 2], [3, 5], [-5, 0]])
    np.testing.assert_array_equal(STEPS.dy, [[2, 3], [1, -4], [-1, 9]])
    np.testing.assert_array_equal(STEPS.dtau, [0.5, 1.5, 0.25])
    np.testing.assert_array_equal(STEPS.path, [0, 0, 2])  # a single observation makes no step
    assert (len(STEPS), STEPS.dim) == (3, 2)


def test_the_states_of_all_steps_are_the_observations_of_paths_with_a_step():
    np.testing.assert_array_equal(STEPS.ends_path(), [False, True, True])
    states = STEPS.observations()
    expected = np.concatenate([PIECES[0], PIECES[2]])
    assert sorted(map(tuple, states)) == sorted(map(tuple, expected))


def test_a_path_cut_at_an_observation_gives_the_same_steps():
    y, t = np.random.default_rng(0).standard_normal((50, 2)), np.cumsum(np.arange(1.0, 51.0))
    whole = to_transitions(read(y, times=t))
    cut = to_transitions(read([y[:21], y[20:]], times=[t[:21], t[20:]]))
    for field in ("y", "dy", "dtau"):
        np.testing.assert_array_equal(getattr(whole, field), getattr(cut, field))


def test_the_clock_may_start_anywhere():
    y, gaps = np.random.default_rng(0).standard_normal(200), 0.5 ** np.random.default_rng(1).integers(1, 9, 200)
    t = np.cumsum(gaps)
    late = to_transitions(read(y, times=t + 2.0**30))
    np.testing.assert_array_equal(late.dtau, to_transitions(read(y, times=t)).dtau)
