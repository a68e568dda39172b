"""Fits of the weak form from their definitions: windows by hand, noise allowed for, posteriors written out."""

from dataclasses import replace

import numpy as np
import pytest

from fimsde.bank import fit, monomials, windows
from fimsde.bank.diffusion_regression import diffusion_posterior, regress_diffusion
from fimsde.bank.drift_regression import fit_drift
from fimsde.bank.residuals import residual_windows, without_noise
from fimsde.bank.scales import BlockNoise, Scales, block_lengths, measure_noise
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions

LENGTHS = (40, 25, 31)


def plane_series(noise_std=0.05, seed=0):
    """Three noisy paths in the plane on irregular times."""
    rng = np.random.default_rng(seed)
    paths, times = [], []
    for n in LENGTHS:
        x = [rng.standard_normal(2)]
        for step in 0.25 * rng.standard_normal((n - 1, 2)):
            x.append(0.9 * x[-1] + step)
        paths.append(np.array(x) + noise_std * rng.standard_normal((n, 2)))
        times.append(np.cumsum(rng.uniform(0.02, 0.06, n)))
    return windows.to_series(to_transitions(read(paths, times=times))), paths, times


def powers(x, degree):
    """Monomials at x and their derivatives by each component, from the exponents alone."""
    e = monomials.exponents(x.shape[1], degree)
    values = np.prod(x[:, None, :] ** e, axis=2)
    slopes = []
    for j in range(x.shape[1]):
        lower = np.maximum(e - np.eye(x.shape[1], dtype=int)[j], 0)
        slopes.append(e[:, j] * np.prod(x[:, None, :] ** lower, axis=2))
    return values, np.array(slopes)  # (points, terms), (dim, points, terms)


def test_the_series_holds_every_observation_and_the_gap_after_it():
    series, paths, times = plane_series()
    np.testing.assert_allclose(series.y, np.concatenate(paths), atol=1e-12)
    np.testing.assert_allclose(series.dtau, np.concatenate([np.append(np.diff(t), 0.0) for t in times]), atol=1e-12)
    np.testing.assert_array_equal(series.path_starts, np.cumsum([0, *LENGTHS]))


