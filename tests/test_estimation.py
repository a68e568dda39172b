"""Tests of `estimate`: the model in data units, its result as an equation, and where data support it."""

import time
import warnings
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info

from fimsde.bank.bank import blas_threads_for
from fimsde.data.observations import read
from fimsde.data.support import fit_support
from fimsde.data.transitions import Transitions
from fimsde.equations.sde import SDE, FunctionSDE, fields
from fimsde.errors import DataWarning
from fimsde.estimation import estimate_sde
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.paper import Tokens
from fimsde.model.threads import threads_for
from fimsde.results.make import estimate
from fimsde.simulate import simulate
from problems import OrnsteinUhlenbeck

TINY = ModelConfig.preset("tiny")
MODEL = FIMSDE(TINY, seed=0).eval()
TIMES = np.arange(200) * 0.05


def observe(dim, num_paths=2, times=TIMES):
    start = np.linspace(-0.5, 0.5, num_paths * dim).reshape(num_paths, dim)
    return simulate(OrnsteinUhlenbeck(dim=dim), start, times, seed=dim).observations()


OBS = observe(2)
SDE_2D = estimate(OBS, MODEL)
X = OBS.values[::40]


def test_the_estimate_is_the_model_between_two_changes_of_units():
    """Stated anew from the formulas: population moments of all observations, geometric mean gap 0.01, and back."""
    sde = estimate(OBS, FIMSDE(TINY, seed=0).double().eval())
    paths = [OBS.path(k) for k in range(OBS.num_paths)]
    mean, std = OBS.values.mean(axis=0), OBS.values.std(axis=0)
    dtau = np.concatenate([np.diff(t) for t, _ in paths])
    clock = 0.01 / np.exp(np.log(dtau).mean())
    y = np.concatenate([v[:-1] for _, v in paths])
    dy = np.concatenate([np.diff(v, axis=0) for _, v in paths])

    def padded(values):
        return torch.from_numpy(np.pad(values, ((0, 0), (0, 1))))[None]

    tokens = Tokens(
        y=padded((y - mean) / std),
        dy=padded(dy / std),
        dtau=torch.from_numpy(clock * dtau)[None],
        mask=torch.ones(1, len(y), dtype=torch.bool),
    )
    with torch.no_grad():
        drift, diffusion, log_variance = sde.sde.model(tokens, padded((X - mean) / std))
    np.testing.assert_allclose(sde.drift(X), drift[0, :, :2].numpy() * std * clock, rtol=1e-10)
    np.testing.assert_allclose(sde.diffusion(X), diffusion[0, :, :2].numpy() * std * np.sqrt(clock), rtol=1e-10)
    np.testing.assert_allclose(sde.uncertainty(X), log_variance[0].numpy(), rtol=1e-10)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_estimate_is_an_equation_in_the_dimension_of_the_data(dim):
    obs = observe(dim)
    sde = estimate(obs, MODEL)
    x = obs.values[::50]
    assert isinstance(sde, SDE)
    assert sde.dim == dim
    assert sde.names == obs.names
    for values in (sde.drift(x), sde.diffusion(x)):
        assert values.shape == x.shape
        assert values.dtype == np.float64
    assert np.all(sde.diffusion(x) > 0)
    assert sde.uncertainty(x).shape == sde.inside(x).shape == (len(x),)


def test_names_and_the_unit_of_time_are_those_of_the_observations():
    obs = read(OBS.values, times=np.arange(OBS.num_points) * 0.1, names=["u", "v"], time_unit="h")
    sde = estimate(obs, MODEL)
    assert (sde.names, sde.time_unit, sde.sde.num_transitions) == (("u", "v"), "h", OBS.num_points - 1)
    assert repr(sde) == "Result(sde=EstimatedSDE(num_transitions=399), names=('u', 'v'), time_unit='h')"


def test_one_component_may_be_asked_with_a_plain_array_and_answers_in_that_shape():
    sde = estimate(observe(1), MODEL)
    x = np.linspace(-0.4, 0.4, 7)
    for method in (sde.drift, sde.diffusion):
        assert method(x).shape == (7,)
        np.testing.assert_array_equal(method(x), method(x[:, None])[:, 0])
    np.testing.assert_array_equal(sde.uncertainty(x), sde.uncertainty(x[:, None]))
    np.testing.assert_array_equal(sde.inside(x), sde.inside(x[:, None]))


def test_fields_are_drift_and_diffusion():
    drift, diffusion = SDE_2D.fields(X)
    np.testing.assert_array_equal(drift, SDE_2D.drift(X))
    np.testing.assert_array_equal(diffusion, SDE_2D.diffusion(X))


def test_fields_of_an_equation_without_that_method_come_from_its_two_methods():
    sde = FunctionSDE(2, drift=lambda x: -x, diffusion=lambda x: x**2)
    drift, diffusion = fields(sde, X)
    np.testing.assert_array_equal(drift, -X)
    np.testing.assert_array_equal(diffusion, X**2)


