"""The signature kernel against its definition, explicit signatures, closed forms, and reference numbers."""

from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.metrics.signature import SignatureKernel, cross_gram, level_gram, self_gram
from fimsde.metrics.signature_kernels import _exp_minus
from memory import run_measured

RBF, LINEAR = SignatureKernel(), SignatureKernel(static="linear")
OFFSET = 1e7  # far from the origin, static products lose the digits that increments still have
ONE_BAD = np.array([0.0, np.nan, 0.0])[:, None, None] * np.ones((3, 5, 1))


def random_paths(num, length, dim, seed, step=0.5):
    return np.random.default_rng(seed).normal(scale=step, size=(num, length, dim)).cumsum(axis=1)


def levels(x, y, kernel=RBF, **options):
    return level_gram(x, y, [np.arange(len(y))] * len(x), kernel, **options)


def normalised(x, y, kernel=RBF):
    return cross_gram(x, y, self_gram(x, kernel).self_levels, self_gram(y, kernel).self_levels, kernel)


def second_differences(x, y, kernel):
    """M of the definition, from the static kernel of every two points."""
    if kernel.static == "linear":
        static = x @ y.T
    else:
        static = np.exp(-((x[:, None] - y[None]) ** 2).sum(axis=-1) / (2 * kernel.bandwidth**2))
    return np.diff(np.diff(static, axis=0), axis=1)


def levels_by_enumeration(x, y, kernel):
    """The definition: every pair of strictly increasing index tuples, one product each."""
    m = second_differences(x, y, kernel)
    rows, columns = range(m.shape[0]), range(m.shape[1])
    result = [1.0]
    for level in range(1, kernel.levels + 1):
        tuples = [(i, j) for i in combinations(rows, level) for j in combinations(columns, level)]
        result.append(sum(np.prod([m[a, b] for a, b in zip(i, j, strict=True)]) for i, j in tuples))
    return np.array(result)


def levels_by_dense_recursion(x, y, kernel):
    """The recursion with all arrays in memory, for paths too long to enumerate."""
    m = second_differences(x, y, kernel)
    r, result = m, [1.0]
    for _ in range(kernel.levels):
        result.append(r.sum())
        inclusive = r.cumsum(axis=0).cumsum(axis=1)
        r = m * np.pad(inclusive, ((1, 0), (1, 0)))[:-1, :-1]
    return np.array(result)


def explicit_signature(x, num_levels):
    """Iterated sums over increasing times of tensor products of increments, level by level, flattened."""
    dim = x.shape[1]
    sums = [np.ones(1)] + [np.zeros(dim**k) for k in range(1, num_levels + 1)]
    for increment in np.diff(x, axis=0):
        for k in range(num_levels, 0, -1):
            sums[k] = sums[k] + np.kron(sums[k - 1], increment)
    return sums


