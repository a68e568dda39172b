"""Scales of the data by hand, and the readings of the paper that the fit pins."""

import numpy as np
import pytest

from fimsde.data.normalise import Normaliser, fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.equations.changes import AffineSDE
from fimsde.errors import InvalidObservationsError
from problems import OrnsteinUhlenbeck

Y = np.random.default_rng(0).standard_normal((4, 25, 2)) * [1.0, 40.0] + [3.0, -7.0]
T = np.cumsum(np.random.default_rng(1).uniform(0.1, 2.0, (4, 25)), axis=1)
STEPS = to_transitions(read(Y, times=T))


def test_statistics_of_observations_are_mean_and_population_deviation_of_every_observed_state():
    fitted = fit_normaliser(STEPS, "observations")
    flat = Y.reshape(-1, 2)
    np.testing.assert_allclose(fitted.offset, flat.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(fitted.scale, flat.std(axis=0, ddof=0), rtol=1e-13)


def test_statistics_of_starts_leave_the_last_state_of_every_path_out():
    """The paper: over the K (L - 1) starting points."""
    fitted = fit_normaliser(STEPS, "starts")
    starts = Y[:, :-1].reshape(-1, 2)
    np.testing.assert_allclose(fitted.offset, starts.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(fitted.scale, starts.std(axis=0, ddof=0), rtol=1e-13)


def test_the_mean_logarithm_of_normalised_gaps_is_that_of_the_target():
    gaps = np.diff(T, axis=1)
    for target in (0.01, 0.5):
        fitted = fit_normaliser(STEPS, target_gap=target)
        np.testing.assert_allclose(np.mean(np.log(fitted.transitions(STEPS).dtau)), np.log(target), rtol=1e-13)
        np.testing.assert_allclose(fitted.time_scale, target / np.exp(np.log(gaps).mean()), rtol=1e-13)


def test_times_enter_through_gaps_only():
    """Statistics of absolute times would see where the clock starts and how paths are spread over it."""
    moved = to_transitions(read(Y, times=T + 1000.0 * np.arange(4)[:, None]))
    np.testing.assert_allclose(fit_normaliser(moved).time_scale, fit_normaliser(STEPS).time_scale, rtol=1e-10)


@pytest.mark.parametrize("statistics", ["observations", "starts"])
def test_masked_entries_count_as_little_as_absent_ones(statistics):
    """One definition of the variance, with and without a mask."""
    mask = np.random.default_rng(2).random((4, 25)) < 0.7
    masked = fit_normaliser(to_transitions(read(np.where(mask[..., None], Y, 1e6), times=T, mask=mask)), statistics)
    values = [y[seen] for y, seen in zip(Y, mask, strict=True)]
    times = [t[seen] for t, seen in zip(T, mask, strict=True)]
    absent = fit_normaliser(to_transitions(read(values, times=times)), statistics)
    for field in ("offset", "scale", "time_scale"):
        np.testing.assert_array_equal(getattr(masked, field), getattr(absent, field))


def test_fields_change_units_as_the_equation_does():
    """Against `AffineSDE`, which is checked by hand: the normalised equation is the equation of z in time s."""
    fitted = fit_normaliser(STEPS)
    ou = OrnsteinUhlenbeck(dim=2)
    x = Y.reshape(-1, 2)
    normalised = AffineSDE(ou, fitted.scale, fitted.offset, fitted.time_scale)
    np.testing.assert_allclose(fitted.drift(ou.drift(x)), normalised.drift(fitted.states(x)), rtol=1e-12)
    np.testing.assert_allclose(fitted.diffusion(ou.diffusion(x)), normalised.diffusion(fitted.states(x)), rtol=1e-12)


def test_normalised_steps_are_the_steps_of_normalised_observations():
    fitted = fit_normaliser(STEPS)
    direct = to_transitions(read(fitted.states(Y), times=fitted.times(T)))
    steps = fitted.transitions(STEPS)
    for field in ("y", "dy", "dtau"):
        np.testing.assert_allclose(getattr(steps, field), getattr(direct, field), rtol=1e-10, atol=1e-13)
    np.testing.assert_array_equal(steps.path, STEPS.path)


@pytest.mark.parametrize("scale", [1e-150, 1e-100, 1e100, 1e150])
def test_no_scale_is_too_small_or_too_large(scale):
    """Squares of such values vanish or overflow, and an absolute floor on the deviation would replace it."""
    fitted = fit_normaliser(to_transitions(read(Y * scale, times=T)))
    np.testing.assert_allclose(fitted.scale, fit_normaliser(STEPS).scale * scale, rtol=1e-12)
    np.testing.assert_allclose(fitted.states(Y * scale).std(axis=(0, 1)), 1.0, rtol=1e-12)


def test_a_component_without_spread_has_no_scale():
    y = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 6.0]])  # the second one moves in the last, uncounted state only
    with pytest.raises(InvalidObservationsError, match="component 1 is constant at 5"):
        fit_normaliser(to_transitions(read(y, dt=1)), "starts")


def test_undoing_by_hand():
    norm = Normaliser(offset=np.array([3.0]), scale=np.array([2.0]), time_scale=4.0)
    one = np.ones((1, 1))
    assert norm.undo_states(one) == 5.0
    assert norm.undo_drift(one) == 8.0  # two units of state per quarter of a unit of time
    assert norm.undo_diffusion(one) == 4.0  # two units of state per half a root of time
