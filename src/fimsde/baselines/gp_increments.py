"""Plain Gaussian process regression of increments: the thirty lines that every estimator must beat.

    dy / dtau = f(y) + noise of variance g(y) / dtau,    f a Gaussian process,    log g a Gaussian process

Every gap is one Euler step. Length and size of each process are those of the largest evidence. First g is constant;
then it is fitted to the squares of the residuals, and f once more with the weights that it gives.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.baselines.radial import (
    LENGTHS,
    LogRate,
    RadialBasis,
    log_rate,
    posterior,
    radial_basis,
    sizes,
    spread_out,
)
from fimsde.data.normalise import Normaliser, fit_normaliser
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float, Float64

_FLOOR = 1e-6  # of the mean rate, below which no step is trusted; by hand


@dataclass(frozen=True)
class IncrementSettings:
    """Which lengths are tried, in standard deviations of the states."""

    lengths: tuple[float, ...] = LENGTHS

    def __post_init__(self) -> None:
        if not self.lengths or min(self.lengths) <= 0:
            raise ConfigError(f"lengths are {self.lengths}; expected at least one, all positive.")


DEFAULT = IncrementSettings()


@dataclass(frozen=True)
class SmoothField:
    """phi(x) w, with a polynomial of degree one if there is one: component j of a drift in normalised units."""

    basis: RadialBasis
    weights: Float64[Array, " centres"]
    linear: Float64[Array, " terms"] | None = None  # constant, then slopes

    def __call__(self, z: Float64[Array, "queries dim"]) -> Float64[Array, " queries"]:
        smooth = self.basis(z) @ self.weights
        return smooth if self.linear is None else smooth + self.linear[0] + z @ self.linear[1:]


@dataclass(frozen=True)
class SmoothSDE:
    """Posterior means of drift and log g.

    Attributes:
        normaliser: Units in which the processes were fitted.
        drift_fields: One per component. Far from the data a process is zero.
        rates: g of each component, constant far from the data.
        names: Names of the state components.
    """

    normaliser: Normaliser
    drift_fields: tuple[SmoothField, ...]
    rates: tuple[LogRate, ...]
    names: tuple[str, ...]

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.names)

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f, state per time."""
        z = self.normaliser.states(np.asarray(x, np.float64))
        return self.normaliser.undo_drift(np.stack([field(z) for field in self.drift_fields], axis=1))

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """sqrt(g), state per square root of time."""
        z = self.normaliser.states(np.asarray(x, np.float64))
        return self.normaliser.undo_diffusion(np.sqrt(np.stack([rate(z) for rate in self.rates], axis=1)))


def fit(observations: Observations, settings: IncrementSettings = DEFAULT, seed: int = 0) -> SmoothSDE:
    """Regress increments on states with Gaussian processes.

    Args:
        observations: Any number of paths with any gaps; every gap counts as one Euler step.
        settings: Lengths that are tried.
        seed: Not used: nothing here is random. Part of the common interface of the baselines.
    """
    steps = to_transitions(observations)
    normaliser = fit_normaliser(steps)
    steps = normaliser.transitions(steps)
    bases = [radial_basis(spread_out(steps.y), length) for length in settings.lengths]
    features = [(basis, basis(steps.y)) for basis in bases]
    pairs = [_fit_component(features, steps.dy[:, j], steps.dtau) for j in range(steps.dim)]
    drift_fields, rates = zip(*pairs, strict=True)
    return SmoothSDE(normaliser, drift_fields, rates, observations.names)


def _fit_component(
    features: list[tuple[RadialBasis, Float64[Array, "n centres"]]],
    dy: Float64[Array, " n"],
    dtau: Float64[Array, " n"],
) -> tuple[SmoothField, LogRate]:
    mean_rate = float(np.sum(dy**2) / np.sum(dtau))
    field = _fit_drift(features, dy, dtau, np.full(len(dy), mean_rate))
    for _ in range(2):
        phi = next(phi for basis, phi in features if basis is field.basis)
        residual = dy - phi @ field.weights * dtau
        rate = log_rate(features, residual**2, dtau, _FLOOR * mean_rate)
        at_rate = next(phi for basis, phi in features if basis is rate.basis)
        g = np.maximum(np.exp(rate.level + at_rate @ rate.weights), _FLOOR * mean_rate)
        field = _fit_drift(features, dy, dtau, g)
    return field, rate


def _fit_drift(
    features: list[tuple[RadialBasis, Float64[Array, "n centres"]]],
    dy: Float64[Array, " n"],
    dtau: Float64[Array, " n"],
    g: Float64[Array, " n"],
) -> SmoothField:
    """The process of the largest evidence, given the variances g dtau of the increments."""
    grid = sizes(float(g.mean() / dtau.sum()), float(g.mean() / dtau.mean()))
    found = [(posterior((phi * (dtau / g)[:, None]).T @ phi, phi.T @ (dy / g), grid), basis) for basis, phi in features]
    weights, basis = max(found, key=lambda pair: pair[0].gain)
    return SmoothField(basis, weights.mean)
