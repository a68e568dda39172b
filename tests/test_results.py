"""Results: one type for estimates, baselines and textbook systems; fixed points and bands."""

import warnings

import numpy as np
import pytest

import fimsde
from fimsde.analysis.band import NUM_BLOCKS, make_band, resample
from fimsde.analysis.fixed_points import classify
from fimsde.baselines import bisde, kramers_moyal, sparse_gp
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError, DataWarning, InvalidObservationsError
from fimsde.systems import canonical
from problems import OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)
DT = 0.05


def observe(sde=OU, num=1000, num_paths=1, seed=0):
    start = np.zeros((num_paths, sde.dim))
    return fimsde.simulate(sde, start, np.arange(num) * DT, seed=seed).observations()


def linear(obs, seed=0):
    return kramers_moyal.fit(obs, kramers_moyal.PolynomialSettings(1, 0, clip=True), seed)


OBS = observe()


@pytest.mark.parametrize(
    "fit", [bisde.fit, sparse_gp.fit, kramers_moyal.fit, linear], ids=["bisde", "gp", "km", "linear"]
)
def test_every_baseline_that_gives_functions_is_a_result(fit):
    result = fimsde.result(fit(OBS), OBS, method="a method", refit=lambda o, seed: fit(o))
    assert isinstance(result, fimsde.Result)
    assert isinstance(result, fimsde.SDE)
    assert (result.names, result.dim, result.method) == (("x1",), 1, "a method")
    x = OBS.values[::100]
    np.testing.assert_array_equal(result.diffusion_sq(x), result.diffusion(x) ** 2)
    np.testing.assert_array_equal(result.drift(x[:, 0]), result.drift(x)[:, 0])
    assert result.simulate(x[0], [0.0, 0.1], num_paths=3).values.shape == (3, 2, 1)


def test_an_estimate_is_a_result_and_keeps_its_observations():
    result = fimsde.estimate(OBS)
    assert isinstance(result, fimsde.Result)
    assert result.observations is OBS
    assert result.method == "fimsde"
    assert fimsde.estimate(OBS, "bundled").method == "FIM-SDE"


def test_outside_the_data_a_result_warns_and_a_textbook_system_does_not():
    far = np.array([[100.0]])
    with pytest.warns(DataWarning, match="outside the data"):
        fimsde.result(OU, OBS).drift(far)
    textbook = fimsde.result(OU)
    np.testing.assert_array_equal(textbook.drift(far), OU.drift(far))
    assert textbook.inside(far).all()
    assert not fimsde.result(OU, OBS).inside(far).any()


def test_names_follow_the_observations_or_the_caller():
    obs = fimsde.read(OBS.values, dt=DT, names=["height"], time_unit="h")
    assert (fimsde.result(OU, obs).names, fimsde.result(OU, obs).time_unit) == (("height",), "h")
    assert fimsde.result(OU, obs, names=["z"]).names == ("z",)
    with pytest.raises(ConfigError, match="2 names given for 1"):
        fimsde.result(OU, names=["a", "b"])
    with pytest.raises(ConfigError, match="1 components, the observations 2"):
        fimsde.result(OU, observe(OrnsteinUhlenbeck(dim=2), num=10))


# Fixed points


def test_the_fixed_points_of_a_double_well_are_two_nodes_and_a_barrier():
    found = fimsde.result(canonical.DOUBLE_WELL).fixed_points(box=(-2.0, 2.0))
    np.testing.assert_allclose([p.x[0] for p in found], [-1, 0, 1], atol=1e-6)
    np.testing.assert_allclose([p.eigenvalues[0].real for p in found], [-8, 4, -8], rtol=1e-4)
    assert [p.kind for p in found] == ["stable node", "unstable node", "stable node"]
    assert [p.is_stable for p in found] == [True, False, True]


