"""Families in three dimensions. Ranges of parameters are by hand, as in one."""

import numpy as np

from fimsde.shapes import Array, Float
from fimsde.systems.wide.family import Drawn, Family, constant, log_uniform, maybe_zero

Space = Float[Array, "queries 3"]


def _lorenz(rng: np.random.Generator) -> Drawn:
    """Lorenz' convection around his parameters, noise from weak to strong."""
    exchange, heating, shape = rng.uniform(8.0, 12.0), rng.uniform(24.0, 35.0), rng.uniform(2.0, 3.2)
    noise = log_uniform(rng, 0.3, 5.0)

    def drift(x: Space) -> Space:
        a, b, c = x.T
        return np.array([exchange * (b - a), a * (heating - c) - b, a * b - shape * c]).T

    return Drawn(drift, constant(noise, noise, noise), (1.0, 1.0, heating))


def _network(rng: np.random.Generator) -> Drawn:
    """-x + V tanh(W x + b) with eight neurons."""
    inner, bias = 1.2 * rng.normal(size=(3, 8)), rng.normal(size=8)
    outer, speed = rng.normal(size=(8, 3)), log_uniform(rng, 0.7, 3.0)
    sizes = np.sqrt(speed) * np.array([log_uniform(rng, 0.2, 0.6) for _ in range(3)])
    return Drawn(
        lambda x: speed * (np.tanh(x @ inner + bias) @ outer - x), constant(*sizes), tuple(0.1 * rng.normal(size=3))
    )


def _linear(rng: np.random.Generator) -> Drawn:
    """A chain of relaxations, open or closed to a loop of negative feedback."""
    rates = np.array([log_uniform(rng, 0.5, 3.0) for _ in range(3)])
    matrix = np.diag(-rates) + np.diag(rates[1:], -1)
    matrix[0, 2] = rng.choice([0.0, -1.0]) * rates[0] * rng.uniform(0.5, 2.0)
    rest = np.full(3, maybe_zero(rng, 2.0))
    sizes = [log_uniform(rng, 0.3, 1.5) for _ in range(3)]
    return Drawn(lambda x: (x - rest) @ matrix.T, constant(*sizes), tuple(rest))


def _burst(rng: np.random.Generator) -> Drawn:
    """Roessler's flow: one component rests near zero and bursts now and then."""
    a, b, c = rng.uniform(0.15, 0.25), rng.uniform(0.1, 0.3), rng.uniform(4.5, 7.0)
    noise, small = log_uniform(rng, 0.05, 0.2), log_uniform(rng, 0.01, 0.03)

    def drift(x: Space) -> Space:
        u, v, w = x.T
        return np.array([-v - w, u + a * v, b + w * (u - c)]).T

    return Drawn(drift, constant(noise, noise, small), (1.0, 1.0, 0.1))


def _repressilator(rng: np.random.Generator) -> Drawn:
    """Three genes that repress each other in a ring, with Langevin noise of production and decay."""
    gain, leak, power = rng.uniform(5.0, 15.0), rng.uniform(0.02, 0.2), rng.uniform(2.5, 4.5)
    rates, size = np.array([log_uniform(rng, 0.7, 1.4) for _ in range(3)]), log_uniform(rng, 0.03, 0.15)

    def production(x: Space) -> Space:
        return leak + gain / (1.0 + np.maximum(x[:, [2, 0, 1]], 0.0) ** power)

    return Drawn(
        lambda x: rates * (production(x) - x),
        lambda x: size * np.sqrt(rates * (production(x) + np.maximum(x, 0.0))),
        tuple(rng.uniform(0.5, 3.0, 3)),
    )


DEVELOPMENT_3D = (
    Family("lorenz-3d", "Chaotic convection, 3-D", 3, "polynomial", "development", _lorenz),
    Family("network-3d", "Small neural networks, 3-D", 3, "other", "development", _network),
)
REPORTED_3D = (
    Family("linear-3d", "Chains of relaxations, 3-D", 3, "polynomial", "reported", _linear),
    Family("burst-3d", "Chaos with bursts, 3-D", 3, "polynomial", "reported", _burst),
    Family("repressilator-3d", "Rings of genes, 3-D", 3, "other", "reported", _repressilator),
)
