"""Distributions against scipy.stats."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import special, stats

from fimsde import distributions as own

RNG = np.random.default_rng(1_000_000)
X = np.concatenate([RNG.normal(0, 3, 40), [0.0, 8.0, -8.0, 30.0]])
P = np.array([1e-12, 0.01, 0.3, 0.5, 0.99])

PAIRS = {
    "normal density": (own.norm.pdf(X), stats.norm.pdf(X)),
    "normal log density": (own.norm.logpdf(X, 1.0, 2.5), stats.norm.logpdf(X, 1.0, 2.5)),
    "normal tail": (own.norm.sf(X), stats.norm.sf(X)),
    "normal quantile": (own.norm.ppf(P), stats.norm.ppf(P)),
    "normal upper quantile": (own.norm.isf(P), stats.norm.isf(P)),
    "chi-square": (own.chi2.sf(X, 3), stats.chi2.sf(X, 3)),
    "Student": (own.t.sf(X, 7), stats.t.sf(X, 7)),
    "Student log density": (own.t.logpdf(X, 4.5, 0.5, 2.0), stats.t.logpdf(X, 4.5, 0.5, 2.0)),
    "ratio of squares": (own.f.sf(np.abs(X), 4, 60), stats.f.sf(np.abs(X), 4, 60)),
    "binomial": ([own.binom.sf(k, 20, 0.3) for k in range(-1, 21)], stats.binom.sf(np.arange(-1, 21), 20, 0.3)),
    "non-central": (own.ncx2.ppf(P, 5, 2.3), stats.ncx2.ppf(P, 5, 2.3)),
    "ranks": (own.rankdata(np.round(X)), stats.rankdata(np.round(X))),
    "kurtosis": (own.kurtosis(X), stats.kurtosis(X)),
    "normality": (
        [own.normality(y) for y in (X, X**2)],
        [stats.normaltest(y).pvalue for y in (X, X**2)],
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_a_distribution_is_that_of_scipy(name):
    found, expected = PAIRS[name]
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-300)


def test_normality_of_few_numbers_is_unknown_and_of_eight_as_in_scipy():
    few = RNG.normal(size=8)
    assert np.isnan(own.normality(few[:7]))
    np.testing.assert_allclose(own.normality(few), stats.normaltest(few).pvalue, rtol=1e-10)


def test_an_estimate_with_its_checks_imports_neither_scipy_stats_nor_torch_nor_matplotlib():
    script = (
        "import sys, numpy as np, fimsde\n"
        "x = np.cumsum(np.random.default_rng(1000000).normal(size=300))\n"
        "print(fimsde.estimate(fimsde.read(x, times=np.arange(300.0))).check())\n"
        "print([m for m in ('torch', 'scipy.stats', 'matplotlib', 'sympy', 'pandas') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "[]"


def test_sums_of_exponentials_are_those_of_scipy_also_where_all_are_zero():
    logs = np.random.default_rng(0).normal(0, 300, (3, 4, 5))
    logs[0], logs[1, 2] = -np.inf, 700.0
    for axis in (None, 0, 2, (0, 1)):
        np.testing.assert_allclose(own.logsumexp(logs, axis), special.logsumexp(logs, axis), rtol=1e-13)
