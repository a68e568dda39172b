"""Laws E1 to E12: what an estimate must not depend on, and what it must follow. Random weights, float64.

A wrong formula breaks them at any weights, so no training is needed; one test makes sure that the laws can fail.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import Transitions, to_transitions
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.paper import to_tokens
from fimsde.results.make import estimate

pytestmark = pytest.mark.filterwarnings("ignore:.*outside the data", "ignore:the observations make")

TINY = ModelConfig.preset("tiny")
MODEL = FIMSDE(TINY, seed=1).double().eval()
STARTS = FIMSDE(replace(TINY, statistics="starts"), seed=1).double().eval()
LENGTHS = (60, 45, 80)
FEW = settings(max_examples=12)
X0, TIMES = np.array([0.2, -1.0]), np.linspace(0.0, 0.2, 6)


def make_paths(dim, lengths=LENGTHS, seed=0):
    """Mean-reverting paths with scales of their own, on irregular dyadic times (so that shifts are exact)."""
    rng = np.random.default_rng(seed)
    values = [rng.standard_normal(dim)[None] for _ in lengths]
    for k, n in enumerate(lengths):
        steps = 0.3 * rng.standard_normal((n - 1, dim))
        for step in steps:
            values[k] = np.vstack([values[k], 0.9 * values[k][-1] + step])
    times = [np.cumsum(rng.integers(1, 40, n)) / 1024 for n in lengths]
    return [v * [2.0, 0.5, 7.0][:dim] + [1.0, -3.0, 0.0][:dim] for v in values], times


def observations(dim=2, **options):
    values, times = make_paths(dim, **options)
    return read(values, times=times)


OBS = observations()
PLAIN, PLAIN_STARTS = estimate(OBS, MODEL), estimate(OBS, STARTS)
X = OBS.grid(5, widen=0.3)


def log_uniform(low, high):
    return st.floats(np.log(low), np.log(high)).map(lambda u: float(np.exp(u)))


def pairs(numbers):
    return st.tuples(numbers, numbers).map(np.array)


def assert_close(found, expected, rtol=1e-10):
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * np.max(np.abs(expected)))


def assert_same(found, expected, x=X, rtol=1e-10):
    """Two estimates say the same at x."""
    assert_close(found.drift(x), expected.drift(x), rtol)
    assert_close(found.diffusion(x), expected.diffusion(x), rtol)
    assert_close(found.uncertainty(x), expected.uncertainty(x), rtol)
    np.testing.assert_array_equal(found.inside(x), expected.inside(x))


def difference(found, expected, x=X):
    """Largest difference of two estimates, as a share of the size of each field."""
    shares = []
    for field in ("drift", "diffusion"):
        a, b = getattr(found, field)(x), getattr(expected, field)(x)
        shares.append(np.abs(a - b).max(axis=0) / np.sqrt(np.mean(b**2, axis=0)))
    return np.max(shares)


def test_the_laws_can_fail_because_the_estimate_depends_on_every_part_of_the_data():
    values, times = make_paths(2)
    values[1][20] += 0.1
    assert difference(estimate(read(values, times=times), MODEL), PLAIN) > 1e-5
    values, times = make_paths(2)
    times[0][30:] += 1.0
    assert difference(estimate(read(values, times=times), MODEL), PLAIN) > 1e-5
    assert difference(PLAIN, PLAIN, X) == 0
    assert np.abs(PLAIN.drift(X) - PLAIN.drift(X[::-1])).max() > 1e-3


@FEW
@given(a=pairs(log_uniform(1e-9, 1e9)), b=pairs(st.floats(-100, 100)), c=log_uniform(1e-6, 1e6))
def test_e1_e2_the_estimate_follows_a_change_of_units(a, b, c):
    moved, x = estimate(OBS.with_units(scale=a, offset=a * b, time_scale=c), MODEL), a * X + a * b
    assert_close(moved.drift(x), a / c * PLAIN.drift(X))
    assert_close(moved.diffusion(x), a / np.sqrt(c) * PLAIN.diffusion(X))
    assert_close(moved.uncertainty(x), PLAIN.uncertainty(X))
    np.testing.assert_array_equal(moved.inside(x), PLAIN.inside(X))


@FEW
@given(a=pairs(log_uniform(1e-9, 1e9)), b=pairs(st.floats(-100, 100)), c=log_uniform(1e-6, 1e6))
def test_e1_e2_simulated_paths_follow_a_change_of_units(a, b, c):
    moved = estimate(OBS.with_units(scale=a, offset=a * b, time_scale=c), MODEL)
    found = moved.simulate(a * X0 + a * b, c * TIMES, num_paths=2, seed=3).values
    expected = PLAIN.simulate(X0, TIMES, num_paths=2, seed=3).values
    assert_close((found - a * b) / a, expected, rtol=1e-9)


@given(shift=st.integers(-(10**9), 10**9))
def test_e3_the_clock_may_start_anywhere(shift):
    """Exactly: whole numbers added to dyadic times leave every gap as it was."""
    moved = estimate(replace(OBS, times=OBS.times + shift), MODEL)
    np.testing.assert_array_equal(moved.drift(X), PLAIN.drift(X))
    np.testing.assert_array_equal(moved.diffusion(X), PLAIN.diffusion(X))


@given(order=st.permutations(range(len(LENGTHS))))
def test_e4_the_order_of_paths_does_not_matter(order):
    values, times = make_paths(2)
    shuffled = read([values[k] for k in order], times=[times[k] for k in order])
    assert_same(estimate(shuffled, MODEL), PLAIN)


@FEW
@given(seed=st.integers(0, 2**32 - 1))
def test_e4_the_order_of_transitions_does_not_matter(seed):
    tr = to_transitions(OBS)
    rows = np.random.default_rng(seed).permutation(len(tr))
    shuffled = Transitions(tr.y[rows], tr.dy[rows], tr.dtau[rows], tr.path[rows])
    for found, expected in zip(answers([shuffled], OBS), answers([tr], OBS), strict=True):
        assert_close(found, expected)


def answers(contexts, obs, model=MODEL, chunk=1024):
    """Drift, diffusion and U of a batch of contexts at the same normalised locations."""
    normaliser = fit_normaliser(to_transitions(obs))
    tokens = to_tokens([normaliser.transitions(tr) for tr in contexts], TINY.max_dim, torch.float64)
    z = torch.zeros(len(contexts), len(X), 3, dtype=torch.float64)
    z[..., :2] = torch.from_numpy(normaliser.states(X))
    with torch.no_grad():
        context = model.encode(tokens)
        drift, diffusion = model.evaluate(context, z, chunk=chunk)
        return drift.numpy(), diffusion.numpy(), model.log_variance(context, z, chunk=chunk).numpy()


def cut(k, i, copies=1):
    """OBS, repeated, with path k cut at its observation i, which both parts keep."""
    values, times = make_paths(2)
    values, times = values * copies, times * copies
    values[k : k + 1], times[k : k + 1] = [values[k][: i + 1], values[k][i:]], [times[k][: i + 1], times[k][i:]]
    return read(values, times=times)


@FEW
@given(k=st.integers(0, 2), i=st.integers(1, 43))
def test_e5_cutting_a_path_at_an_observation_changes_nothing_if_starts_are_counted(k, i):
    assert_same(estimate(cut(k, i), STARTS), PLAIN_STARTS)


@FEW
@given(k=st.integers(0, 2), i=st.integers(1, 43))
def test_e5_with_the_published_statistics_a_cut_counts_one_observation_twice(k, i):
    """The mean of n observations moves by z / (n + 1) standard deviations, and the scale accordingly. With the 185
    observations here that is at most 10 % of the size of the fields (measured: 4.5 %)."""
    divided = estimate(cut(k, i), MODEL)
    z = PLAIN.sde.normaliser.states(OBS.path(k)[1][i])
    moved = PLAIN.sde.normaliser.states(divided.sde.normaliser.offset)
    np.testing.assert_allclose(moved, z / (OBS.num_points + 1), rtol=1e-9)
    assert difference(divided, PLAIN) < 0.1


def test_e5_that_effect_falls_as_one_over_the_number_of_observations():
    """Repeating the data leaves the estimate as it is (E10) and makes the cut one observation among ten times more."""
    few, many = (difference(estimate(cut(0, 20, copies), MODEL), PLAIN) for copies in (1, 10))
    assert few > 1e-3
    assert 8 < few / many < 12


@given(extra=st.lists(st.integers(0, 9), min_size=3, max_size=3), fill=st.sampled_from([0.0, np.nan, 1e300]))
def test_e6_masked_padding_changes_nothing(extra, fill):
    values, times = make_paths(2)
    padded = [np.pad(v, ((0, n), (0, 0)), constant_values=fill) for v, n in zip(values, extra, strict=True)]
    longer = [np.concatenate([t, t[-1] + np.arange(1, n + 1)]) for t, n in zip(times, extra, strict=True)]
    mask = [np.arange(len(t)) < n for t, n in zip(longer, LENGTHS, strict=True)]
    found = estimate(read(padded, times=longer, mask=mask), MODEL)
    np.testing.assert_array_equal(found.drift(X), PLAIN.drift(X))
    np.testing.assert_array_equal(found.diffusion(X), PLAIN.diffusion(X))


def only_slots(model, dim):
    """The model with the given number of components alone: the rows and columns of the others are cut off."""
    small = FIMSDE(replace(model.config, max_dim=dim), seed=None)
    reads = ("features.y.weight", "features.dy.weight", "features.dy_sq.weight", "locations.weight")
    writes = tuple(f"{s}_operator.head.output.{p}" for s in ("drift", "diffusion") for p in ("weight", "bias"))
    weights = {
        name: w[:, :dim].clone() if name.endswith(reads) else w[:dim].clone() if name in writes else w
        for name, w in model.state_dict().items()
    }
    small.load_state_dict(weights, assign=True)
    return small.eval()


@pytest.mark.parametrize("dim", [1, 2])
def test_e7_a_small_system_is_the_same_alone_and_inside_three_slots(dim):
    obs = observations(dim)
    inside_three, alone = estimate(obs, MODEL), estimate(obs, only_slots(MODEL, dim))
    assert_same(inside_three, alone, obs.grid(5, widen=0.3))
    found, expected = (s.simulate(obs.values[0], TIMES, num_paths=3, seed=1).values for s in (inside_three, alone))
    assert_close(found, expected)


@pytest.mark.parametrize("dim", [1, 2])
def test_e7_in_simulation_the_padded_slots_stay_exactly_zero(dim):
    asked = []
    obs = observations(dim)
    with_hook = MODEL.locations.register_forward_pre_hook(lambda _, args: asked.append(args[1].numpy().copy()))
    try:
        estimate(obs, MODEL).simulate(obs.values[0], TIMES, num_paths=3, seed=1)
    finally:
        with_hook.remove()
    z = np.concatenate(asked, axis=1)
    assert np.all(z[..., dim:] == 0)
    assert np.ptp(z[..., :dim], axis=1).min() > 0


@FEW
@given(other=st.permutations([1, 2, 3]), position=st.integers(0, 3))
def test_e8_other_systems_in_the_batch_and_their_order_do_not_matter(other, position):
    batch = [to_transitions(observations(dim, lengths=(20 * dim, 30), seed=dim)) for dim in other]
    normaliser = fit_normaliser(to_transitions(OBS))
    normalised = [fit_normaliser(tr).transitions(tr) for tr in batch]
    normalised.insert(position, normaliser.transitions(to_transitions(OBS)))
    z = torch.randn(1, 20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    with torch.no_grad():
        together = MODEL(to_tokens(normalised, TINY.max_dim, torch.float64), z.expand(4, -1, -1))
        alone = MODEL(to_tokens([normalised[position]], TINY.max_dim, torch.float64), z)
    for found, expected in zip(together, alone, strict=True):
        assert_close(found[position].numpy(), expected[0].numpy())


@FEW
@given(seed=st.integers(0, 2**32 - 1), chunk=st.integers(3, 30))
def test_e9_e12_queries_do_not_see_each_other_nor_the_size_of_the_chunks(seed, chunk):
    rows = np.random.default_rng(seed).permutation(len(X))
    shuffled, chunked = PLAIN.drift(X[rows]), replace(PLAIN, sde=replace(PLAIN.sde, chunk=chunk))
    assert_close(shuffled, PLAIN.drift(X)[rows])
    assert_same(chunked, PLAIN)
    row = rows[:1]
    assert_close(PLAIN.diffusion(X[row]), PLAIN.diffusion(X)[row])
    assert_close(PLAIN.uncertainty(X[row]), PLAIN.uncertainty(X)[row])
    for found, expected in zip(answers([to_transitions(OBS)], OBS, chunk=chunk), PLAIN_ANSWERS, strict=True):
        assert_close(found, expected)


PLAIN_ANSWERS = answers([to_transitions(OBS)], OBS)


@given(copies=st.integers(2, 4))
def test_e10_data_given_several_times_say_the_same_as_once(copies):
    """Both kinds of attention take weighted means, so the model sees the empirical distribution of the transitions and
    not their number: repeating the data set changes nothing, not even U. Pinned, because it is also a limit: with the
    published architecture more of the same data cannot make U smaller."""
    values, times = make_paths(2)
    repeated = read(values * copies, times=times * copies)
    assert_same(estimate(repeated, MODEL), PLAIN)


@pytest.mark.parametrize(("preset", "bound"), [("tiny", 1e-5), ("paper", 1e-5)])
def test_e11_float32_agrees_with_float64(preset, bound):
    """Within 1e-5 of the size of the fields, for random weights of small and full size (measured: 1.3e-6)."""
    single = FIMSDE(ModelConfig.preset(preset), seed=1).eval()
    double = FIMSDE(ModelConfig.preset(preset), seed=1).double().eval()
    for dim in (1, 2, 3):
        obs = observations(dim).with_units(scale=1e-3, offset=5.0)
        x = obs.grid(4, widen=0.3)
        error = difference(estimate(obs, single), estimate(obs, double), x)
        assert 0 < error < bound, f"{preset}, {dim} dimensions: {error:.1e}"