@pytest.mark.parametrize("kernel", [RBF, LINEAR, SignatureKernel(levels=3, bandwidth=0.4)], ids=str)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_levels_equal_the_sum_over_increasing_index_tuples(kernel, dim):
    x, y = random_paths(2, 7, dim, seed=dim), random_paths(3, 8, dim, seed=10 + dim)
    found = levels(x, y, kernel)
    assert found.shape == (2, 3, kernel.levels + 1)
    for i in range(2):
        for j in range(3):
            np.testing.assert_allclose(found[i, j], levels_by_enumeration(x[i], y[j], kernel), rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_linear_levels_equal_inner_products_of_explicit_signatures(dim):
    """Q5: d <= 3, level <= 5, to 1e-10 of the norms."""
    x, y = random_paths(3, 40, dim, seed=20 + dim) + OFFSET, random_paths(2, 30, dim, seed=30 + dim) + OFFSET
    found = levels(x, y, LINEAR)
    for i in range(3):
        for j in range(2):
            a, b = explicit_signature(x[i], 5), explicit_signature(y[j], 5)
            size = [sqrt((u @ u) * (v @ v)) for u, v in zip(a, b, strict=True)]
            expected = [u @ v for u, v in zip(a, b, strict=True)]
            np.testing.assert_allclose(found[i, j] / size, np.divide(expected, size), atol=1e-10)


def test_straight_lines_have_binomial_levels():
    """p equal increments v have the signature C(p, k) v^k, hence level k is C(p, k) C(q, k) (v·w)^k."""
    v, w, p, q = np.array([0.3, -0.2]), np.array([0.1, 0.4]), 9, 12
    x, y = np.arange(p + 1)[:, None] * v, np.arange(q + 1)[:, None] * w
    expected = [comb(p, k) * comb(q, k) * (v @ w) ** k for k in range(6)]
    np.testing.assert_allclose(levels(x[None], y[None], LINEAR)[0, 0], expected, rtol=1e-12)


def test_opposite_straight_lines_cancel():
    line = np.linspace(0.0, 1.0, 20)[None, :, None]
    same, opposite = normalised(line, 2 * line, LINEAR), normalised(line, -line, LINEAR)
    np.testing.assert_allclose(same, 1.0, rtol=1e-12)
    np.testing.assert_allclose(opposite, 0.0, atol=1e-12)  # (1 - 1 + 1 - 1 + 1 - 1) / 6


@pytest.mark.parametrize("lengths", [(2, 2), (2, 40), (33, 32), (34, 33), (70, 65), (31, 97)])
def test_tile_edges_do_not_show(lengths):
    x, y = random_paths(1, lengths[0], 2, seed=1, step=0.2), random_paths(17, lengths[1], 2, seed=2, step=0.2)
    found = levels(x, y)
    for j in range(17):
        np.testing.assert_allclose(found[0, j], levels_by_dense_recursion(x[0], y[j], RBF), rtol=1e-10, atol=1e-13)


def test_a_pair_does_not_depend_on_neighbours_or_threads():
    x, y = random_paths(5, 20, 2, seed=3), random_paths(37, 20, 2, seed=4)
    together = levels(x, y)
    for threads in (2, 7):
        assert np.array_equal(levels(x, y, threads=threads), together)
    for j in (0, 15, 16, 36):
        assert np.array_equal(levels(x[2:3], y[j : j + 1])[0, 0], together[2, j])


def test_memory_grows_with_the_length_and_not_with_its_square():
    """A path of 6000 points against itself: one array of all pairs of points would take 288 MB."""
    script = """
import numpy as np
from fimsde.metrics.signature import self_gram
path = lambda n: np.random.default_rng(0).normal(scale=0.1, size=(1, n, 1)).cumsum(axis=1)
self_gram(path(60))
before = peak()
self_gram(path(6000))
print(peak() - before)
"""
    assert float(run_measured(script)) < 50


@given(seed=st.integers(0, 1000), dim=st.integers(1, 3), static=st.sampled_from(["rbf", "linear"]))
def test_gram_is_symmetric_and_positive_semidefinite(seed, dim, static):
    kernel = SignatureKernel(static=static)
    x = random_paths(12, 15, dim, seed)
    np.testing.assert_allclose(levels(x, x, kernel), levels(x, x, kernel).swapaxes(0, 1), rtol=1e-9, atol=1e-12)
    gram = self_gram(x, kernel).gram
    assert np.array_equal(gram, gram.T)
    np.testing.assert_allclose(gram, normalised(x, x, kernel), atol=1e-12)
    np.testing.assert_allclose(np.diag(gram), 1.0, rtol=1e-12)
    assert np.linalg.eigvalsh(gram).min() > -1e-10


@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 100))
def test_bandwidth_is_in_the_units_of_the_paths(scale, seed):
    x, y = random_paths(2, 10, 2, seed), random_paths(2, 10, 2, seed + 1000)
    moved = normalised(scale * x, scale * y, SignatureKernel(bandwidth=scale))
    np.testing.assert_allclose(moved, normalised(x, y), atol=1e-9)


def test_paths_that_never_meet_share_only_level_zero():
    x = random_paths(2, 30, 2, seed=5)
    for distance in (50.0, 1e6, 1e200):
        np.testing.assert_allclose(normalised(x, random_paths(2, 30, 2, seed=6) + distance), 1 / 6, rtol=1e-12)


def test_a_path_that_stands_still_shares_only_level_zero():
    still = np.full((1, 10, 1), 3.0)
    np.testing.assert_allclose(self_gram(still).gram, 1 / 6, rtol=1e-15)


def test_self_kernels_are_floored():
    """Two points at distance d have the self-kernel 2 (1 - exp(-d²/2)) ≈ d² at level 1, and 0 above."""
    steps = np.array([1e-5, 1e-7])
    pair = np.stack([np.zeros(2), steps], axis=1)[:, :, None]  # (paths, 2, 1)
    expected = (1.0 + np.minimum(1.0, steps**2 / 1e-12)) / 6
    np.testing.assert_allclose(np.diag(self_gram(pair).gram), expected, atol=1e-5)