def test_the_fixed_points_of_a_duffing_oscillator_are_two_foci_and_a_saddle():
    found = fimsde.result(canonical.DUFFING).fixed_points(box=(np.full(2, -2.0), np.full(2, 2.0)))
    np.testing.assert_allclose([p.x for p in found], [[-1, 0], [0, 0], [1, 0]], atol=1e-6)
    assert [p.kind for p in found] == ["stable focus", "saddle", "stable focus"]
    np.testing.assert_allclose(found[0].eigenvalues.real, -0.175, rtol=1e-3)


def test_the_fixed_points_of_the_lorenz_system_are_the_three_known_ones():
    sigma, rho, beta = 10.0, 28.0, 8 / 3

    def drift(x):
        return np.stack(
            [sigma * (x[:, 1] - x[:, 0]), x[:, 0] * (rho - x[:, 2]) - x[:, 1], x[:, 0] * x[:, 1] - beta * x[:, 2]], 1
        )

    box = (np.array([-20.0, -30.0, -5.0]), np.array([20.0, 30.0, 50.0]))
    found = fimsde.result(FunctionSDE(3, drift, np.ones_like)).fixed_points(box=box)
    c = np.sqrt(beta * (rho - 1))
    np.testing.assert_allclose([p.x for p in found], [[-c, -c, rho - 1], [0, 0, 0], [c, c, rho - 1]], atol=1e-4)
    assert [p.kind for p in found] == ["saddle"] * 3


@pytest.mark.parametrize(
    ("eigenvalues", "kind"),
    [
        ([-1, -2], "stable node"),
        ([1, 2], "unstable node"),
        ([-1 + 3j, -1 - 3j], "stable focus"),
        ([1 + 3j, 1 - 3j], "unstable focus"),
        ([1, -1], "saddle"),
        ([1e-4 + 1j, 1e-4 - 1j], "centre"),
        ([-1e-4, -1], "unclear"),
        ([0, 0], "unclear"),
    ],
)
def test_kinds_follow_the_eigenvalues(eigenvalues, kind):
    assert classify(np.array(eigenvalues, complex)) == kind


def test_a_degenerate_fixed_point_is_unclear():
    cubic = fimsde.result(FunctionSDE(1, lambda x: -(x**3), np.ones_like)).fixed_points(box=(-1.0, 1.0))
    assert [p.kind for p in cubic] == ["unclear"]


def test_no_fixed_point_is_an_empty_answer():
    assert fimsde.result(FunctionSDE(2, np.ones_like, np.ones_like)).fixed_points((np.zeros(2), np.ones(2))) == ()


def test_fixed_points_far_from_the_data_are_marked():
    found = fimsde.result(FunctionSDE(1, lambda x: 50 - x, np.ones_like), OBS).fixed_points(box=(-100.0, 100.0))
    assert [p.inside for p in found] == [False]


def test_fixed_points_are_found_in_more_than_three_dimensions():
    (point,) = fimsde.result(OrnsteinUhlenbeck(dim=4)).fixed_points((np.full(4, -1.0), np.full(4, 1.3)))
    np.testing.assert_allclose(point.x, 0.0, atol=1e-6)
    np.testing.assert_allclose(point.eigenvalues, -1.5, rtol=1e-6)


def test_fixed_points_do_not_ask_for_a_variance_rate():
    """A cubic fit has a negative g somewhere in the corners of a box; its drift is all that counts."""
    sde = FunctionSDE(2, lambda x: -x, lambda x: np.full_like(x, np.nan))
    (point,) = fimsde.result(sde).fixed_points((np.full(2, -1.0), np.full(2, 1.3)))
    np.testing.assert_allclose(point.x, 0.0, atol=1e-6)
    broken = FunctionSDE(2, lambda x: np.where(x > 1, np.nan, -x), np.ones_like)
    with pytest.raises(InvalidObservationsError, match="the drift is not finite at"):
        fimsde.result(broken).fixed_points((np.full(2, -1.0), np.full(2, 1.3)))


# Bands


