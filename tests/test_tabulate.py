"""Tests of tables: exact where interpolation is, of fourth order, and within their stated error."""

import warnings

import numpy as np
import pytest

from checks import check_slope
from fimsde.analysis.replay import _Midpoint
from fimsde.data.grid import regular_grid
from fimsde.equations.changes import AffineSDE
from fimsde.equations.sde import SDE, FunctionSDE
from fimsde.errors import ConfigError, DataWarning, InvalidObservationsError
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.results.make import estimate
from fimsde.simulate import simulate
from fimsde.tabulate import TabulatedSDE, _interpolate, table_around, tabulate
from problems import OrnsteinUhlenbeck

RNG = np.random.default_rng(0)
BOXES = {
    1: (np.array([-1.5]), np.array([2.0])),
    2: (np.array([-1.5, -0.5]), np.array([2.0, 1.0])),
    3: (np.array([-1.5, -0.5, 0.2]), np.array([2.0, 1.0, 1.5])),
}


def swirl(dim, speed=2.0):
    """Smooth fields that no cubic equals."""
    return FunctionSDE(
        dim,
        drift=lambda x: np.sin(speed * x) + 0.5 * x[:, ::-1] ** 2,
        diffusion=lambda x: np.exp(-0.5 * np.sum(x**2, axis=1, keepdims=True)) * np.ones_like(x) + 0.1,
    )


def inside(dim, num=5000):
    low, high = BOXES[dim]
    return np.concatenate([RNG.uniform(low, high, (num, dim)), [low, high]])


class Counting:
    """An equation that remembers where it was asked."""

    def __init__(self, sde):
        self.sde, self.dim, self.asked = sde, sde.dim, []

    def drift(self, x):
        self.asked.append(x)
        return self.sde.drift(x)

    def diffusion(self, x):
        return self.sde.diffusion(x)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_a_table_of_cubics_is_exact_up_to_the_edges_of_the_box(dim):
    cubic = FunctionSDE(
        dim, drift=lambda x: x - x**3 + 2 * x[:, :1] ** 3 * x[:, -1:], diffusion=lambda x: 3 + 0.1 * x**3
    )
    if dim == 1:
        cubic = FunctionSDE(1, drift=lambda x: x - x**3, diffusion=lambda x: 3 + 0.1 * x**3)
    table, x = tabulate(cubic, *BOXES[dim]), inside(dim)
    assert isinstance(table, SDE)
    np.testing.assert_allclose(table.drift(x), cubic.drift(x), atol=1e-12)
    np.testing.assert_allclose(table.diffusion(x), cubic.diffusion(x), atol=1e-12)
    assert table.error_bound < 1e-13


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_error_falls_with_the_fourth_power_of_the_step(dim):
    (low, high), sde, x = BOXES[dim], swirl(dim), inside(dim)
    nodes = [17, 33, 65] if dim == 3 else [9, 17, 33, 65, 129]
    errors = []
    for num in nodes:
        values = sde.drift(regular_grid(low, high, num)).reshape(*(num,) * dim, dim)
        errors.append(np.abs(_interpolate(values, low, high, x) - sde.drift(x)).max())
    check_slope(np.array(nodes) - 1, np.array(errors), slope=-4, tolerance=0.3)


def test_the_four_nodes_used_are_the_nearest():
    """Halfway between nodes the error for x⁴ is h⁴ times 3/2 · 1/2 · 1/2 · 3/2; with nodes to one side it is larger."""
    low, high, h = np.array([0.0]), np.array([1.0]), 1 / 16
    values, x = regular_grid(low, high, 17) ** 4, (np.arange(1, 15)[:, None] + 0.5) * h
    np.testing.assert_allclose(np.abs(_interpolate(values, low, high, x) - x**4) / h**4, 9 / 16, rtol=1e-6)


@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
def test_the_error_stays_below_the_bound_and_the_bound_below_the_tolerance(dim, tolerance):
    sde, x = swirl(dim, speed=5.0), inside(dim, 20_000)
    table = tabulate(sde, *BOXES[dim], tolerance)
    assert 0 < table.error_bound <= tolerance
    drift_error = np.abs(table.drift(x) - sde.drift(x)).max(axis=0)
    diffusion_error = np.abs(table.diffusion(x) - sde.diffusion(x)).max(axis=0)
    assert np.all(drift_error <= table.drift_error)
    assert np.all(diffusion_error <= table.diffusion_error)
    size = np.sqrt(np.mean(sde.drift(regular_grid(*BOXES[dim], 200)) ** 2, axis=0))
    assert np.all(table.drift_error <= 1.1 * tolerance * size)


def test_the_error_of_a_table_is_the_largest_one_with_every_other_node_left_out():
    low, high = BOXES[1]
    table = tabulate(swirl(1), low, high, tolerance=1.0)
    x = regular_grid(low, high, len(table.values))[1::2]
    off = np.abs(table.values[1::2] - _interpolate(table.values[::2].copy(), low, high, x))
    np.testing.assert_allclose([*table.drift_error, *table.diffusion_error], off.max(axis=0), rtol=1e-12)
    assert table.drift_error[0] > 1.2 * off.mean(axis=0)[0]


