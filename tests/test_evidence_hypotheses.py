"""How hypotheses are weighed together: kinds that the components of an equation share."""

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from fimsde.evidence.basis import Basis
from fimsde.evidence.hypotheses import (
    _OWN_WAY,
    DRIFT,
    PLACES,
    SMOOTH_DRIFT,
    SPARSE_DRIFT,
    _kinds,
    _largeness,
    _prior,
    _weights,
)
from fimsde.evidence.information import Information
from fimsde.evidence.smooth import LENGTHS

HELD = np.ones(len(SMOOTH_DRIFT), bool)
KINDS = _kinds(SPARSE_DRIFT, SMOOTH_DRIFT, 1 / 24)


def prior(held=HELD):
    return _prior(SPARSE_DRIFT, held, 1 / 24)


def random_evidence(dim, seed=0):
    return np.random.default_rng(seed).normal(0.0, 3.0, (len(DRIFT), dim))


def test_prior_probabilities_add_up_to_one_also_where_the_grid_holds_few_lengths():
    few = np.array([p.length > 1 for p in SMOOTH_DRIFT])
    for held in (HELD, few):
        assert np.isclose(prior(held).sum(), 1.0)
        assert (prior(held)[len(DRIFT) - 1 - len(held) : -1] > 0).tolist() == held.tolist()
    assert KINDS.sum(axis=0).tolist() == [1] * len(DRIFT)
    degrees = {max(p.degrees) for p in SPARSE_DRIFT}
    assert len(KINDS) == len(PLACES) * len(degrees) + len(LENGTHS) + 1


def test_a_component_follows_another_that_is_linear_around_zero():
    evidence = np.zeros((len(DRIFT), 2))
    linear = DRIFT.index("linear, origin zero")
    evidence[linear, 0] = 30.0
    weights, _ = _weights(evidence, prior(), KINDS)
    shared = (1 - _OWN_WAY) + _OWN_WAY * prior()[linear]
    assert np.isclose(weights[linear, 1], shared**2 + (1 - shared) * _OWN_WAY * prior()[linear])


def cubic_information(coefficients, num=400, noise=1.0, seed=0):
    """The log likelihood of a cubic whose values at standard normal places are seen with normal errors."""
    rng = np.random.default_rng(seed)
    features = Basis(1, 3).features(rng.standard_normal((num, 1)))
    values = features @ coefficients + noise * rng.standard_normal(num)
    return Information((features.T @ features / noise**2)[None], (features.T @ values / noise**2)[None])


def test_log_evidence_is_that_of_a_normal_law():
    """log N(y; 0, 1 + F P⁻¹ F') less log N(y; 0, 1): coefficients with a normal prior, seen through normal errors."""
    rng = np.random.default_rng(1)
    features, values = rng.standard_normal((30, 4)), rng.standard_normal(30)
    precision = np.array([[0.5, 2.0, 1.0, 7.0]])
    found = Information((features.T @ features)[None], (features.T @ values)[None]).log_evidence(precision)
    covariance = np.eye(30) + features / precision @ features.T
    expected = multivariate_normal.logpdf(values, cov=covariance) - multivariate_normal.logpdf(values, cov=np.eye(30))
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_terms_that_nearly_cancel_are_found_to_be_large():
    """A steep bistable drift of 12 x - 12 x³ natural sizes; negative control: one of a natural size."""
    natural = np.ones(1)
    large = _largeness(cubic_information(np.array([0.0, 12.0, 0.0, -12.0])), Basis(1, 3), natural)
    small = _largeness(cubic_information(np.array([0.0, 1.0, 0.0, -1.0])), Basis(1, 3), natural)
    assert large[0] == 16.0
    assert small[0] == 1.0


def test_one_component_by_itself_is_weighed_by_evidence_and_prior_alone():
    evidence = random_evidence(1)
    weights, total = _weights(evidence, prior(), KINDS)
    joint = evidence[:, 0] + np.log(prior())
    np.testing.assert_allclose(weights[:, 0], np.exp(joint - logsumexp(joint)), rtol=1e-12)
    np.testing.assert_allclose(total, logsumexp(joint), rtol=1e-12)


def test_weights_of_two_components_are_those_of_the_sum_over_all_pairs():
    """p(h1, h2) = sum_k p(k) prod_c [(1 - e) p(h_c | k) + e p(h_c)], summed by brute force; negative control: e = 1."""
    evidence = random_evidence(2)
    joint = np.zeros((len(DRIFT), len(DRIFT)))
    for kind in KINDS:
        share = prior() @ kind
        given = (1 - _OWN_WAY) * kind * prior() / share + _OWN_WAY * prior()
        joint += share * np.outer(given, given)
    joint *= np.exp(evidence[:, 0][:, None] + evidence[:, 1])
    joint /= joint.sum()
    weights, _ = _weights(evidence, prior(), KINDS)
    np.testing.assert_allclose(weights, np.stack([joint.sum(axis=1), joint.sum(axis=0)], axis=1), rtol=1e-10)
    apart = np.exp(evidence) * prior()[:, None]
    assert np.abs(weights - apart / apart.sum(axis=0)).max() > 0.01


def test_a_component_that_cannot_tell_follows_the_others():
    evidence = np.zeros((len(DRIFT), 2))
    smooth = DRIFT.index("smooth 0.7, mean zero")
    evidence[smooth, 0] = 30.0
    weights, _ = _weights(evidence, prior(), KINDS)
    same = [i for i, name in enumerate(DRIFT) if name.startswith("smooth 0.7,")]
    either = prior()[same].sum()
    shared = (1 - _OWN_WAY) + _OWN_WAY * either  # that a component is of the kind of the equation, given that
    assert np.isclose(weights[same, 1].sum(), shared**2 + (1 - shared) * _OWN_WAY * either)
