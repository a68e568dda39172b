"""Kramers-Moyal: drift and variance rate as conditional moments of the increments, the textbook estimator.

    f(x) = E[dy | y = x] / dtau,        g(x) = E[(dy - f dtau)² | y = x] / dtau

The conditional mean is taken over bins of the state space, or by least squares on monomials. Squares are of residuals,
not of increments, which removes the bias dtau f² of the plain second moment. Gaps may differ from step to step.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from scipy.spatial import cKDTree

from fimsde.baselines.library import Library, LibraryField, LibrarySDE, design_matrix, monomials
from fimsde.data.observations import Observations
from fimsde.data.transitions import Transitions, to_transitions
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.shapes import Array, Bool, Float, Float64, Int


@dataclass(frozen=True)
class BinnedSettings:
    """Averages over equal boxes of the data's bounding box."""

    num_bins: int | None = None  # per axis; None: n^(1 / (dim + 2)), where bias and noise of a step function balance
    min_count: int = (
        10  # transitions a bin needs to be used; its variance has a relative error of sqrt(2 / (count - 1))
    )
    outside: Literal["nearest", "nan"] = "nearest"  # answer outside the bins used: the nearest one's, or NaN

    def __post_init__(self) -> None:
        if self.num_bins is not None and self.num_bins < 1:
            raise ConfigError(f"num_bins is {self.num_bins}; at least one bin per axis is needed.")
        if self.min_count < 2:
            raise ConfigError(f"min_count is {self.min_count}; a variance needs at least 2 transitions in a bin.")
        if self.outside not in ("nearest", "nan"):
            raise ConfigError(f"outside is {self.outside!r}; choose 'nearest' or 'nan'.")


@dataclass(frozen=True)
class PolynomialSettings:
    """Least squares on all monomials up to a total degree."""

    drift_degree: int = 3
    diffusion_degree: int = 2  # of g, the square of the diffusion
    clip: bool = False  # whether a negative g counts as 0; otherwise the diffusion is NaN there

    def __post_init__(self) -> None:
        if min(self.drift_degree, self.diffusion_degree) < 0:
            raise ConfigError(
                f"drift_degree is {self.drift_degree}, diffusion_degree {self.diffusion_degree}; expected 0 or more."
            )


BINNED = BinnedSettings()
POLYNOMIAL = PolynomialSettings()


