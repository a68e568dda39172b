"""The filter of the evidence estimator: an exact Kalman filter for linear equations, and its order for others."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.linalg import expm
from scipy.stats import multivariate_normal

from checks import check_slope
from fimsde.bank.windows import Series
from fimsde.evidence import filter_kernels
from fimsde.evidence.basis import Basis
from fimsde.evidence.filter import REACH, Equation, predict
from linear_filter import kalman, linear_equation, linear_series, transition

PULL, RATE = np.array([[-1.5, 0.8], [-1.1, -0.4]]), np.array([0.6, 0.3])
NOISE = np.array([0.05, 0.02])


@pytest.mark.parametrize("irregular", [False, True], ids=["regular", "irregular"])
@pytest.mark.parametrize("dim", [1, 2])
@pytest.mark.parametrize("noisy", [False, True], ids=["exact", "noisy"])
def test_of_a_linear_equation_it_is_the_exact_kalman_filter(dim, noisy, irregular):
    """Matrix exponentials and Van Loan's integral, three paths; Runge-Kutta steps of 1e-8, tables of a line of 2e-6."""
    error = 2e-6 if dim == 1 else 1e-8
    pull, rate, noise = PULL[:dim, :dim], RATE[:dim], NOISE[:dim] * noisy
    series = linear_series(pull, rate, noise, lengths=(30, 2, 25), irregular=irregular)
    found = predict(series, linear_equation(pull, rate, noise))
    exact = kalman(series, pull, rate, noise)
    np.testing.assert_allclose(found.innovation, exact.innovation, atol=error)
    np.testing.assert_allclose(found.variance, exact.variance, rtol=10 * error)
    np.testing.assert_allclose(np.diagonal(found.gain, axis1=1, axis2=2), exact.gain, atol=10 * error)
    covariance = np.linalg.inv(np.swapaxes(found.whiten, 1, 2) @ found.whiten)
    np.testing.assert_allclose(np.diagonal(covariance, axis1=1, axis2=2), exact.variance, rtol=10 * error)
    np.testing.assert_allclose(found.loglik, exact.loglik, atol=max(1e-5, 50 * error))
    assert found.likelihood == pytest.approx(exact.loglik.sum(), abs=max(1e-4, 500 * error))
    np.testing.assert_array_equal(np.flatnonzero(found.begins), [0, 29, 30])
    wrong = kalman(series, pull, 1.01 * rate, noise)
    assert np.abs(found.variance / wrong.variance - 1).max() > 1e-3


def test_without_noise_it_is_the_transition_density():
    """log N(y'; e^{A h} y, ∫ e^{A s} G e^{A' s} ds), row by row."""
    none = np.zeros(2)
    series = linear_series(PULL, RATE, none, lengths=(40,), irregular=True)
    found = predict(series, linear_equation(PULL, RATE, none))
    for i, gap in enumerate(series.dtau[:-1]):
        whole, cov = transition(PULL, RATE, gap)
        exact = multivariate_normal(whole @ series.y[i], cov).logpdf(series.y[i + 1])
        assert found.loglik[i] == pytest.approx(exact, abs=1e-5)
    np.testing.assert_array_equal(found.gain, np.broadcast_to(np.eye(2), found.gain.shape))
    np.testing.assert_array_equal(found.places[0], series.y[:-1])


def test_the_likelihood_is_that_of_each_path_given_its_first_observation():
    """All observations of a path at once: x0 ~ N(y0, v), so that y1, y2, ... are jointly normal with known moments."""
    pull, rate, noise = PULL[:1, :1], RATE[:1], NOISE[:1]
    series = linear_series(pull, rate, noise, lengths=(12,), irregular=True)
    times = np.concatenate([[0.0], np.cumsum(series.dtau[:-1])])[1:]
    decay = np.exp(pull[0, 0] * times)
    shared = np.minimum.outer(times, times)
    cov = np.outer(decay, decay) * (noise[0] + rate[0] * (np.exp(-2 * pull[0, 0] * shared) - 1) / (-2 * pull[0, 0]))
    exact = multivariate_normal(decay * series.y[0, 0], cov + noise[0] * np.eye(len(times))).logpdf(series.y[1:, 0])
    assert predict(series, linear_equation(pull, rate, noise)).likelihood == pytest.approx(exact, abs=1e-6)


