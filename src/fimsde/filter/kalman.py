"""Innovations: what observations say that an equation with measurement noise did not expect, and their likelihood.

A continuous-discrete extended Kalman filter. Between observations the equation is linearised (`flow`) around the
filtered states, which are found by filtering around the observed ones first. Without measurement noise every
observation restarts it, and one pass is all there is.
"""

import warnings
from dataclasses import dataclass, replace

import numpy as np

from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE, CorrelatedSDE, fields, whiten
from fimsde.errors import DataWarning, InvalidObservationsError
from fimsde.filter import kalman_kernels
from fimsde.filter.flow import Flow, linearise
from fimsde.shapes import Array, Bool, Float64, Int
from fimsde.tabulate import TabulatedSDE, tabulate

# around observed states, then around filtered ones; a third pass changes likelihoods by less than a thousandth per step
PASSES = 2
# most nodes of a table for the filter, by dimension, at first and if these do not do, and its error where data are, of
# the size of the fields; by hand: small against the error of any estimate, and cheaper than to ask a model along 5000
# observations. An equation that is asked often gets a rougher table if no other is to be had
_NODES = ((1100, 4300, 5000), (1100, 17000, 36000))
_TABLE_ERROR, _OFTEN_ERROR = (0.01, 0.01), (0.03, 0.1)
_LARGEST = 1e12
_PROBES = 200  # observations at which the table is compared with the equation; by hand
_QUIET = 2.0  # times the least variance of a step: those below have no noise of their own; by hand
_MOST_SKEWNESS = 0.9  # of a step; beyond it the quadratic that removes it is no longer steep enough; by hand


@dataclass(frozen=True, eq=False)
class Innovations:
    """What every observation but the first of a path adds to those before it, in time order.

    Attributes:
        values: Independent standard normal numbers, if the equation is right.
        plain: Innovations over their standard deviations, without the decorrelation of components.
        std: These standard deviations, in the units of the data.
        likelihood: Log density of each observation given those before it.
        state: Filtered state at the start of each step.
        mean: Filtered state at every observation.
        variance: Its variance, per component.
        times: When the observation was made.
        dtau: Time since the one before.
        path: Number of its path.
        noise_std: Standard deviation of the measurement noise, per component.
        factor: Of the covariance S of each innovation, lower triangular: S = L L'.
        skewness: Of each innovation, as far as noise that depends on the state makes it skew.
        steps: The linearised equation, with the factor on its diffusion.
        path_starts: Those of the observations.
    """

    values: Float64[Array, "n dim"]
    plain: Float64[Array, "n dim"]
    std: Float64[Array, "n dim"]
    likelihood: Float64[Array, " n"]
    state: Float64[Array, "n dim"]
    mean: Float64[Array, "points dim"]
    variance: Float64[Array, "points dim"]
    times: Float64[Array, " n"]
    dtau: Float64[Array, " n"]
    path: Int[Array, " n"]
    noise_std: Float64[Array, " dim"]
    factor: Float64[Array, "n dim dim"]
    skewness: Float64[Array, "n dim"]
    steps: Flow
    path_starts: Int[Array, " paths_plus_1"]

    @property
    def joined(self) -> Bool[Array, " n"]:
        """Whether a step follows the one before it in the same path."""
        return np.concatenate([[False], self.path[1:] == self.path[:-1]])

    @property
    def quiet(self) -> Bool[Array, "n dim"]:
        """Where the equation has no noise: its variance is the least that the filter grants, and the instrument's less.

        Nothing is known about the size of innovations there.
        """
        own = np.diagonal(self.steps.covariance, axis1=1, axis2=2)
        return (own < _QUIET * self.steps.least * self.dtau[:, None]) & (own > self.noise_std**2)

    def standardised(self, innovation: Float64[Array, "n dim"]) -> Float64[Array, "n dim"]:
        """Other innovations of the same steps in the place of those observed, as `values`."""
        return _without_skewness(whiten(self.factor, innovation), self.skewness)

    def response(self, drift: Float64[Array, "n dim terms"]) -> Float64[Array, "n dim terms"]:
        """Mean of the whitened innovations if the true drift had further terms, per unit of each of them.

        Args:
            drift: The terms at each step: state per time.
        """
        moved = drift * self.dtau[:, None, None]
        arrays = (self.steps.matrix, self.factor, self.steps.covariance, self.noise_std**2)
        found = kalman_kernels.respond(self.path_starts, *arrays, np.ascontiguousarray(moved))
        return np.nan_to_num(found, posinf=0.0, neginf=0.0)  # an equation that explodes responds to nothing


def step_rows(obs: Observations) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
    """For every step: the number of the observation where it begins, and of its path."""
    path = np.repeat(np.arange(obs.num_paths), np.diff(obs.path_starts))
    rows = np.flatnonzero(path[1:] == path[:-1])
    return rows, path[rows]


def flow_around(sde: SDE, obs: Observations, states: Float64[Array, "points dim"]) -> Flow:
    """The linearised equation between observations, around states at these."""
    rows, _ = step_rows(obs)
    if not len(rows) or obs.dim != sde.dim:
        raise InvalidObservationsError(
            f"{len(rows)} transitions of dimension {obs.dim} for an equation of dimension {sde.dim}; "
            "at least one transition of the same dimension is needed."
        )
    near = np.clip(np.where(np.isfinite(states), states, obs.values), *obs.box(1.0))  # filters may be led astray
    return linearise(sde, near[rows], obs.times[rows + 1] - obs.times[rows])