def test_blocks_never_join_across_a_seam_and_have_as_many_transitions_as_the_data():
    """Every step of a redrawn data set is a step of the data."""
    obs = fimsde.read([np.arange(50.0), 1000 + 3 * np.arange(7.0), np.array([5e6])], dt=1.0)
    for i in range(20):
        drawn = resample(obs, np.random.default_rng(i))
        assert drawn.num_transitions == obs.num_transitions
        steps = np.concatenate([np.diff(drawn.path(k)[1][:, 0]) for k in range(drawn.num_paths)])
        assert set(steps) <= {1.0, 3.0}
        assert all(np.all(np.diff(drawn.path(k)[0]) > 0) for k in range(drawn.num_paths))


def test_every_transition_is_drawn_equally_often():
    """Counts over 300 draws of 100 transitions, ends included. Blocks make counts of neighbours move together, so the
    bound is on each: 5 standard deviations of a sum of independent blocks (6e-7 each)."""
    obs = fimsde.read(np.arange(101.0), dt=1.0)  # six blocks of 17 steps
    counts, draws = np.zeros(101), 300
    for i in range(draws):
        drawn = resample(obs, np.random.default_rng(i))
        for k in range(drawn.num_paths):
            counts[drawn.path(k)[1][:-1, 0].astype(int)] += 1
    assert abs(counts[:100] - draws).max() < 5 * np.sqrt(draws * 1.5)


def test_many_paths_are_drawn_whole():
    obs = observe(num=10, num_paths=30)
    drawn = resample(obs, np.random.default_rng(0))
    originals = {obs.path(k)[1].tobytes() for k in range(30)}
    assert drawn.num_paths == 30
    assert {drawn.path(k)[1].tobytes() for k in range(30)} < originals


def slope_only(obs, seed=0):
    """Drift -a x and constant noise by least squares: the quickest estimator there is."""
    start = np.concatenate([obs.path(k)[1][:-1, 0] for k in range(obs.num_paths)])
    step = np.concatenate([np.diff(obs.path(k)[1][:, 0]) for k in range(obs.num_paths)])
    slope = (start @ step) / (start @ start) / DT
    sigma = np.std(step - slope * start * DT) / DT**0.5
    return FunctionSDE(1, lambda x: slope * x, lambda x: np.full_like(x, sigma))


@pytest.mark.parametrize("num_paths", [1, 25], ids=["blocks", "paths"])
def test_bands_cover_the_truth_as_often_as_they_say(num_paths):
    """OU data, at one standard deviation: coverage at 90 % is at least 37 of 50 data sets, where an exact band is with
    probability 0.9994. A band of half the width covers 59 % and is noticed with probability 0.98. The upper end of the
    bar is measured by benchmarks/band_coverage.py."""
    x = np.array([[OU.stationary_variance() ** 0.5]])
    num = 1 + 1000 // num_paths
    paths = fimsde.simulate(OU, np.zeros((50 * num_paths, 1)), np.arange(num) * DT, seed=7).values
    covered, halved = np.zeros(2), 0
    for values in paths.reshape(50, num_paths, num, 1):
        obs = fimsde.read(values, dt=DT)
        band = fimsde.result(slope_only(obs), obs, refit=slope_only).band(x, resamples=20)
        low, high = band.drift_low[0, 0], band.drift_high[0, 0]
        truth = OU.drift(x)[0, 0]
        covered += [low <= truth <= high, band.diffusion_low[0, 0] <= OU.sigma <= band.diffusion_high[0, 0]]
        halved += abs(truth - (low + high) / 2) <= (high - low) / 4
    assert np.all(covered >= 37), covered
    assert halved < 37