def test_a_smaller_tolerance_makes_a_larger_table():
    sizes = [tabulate(swirl(2, speed=5.0), *BOXES[2], tolerance).num_nodes for tolerance in (1e-1, 1e-2, 1e-3, 1e-4)]
    assert sizes == sorted(sizes)
    assert sizes[0] < sizes[-1]


def test_each_node_is_asked_for_once():
    counting = Counting(swirl(2, speed=9.0))
    table = tabulate(counting, *BOXES[2], 1e-3)
    asked = np.concatenate(counting.asked)
    assert len(asked) == len(np.unique(asked, axis=0)) == table.num_nodes > 33**2


def test_outside_the_box_the_equation_itself_is_asked():
    counting = Counting(swirl(2))
    table = tabulate(counting, *BOXES[2])
    counting.asked.clear()
    x = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, -0.51], [2.0, 1.0]])
    drift = table.drift(x)
    np.testing.assert_array_equal(np.concatenate(counting.asked), x[1:3])
    np.testing.assert_array_equal(drift[1:3], swirl(2).drift(x[1:3]))
    np.testing.assert_allclose(drift, swirl(2).drift(x), atol=1e-4)


def test_a_diffusion_that_vanishes_is_never_negative():
    kink = FunctionSDE(1, drift=np.zeros_like, diffusion=lambda x: np.sqrt(np.maximum(1 - x**2, 0.0)))
    with pytest.warns(DataWarning, match="more than the tolerance"):
        table = tabulate(kink, np.array([-2.0]), np.array([2.0]), 1e-3, max_nodes=2000)
    assert np.all(table.diffusion(np.linspace(-2, 2, 9999)) >= 0)
    assert np.all(table.drift_error == 0)


def test_a_tolerance_that_is_not_reached_is_said_with_the_error_that_was():
    with pytest.warns(DataWarning, match=r"289|1089") as caught:
        table = tabulate(swirl(2, speed=30.0), *BOXES[2], 1e-3, max_nodes=1500)
    assert len(caught) == 1
    assert table.num_nodes == 33**2
    assert table.error_bound > 1e-3
    assert f"{table.error_bound:.2g}" in str(caught[0].message)


def test_a_component_that_all_but_vanishes_does_not_call_for_endless_refinement():
    rough = FunctionSDE(
        2,
        drift=lambda x: np.column_stack([np.ones(len(x)), 1e-9 * np.sin(1e9 * x[:, 0])]),
        diffusion=np.ones_like,
    )
    assert tabulate(rough, *BOXES[2]).num_nodes == 33**2


def test_slow_components_are_as_accurate_as_fast_ones():
    mixed = FunctionSDE(
        2, drift=lambda x: np.column_stack([x[:, 0], 0.02 * np.sin(9 * x[:, 1])]), diffusion=np.ones_like
    )
    table, x = tabulate(mixed, *BOXES[2], 1e-3), inside(2)
    assert np.abs(table.drift(x) - mixed.drift(x))[:, 1].max() < 1e-3 * 0.02


def test_the_table_does_not_depend_on_units():
    scale, offset, low, high = np.array([1e-8, 1e5]), np.array([3.0, -4.0]), *BOXES[2]
    plain = tabulate(swirl(2, speed=9.0), low, high)
    moved = tabulate(
        AffineSDE(swirl(2, speed=9.0), scale=scale, offset=offset), (low - offset) / scale, (high - offset) / scale
    )
    assert moved.num_nodes == plain.num_nodes
    np.testing.assert_allclose(moved.error_bound, plain.error_bound, rtol=1e-6)


def estimated(dim, seed=0):
    times = np.arange(200) * 0.05
    obs = simulate(OrnsteinUhlenbeck(dim=dim), np.zeros((1, dim)), times, seed=1).observations()
    return estimate(obs, FIMSDE(ModelConfig.preset("tiny"), seed=seed).eval()), obs


@pytest.mark.parametrize("dim", [1, 2])
def test_an_estimate_and_its_table_agree_within_the_bound(dim):
    sde, obs = estimated(dim)
    table = sde.tabulate(tolerance=5e-3)
    low, high = obs.box(widen=0.2)
    assert np.all(table.low < low)
    assert np.all(high < table.high)
    x = RNG.uniform(table.low, table.high, (500, dim))
    for found, expected, error in zip(
        table.fields(x), sde.fields(x), (table.drift_error, table.diffusion_error), strict=True
    ):
        assert np.all(np.abs(found - expected).max(axis=0) <= error)


def test_paths_of_the_table_follow_paths_of_the_estimate():
    sde, _ = estimated(1)
    table = sde.tabulate(tolerance=1e-4)
    times = np.linspace(0, 1, 21)
    found, expected = (s.simulate(np.zeros(1), times, num_paths=5, seed=2).values for s in (table, sde))
    assert np.abs(found - expected).max() < 1e-3 * np.std(expected)