def test_m4_the_data_are_encoded_once_however_many_queries_follow():
    calls = []
    hook = MODEL.encoder.register_forward_hook(lambda *_: calls.append(1))
    try:
        sde = estimate(OBS, MODEL)
        for _ in range(3):
            sde.drift(X), sde.diffusion(X), sde.uncertainty(X)
        sde.simulate(X, [0.0, 0.1, 0.2])
    finally:
        hook.remove()
    assert len(calls) == 1


def test_a_model_in_training_mode_is_read_without_dropout_and_left_in_training_mode():
    model = FIMSDE(TINY, seed=0)
    assert model.training
    sde = estimate(OBS, model)
    np.testing.assert_array_equal(sde.drift(X), SDE_2D.drift(X))
    assert all(module.training for module in model.modules())
    assert next(sde.sde.model.parameters()) is next(model.parameters())


def test_the_model_may_be_given_by_the_folder_of_its_weights(tmp_path):
    MODEL.save_pretrained(tmp_path / "weights")
    for folder in (tmp_path / "weights", str(tmp_path / "weights")):
        np.testing.assert_array_equal(estimate(OBS, folder).drift(X), SDE_2D.drift(X))


def test_the_estimate_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        SDE_2D.names = ("a", "b")  # type: ignore[misc]


def test_simulate_is_the_one_stepper_applied_to_the_estimate():
    times = np.linspace(0, 1, 6)
    found = SDE_2D.simulate(X[0], times, num_paths=4, substeps=2, seed=5)
    expected = simulate(SDE_2D, np.tile(X[0], (4, 1)), times, substeps=2, seed=5)
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(SDE_2D.simulate(X, times, dt=0.05).values, simulate(SDE_2D, X, times, dt=0.05).values)
    assert SDE_2D.simulate(X[0], times).values.shape == (1, 6, 2)
    assert np.any(SDE_2D.simulate(X[0], times, seed=1).values != SDE_2D.simulate(X[0], times, seed=2).values)


def test_the_simulated_step_has_the_estimated_drift_and_diffusion():
    """One step from one place is normal with known moments. False alarms: 1e-6 per check."""
    from checks import check_mean, check_variance

    dt = 0.01
    end = SDE_2D.simulate(X[0], [0.0, dt], num_paths=4000, seed=7).values[:, 1]
    drift, diffusion = SDE_2D.fields(X[:1])
    for j in range(2):
        variance = diffusion[0, j] ** 2 * dt
        check_mean(end[:, j], X[0, j] + drift[0, j] * dt, variance)
        check_variance(end[:, j], variance)
    with pytest.raises(AssertionError, match="standard errors"):
        check_variance(end[:, 0], diffusion[0, 0] * dt)


def test_simulation_does_not_warn_wherever_it_goes():
    far = SDE_2D.simulate(np.array([1e3, -1e3]), np.linspace(0, 1, 4), num_paths=3)
    assert not SDE_2D.inside(far.values[:, -1]).any()


def test_b16_locations_outside_the_data_are_answered_flagged_and_warned_about_once():
    x = np.concatenate([X[:3], [[50.0, 0.0], [0.0, -50.0]]])
    np.testing.assert_array_equal(SDE_2D.inside(x), [True, True, True, False, False])
    for method in (SDE_2D.drift, SDE_2D.diffusion):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            values = method(x)
        assert np.all(np.isfinite(values))
        (warning,) = caught
        assert warning.category is DataWarning
        assert "2 of 5 locations are outside the data (the first is index 3" in str(warning.message)
        assert "extrapolated" in str(warning.message)
        np.testing.assert_allclose(method(X[:3]), values[:3], rtol=1e-4)


@pytest.mark.parametrize("distance", [1e3, 1e6, 1e9, 1e11])
def test_far_away_the_answer_is_finite(distance):
    x = OBS.values.mean(axis=0) + distance * OBS.values.std(axis=0) * [[1.0, -0.3]]
    assert np.isfinite(SDE_2D.fields(x)).all()


def test_a_primed_model_holds_its_fields_far_outside_the_data_and_the_paper_s_does_not():
    low, high = OBS.box()
    edge = np.array([[2 * high[0] - low[0], 0.1]])  # as far outside as the data are wide
    away, back = np.array([7.0, 0.0]), np.array([0.5 * (high - low)[0], 0.0])
    primed = estimate(OBS)
    for found, farther in zip(primed.fields(edge), primed.fields(edge + away), strict=True):
        np.testing.assert_allclose(farther, found, rtol=1e-6)
    for found, closer in zip(primed.fields(edge), primed.fields(edge - back), strict=True):
        assert np.any(closer != found)
    assert np.any(SDE_2D.fields(edge)[0] != SDE_2D.fields(edge + away)[0])


