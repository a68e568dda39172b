"""Levels of g that measurement noise hides: their law, the estimate, and the drift beside them."""

from dataclasses import replace

import numpy as np
import pytest

import fimsde
from fimsde.analysis.band import posterior_band
from fimsde.evidence import ensemble
from fimsde.evidence.doubts import strain_of
from fimsde.evidence.filter import Predictions
from fimsde.evidence.infer import ODDS_OF_NOISE
from fimsde.evidence.levels import Levels
from fimsde.evidence.noise_draws import _RATIOS, draw_noise
from fimsde.evidence.spread import PLAIN

RATE, GAP, NUM, NOISE = 0.02, 0.05, 600, 0.3


def hidden(seed):
    """dx = -x dt + sqrt(0.02) dW from 2, seen through noise of 0.3: q = 0.011, and the information of log g is 8."""
    rng = np.random.default_rng(seed)
    keep, x = np.exp(-GAP), np.empty((6, NUM // 6))
    x[:, 0] = rng.uniform(-2, 2, 6)
    for i in range(1, x.shape[1]):
        x[:, i] = keep * x[:, i - 1] + np.sqrt(RATE * (1 - keep**2) / 2) * rng.standard_normal(6)
    return fimsde.read(list((x + NOISE * rng.standard_normal(x.shape))[..., None]), dt=GAP)


def test_intervals_hold_a_hidden_diffusion_and_are_no_share_of_a_vanishing_estimate(monkeypatch):
    """30 data sets, 90 %: at least 22 (the chance of fewer is 5e-3, at fixed seeds); ends differ by a factor of two."""
    monkeypatch.setattr(ensemble, "spread_of", lambda inference, doubts: PLAIN)
    inside, widths, found = 0, [], 0
    for seed in range(30):
        result = fimsde.fit(hidden(seed), "evidence")
        found += any(law is not None for law in result.sde.doubts.levels)
        band = result.band(np.zeros((1, 1)))
        inside += bool(band.diffusion_low[0, 0] <= RATE**0.5 <= band.diffusion_high[0, 0])
        widths.append(band.diffusion_high[0, 0])
        assert band.diffusion_low[0, 0] <= result.diffusion(np.zeros((1, 1)))[0, 0] <= band.diffusion_high[0, 0]
    assert found >= 25
    assert inside >= 22
    assert np.median(widths) < 4 * RATE**0.5  # not just anything


def test_draws_of_a_level_have_its_law_and_the_noise_beside_it():
    logs = np.linspace(-3.0, 1.0, 401)
    law = Levels(logs, (logs + 3.0) / 4.0, 5.0 - logs, np.ones(1))
    assert law.median == pytest.approx(np.exp(-1.0))
    drawn = law.draw(np.array([0.25, 0.5, 0.75]), 1.0)
    np.testing.assert_allclose(np.log(drawn), [-2.0, -1.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(np.log(law.draw(np.array([0.25]), 2.0)), -3.0, atol=1e-9)
    np.testing.assert_allclose(law.noise_beside(drawn), [7.0, 6.0, 5.0], atol=1e-9)


def test_a_drift_does_not_take_from_g_beside_noise():
    """Mean of log(g / truth) over 30 data sets: its standard error is a seventh. A g 40 % too small is noticed."""
    ratios = []
    for seed in range(30, 60):
        rng = np.random.default_rng(seed)
        x, y = rng.uniform(-1, 1, 4), []
        keep = np.exp(-0.1)
        for _ in range(250):
            y.append(x + 0.5 * rng.standard_normal(4))
            x = keep * x + np.sqrt(0.5 * (1 - keep**2) / 2) * rng.standard_normal(4)
        result = fimsde.fit(fimsde.read(list(np.array(y).T[..., None]), dt=0.1), "evidence")
        ratios.append(float(np.log(result.diffusion(np.zeros((1, 1)))[0, 0] ** 2 / 0.5)))
    error = np.std(ratios) / np.sqrt(len(ratios))
    assert abs(np.mean(ratios)) < 3 * error
    assert error < 0.16  # log(0.6) = -0.51 would be noticed


def test_draws_of_levels_that_are_not_hidden_keep_their_shape_and_take_the_level():
    logs = np.linspace(-1.0, 1.0, 201)
    law = Levels(logs, (logs + 1.0) / 2.0, np.ones(201), np.array([1.0, 0.5]), is_hidden=False)
    mean = np.array([1.0, 2.0])  # its level is two
    drawn = np.array([[1.5, 2.0], [1.0, 1.0]])  # 2.5 and 1.5
    ensemble._set_level(drawn, mean, law, np.array([0.1, -0.2]))
    np.testing.assert_allclose(drawn @ law.features, [2.2, 1.6])
    np.testing.assert_allclose(drawn[0] - drawn[0] @ law.features / 2 * mean, [0.25, -0.5])


def test_strain_is_small_for_a_right_equation_and_grows_with_what_is_wrong():
    """White numbers: fourth moments have long tails, six standard errors are enough. Twice S: 0.5 sqrt(n / 2)."""
    rng = np.random.default_rng(0)

    def strain(white, variance=1.0):
        rows = len(white)
        blank, square = np.zeros((3, rows, 1)), np.zeros((rows, 1, 1))
        parts = (blank, blank, blank[:2, :, :, None], square, np.full((rows, 1), variance), square, white)
        return strain_of(Predictions(*parts, np.arange(rows) == 0, np.ones(rows), np.zeros(rows)))

    assert max(strain(rng.standard_normal((1000, 1))) for _ in range(200)) < 6.0
    assert strain(rng.standard_normal((1000, 1)), 2.0) > 8.0
    assert strain(rng.standard_t(3, (1000, 1))) > 8.0
    walk = rng.standard_normal((1001, 1))
    assert strain((walk[1:] + walk[:-1]) / 2**0.5) > 8.0


def test_levels_are_kept_by_draws_and_clear_diffusions_have_none():
    result = fimsde.fit(hidden(1), "evidence")
    (law,) = result.sde.doubts.levels
    drawn = result.posterior(50)
    assert law is not None
    assert law.is_hidden
    values = drawn.diffusion(np.linspace(-1, 1, 3)[:, None])
    np.testing.assert_allclose(values - values[:, :1], 0.0, atol=1e-9)  # the same everywhere
    assert values.std() > 0.05 * values.mean()
    x = np.cumsum(np.random.default_rng(0).standard_normal(500)) * 0.1
    assert fimsde.fit(fimsde.read(x, dt=0.01), "evidence").sde.doubts.levels == (None,)


def walks(seed, noise, num=300):
    """A random walk of unit steps, seen through noise whose variance is this share of that of a step."""
    rng = np.random.default_rng(seed)
    path = np.cumsum(rng.standard_normal(num)) + noise**0.5 * rng.standard_normal(num)
    return fimsde.read(path[:, None], dt=1.0)


def test_noise_that_was_not_seen_makes_the_variance_rate_smaller():
    """m t - t² / 2 with t = log(1 + 2 ρ) / 2 ε: as often zero as that law says, and never where data are many."""
    unseen = [fimsde.fit(walks(seed, 0.05), "evidence").sde for seed in range(6)]
    unseen = [sde for sde in unseen if sde.noise_std[0] == 0.0 and not sde.inference.is_coarse]
    assert len(unseen) >= 3
    for sde in unseen:
        level = sde.inference.rate.kept.width
        (mean,), (error,) = sde.inference.told.noise(10.0 * level)
        t = np.log1p(2.0 * _RATIOS) * 0.01 * level[0] / (2.0 * error)
        odds = ODDS_OF_NOISE * np.mean(np.exp(mean / error * t - 0.5 * t**2))
        rates = np.zeros((4000, len(sde.inference.equation.rate), 1))
        noise, factor = draw_noise(sde.inference, rates, np.random.default_rng(1).random((4000, 1)))
        assert np.mean(noise == 0.0) == pytest.approx(1.0 / (1.0 + odds), abs=0.04)  # five standard errors
        np.testing.assert_allclose(noise, 0.005 * level[0] * (1.0 - factor), rtol=1e-9)  # v = ρ g h, 1 / (1 + 2 ρ)
    many = fimsde.fit(walks(0, 0.0, 20_000), "evidence").sde
    _, factor = draw_noise(
        many.inference, np.zeros((4000, len(many.inference.equation.rate), 1)), np.full((4000, 1), 0.9)
    )
    assert factor.min() > 0.9


def test_draws_of_g_follow_an_exponential_between_its_tangents_and_reach_zero():
    ratios = np.array([0.0, 0.1, 1 / np.e, 0.7, 1.0, 2.0, np.e, 8.0])
    away = ensemble._away(ratios, 1.0)
    np.testing.assert_allclose(ensemble._bent(away), ratios, atol=1e-12)
    assert away[0] == pytest.approx(-2.0)
    np.testing.assert_array_equal(ensemble._bent(np.array([-2.5, -2.0])), 0.0)
    step = 1e-6
    for corner in (-1.0, 1.0):  # no kinks
        slopes = np.diff(ensemble._bent(corner + step * np.array([-1.0, 0.0, 1.0]))) / step
        np.testing.assert_allclose(slopes, np.exp(corner), rtol=1e-4)


def test_where_no_rate_can_be_weighed_intervals_end_at_the_estimate_and_begin_at_zero():
    """As on paths without any noise, whose likelihood overflows."""
    sde = fimsde.fit(walks(0, 0.0), "evidence").sde
    lost = replace(sde.inference.rate, weights=np.full_like(sde.inference.rate.weights, np.nan))
    lost_sde = replace(sde, inference=replace(sde.inference, rate=lost))
    x = np.linspace(-5.0, 5.0, 3)[:, None]
    band = posterior_band(lost_sde.draws(200), lost_sde, x, 0.9)
    np.testing.assert_array_equal(band.diffusion_low, 0.0)
    np.testing.assert_allclose(band.diffusion_high, sde.diffusion(x), rtol=1e-9)
