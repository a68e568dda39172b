"""Noise correlated between components, found by the evidence of the data and carried by the equation."""

import numpy as np

from fimsde.bank.windows import to_series
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import SDE
from fimsde.evidence.beginnings import blocks
from fimsde.evidence.estimate import PosteriorSDE, fit_again
from fimsde.evidence.filter import predict
from fimsde.filter.correlation import correlated_pairs, fit_correlation
from fimsde.shapes import Array, Float64

_LOOKED_AT = 20_000  # observations, spread over the data; by hand: correlations of 0.04 are clear among so many


def carrying_correlation(sde: PosteriorSDE, observations: Observations) -> SDE:
    """The equation itself, or with a constant correlation of its noise where the evidence for one is strong.

    Drift, diffusion and measurement noise stay as they are: where the noise of components has one correlation
    everywhere, they are estimated as if it had none.
    """
    pairs = correlated_pairs(_innovations(sde, observations)) if sde.dim > 1 else np.empty((0, 2), np.int64)
    return fit_correlation(sde, observations, sde.noise_std, pairs) if len(pairs) else sde


def estimated_again(sde: PosteriorSDE, observations: Observations, seed: int) -> SDE:
    """The equation behind other data, in the same way."""
    return carrying_correlation(fit_again(sde, observations, seed), observations)


def _innovations(sde: PosteriorSDE, observations: Observations) -> Float64[Array, "n dim"]:
    """What the filter of the estimate did not expect, of size one and in the order of the components."""
    normalised = sde.normaliser.transitions(to_transitions(observations))
    series = blocks(to_series(sde.frame.transitions(normalised)), _LOOKED_AT)
    found = predict(series, sde.inference.equation, euler=sde.inference.is_coarse)
    z = np.einsum("nij,nj->ni", found.whiten, found.innovation)
    return sde.frame.undo_states(z[np.isfinite(z).all(axis=1)])
