"""The case: an equation, its data, and what a filter makes of them. All verdicts look at one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg
from scipy.spatial import cKDTree

from fimsde.analysis.diagnosis.sizes import Sizes, find_sizes
from fimsde.analysis.draws import CorrelatedDraws, Draws
from fimsde.analysis.replay import Replay, beginning, replay_on
from fimsde.data.grid import regular_grid
from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE, CorrelatedSDE, correlated_noise, fields
from fimsde.filter.correlation import without_correlation
from fimsde.filter.flow import Flow
from fimsde.filter.kalman import Innovations, flow_around, run_filter, step_rows
from fimsde.filter.noise import FittedNoise, fit_noise
from fimsde.shapes import Array, Bool, Float64
from fimsde.simulate import euler_step
from fimsde.tabulate import TabulatedSDE

_DRAWN = 20_000  # innovations drawn from the equation itself, about; by hand: four times as many as 5000 observed
_TRIFLE = 0.01  # of the steps of the mean: innovations below it are errors of the fit that nobody sees; by hand
_UNSEEN = 1e-3  # of the spread of the state, likewise; a step of noise is larger unless there are a million in a memory
_KEPT = 3.0  # deviations from which innovations are kept even where the equation has no noise; by hand
_SUBSTEPS = 8  # Euler steps per gap behind them; by hand: an eighth of the error of one
_PAUSE = 20.0  # typical gaps; by hand: longer ones are no steps of a simulation
_SLOW = 400  # points of a path that are replayed where steps are slow; by hand: bounds seconds
_MANY = (
    2000  # steps from which the linearised equation is read at the nearest of them; by hand: a tenth of a spread off
)
_PAST = 5  # innovations by which one is predicted; by hand
_DRAWN_NODES = (401, 41, 13)  # per axis of tables of draws, by dimension; by hand: rougher than draws are apart
_OUTSIDE = 0.02  # share of simulated states outside the table; by hand: bounds seconds
REPLICATES = 20  # data sets drawn from the equation: those that are shown beside the data

Inside = Callable[[Float64[Array, "queries dim"]], Bool[Array, " queries"]]


@dataclass(frozen=True, eq=False)
class Case:
    """What verdicts look at.

    Attributes:
        sde: The equation, from a table where that is cheaper.
        observations: The data, without single wrong readings.
        noise: Measurement noise, and innovations of the filter that knows it.
        inside: Whether data support locations.
        seed: Of all simulations.
        exact: Components whose steps the drift explains up to a trifle: there is nothing to judge, and their
            innovations count as zero.
        sizes: By how much innovations are larger than expected, as far as the state explains it.
        draws: Equations from the posterior, from which further replicates are simulated; asked for where these are
            needed. None: the equation itself.
    """

    sde: SDE
    observations: Observations
    noise: FittedNoise
    inside: Inside
    seed: int
    exact: tuple[int, ...]
    sizes: Sizes
    draws: Callable[[], Draws] | None = None

    @property
    def found(self) -> Innovations:
        """The innovations."""
        return self.noise.innovations

    @property
    def z(self) -> Float64[Array, "n dim"]:
        """The innovations as standard normal numbers, if the equation is right."""
        return self.noise.innovations.values

    @cached_property
    def played(self) -> Replay:
        """Data sets simulated from the equation, on the grid of the data and with their noise."""
        return self.replayed(0)

    def replayed(self, batch: int) -> Replay:
        """The same with other random numbers, for every number of a batch; the second one is of drawn equations."""
        seed, obs = self.seed + 1000 * batch, without_pauses(self.observations)
        if not isinstance(without_correlation(self.sde), TabulatedSDE):  # every step takes a while
            obs = beginning(obs, _SLOW, obs.num_points)
        drawn = self.drawn_equations if batch == 1 else ()
        return replay_on(drawn or self.sde, obs, self.noise.std, REPLICATES, seed)

    @cached_property
    def drawn_equations(self) -> tuple[SDE, ...]:
        """Draws of the posterior, from tables.

        None where simulations leave the table: steps outside are slow, and one equation tells as much about them.
        """
        table = without_correlation(self.sde)
        if self.draws is None or not isinstance(table, TabulatedSDE):
            return ()
        if self.played.outside(table.low, table.high) > _OUTSIDE:
            return ()
        return tabulated_draws(self.draws(), table)

    @cached_property
    def redrawn(self) -> tuple[Innovations, ...]:
        """What the filter makes of each of these data sets; of those that stay finite."""
        found = []
        for values in self.played.values:
            if np.isfinite(values).all():
                obs = replace(self.played.observed, values=values)
                found.append(without_quiet(run_filter(self._flow_of(obs), obs, self.noise.std), self.seed))
        return tuple(found)

    def _flow_of(self, obs: Observations) -> Flow:
        """The linearised equation along other data: that of the nearest state of the data, if there are many."""
        rows, _ = step_rows(obs)
        if self.played.gap is None or len(rows) < _MANY:
            flow = flow_around(self.sde, obs, obs.values)
            return (
                flow_around(self.sde, obs, run_filter(flow, obs, self.noise.std).mean) if self.noise.std.any() else flow
            )
        steps, spread = self.found.steps, np.maximum(self.found.steps.start.std(axis=0), 1e-300)
        near = cKDTree(steps.start / spread).query(obs.values[rows] / spread)[1]
        return steps.rows(near)

    def corrected(self, statistic: Callable[[Innovations], float], expected: float) -> float:
        """Bartlett's correction: by how much larger than expected a statistic is on data of the equation itself.

        Laws of sums are limits; where the state wanders, or paths are short, replicates of the equation show how far
        away the limit is. At least one.
        """
        drawn = [statistic(found) for found in self.redrawn]
        return max(1.0, float(np.mean(drawn)) / expected) if drawn else 1.0

    @property
    def names(self) -> tuple[str, ...]:
        """Of the components."""
        return self.observations.names

    @cached_property
    def drawn(self) -> Float64[Array, "draws dim"]:
        """Innovations that the equation itself gives at the same places and gaps.

        Where gaps are long for a nonlinear equation, its steps are not normal, however right it is.
        """
        found, rng = self.found, np.random.default_rng([self.seed, 1])
        copies = max(1, _DRAWN // len(self.z))
        rounds = [found.standardised(self._drawn_innovation(rng)) for _ in range(copies)]
        return np.concatenate([without_quiet(replace(found, values=z), self.seed).values for z in rounds])

    def _drawn_innovation(self, rng: np.random.Generator) -> Float64[Array, "n dim"]:
        found = self.found
        rows = np.flatnonzero(np.isin(np.arange(self.observations.num_points), self.observations.path_starts[1:] - 1))
        std = np.sqrt(np.delete(found.variance, rows, axis=0))
        x = found.state + std * rng.standard_normal(std.shape)
        ahead = found.steps.ahead + np.einsum("nij,nj->ni", found.steps.matrix, found.state - found.steps.start)
        length = found.dtau[:, None] / _SUBSTEPS
        with np.errstate(all="ignore"):
            for _ in range(_SUBSTEPS):
                drift, diffusion = fields(self.sde, x)
                kicks = correlated_noise(self.sde, x, rng.standard_normal(x.shape))
                x = euler_step(x, drift, diffusion * self.noise.scale, length, kicks)
        y = x + found.noise_std * rng.standard_normal(x.shape)
        return np.nan_to_num(y - ahead, posinf=0.0, neginf=0.0)


def tabulated_draws(draws: Draws, table: TabulatedSDE) -> tuple[SDE, ...]:
    """Each draw from a table of its own, wider than that of the mean and rougher; correlations stay beside it."""
    dim, beyond = table.dim, 0.5 * (table.high - table.low)
    low, high = table.low - beyond, table.high + beyond
    num = _DRAWN_NODES[dim - 1]
    drift, diffusion = draws.fields(regular_grid(low, high, num))
    found: list[SDE] = []
    for k, both in enumerate(np.concatenate([drift, diffusion], axis=2)):
        own = replace(
            table, sde=without_correlation(draws[k]), low=low, high=high, values=both.reshape(*(num,) * dim, -1)
        )
        found.append(CorrelatedSDE(own, draws.rho[k]) if isinstance(draws, CorrelatedDraws) else own)
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Term:
    """A further term of the drift, tested beside others: z = response b + noise.

    Attributes:
        coefficient: b of the tested terms.
        chi_square: (b / error)² over all of them.
    """

    coefficient: Float64[Array, " terms"]
    chi_square: float


def fit_terms(z: Float64[Array, " n"], response: Float64[Array, "n terms"], beside: Float64[Array, "n others"]) -> Term:
    """Least squares of innovations on the responses to further terms, beside others that are fitted too.

    Innovations are white with variance one, so that the reduction of the sum of squares is chi-square.
    """
    if beside.shape[1]:
        basis, _ = linalg.qr(beside, mode="economic")
        response, z = response - basis @ (basis.T @ response), z - basis @ (basis.T @ z)
    moment, score = response.T @ response, response.T @ z
    size = np.sqrt(np.diagonal(moment))
    size = np.where(size > 0, size, 1.0)
    coefficient = linalg.lstsq(moment / np.outer(size, size), score / size, cond=1e-10)[0] / size
    return Term(coefficient, float(max(score @ coefficient, 0.0)))


def state_terms(state: Float64[Array, "n dim"], component: int) -> Float64[Array, "n terms"]:
    """1, the component itself, all other components, products of two, and its cube: what a drift may have been.

    Tests of a further term stand beside these, so that a drift that is a little off is no evidence for it.
    """
    x = (state - state.mean(axis=0)) / np.maximum(state.std(axis=0), 1e-300)
    dim, own = x.shape[1], x[:, component]
    others = [x[:, i] for i in range(dim) if i != component]
    products = [x[:, i] * x[:, k] for i in range(dim) for k in range(i, dim)]
    return np.stack([np.ones(len(x)), own, *others, *products, own**3], axis=1)


def responses(found: Innovations, component: int, terms: Float64[Array, "n terms"]) -> Float64[Array, "n dim terms"]:
    """What further terms in the drift of one component do to the innovations."""
    inputs = np.zeros((len(terms), found.values.shape[1], terms.shape[1]))
    inputs[:, component] = terms
    return found.response(inputs)


def without_memory(z: Float64[Array, " n"], joined: Bool[Array, " n"]) -> Float64[Array, " n"]:
    """Innovations without what the last ones say about them.

    Sizes of correlated numbers are correlated, too, and noise that swings back has a peak in its spectrum; what is left
    here has neither.
    """
    past = np.zeros((len(z), _PAST))
    whole = joined.copy()
    for k in range(1, _PAST + 1):
        past[k:, k - 1] = np.where(whole[k:], z[:-k], 0.0)
        whole[1:] &= whole[:-1]
    return z - past @ np.linalg.lstsq(past, z, rcond=None)[0]


def without_pauses(obs: Observations) -> Observations:
    """Paths that begin anew after every long pause: over one, simulations need steps without number."""
    path = np.repeat(np.arange(obs.num_paths), np.diff(obs.path_starts))
    gap, joined = np.diff(obs.times), path[1:] == path[:-1]
    pause = joined & (gap > _PAUSE * np.median(gap[joined])) if joined.any() else joined
    if not pause.any():
        return obs
    pieces = np.split(np.arange(obs.num_points), np.flatnonzero(pause | ~joined) + 1)
    return obs.as_paths([piece for piece in pieces if len(piece) > 1])


def make_case(
    sde: SDE,
    observations: Observations,
    inside: Inside,
    seed: int,
    noise_std: Float64[Array, " dim"] | None = None,
    draws: Callable[[], Draws] | None = None,
) -> Case:
    """Filter with the noise, which is fitted unless it is known."""
    noise = fit_noise(sde, observations, known=noise_std)
    exact = _are_exact(noise.innovations, observations.values.std(axis=0))
    values = np.where(exact, 0.0, without_quiet(noise.innovations, seed).values)
    sizes = find_sizes(values, noise.innovations.state)
    noise = replace(noise, innovations=replace(noise.innovations, values=values / sizes.factor))
    return Case(sde, observations, noise, inside, seed, tuple(np.flatnonzero(exact).tolist()), sizes, draws)


def _are_exact(found: Innovations, spread: Float64[Array, " dim"]) -> Bool[Array, " dim"]:
    """Components whose steps the drift explains up to a trifle: all of them, or more than half."""
    moved, left = np.abs(found.steps.ahead - found.steps.start), np.abs(found.plain * found.std)
    whole_moved, whole_left = (np.sqrt(np.mean(part**2, axis=0)) for part in (moved, left))
    mostly = np.median(left, axis=0) < _TRIFLE * np.median(moved, axis=0)
    return mostly | (whole_left < _TRIFLE * whole_moved) | (whole_left < _UNSEEN * spread)


def without_quiet(found: Innovations, seed: int) -> Innovations:
    """Innovations with fresh normal numbers in place of those where the equation has no noise.

    Where the variance rate vanishes, the filter takes it for a thousandth of its mean, so that a right equation leaves
    innovations near zero. They say nothing about the noise; normal numbers of our own say nothing, either.
    """
    quiet = found.quiet & (np.abs(found.values) < _KEPT)
    if not quiet.any():
        return found
    fresh = np.random.default_rng([seed, 3]).standard_normal(found.values.shape)
    return replace(found, values=np.where(quiet, fresh, found.values))
