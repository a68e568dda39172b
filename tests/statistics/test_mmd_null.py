"""The discrepancy when the model is right: unbiased, negative half of the time, p-values with the promised level.

All on Ornstein-Uhlenbeck paths with wide starts, where paths from one start are far more alike than others: the case in
which matched pairs matter. Every trial has fresh paths, so trials are independent.
"""

import numpy as np
import pytest
from scipy import stats

from checks import check_cdf
from fimsde.equations.sde import FunctionSDE
from fimsde.metrics.mmd import mmd, signature_grams
from fimsde.metrics.signature import SignatureKernel
from fimsde.simulate import simulate

NUM_POINTS, GAP = 8, 0.1


def ou(level=0.0):
    return FunctionSDE(1, lambda x: level - x, lambda x: np.full_like(x, 0.5))


def draw_starts(num_trials, num_paths, seed):
    return np.random.default_rng(seed).normal(scale=1.5, size=(num_trials, num_paths, 1))


def paths_from(starts, seed, level=0.0):
    """One path from each start; (trials, paths, times, 1)."""
    values = simulate(ou(level), starts.reshape(-1, 1), np.arange(NUM_POINTS) * GAP, seed=seed).values
    return values.reshape(*starts.shape[:2], NUM_POINTS, 1)


def matched_trials(num_trials, num_paths, level=0.0):
    """Reference and model of each trial start in the same places."""
    starts = draw_starts(num_trials, num_paths, seed=1)
    return zip(paths_from(starts, seed=2), paths_from(starts, seed=3, level=level), strict=True)


def independent_trials(num_trials, num_paths, level=0.0):
    starts, others = draw_starts(num_trials, num_paths, seed=4), draw_starts(num_trials, num_paths, seed=5)
    return zip(paths_from(starts, seed=6), paths_from(others, seed=7, level=level), strict=True)


def consecutive_trials(num_trials, num_paths):
    """The paper's layout: the reference is one long path cut into pieces, the model starts where the pieces start."""
    starts = draw_starts(num_trials, 1, seed=8).reshape(-1, 1)
    times = np.arange(num_paths * NUM_POINTS) * GAP
    pieces = simulate(ou(), starts, times, seed=9).values.reshape(num_trials, num_paths, NUM_POINTS, 1)
    return zip(pieces, paths_from(pieces[:, :, 0], seed=10), strict=True)


def check_zero_mean(sample):
    """Q6: within 4 standard errors of 0 (false alarm 6e-5 with fresh seeds)."""
    z = np.mean(sample) / (np.std(sample, ddof=1) / np.sqrt(len(sample)))
    assert abs(z) < 4, f"mean {np.mean(sample):.4g} is {z:.1f} standard errors from 0"


def check_negative_half_of_the_time(sample):
    """The null law is skewed, its median a little below its mean of 0: between 40 and 75 % of 200 are negative."""
    assert 0.4 < np.mean(np.array(sample) < 0) < 0.75


def test_estimate_is_unbiased_for_independent_starts():
    found = [mmd(x, y, matched=False, num_permutations=1).value for x, y in independent_trials(200, 8)]
    check_zero_mean(found)
    check_negative_half_of_the_time(found)


def test_estimate_without_matched_pairs_is_unbiased_for_matched_starts_and_the_papers_is_not():
    """The second half is the negative control: the paper's value is 15 standard errors too low here."""
    found = [mmd(x, y, num_permutations=1) for x, y in matched_trials(200, 8)]
    check_zero_mean([f.unmatched for f in found])
    check_negative_half_of_the_time([f.unmatched for f in found])
    with pytest.raises(AssertionError, match="standard errors"):
        check_zero_mean([f.value for f in found])


def test_that_check_notices_the_diagonal():
    """Negative control: the biased estimate, with every path compared to itself, is never negative."""
    biased = []
    for x, y in independent_trials(200, 8):
        grams = signature_grams(x, y, kernel=SignatureKernel())
        biased.append(grams.xx.mean() + grams.yy.mean() - 2 * grams.xy.mean())
    assert min(biased) > 0
    with pytest.raises(AssertionError, match="standard errors"):
        check_zero_mean(biased)


def p_values(trials, matched=True):
    found = [mmd(x, y, matched=matched, num_permutations=99, seed=i).p_value for i, (x, y) in enumerate(trials)]
    return np.array(found)


def rejection_rate(trials, matched=True):
    return np.mean(p_values(trials, matched) <= 0.05)


def check_uniform(sample):
    """On 0.01, 0.02, ..., 1. False alarms below 1e-6; the steps of the law take 0.01 of the band."""
    check_cdf(sample, stats.uniform.cdf)


def test_p_values_of_the_swap_test_are_uniform_for_matched_starts():
    check_uniform(p_values(matched_trials(800, 8)))


def test_p_values_of_the_pooled_test_are_uniform_for_independent_starts():
    check_uniform(p_values(independent_trials(800, 8), matched=False))


def test_pooled_test_is_wrong_for_matched_starts():
    """Negative control, and the reason for the swap test: exchanging paths of different starts costs nearly all level.
    At 5 % the chance of at most 2 % in 500 trials is 3e-4."""
    found = p_values(matched_trials(500, 8), matched=False)
    assert np.mean(found <= 0.05) <= 0.02
    with pytest.raises(AssertionError, match="distribution function"):
        check_uniform(found)


NUM_TRIALS = 3000  # 5 ± 2 % are then 5.03 standard errors of the rate


def test_number_of_trials_makes_false_alarms_rare():
    assert stats.norm.sf(0.02 / np.sqrt(0.05 * 0.95 / NUM_TRIALS)) * 2 < 1e-6


@pytest.mark.slow
def test_swap_test_has_its_level_for_matched_starts():
    """Buys the tail: 5 ± 2 % rejected."""
    assert abs(rejection_rate(matched_trials(NUM_TRIALS, 8)) - 0.05) < 0.02


@pytest.mark.slow
def test_pooled_test_has_its_level_for_independent_starts():
    """Buys the tail: 5 ± 2 % rejected."""
    assert abs(rejection_rate(independent_trials(NUM_TRIALS, 8), matched=False) - 0.05) < 0.02


@pytest.mark.slow
def test_swap_test_keeps_its_level_on_pieces_of_one_long_path():
    """Ten seconds. Buys: the level in the paper's layout, where a piece ends where the next one starts. A swap breaks
    that chain, so the test is not exact; the chain touches n of n² pairs, and the level stays at 5 ± 2 %."""
    assert abs(rejection_rate(consecutive_trials(NUM_TRIALS, 8)) - 0.05) < 0.02


@pytest.mark.parametrize("trials", [matched_trials, independent_trials])
def test_power_against_a_moved_equilibrium(trials):
    """Equilibrium at 2 instead of 0 (2.7 standard deviations of a path's end), 16 paths: at least 90 % detected."""
    assert rejection_rate(trials(100, 16, level=2.0), matched=trials is matched_trials) >= 0.9
