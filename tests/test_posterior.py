"""Posteriors of results: draws that are results, bands with their coverage, and the bootstrap as a second opinion."""

import time
from dataclasses import replace

import numpy as np
import pytest

import fimsde
from fimsde.analysis.band import posterior_band
from fimsde.analysis.draws import SeparateDraws, interval_of
from fimsde.analysis.second_opinion import compare_bands
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import CheckpointError, ConfigError
from fimsde.evidence import ensemble
from fimsde.evidence.spread import PLAIN
from test_evidence_infer import THETA, as_observations, ou_data


@pytest.fixture(scope="module")
def line():
    return fimsde.fit(as_observations(ou_data(500, 1)), "evidence")


def lines(num, seed=0):
    """Draws of dx = (a - b x) dt + s dW with normal a and b: bands in closed form."""
    rng = np.random.default_rng(seed)
    parts = np.column_stack([rng.normal(0.0, 0.3, num), rng.normal(1.0, 0.2, num), rng.uniform(0.9, 1.1, num)])
    return [FunctionSDE(1, lambda x, p=p: p[0] - p[1] * x, lambda x, p=p: np.full_like(x, p[2])) for p in parts]


# ---- draws ---------------------------------------------------------------------------------------------------------


def test_a_draw_is_a_result_that_can_be_simulated_analysed_and_saved(line, tmp_path):
    drawn = line.posterior(20, seed=4)
    assert (len(drawn), drawn.dim, drawn.method) == (20, 1, "posterior")
    one, x = drawn[7], np.linspace(-0.6, 0.6, 5)
    np.testing.assert_allclose(one.drift(x), drawn.drift(x)[7, :, 0], atol=1e-12)
    np.testing.assert_allclose(one.diffusion(x), drawn.diffusion(x)[7, :, 0], rtol=1e-12)
    assert np.abs(one.drift(x) - drawn[8].drift(x)).max() > 1e-3
    assert np.isfinite(one.simulate(np.array([0.5]), np.arange(20) * 0.1, 3).values).all()
    assert one.stationary_density().density.min() > 0
    one.save(tmp_path / "draw")
    again = fimsde.load(tmp_path / "draw")
    assert (again.draw.method, again.draw.seed, again.draw.index) == ("posterior", 4, 7)
    np.testing.assert_allclose(again.drift(x), one.drift(x), rtol=1e-9)


def test_a_file_with_another_draw_is_refused(line, tmp_path):
    line.posterior(2)[1].save(tmp_path / "draw")
    file = tmp_path / "draw" / "result.json"
    for wrong in ('"x",\n    0,\n    1', '"posterior",\n    0,\n    -1', '"posterior",\n    0,\n    100000000'):
        text = file.read_text()
        file.write_text(text.replace('"posterior",\n    0,\n    1', wrong))
        with pytest.raises(CheckpointError, match="no draw"):
            fimsde.load(tmp_path / "draw")
        file.write_text(text)


def test_draws_keep_the_correlation_of_the_noise():
    rng = np.random.default_rng(0)
    obs = fimsde.read(np.cumsum(rng.standard_normal((300, 2)), axis=0) * 0.1, dt=0.1)
    rho = np.array([[1.0, 0.6], [0.6, 1.0]])
    drawn = fimsde.fit(obs, "evidence").with_correlation(rho).posterior(3)
    np.testing.assert_array_equal(drawn[1].correlation(obs.values[:2]), np.stack([rho, rho]))
    assert drawn.fields(obs.values[:4])[0].shape == (3, 4, 2)


def test_methods_without_a_posterior_are_asked_by_bootstrap(line):
    plain = fimsde.fit(line.observations, "kramers-moyal-linear")
    drawn = plain.posterior(5)
    assert drawn.method == "bootstrap"
    assert len({float(one.drift(np.array([0.3]))[0]) for one in drawn}) == 5
    with pytest.raises(ConfigError, match="no posterior of its own"):
        plain.posterior(5, method="posterior")
    assert line.posterior(3, method="bootstrap").method == "bootstrap"
    with pytest.raises(ConfigError, match="whole number"):
        line.posterior(0)


