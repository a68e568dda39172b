"""Random numbers of the compiled prior: right to the last bit that matters, and distributed as they claim."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from checks import check_cdf, check_frequencies, check_mean, check_variance
from fimsde.prior import noise_kernels as noise


def key(number):
    return np.uint64(noise.derive(np.uint64(99), number))


def draw_normals(number, size):
    normals = noise.new_normals()
    noise.restart(normals, key(number))
    out = np.empty(size, np.float32)
    noise.fill(normals.streams, out)
    return out.astype(float)


def next_word(s):
    """xoshiro128+ as published by Blackman and Vigna, on arrays of states; returns the output, moves the states."""
    with np.errstate(over="ignore"):
        word = s[0] + s[3]
    shifted = s[1] << np.uint32(9)
    s[2] ^= s[0]
    s[3] ^= s[1]
    s[1] ^= s[2]
    s[0] ^= s[3]
    s[2] ^= shifted
    s[3] = (s[3] << np.uint32(11)) | (s[3] >> np.uint32(21))
    return word


def test_normals_are_box_muller_on_xoshiro_up_to_rounding():
    """Against exact functions in float64. The radius is at most 6.7, so 5e-6 is a few float32 roundings."""
    normals = noise.new_normals()
    noise.restart(normals, key(0))
    states = normals.streams.copy()
    out = np.empty(200 * 2 * noise.STREAMS, np.float32)
    noise.fill(normals.streams, out)
    expected = []
    for _ in range(200):
        first, second = next_word(states), next_word(states)
        radius = np.sqrt(-2 * np.log(((first >> np.uint32(1)) + 0.5) / 2**31))
        angle = (second.view(np.int32) >> 8) * np.pi / 2**24
        sign = np.where(second & np.uint32(128), -1.0, 1.0)
        expected += [sign * radius * np.cos(angle), radius * np.sin(angle)]
    assert_allclose(out, np.concatenate(expected), rtol=0, atol=5e-6)
    assert np.array_equal(states, normals.streams)


def test_extreme_words_give_finite_normals():
    """Radius words 0 and 2**32 - 1 are the largest and smallest radius; neither may become NaN or infinite."""
    streams = np.zeros((4, noise.STREAMS), np.uint32)
    streams[0, :32], streams[0, 32:] = 0, 0xFFFFFFFF
    out = np.empty(2 * noise.STREAMS, np.float32)
    noise.fill(streams, out)
    assert np.isfinite(out).all()
    assert 6.5 < np.abs(out).max() < 6.7
    assert np.abs(out[32:64]).max() < 1e-3


def test_normals_are_standard_normal():
    """Four million draws; the band of the distribution function is 0.0014 wide. False alarms: 1e-6 per check."""
    z = draw_normals(1, 2**22)
    check_mean(z, 0.0, 1.0)
    check_variance(z, 1.0)
    check_cdf(z, stats.norm.cdf)
    tails = [np.sum(np.abs(z) > bound) for bound in (3.0, 4.0, 4.5)]
    for count, bound in zip(tails, (3.0, 4.0, 4.5), strict=True):
        low, high = stats.binom.interval(1 - 1e-6, len(z), 2 * stats.norm.sf(bound))
        assert low <= count <= high


def test_that_check_notices_a_standard_deviation_off_by_one_percent():
    with pytest.raises(AssertionError, match="bands"):
        check_cdf(1.01 * draw_normals(1, 2**22), stats.norm.cdf)


def independent(a, b):
    """Correlation of two independent samples is normal with variance 1/n; allowed 4.9 standard errors (1e-6)."""
    return abs(np.corrcoef(a, b)[0, 1]) * np.sqrt(len(a)) < 4.9


def test_normals_are_independent_of_their_neighbours_in_every_direction():
    """Sine and cosine of a pair, next in the stream, next stream, another key; values and squares."""
    z = draw_normals(2, 2**20)
    blocks = z.reshape(-1, 2, noise.STREAMS)  # (draws, cosine or sine, streams)
    pairs = [
        (blocks[:, 0], blocks[:, 1]),
        (blocks[:-1, 0], blocks[1:, 0]),
        (blocks[:-1, 1], blocks[1:, 0]),
        (blocks[..., :-1], blocks[..., 1:]),
        (z, draw_normals(3, 2**20)),
    ]
    for a, b in pairs:
        for power in (1, 2):
            assert independent(a.ravel() ** power, b.ravel() ** power)


def test_that_check_notices_a_correlation_of_one_percent():
    z = draw_normals(2, 2**20)
    assert not independent(z[:-1], z[1:] + 0.01 * z[:-1])


def test_nearby_keys_share_no_numbers():
    keys = np.array([noise.derive(np.uint64(seed), number) for seed in range(150) for number in range(150)], np.uint64)
    assert len(set(keys)) == len(keys)
    ones = (keys[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    standard_error = 0.5 / np.sqrt(len(keys))
    assert np.all(np.abs(ones.mean(axis=0) - 0.5) < 5.6 * standard_error)  # 64 bits, 1e-6 for all together


def test_integers_and_uniforms_are_uniform():
    counter = np.array([key(4)], np.uint64)
    for n in (1, 2, 3, 6, 10):
        draws = [noise.below(counter, n) for _ in range(20_000)]
        assert set(draws) == set(range(n))
        if n > 1:
            check_frequencies(np.bincount(draws), np.ones(n))
    check_cdf([noise.uniform(counter) for _ in range(50_000)], stats.uniform.cdf)


def test_every_ordered_choice_is_equally_likely():
    counter, chosen = np.array([key(5)], np.uint64), np.empty(4, np.int64)
    counts = np.zeros((4, 4))
    for _ in range(24_000):
        noise.choose(counter, 4, 2, chosen)
        counts[chosen[0], chosen[1]] += 1
    assert np.all(np.diag(counts) == 0)
    check_frequencies(counts[~np.eye(4, dtype=bool)], np.ones(12))


def test_taking_in_small_and_large_portions_gives_the_same_numbers_when_they_fit():
    a, b = noise.new_normals(), noise.new_normals()
    noise.restart(a, key(6))
    noise.restart(b, key(6))
    one_by_one = [a.buffer[noise.take(a, 1)] for _ in range(2 * noise.BUFFER)]
    at_once = []
    for _ in range(2):
        start = noise.take(b, noise.BUFFER)
        at_once += list(b.buffer[start : start + noise.BUFFER])
    assert one_by_one == at_once
