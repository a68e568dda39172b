"""One item of the prior: what it holds, and that it is a function of (settings, seed, number)."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from fimsde.errors import ConfigError
from fimsde.prior.config import CorruptionConfig, LocationConfig, PriorConfig, Setting
from fimsde.prior.equation import draw_equation, stream

SMALL = PriorConfig(
    settings=(Setting(0.1, 2, 5, 16), Setting(0.01, 1, 3, 30)), locations=LocationConfig(300, 0.25, 10, 7)
)
ARRAYS = ("values", "mask", "box", "locations", "drift", "diffusion")


def same(a, b):
    """Equal in every bit."""
    coefficients = [e.sde.drift_coefficients.tobytes() + e.sde.diffusion_coefficients.tobytes() for e in (a, b)]
    rest = [(e.index, e.setting, e.corruption, e.num_proposals) for e in (a, b)]
    arrays = all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in ARRAYS)
    return arrays and coefficients[0] == coefficients[1] and rest[0] == rest[1]


def test_an_item_does_not_depend_on_what_was_drawn_before():
    forward = [draw_equation(SMALL, 3, i) for i in range(20)]
    backward = [draw_equation(SMALL, 3, i) for i in reversed(range(20))]
    assert all(same(a, b) for a, b in zip(forward, reversed(backward), strict=True))


def test_other_seeds_and_numbers_give_other_items():
    items = [draw_equation(SMALL, seed, index) for seed in (3, 4) for index in (0, 1, 2)]
    assert len({item.locations.tobytes() for item in items}) == 6


def test_the_stream_starts_anywhere():
    items = list(islice(stream(SMALL, seed=3, start=5), 4))
    assert all(same(item, draw_equation(SMALL, 3, 5 + k)) for k, item in enumerate(items))


def clean_twin(config, seed, index):
    """The same item without corruption: corruption has random numbers of its own, so nothing else changes."""
    return draw_equation(replace(config, corruption=CorruptionConfig((0.0, 0.0), "equation", (1.0, 1.0))), seed, index)


def test_corruption_changes_values_and_mask_and_nothing_else():
    for index in range(30):
        item, clean = draw_equation(SMALL, 8, index), clean_twin(SMALL, 8, index)
        assert np.array_equal(item.values, clean.values) == (item.corruption.noise_std == 0)
        assert item.mask.all() or item.corruption.survival < 1
        for name in ("box", "locations", "drift", "diffusion"):
            assert np.array_equal(getattr(item, name), getattr(clean, name))


@pytest.mark.parametrize(
    ("mix", "noisy", "gappy"),
    [
        ((1, 0, 0, 0), False, False),
        ((0, 1, 0, 0), True, False),
        ((0, 0, 1, 0), False, True),
        ((0, 0, 0, 1), True, True),
    ],
    ids=["clean", "noise", "gaps", "both"],
)
def test_the_shares_of_the_mix_are_clean_noise_gaps_and_both(mix, noisy, gappy):
    config = replace(SMALL, corruption=CorruptionConfig(mix=tuple(map(float, mix))))
    found = [draw_equation(config, 8, index).corruption for index in range(5)]
    assert [(c.noise_std > 0, c.survival < 1) for c in found] == [(noisy, gappy)] * 5


def test_stored_targets_are_the_stored_polynomials_evaluated_afresh():
    """G8, to the last bit."""
    for index in range(10):
        item = draw_equation(SMALL, 1, index)
        assert np.array_equal(item.drift, item.sde.drift(item.locations).astype(np.float32))
        assert np.array_equal(item.diffusion, item.sde.diffusion(item.locations).astype(np.float32))


@pytest.mark.parametrize(("dim", "nodes"), [(1, 2048), (2, 45**2), (3, 13**3)])
def test_the_grid_covers_the_clean_paths_and_a_quarter_of_their_range_on_every_side(dim, nodes):
    config = replace(PriorConfig(settings=SMALL.settings)).restrict(dims=[dim])
    item = draw_equation(config, 2, 0)
    clean = clean_twin(config, 2, 0).values.reshape(-1, dim).astype(float)
    low, high = clean.min(axis=0), clean.max(axis=0)
    grid = item.grid(config.locations)
    assert grid.shape == (nodes, dim)
    np.testing.assert_allclose(grid.min(axis=0), low - 0.25 * (high - low), rtol=1e-12)
    np.testing.assert_allclose(grid.max(axis=0), high + 0.25 * (high - low), rtol=1e-12)
    gaps = [np.diff(np.unique(grid[:, d])) for d in range(dim)]
    assert all(np.allclose(gap, gap[0], rtol=1e-9) for gap in gaps)
    assert len(np.unique(grid, axis=0)) == nodes


def test_stored_locations_are_different_grid_nodes_then_different_clean_states():
    for index in range(10):
        item, clean = draw_equation(SMALL, 4, index), clean_twin(SMALL, 4, index)
        nodes, states = item.locations[:10], item.locations[10:]
        grid = {tuple(row) for row in item.grid(SMALL.locations).astype(np.float32)}
        visited = {tuple(row) for row in clean.values.reshape(-1, item.dim)}
        assert {tuple(row) for row in nodes} <= grid
        assert {tuple(row) for row in states} <= visited
        assert len({tuple(row) for row in nodes}) == 10
        assert len({tuple(row) for row in states}) == 7


def test_asking_for_more_locations_than_there_are_stores_all():
    config = replace(SMALL, dims=(1,), dim_shares=(1.0,), locations=LocationConfig(6, 0.25, 100, 1000))
    item = draw_equation(config, 4, 0)
    assert len(item.locations) == 6 + item.setting.num_paths * item.setting.num_times


def test_observations_are_the_surviving_values():
    for index in range(12):
        item = draw_equation(SMALL, 6, index)
        obs = item.observations()
        assert obs.num_points == item.mask.sum()
        assert np.array_equal(obs.values, item.values[item.mask].astype(float))
        times, values = obs.path(0)
        assert np.array_equal(times, item.times[item.mask[0]])
        assert np.array_equal(values, item.values[0][item.mask[0]].astype(float))
        assert item.times[1] == item.setting.gap


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (0, -1), (2**63, 0), (0, 2**63)])
def test_impossible_seeds_are_errors(seed, index):
    with pytest.raises(ConfigError, match="expected integers from 0"):
        draw_equation(SMALL, seed, index)