def test_an_origin_is_a_place_in_the_units_of_the_data():
    """Told the same place in other units, with another zero, the estimate is the same in these units."""
    place, x = np.array([0.3, -0.4]), np.array([[0.2, 0.1], [-0.5, 0.4]])
    scale, offset = np.array([3.0, 0.2]), np.array([40.0, -7.0])
    plain = estimate(OBS, origin=place)
    moved = estimate(OBS.with_units(scale=scale, offset=offset), origin=place * scale + offset)
    for found, expected in zip(moved.fields(x * scale + offset), plain.fields(x), strict=True):
        np.testing.assert_allclose(found / scale, expected, rtol=1e-3, atol=1e-4)
    without = estimate(OBS).fields(x)[0]
    assert np.abs(without - plain.fields(x)[0]).max() > 1e-2 * np.abs(without).max()


def test_estimates_of_resampled_data_are_told_the_same_origin():
    told = estimate(OBS, "bundled", origin=[0.1, -0.2])
    np.testing.assert_array_equal(told._refitted(OBS, seed=0).origin, [0.1, -0.2])
    x = OBS.values[:3]
    np.testing.assert_array_equal(told._refitted(OBS, seed=0).fields(x), told.fields(x))


def test_no_path_of_a_primed_model_explodes():
    """Far away the fields are constant, so that a path moves away linearly in time at most."""
    paths = estimate(OBS).simulate(np.array([40.0, -40.0]), np.linspace(0, 20, 41), num_paths=5)
    assert not paths.num_diverged


@pytest.mark.parametrize("x", [np.nan, np.inf, -np.inf, 1e15, -1e40, 1e308])
def test_where_the_model_cannot_be_asked_there_are_no_fields(x):
    """In float32 the squares of 1e20 are infinite, and the model would answer with numbers that mean nothing."""
    for values in SDE_2D.fields(np.array([[x, 0.0], [0.1, 0.2]])):
        assert np.isnan(values[0]).all()
        assert np.isfinite(values[1]).all()


def test_a_finite_location_that_overflows_in_standard_deviations_is_outside():
    sde = estimate(OBS.with_units(scale=1e-200), MODEL)
    assert not sde.inside(np.array([[1e300, 0.0]])).any()
    with pytest.warns(DataWarning, match="1 of 1"):
        assert np.isnan(sde.drift(np.array([[1e300, 0.0]]))).all()


def support_of(points):
    n = len(points)
    return fit_support(Transitions(points, np.zeros_like(points), np.ones(n), np.zeros(n, int)))


RNG = np.random.default_rng(0)
ANGLES = RNG.uniform(0, 2 * np.pi, 3000)
RADII = 1.4 + 0.07 * RNG.standard_normal(3000)
ANNULUS = np.column_stack([RADII * np.cos(ANGLES), RADII * np.sin(ANGLES)])
LINE = RNG.standard_normal((5000, 1))
WELLS = np.concatenate([RNG.normal(-1, 0.05, (2000, 1)), RNG.normal(1, 0.05, (2000, 1))])


def test_the_middle_of_an_annulus_is_outside_although_data_are_all_around():
    support = support_of(ANNULUS)
    angles = np.linspace(0, 2 * np.pi, 50)
    ring = np.column_stack([np.cos(angles), np.sin(angles)])
    assert not support.contains(np.zeros((1, 2))).any()
    assert support.contains(1.4 * ring).all()
    assert not support.contains(1.0 * ring).any()
    assert not support.contains(1.8 * ring).any()


def test_the_gap_between_two_wells_is_outside():
    x = np.array([[-1.5], [-1.0], [0.0], [1.0], [1.5]])
    np.testing.assert_array_equal(support_of(WELLS).contains(x), [False, True, False, True, False])


def test_the_bulk_of_a_normal_sample_is_inside_and_its_far_tail_is_not():
    assert support_of(LINE).contains(np.linspace(-2, 2, 100)[:, None]).all()
    assert not support_of(LINE).contains(np.array([[-4.0], [4.0], [100.0]])).any()


@pytest.mark.parametrize("points", [ANNULUS, LINE, WELLS], ids=["annulus", "line", "wells"])
def test_almost_all_observed_states_are_inside(points):
    assert 0.98 < support_of(points).contains(points).mean() < 1


def test_the_radius_of_the_support_is_that_of_the_outermost_states_but_one_in_a_hundred():
    """125 states in a row: the cube root is 5, and the fifth neighbour of an end is 5 steps away, of others 3 or 4."""
    support = support_of(0.1 * np.arange(125.0)[:, None])
    assert support.num_neighbours == 5
    assert support.radius == pytest.approx(0.5)
    np.testing.assert_array_equal(support.contains(np.array([[-0.05], [-0.15], [12.45], [12.55]])), [True, False] * 2)