def test_bands_hold_the_estimate_and_shrink_with_the_level():
    result = fimsde.result(linear(OBS), OBS, refit=linear)
    x = OBS.values[::50]
    wide, narrow = result.band(x), result.band(x, level=0.5)
    for band in (wide, narrow):
        assert np.all((band.drift_low < result.drift(x)) & (result.drift(x) < band.drift_high))
        assert np.all((band.diffusion_low < result.diffusion(x)) & (result.diffusion(x) < band.diffusion_high))
    assert np.all(narrow.drift_low > wide.drift_low)
    assert (wide.level, wide.resamples) == (0.9, 50)


def test_estimates_of_redrawn_data_are_kept_and_shared():
    calls = []

    def counted(obs, seed):
        calls.append(seed)
        return linear(obs)

    result = fimsde.result(linear(OBS), OBS, refit=counted)
    x = OBS.values[:3]
    first = result.band(x, resamples=10)
    again = result.band(x, resamples=10)
    result.band(x, resamples=15)
    assert len(calls) == 15
    np.testing.assert_array_equal(first.drift_low, again.drift_low)
    other = result.band(x, resamples=10, seed=1)
    assert len(calls) == 25
    assert np.any(other.drift_low != first.drift_low)


def test_the_band_of_an_estimate_takes_seconds_and_is_wider_with_less_data():
    obs = canonical.context(canonical.DOUBLE_WELL, stride=10, length=1500, seed=canonical.DEV_SEED)
    short = fimsde.read(obs.values[:300], dt=0.02)
    x = np.linspace(-0.8, 0.8, 9)[:, None]
    widths = []
    for data in (obs, short):
        band = fimsde.estimate(data).band(x, resamples=15)
        widths.append(np.mean(band.drift_high - band.drift_low))
    assert widths[1] > 1.3 * widths[0]


def test_a_missing_value_of_a_draw_does_not_empty_the_band():
    nowhere = FunctionSDE(1, lambda x: -x, lambda x: np.full_like(x, np.nan))
    x = np.zeros((2, 1))
    band = make_band([OU, OU, nowhere], OU, x, 0.9, NUM_BLOCKS)
    assert np.isfinite(band.diffusion_low).all()
    assert np.isnan(make_band([nowhere], nowhere, x, 0.9, NUM_BLOCKS).diffusion_low).all()


def test_a_band_is_as_wide_as_the_median_draw_is_far_and_one_odd_draw_does_not_widen_it():
    """Draws one away on either side, and one a hundred away; a normal law has its median distance at 0.6745."""
    draws = [FunctionSDE(1, lambda x, a=a: np.full_like(x, a), np.ones_like) for a in (-1.0, 1.0, 1.0, -1.0, 100.0)]
    centre = FunctionSDE(1, np.zeros_like, np.ones_like)
    band = make_band(draws, centre, np.zeros((3, 1)), 0.9, 20)
    reach = 1 / 0.6744898 * 1.7291328 * np.sqrt(20 / 19)  # the 95 % quantile of Student's t with 19 degrees of freedom
    np.testing.assert_allclose(band.drift_high, reach, rtol=1e-6)
    np.testing.assert_allclose(band.drift_low, -reach, rtol=1e-6)
    assert (band.diffusion_low == 1).all()
    assert (band.diffusion_high == 1).all()


def test_a_band_needs_data_a_method_and_sensible_numbers():
    x = np.zeros((1, 1))
    with pytest.raises(ConfigError, match="needs observations"):
        fimsde.result(OU, refit=linear).band(x)
    with pytest.raises(ConfigError, match="refit="):
        fimsde.result(OU, OBS).band(x)
    result = fimsde.result(linear(OBS), OBS, refit=linear)
    with pytest.raises(ConfigError, match="level is 90"):
        result.band(x, level=90, resamples=2)
    with pytest.raises(ConfigError, match="resamples is 1"):
        result.band(x, resamples=1)
    with pytest.raises(InvalidObservationsError, match="shape"):
        result.band(np.zeros((1, 2)), resamples=2)


def test_redrawing_gives_no_advice_on_the_data_again():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        result = fimsde.estimate(observe(num=60))
    result.band(OBS.values[:2] * 0, resamples=2)