def test_noise_in_one_component_alone_is_allowed():
    noise = np.array([0.05, 0.0])
    series = linear_series(PULL, RATE, noise, lengths=(30,))
    found, exact = predict(series, linear_equation(PULL, RATE, noise)), kalman(series, PULL, RATE, noise)
    np.testing.assert_allclose(found.innovation, exact.innovation, atol=1e-8)
    np.testing.assert_allclose(found.loglik, exact.loglik, atol=1e-5)
    np.testing.assert_allclose(found.gain[:, 1], np.broadcast_to([0.0, 1.0], (29, 2)), atol=1e-12)


def test_the_order_of_paths_changes_nothing():
    parts = [linear_series(PULL, RATE, NOISE, lengths=(n,), seed=n) for n in (20, 30)]
    equation = linear_equation(PULL, RATE, NOISE)
    both = [joined(parts), joined(parts[::-1])]
    one, other = (predict(series, equation) for series in both)
    np.testing.assert_allclose(one.innovation[:19], other.innovation[29:], atol=1e-14)
    assert one.likelihood == pytest.approx(other.likelihood, rel=1e-13)


def joined(parts):
    starts = np.cumsum([0, *(len(part.y) for part in parts)])
    return Series(np.concatenate([p.y for p in parts]), np.concatenate([p.dtau for p in parts]), starts)


# ---- drifts that are not linear ------------------------------------------------------------------------------------


def flow(x, time):
    """The solution of x' = x - x³."""
    return x * np.exp(time) / np.sqrt(1 + x**2 * np.expm1(2 * time))


def cubic(rate, noise=0.0):
    """dx = (x - x³) dt + sqrt(rate) dW."""
    drift = np.array([[0.0], [1.0], [0.0], [-1.0]])
    floor = np.array([1e-12])
    return Equation(Basis(1, 3), drift, Basis(1, 0), np.array([[rate]]), floor, np.array([noise]))


def one_step(start, gap):
    return Series(np.array([[start], [start]]), np.array([gap, 0.0]), np.array([0, 2]))


def normal_filter(series, equation, steps):
    """What the kernel for several components finds with so many Runge-Kutta steps in a gap."""
    drift, rate = np.ascontiguousarray(equation.drift.T), np.ascontiguousarray(equation.rate.T)
    parts = equation.drift_basis.arrays, drift, equation.drift_basis.slopes(drift), equation.rate_basis.arrays, rate
    paths = series.y, series.dtau, series.path_starts
    return filter_kernels.filter_paths(*paths, *parts, equation.floor, equation.noise, REACH, steps, False)


def run(series, equation, steps):
    """Its innovations."""
    return normal_filter(series, equation, steps)[6]


def test_along_a_flow_without_noise_the_mean_is_the_solution():
    """x' = x - x³ has x(t) = x0 e^t / sqrt(1 + x0² (e^2t - 1)); Runge-Kutta of order four makes errors of order h^5."""
    gaps = np.array([0.1, 0.14, 0.2, 0.28])
    errors = [abs(0.4 - run(one_step(0.4, gap), cubic(1e-10), 1)[0, 0] - flow(0.4, gap)) for gap in gaps]
    check_slope(gaps, errors, 5.0, 0.3)


@pytest.mark.parametrize("rate", [1e-12, 1e-8, 1e-2])
def test_steps_are_as_many_as_the_noise_can_tell(rate):
    """Errors of the mean stay below a tenth of a standard deviation; one step is too few where there is no noise."""
    gap = 0.28
    found = predict(one_step(0.4, gap), cubic(rate))
    error = abs(
        found.places[2, 0, 0] - flow(0.4, gap) + 3 * 0.4 * rate * gap**2 / 2
    )  # noise bends the mean by f'' g / 2
    assert error < 0.1 * np.sqrt(found.variance[0, 0])
    alone = abs(0.4 - run(one_step(0.4, gap), cubic(rate), 1)[0, 0] - flow(0.4, gap))
    assert (alone > 0.1 * np.sqrt(found.variance[0, 0])) == (rate == 1e-12)


def moments(start, gap, rate, steps=40):
    """Mean and variance after a gap: densities on a fine grid, by half a step of flow, all noise, half a step of flow.

    The splitting is of second order, so that 40 steps are exact to 1e-5 here.
    """
    x, h = np.linspace(start - 3.0, start + 3.0, 1201), gap / steps

    def noise_around(place):
        return np.exp(-0.5 * (x[:, None] - place) ** 2 / (rate * h)) / np.sqrt(2 * np.pi * rate * h)

    density, kernel = noise_around(flow(start, h / 2))[:, 0], noise_around(flow(x, h)) * (x[1] - x[0])
    for _ in range(steps - 1):
        density = kernel @ density
    end, weights = flow(x, h / 2), density / density.sum()
    mean = weights @ end
    return mean, weights @ end**2 - mean**2


