"""Comparing methods on one data set: the split, the order, and failures."""

import numpy as np
import pytest

import fimsde
from fimsde.analysis.compare import Comparison, compare, split
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError
from fimsde.methods import Method
from problems import OrnsteinUhlenbeck

OU = OrnsteinUhlenbeck(theta=1.5, sigma=0.7)
WRONG = FunctionSDE(1, lambda x: -1.5 * x, lambda x: np.full_like(x, 1.4))
EXPLOSIVE = FunctionSDE(1, lambda x: 1e3 + x**3, lambda x: np.full_like(x, 0.7))
NEGATIVE = FunctionSDE(1, lambda x: -1.5 * x, lambda x: np.full_like(x, np.nan))


def observe(num=2000, num_paths=1, dt=0.05):
    return fimsde.simulate(OU, np.zeros((num_paths, 1)), np.arange(num) * dt, seed=0).observations()


def given(name, sde):
    return Method(name, name, lambda obs, seed: sde)


def broken(obs, seed):
    raise RuntimeError("no luck\nsecond line")


OBS = observe(num=5000)
TRUTH = given("truth", OU)


@pytest.fixture(scope="module")
def found():
    methods = [given("wrong", WRONG), Method("broken", "broken", broken), given("explosive", EXPLOSIVE), TRUTH]
    return compare(OBS, [*methods, given("negative", NEGATIVE), "kramers-moyal"])


def score(comparison, name):
    return next(s for s in comparison.scores if s.method == name)


def test_the_true_equation_is_likelier_than_a_wrong_one_and_alike_in_its_paths(found):
    assert score(found, "truth").likelihood > score(found, "wrong").likelihood + 0.2
    assert score(found, "truth").p_value > 1e-3
    assert score(found, "wrong").p_value < 0.01
    assert score(found, "kramers-moyal").likelihood == pytest.approx(score(found, "truth").likelihood, abs=0.02)


def test_the_likelihood_of_the_truth_is_its_entropy(found):
    """Mean log density of a normal step: -ln(sqrt(2 pi e g dt)), within 5 standard errors sqrt(1 / (2 n))."""
    exact = -0.5 * np.log(2 * np.pi * np.e * 0.7**2 * 0.05)
    assert abs(score(found, "truth").likelihood - exact) < 5 * np.sqrt(0.5 / found.num_held_out)


def test_failures_are_listed_counted_and_last(found):
    assert score(found, "broken").failure == "RuntimeError: no luck\nsecond line"
    assert score(found, "broken").likelihood is None
    assert "diverged" in score(found, "explosive").failure
    assert score(found, "explosive").mmd is None
    assert score(found, "negative").likelihood == -np.inf
    assert found.num_failed == 3
    assert found.scores[0].method in {"truth", "kramers-moyal"}
    assert {s.method for s in found.scores[-2:]} == {"broken", "negative"}
    assert "second line" not in str(found)
    assert "3 failure(s)" in str(found)


def test_a_likelihood_of_minus_4e14_was_printed():
    """A method whose diffusion nearly vanishes somewhere: how many steps it excludes, and the last place."""
    somewhere = FunctionSDE(1, OU.drift, lambda x: np.where(np.abs(x) > 0.5, 1e-9, 0.7))
    nearly_everywhere = FunctionSDE(1, OU.drift, lambda x: np.where(np.abs(x) > 0.01, 1e-9, 0.7))
    methods = [given("dead", nearly_everywhere), given("holes", somewhere), given("wrong", WRONG), TRUTH]
    comparison = compare(OBS, [Method("broken", "broken", broken), *methods])
    assert [s.method for s in comparison.scores] == ["truth", "wrong", "holes", "dead", "broken"]
    holes = score(comparison, "holes")
    starts = split(OBS, 0)[1].values[:-1, 0]
    assert holes.num_impossible == np.sum(np.abs(starts) > 0.5) > 0
    assert f"impossible ({holes.num_impossible} steps)" in str(comparison)
    assert "e+" not in str(comparison)
    assert max(map(len, str(comparison).splitlines())) < 100


