"""Laws of normalisation that hold for all data: round trips, identity, composition, and changes of units."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fimsde.data.normalise import Normaliser, fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions

RNG = np.random.default_rng(0)
OBS = read(RNG.standard_normal((3, 40, 2)) * [0.1, 9.0], times=np.cumsum(RNG.uniform(0.01, 0.3, (3, 40)), axis=1))
STEPS = to_transitions(OBS)
X = RNG.standard_normal((20, 2))


def log_uniform(low, high):
    return st.floats(np.log(low), np.log(high)).map(lambda u: float(np.exp(u)))


def pairs(numbers):
    return st.tuples(numbers, numbers).map(np.array)


scales = log_uniform(1e-9, 1e9)
shifts = st.floats(-100, 100)
clocks = log_uniform(1e-6, 1e6)
normalisers = st.builds(Normaliser, offset=pairs(shifts), scale=pairs(scales), time_scale=clocks)
statistics = st.sampled_from(["observations", "starts"])


def assert_close(found, expected, rtol=1e-10):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected)))


@given(norm=normalisers)
def test_undoing_gives_back_states_times_drift_and_diffusion(norm):
    x = X * norm.scale + norm.offset
    assert_close(norm.undo_states(norm.states(x)), x)
    assert_close(norm.undo_drift(norm.drift(X)), X)
    assert_close(norm.undo_diffusion(norm.diffusion(X)), X)


@given(a=pairs(scales), b=pairs(shifts), c=clocks, kind=statistics)
def test_fitting_normalised_data_gives_the_identity(a, b, c, kind):
    steps = to_transitions(OBS.with_units(scale=a, offset=a * b, time_scale=c))
    again = fit_normaliser(fit_normaliser(steps, kind).transitions(steps), kind)
    np.testing.assert_allclose(again.offset, 0.0, atol=1e-10)
    np.testing.assert_allclose(again.scale, 1.0, rtol=1e-10)
    np.testing.assert_allclose(again.time_scale, 1.0, rtol=1e-10)


@given(first=normalisers, second=normalisers)
def test_two_normalisations_are_one(first, second):
    both = Normaliser(
        offset=first.offset + first.scale * second.offset,
        scale=first.scale * second.scale,
        time_scale=first.time_scale * second.time_scale,
    )
    x = both.undo_states(X)
    for step in ("drift", "diffusion", "undo_drift", "undo_diffusion", "undo_states"):
        inner, outer = (first, second) if not step.startswith("undo") else (second, first)
        assert_close(getattr(outer, step)(getattr(inner, step)(X)), getattr(both, step)(X))
    assert_close(second.times(first.times(X)), both.times(X))
    # Subtracting offsets from numbers much larger than the scale loses digits: absolute, in units of what cancels.
    lost = 1e-13 * np.max(np.abs(x / both.scale))
    np.testing.assert_allclose(second.states(first.states(x)), both.states(x), atol=lost + 1e-10)


@given(a=pairs(scales), b=pairs(shifts), c=clocks, kind=statistics)
def test_a_change_of_units_moves_the_scales_and_leaves_normalised_steps_alone(a, b, c, kind):
    plain = fit_normaliser(STEPS, kind)
    moved_steps = to_transitions(OBS.with_units(scale=a, offset=a * b, time_scale=c))
    moved = fit_normaliser(moved_steps, kind)
    assert_close(moved.scale, a * plain.scale, rtol=1e-9)
    assert_close(moved.time_scale, plain.time_scale / c)
    before, after = plain.transitions(STEPS), moved.transitions(moved_steps)
    for field in ("y", "dy", "dtau"):
        np.testing.assert_allclose(getattr(after, field), getattr(before, field), rtol=1e-9, atol=1e-9)


@given(order=st.permutations(range(3)))
def test_the_order_of_paths_is_free(order):
    paths = [OBS.path(k) for k in order]
    moved = fit_normaliser(to_transitions(read([v for _, v in paths], times=[t for t, _ in paths])))
    plain = fit_normaliser(STEPS)
    np.testing.assert_allclose(moved.offset, plain.offset, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(moved.scale, plain.scale, rtol=1e-12)
    np.testing.assert_allclose(moved.time_scale, plain.time_scale, rtol=1e-12)


@given(at=st.integers(1, 38))
def test_a_path_cut_at_an_observation_leaves_the_statistics_of_starts_alone(at):
    t, v = OBS.path(0)
    others = [OBS.path(k) for k in (1, 2)]
    pieces = [(t[: at + 1], v[: at + 1]), (t[at:], v[at:]), *others]
    cut = fit_normaliser(to_transitions(read([v for _, v in pieces], times=[t for t, _ in pieces])), "starts")
    whole = fit_normaliser(STEPS, "starts")
    np.testing.assert_allclose(cut.offset, whole.offset, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(cut.scale, whole.scale, rtol=1e-12)
    np.testing.assert_allclose(cut.time_scale, whole.time_scale, rtol=1e-12)
