"""First-order systems of the gallery of StochasticForceInference, with its parameters and sample sizes.

The equations, gaps, numbers of observations, sub-steps and preruns are those of examples/gallery of version 2.0.2
(github.com/ronceray/StochasticForceInference); `test_ou2` is one of its test scenarios. That package writes
dx = F dt + sqrt(2 D) dW, so that g = 2 D here. Left out are equations that change in time, those of second order and
those of more than three components.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fimsde.equations.sde import CorrelationField, Field
from fimsde.errors import ConfigError, DatasetError
from fimsde.shapes import Array, Float
from fimsde.simulate import simulate
from fimsde.systems.canonical import REPORT_SEED, cube, simulation_seed, stream
from fimsde.systems.samples import Sample, observe

DATA_SETS = 20  # of each system and seed


@dataclass(frozen=True)
class GallerySystem:
    """An equation (an `SDE`) together with the way its data are made.

    Attributes:
        name: Key in result files.
        title: Name in tables.
        drift: f at locations (queries, dim).
        diffusion: sqrt(g_ii) at locations (queries, dim).
        initial_state: Where every path starts.
        gap: Time between observations.
        length: Observations.
        substeps: Euler steps per gap.
        prerun: Gaps before the first observation.
        noise_std: Standard deviation of the measurement noise, in units of the data.
        correlation: Of the noise, where it is not diagonal.
        drift_degree: Of the polynomials that its gallery fits.
    """

    name: str
    title: str
    drift: Field
    diffusion: Field
    initial_state: tuple[float, ...]
    gap: float
    length: int
    substeps: int
    prerun: int = 0
    noise_std: float = 0.0
    correlation: CorrelationField | None = None
    drift_degree: int = 3

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.initial_state)


def gallery_sample(system: GallerySystem, repetition: int = 0, *, seed: int = REPORT_SEED) -> Sample:
    """One data set of a system; 0 to 19 are independent. Seeds as in `canonical`."""
    if not 0 <= repetition < DATA_SETS:
        raise ConfigError(f"repetition is {repetition}; expected 0 to {DATA_SETS - 1}. Take another seed for more.")
    states = _paths(system, seed)[repetition]
    noise_std = np.full(system.dim, system.noise_std)
    return observe(system, states, system.gap, noise_std, stream(seed, "gallery", system.name, "noise", repetition))


@lru_cache(maxsize=1)  # at most 100 MB; all data sets cost as much time as one and are asked for in turn
def _paths(system: GallerySystem, seed: int) -> Float[Array, "paths times dim"]:
    x0 = np.tile(np.array(system.initial_state, dtype=np.float64), (DATA_SETS, 1))
    times = np.arange(system.prerun + system.length) * system.gap
    label = simulation_seed(seed, "gallery", system.name, "paths")
    paths = simulate(system, x0, times, substeps=system.substeps, seed=label)
    if paths.num_diverged:
        raise DatasetError(
            f"{paths.num_diverged} of {DATA_SETS} paths of {system.title} left the finite range with seed {seed}. "
            "Take another seed."
        )
    values = paths.values[:, system.prerun :].copy()
    values.flags.writeable = False  # shared by all callers
    return values


def _constant(*diffusion_constants: float) -> Field:
    """sqrt(2 D) everywhere."""
    size = np.sqrt(2 * np.array(diffusion_constants))
    return lambda x: np.broadcast_to(size, x.shape)


def _double_well(x: Float[Array, "queries 1"]) -> Float[Array, "queries 1"]:
    return x - cube(x)


def _limit_cycle(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
    radial = 1 - (x**2).sum(axis=1, keepdims=True)
    return radial * x + 2.0 * x[:, ::-1] * [-1, 1]


_MULLER_BROWN = np.array(  # depth, curvatures xx, xy, yy, and centre of the four Gaussians; Theor. Chim. Acta 53 (1979)
    [
        [-200.0, -1.0, 0.0, -10.0, 1.0, 0.0],
        [-100.0, -1.0, 0.0, -10.0, 0.0, 0.5],
        [-170.0, -6.5, 11.0, -6.5, -0.5, 1.5],
        [15.0, 0.7, 0.6, 0.7, -1.0, 1.0],
    ]
)


def _muller_brown(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
    depth, xx, xy, yy, c1, c2 = _MULLER_BROWN.T
    u, v = x[:, :1] - c1, x[:, 1:] - c2  # (queries, 4)
    wells = 0.01 * depth * np.exp(xx * u**2 + xy * u * v + yy * v**2)
    return -np.stack([(wells * (2 * xx * u + xy * v)).sum(axis=1), (wells * (xy * u + 2 * yy * v)).sum(axis=1)], axis=1)


def _ring(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
    return -4.0 * ((x**2).sum(axis=1, keepdims=True) - 1.5**2) * x


def _ring_variance(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
    return 2 * (0.2 + 0.15 * x**2)


def _ring_correlation(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2 2"]:
    """D = 0.2 I + 0.15 x x': noise is stronger along the radius."""
    rho = np.tile(np.eye(2), (len(x), 1, 1))
    rho[:, 0, 1] = rho[:, 1, 0] = 2 * 0.15 * x[:, 0] * x[:, 1] / np.sqrt(_ring_variance(x).prod(axis=1))
    return rho


