"""SparseGP: Gaussian process regression of increments and squared increments (Batz, Ruttor, Opper 2018, dense data).

Every gap is one Euler step. Per component: squares dy²/dtau give the variance rate g under an RBF kernel with one noise
variance, learned; then dy/dtau give the drift f under a polynomial kernel with the variances g/dtau now known. A few
inducing points where the paths spend time make the cost linear in the data. For a polynomial kernel they lose nothing
once there are as many as monomials.

The paper gives the kernels and "about ten" points; degree, placement, start values and bounds are ours.
"""

from dataclasses import dataclass
from math import comb

import numpy as np
from scipy.spatial.distance import cdist

from fimsde.baselines.gaussian_process import PolynomialKernel, RBFKernel, Search, SparsePosterior, fit_posterior
from fimsde.baselines.library import square_root
from fimsde.data.normalise import Normaliser, fit_normaliser
from fimsde.data.observations import Observations
from fimsde.data.transitions import Transitions, to_transitions
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.shapes import Array, Float, Float64

_WIDE = 14.0  # scales and noise may leave their start by this in the logarithm, a factor of a million; by hand


@dataclass(frozen=True)
class SparseGPSettings:
    """How SparseGP runs. The paper's variant has `subtract_drift=False`."""

    degree: int = 3  # of the polynomial kernel of the drift
    num_inducing: int | None = None  # None: 10, or the number of monomials if that is larger
    subtract_drift: bool = False  # one more round with squares of residuals, without the bias dtau f²
    standardise: bool = True  # fit in units of the data's spread; makes the result follow a change of units
    restarts: int = 3  # starts of each search for hyper-parameters
    jitter: float = 1e-6  # added to the inducing covariance, relative to its mean diagonal
    clip: bool = True  # whether a negative g counts as 0; otherwise the diffusion is NaN there

    def __post_init__(self) -> None:
        if self.degree < 1:
            raise ConfigError(f"degree is {self.degree}; the polynomial kernel needs at least 1.")
        if self.num_inducing is not None and self.num_inducing < 1:
            raise ConfigError(f"num_inducing is {self.num_inducing}; at least one inducing point is needed.")
        if self.restarts < 1:
            raise ConfigError(f"restarts is {self.restarts}; at least one start is needed.")
        if not self.jitter > 0:
            raise ConfigError(f"jitter is {self.jitter}; it must be positive, for instance 1e-6.")


PAPER = SparseGPSettings()
IMPROVED = SparseGPSettings(subtract_drift=True)


