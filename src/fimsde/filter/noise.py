"""The noise of the instrument by maximum likelihood: what a filter needs beside the equation.

    max over v of  sum_i ln p(y_i | y_1, ..., y_i-1; v)

for the variances v of the measurement noise and, if asked, one factor per component on the diffusion, so that an
equation whose diffusion is a few percent off is judged by everything else. Noise counts only where neighbouring
innovations show it: they are then correlated negatively.
"""

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from fimsde import distributions as stats
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.filter.flow import Flow
from fimsde.filter.kalman import PASSES, Innovations, flow_around, run_filter
from fimsde.shapes import Array, Bool, Float64

# p-value below which noise is looked for at all. Weak evidence will do: the most likely noise is near zero if there is
# none, and noise that is left out would be taken for a memory
_LOOKED_FOR = 0.2
# gain in log-likelihood by noise in a component, from which it counts: chi-square with one degree of freedom at 5 %
_GAIN = 1.9
_LEAST_VARIANCE, _MOST_VARIANCE = 1e-6, 1e4  # of a step's variance: bounds of the search; by hand
_MOST_FACTOR = 10.0  # on the diffusion, or one over it: bounds of the search; by hand
_MOST_ROUNDS = 12  # of the search, by quasi-Newton steps; by hand: likelihoods then change by less than 1e-3
_MOST_STEPS = 6000  # on which the noise is fitted, the first ones: its error is then 2 %; by hand: bounds seconds
_ENDLESS = 1e50  # minus a log likelihood, where the data cannot be: the search takes differences


@dataclass(frozen=True, eq=False)
class FittedNoise:
    """Measurement noise beside an equation.

    Attributes:
        std: Its standard deviation, per component, in the units of the data; 0 where the data show none.
        scale: Factor on the diffusion, per component.
        p_value: Probability of such correlations of neighbouring steps without noise, per component; None if the
            noise was known.
        innovations: Of the filter that knows both.
    """

    std: Float64[Array, " dim"]
    scale: Float64[Array, " dim"]
    p_value: Float64[Array, " dim"] | None
    innovations: Innovations


def fit_noise(
    sde: SDE, obs: Observations, *, scales: bool = True, known: Float64[Array, " dim"] | None = None
) -> FittedNoise:
    """Measurement noise, and factors on the diffusion, by maximum likelihood.

    Args:
        sde: Any equation.
        obs: The observations.
        scales: Whether the diffusion may be changed by a factor.
        known: Standard deviation of the noise, if it is known: then only the factors are fitted.
    """
    if known is not None:
        return _with_known_noise(sde, obs, np.asarray(known, np.float64), scales)
    none, ones = np.zeros(obs.dim), np.ones(obs.dim)
    flow = flow_around(sde, obs, obs.values)
    found = run_filter(flow, obs, none)
    variance, p = neighbour_noise(found)
    shown = p < _LOOKED_FOR
    scale = _sizes(found) if scales else ones
    if scales:
        found = run_filter(flow, obs, none, scale)
    without = FittedNoise(none, scale, p, found)
    if not shown.any():
        return without
    std, scale = np.where(shown, np.sqrt(np.maximum(variance, 0.0)), 0.0), ones
    for _ in range(PASSES):
        std, scale = _most_likely(flow, obs, std, scale, shown, scales)
        flow = flow_around(sde, obs, run_filter(flow, obs, std, scale).mean)
        found = run_filter(flow, obs, std, scale)
    gain = float(found.likelihood.sum() - without.innovations.likelihood.sum())
    return FittedNoise(std, scale, p, found) if not gain < _GAIN else without


def _with_known_noise(sde: SDE, obs: Observations, std: Float64[Array, " dim"], scales: bool) -> FittedNoise:
    """Factors on the diffusion beside noise that is known."""
    flow = flow_around(sde, obs, obs.values)
    found, scale = run_filter(flow, obs, std), np.ones(obs.dim)
    for _ in range(PASSES - 1 if std.any() else 0):
        flow = flow_around(sde, obs, found.mean)
        found = run_filter(flow, obs, std)
    if scales:
        nothing = np.zeros(obs.dim, bool)
        scale = _most_likely(flow, obs, std, scale, nothing, True)[1] if std.any() else _sizes(found)
        found = run_filter(flow, obs, std, scale)
    return FittedNoise(std, scale, None, found)


