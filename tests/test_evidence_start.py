"""Where estimation begins: noise of known size is found, and none where there is none."""

import numpy as np
import pytest

from fimsde.bank.windows import Series
from fimsde.evidence.start import local_level

GAP, RATE = 0.01, 4.0


def walk(ratio, seed, num=600, gaps=None):
    """A random walk with g = 4, seen through noise of this variance in variances of a gap."""
    rng = np.random.default_rng(seed)
    gaps = np.full(num - 1, GAP) if gaps is None else gaps
    x = np.concatenate([[0.0], np.cumsum(np.sqrt(RATE * gaps) * rng.standard_normal(num - 1))])
    y = x + np.sqrt(ratio * RATE * GAP) * rng.standard_normal(num)
    return Series(y[:, None], np.append(gaps, 0.0), np.array([0, num]))


def test_no_noise_is_found_in_a_clean_random_walk():
    """Twice the gain in likelihood of a useless v ≥ 0 is half a chi-square: 3 nats in fewer than 1 % of data sets.

    More than 12 of 200 happen with a probability below 1e-6 then.
    """
    found = [local_level(walk(0.0, seed)) for seed in range(200)]
    assert sum(level.noise[0] > 0 for level in found) <= 12
    assert np.median([level.rate[0] for level in found]) == pytest.approx(RATE, rel=0.03)


@pytest.mark.parametrize("ratio", [1.0, 10.0])
@pytest.mark.parametrize("irregular", [False, True], ids=["regular", "irregular"])
def test_noise_of_known_size_is_found(ratio, irregular):
    """A grid in steps of 10^(1/4) of v / g: each within a third, the mean of 40 within a tenth."""
    gaps = GAP * np.random.default_rng(9).uniform(0.3, 1.7, 599) if irregular else None
    found = [local_level(walk(ratio, seed, gaps=gaps)) for seed in range(40)]
    share = np.array([level.noise[0] for level in found]) / (ratio * RATE * GAP)
    assert share.min() > 0.5
    assert share.max() < 1.6
    assert share.mean() == pytest.approx(1.0, abs=0.1)


def test_components_have_noise_of_their_own_and_paths_are_not_joined():
    clean, noisy = walk(0.0, 0), walk(10.0, 1)
    y = np.column_stack([clean.y, noisy.y])
    both = local_level(Series(y, clean.dtau, clean.path_starts))
    assert both.noise[0] == local_level(clean).noise[0] == 0
    assert both.noise[1] == pytest.approx(local_level(noisy).noise[0], rel=1e-12)
    cut = Series(np.concatenate([y, y + 100.0]), np.tile(clean.dtau, 2), np.array([0, 600, 1200]))
    assert local_level(cut).rate == pytest.approx(both.rate, rel=0.05)


def test_where_noise_is_ruled_out_it_is_zero():
    assert local_level(walk(10.0, 0), noisy=False).noise[0] == 0