# ---- intervals and bands -------------------------------------------------------------------------------------------


def test_of_exchangeable_numbers_an_interval_holds_as_many_as_it_says():
    """The chance that a further number is between the order statistics is the level, exactly. False alarms: 1e-6."""
    rng = np.random.default_rng(0)
    values = rng.standard_cauchy((99, 20_000))
    found = interval_of(values, 0.9)
    share = np.mean((found.low < 0.0 + (new := rng.standard_cauchy(20_000))) & (new < found.high))
    assert abs(share - 0.9) < 4.9 * np.sqrt(0.09 / 20_000) + 1e-12
    plain = np.quantile(values[:19], [0.05, 0.95], axis=0)  # linear interpolation of few draws is too narrow
    assert np.mean((plain[0] < new) & (new < plain[1])) < 0.9 - 4.9 * np.sqrt(0.09 / 20_000)


def test_draws_without_a_value_are_counted_not_hidden():
    found = interval_of(np.array([[1.0, np.nan], [2.0, np.nan], [3.0, 4.0]]), 0.5)
    assert found.known == pytest.approx(4 / 6)
    assert found.low[0] == pytest.approx(1.0)
    assert found.low[1] == found.high[1] == 4.0
    assert np.isnan(interval_of(np.full((3, 1), np.nan)).low[0])


def test_bands_of_normal_lines_are_those_of_the_closed_form():
    """var f(x) = 0.09 + 0.04 x²; 4000 draws give the ends of 90 % intervals to 2 %. A band of half the size fails."""
    x = np.linspace(-3, 3, 7)[:, None]
    centre = FunctionSDE(1, lambda x: -x, np.ones_like)
    found = posterior_band(SeparateDraws(lines(4000)), centre, x, 0.9)
    exact = 1.6449 * np.sqrt(0.09 + 0.04 * x**2)
    np.testing.assert_allclose(found.drift_high + x, exact, rtol=0.1)
    np.testing.assert_allclose(found.drift_low + x, -exact, rtol=0.1)
    np.testing.assert_allclose(found.diffusion_low, 0.91, atol=0.005)
    assert np.abs((found.drift_high + x) / (0.8 * exact) - 1).min() > 0.1


def test_simultaneous_bands_hold_whole_lines_and_pointwise_ones_do_not():
    """All of 2000 further lines: 90 % are inside everywhere; the ends are from 2000 draws. False alarms: 1e-6."""
    x = np.linspace(-3, 3, 41)[:, None]
    centre = FunctionSDE(1, lambda x: -x, np.ones_like)
    shares = {}
    for simultaneous in (False, True):
        band = posterior_band(SeparateDraws(lines(2000)), centre, x, 0.9, simultaneous=simultaneous)
        drift = np.stack([sde.drift(x) for sde in lines(2000, seed=1)])
        shares[simultaneous] = np.mean(((band.drift_low <= drift) & (drift <= band.drift_high)).all(axis=(1, 2)))
    assert abs(shares[True] - 0.9) < 4.9 * np.sqrt(2 * 0.09 / 2000)
    assert shares[False] < 0.9 - 4.9 * np.sqrt(2 * 0.09 / 2000)


def test_bands_of_whole_curves_are_as_much_wider_as_draws_ask_for():
    x = np.linspace(-3, 3, 11)[:, None]
    centre = FunctionSDE(1, lambda x: -x, np.ones_like)
    plain, wider = (
        posterior_band(SeparateDraws(lines(400), whole), centre, x, 0.9, simultaneous=True)
        for whole in ((1.0, 1.0), (1.5, 2.0))
    )
    np.testing.assert_allclose(wider.drift_high + x, 1.5 * (plain.drift_high + x), rtol=1e-9)
    np.testing.assert_allclose(wider.diffusion_low - 1, 2.0 * (plain.diffusion_low - 1), rtol=1e-3)  # at least 1
    single = posterior_band(SeparateDraws(lines(400), (1.5, 2.0)), centre, x, 0.9)
    narrow = posterior_band(SeparateDraws(lines(400), (0.1, 0.1)), centre, x, 0.9, simultaneous=True)
    np.testing.assert_allclose(narrow.drift_high, single.drift_high)  # never narrower than single places