def neighbour_noise(found: Innovations) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
    """-mean(d_i d_i+1) of neighbouring increments d beyond the drift, and its one-sided p-value, per component.

    Noise in an observation moves one increment up and the next one down: their covariance is minus its variance.
    Without noise the products are martingale differences, so that their standardised sum is normal. For a filter
    that was run without noise.
    """
    increments = found.plain * found.std
    products = -(increments[1:] * increments[:-1])[found.joined[1:]]
    if len(products) < 2:
        return np.zeros(found.values.shape[1]), np.ones(found.values.shape[1])
    # products of steps of the same size: one large step alone shows no noise
    alike = -(found.plain[1:] * found.plain[:-1])[found.joined[1:]]
    norm = np.sqrt((alike**2).sum(axis=0))
    z = np.divide(alike.sum(axis=0), norm, out=np.zeros_like(norm), where=norm > 0)
    return np.maximum(products.mean(axis=0), 0.0), stats.norm.sf(z)


def _sizes(found: Innovations) -> Float64[Array, " dim"]:
    """Root mean squares of the innovations: the most likely factors where there is no measurement noise."""
    loud = ~found.quiet
    size = np.sqrt((found.plain**2 * loud).sum(axis=0) / np.maximum(loud.sum(axis=0), 1))
    return np.clip(np.where(size > 0, size, 1.0), 1 / _MOST_FACTOR, _MOST_FACTOR)


def _most_likely(
    flow: Flow,
    obs: Observations,
    std: Float64[Array, " dim"],
    scale: Float64[Array, " dim"],
    shown: Bool[Array, " dim"],
    scales: bool,
) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
    """Variances of the noise and factors that make the observations most likely, from a first guess on."""
    part = beginning(obs, _MOST_STEPS)
    flow = flow if part is obs else flow.rows(np.arange(part.num_transitions))
    step = np.mean(np.diagonal(flow.covariance, axis1=1, axis2=2), axis=0)
    low, high = np.log(_LEAST_VARIANCE * step[shown]), np.log(_MOST_VARIANCE * step[shown])
    first = np.clip(2 * np.log(np.maximum(std[shown], 1e-300)), low, high)
    bounds = list(zip(low.tolist(), high.tolist(), strict=True))
    if scales:
        first = np.concatenate([first, np.log(scale)])
        bounds += [(-np.log(_MOST_FACTOR), np.log(_MOST_FACTOR))] * obs.dim

    def unpack(u: Float64[Array, " _"]) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
        noise = np.where(shown, 0.0, std)
        noise[shown] = np.exp(u[: shown.sum()] / 2)
        return noise, (np.exp(u[shown.sum() :]) if scales else scale)

    def loss(u: Float64[Array, " _"]) -> float:
        value = -float(run_filter(flow, part, *unpack(u)).likelihood.sum())
        return float(np.clip(value, -_ENDLESS, _ENDLESS)) if not np.isnan(value) else _ENDLESS

    found = optimize.minimize(
        loss, first, method="L-BFGS-B", bounds=bounds, options={"maxiter": _MOST_ROUNDS, "eps": 1e-4, "ftol": 1e-9}
    )
    return unpack(found.x)


def beginning(obs: Observations, most: int) -> Observations:
    """The first paths, and of a long one its beginning, with about so many steps; all if there are no more."""
    lengths = np.diff(obs.path_starts)
    if obs.num_transitions <= most:
        return obs
    steps_before = np.concatenate([[0], np.cumsum(lengths - 1)])
    kept = np.clip(most - steps_before[:-1] + 1, 0, lengths)
    kept = kept[kept > 1] if (kept > 1).any() else kept[:1]
    return obs.as_paths([np.arange(start, start + num) for start, num in zip(obs.path_starts, kept, strict=False)])
