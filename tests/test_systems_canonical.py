"""The canonical systems and the data recipe of the paper: context, noise, reference pieces, grids, seeds."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from checks import check_cdf, check_mean, check_variance
from fimsde.errors import ConfigError, DatasetError
from fimsde.systems.canonical import (
    CANONICAL,
    DAMPED_LINEAR,
    DEV_SEED,
    DOUBLE_WELL,
    REPETITIONS,
    WANG_2D,
    System,
    context,
    grid,
    reference,
)

# Mean squares of drift and diffusion over the paper's grids, as printed (three or four digits). They pin equations and
# boxes together: any wrong coefficient or box moves them.
ZERO_PREDICTOR = {
    "double_well": ("65.7", "2.38"),
    "wang_2d": ("1521", "6.68"),
    "damped_linear": ("5.69", "1"),
    "damped_cubic": ("44.1", "1"),
    "duffing": ("300", "1"),
    "glycolysis": ("153", "1"),
    "hopf": ("22.5", "1"),
}
STARTS = {
    "double_well": [0],
    "wang_2d": [1.5, 1.5],
    "damped_linear": [2.5, -5],
    "damped_cubic": [0, -1],
    "duffing": [3, 2],
    "glycolysis": [0.7, 1.25],
    "hopf": [2, 2],
}


@pytest.fixture(params=CANONICAL, ids=lambda s: s.name)
def system(request) -> System:
    return request.param


def test_the_systems_stand_in_the_order_of_the_papers_tables():
    assert [s.name for s in CANONICAL] == list(ZERO_PREDICTOR)


def test_mean_squares_on_the_grid_are_the_published_ones(system):
    nodes = grid(system)
    assert nodes.shape == (1024, system.dim)
    for field, printed in zip((system.drift, system.diffusion), ZERO_PREDICTOR[system.name], strict=True):
        digits = len(printed.replace(".", ""))
        assert f"{np.mean(field(nodes) ** 2):.{max(digits, 3)}g}" == printed


def test_grid_nodes_span_the_box_regularly():
    nodes = grid(WANG_2D)
    assert nodes[0].tolist() == [-4, -4]
    assert nodes[-1].tolist() == [4, 4]
    np.testing.assert_allclose(np.diff(np.unique(nodes[:, 0])), 8 / 31)
    assert nodes[1].tolist() == [-4, -4 + 8 / 31]  # last component fastest
    assert grid(DOUBLE_WELL)[[0, -1]].ravel().tolist() == [-2, 2]


def test_contexts_are_regular_paths_from_the_papers_initial_state(system):
    obs = context(system, 1, length=500)
    assert obs.values.shape == (500, system.dim)
    assert obs.values[0].tolist() == STARTS[system.name]
    np.testing.assert_allclose(obs.times, 0.002 * np.arange(500), rtol=1e-12)
    coarse = context(system, 1, length=50, stride=10)
    np.testing.assert_allclose(coarse.times, 0.02 * np.arange(50), rtol=1e-12)


def test_five_thousand_points_span_ten_and_a_hundred_time_units():
    """The paper's appendix says 1 and 10."""
    assert context(DOUBLE_WELL).times[-1] == pytest.approx(4999 * 0.002)
    assert context(DOUBLE_WELL, stride=10).times[-1] == pytest.approx(4999 * 0.02)


def test_lengths_and_strides_are_cut_from_one_trajectory():
    """As if all 500 000 steps had been simulated first: equal to the last bit."""
    long = context(WANG_2D, 2, length=5001).values
    assert np.array_equal(context(WANG_2D, 2, length=1234).values, long[:1234])
    assert np.array_equal(context(WANG_2D, 2, length=501, stride=10).values, long[::10])


@pytest.mark.parametrize("system", [DOUBLE_WELL, WANG_2D, DAMPED_LINEAR], ids=lambda s: s.name)
def test_steps_are_those_of_the_euler_chain(system):
    """(dx - f dt) / sqrt(g dt) is exactly standard normal. False alarms: 1e-6 per check."""
    residuals = euler_residuals(system, dt=0.002)
    check_mean(residuals, 0, 1)
    check_variance(residuals, 1)
    check_cdf(residuals, stats.norm.cdf)


def test_that_check_notices_a_step_of_another_length():
    """A step 15 % longer than said is 10 standard errors away with these numbers."""
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(euler_residuals(DAMPED_LINEAR, dt=0.002 / 1.15), 1)