def _driven_trap(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
    return -1.0 * x + 0.3 * x[:, ::-1] * [-1, 1]


def _lorenz(x: Float[Array, "queries 3"]) -> Float[Array, "queries 3"]:
    x1, x2, x3 = x.T
    return np.stack([20.0 * (x2 - x1), x1 * (8.0 - x3) - x2, x1 * x2 - 2.0 * x3], axis=1)


_OU2 = np.array([[1.0, 0.1], [0.1, 1.5]])

GALLERY = {
    system.name: system
    for system in (
        GallerySystem("ou", "Ornstein-Uhlenbeck", lambda x: -1.0 * x, _constant(0.5), (0.0,), 0.1, 500, 4),
        GallerySystem("double_well_diag", "Double well", _double_well, _constant(0.15), (0.5,), 0.05, 8000, 10, 200),
        GallerySystem(
            *("double_well_noisy", "Double well, noisy", _double_well, _constant(0.15), (0.5,), 0.02, 12_000, 10, 200),
            noise_std=0.06,
        ),
        GallerySystem(
            *("blowtorch", "Blowtorch", _double_well, lambda x: np.sqrt(np.maximum(1 + 0.3 * x, 0)), (0.5,)),
            *(0.01, 50_000, 10, 200),
        ),
        GallerySystem(
            "limit_cycle", "Limit cycle", _limit_cycle, _constant(0.1, 0.1), (0.5, 0.0), 0.05, 4000, 20, 5000
        ),
        GallerySystem(
            *("muller_brown", "Müller-Brown", _muller_brown, _constant(0.5, 0.5), (-0.5, 1.5), 0.01, 15_000, 10, 500),
            drift_degree=5,  # the gradient of a potential of degree six
        ),
        GallerySystem(
            *("ring_anisotropic", "Anisotropic ring", _ring, lambda x: np.sqrt(_ring_variance(x)), (1.5, 0.0)),
            *(0.005, 50_000, 10, 500),
            correlation=_ring_correlation,
        ),
        GallerySystem(
            "driven_trap", "Driven trap", _driven_trap, _constant(0.5, 0.5), (0.0, 0.0), 0.01, 320_000, 4, 500
        ),
        GallerySystem(
            *("lorenz", "Lorenz", _lorenz, _constant(5.0, 5.0, 5.0), (1.0, 1.0, 1.0), 0.005, 2000, 10, 2000),
            drift_degree=2,
        ),
        GallerySystem(
            *("test_ou2", "Coupled Ornstein-Uhlenbeck, noisy", lambda x: -x @ _OU2, _constant(0.5, 0.3), (0.0, 0.0)),
            *(0.02, 6000, 10),
            noise_std=0.03,
        ),
    )
}
