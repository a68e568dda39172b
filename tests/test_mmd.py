"""The discrepancy of path sets: its formulas, its p-value, the cache of reference Grams, and its errors."""

import os
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from fimsde.errors import ConfigError, DatasetError, InvalidObservationsError, OutputError
from fimsde.metrics import gram_cache
from fimsde.metrics.gram_cache import cached_self_gram
from fimsde.metrics.mmd import MMD, Grams, mmd, mmd_from_grams, signature_grams
from fimsde.metrics.signature import SignatureKernel

PAPER = SignatureKernel()


def random_paths(num, seed, shift=0.0, length=12):
    steps = np.random.default_rng(seed).normal(shift, 0.4, size=(num, length, 2))
    return steps.cumsum(axis=1)


def random_grams(n, m, seed=0):
    """Gaussian kernel of random points: a Gram in no time."""
    z = np.random.default_rng(seed).normal(size=(n + m, 2))
    pooled = np.exp(-((z[:, None] - z[None]) ** 2).sum(axis=-1) / 2)
    return Grams(xx=pooled[:n, :n], yy=pooled[n:, n:], xy=pooled[:n, n:])


def off_diagonal_mean(gram):
    n = len(gram)
    return np.mean([gram[i, j] for i in range(n) for j in range(n) if i != j])


def test_estimates_follow_their_formulas():
    grams = random_grams(6, 6)
    found = mmd_from_grams(grams)
    inside = off_diagonal_mean(grams.xx) + off_diagonal_mean(grams.yy)
    assert found.value == pytest.approx(inside - 2 * grams.xy.mean(), abs=1e-14)
    assert found.unmatched == pytest.approx(inside - 2 * off_diagonal_mean(grams.xy), abs=1e-14)
    assert (found.num_reference, found.num_model) == (6, 6)


def test_independent_starts_have_no_pairs_to_leave_out():
    grams = random_grams(6, 9)
    found = mmd_from_grams(grams, matched=False)
    inside = off_diagonal_mean(grams.xx) + off_diagonal_mean(grams.yy)
    assert found.value == found.unmatched == pytest.approx(inside - 2 * grams.xy.mean(), abs=1e-14)
    assert (found.num_reference, found.num_model) == (6, 9)


def test_only_the_printed_number_is_clipped():
    negative = MMD(value=-0.01, unmatched=0.002, p_value=0.4, num_reference=5, num_model=5)
    assert negative.printed == 0.0
    assert negative.value == -0.01
    assert replace(negative, value=0.3).printed == 0.3


def test_paths_give_the_numbers_of_their_grams():
    x, y = random_paths(5, seed=1), random_paths(5, seed=2)
    assert mmd(x, y, seed=3) == mmd_from_grams(signature_grams(x, y, kernel=PAPER), seed=3)


def test_a_wrong_model_that_prints_zero_has_a_small_p_value():
    """The paper's number in a nutshell: straight lines, the model 30 % too steep, the same 40 starts."""
    starts, t = 0.1 * np.arange(40)[:, None, None], np.linspace(0.0, 1.0, 10)[None, :, None]
    found = mmd(starts + t, starts + 1.3 * t)
    assert found.value < -0.02
    assert found.printed == 0.0
    assert found.unmatched > 0.005
    assert found.p_value == 0.001


def test_order_does_not_matter():
    x, y = random_paths(7, seed=5), random_paths(7, seed=6, shift=0.1)
    order = np.random.default_rng(7).permutation(7)
    plain, joint = mmd(x, y), mmd(x[order], y[order])
    assert joint.value == pytest.approx(plain.value, abs=1e-13)
    assert joint.unmatched == pytest.approx(plain.unmatched, abs=1e-13)
    alone = mmd(x[order], y, matched=False)
    assert alone.value == pytest.approx(plain.value, abs=1e-13)


def exact_swap_p_value(grams):
    """All 2^n ways to swap, from the definition: swap the rows and columns of a pooled Gram, estimate again."""
    n = len(grams.xx)
    pooled = np.block([[grams.xx, grams.xy], [grams.xy.T, grams.yy]])
    found = []
    for swap in product([False, True], repeat=n):
        x = np.where(swap, np.arange(n) + n, np.arange(n))
        y = np.where(swap, np.arange(n), np.arange(n) + n)
        inside = off_diagonal_mean(pooled[np.ix_(x, x)]) + off_diagonal_mean(pooled[np.ix_(y, y)])
        found.append(inside - 2 * off_diagonal_mean(pooled[np.ix_(x, y)]))
    return np.mean(np.array(found) >= found[0] - 1e-12)


def test_matched_p_value_is_that_of_all_swaps_inside_pairs():
    """20 000 random swaps estimate the exact p-value of 2^6 swaps; false alarm below 1e-6 (5 standard errors)."""
    for seed in range(3):
        grams = random_grams(6, 6, seed)
        exact = exact_swap_p_value(grams)
        found = mmd_from_grams(grams, num_permutations=20_000, seed=seed).p_value
        assert abs(found - exact) < 5 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-4


def test_pooled_p_value_is_that_of_all_relabellings():
    """As above, for all 35 ways to call 3 of 7 paths the reference; self-kernels differ, so that they must stay out."""
    for seed in range(3):
        weights = np.random.default_rng(100 + seed).uniform(0.2, 3.0, size=7)
        plain = random_grams(3, 4, seed)
        pooled = np.block([[plain.xx, plain.xy], [plain.xy.T, plain.yy]]) * np.outer(weights, weights)
        found = []
        for x in combinations(range(7), 3):
            y = [i for i in range(7) if i not in x]
            inside = off_diagonal_mean(pooled[np.ix_(x, x)]) + off_diagonal_mean(pooled[np.ix_(y, y)])
            found.append(inside - 2 * pooled[np.ix_(x, y)].mean())
        exact = np.mean(np.array(found) >= found[0] - 1e-12)
        grams = Grams(xx=pooled[:3, :3], yy=pooled[3:, 3:], xy=pooled[:3, 3:])
        estimate = mmd_from_grams(grams, matched=False, num_permutations=20_000, seed=seed).p_value
        assert abs(estimate - exact) < 5 * np.sqrt(exact * (1 - exact) / 20_000) + 1e-4