def euler_residuals(system, dt):
    x = context(system).values
    start = x[:-1]
    return ((np.diff(x, axis=0) - system.drift(start) * dt) / (system.diffusion(start) * np.sqrt(dt))).ravel()


def test_noise_is_a_standard_deviation_relative_to_half_the_range_of_each_component():
    """The second moment is pinned: 0.05 is no variance. False alarms: 1e-6 per check."""
    noise = relative_noise()
    for component in noise.T:
        check_mean(component, 0, 0.05**2)
        check_variance(component, 0.05**2)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 5 / np.sqrt(len(noise))


def test_that_check_notices_a_noise_relative_to_the_whole_range():
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(2 * relative_noise()[:, 0], 0.05**2)


def relative_noise():
    clean = context(DAMPED_LINEAR, 3).values
    noisy = context(DAMPED_LINEAR, 3, noise_std=0.05).values
    return (noisy - clean) / ((clean.max(axis=0) - clean.min(axis=0)) / 2)


def test_the_reference_is_one_trajectory_cut_into_a_hundred_consecutive_pieces():
    pieces = reference(DAMPED_LINEAR, 4)
    assert pieces.shape == (100, 500, 2)
    assert pieces[0, 0].tolist() == STARTS["damped_linear"]
    jumps = (
        pieces[1:, 0] - pieces[:-1, -1]
    )  # from the last point of a piece to the first of the next: one step of 0.002
    expected = DAMPED_LINEAR.drift(pieces[:-1, -1]) * 0.002
    check_variance(((jumps - expected) / np.sqrt(0.002)).ravel(), 1)


def test_repetitions_seeds_and_purposes_give_independent_paths():
    steps = [
        np.diff(values, axis=0).ravel()
        for values in (
            context(DAMPED_LINEAR, 0).values,
            context(DAMPED_LINEAR, 1).values,
            context(DAMPED_LINEAR, 0, seed=DEV_SEED).values,
            reference(DAMPED_LINEAR, 0)[:10].reshape(-1, 2),
            context(CANONICAL[-1], 0).values,
        )
    ]
    # Drift makes up less than 1 % of a step's variance, so steps of independent paths are uncorrelated up to that.
    correlations = np.corrcoef(steps) - np.eye(len(steps))
    assert np.abs(correlations).max() < 0.1


def test_the_same_call_gives_the_same_numbers_and_callers_cannot_change_them():
    first = context(DOUBLE_WELL, noise_std=0.05).values
    first[:] = 0
    reference(DAMPED_LINEAR)[:] = 0
    assert np.array_equal(context(DOUBLE_WELL, noise_std=0.05).values, context(DOUBLE_WELL, noise_std=0.05).values)
    assert context(DOUBLE_WELL, noise_std=0.05).values.any()
    assert reference(DAMPED_LINEAR).any()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"repetition": REPETITIONS}, "repetition is 5; expected 0 to 4"),
        ({"repetition": -1}, "repetition is -1"),
        ({"stride": 0}, "stride 0"),
        ({"length": 0}, "length 0"),
        ({"noise_std": -0.1}, "noise_std -0.1"),
    ],
)
def test_impossible_settings_are_named(settings, words):
    with pytest.raises(ConfigError, match=words):
        context(DOUBLE_WELL, **settings)


def test_a_system_that_explodes_is_an_error_not_a_data_set():
    bomb = System(
        name="bomb",
        title="Bomb",
        drift=lambda x: x**3,
        diffusion=np.zeros_like,
        initial_state=(10.0,),
        box=((0.0, 1.0),),
        dt=0.1,
    )
    with pytest.raises(DatasetError, match="5 of 5 trajectories of Bomb left the finite range"):
        context(bomb)


ENDS = """
from fimsde.systems.canonical import CANONICAL, context
print(*(context(system, 0, seed=0).values[-1].tobytes().hex() for system in CANONICAL))
"""


def test_data_are_the_same_on_every_processor():
    """The damped cubic makes another path of another last digit, and x**3 has one with vectors and one without."""
    vectors = np.show_config(mode="dicts")["SIMD Extensions"]["found"]
    environments = (os.environ, os.environ | {"NPY_DISABLE_CPU_FEATURES": " ".join(vectors)})
    command = [sys.executable, "-c", ENDS]
    with_vectors, without = (
        subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout for env in environments
    )
    assert with_vectors == without
    assert len(with_vectors.split()) == len(CANONICAL)
