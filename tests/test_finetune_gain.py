"""Is a held-out gain more than chance? False alarms, neighbours that are alike, a few enormous gains."""

import numpy as np
import pytest
from scipy.stats import binom, sem, t

from fimsde.train.finetune.gain import Gain, paired_gain

WINDOWS, RUNS, FALSE_ALARM = 400, 1500, 1e-6


def share_proven(differences, factor=2.0):
    """How often a gain is declared, over rows of differences."""
    ones = np.ones(WINDOWS, dtype=int)
    return sum(paired_gain(row, np.zeros(WINDOWS), ones).is_proven(factor) for row in differences)


def autocorrelated(rng, runs):
    """A first-order process with coefficient 0.8, and mean zero."""
    noise, rows = rng.standard_normal((runs, WINDOWS)), np.zeros((runs, WINDOWS))
    for k in range(1, WINDOWS):
        rows[:, k] = 0.8 * rows[:, k - 1] + noise[:, k]
    return 0.01 * rows


def test_without_a_gain_one_is_declared_as_often_as_students_t_allows():
    """Twenty stretches of independent differences: nineteen degrees of freedom. False alarms of this test: 1e-6."""
    expected = t.sf(2.0, 19)
    found = share_proven(0.01 * np.random.default_rng(0).standard_normal((RUNS, WINDOWS)))
    low, high = binom.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], RUNS, expected)
    assert low <= found <= high


def test_neighbours_that_are_alike_do_not_make_a_gain_certain():
    """Stretches of twenty windows hold what lasts for five: at most twice the false alarms of independent ones. The
    usual error of the mean, the negative control, declares a gain in a quarter of the runs (Z > 2 / 3)."""
    rows = autocorrelated(np.random.default_rng(1), RUNS)
    assert share_proven(rows) < binom.ppf(1 - FALSE_ALARM, RUNS, 2 * t.sf(2.0, 19))
    usual = rows.mean(axis=1) > 2 * rows.std(axis=1) / WINDOWS**0.5
    assert usual.sum() > binom.ppf(1 - FALSE_ALARM, RUNS, 0.15)


def test_a_gain_of_five_standard_errors_is_found():
    rows = 0.01 * (np.random.default_rng(2).standard_normal((200, WINDOWS)) + 5 / WINDOWS**0.5)
    assert share_proven(rows) > 180  # the power is 0.99


def test_the_error_is_that_of_the_mean():
    rng, ones = np.random.default_rng(3), np.ones(WINDOWS, dtype=int)
    rows = 0.01 * rng.standard_normal((300, WINDOWS))
    gains = [paired_gain(row, np.zeros(WINDOWS), ones) for row in rows]
    assert np.mean([g.error**2 for g in gains]) == pytest.approx(1e-4 / WINDOWS, rel=0.1)  # six standard errors
    assert gains[0].mean == pytest.approx(rows[0].mean())


def test_of_twenty_windows_it_is_the_textbooks_standard_error():
    values = 0.1 * np.random.default_rng(5).standard_normal(20)
    gain = paired_gain(values, np.zeros(20), np.ones(20, dtype=int))
    assert gain.error == pytest.approx(sem(values), rel=1e-12)


def test_windows_that_count_more_weigh_more():
    """A window of two observations is as good as two windows of one."""
    values = 0.01 * np.random.default_rng(4).standard_normal(WINDOWS)
    single = paired_gain(values, np.zeros(WINDOWS), np.ones(WINDOWS, dtype=int))
    pairs = paired_gain(values.reshape(-1, 2).sum(1), np.zeros(WINDOWS // 2), np.full(WINDOWS // 2, 2))
    assert pairs.mean == pytest.approx(single.mean)
    assert pairs.error == pytest.approx(single.error)


def test_a_few_enormous_gains_prove_nothing_against_the_others_but_do_not_hide_them():
    """Under a density that is almost zero, losses vary over orders of magnitude: their spread exceeds their mean."""
    before, ones = np.exp(4 * np.random.default_rng(5).standard_normal(WINDOWS)), np.ones(WINDOWS, dtype=int)
    assert before.mean() < 2 * before.std() / 20**0.5  # the negative control: unbounded, it would be no gain
    assert paired_gain(before, np.zeros(WINDOWS), ones).is_proven(5.0)
    spoiled = np.where(np.arange(WINDOWS) % 100 == 0, before, -0.1)
    assert not paired_gain(spoiled, np.zeros(WINDOWS), ones).is_proven(0.0)


def test_what_is_not_finite_afterwards_is_no_gain_and_before_is_one():
    zeros, ones = np.zeros(WINDOWS), np.ones(WINDOWS, dtype=int)
    for bad in (np.nan, np.inf):
        assert paired_gain(np.full(WINDOWS, bad), zeros, ones) == Gain(1.0, 0.0)
        spoiled = np.where(np.arange(WINDOWS) == 7, bad, -5.0)
        assert not paired_gain(zeros, spoiled, ones).is_proven(0.0)


def test_a_single_window_proves_nothing():
    gain = paired_gain(np.array([0.5]), np.zeros(1), np.ones(1, dtype=int))
    assert gain == Gain(0.5, np.inf)
    assert not gain.is_proven(0.0)
