"""What innovations tell of coefficients: a quadratic log likelihood around an equation.

log p(data | b) = const + r' b - b' A b / 2, with A the information and r = A b0 + score at the coefficients b0 of the
equation that made the predictions. Every hypothesis about the field is a prior of b, so that one set of sums serves
all of them, and their evidences can be compared.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.evidence import drift_kernels, variance_kernels
from fimsde.evidence.filter import Equation, Predictions, rows_of
from fimsde.shapes import Array, Float64

_ROUNDING = 1e-13  # of sums over thousands of products, relative; by hand: some hundred times that of a product


@dataclass(frozen=True, eq=False)
class Information:
    """The quadratic log likelihood r' b - b' A b / 2 of coefficients, independently for every component."""

    matrix: Float64[Array, "dim size size"]
    right: Float64[Array, "dim size"]

    def change(self, one: Float64[Array, "size dim"], other: Float64[Array, "size dim"]) -> float:
        """The log likelihood of other coefficients, less that of these."""
        return self.at(other) - self.at(one)

    def at(self, coefficients: Float64[Array, "size dim"]) -> float:
        """The log likelihood, summed over components."""
        return _quadratic(self.matrix, self.right, coefficients)

    def log_evidence(self, precision: Float64[Array, "dim size"]) -> Float64[Array, " dim"]:
        """log p(data) with independent normal priors: r' (A + P)⁻¹ r / 2 + log |P| / 2 - log |A + P| / 2."""
        values, axes, root = _axes(self.matrix, precision)
        right = np.einsum("cij,ci->cj", axes, self.right / root)
        return 0.5 * np.sum(right**2 / values - np.log(values), axis=1)

    def firm(self) -> "Information":
        """The same without what is below its rounding: of combinations that the sums cannot tell from zero."""
        own = np.einsum("cii->ci", self.matrix)
        return Information(self.matrix + _ROUNDING * own[:, :, None] * np.eye(own.shape[1]), self.right)

    def times(self, factor: float) -> "Information":
        """The log likelihood times a factor."""
        return Information(factor * self.matrix, factor * self.right)

    def polynomial(self, num_terms: int) -> "Information":
        """Of polynomials alone: all other coefficients are zero."""
        part = slice(0, num_terms)
        return Information(np.ascontiguousarray(self.matrix[:, part, part]), np.ascontiguousarray(self.right[:, part]))


def most_likely(
    matrix: Float64[Array, "*batch n n"], right: Float64[Array, "*batch n"], precision: Float64[Array, "*batch n"]
) -> Float64[Array, "*batch n"]:
    """(A + P)⁻¹ r with a diagonal P, also where A is so large that P is lost in its rounding."""
    values, axes, root = _axes(matrix, precision)
    along = np.einsum("...ij,...i->...j", axes, right / root) / values
    return np.einsum("...ij,...j->...i", axes, along) / root


def _axes(
    matrix: Float64[Array, "*batch n n"], precision: Float64[Array, "*batch n"]
) -> tuple[Float64[Array, "*batch n"], Float64[Array, "*batch n n"], Float64[Array, "*batch n"]]:
    """Eigenvalues and vectors of 1 + P^-1/2 A P^-1/2, and the root of P; one where the data say nothing."""
    root = np.sqrt(precision)
    told, axes = np.linalg.eigh(matrix / (root[..., :, None] * root[..., None, :]))
    return 1.0 + np.maximum(told, 0.0), axes, root


def _quadratic(matrix: Float64[Array, "dim n n"], right: Float64[Array, "dim n"], at: Float64[Array, "n dim"]) -> float:
    """r' b - b' A b / 2, summed over components."""
    return float(np.einsum("ci,ic->", right, at) - 0.5 * np.einsum("ic,cij,jc->", at, matrix, at))


def spent_parameters(
    data: Information,
    mean: Float64[Array, "size dim"],
    log_evidence: Float64[Array, " dim"],
    warm_log_evidence: Float64[Array, " dim"],
    warmth: float,
) -> Float64[Array, " dim"]:
    """p = tr(A Σ), Σ being the posterior covariance of all hypotheses together: parameters that a fit has spent.

    log Z(τ) = log ∫ p(b) exp(τ (r' b - b' A b / 2)) db has the slope r' m - m' A m / 2 - tr(A Σ) / 2 at τ = 1, where m
    is the posterior mean. The slope is taken between τ = 1 and a little less.

    Args:
        data: The log likelihood r' b - b' A b / 2.
        mean: m, over all hypotheses.
        log_evidence, warm_log_evidence: log Z at one, and at `warmth`.
        warmth: The other τ.
    """
    slope = (log_evidence - warm_log_evidence) / (1.0 - warmth)
    gain = np.einsum("ci,ic->c", data.right, mean) - 0.5 * np.einsum("ic,cij,jc->c", mean, data.matrix, mean)
    return 2.0 * (gain - slope)


