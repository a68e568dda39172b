"""Held-out transition likelihood: how probable an equation makes steps it has not seen, one Euler step each.

Unlike the discrepancy of paths, it needs no simulation and notices a diffusion that is 30 % too large at once.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import SDE, correlation, is_diagonal, noise_factor, whiten
from fimsde.errors import InvalidObservationsError

# pivot of a correlation below which it is singular: the root of the rounding of its entries, 1.5e-8, and some more
_SINGULAR = 1e-7
_FARTHEST = 38.0  # standard deviations: erfc(39 / sqrt(2)) is zero in double precision, erfc(38 / sqrt(2)) is not


@dataclass(frozen=True)
class TransitionLikelihood:
    """Gaussian one-step log-likelihood.

    Attributes:
        mean: Log density per transition and component, in natural units; minus infinity if a transition has no density,
            so that no equation gains by being invalid where it would do badly.
        mean_of_valid: The same over the transitions that have one; NaN if none has.
        num_transitions: Number of transitions.
        num_invalid: Transitions at whose start the drift is not finite, or the diffusion NaN (a negative g), infinite
            or zero.
        num_impossible: These, and those more than 38 standard deviations away: their probability is zero to the last
            digit of a double, and how large the mean is depends on nothing but the rounding of a diffusion near zero.
    """

    mean: float
    mean_of_valid: float
    num_transitions: int
    num_invalid: int
    num_impossible: int = 0


def transition_likelihood(sde: SDE, obs: Observations) -> TransitionLikelihood:
    """Score the steps of observations that took no part in the estimate: dy ~ N(f(y) dtau, g(y) dtau).

    With z = L^-1 ((dy - f dtau) / sqrt(g_ii dtau)) and the factor L of the correlation, the log density is the sum over
    components of -z²/2 - ln sqrt(g_ii dtau) - ln L_ii - ln(2 pi)/2. A singular correlation has no density.

    The density is that of a single Euler step, so a gap must be short against the times on which the equation changes.
    Differences between two equations on the same data mean something; the level depends on the units of the state.
    """
    steps = to_transitions(obs)
    if len(steps) == 0 or steps.dim != sde.dim:
        raise InvalidObservationsError(
            f"{len(steps)} transitions of dimension {steps.dim} for an equation of dimension {sde.dim}; "
            "at least one transition of the same dimension is needed."
        )
    dtau = steps.dtau[:, None]
    drift, diffusion = sde.drift(steps.y), sde.diffusion(steps.y)
    with np.errstate(all="ignore"):  # what is not finite is counted
        every_std = diffusion * np.sqrt(dtau)
        is_valid = np.all(np.isfinite(drift) & np.isfinite(diffusion) & (every_std > 0), axis=1)
        factor = None
        if not is_diagonal(sde):
            every_factor = noise_factor(correlation(sde, steps.y))
            pivots = np.diagonal(every_factor, axis1=1, axis2=2)
            is_valid &= np.all(np.isfinite(every_factor), axis=(1, 2)) & np.all(pivots > _SINGULAR, axis=1)
            factor = every_factor[is_valid]
        std = every_std[is_valid]
        residual = (steps.dy[is_valid] - drift[is_valid] * dtau[is_valid]) / std
        if factor is not None:
            residual = whiten(factor, residual)
            std = std * np.diagonal(factor, axis1=1, axis2=2)
        log_density = -0.5 * residual**2 - np.log(std) - 0.5 * np.log(2 * np.pi)  # (valid, dim)
    mean_of_valid = float(log_density.mean()) if is_valid.any() else float("nan")
    return TransitionLikelihood(
        mean=mean_of_valid if is_valid.all() else float("-inf"),
        mean_of_valid=mean_of_valid,
        num_transitions=len(steps),
        num_invalid=int(np.sum(~is_valid)),
        num_impossible=int(np.sum(~is_valid) + np.sum(np.any(np.abs(residual) > _FARTHEST, axis=1))),
    )