def test_a_normal_law_that_follows_the_path_gets_better_with_the_gap():
    """Errors of the mean are of order h² or more, those of the variance of order h², of which g h is the main part."""
    gaps, mean_errors, errors = np.array([0.05, 0.1, 0.2]), [], []
    for gap in gaps:
        mean, variance = moments(0.4, gap, 0.3)
        found = normal_filter(one_step(0.4, gap), cubic(0.3), 1)
        mean_errors.append(abs(found[0][2, 0, 0] - mean))
        errors.append(abs(found[4][0, 0] - variance))
    slopes = [np.polyfit(np.log(gaps), np.log(e), 1)[0] for e in (mean_errors, errors)]
    assert min(slopes) > 1.7, slopes
    assert mean_errors[1] < 2e-3
    assert errors[1] < 2e-3 < abs(0.3 * 0.1 - variance)


@pytest.mark.parametrize("gap", [0.05, 0.3, 1.0])
def test_on_a_line_mean_and_variance_of_a_bistable_drift_are_exact(gap):
    """Against densities on a fine grid; a normal law misses the variance of the longest gap by a tenth."""
    path = Series(np.array([[0.2], [-1.2], [1.2]]), np.array([gap, gap, 0.0]), np.array([0, 3]))
    mean, variance = moments(0.2, gap, 0.3, steps=200)
    found = predict(path, cubic(0.3))
    assert found.places[2, 0, 0] == pytest.approx(mean, abs=2e-4)
    assert found.variance[0, 0] == pytest.approx(variance, rel=2e-3)
    if gap == 1.0:
        normal = normal_filter(path, cubic(0.3), 16)
        assert abs(normal[4][0, 0] / variance - 1) > 0.05


def test_on_a_line_noise_widens_the_state_before_a_gap():
    """Mean and variance of the second observation given the first, y = x + e, integrated over e by a fine sum."""
    noise, gap = 0.04, 0.5
    path = Series(np.array([[0.2], [-1.2], [1.2]]), np.array([gap, gap, 0.0]), np.array([0, 3]))
    errors = np.linspace(-4, 4, 41) * np.sqrt(noise)
    weights = np.exp(-0.5 * errors**2 / noise) / np.exp(-0.5 * errors**2 / noise).sum()
    parts = np.array([moments(0.2 + e, gap, 0.3, steps=100) for e in errors])
    mean = weights @ parts[:, 0]
    variance = weights @ (parts[:, 1] + parts[:, 0] ** 2) - mean**2
    found = predict(path, cubic(0.3, noise))
    assert found.places[2, 0, 0] == pytest.approx(mean, abs=1e-3)
    assert found.variance[0, 0] == pytest.approx(variance + noise, rel=3e-3)


def test_an_euler_chain_is_taken_for_one():
    series = linear_series(PULL, RATE, np.zeros(2), lengths=(20,))
    equation = linear_equation(PULL, RATE, np.zeros(2))
    found = predict(series, equation, euler=True)
    gap = series.dtau[:-1, None]
    np.testing.assert_allclose(found.innovation, np.diff(series.y, axis=0) - gap * series.y[:-1] @ PULL.T, atol=1e-14)
    np.testing.assert_allclose(found.variance, gap * RATE, rtol=1e-14)


def test_g_is_nowhere_below_its_floor():
    equation = replace(cubic(-1.0), floor=np.array([0.25]))
    found = predict(one_step(0.4, 1e-3), equation)
    assert found.variance[0, 0] == pytest.approx(0.25e-3, rel=0.01)


def test_the_closed_form_of_the_tests_is_right():
    """Van Loan's block matrix against an integral, entry by entry."""
    _, cov = transition(PULL, RATE, 0.7)
    for a in range(2):
        for b in range(2):
            exact = quad(lambda s, a=a, b=b: (expm(PULL * s) @ np.diag(RATE) @ expm(PULL.T * s))[a, b], 0, 0.7)[0]
            assert cov[a, b] == pytest.approx(exact, rel=1e-9)
