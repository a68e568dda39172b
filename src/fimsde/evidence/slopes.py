"""How g goes with the drift: a drift that pulls back harder leaves less of what noise adds, so that g must be larger.

What noise adds to the variance of an observation in a time τ is g (exp(2 J τ) - 1) / 2 J, with the slope J of the drift
along its own component. Data know this product. The estimate of g belongs to the slope of the estimated drift; beside a
drawn drift g is larger or smaller by the ratio of the factors, averaged over places where paths were. Drift and g are
weighed one after the other, so that this is where their errors are found to depend on each other.
"""

import numpy as np

from fimsde.evidence.basis import Basis
from fimsde.shapes import Array, Float64

_STEP = 0.1  # standard deviations over which slopes are differences; by hand: about what a path moves in a gap
_FARTHEST = 5.0  # J τ is taken for no larger: such a path has forgotten where it was, or has exploded


def rate_beside(
    basis: Basis,
    drawn: Float64[Array, "draws size dim"],
    mean: Float64[Array, "size dim"],
    places: Float64[Array, "places dim"],
    window: Float64[Array, " dim"],
) -> Float64[Array, "draws dim"]:
    """Factors of g, per draw and component.

    Args:
        basis: Of drifts.
        drawn: Coefficients of drawn drifts.
        mean: Coefficients of the drift that g was estimated beside.
        places: States along the paths.
        window: τ per component: a gap, or what a filter needs to see a motion beside noise.
    """
    logs = np.zeros((len(drawn), len(window)))
    for c in np.flatnonzero(window > 0):
        step = _STEP * (np.arange(len(window)) == c)
        change = (basis.features(places + step) - basis.features(places - step)) / (2.0 * _STEP)
        own, theirs = change @ mean[:, c], change @ drawn[:, :, c].T  # (places,), (places, draws)
        logs[:, c] = (_log_kept(own * window[c])[:, None] - _log_kept(theirs * window[c])).mean(axis=0)
    return np.exp(logs)


def _log_kept(turn: Float64[Array, "..."]) -> Float64[Array, "..."]:
    """log((exp(2 a) - 1) / 2 a), which is zero at a = 0."""
    a = np.clip(turn, -_FARTHEST, _FARTHEST)
    a = np.where(np.abs(a) < 1e-6, 1e-6, a)
    return np.log(np.expm1(2.0 * a) / (2.0 * a))