def test_the_end_of_every_path_is_held_out_when_there_are_few():
    obs = fimsde.read([np.arange(10.0), 100 + np.arange(20.0)], dt=1.0)
    kept, held_out = split(obs, 0)
    np.testing.assert_array_equal(kept.values[:, 0], [*range(8), *range(100, 116)])
    np.testing.assert_array_equal(held_out.values[:, 0], [7, 8, 9, *range(115, 120)])
    assert kept.num_transitions + held_out.num_transitions == obs.num_transitions


def test_whole_paths_are_held_out_when_there_are_enough():
    obs = observe(num=20, num_paths=30)
    kept, held_out = split(obs, 0)
    assert (kept.num_paths, held_out.num_paths) == (24, 6)
    paths = {obs.path(k)[1].tobytes() for k in range(30)}
    parts = [{part.path(k)[1].tobytes() for k in range(part.num_paths)} for part in (kept, held_out)]
    assert parts[0] | parts[1] == paths
    assert not parts[0] & parts[1]


def test_methods_never_see_what_is_held_out():
    seen = []
    compare(OBS, [Method("spy", "spy", lambda obs, seed: seen.append(obs) or OU)])
    assert seen[0].times.max() < split(OBS, 0)[1].times[1]


def test_irregular_and_unequal_paths_are_compared_too():
    rng = np.random.default_rng(0)
    grids = [np.cumsum(rng.uniform(0.02, 0.08, n)) for n in (300, 500, 120)]
    paths = fimsde.simulate(OU, np.zeros((3, 1)), grids, seed=0).observations()
    comparison = compare(paths, [TRUTH])
    assert comparison.num_pieces >= 6
    assert comparison.scores[0].p_value > 1e-3


def test_too_few_data_leave_the_discrepancy_out():
    comparison = compare(observe(num=40), [TRUTH])
    assert (comparison.num_pieces, comparison.scores[0].mmd) == (0, None)
    assert comparison.scores[0].failure is None
    assert "-" in str(comparison)


def test_the_same_seed_gives_the_same_comparison():
    a, b = (compare(OBS, [TRUTH], seed=3).scores[0] for _ in range(2))
    assert (a.likelihood, a.mmd, a.p_value) == (b.likelihood, b.mmd, b.p_value)


def test_unknown_and_missing_methods_are_refused():
    with pytest.raises(ConfigError, match="unknown method"):
        compare(OBS, ["magic"])
    with pytest.raises(ConfigError, match="neither drift nor diffusion"):
        compare(OBS, ["latentsde"])
    with pytest.raises(ConfigError, match="no methods"):
        compare(OBS, [])


def test_by_default_all_quick_methods_are_compared():
    comparison = fimsde.compare(observe(num=400))
    assert isinstance(comparison, Comparison)
    assert {s.method for s in comparison.scores} >= {"kramers-moyal", "bisde", "sparsegp"}
    assert all(s.likelihood is not None for s in comparison.scores)


def test_the_true_equation_was_ranked_last_on_noisy_data():
    """One that takes measurement noise for diffusion makes single steps likelier, but not paths."""
    clean = observe(num=4000, dt=0.02)
    noisy = fimsde.read(clean.values + 0.1 * np.random.default_rng(1).standard_normal(clean.values.shape), dt=0.02)
    blind = FunctionSDE(1, OU.drift, lambda x: np.full_like(x, np.sqrt(0.49 + 2 * 0.01 / 0.02)))
    found = compare(noisy, [given("blind", blind), TRUTH])
    assert [s.method for s in found.scores] == ["truth", "blind"]
    assert score(found, "truth").likelihood > score(found, "blind").likelihood + 0.02
    assert score(found, "truth").noise_std[0] == pytest.approx(0.1, rel=0.1)
