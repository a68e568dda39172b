"""The case: an equation, its data, and what a filter makes of them. All verdicts look at one."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg

from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE, correlated_noise, fields
from fimsde.filter.kalman import Innovations
from fimsde.filter.noise import FittedNoise, fit_noise
from fimsde.shapes import Array, Bool, Float64
from fimsde.simulate import euler_step

_DRAWN = 20_000  # innovations drawn from the equation itself, about; by hand: four times as many as 5000 observed
_TRIFLE = 0.01  # of the steps of the mean: innovations below it are errors of the fit that nobody sees; by hand
_UNSEEN = 1e-3  # of the spread of the state, likewise; a step of noise is larger unless there are a million in a memory
_SUBSTEPS = 8  # Euler steps per gap behind them; by hand: an eighth of the error of one

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
    """

    sde: SDE
    observations: Observations
    noise: FittedNoise
    inside: Inside
    seed: int
    exact: tuple[int, ...] = ()

    @property
    def found(self) -> Innovations:
        """The innovations."""
        return self.noise.innovations

    @property
    def z(self) -> Float64[Array, "n dim"]:
        """The innovations as standard normal numbers, if the equation is right."""
        return self.noise.innovations.values

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
        return np.concatenate([found.standardised(self._drawn_innovation(rng)) for _ in range(copies)])

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


def make_case(sde: SDE, observations: Observations, inside: Inside, seed: int) -> Case:
    """Fit the noise and filter."""
    noise = fit_noise(sde, observations)
    moved = np.sqrt(np.mean((noise.innovations.steps.ahead - noise.innovations.steps.start) ** 2, axis=0))
    left = np.sqrt(np.mean((noise.innovations.plain * noise.innovations.std) ** 2, axis=0))
    exact = (left < _TRIFLE * moved) | (left < _UNSEEN * observations.values.std(axis=0))
    values = np.where(exact, 0.0, noise.innovations.values)
    noise = replace(noise, innovations=replace(noise.innovations, values=values))
    return Case(sde, observations, noise, inside, seed, tuple(np.flatnonzero(exact).tolist()))
