"""Monomials in the agreed order, and the SDE that a draw of coefficients makes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.prior.config import PolynomialConfig
from fimsde.prior.polynomials import PolynomialSDE, draw_polynomials, monomials
from fimsde.simulate import simulate


def test_monomials_are_ordered_by_degree_then_by_variables():
    assert monomials(2, 2) == ((), (0,), (1,), (0, 0), (0, 1), (1, 1))
    assert monomials(3, 2)[4:] == ((0, 0), (0, 1), (0, 2), (1, 1), (1, 2), (2, 2))
    assert [len(monomials(dim, 3)) for dim in (1, 2, 3)] == [4, 10, 20]
    assert monomials(3, 2) == monomials(3, 4)[:10]


def by_hand(coefficients, table, x):
    return np.stack(
        [sum(c * np.prod(x[:, list(m)], axis=1) for c, m in zip(row, table, strict=True)) for row in coefficients],
        axis=1,
    )


@pytest.mark.parametrize("dim", [1, 2, 3, 4])
@pytest.mark.parametrize("degrees", [(3, 2), (4, 4), (1, 3), (0, 0)])
def test_drift_and_diffusion_are_the_polynomials_written_out(dim, degrees):
    rng = np.random.default_rng(dim)
    f, g = (rng.normal(size=(dim, len(monomials(dim, degree)))) for degree in degrees)
    f[:, ::3] = 0.0
    x = rng.normal(scale=3.0, size=(600, dim))  # more than the kernel evaluates at a time
    sde = PolynomialSDE(f, g)
    assert isinstance(sde, SDE)
    assert sde.dim == dim
    assert_allclose(sde.drift(x), by_hand(f, monomials(dim, degrees[0]), x), rtol=1e-12, atol=1e-10)
    squared = by_hand(g, monomials(dim, degrees[1]), x)
    assert_allclose(sde.diffusion(x) ** 2, np.maximum(squared, 0.0), rtol=1e-12, atol=1e-10)
    assert np.all(sde.diffusion(x)[squared < -1e-9] == 0.0)


def test_no_locations_give_no_values():
    sde = PolynomialSDE(np.ones((2, 10)), np.ones((2, 6)))
    assert sde.drift(np.empty((0, 2))).shape == (0, 2)


def test_locations_may_have_any_memory_layout():
    sde = PolynomialSDE(np.arange(20.0).reshape(2, 10), np.ones((2, 6)))
    x = np.random.default_rng(0).normal(size=(7, 4))
    assert np.array_equal(sde.drift(x[:, ::2]), sde.drift(np.ascontiguousarray(x[:, ::2])))


def test_coefficients_of_no_degree_are_an_error():
    with pytest.raises(ConfigError, match="5 coefficients per component in 2 dimensions belong to no degree"):
        PolynomialSDE(np.ones((2, 5)), np.ones((2, 6))).drift(np.zeros((1, 2)))


def test_a_draw_from_the_prior_can_be_simulated_like_any_sde():
    drift, diffusion = draw_polynomials(PolynomialConfig(1, 0), dim=2, num_draws=1, seed=3)
    sde = PolynomialSDE(drift[0], diffusion[0])
    paths = simulate(sde, np.zeros((5, 2)), np.linspace(0.0, 1.0, 11), substeps=2, seed=0)
    assert np.isfinite(paths.values).all()


@pytest.mark.parametrize("reading", ["authors", "paper"])
def test_draws_of_degree_four_have_all_its_monomials_and_depend_on_the_seed_only(reading):
    config = PolynomialConfig(4, 4, reading)
    drift, diffusion = draw_polynomials(config, dim=3, num_draws=2000, seed=5)
    assert drift.shape == diffusion.shape == (2000, 3, 35)
    assert np.all(np.any(drift != 0, axis=(0, 1)))
    again, _ = draw_polynomials(config, dim=3, num_draws=2000, seed=5)
    other, _ = draw_polynomials(config, dim=3, num_draws=2000, seed=6)
    assert np.array_equal(drift, again)
    assert not np.any((drift == other) & (drift != 0))
