"""Where origins are looked for: volumes of grids, ties, second looks; and further priors in closed form."""

import numpy as np
import pytest

from fimsde.bank import origin
from fimsde.bank.posterior import Posterior, shrunk


def search(evidence, dim=2, shares=1):
    """Places asked at in every round, and the scores, for a function of the place that gives log evidence."""
    rounds = []

    def average(places):
        rounds.append(places)
        found = np.array([evidence(place) for place in places]).reshape(len(places), 1, shares)
        return found, np.zeros((len(places), 1, shares, dim, 1))

    scores, _ = origin._around_the_best(origin._grid(dim), average)
    return rounds, scores


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_places_stand_for_their_share_of_the_volume(dim):
    """Spacings are halved in each round, so a place of round t has 2^-(t dim) of the volume of one of the grid."""
    rounds, scores = search(lambda place: 0.0, dim)
    expected = np.concatenate([np.full(len(places), -turn * dim * np.log(2)) for turn, places in enumerate(rounds)])
    np.testing.assert_allclose(scores[:, 0, 0], expected, atol=1e-12)
    spacing = np.diff(np.unique(rounds[0][:, 0])).min()
    for turn, places in enumerate(rounds[1:], 1):
        steps = np.unique(np.round(np.abs(places - places.mean(axis=0)) / spacing * 2**turn, 9))
        assert steps.tolist() == [0.0, 1.0] if dim > 1 else [1.0]


def test_the_best_origin_is_found_to_a_fraction_of_the_spacing():
    target = np.array([0.83, -0.41])
    rounds, _ = search(lambda place: -50 * np.sum((place - target) ** 2))
    assert np.abs(rounds[-1].mean(axis=0) - target).max() < 0.03


def test_rounding_does_not_choose_between_places_that_are_equally_good():
    first = origin._grid(2)[0]
    rounds, _ = search(lambda place: 3.0 + 1e-9 * place.sum())
    for places in rounds[1:]:
        np.testing.assert_allclose(places.mean(axis=0), first, atol=1e-12)


def test_grids_are_refined_around_the_best_place_of_the_largest_share():
    """Two shares of terms with two best places."""
    targets = np.array([[1.0, 1.0], [-1.0, 0.5]])
    rounds, _ = search(lambda place: -50 * np.sum((place - targets) ** 2, axis=1), shares=2)
    assert np.abs(rounds[-1].mean(axis=0) - targets[1]).max() < 0.03


def test_a_place_that_is_good_for_one_share_of_terms_is_looked_at_again():
    places = np.arange(4.0)[:, None]
    evidence = np.array([[0.0, -50.0], [-50.0, 0.0], [-7.0, -50.0], [-5.0, -50.0]])
    np.testing.assert_array_equal(origin._best_of(places, evidence)[:, 0], [0.0, 1.0, 3.0])


def test_a_further_prior_draws_coefficients_towards_zero_as_the_conjugate_formula_says():
    """One coefficient at a time: the mean is divided by 1 + variance / width²."""
    mean, precision = np.array([[2.0, -1.0], [0.5, 3.0]]), np.array([[4.0, 0.25], [1.0, 9.0]])
    width = np.array([0.5, 3.0])
    found = shrunk(Posterior(mean, np.stack([np.diag(p) for p in precision])), width)
    np.testing.assert_allclose(found.mean, mean / (1 + 1 / (precision * width[:, None] ** 2)), rtol=1e-12)
