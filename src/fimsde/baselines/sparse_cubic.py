"""Cubic least squares on increments with as few terms as the data support: what a careful statistician does by hand.

Every gap is one Euler step. From all monomials up to degree three the term of the smallest Wald statistic is left out
and the rest fitted again, until every statistic b² / Var(b) is above log n: backward elimination by BIC. The variance
rate g is fitted to the squares of the residuals in the same way, with monomials up to degree two.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.baselines.library import LibraryField, LibrarySDE, design_matrix, monomials
from fimsde.data.observations import Observations
from fimsde.data.transitions import Transitions, to_transitions
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.shapes import Array, Float64


@dataclass(frozen=True)
class SparseSettings:
    """Degrees of the libraries."""

    drift_degree: int = 3
    diffusion_degree: int = 2  # of g, the square of the diffusion
    clip: bool = True  # whether a negative g counts as 0; otherwise the diffusion is NaN there

    def __post_init__(self) -> None:
        if min(self.drift_degree, self.diffusion_degree) < 0:
            raise ConfigError(
                f"drift_degree is {self.drift_degree}, diffusion_degree {self.diffusion_degree}; expected 0 or more."
            )


DEFAULT = SparseSettings()


def fit(observations: Observations, settings: SparseSettings = DEFAULT, seed: int = 0) -> LibrarySDE:
    """Estimate drift and diffusion by least squares with backward elimination.

    Args:
        observations: Any number of paths with any gaps.
        settings: Degrees.
        seed: Not used: nothing here is random. Part of the common interface of the baselines.

    Raises:
        InvalidObservationsError: The states do not determine the polynomials.
    """
    steps = to_transitions(observations)
    gap = steps.dtau[:, None]
    drift = _field(steps, settings.drift_degree, steps.dy / gap, steps.dtau, observations.names)
    squares = (steps.dy - drift(steps.y) * gap) ** 2 / gap
    diffusion_sq = _field(steps, settings.diffusion_degree, squares, np.ones(len(steps)), observations.names)
    return LibrarySDE(drift, diffusion_sq, settings.clip, observations.names)


def _field(
    steps: Transitions,
    degree: int,
    targets: Float64[Array, "n dim"],
    weights: Float64[Array, " n"],
    names: tuple[str, ...],
) -> LibraryField:
    """Weighted least squares of every component, each with its own terms."""
    library = monomials(steps.dim, degree)
    phi = design_matrix(library, steps.y, names)
    size = np.sqrt(np.mean(phi**2, axis=0))  # columns of unit size: the rank must not depend on the units of the state
    phi = phi / np.where(size > 0, size, 1.0)
    gram = (phi * weights[:, None]).T @ phi
    if len(steps) < 2 * len(library) or np.linalg.cond(gram) > 1 / (len(library) * np.finfo(np.float64).eps):
        raise InvalidObservationsError(
            f"{len(steps)} transitions do not determine {len(library)} monomials of {', '.join(names)}: the states are "
            f"too few or too much alike. Lower the degree, or centre and rescale the data."
        )
    coefficients, errors = np.zeros((len(library), steps.dim)), np.zeros((len(library), steps.dim))
    for j in range(steps.dim):
        right = (phi * weights[:, None]).T @ targets[:, j]
        total = float(np.sum(weights * targets[:, j] ** 2))
        kept, found, error = eliminate(gram, right, total, len(steps))
        coefficients[kept, j], errors[kept, j] = found / size[kept], error / size[kept]
    return LibraryField(library, coefficients, errors)


def eliminate(
    gram: Float64[Array, "terms terms"], right: Float64[Array, " terms"], total: float, num: int
) -> tuple[list[int], Float64[Array, " kept"], Float64[Array, " kept"]]:
    """Terms whose Wald statistics are all above log n, their coefficients and standard errors.

    Args:
        gram: Weighted products of the columns.
        right: Of the columns with the responses.
        total: Of the responses with themselves.
        num: Number of responses, n.
    """
    kept = list(range(len(right)))
    while kept:
        inverse = np.linalg.inv(gram[np.ix_(kept, kept)])
        found = inverse @ right[kept]
        variance = max(total - float(found @ right[kept]), 0.0) / (num - len(kept))
        error = np.sqrt(variance * np.diag(inverse))
        with np.errstate(divide="ignore"):
            statistic = np.abs(found) / error  # without noise all are infinite, and all terms stay
        weakest = int(np.argmin(statistic))
        if not statistic[weakest] ** 2 < np.log(num):
            return kept, found, error
        del kept[weakest]
    return kept, np.zeros(0), np.zeros(0)