@pytest.mark.parametrize("num", [1, 2, 3, 10])
def test_short_data_support_their_own_states_and_nothing_far_away(num):
    points = RNG.standard_normal((num, 2))
    support = support_of(points)
    assert support.contains(points).all()
    assert not support.contains(np.array([[20.0, 0.0], [-20.0, 20.0]])).any()


def test_one_outlier_does_not_bring_everything_inside():
    points = np.concatenate([LINE, [[1e6]]])
    assert not support_of(points).contains(np.array([[10.0], [1e3], [1e6]])).any()


def test_support_depends_neither_on_order_nor_on_repetition():
    x = RNG.standard_normal((500, 2)) * 2
    expected = support_of(ANNULUS).contains(x)
    np.testing.assert_array_equal(support_of(RNG.permutation(ANNULUS)).contains(x), expected)
    np.testing.assert_array_equal(support_of(np.concatenate([ANNULUS, ANNULUS])).contains(x), expected)
    once, twice = support_of(ANNULUS[:200]), support_of(np.repeat(ANNULUS[:200], 2, axis=0))
    assert (twice.num_neighbours, twice.radius) == (once.num_neighbours, once.radius)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_the_cost_of_the_support_grows_with_the_number_of_points_and_not_with_its_square(dim):
    """Eight times the points take 8 times as long (measured), and would take 64 times."""

    def seconds(num):
        points, found = RNG.standard_normal((num, dim)), []
        for _ in range(5):
            start = time.process_time()
            support_of(points)
            found.append(time.process_time() - start)
        return min(found)

    assert seconds(40_000) < 24 * seconds(5000)


def test_chunks_are_a_matter_of_memory_only():
    few = replace(SDE_2D.sde, chunk=3).drift(X)
    assert few.shape == X.shape
    np.testing.assert_allclose(few, SDE_2D.drift(X), rtol=1e-4)


def test_small_questions_are_answered_on_one_thread_and_the_number_of_threads_is_restored():
    seen = []

    class Watched(FIMSDE):
        def evaluate(self, *arguments, **options):
            seen.append(torch.get_num_threads())
            return super().evaluate(*arguments, **options)

    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        estimate(OBS, Watched(TINY, seed=0).eval()).fields(X)
        assert seen == [1]
        assert torch.get_num_threads() == 2
        with threads_for(1e12):
            assert torch.get_num_threads() == 2
        with pytest.raises(RuntimeError), threads_for(1.0):
            raise RuntimeError
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_small_linear_algebra_runs_on_one_thread_and_leaves_no_trace():
    """Inside, every library of NumPy and SciPy has one thread; after it as many as before."""
    before = blas_threads()
    assert before
    with blas_threads_for(1000):
        assert set(blas_threads()) == {1}
    assert blas_threads() == before
    with blas_threads_for(10**6):
        assert blas_threads() == before


# Measurement noise


def noisy_walk(noise_std):
    """An Ornstein-Uhlenbeck process at gaps of 0.01, its components observed with noise of different size."""
    clean = simulate(OrnsteinUhlenbeck(dim=2), np.zeros((1, 2)), np.arange(10_000) * 0.01, seed=3).values[0]
    noise = np.random.default_rng(4).standard_normal(clean.shape)
    return read(clean + np.array(noise_std) * noise, dt=0.01)


def test_the_standard_deviation_of_the_noise_is_in_units_of_the_data():
    """v = -mean(r_i r_{i+1}) has the variance ((g h + 2 v)² + 3 v²) / n for normal r with these two covariances.

    False alarms: 1e-6 for each component, 4.9 standard errors.
    """
    v = np.array([0.05, 0.1]) ** 2
    data = noisy_walk(np.sqrt(v))
    error = np.sqrt(((0.7**2 * 0.01 + 2 * v) ** 2 + 3 * v**2) / 10_000)
    found = estimate_sde(data).noise_std
    assert (np.abs(found**2 - v) < 4.9 * error).all()
    assert (np.abs(found**2 - 1.5 * v) > 4.9 * error).all()  # it could fail
    moved = estimate_sde(data.with_units(scale=np.array([10.0, 0.1]), time_scale=3.0)).noise_std
    np.testing.assert_allclose(moved, found * [10.0, 0.1], rtol=1e-4)


def test_a_component_without_noise_shows_hardly_any_and_a_model_that_does_not_read_it_says_nothing():
    """The standard error of v is g h / sqrt(n) there; False alarms: 1e-6."""
    found = estimate_sde(noisy_walk([0.0, 0.1])).noise_std
    assert found[0] ** 2 < 4.9 * 0.7**2 * 0.01 / np.sqrt(10_000) < found[1] ** 2
    assert estimate_sde(OBS, MODEL).noise_std is None