def run_filter(
    flow: Flow,
    obs: Observations,
    noise_std: Float64[Array, " dim"],
    scale: Float64[Array, " dim"] | None = None,
) -> Innovations:
    """Filter observations with a linearised equation.

    Args:
        flow: The equation between observations.
        obs: The observations.
        noise_std: Standard deviation of the measurement noise, per component.
        scale: Factor on the diffusion, per component; 1 by default.
    """
    factors = np.ones(obs.dim) if scale is None else scale
    covariance = flow.covariance * np.outer(factors, factors)
    n, dim = flow.start.shape
    # no observation is known better than the rounding of its number
    rounding = (np.finfo(np.float64).eps * np.abs(obs.values).max(axis=0)) ** 2
    covariance[:, np.arange(dim), np.arange(dim)] += rounding
    innovation, white = np.empty((2, n, dim))
    factor, mean, variance = np.zeros((n, dim, dim)), np.empty(obs.values.shape), np.empty(obs.values.shape)
    arrays = (flow.start, flow.ahead, flow.matrix, covariance, noise_std**2)
    likelihood = kalman_kernels.run(obs.values, obs.path_starts, *arrays, innovation, white, factor, mean, variance)
    rows, path = step_rows(obs)
    spread = np.sqrt((factor**2).sum(axis=2))
    with np.errstate(over="ignore", invalid="ignore"):  # of an equation that explodes
        skewness = np.nan_to_num(flow.third * factors**3 / np.where(spread > 0, spread, 1.0) ** 3)
    return Innovations(
        values=_without_skewness(_bounded(white), skewness),
        plain=_bounded(innovation / np.where(spread > 0, spread, 1.0)),
        std=spread,
        likelihood=likelihood,
        state=mean[rows],
        mean=mean,
        variance=variance,
        times=obs.times[rows + 1],
        dtau=obs.times[rows + 1] - obs.times[rows],
        path=path,
        noise_std=noise_std,
        factor=factor,
        skewness=skewness,
        steps=replace(flow, covariance=covariance, third=flow.third * factors**3, least=flow.least * factors**2),
        path_starts=obs.path_starts,
    )


def innovations(sde: SDE, obs: Observations, noise_std: Float64[Array, " dim"] | float | None = None) -> Innovations:
    """Filter observations with an equation.

    Args:
        sde: Any equation.
        obs: Observations of its dimension.
        noise_std: Standard deviation of the measurement noise, in the units of the data; none by default.
    """
    std = np.zeros(obs.dim) + (0.0 if noise_std is None else noise_std)
    found = run_filter(flow_around(sde, obs, obs.values), obs, std)
    for _ in range(PASSES - 1 if std.any() else 0):
        found = run_filter(flow_around(sde, obs, found.mean), obs, std)
    return found


def tabulated(sde: SDE, obs: Observations, *, often: bool = False) -> SDE:
    """The equation from a table around data, if that is cheaper than to ask it along them and as good there.

    A constant correlation stays beside the table.

    Args:
        sde: Any equation.
        obs: The data.
        often: Whether it will be asked many times, so that a table is cheaper in any case.
    """
    if isinstance(sde, CorrelatedSDE):
        return CorrelatedSDE(tabulated(sde.inner, obs, often=often), sde.rho)
    if sde.dim > len(_NODES[0]) or ((2 * sde.dim + 1) * obs.num_points < _NODES[0][sde.dim - 1] and not often):
        return sde
    for nodes, largest in zip(_NODES, _OFTEN_ERROR if often else _TABLE_ERROR, strict=True):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)  # the error is measured below
                table = tabulate(sde, *obs.box(0.25), tolerance=1e-3, max_nodes=nodes[sde.dim - 1])
        except InvalidObservationsError:  # fields that are not finite somewhere in the box
            return sde
        if _table_error(table, obs) <= largest:
            return table
    return sde


def _table_error(table: TabulatedSDE, obs: Observations) -> float:
    """Root mean square error of the table at observed states, of the size of the fields, in the worst component."""
    x, worst = obs.values[:: -(-obs.num_points // _PROBES)], 0.0
    for own, other in zip(fields(table.sde, x), table.fields(x), strict=True):
        error, size = np.sqrt(np.mean((own - other) ** 2, axis=0)), np.sqrt(np.mean(np.square(own), axis=0))
        least = 1e-9 * max(float(np.abs(table.values).max()), np.finfo(float).tiny * 1e9)  # less is rounding
        worst = max(worst, float(np.max(error / np.maximum(size, least))))
    return worst


def _bounded(z: Float64[Array, "n dim"]) -> Float64[Array, "n dim"]:
    """Innovations no larger than 1e12 deviations, whose fourth powers are numbers: of an equation that explodes."""
    return np.clip(np.nan_to_num(z, posinf=_LARGEST, neginf=-_LARGEST), -_LARGEST, _LARGEST)


def _without_skewness(z: Float64[Array, "n dim"], skewness: Float64[Array, "n dim"]) -> Float64[Array, "n dim"]:
    """u with z = u + c (u² - 1), c = skewness / 6: noise that grows with the state makes steps skew (Milstein)."""
    c = np.clip(skewness, -_MOST_SKEWNESS, _MOST_SKEWNESS) / 6
    root = np.sqrt(np.maximum(1 + 4 * c * (z + c), 0.0))
    return 2 * (z + c) / (1 + root)
