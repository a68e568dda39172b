"""Difficult data for the evidence estimator: finite answers with positive diffusion, or one clear error."""

import warnings

import numpy as np
import pytest

import fimsde
from fimsde.data.observations import read
from fimsde.errors import InvalidObservationsError
from fimsde.evidence.estimate import AUTO, STRICT, fit

BOTH = pytest.mark.parametrize("settings", [AUTO, STRICT], ids=["auto", "strict"])


def ou(num, dim=1, seed=0, gaps=0.05):
    """Exact draws of dx = -x dt + dW."""
    rng = np.random.default_rng(seed)
    gaps, x = np.broadcast_to(gaps, num - 1), np.zeros((num, dim))
    for i, gap in enumerate(gaps):
        x[i + 1] = np.exp(-gap) * x[i] + np.sqrt(-np.expm1(-2 * gap) / 2) * rng.standard_normal(dim)
    return x


def check_answer(obs, settings):
    found = fit(obs, settings)
    x = obs.grid(5, widen=0.5)
    drift, diffusion = found.fields(x)
    assert np.isfinite(drift).all()
    assert np.isfinite(diffusion).all()
    assert (diffusion > 0).all()
    assert np.isfinite(found.noise_std).all()
    assert (found.noise_std >= 0).all()
    return found


@BOTH
@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("num", [3, 5, 10, 30])
def test_few_observations_have_an_answer(num, dim, settings):
    check_answer(read(ou(num, dim), dt=0.05), settings)


@BOTH
@pytest.mark.parametrize("unit", [1e-300, 1e-150, 1e150, 1e300])
def test_tiny_and_huge_units_have_the_answer_of_plain_ones(unit, settings):
    x = ou(200, 2)
    plain = check_answer(read(x, dt=0.05), settings)
    other = check_answer(read(x * unit, dt=0.05), settings)
    at = np.array([[0.3, -0.2]])
    np.testing.assert_allclose(other.diffusion(at * unit) / unit, plain.diffusion(at), rtol=1e-6)


@BOTH
@pytest.mark.parametrize("unit", [1e-150, 1e150])
def test_tiny_and_huge_units_of_time_have_an_answer(unit, settings):
    check_answer(read(ou(200), times=np.arange(200) * unit), settings)


@BOTH
@pytest.mark.parametrize("length", [3, 100])
def test_duplicated_paths_have_an_answer(length, settings):
    check_answer(read([ou(length, 2)] * 30, dt=0.05), settings)


@BOTH
@pytest.mark.parametrize("dim", [1, 2])
def test_gaps_that_span_six_decades_have_an_answer(dim, settings):
    gaps = 10.0 ** np.random.default_rng(0).uniform(-5, 1, 400)
    check_answer(read(ou(401, dim, gaps=gaps), times=np.append(0.0, np.cumsum(gaps))), settings)


TIME = np.arange(300) * 0.1
DETERMINISTIC = {
    "circle": np.stack([np.cos(TIME), np.sin(TIME)], axis=1),
    "circle, rounded": np.stack([np.cos(TIME), np.sin(TIME)], axis=1).round(3),
    "decay": np.exp(-TIME[:100]),
    "line": TIME,
}


@BOTH
@pytest.mark.parametrize("name", DETERMINISTIC)
def test_data_without_noise_have_a_small_diffusion_that_is_not_zero(name, settings):
    obs = read(DETERMINISTIC[name], dt=0.1)
    found = check_answer(obs, settings)
    assert (found.diffusion(obs.values) < 0.05 * obs.values.std(axis=0)).all()


@pytest.mark.parametrize("dim", [1, 2])
def test_noise_larger_than_all_motion_is_no_chain_of_steps(dim):
    """Noise of variance 2 on states of variance 1/2: correlations of 0.2 that last are no relaxation within a gap.

    Rates are known to about 0.4 from 100 relaxation times, noise to 1.3 percent. Control: without what lasts, at
    gaps of one and a half relaxation times, the answer is the chain that one sees.
    """
    rng = np.random.default_rng(4)
    found = fit(read(ou(3000, dim, seed=3) + 2**0.5 * rng.standard_normal((3000, dim)), dt=0.05))
    assert not found.inference.is_coarse
    np.testing.assert_allclose(found.noise_std, 2**0.5, rtol=0.08)  # six standard errors
    there, here = found.drift(np.stack([-np.ones(dim), np.ones(dim)]))
    assert ((there - here) / 2 < 2.5).all()
    assert fit(read(ou(1500, dim, gaps=1.5), dt=1.5)).inference.is_coarse


@BOTH
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_white_data_are_an_euler_chain_towards_the_mean(dim, settings):
    """y' = y + f + sqrt(g) z with f = -y and g = 1 has white data: both within a few standard errors."""
    obs = read(np.random.default_rng(0).standard_normal((500, dim)), dt=1.0)
    found = check_answer(obs, settings)
    inside = 0.5 * np.eye(dim)
    np.testing.assert_allclose(found.drift(inside), -inside, atol=0.5)
    np.testing.assert_allclose(found.diffusion(inside), 1.0, atol=0.25)
    assert (found.noise_std == 0).all()


@BOTH
@pytest.mark.parametrize("kind", ["two values", "integers", "heavy tails", "outlier", "far from zero"])
def test_odd_data_have_an_answer(kind, settings):
    rng = np.random.default_rng(0)
    data = {
        "two values": rng.integers(0, 2, 300).astype(float),
        "integers": np.cumsum(rng.integers(-1, 2, 500)).astype(float),
        "heavy tails": np.cumsum(rng.standard_cauchy((300, 2)), axis=0),
        "outlier": np.where(np.arange(300) == 150, 1e6, ou(300)[:, 0]),
        "far from zero": ou(300)[:, 0] + 1e9,
    }[kind]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*dominated by outliers")
        obs = read(data, dt=1.0)
    check_answer(obs, settings)


@BOTH
def test_what_cannot_be_estimated_is_refused_with_one_clear_error(settings):
    with pytest.raises(InvalidObservationsError, match="9 components"):
        fit(read(ou(100, 9), dt=0.05), settings)
    moving = ou(100)
    with pytest.raises(InvalidObservationsError, match="linear function"):
        fit(read(np.hstack([moving, 2 * moving + 1]), dt=0.05), settings)
    halves = [np.hstack([moving, np.full((100, 1), level)]) for level in (0.0, 1.0)]
    with pytest.raises(InvalidObservationsError, match="constant within"):
        fit(read(halves, dt=0.05), settings)


def test_far_outside_the_data_fields_are_constant_and_nowhere_nonsense():
    obs = read(ou(300), dt=0.05)
    found = fit(obs, AUTO)
    width = np.ptp(obs.values)
    ends = obs.values.max() + width * np.array([[1.0], [5.0], [1e6]])
    assert np.ptp(found.drift(ends)) == 0
    assert np.ptp(found.diffusion(ends)) == 0
    drift, diffusion = found.fields(np.array([[np.nan]]))
    assert np.isnan(drift).all()
    assert np.isnan(diffusion).all()
    assert found.supports(np.array([[obs.values.mean()], [1e3]])).tolist() == [True, False]


def test_both_methods_can_be_fitted_by_name():
    """As `fimsde.fit`, with the same answers as the functions behind the names."""
    obs, x = read(ou(200), dt=0.05), np.array([[0.1], [0.5]])
    for name, settings in (("evidence", AUTO), ("evidence-unknown-origin", STRICT)):
        np.testing.assert_array_equal(fimsde.fit(obs, name).drift(x), fit(obs, settings).drift(x))
