"""Random polynomials: the monomials, the law of the coefficients, and the SDE they make."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from math import comb

import numpy as np

from fimsde.errors import ConfigError
from fimsde.prior.config import MAX_DEGREE, PolynomialConfig
from fimsde.prior.law_kernels import Law, draw_many_polynomials
from fimsde.prior.noise_kernels import derive
from fimsde.prior.path_kernels import evaluate
from fimsde.shapes import Array, Float, Float64

Monomial = tuple[int, ...]  # its variables in increasing order: (0, 0, 2) is x0 x0 x2, () is the constant


@lru_cache(maxsize=64)
def monomials(dim: int, degree: int) -> tuple[Monomial, ...]:
    """All monomials up to a degree, degree by degree: 1, x0, x1, ..., x0 x0, x0 x1, ...

    The order of the coefficients everywhere. A lower degree is a prefix of a higher one.
    """
    return tuple(m for k in range(degree + 1) for m in combinations_with_replacement(range(dim), k))


@lru_cache(maxsize=64)
def polynomial_law(config: PolynomialConfig, dim: int) -> Law:
    """The law of the polynomials of one equation, as the compiled sampler takes it."""
    parent, variable = _products(dim, max(config.drift_degree, config.diffusion_degree))
    return Law(
        drift_first=_first_of_degree(dim, config.drift_degree),
        drift_most=config.most_degrees(config.drift_degree),
        diffusion_first=_first_of_degree(dim, config.diffusion_degree),
        diffusion_most=config.most_degrees(config.diffusion_degree),
        parent=parent,
        variable=variable,
        sparse_share=config.sparse_share,
    )


def _first_of_degree(dim: int, degree: int) -> Array:
    return np.array([0] + [comb(k + dim, dim) for k in range(degree + 1)])


@lru_cache(maxsize=64)
def _products(dim: int, degree: int) -> tuple[Array, Array]:
    """For each monomial the one that is shorter by its last variable, and that variable."""
    table = monomials(dim, degree)
    number = {monomial: index for index, monomial in enumerate(table)}
    parent = np.array([number[monomial[:-1]] for monomial in table])
    variable = np.array([monomial[-1] if monomial else 0 for monomial in table])
    return parent, variable


@dataclass(frozen=True, eq=False)
class PolynomialSDE:
    """dx_i = f_i(x) dt + sqrt(max(0, g_i(x))) dW_i with polynomials f_i and g_i.

    Coefficients are in the order of `monomials`. The clip means that the diffusion is exactly zero wherever g_i is
    negative, which in the prior is about half of all places.
    """

    drift_coefficients: Float[Array, "dim drift_terms"]
    diffusion_coefficients: Float[Array, "dim diffusion_terms"]  # of g, not of its root

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.drift_coefficients)

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f at each location."""
        return self._evaluate(self.drift_coefficients, x)

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Diffusion sqrt(max(0, g)) at each location."""
        return np.sqrt(np.maximum(self._evaluate(self.diffusion_coefficients, x), 0.0))

    def _evaluate(self, coefficients: Array, x: Array) -> Array:
        parent, variable = _products(self.dim, _degree(self.dim, coefficients.shape[1]))
        return evaluate(np.asarray(coefficients, np.float64), parent, variable, np.ascontiguousarray(x, np.float64))


def _degree(dim: int, num_terms: int) -> int:
    for degree in range(MAX_DEGREE + 1):
        if comb(degree + dim, dim) == num_terms:
            return degree
    raise ConfigError(
        f"{num_terms} coefficients per component in {dim} dimensions belong to no degree up to {MAX_DEGREE}; "
        f"expected one for each of `monomials({dim}, degree)`."
    )


def draw_polynomials(
    config: PolynomialConfig, dim: int, num_draws: int, seed: int
) -> tuple[Float[Array, "draws dim drift_terms"], Float[Array, "draws dim diffusion_terms"]]:
    """Coefficients of drift and squared diffusion before any rejection; an absent monomial has coefficient 0."""
    law = polynomial_law(config, dim)
    drift = np.empty((num_draws, dim, law.drift_first[-1]), np.float32)
    diffusion = np.empty((num_draws, dim, law.diffusion_first[-1]), np.float32)
    draw_many_polynomials(np.uint64(derive(np.uint64(seed), 0)), law, drift, diffusion)
    return drift, diffusion
