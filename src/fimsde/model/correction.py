"""A polynomial that finetuning may add to a model: what no mixture of its answers can reach, learnt from one data set.

The candidates of a primed model share the errors of their regressions, above all those of long gaps, and mixtures keep
what they share. A correction starts at zero and belongs to the data set it was trained on.
"""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from fimsde.bank.monomials import evaluate, exponents
from fimsde.shapes import Array, Float64

DRIFT_DEGREE, DIFFUSION_DEGREE = 3, 2
_WIDEN = 0.25  # of the range of the data on every side; beyond it the correction is continued as a constant
_FAR = 8.0  # standard deviations; the same before there are data
_RIDGE = 1e-6  # of the mean square of a monomial, so that terms without data stay finite
_LARGEST = 8.0  # log of the largest factor on the diffusion
_DISTANT = 3.0  # standard deviations; an outlier must not make the diffusion there explode
_GAIN = 10.0  # coefficients are stored in units so large that they may move faster than weights at one learning rate


class Correction(nn.Module):
    """Polynomials in coordinates in which they are orthonormal over the data, so that all coefficients learn alike.

    Args:
        max_dim: State components of the model.
    """

    low: Tensor
    high: Tensor
    size: Tensor
    added: Tensor
    drift_basis: Tensor
    diffusion_basis: Tensor

    def __init__(self, max_dim: int) -> None:
        super().__init__()
        terms, terms2 = (len(exponents(max_dim, degree)) for degree in (DRIFT_DEGREE, DIFFUSION_DEGREE))
        self.drift_coefficients = nn.Parameter(torch.empty(terms, max_dim))  # in units of ten times `size`
        self.diffusion_coefficients = nn.Parameter(torch.empty(terms2, max_dim))  # of the log of a factor
        self.register_buffer("low", torch.empty(max_dim))
        self.register_buffer("high", torch.empty(max_dim))
        self.register_buffer("size", torch.empty(max_dim))
        self.register_buffer("added", torch.empty(max_dim))
        self.register_buffer("drift_basis", torch.empty(terms, terms))
        self.register_buffer("diffusion_basis", torch.empty(terms2, terms2))

    @torch.no_grad()
    def fit(self, states: Float64[Array, "points max_dim"], size: Float64[Array, " max_dim"]) -> None:
        """Set the coordinates, and the correction to zero.

        Args:
            states: Normalised states of the data, padded with zeros.
            size: Of the drift there, per component: the unit of its correction.
        """
        self.reset()
        low, high = states.min(axis=0), states.max(axis=0)
        margin = _WIDEN * (high - low)
        values = {
            "low": low - margin,
            "high": high + margin,
            "size": size,
            "drift_basis": _orthonormal(evaluate(states, DRIFT_DEGREE)),
            "diffusion_basis": _orthonormal(evaluate(states / np.sqrt(1 + (states / _DISTANT) ** 2), DIFFUSION_DEGREE)),
        }
        for name, value in values.items():
            getattr(self, name).copy_(torch.from_numpy(value))

    @torch.no_grad()
    def reset(self) -> None:
        """A correction of zero, in plain monomials of normalised states."""
        for tensor, value in ((self.low, -_FAR), (self.high, _FAR), (self.size, 1.0)):
            tensor.fill_(value)
        for basis in (self.drift_basis, self.diffusion_basis):
            nn.init.eye_(basis)
        for zero in (self.drift_coefficients, self.diffusion_coefficients, self.added):
            zero.zero_()

    def drift(
        self, drift: Float[Tensor, "batch queries max_dim"], x: Float[Tensor, "batch queries max_dim"]
    ) -> Float[Tensor, "batch queries max_dim"]:
        """The drift with its correction at x."""
        return drift + self.size * (self.drift_features(x) @ (_GAIN * self.drift_coefficients))

    def drift_features(self, x: Float[Tensor, "batch queries max_dim"]) -> Float[Tensor, "batch queries terms"]:
        """The polynomials at x whose coefficients are learnt."""
        return self._features(x, DRIFT_DEGREE) @ self.drift_basis

    def diffusion(
        self, diffusion: Float[Tensor, "batch queries max_dim"], x: Float[Tensor, "batch queries max_dim"]
    ) -> Float[Tensor, "batch queries max_dim"]:
        """The diffusion plus a constant that is not negative, times a positive factor."""
        log_factor = self.diffusion_features(x) @ (_GAIN * self.diffusion_coefficients)
        return (diffusion + self.added) * torch.exp(_LARGEST * torch.tanh(log_factor / _LARGEST))

    def diffusion_features(self, x: Float[Tensor, "batch queries max_dim"]) -> Float[Tensor, "batch queries terms"]:
        """The polynomials at x whose coefficients are learnt, in coordinates that hardly tell distant places apart."""
        return self._features(x / torch.sqrt(1 + (x / _DISTANT) ** 2), DIFFUSION_DEGREE) @ self.diffusion_basis

    @torch.no_grad()
    def scale_diffusion(self, log_factor: Float[Tensor, " dim"]) -> None:
        """Multiply the diffusion by a factor in all places; exact if it had no factor before."""
        raw = _LARGEST * torch.atanh(log_factor / _LARGEST)
        constant = self.diffusion_basis[0, 0]  # the first of the orthonormal polynomials is this number
        self.diffusion_coefficients[0, : len(raw)] += (raw / (constant * _GAIN)).to(constant)

    @torch.no_grad()
    def add_diffusion(self, constant: Float[Tensor, " dim"]) -> None:
        """Set the constant that is added to the diffusion: no factor helps where the model says that there is none."""
        self.added.zero_()
        self.added[: len(constant)] = constant.to(self.added)

    @torch.no_grad()
    def shape_diffusion(self, coefficients: Float[Tensor, "terms dim"]) -> None:
        """Add polynomials with these coefficients to the log of the factor on the diffusion."""
        self.diffusion_coefficients[:, : coefficients.shape[1]] += (coefficients / _GAIN).to(self.size)

    @torch.no_grad()
    def add_drift(self, coefficients: Float[Tensor, "terms dim"]) -> None:
        """Add polynomials with these coefficients, in units of `size`, to the drift."""
        self.drift_coefficients[:, : coefficients.shape[1]] += (coefficients / _GAIN).to(self.size)

    def _features(self, x: Float[Tensor, "batch queries max_dim"], degree: int) -> Float[Tensor, "batch queries terms"]:
        x = torch.minimum(torch.maximum(x, self.low), self.high)
        factors = [torch.ones_like(x), x, x * x, x * x * x][: degree + 1]
        powers = torch.stack(factors, -1)  # (batch, queries, max_dim, degree + 1)
        columns = exponents(x.shape[-1], degree)
        out = powers[..., 0, :][..., columns[:, 0]]
        for j in range(1, x.shape[-1]):
            out = out * powers[..., j, :][..., columns[:, j]]
        return out


def num_correction_parameters(max_dim: int) -> int:
    """Coefficients of both polynomials."""
    return max_dim * sum(len(exponents(max_dim, degree)) for degree in (DRIFT_DEGREE, DIFFUSION_DEGREE))


def _orthonormal(values: Float64[Array, "points terms"]) -> Float64[Array, "terms terms"]:
    """The map after which the columns are orthonormal over the points."""
    gram = values.T @ values / len(values)
    root = np.linalg.cholesky(gram + _RIDGE * np.trace(gram) / len(gram) * np.eye(len(gram)))
    return np.linalg.inv(root).T