class StepByStep:
    """A table without its compiled steps."""

    def __init__(self, table, half=0.0):
        self.dim, self._table, self._half = table.dim, table, half

    def drift(self, x):
        return self.fields(x)[0]

    def diffusion(self, x):
        return self.fields(x)[1]

    def fields(self, x):
        drift, diffusion = self._table.fields(x)
        return (self._table.fields(x + self._half * drift)[0] if self._half else drift), diffusion


@pytest.mark.parametrize("half", [0.0, 0.01])
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_compiled_steps_are_the_steps_of_the_simulator_bit_for_bit(dim, half):
    """Also where paths leave the table and come back, and on irregular grids of unequal length."""
    pull = FunctionSDE(dim, lambda x: -3 * np.tanh(2 * x), lambda x: 0.8 + 0.3 * np.cos(x))
    table = tabulate(pull, np.full(dim, -0.7), np.full(dim, 0.9), 1e-2)
    grids = [np.cumsum(RNG.uniform(0.01, 0.1, n)) for n in (700, 300, 2)]
    starts = np.zeros((3, dim))
    compiled = table if half == 0 else _Midpoint(table, 2 * half)
    found = simulate(compiled, starts, grids, substeps=2, seed=3)
    expected = simulate(StepByStep(table, half), starts, grids, substeps=2, seed=3)
    outside = np.any((found.values < table.low) | (found.values > table.high), axis=-1)
    assert 0.02 < outside[found.mask].mean() < 0.9  # both kinds of steps were taken
    np.testing.assert_array_equal(found.values, expected.values)
    alone = simulate(compiled, starts[:1], grids[:1], substeps=2, seed=3)
    np.testing.assert_array_equal(alone.values[0], found.values[0])


def test_compiled_steps_count_paths_that_diverge():
    growing = FunctionSDE(1, lambda x: 5 * x**3, np.ones_like)
    table = tabulate(growing, np.full(1, -2.0), np.full(1, 2.0))
    times = np.arange(400) * 0.02
    found, expected = (simulate(s, np.zeros((6, 1)), times, seed=1) for s in (table, StepByStep(table)))
    assert found.num_diverged == expected.num_diverged > 0
    np.testing.assert_array_equal(found.diverged_at, expected.diverged_at)
    np.testing.assert_array_equal(found.values, expected.values)


def test_the_box_may_be_chosen():
    sde, _ = estimated(1)
    table = sde.tabulate(box=(np.array([-0.1]), np.array([0.3])))
    np.testing.assert_array_equal([table.low, table.high], [[-0.1], [0.3]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        np.testing.assert_array_equal(table.drift(np.array([0.5])), sde.drift(np.array([0.5])))


def test_a_table_of_four_dimensions_is_refused():
    sde = FunctionSDE(4, np.zeros_like, np.ones_like)
    with pytest.raises(InvalidObservationsError, match="has 4 dimensions; tables are for up to three"):
        tabulate(sde, np.zeros(4), np.ones(4))


def test_around_data_an_equation_is_a_table_unless_its_fields_are_not_finite_there():
    obs = simulate(OrnsteinUhlenbeck(dim=3), np.zeros((1, 3)), np.arange(200) * 0.05, seed=1).observations()
    table, error = table_around(swirl(3), obs)
    assert isinstance(table, TabulatedSDE)
    assert error == table.error_bound < 0.01
    hole = FunctionSDE(3, lambda x: x / np.linalg.norm(x - table.low, axis=1, keepdims=True), np.ones_like)
    with np.errstate(divide="ignore", invalid="ignore"):
        assert table_around(hole, obs) == (hole, 0.0)


@pytest.mark.parametrize(
    ("low", "high", "options", "words"),
    [
        ([0.0], [0.0], {}, "low < high"),
        ([0.0], [np.inf], {}, "finite"),
        ([0.0, 0.0], [1.0, 1.0], {}, "expected 1 finite"),
        ([0.0], [1.0], {"tolerance": 0.0}, "tolerance is 0.0"),
        ([0.0], [1.0], {"tolerance": float("nan")}, "tolerance is nan"),
        ([0.0], [1.0], {"max_nodes": 20}, "max_nodes is 20; expected at least 33"),
    ],
)
def test_impossible_settings_are_refused(low, high, options, words):
    with pytest.raises(ConfigError, match=words):
        tabulate(swirl(1), np.array(low), np.array(high), **options)


def test_a_box_where_the_fields_are_not_finite_is_refused_with_the_place():
    root = FunctionSDE(1, drift=lambda x: -x, diffusion=lambda x: np.sqrt(np.where(x < 0, np.nan, x)))
    with pytest.raises(InvalidObservationsError, match=r"not finite at \[-1\.\]"):
        tabulate(root, np.array([-1.0]), np.array([1.0]))