def test_the_plain_posterior_of_an_ornstein_uhlenbeck_process_covers_its_drift(monkeypatch):
    """120 data sets: coverage of the drift where data are, 90 % nominal; a data set is one piece of evidence.

    Without the table of spreads, which allows for less well-behaved data and widens these as well.

    The law of the share covered is between 0 and 1, so that the mean of 120 is within 4.9 x 0.5 / sqrt(120) of its
    expectation at false alarms of 1e-6 at the most; here its own standard deviation is used, about 0.2.
    """
    monkeypatch.setattr(ensemble, "spread_of", lambda inference, doubts: PLAIN)
    x, shares, half = np.linspace(-0.5, 0.5, 9)[:, None], [], []
    for seed in range(120):
        result = fimsde.fit(as_observations(ou_data(300, 1000 + seed)), "evidence")
        band = result.band(x)
        shares.append(np.mean((band.drift_low <= -THETA * x) & (-THETA * x <= band.drift_high)))
        middle = (band.drift_low + band.drift_high) / 2
        half.append(np.mean(np.abs(-THETA * x - middle) < (band.drift_high - middle) / 3))
    error = np.std(shares) / np.sqrt(len(shares))
    assert abs(np.mean(shares) - 0.9) < 4.9 * error
    assert np.mean(half) < 0.9 - 4.9 * np.std(half) / np.sqrt(len(half))  # a third of the width would be noticed


def test_bands_always_hold_the_estimate_and_widen_outside_the_data(line):
    low, high = line.observations.box()
    width = float(high[0] - low[0])
    x = np.concatenate([np.linspace(low[0], high[0], 30), high[0] + width * np.array([0.1, 0.2, 0.4, 0.8])])
    band = line.band(x)
    assert (band.method, band.resamples, band.simultaneous) == ("posterior", 200, False)
    with pytest.warns(fimsde.DataWarning, match="outside the data"):
        drift = line.drift(x)
    assert np.all((band.drift_low[:, 0] <= drift) & (drift <= band.drift_high[:, 0]))
    assert (band.diffusion_low >= 0).all()
    size = (band.drift_high - band.drift_low)[:, 0]
    assert np.all(np.diff(size[-5:]) > 0)
    assert size[-1] > 2 * size[15]
    wide = line.band(x, simultaneous=True)
    assert np.all(wide.drift_high >= band.drift_high)
    with pytest.raises(ConfigError, match="share between 0 and 1"):
        line.band(x, level=1.5)


def test_a_second_opinion_agrees_on_good_data_and_says_where_intervals_differ(line):
    x = np.linspace(-0.4, 0.4, 5)
    found = line.second_opinion(x, resamples=20)
    assert found.agrees, found
    assert "agree" in str(found)
    band = line.band(x)
    width = band.drift_high - band.drift_low
    moved = replace(band, drift_low=band.drift_high + 0.1 * width, drift_high=band.drift_high + width)
    assert "miss each other at 100%" in str(compare_bands(band, moved))
    wide = replace(band, drift_low=band.drift_low - width, drift_high=band.drift_high + width)
    assert "3.0 times as wide" in str(compare_bands(band, wide))
    assert not compare_bands(band, wide).agrees
    assert compare_bands(wide, band).agrees  # a posterior may be wider: it knows more


def test_a_band_takes_milliseconds_where_a_bootstrap_takes_seconds(line):
    x = np.linspace(-1, 1, 200)
    fresh = fimsde.result(line.sde, line.observations)
    fresh.band(x[:3])
    fresh = fimsde.result(line.sde, line.observations)  # nothing kept
    before = time.process_time()
    fresh.band(x)
    assert time.process_time() - before < 0.25  # 20 to 30 ms on an idle core; the machine may be busy, and checks types
    assert line.band(x[:5], method="bootstrap", resamples=3).method == "bootstrap"