@dataclass(frozen=True)
class BinnedSDE:
    """Piecewise constant estimates on the bins with enough data.

    Attributes:
        low: Lower corner of the grid of bins.
        width: Side lengths of a bin.
        position: Integer position of every bin used; its centre is low + (position + 1/2) * width.
        count: Transitions that start in each bin.
        drift_values: f per bin.
        drift_errors: Standard errors of f.
        diffusion_sq_values: g per bin; unbiased where f and g are constant over the bin.
        diffusion_sq_errors: Standard errors of g, for normal increments.
        outside: What a query outside these bins gets.
        names: Names of the state components.
    """

    low: Float64[Array, " dim"]
    width: Float64[Array, " dim"]
    position: Int[Array, "bins dim"]
    count: Int[Array, " bins"]
    drift_values: Float64[Array, "bins dim"]
    drift_errors: Float64[Array, "bins dim"]
    diffusion_sq_values: Float64[Array, "bins dim"]
    diffusion_sq_errors: Float64[Array, "bins dim"]
    outside: Literal["nearest", "nan"]
    names: tuple[str, ...]

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.names)

    @property
    def centres(self) -> Float64[Array, "bins dim"]:
        """Centre of every bin used."""
        return self.low + (self.position + 0.5) * self.width

    def visited(self, x: Float[Array, "queries dim"]) -> Bool[Array, " queries"]:
        """True inside a bin with enough data; elsewhere answers are those of the nearest bin, or NaN."""
        return self._locate(x)[1]

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f of the bin at x, state per time."""
        return self._answer(self.drift_values, x)

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """sqrt(g) of the bin at x, state per square root of time."""
        return self._answer(np.sqrt(self.diffusion_sq_values), x)

    def _answer(
        self, values: Float64[Array, "bins dim"], x: Float[Array, "queries dim"]
    ) -> Float64[Array, "queries dim"]:
        nearest, inside = self._locate(x)
        answered = inside if self.outside == "nan" else np.isfinite(x).all(axis=1)
        return np.where(answered[:, None], values[nearest], np.nan)

    def _locate(self, x: Float[Array, "queries dim"]) -> tuple[Int[Array, " queries"], Bool[Array, " queries"]]:
        """The nearest bin, distances in units of a bin, and whether x lies in it."""
        unit = (np.asarray(x, np.float64) - self.low) / self.width - 0.5  # bin centres are integers
        _, nearest = self._tree.query(np.where(np.isfinite(unit), unit, 0.0))  # a diverged path asks for no bin at all
        return nearest, (np.abs(unit - self.position[nearest]) <= 0.5 + 1e-9).all(axis=1)

    @cached_property
    def _tree(self) -> cKDTree:
        return cKDTree(self.position)


def fit(
    observations: Observations, settings: BinnedSettings | PolynomialSettings = BINNED, seed: int = 0
) -> BinnedSDE | LibrarySDE:
    """Estimate drift and diffusion from conditional moments.

    Args:
        observations: Any number of paths with any gaps.
        settings: `BinnedSettings` for averages over bins, `PolynomialSettings` for least squares on monomials.
        seed: Not used: nothing here is random. Part of the common interface of the baselines.

    Raises:
        InvalidObservationsError: No bin has enough transitions, or the states do not determine the polynomials.
    """
    steps = to_transitions(observations)
    if isinstance(settings, BinnedSettings):
        return _fit_binned(steps, settings, observations.names)
    return _fit_polynomial(steps, settings, observations.names)


def _fit_binned(steps: Transitions, settings: BinnedSettings, names: tuple[str, ...]) -> BinnedSDE:
    num_bins = settings.num_bins or max(1, round(len(steps) ** (1 / (steps.dim + 2))))
    low, high = steps.y.min(axis=0), steps.y.max(axis=0)
    if not np.all(high > low):
        j = int(np.argmin(high - low))
        raise InvalidObservationsError(f"every step starts at {names[j]} = {low[j]:g}; bins need states that differ.")
    width = (high - low) / num_bins
    cell = np.clip(((steps.y - low) / width).astype(np.int64), 0, num_bins - 1)  # (n, dim)
    position, member, count = np.unique(cell, axis=0, return_inverse=True, return_counts=True)
    used = count >= settings.min_count
    if not used.any():
        raise InvalidObservationsError(
            f"no bin holds {settings.min_count} transitions: {len(steps)} transitions fall into {len(count)} bins, "
            f"at most {count.max()} into one. Pass more data, fewer bins (num_bins) or a smaller min_count."
        )

    def total(values: Float64[Array, "n dim"]) -> Float64[Array, "bins dim"]:
        return np.stack([np.bincount(member.ravel(), column) for column in values.T], axis=1)

    time = np.bincount(member.ravel(), steps.dtau)[:, None]
    drift = total(steps.dy) / time  # weights dtau: the best ones, because dy / dtau has variance g / dtau
    residuals = steps.dy - drift[member.ravel()] * steps.dtau[:, None]
    freedom = np.maximum(count - 1, 1)[:, None]
    diffusion_sq = total(residuals**2 / steps.dtau[:, None]) / freedom
    return BinnedSDE(
        low=low,
        width=width,
        position=position[used],
        count=count[used],
        drift_values=drift[used],
        drift_errors=np.sqrt(diffusion_sq / time)[used],
        diffusion_sq_values=diffusion_sq[used],
        diffusion_sq_errors=(diffusion_sq * np.sqrt(2 / freedom))[used],
        outside=settings.outside,
        names=names,
    )


def _fit_polynomial(steps: Transitions, settings: PolynomialSettings, names: tuple[str, ...]) -> LibrarySDE:
    gap = steps.dtau[:, None]
    drift_library = monomials(steps.dim, settings.drift_degree)
    drift = _least_squares(drift_library, steps, steps.dy / gap, np.sqrt(steps.dtau), names)
    residuals = steps.dy - drift(steps.y) * gap
    diffusion_library = monomials(steps.dim, settings.diffusion_degree)
    diffusion_sq = _least_squares(diffusion_library, steps, residuals**2 / gap, np.ones(len(steps)), names)
    return LibrarySDE(drift, diffusion_sq, settings.clip, names)


def _least_squares(
    library: Library,
    steps: Transitions,
    targets: Float64[Array, "n dim"],
    weights: Float64[Array, " n"],
    names: tuple[str, ...],
) -> LibraryField:
    """Weighted least squares; standard errors allow for any variance along the path (White's sandwich)."""
    phi = design_matrix(library, steps.y, names)
    size = np.abs(phi).max(axis=0)  # columns of unit size: neither rank nor range may depend on the units of the state
    size[size == 0] = 1.0
    phi = phi / size * weights[:, None]
    u, s, vt = np.linalg.svd(phi, full_matrices=False)
    if len(steps) < len(library) or s[-1] <= s[0] * len(steps) * np.finfo(np.float64).eps:
        raise InvalidObservationsError(
            f"{len(steps)} transitions do not determine {len(library)} monomials of {', '.join(names)}: the states are "
            f"too few or too much alike. Lower the degree, or centre and rescale the data."
        )
    inverse = (vt.T / s) @ u.T  # (terms, n)
    targets = targets * weights[:, None]
    coefficients = inverse @ targets
    errors = np.sqrt(inverse**2 @ (targets - phi @ coefficients) ** 2)
    return LibraryField(library, coefficients / size[:, None], errors / size[:, None])