def test_the_band_of_very_long_data_is_as_wide_though_its_draws_are_smaller(monkeypatch):
    """White noise around a slope, so that the rate of the drift is a mean of n numbers with standard error sigma /
    sqrt(n dt), and with draws of a tenth too. The median of 200 draws has a relative error of 8 %: five of them."""
    rng = np.random.default_rng(5)
    steps = 0.3 * DT + 0.5 * DT**0.5 * rng.standard_normal(40_000)
    obs = fimsde.read(np.concatenate([[0.0], np.cumsum(steps)]), dt=DT)

    def rate(data, seed=0):
        moved = np.concatenate([np.diff(data.path(k)[1][:, 0]) for k in range(data.num_paths)])
        return FunctionSDE(1, lambda x: np.full_like(x, moved.mean() / DT), lambda x: np.full_like(x, 0.5))

    monkeypatch.setattr("fimsde.analysis.band.MOST", 4000)
    found = fimsde.result(rate(obs), obs, refit=rate)
    band = found.band(np.zeros((1, 1)), resamples=200)
    error = 0.5 / np.sqrt(40_000 * DT)
    reach = float(band.drift_high[0, 0] - band.drift_low[0, 0]) / 2 / (1.7291328 * np.sqrt(20 / 19))
    assert abs(reach / error - 1) < 0.4
    whole, small = (
        np.std([s.drift(np.zeros((1, 1))) for s in found.resampled(200, for_band=b)]) for b in (False, True)
    )
    assert small / whole > 2  # sqrt(10) without the factor: the negative control
    assert resample(obs, np.random.default_rng(0), 4000).num_transitions == 4000


def test_of_very_many_paths_a_smaller_draw_has_the_share_of_them():
    obs = observe(num=10, num_paths=300)
    drawn = resample(obs, np.random.default_rng(0), obs.num_transitions // 10)
    assert drawn.num_paths == 30


def test_a_number_was_no_start_of_an_equation_in_one_dimension():
    result = fimsde.result(OrnsteinUhlenbeck(theta=1.0, sigma=0.5))
    times = np.arange(5) * 0.1
    for start in (2, 2.0):
        np.testing.assert_array_equal(result.simulate(start, times).values, result.simulate([2.0], times).values)
        assert result.forecast(times[1:], x0=start).equals(result.forecast(times[1:], x0=[2.0]))
    one = result.forecast(times[1:], x0=2.0, quantiles=0.5)
    assert one.equals(result.forecast(times[1:], x0=[2.0], quantiles=[0.5]))


def test_the_score_of_observations_of_another_dimension_was_a_sentence_about_boxes():
    result = fimsde.result(OrnsteinUhlenbeck(theta=1.0, sigma=0.5))
    with pytest.raises(InvalidObservationsError, match=r"have 2 component\(s\), the equation has 1"):
        result.score(fimsde.read(np.zeros((9, 2)) + np.arange(9)[:, None], dt=1.0))


def test_the_score_is_the_likelihood_of_whole_paths_per_step_and_component():
    ou = OrnsteinUhlenbeck(theta=1.5, sigma=0.7, dim=2)
    clean = fimsde.simulate(ou, np.zeros((1, 2)), 0.02 * np.arange(3000), substeps=10, seed=3).values[0]
    obs = fimsde.read(clean + 0.1 * np.random.default_rng(4).standard_normal(clean.shape), dt=0.02)
    result = fimsde.result(ou, obs)
    np.testing.assert_allclose(result.noise_std, 0.1, rtol=0.15)
    assert result.score(obs) == pytest.approx(result.log_likelihood(obs) / (2999 * 2))
    assert result.score(obs) > result.score(obs, noise_std=np.zeros(2)) + 0.1
    assert result.score(obs) > fimsde.result(OrnsteinUhlenbeck(1.5, 0.8, 2), obs).score(obs)
    assert np.all(fimsde.result(ou).noise_std == 0)
