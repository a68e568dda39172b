"""Replays: simulated states on the grid of the data, and correlations by their definition."""

import numpy as np
import pytest

import fimsde
from checks import check_variance
from fimsde.analysis.replay import Replay, _gap, autocorrelation, beginning, replay
from fimsde.errors import ConfigError
from problems import OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)


def observed(lengths, gap=0.2, seed=0):
    """Paths of an Ornstein-Uhlenbeck process of these lengths."""
    grids = [np.arange(n) * gap for n in lengths]
    paths = fimsde.simulate(OU, np.zeros((len(lengths), 1)), grids, substeps=4, seed=seed)
    return fimsde.read([v[m] for v, m in zip(paths.values, paths.mask, strict=True)], times=grids)


def test_paths_start_where_the_data_start_and_live_on_their_grid():
    data = observed([30, 7, 50])
    played = replay(fimsde.result(OU, data), replicates=3)
    assert played.values.shape == (3, 87, 1)
    for replicate in played.values:
        np.testing.assert_array_equal(replicate[data.path_starts[:-1]], data.values[data.path_starts[:-1]])
    assert played.num_diverged == 0
    assert played.num_simulated == 9
    assert np.isfinite(played.values).all()
    assert np.any(played.values[0] != played.values[1])


def test_the_law_of_a_replay_is_that_of_the_equation():
    """Ends of many short paths from one start against the moments of the Euler chain. False alarms: 1e-6."""
    data = observed([6] * 800)
    ends = replay(fimsde.result(OU, data), replicates=5).values[:, 5::6, 0].ravel()
    _, variance = OU.euler_moments(0.0, [0.05] * 20)
    check_variance(ends, variance, false_alarm=1e-6)
    wrong = replay(fimsde.result(OrnsteinUhlenbeck(1.5, 0.8), data), replicates=5).values[:, 5::6, 0].ravel()
    with pytest.raises(AssertionError):
        check_variance(wrong, variance, false_alarm=1e-6)


def test_the_autocorrelation_is_its_definition_over_pairs_of_one_path():
    rng = np.random.default_rng(0)
    values, starts = rng.standard_normal((40, 2)), np.array([0, 25, 40])
    found = autocorrelation(values, starts, 30)
    centred = values - values.mean(axis=0)
    for lag in (0, 1, 7, 20):
        pairs = [(i, i + lag) for a, b in ((0, 25), (25, 40)) for i in range(a, b - lag)]
        expected = np.mean([centred[i] * centred[j] for i, j in pairs], axis=0) / np.mean(centred**2, axis=0)
        np.testing.assert_allclose(found[lag], expected, rtol=1e-10)
    assert np.isnan(found[27]).all()  # no path is as long as that


def test_a_path_that_diverged_counts_until_then():
    values = np.array([[1.0], [2.0], [0.5], [np.nan], [np.nan]])
    whole = autocorrelation(values[:3], np.array([0, 3]), 3)
    np.testing.assert_allclose(autocorrelation(values, np.array([0, 5]), 3), whole)


def test_paths_that_diverge_are_counted_and_end_the_replay_of_nobody_else():
    data = observed([200])
    unstable = fimsde.FunctionSDE(1, lambda x: 40 * x**3 - x, lambda x: np.ones_like(x))
    played = replay(fimsde.result(unstable, data), replicates=4)
    assert 0 < played.num_diverged <= 4
    assert np.isnan(played.values).any()


def test_long_records_are_replayed_in_part():
    data = observed([500, 300, 20])
    part = beginning(data, 100, 10_000)
    assert np.diff(part.path_starts).tolist() == [100, 100, 20]
    np.testing.assert_array_equal(part.path(1)[1], data.path(1)[1][:100])
    assert beginning(data, 100, 120).num_paths == 2


def test_only_regular_observations_have_a_gap():
    assert replay(fimsde.result(OU, observed([50])), replicates=2).gap == pytest.approx(0.2)
    rng = np.random.default_rng(0)
    data = fimsde.read(rng.standard_normal(50), times=np.cumsum(rng.random(50)))
    assert replay(fimsde.result(OU, data), replicates=2).gap is None


def test_a_gap_is_counted_inside_paths_only():
    """The second path begins long after the first, or before its end: neither step is a gap."""
    for start in (100.0, -3.0):
        times = [np.arange(30) * 0.5, start + np.arange(20) * 0.5]
        data = fimsde.read([np.sin(t) for t in times], times=times)
        assert _gap(data) == pytest.approx(0.5)


def test_histograms_are_densities_and_shares_outside_count_every_component():
    data = fimsde.read(np.array([[0.1, 0.1], [0.2, 0.9], [0.6, 0.7], [0.4, 0.3]]), dt=1.0)
    values = np.array([[[0.1, 0.1], [0.9, 0.9], [3.0, 0.5], [np.nan, np.nan]]] * 2)
    none = np.zeros((1, 2))
    played = Replay(data, values, 1, 2, np.arange(1), 1.0, none, np.stack([none] * 2), 0.0)
    observed, simulated = played.histogram(0, np.array([0.0, 0.5, 1.0]))
    np.testing.assert_allclose(observed, [3 / 4 / 0.5, 1 / 4 / 0.5])
    np.testing.assert_allclose(simulated[0], [1 / 3 / 0.5, 1 / 3 / 0.5])  # a third of the known states is not in a bin
    assert played.outside(np.zeros(2), np.ones(2)) == pytest.approx(1 / 3)


def test_a_replay_needs_data_and_replicates():
    with pytest.raises(ConfigError, match="needs observations"):
        replay(fimsde.result(OU))
    with pytest.raises(ConfigError, match="at least 2"):
        replay(fimsde.result(OU, observed([50])), replicates=1)
