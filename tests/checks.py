"""Statistical checks with a stated rate of false alarms. Each raises AssertionError with the size of the miss."""

import numpy as np
from beartype import BeartypeConf, beartype
from scipy import stats

# Run-time checks of the package's annotations (see conftest.py); an integer will do for a float, as in mypy.
check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))


def check_mean(sample, mean, variance, false_alarm=1e-6):
    """The sample of independent draws has the given mean, its variance being known."""
    sample = np.asarray(sample, float)
    z = (sample.mean() - mean) / np.sqrt(variance / len(sample))
    bound = stats.norm.isf(false_alarm / 2)
    assert abs(z) < bound, f"mean {sample.mean():.6g} is {z:.1f} standard errors from {mean:.6g} (allowed {bound:.1f})"


def check_variance(sample, variance, false_alarm=1e-6):
    """The sample of independent normal draws has the given variance (chi-square law)."""
    sample = np.asarray(sample, float)
    ratio = sample.var(ddof=1) / variance
    low, high = stats.chi2.interval(1 - false_alarm, len(sample) - 1) / np.float64(len(sample) - 1)
    error = (ratio - 1) / np.sqrt(2 / (len(sample) - 1))
    assert low < ratio < high, (
        f"variance ratio {ratio:.4f} is {error:.1f} standard errors from 1 (allowed {low:.4f}–{high:.4f})"
    )


def check_cdf(sample, cdf, false_alarm=1e-6):
    """The sample of independent draws has the given distribution function (Dvoretzky-Kiefer-Wolfowitz band)."""
    x = np.sort(np.asarray(sample, float))
    n = len(x)
    band = np.sqrt(np.log(2 / false_alarm) / (2 * n))
    exact = cdf(x)
    gap = max(np.max(np.arange(1, n + 1) / n - exact), np.max(exact - np.arange(n) / n))
    assert gap < band, f"distribution function is off by {gap:.4f}, band {band:.4f} ({gap / band:.1f} bands)"


def check_frequencies(counts, probabilities, false_alarm=1e-6):
    """The counts follow the given probabilities (chi-square test)."""
    counts, probabilities = np.asarray(counts, float), np.asarray(probabilities, float)
    expected = probabilities / probabilities.sum() * counts.sum()
    p = stats.chisquare(counts, expected).pvalue
    assert p > false_alarm, f"frequencies differ from theory, p = {p:.2e} (allowed {false_alarm:.0e})"


def slope_interval(x, y, confidence=0.999):
    """Slope of ln y against ln x with its confidence interval."""
    fit = stats.linregress(np.log(x), np.log(y))
    half = stats.t.isf((1 - confidence) / 2, len(x) - 2) * fit.stderr
    return fit.slope, fit.slope - half, fit.slope + half


def check_slope(x, y, slope, tolerance):
    """ln y against ln x has the given slope."""
    found, low, high = slope_interval(x, y)
    assert abs(found - slope) < tolerance, (
        f"slope {found:.3f} (interval {low:.3f} to {high:.3f}), expected {slope} ± {tolerance}"
    )


def check_slopes(slopes, expected, tolerance, false_alarm=1e-6):
    """Independent estimates of a slope: the t-interval of their mean lies within the tolerance of the expected one."""
    slopes = np.asarray(slopes, float)
    half = stats.t.isf(false_alarm / 2, len(slopes) - 1) * stats.sem(slopes)
    low, high = slopes.mean() - half, slopes.mean() + half
    assert expected - tolerance < low < high < expected + tolerance, (
        f"slope {slopes.mean():.3f}, interval {low:.3f} to {high:.3f}, expected {expected} ± {tolerance}"
    )


def check_same_observations(a, b):
    """Two Observations agree in every field, bit for bit."""
    for field in ("values", "times", "path_starts"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)
        assert getattr(a, field).dtype == getattr(b, field).dtype
    assert (a.names, a.time_unit) == (b.names, b.time_unit)