def test_p_value_depends_on_the_seed_alone():
    grams = random_grams(8, 8)
    assert mmd_from_grams(grams, seed=1) == mmd_from_grams(grams, seed=1)
    assert len({mmd_from_grams(grams, seed=seed).p_value for seed in range(5)}) > 1


def test_equal_sets_have_p_value_one():
    x = random_paths(6, seed=8)
    assert mmd(x, x).p_value == 1.0  # every swap gives 0 up to rounding, and ties count against the finding


@pytest.mark.parametrize(
    ("grams", "options", "error", "message"),
    [
        (random_grams(4, 5), {}, InvalidObservationsError, "4 reference and 5 model paths.*matched=False"),
        (random_grams(1, 1), {}, InvalidObservationsError, "1 reference and 1 model paths: at least 2"),
        (random_grams(4, 1), {"matched": False}, InvalidObservationsError, "at least 2 of each"),
        (random_grams(4, 4), {"num_permutations": 0}, ConfigError, "num_permutations is 0"),
    ],
)
def test_impossible_comparisons_are_named(grams, options, error, message):
    with pytest.raises(error, match=message):
        mmd_from_grams(grams, **options)


def test_a_diverged_model_path_is_a_failed_run():
    x, y = random_paths(4, seed=9), random_paths(4, seed=10)
    y[2, 5:] = np.nan
    with pytest.raises(InvalidObservationsError, match=r"1 of 4 paths.*path 2.*count this run as failed"):
        mmd(x, y)


# ------------------------------------------------------------------------------------------------- cache


def test_cached_gram_is_the_computed_one_and_is_not_computed_again(tmp_path, monkeypatch):
    x, y = random_paths(5, seed=11), random_paths(5, seed=12)
    plain = mmd(x, y)
    assert mmd(x, y, cache=tmp_path / "new") == plain
    (file,) = (tmp_path / "new").iterdir()  # one file, nothing unfinished
    assert file.suffix == ".safetensors"
    monkeypatch.setattr(gram_cache, "self_gram", None)
    assert mmd(x, y, cache=tmp_path / "new") == plain


def test_no_cache_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mmd(random_paths(3, seed=13), random_paths(3, seed=14))
    assert not list(tmp_path.iterdir())


def test_other_paths_and_other_kernels_have_other_files(tmp_path):
    x = random_paths(3, seed=15)
    moved = x.copy()
    moved[0, 0, 0] = np.nextafter(moved[0, 0, 0], 1e9)
    kernels = [PAPER, SignatureKernel(levels=4), SignatureKernel(bandwidth=2.0), SignatureKernel(static="linear")]
    for kernel in kernels:
        cached_self_gram(x, kernel, tmp_path)
    cached_self_gram(moved, PAPER, tmp_path)
    cached_self_gram(x.reshape(3, 24, 1), PAPER, tmp_path)
    assert len(list(tmp_path.iterdir())) == 6


@pytest.mark.parametrize("damage", [lambda b: b[:-8], lambda b: b[:4], lambda b: b"", lambda b: b"\x80\x04pickle" + b])
def test_a_damaged_file_is_named_and_not_used(tmp_path, damage):
    x = random_paths(3, seed=16)
    cached_self_gram(x, PAPER, tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(DatasetError, match=f"{file.name}.*delete it"):
        cached_self_gram(x, PAPER, tmp_path)


def test_a_file_with_other_content_is_refused(tmp_path):
    x = random_paths(3, seed=17)
    cached_self_gram(x, PAPER, tmp_path)
    (file,) = tmp_path.iterdir()
    cached_self_gram(random_paths(4, seed=17), PAPER, tmp_path / "other")
    (other,) = (tmp_path / "other").iterdir()
    file.write_bytes(other.read_bytes())
    with pytest.raises(DatasetError, match="are expected"):
        cached_self_gram(x, PAPER, tmp_path)


def test_a_failed_write_leaves_no_file(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        cached_self_gram(random_paths(3, seed=18), PAPER, tmp_path)
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------- reference of the authors


@pytest.fixture(scope="module")
def reference(shared):
    with np.load(shared / "fixtures" / "openfim" / "mmd_reference.npz") as arrays:
        return dict(arrays)


@pytest.mark.parametrize("case", ["d1_same", "d1_diff", "d2_same", "d2_diff", "d3_same", "d3_diff", "price"])
def test_value_equals_the_authors(reference, case):
    found = mmd(reference[f"{case}_x"], reference[f"{case}_y"])
    assert found.value == pytest.approx(reference[f"{case}_mmd2"], abs=1e-7 if case == "price" else 1e-9)


@pytest.mark.slow
def test_value_equals_the_authors_on_the_full_size(reference):
    """20 s. Buys: 100 x 500 x 2, and that 30 % too much diffusion prints 0 while nothing here hides it."""
    found = mmd(reference["big_x"], reference["big_y"])
    assert found.value == pytest.approx(reference["big_mmd2"], abs=1e-9)
    assert found.printed == 0.0
    assert found.unmatched == pytest.approx(0.0007, abs=1e-4)
