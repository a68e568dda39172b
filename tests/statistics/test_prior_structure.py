"""G1: which degrees and monomials the sampler switches on, against exact enumeration and the authors' sampler."""

import json
from collections import Counter
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy import stats

from checks import check_cdf, check_frequencies
from fimsde.prior.config import PolynomialConfig
from fimsde.prior.polynomials import draw_polynomials, monomials

NUM_DRAWS = 20_000
DEGREES = {"drift": 3, "diffusion": 2}


def draw_present(part, dim, reading="authors", seed=0):
    """Presence of every monomial in every component that was drawn: (components, terms); and the coefficients."""
    drift, diffusion = draw_polynomials(PolynomialConfig(degrees_present=reading), dim, NUM_DRAWS, seed)
    coefficients = (drift if part == "drift" else diffusion).reshape(NUM_DRAWS * dim, -1)
    return coefficients != 0, coefficients


def degree_sets(present, dim, degree):
    lengths = np.array([len(m) for m in monomials(dim, degree)])
    by_degree = np.stack([present[:, lengths == k].any(axis=1) for k in range(degree + 1)], axis=1)
    return Counter(tuple(np.flatnonzero(row).tolist()) for row in by_degree)


def exact_degree_sets(degree, most):
    """Size uniform on 1..most, then every set of that size equally likely."""
    return {
        chosen: Fraction(1, most * comb(degree + 1, size))
        for size in range(1, most + 1)
        for chosen in combinations(range(degree + 1), size)
    }


@pytest.mark.parametrize("reading", ["authors", "paper"])
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("part", ["drift", "diffusion"])
def test_degree_sets_have_their_exact_frequencies(part, dim, reading):
    degree = DEGREES[part]
    exact = exact_degree_sets(degree, degree + 1 if reading == "authors" else degree)
    found = degree_sets(draw_present(part, dim, reading)[0], dim, degree)
    assert set(found) <= set(exact)
    check_frequencies([found[chosen] for chosen in exact], [float(p) for p in exact.values()])


def test_that_check_tells_the_two_readings_apart():
    exact = exact_degree_sets(3, 4)
    found = degree_sets(draw_present("drift", 2, "paper")[0], 2, 3)
    with pytest.raises(AssertionError, match="frequencies differ"):
        check_frequencies([found[chosen] for chosen in exact], [float(p) for p in exact.values()])


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("part", ["drift", "diffusion"])
def test_a_present_degree_has_each_number_and_each_set_of_monomials_equally_often(part, dim):
    """Given the degree: the number of monomials is uniform, and so is the set given its number."""
    present, _ = draw_present(part, dim)
    lengths = np.array([len(m) for m in monomials(dim, DEGREES[part])])
    for k in range(1, DEGREES[part] + 1):
        columns = present[:, lengths == k]
        columns = columns[columns.any(axis=1)]
        available = columns.shape[1]
        numbers = columns.sum(axis=1)
        check_frequencies(np.bincount(numbers, minlength=available + 1)[1:], np.ones(available))
        for number in range(1, available):
            counts = Counter(tuple(np.flatnonzero(row).tolist()) for row in columns[numbers == number])
            sets = list(combinations(range(available), number))
            check_frequencies([counts[chosen] for chosen in sets], np.ones(len(sets)))


@pytest.mark.parametrize("part", ["drift", "diffusion"])
def test_coefficients_are_standard_normal_and_do_not_depend_on_what_is_present(part):
    present, coefficients = draw_present(part, 3)
    check_cdf(coefficients[present], stats.norm.cdf)
    crowded = present.sum(axis=1) > np.median(present.sum(axis=1))
    check_cdf(coefficients[crowded][present[crowded]], stats.norm.cdf)
    check_cdf(coefficients[~crowded][present[~crowded]], stats.norm.cdf)


def test_components_are_independent_of_each_other():
    present = draw_present("drift", 3)[0].sum(axis=1).reshape(NUM_DRAWS, 3).astype(float)
    for a, b in combinations(range(3), 2):
        assert abs(np.corrcoef(present[:, a], present[:, b])[0, 1]) * np.sqrt(NUM_DRAWS) < 4.9  # false alarms: 1e-6


def check_same_law(ours, theirs, num_ours, num_theirs):
    """Two samples of categories have the same law (chi-square test of homogeneity, false alarms 1e-6)."""
    table = np.array([np.array(ours) * num_ours, np.array(theirs) * num_theirs])
    table = table[:, table.sum(axis=0) > 10]
    p = stats.chi2_contingency(table).pvalue if table.shape[1] > 1 else 1.0
    assert p > 1e-6, f"the histograms differ, p = {p:.1e}"


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("part", ["drift", "diffusion"])
def test_structure_is_that_of_the_authors_sampler(part, dim, shared):
    """Their 20 000 draws per dimension; histograms of degrees and monomials per component, and present degrees."""
    path = shared / "fixtures" / "openfim" / "prior_stats.json"
    theirs = json.loads(path.read_text())["structure_before_rejection"][f"dim{dim}_{part}"]
    present, _ = draw_present(part, dim, seed=1)
    lengths, size = np.array([len(m) for m in monomials(dim, DEGREES[part])]), len(present)
    degrees = np.stack([present[:, lengths == k].any(axis=1) for k in range(DEGREES[part] + 1)], axis=1)
    for counts, name in [(degrees.sum(axis=1), "degrees_present"), (present.sum(axis=1), "monomials")]:
        histogram = theirs[f"histogram_number_of_{name}"]
        ours = [np.mean(counts == int(number)) for number in histogram]
        check_same_law(ours, list(histogram.values()), size, theirs["components_sampled"])
    for k, share in theirs["probability_degree_present"].items():
        ours = degrees[:, int(k)].mean()
        check_same_law([ours, 1 - ours], [share, 1 - share], size, theirs["components_sampled"])


def test_about_one_in_eighteen_diffusions_is_zero_by_construction():
    """P(only the constant) = 1/3 * 1/3, and half of the constants are negative: 1/18, 5.6 % in the authors' draws."""
    present, coefficients = draw_present("diffusion", 2)
    zero = (present.sum(axis=1) == 1) & (coefficients[:, 0] < 0)
    check_frequencies([zero.sum(), (~zero).sum()], [1, 17])