@dataclass(frozen=True)
class SparseGPSDE:
    """Posterior means of drift and variance rate.

    Attributes:
        normaliser: Units in which the processes were fitted.
        drift_posteriors: One process per component.
        diffusion_sq_posteriors: The same for g, whose mean may be negative and tends to 0 away from the data.
        clip: Whether a negative g counts as 0; otherwise the diffusion is NaN there.
        names: Names of the state components.
    """

    normaliser: Normaliser
    drift_posteriors: tuple[SparsePosterior, ...]
    diffusion_sq_posteriors: tuple[SparsePosterior, ...]
    clip: bool
    names: tuple[str, ...]

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.names)

    @property
    def converged(self) -> bool:
        """False if any search for hyper-parameters was stopped before its own rule held."""
        return all(p.converged for p in self.drift_posteriors + self.diffusion_sq_posteriors)

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f, state per time. A cubic: outside the data it may push paths away."""
        return self.normaliser.undo_drift(self._means(self.drift_posteriors, x))

    def drift_std(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Posterior standard deviation of the drift, given g and the hyper-parameters."""
        z = self.normaliser.states(np.asarray(x, np.float64))
        return self.normaliser.undo_drift(np.stack([np.sqrt(p.variance(z)) for p in self.drift_posteriors], axis=1))

    def diffusion_sq(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Variance rate g as fitted, also where it is negative."""
        unit = self.normaliser.undo_diffusion(np.ones(self.dim)) ** 2
        return self._means(self.diffusion_sq_posteriors, x) * unit

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """sqrt(g), state per square root of time; see `clip` for negative g."""
        return square_root(self.diffusion_sq(x), self.clip)

    def _means(
        self, posteriors: tuple[SparsePosterior, ...], x: Float[Array, "queries dim"]
    ) -> Float64[Array, "queries dim"]:
        z = self.normaliser.states(np.asarray(x, np.float64))
        return np.stack([p.mean(z) for p in posteriors], axis=1)


def fit(observations: Observations, settings: SparseGPSettings = PAPER, seed: int = 0) -> SparseGPSDE:
    """Regress increments on states with Gaussian processes.

    Args:
        observations: Any number of paths with any gaps; every gap counts as one Euler step.
        settings: See `SparseGPSettings`; presets are `PAPER` and `IMPROVED`.
        seed: Seed of the k-means start (two and more dimensions) and of the jittered restarts.

    Raises:
        InvalidObservationsError: There are fewer transitions than inducing points, or a component never moves.
        FimsdeError: No start led to a finite evidence.
    """
    steps = to_transitions(observations)
    for name, increments in zip(observations.names, steps.dy.T, strict=True):
        if not np.any(increments):
            raise InvalidObservationsError(f"{name} never moves within a path; it has no drift to estimate. Remove it.")
    normaliser = fit_normaliser(steps) if settings.standardise else _as_they_are(steps.dim)
    steps = normaliser.transitions(steps)
    rng = np.random.default_rng(seed)
    inducing = _inducing_points(steps.y, settings, rng)
    pairs = [_fit_component(steps, j, inducing, settings, rng) for j in range(steps.dim)]
    drift, diffusion_sq = zip(*pairs, strict=True)
    return SparseGPSDE(normaliser, drift, diffusion_sq, settings.clip, observations.names)


def _as_they_are(dim: int) -> Normaliser:
    return Normaliser(offset=np.zeros(dim), scale=np.ones(dim), time_scale=1.0)


def _inducing_points(
    y: Float64[Array, "n dim"], settings: SparseGPSettings, rng: np.random.Generator
) -> Float64[Array, "inducing dim"]:
    """Where the paths spend time: quantiles in one dimension, k-means centres in more."""
    dim = y.shape[1]
    num = settings.num_inducing or max(10, comb(dim + settings.degree, dim))
    if len(y) < num:
        raise InvalidObservationsError(
            f"{len(y)} transitions for {num} inducing points. Pass longer paths, or lower num_inducing."
        )
    if dim == 1:
        return np.quantile(y, np.linspace(0.02, 0.98, num), axis=0)
    return _k_means(y, rng.choice(len(y), size=num, replace=False))


def _k_means(y: Float64[Array, "n dim"], first: Array, iterations: int = 50) -> Float64[Array, "inducing dim"]:
    """Lloyd's algorithm from the given rows; a centre that loses all its points stays where it is."""
    centres = y[first]
    for _ in range(iterations):
        member = cdist(y, centres, "sqeuclidean").argmin(axis=1)
        count = np.bincount(member, minlength=len(centres))[:, None]
        total = np.stack([np.bincount(member, column, minlength=len(centres)) for column in y.T], axis=1)
        moved = np.where(count > 0, total / np.maximum(count, 1), centres)
        if np.array_equal(moved, centres):
            break
        centres = moved
    return centres


def _fit_component(
    steps: Transitions,
    j: int,
    inducing: Float64[Array, "inducing dim"],
    settings: SparseGPSettings,
    rng: np.random.Generator,
) -> tuple[SparsePosterior, SparsePosterior]:
    """Drift and variance rate of component j."""
    dy, dtau = steps.dy[:, j], steps.dtau
    diffusion_sq = _fit_diffusion_sq(steps.y, dy**2 / dtau, inducing, settings, rng)
    drift = _fit_drift(steps, j, diffusion_sq, inducing, settings, rng)
    if settings.subtract_drift:
        residuals = dy - drift.mean(steps.y) * dtau
        diffusion_sq = _fit_diffusion_sq(steps.y, residuals**2 / dtau, inducing, settings, rng)
        drift = _fit_drift(steps, j, diffusion_sq, inducing, settings, rng)
    return drift, diffusion_sq


def _fit_diffusion_sq(
    y: Float64[Array, "n dim"],
    squares: Float64[Array, " n"],
    inducing: Float64[Array, "inducing dim"],
    settings: SparseGPSettings,
    rng: np.random.Generator,
) -> SparsePosterior:
    """Zero prior mean, constant noise: a working assumption, the squares are in fact scaled chi-squares."""
    size = np.mean(squares) ** 2
    spread = np.std(y, axis=0)
    scale, length = np.log([size]), np.log(spread)
    noise = np.log([max(np.var(squares), 1e-6 * size)])  # squares without any noise must not start at -inf
    search = Search(
        start=np.concatenate([scale, length, noise]),
        low=np.concatenate([scale - _WIDE, np.log(0.05 * spread), noise - _WIDE]),
        high=np.concatenate([scale + _WIDE, np.log(20 * spread), noise + _WIDE]),
        restarts=settings.restarts,
        spread=1.0,
    )
    return fit_posterior(RBFKernel(), inducing, y, squares, None, search, settings.jitter, rng)


def _fit_drift(
    steps: Transitions,
    j: int,
    diffusion_sq: SparsePosterior,
    inducing: Float64[Array, "inducing dim"],
    settings: SparseGPSettings,
    rng: np.random.Generator,
) -> SparsePosterior:
    floor = 1e-3 * np.mean(steps.dy[:, j] ** 2 / steps.dtau)  # g may come out negative; a variance may not
    noise = np.maximum(diffusion_sq.mean(steps.y), floor) / steps.dtau  # of dy / dtau: note the division
    target = steps.dy[:, j] / steps.dtau
    scale = np.log(1e-3 * np.mean(target**2))
    search = Search(
        start=np.array([scale, 0.0]),
        low=np.array([scale - _WIDE, -6.0]),
        high=np.array([scale + _WIDE, 6.0]),
        restarts=settings.restarts,
        spread=1.0,
    )
    kernel = PolynomialKernel(settings.degree)
    return fit_posterior(kernel, inducing, steps.y, target, noise, search, settings.jitter, rng)