def drift_information(found: Predictions, equation: Equation) -> Information:
    """sum ψ ψ' / S around the equation's drift; see `drift_kernels.drift_sums`."""
    basis = equation.drift_basis
    matrix, score = drift_kernels.drift_sums(
        found.places,
        found.spreads,
        found.carried,
        found.gain,
        found.whiten,
        found.innovation,
        found.begins,
        found.gaps,
        basis.arrays,
        basis.degree,
        basis.size,
    )
    return Information(matrix, score + np.einsum("cij,jc->ci", matrix, equation.drift))


def joint_drift_information(
    found: Predictions, equation: Equation
) -> tuple[Float64[Array, "dim_size dim_size"], Float64[Array, " dim_size"]]:
    """A and r of the coefficients of all components together, component by component; for polynomials alone."""
    basis = equation.drift_basis
    matrix, score = drift_kernels.joint_drift_sums(
        found.places,
        found.spreads,
        found.carried,
        found.gain,
        found.whiten,
        found.innovation,
        found.begins,
        found.gaps,
        basis.arrays,
        basis.degree,
    )
    return matrix, score + matrix @ equation.drift.T.ravel()


def innovations_after(
    found: Predictions, equation: Equation, drift: Float64[Array, "size dim"]
) -> Float64[Array, "rows dim"]:
    """ν_t - ψ_t' (b - b0): what the innovations would be with another drift, to first order."""
    basis, change = equation.drift_basis, drift - equation.drift
    return found.innovation - drift_kernels.responses(
        found.places,
        found.spreads,
        found.carried,
        found.gain,
        found.begins,
        found.gaps,
        basis.arrays,
        basis.degree,
        rows_of(basis, change),
    )


@dataclass(frozen=True, eq=False)
class VarianceInformation:
    """The quadratic log likelihood of the coefficients of g and, last, of the noise variance, for every component."""

    matrix: Float64[Array, "dim size2_plus_1 size2_plus_1"]
    right: Float64[Array, "dim size2_plus_1"]

    def change(self, one: Float64[Array, "size2_plus_1 dim"], other: Float64[Array, "size2_plus_1 dim"]) -> float:
        """The log likelihood of other coefficients and noise, less that of these."""
        return self.at(other) - self.at(one)

    def at(self, coefficients: Float64[Array, "size2_plus_1 dim"]) -> float:
        """The log likelihood of coefficients and noise, summed over components."""
        return _quadratic(self.matrix, self.right, coefficients)

    def log_noise(self, noise: Float64[Array, " dim"]) -> float:
        """log of what is left out of `of_rate` when every v is integrated over: sqrt(2π / A_vv) exp(r_v² / 2 A_vv)."""
        own, right = self.matrix[noise > 0, -1, -1], self.right[noise > 0, -1]
        return float(0.5 * (right**2 / own + np.log(2.0 * np.pi / own)).sum())

    def of_rate(self, noise: Float64[Array, " dim"]) -> Information:
        """Of g alone: with no noise where there is none, and with every noise that may be elsewhere.

        Integrating over a flat v takes A_gv A_vv⁻¹ A_vg away from the information of g.
        """
        matrix, right = self.matrix[:, :-1, :-1].copy(), self.right[:, :-1].copy()
        for c in np.flatnonzero(noise > 0):
            shared = self.matrix[c, :-1, -1] / self.matrix[c, -1, -1]
            matrix[c] -= np.outer(shared, self.matrix[c, -1, :-1])
            right[c] -= shared * self.right[c, -1]
        return Information(matrix, right)

    def given(self, noise: Float64[Array, " dim"]) -> Information:
        """Of g beside this noise, taken as known."""
        return Information(
            self.matrix[:, :-1, :-1].copy(), self.right[:, :-1] - self.matrix[:, :-1, -1] * noise[:, None]
        )

    def noise(self, rate_width: Float64[Array, " dim"]) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
        """Mean and standard error of the noise variance, given a wide prior of g."""
        size = self.matrix.shape[1]
        prior = np.zeros((len(rate_width), size))
        prior[:, :-1] = 1.0 / rate_width[:, None] ** 2
        mean, error = np.empty(len(rate_width)), np.empty(len(rate_width))
        for c, matrix in enumerate(self.matrix):
            scale = np.sqrt(np.diag(matrix) + prior[c])
            total = (matrix + np.diag(prior[c])) / np.outer(scale, scale)
            inverse = np.linalg.pinv(total, hermitian=True)[-1]
            mean[c] = inverse @ (self.right[c] / scale) / scale[-1]
            error[c] = np.sqrt(inverse[-1]) / scale[-1]
        return mean, error


def variance_information(
    found: Predictions, equation: Equation, innovation: Float64[Array, "rows dim"]
) -> VarianceInformation:
    """Around the equation's g and noise, for these innovations; see `variance_kernels.variance_sums`."""
    basis = equation.rate_basis
    matrix, score = variance_kernels.variance_sums(
        found.places,
        found.spreads,
        found.carried,
        found.gain,
        found.whiten,
        innovation,
        found.begins,
        found.gaps,
        basis.arrays,
        basis.degree,
        basis.size,
        rows_of(basis, equation.rate),
        equation.floor,
        equation.noise,
    )
    here = np.vstack([equation.rate, equation.noise])  # (size + 1, dim)
    return VarianceInformation(matrix, score + np.einsum("cij,jc->ci", matrix, here))