@pytest.mark.parametrize("m", [1, 3])
def test_windows_are_neighbours_inside_a_path_only(m):
    series, _, _ = plane_series()
    (steps,) = windows.step_windows(series)
    ends = np.cumsum([n - 1 for n in LENGTHS]) - 1
    assert np.array_equal(np.flatnonzero(~steps.joined), ends)
    (hats,) = windows.hat_windows(series, m, np.zeros(2))
    number = [(n - 3 * m - 1) // m + 1 for n in LENGTHS]
    assert np.array_equal(np.flatnonzero(~hats.joined), np.cumsum(number) - 1)


def test_integrals_of_squares_are_freed_of_the_noise():
    """E[x²] = u² + v at every observation, so v times the length of the window is taken away, and from x³ 3 v ∫x."""
    series, _, _ = plane_series()
    v = np.array([0.3, 0.07])
    (plain,), (freed,) = windows.hat_windows(series, 2, np.zeros(2)), windows.hat_windows(series, 2, v)
    exponents = [tuple(e) for e in monomials.exponents(2, 3)]
    for j, (square, cube) in enumerate((((2, 0), (3, 0)), ((0, 2), (0, 3)))):
        s, c = exponents.index(square), exponents.index(cube)
        np.testing.assert_allclose(plain.integral[:, s] - freed.integral[:, s], v[j] * plain.length, rtol=1e-9)
        linear = 3 * v[j] * plain.integral[:, 1 + j]
        np.testing.assert_allclose(plain.integral[:, c] - freed.integral[:, c], linear, rtol=1e-9, atol=1e-12)


def test_scales_of_a_ramp_are_known():
    """x = t moves lag² gap² in the square: half a variance at lag 8, a quarter at lag 4."""
    t = np.arange(200) * 0.15
    _, scales = fit.fit_step(windows.Series(t[:, None], np.append(np.diff(t), 0.0), np.array([0, 200])))
    assert scales.speed[0] == pytest.approx(1 / (8 * 0.15))
    assert scales.reach[0] == 4


def test_block_lengths_balance_noise_and_diffusion():
    """m = sqrt(3 v / g h) with the geometric mean h of the gaps, a third more, rounded up from 0.3 above."""
    gaps = np.tile([0.01, 0.04], 500)
    series = windows.Series(np.zeros((1001, 3)), np.append(gaps, 0.0), np.array([0, 1001]))
    v, g = np.array([0.5, 0.02, 0.5]), np.array([0.6, 1.0, 0.6])
    scales = Scales(np.ones(3), np.array([100, 100, 12]), g, v, v, coarse=False)
    ideal = np.sqrt(3 * v / (g * 0.02))
    expected = np.ceil(1.3 * ideal - 0.3)
    assert expected[0] == 15
    np.testing.assert_array_equal(block_lengths(scales, series), [15, expected[1], 3])


def chunks(series, m, noise_var):
    """All windows in one chunk, as fits take them."""
    (chunk,) = windows.hat_windows(series, m, noise_var)
    return chunk, lambda: iter((chunk,))


def moments_by_definition(c, r, m):
    """r_j² + r_j (r_{j-1} + r_{j+1}) with both neighbours on the same path, else NaN; squares of single steps."""
    if m == 1:
        return r * r
    q = np.full_like(r, np.nan)
    for j in range(1, len(r) - 1):
        if c.joined[j - 1] and c.joined[j]:
            q[j] = r[j] * (r[j - 1] + r[j] + r[j + 1])
    return q


def test_moments_free_of_noise_use_both_neighbours_of_the_same_path():
    series, _, _ = plane_series()
    c, _ = chunks(series, 2, np.zeros(2))
    found = without_noise(c.increment, c.joined)
    np.testing.assert_allclose(found, moments_by_definition(c, c.increment, 2), rtol=1e-12)


def test_products_of_neighbouring_residuals_give_the_noise_and_squares_the_rest():
    """E[r_i r_{i+1}] = -v and E[r²] = g h + 2 v; the error of v is that of a mean of products."""
    series, _, _ = plane_series(noise_std=0.3)
    (c,) = windows.step_windows(series)
    rate, noise_var, error = measure_noise(lambda: iter((c,)), np.zeros((2, 10)), np.ones(2) * 1e-9, coarse=False)
    pairs = np.array([c.increment[i] * c.increment[i + 1] for i in np.flatnonzero(c.joined)])
    np.testing.assert_allclose(noise_var, -pairs.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(error, np.sqrt((pairs**2).mean(axis=0) / len(pairs)), rtol=1e-12)
    left = (c.increment**2).sum(axis=0) - 2 * noise_var * len(c.increment)
    np.testing.assert_allclose(rate, left / c.length.sum(), rtol=1e-12)
    assert (noise_var > 0.05).all()


QUADRATIC = np.array([[0.5, 0.1, 0.0, 0.2, -0.3, 0.1], [0.4, 0.0, -0.5, 0.1, 0.0, 0.3]])  # negative in some places
RATE, SPEED = np.array([0.8, 0.5]), np.array([0.02, 0.03])  # slow, so that the prior can be seen
VAR, ERROR = np.array([0.04, 0.01]), np.array([0.02, 0.015])


def local_rate(places):
    """g where it is positive, and a tenth of the mean rate everywhere."""
    return np.maximum(powers(places, 2)[0] @ QUADRATIC.T, 0.0) + 0.1 * RATE


def posterior(cross, right, noise, width):
    """Of b given cross b = right + noise and a normal prior."""
    inverse = np.linalg.inv(noise)
    precision = cross.T @ inverse @ cross + np.eye(len(right)) / width**2
    return np.linalg.solve(precision, cross.T @ inverse @ right), precision


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("noisy", [False, True])
def test_the_drift_is_the_instrumental_regression_of_the_weak_form(m, noisy):
    """The first observation is in the instrument with its slope over m, in the increment with -1/m, and in the integral
    with gap / 2m times the slopes: the products of its noise with itself are taken out (Stein's lemma)."""
    series, _, _ = plane_series()
    c, held = chunks(series, m, VAR)
    found = fit_drift(held, RATE, SPEED, QUADRATIC, BlockNoise(VAR, ERROR, m) if noisy else None)
    z, slopes = powers(c.instrument[:, 1:3], 3)
    v, error = (VAR, ERROR) if noisy else (0 * VAR, 0 * ERROR)
    for d in range(2):
        w = 1 / local_rate(c.before)[:, d]
        known = (w @ slopes[d]) / m**2
        cross = np.einsum("i,ik,iq->kq", w, z, c.integral)
        for j in range(2):
            cross -= v[j] / m * np.einsum("i,ik,iq->kq", w * (c.length / m) / (2 * m), slopes[j], slopes[j])
        right = w @ (z * c.increment[:, d, None]) + v[d] * known
        spread = np.einsum("i,ik,iq->kq", w * c.length, z, z) + error[d] ** 2 * np.outer(known, known)
        mean, precision = posterior(cross, right, spread, 10 * SPEED[d])
        np.testing.assert_allclose(found.precision[d], precision, rtol=1e-6, atol=1e-8 * np.abs(precision).max())
        np.testing.assert_allclose(found.mean[d], mean, rtol=1e-6, atol=1e-7 * np.abs(mean).max())


def test_without_a_field_for_g_all_windows_have_the_same_weight():
    series, _, _ = plane_series()
    _, held = chunks(series, 2, VAR)
    constant = np.zeros((2, 6))
    constant[:, 0] = 0.9 * RATE  # and a tenth on top
    for noise in (None, BlockNoise(VAR, ERROR, 2)):
        plain, weighted = (fit_drift(held, RATE, SPEED, g, noise) for g in (None, constant))
        np.testing.assert_allclose(plain.mean, weighted.mean, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(plain.precision, weighted.precision, rtol=1e-8)


@pytest.mark.parametrize("m", [1, 2])
def test_the_diffusion_is_the_instrumental_regression_of_the_moments(m):
    """Moments are freed of the noise in the increments (2 v of single steps, neighbours do it for longer windows) and
    of that inside the integrated drift; they weigh 1 / (T s²) with the variance s per unit of time, noise included."""
    series, _, _ = plane_series()
    c, held = chunks(series, m, VAR)
    drift = np.random.default_rng(5).standard_normal((2, 10))
    found = regress_diffusion(held, RATE, drift, QUADRATIC, BlockNoise(VAR, ERROR, m))
    rate_width = RATE * 0.05
    post = diffusion_posterior(found, rate_width, BlockNoise(VAR, ERROR, m))
    z, slopes = powers(c.instrument[:, 1:3], 3)
    length = c.length[:, None]
    r = c.increment - c.integral @ drift.T
    through = sum(VAR[j] * (slopes[j] @ drift.T) ** 2 for j in range(2)) * length**2
    q = moments_by_definition(c, r, m) - through / m - (2 * VAR if m == 1 else 0.0)
    spread = local_rate(c.before) + 2 * VAR / m / length
    good = np.isfinite(q).all(axis=1)
    for d in range(2):
        w = np.where(good, 1 / (c.length * spread[:, d] ** 2), 0.0)
        q_d, features, own = np.where(good, q[:, d], 0.0), c.integral[:, :6], z[:, :6]
        cross, right = np.einsum("i,ik,iq->kq", w, own, features), (w * q_d) @ own
        mean = np.linalg.solve(cross, right)
        np.testing.assert_allclose(found.mean[d], mean, rtol=1e-5, atol=1e-6 * np.abs(mean).max())
        score, least = w * (q_d - features @ mean), np.where(good, 1e-3 / spread[:, d], 0.0)
        run = np.append(0, np.cumsum(~c.joined[:-1]))
        near = (np.abs(np.subtract.outer(np.arange(len(w)), np.arange(len(w)))) <= 2) & (run[:, None] == run)
        scatter = own.T @ (near * np.outer(score, score) + np.diag(least**2)) @ own
        values, vectors = np.linalg.eigh(scatter)
        scatter = vectors * np.maximum(values, 1e-6 * values[-1]) @ vectors.T
        unsure = 2 * ERROR[d] * (w @ own) if m == 1 else np.zeros(6)
        mean, precision = posterior(cross, right, scatter + np.outer(unsure, unsure), 10 * rate_width[d])
        np.testing.assert_allclose(post.precision[d], precision, rtol=1e-4, atol=1e-5 * np.abs(precision).max())
        np.testing.assert_allclose(post.mean[d], mean, rtol=1e-4, atol=1e-4 * np.abs(mean).max())


def test_the_drift_is_fitted_once_more_with_the_weights_that_the_diffusion_gives():
    series, _, _ = plane_series(noise_std=0.0)
    step, scales = fit.fit_step(series)
    (c,) = windows.step_windows(series)
    rough = (c.increment**2).mean(axis=0) / c.length.mean()
    first = fit_drift(lambda: iter((c,)), rough, scales.speed, None, None)
    g = regress_diffusion(lambda: iter((c,)), rough, first.mean, None, None).mean
    again = fit_drift(lambda: iter((c,)), rough, scales.speed, g, None)
    np.testing.assert_allclose(step.drift.mean, again.mean, rtol=1e-9, atol=1e-12)
    assert np.abs(first.mean - again.mean).max() > 1e-3


def test_residuals_are_taken_over_blocks_of_the_median_length_and_stand_where_the_window_begins():
    series, _, _ = plane_series()
    step, scales = fit.fit_step(series)
    gap = np.exp(np.mean(np.log(series.dtau[series.dtau > 0])))
    v = scales.diffusion_rate * gap * np.array([0.02, 12.0])  # one component is clean, one noisy
    scales = replace(scales, noise_var=v, reach=np.array([100, 100]))
    lengths = block_lengths(scales, series)
    assert lengths.tolist() == [1, 8]
    left = residual_windows(series, scales, step, noisy=True)
    (c,) = windows.hat_windows(series, 4, v)
    r = c.increment - c.integral @ step.drift.mean.T
    q = moments_by_definition(c, r, 4)
    g = np.maximum(powers(c.centre, 2)[0] @ step.diffusion_sq.mean.T, 0.0) * c.length[:, None]
    np.testing.assert_allclose(left.residual, r, rtol=1e-12)
    np.testing.assert_allclose(left.place, c.before, rtol=1e-12)
    np.testing.assert_allclose(left.variation, np.nan_to_num(q), rtol=1e-12)
    np.testing.assert_allclose(left.expected, np.where(np.isfinite(q), g, 0.0), rtol=1e-12)
