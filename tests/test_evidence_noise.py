"""Whether there is measurement noise: evidence where it can be told, its expected size where it cannot."""

import numpy as np
import pytest
from scipy import stats

from checks import check_frequencies
from fimsde.data.observations import read
from fimsde.evidence.estimate import fit
from fimsde.evidence.information import VarianceInformation
from linear_filter import linear_series

THETA, RATE, SEEDS = 1.0, 2.0, range(24)  # a stationary variance of one
NOISE = 0.25
FALSE_ALARM = 1e-6


def estimates(noise_std, gap, num):
    """Of dx = -x dt + sqrt(2) dW, observed with noise, one for each seed."""
    found = []
    for seed in SEEDS:
        pull, noise = np.array([[-THETA]]), np.array([noise_std**2])
        series = linear_series(pull, np.array([RATE]), noise, lengths=(num,), gap=gap, seed=seed)
        found.append(fit(read(series.y, dt=gap)))
    return found


@pytest.fixture(scope="module")
def coarse():
    """Half a relaxation time apart: noise of a quarter of the spread is about one standard error of its variance."""
    return {noise: estimates(noise, 0.5, 300) for noise in (0.0, NOISE)}


def rates(found):
    return np.array([sde.diffusion(np.zeros((1, 1)))[0, 0] ** 2 / RATE for sde in found])


def test_noise_that_is_there_is_found_and_none_that_is_not_at_fine_gaps():
    """Noise of three times what a gap adds: always. None: its evidence is that of a normal number above its error."""
    noisy = [sde.noise_std[0] for sde in estimates(0.25, 0.01, 600)]
    np.testing.assert_allclose(noisy, 0.25, rtol=0.2)
    clean = np.array([sde.noise_std[0] > 0 for sde in estimates(0.0, 0.01, 600)])
    assert stats.binom.sf(clean.sum() - 1, len(SEEDS), 0.16) > FALSE_ALARM


def test_where_data_cannot_tell_noise_has_a_probability_and_not_its_full_size(coarse):
    undecided = [sde.inference.noise_probability for found in coarse.values() for sde in found]
    assert 0 < np.count_nonzero(np.array(undecided) < 1) < len(undecided)
    assert min(undecided) > 0.04


def test_expected_noise_is_nearer_to_the_truth_than_none(coarse):
    """Taken for motion, noise of variance v makes g larger by (1 + v) (1 + log(1 + v) / h): by 19 % here."""
    ignored = np.log((1 + NOISE**2) * (1 + np.log1p(NOISE**2) / (THETA * 0.5)))
    errors = {noise: np.log(rates(found)) for noise, found in coarse.items()}
    for error in errors.values():
        assert abs(error.mean()) < 0.6 * ignored
        assert 0.02 < error.std() < 2 * ignored  # a mean of 24 is known to a fifth of this
    with_none = errors[NOISE][[sde.noise_std[0] == 0 for sde in coarse[NOISE]]]
    assert with_none.mean() > 0.6 * ignored  # where none is believed in, g is too large


def test_draws_have_no_noise_as_often_as_there_is_none_and_more_diffusion_then(coarse):
    sde = next(s for s in coarse[NOISE] if 0.2 < s.inference.noise_probability < 0.8)
    drawn = sde.draws(4000, seed=1)
    absent = drawn.noise[:, 0] == 0
    there = sde.inference.noise_probability
    check_frequencies([(~absent).sum(), absent.sum()], [there, 1 - there])
    with pytest.raises(AssertionError, match="frequencies"):
        check_frequencies([absent.sum(), (~absent).sum()], [0.5 + there / 2, 0.5 - there / 2])
    diffusion = drawn.fields(np.zeros((1, 1)))[1][:, 0, 0]
    assert stats.ttest_ind(diffusion[absent], diffusion[~absent], alternative="greater").pvalue < FALSE_ALARM


def test_g_beside_known_noise_is_the_slice_of_the_joint_likelihood():
    """Q(g | v) differs from Q(g, v) by what does not depend on g; integrated over v it does not."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((2, 4, 6))
    told = VarianceInformation(root @ np.swapaxes(root, 1, 2), rng.standard_normal((2, 4)))
    noise = np.array([0.7, 1.3])
    slices, flat = told.given(noise), told.of_rate(noise)
    one, other = rng.standard_normal((2, 3, 2))
    change = told.change(np.vstack([one, noise]), np.vstack([other, noise]))
    assert slices.change(one, other) == pytest.approx(change, rel=1e-12)
    assert flat.change(one, other) != pytest.approx(change, rel=1e-3)