def test_compiled_exponential_is_accurate_to_rounding():
    z = np.concatenate([np.linspace(0.0, 79.9, 20011), np.geomspace(1e-300, 1.0, 1001), [0.0]])
    found = np.array([_exp_minus(v) for v in z])
    np.testing.assert_allclose(found, np.exp(-z), rtol=5e-16)
    assert _exp_minus(0.0) == 1.0
    assert 0.0 <= _exp_minus(1e300) < 1e-34


def golden_paths():
    """Paths from formulas, so that no random stream can change them."""
    t = np.linspace(0.0, 3.0, 25)
    waves = [np.stack([np.sin(a * t + 0.3 * a), np.cos(0.7 * a * t) + 0.1 * a], axis=-1) for a in (0.5, 1.0, 2.0)]
    return np.stack(waves)


def test_golden_values():
    """Our own numbers, from the day on which the kernel agreed with the authors' to 1e-13."""
    found = self_gram(golden_paths())
    expected_gram = [0.30245588733364, 0.25730859449648, 0.45169291477842]
    expected_levels = [
        1.0,
        0.7689547779118,
        0.189121769610458,
        0.0205641709855717,
        0.00118165731356548,
        3.993567146517e-05,
    ]
    np.testing.assert_allclose(found.gram[np.triu_indices(3, 1)], expected_gram, rtol=1e-11)
    np.testing.assert_allclose(found.self_levels[0], expected_levels, rtol=1e-11)


@pytest.fixture(scope="module")
def reference(shared):
    with np.load(shared / "fixtures" / "openfim" / "mmd_reference.npz") as arrays:
        return dict(arrays)


def test_raw_levels_equal_the_authors(reference):
    x, y = reference["d2_diff_x"][:4], reference["d2_diff_y"][:3]
    np.testing.assert_allclose(levels(x, y), np.moveaxis(reference["levels_raw_xy"], 0, -1), atol=1e-14)
    found = self_gram(x).self_levels
    np.testing.assert_allclose(found, np.moveaxis(reference["levels_raw_xdiag"], 0, -1), atol=1e-14)


@pytest.mark.parametrize("case", ["d1_same", "d1_diff", "d2_same", "d2_diff", "d3_same", "d3_diff", "price"])
def test_grams_equal_the_authors(reference, case):
    x, y = reference[f"{case}_x"], reference[f"{case}_y"]
    tolerance = 1e-7 if case == "price" else 1e-9  # the reference forms distances around 250 by cancellation
    np.testing.assert_allclose(self_gram(x).gram, reference[f"{case}_Kxx"], rtol=0, atol=tolerance)
    np.testing.assert_allclose(self_gram(y).gram, reference[f"{case}_Kyy"], rtol=0, atol=tolerance)
    np.testing.assert_allclose(normalised(y, x), reference[f"{case}_Kyx"], rtol=0, atol=tolerance)


def test_long_paths_equal_the_authors(reference):
    """A corner of the 100 x 500 x 2 case; the slow test of the discrepancy does all of it."""
    x, y = reference["big_x"][:6], reference["big_y"][:16]
    np.testing.assert_allclose(self_gram(x).gram, reference["big_Kxx"][:6, :6], rtol=0, atol=1e-9)
    np.testing.assert_allclose(normalised(y, x), reference["big_Kyx"][:16, :6], rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"levels": 0}, "levels is 0, but 1 to 5"),
        ({"levels": 6}, "levels is 6, but 1 to 5"),
        ({"bandwidth": 0.0}, "bandwidth is 0"),
        ({"bandwidth": float("inf")}, "bandwidth is inf"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ConfigError, match=message):
        SignatureKernel(**settings)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((2, 5, 1)), np.zeros((2, 5, 2)), "paths of 1 and of 2 components"),
        (np.zeros((2, 1, 1)), np.zeros((2, 5, 1)), "two times are needed"),
        (np.zeros((2, 5, 1)), np.zeros((0, 5, 1)), "at least one path"),
        (np.zeros((2, 5, 1)), ONE_BAD, "1 of 3 paths.*first is path 1.*count this run as failed"),
        (np.full((2, 5, 1), np.inf), np.zeros((2, 5, 1)), "2 of 2 paths hold NaN or infinite"),
    ],
)
def test_bad_paths_are_named(x, y, message):
    with pytest.raises(InvalidObservationsError, match=message):
        levels(x, y)


def test_threads_must_be_positive():
    with pytest.raises(ConfigError, match="threads is 0"):
        self_gram(np.zeros((2, 5, 1)), threads=0)
