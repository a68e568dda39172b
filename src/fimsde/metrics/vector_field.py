"""Errors of drift and diffusion against a known equation, on a grid or where the data are."""

from dataclasses import dataclass

import numpy as np

from fimsde.equations.sde import SDE, correlation, is_diagonal
from fimsde.errors import InvalidObservationsError
from fimsde.shapes import Array, Float, Float64

# a field whose variance is below this share of its mean square is constant up to rounding; by hand: 1e-10 of its size
_CONSTANT = 1e-20


@dataclass(frozen=True)
class FieldError:
    """Mean square errors over locations and components.

    Attributes:
        drift: In (state / time)².
        diffusion: Of sqrt(g), in state² / time.
        relative_drift: Each component's error divided by the variance of its true drift over the locations, averaged
            over components: 0 is perfect, 1 as good as the best constant. Constant components have no such number and
            are left out; NaN if all are constant.
        relative_diffusion: The same for the diffusion.
        num_locations: Number of locations.
        correlation: Of the correlation of the noise, over all pairs of components; 0 if both equations are diagonal.
        num_negative: Values of the estimate's diffusion that were NaN, that is, came from a negative g; they entered
            as sqrt(max(0, g)) = 0, as in the paper.
    """

    drift: float
    diffusion: float
    relative_drift: float
    relative_diffusion: float
    num_locations: int
    num_negative: int
    correlation: float = 0.0


def field_error(estimate: SDE, truth: SDE, x: Float[Array, "queries dim"]) -> FieldError:
    """mean (f_e - f)² and mean (sqrt(g_e) - sqrt(g))² of an estimate e over the locations x and the components.

    On the nodes of a grid this is the paper's number, which counts regions no data ever reached as much as others. At
    the observed points (`Observations.values`) every region has the weight the data give it.
    An estimated drift that is not finite makes the error not finite: count the run as failed.
    """
    if x.shape[1] != truth.dim or estimate.dim != truth.dim or len(x) == 0:
        raise InvalidObservationsError(
            f"locations have shape {x.shape}, the estimate dimension {estimate.dim}, the truth dimension {truth.dim}: "
            "at least one location and the same dimension everywhere are needed."
        )
    true_drift, true_diffusion = truth.drift(x), truth.diffusion(x)
    if not (np.isfinite(true_drift).all() and np.isfinite(true_diffusion).all()):
        raise InvalidObservationsError("the true drift or diffusion is not finite at some locations; leave them out.")
    diffusion = estimate.diffusion(x)
    is_negative = np.isnan(diffusion)
    drift_error = np.mean((estimate.drift(x) - true_drift) ** 2, axis=0)  # (dim,)
    diffusion_error = np.mean((np.where(is_negative, 0.0, diffusion) - true_diffusion) ** 2, axis=0)
    return FieldError(
        drift=float(drift_error.mean()),
        diffusion=float(diffusion_error.mean()),
        relative_drift=_relative(drift_error, true_drift),
        relative_diffusion=_relative(diffusion_error, true_diffusion),
        num_locations=len(x),
        num_negative=int(is_negative.sum()),
        correlation=_correlation_error(estimate, truth, x),
    )


def _correlation_error(estimate: SDE, truth: SDE, x: Float[Array, "queries dim"]) -> float:
    if is_diagonal(estimate) and is_diagonal(truth):
        return 0.0
    i, j = np.triu_indices(truth.dim, 1)
    return float(np.mean((correlation(estimate, x) - correlation(truth, x))[:, i, j] ** 2))


def _relative(error: Float64[Array, " dim"], field: Float64[Array, "queries dim"]) -> float:
    variance = field.var(axis=0)
    varies = variance > _CONSTANT * np.mean(field**2, axis=0)
    return float(np.mean(error[varies] / variance[varies])) if varies.any() else float("nan")
