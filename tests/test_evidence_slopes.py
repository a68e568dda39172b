"""g goes with the slope of the drift: the factor in closed form, and in draws of an estimate."""

import numpy as np

from fimsde.evidence import ensemble
from fimsde.evidence.basis import Basis
from fimsde.evidence.estimate import fit
from fimsde.evidence.slopes import rate_beside
from test_evidence_infer import as_observations, ou_data


def test_the_product_that_data_know_is_kept():
    """g (1 - exp(-2 θ τ)) / 2 θ is the same for every drawn slope; with no window, and for constants, g is kept."""
    basis = Basis(2, 1)
    rates = np.array([0.0, 0.3, 1.0, 4.0])
    drawn = np.zeros((4, basis.size, 2))
    terms = basis.exponents.tolist()
    drawn[:, terms.index([1, 0]), 0] = -rates
    drawn[:, terms.index([1, 0]), 1] = -rates  # along another component: no slope of its own
    mean = drawn[2]
    places = np.random.default_rng(0).standard_normal((10, 2))
    found = rate_beside(basis, drawn, mean, places, np.array([0.2, 0.2]))
    kept = np.where(rates > 0, -np.expm1(-0.4 * rates) / np.where(rates > 0, 2.0 * rates, 1.0), 0.2)
    np.testing.assert_allclose(found[:, 0] * kept, kept[2], rtol=1e-6)
    np.testing.assert_allclose(found[:, 1], 1.0)
    np.testing.assert_allclose(rate_beside(basis, drawn, mean, places, np.zeros(2)), 1.0)


def test_draws_with_steeper_drifts_have_larger_diffusions(monkeypatch):
    """Of an autoregression, φ and its residual variance are independent, so that log g and the slope are not.

    The correlation of 2000 draws of independent numbers is below 4.9 / sqrt(2000) but for a chance of 1e-6.
    """
    sde = fit(as_observations(ou_data(1500, 3, gap=0.2)))
    ends = np.array([[-0.5], [0.5]])

    def correlation():
        drift, diffusion = sde.draws(2000).fields(ends)
        return np.corrcoef(drift[:, 0, 0] - drift[:, 1, 0], np.log(diffusion[:, :, 0]).mean(axis=1))[0, 1]

    assert correlation() > 4.9 / 2000**0.5
    monkeypatch.setattr(ensemble, "_follow_slopes", lambda fields, equation, doubts: None)
    assert abs(correlation()) < 4.9 / 2000**0.5
