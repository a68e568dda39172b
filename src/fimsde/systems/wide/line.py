"""Families in one dimension. Ranges of parameters are by hand: paths stay bounded and visit what a family is about."""

import numpy as np

from fimsde.shapes import Array, Float
from fimsde.systems.canonical import cube
from fimsde.systems.wide.family import Drawn, Family, constant, log_uniform, maybe_zero, random_smooth

Line = Float[Array, "queries 1"]


def _linear(rng: np.random.Generator) -> Drawn:
    rate, size = log_uniform(rng, 0.5, 5.0), log_uniform(rng, 0.3, 2.0)
    rest = maybe_zero(rng, 3.0)
    return Drawn(lambda x: -rate * (x - rest), constant(size), (rest,))


def _double_well(rng: np.random.Generator) -> Drawn:
    """a u - b u³ + tilt around a centre, with barriers of one to three times the noise temperature g / 2."""
    a, b, centre = log_uniform(rng, 1.0, 4.0), log_uniform(rng, 0.5, 3.0), maybe_zero(rng, 2.0)
    tilt = rng.uniform(-0.5, 0.5) * 2.0 / 3.0 * a * np.sqrt(a / (3.0 * b))  # half of what removes a well
    g = a * a / (4.0 * b) * 2.0 / rng.uniform(1.0, 3.0)
    bend = rng.choice([0.0, 0.3]) * b / a

    def drift(x: Line) -> Line:
        u = x - centre
        return a * u - b * cube(u) + tilt

    return Drawn(drift, lambda x: np.sqrt(g * (1.0 + bend * (x - centre) ** 2)), (centre + np.sqrt(a / b),))


def _smooth(rng: np.random.Generator) -> Drawn:
    force, size = random_smooth(rng, log_uniform(rng, 0.15, 3.0)), log_uniform(rng, 1.0, 4.0)
    noise, modulation, swing = log_uniform(rng, 0.7, 1.5), random_smooth(rng, 2.0), rng.choice([0.0, 0.3])
    return Drawn(lambda x: size * force(x) - 0.25 * cube(x), lambda x: noise * np.exp(swing * modulation(x)), (0.0,))


def _gene_switch(rng: np.random.Generator) -> Drawn:
    """A gene that activates itself, with Langevin noise of production and decay."""
    basal, gain, power = rng.uniform(0.1, 0.3), rng.uniform(1.5, 3.0), int(rng.integers(2, 7))
    rate, size = log_uniform(rng, 2.0, 10.0), log_uniform(rng, 0.02, 0.1)

    def production(x: Line) -> Line:
        active = np.maximum(x, 0.0) ** power
        return basal + gain * active / (1.0 + active)

    return Drawn(
        lambda x: rate * (production(x) - x),
        lambda x: np.sqrt(size * rate * (production(x) + np.maximum(x, 0.0))),
        (rng.uniform(0.2, 2.0),),
    )


def _periodic(rng: np.random.Generator) -> Drawn:
    wave, size, pull = log_uniform(rng, 3.0, 9.0), log_uniform(rng, 2.0, 6.0), log_uniform(rng, 0.3, 1.0)
    phase, second = rng.uniform(0.0, 2.0 * np.pi, 2), rng.uniform(0.0, 0.5)
    g = 4.0 * size / wave / rng.uniform(0.5, 2.0)  # barriers between wells are half to two noise temperatures

    def drift(x: Line) -> Line:
        return size * (np.sin(wave * x + phase[0]) + second * np.sin(2.0 * wave * x + phase[1])) - pull * x

    return Drawn(drift, constant(np.sqrt(g)), (0.0,))


def _high_degree(rng: np.random.Generator) -> Drawn:
    """-a times the product of (x - root) over five or seven roots, nearly Chebyshev's: wells of like depths."""
    degree = int(rng.choice([5, 7]))
    roots = 1.5 * np.cos(np.pi * (np.arange(degree) + 0.5 + rng.uniform(-0.15, 0.15, degree)) / degree)
    places = np.linspace(-1.5, 1.5, 50)[:, None]
    size = log_uniform(rng, 1.0, 3.0) / np.sqrt(np.mean(np.prod(places - roots, axis=1) ** 2))
    noise = log_uniform(rng, 0.5, 1.2)
    return Drawn(lambda x: -size * np.prod(x - roots, axis=1, keepdims=True), constant(noise), (float(roots[2]),))


def _threshold(rng: np.random.Generator) -> Drawn:
    """A dead zone, two slopes, or a relay."""
    rate, other, size = log_uniform(rng, 1.0, 4.0), log_uniform(rng, 0.3, 1.0), log_uniform(rng, 0.5, 1.2)
    place, width = rng.uniform(-0.5, 0.5), rng.uniform(0.4, 1.0)
    match int(rng.integers(3)):
        case 0:
            return Drawn(lambda x: -rate * (x - place - np.clip(x - place, -width, width)), constant(size), (place,))
        case 1:
            return Drawn(lambda x: -np.where(x > place, rate, other) * x, constant(size), (0.0,))
        case _:
            return Drawn(
                lambda x: rate * (width * np.sign(x - place) - x), constant(size * np.sqrt(rate)), (place + width,)
            )


def _noise_law(rng: np.random.Generator) -> Drawn:
    """Linear relaxation with g proportional to x, to x², or a quadratic; noise never reaches zero or infinity."""
    rate, rest, share = log_uniform(rng, 0.5, 4.0), rng.uniform(0.8, 1.5), rng.uniform(0.2, 0.6)

    def drift(x: Line) -> Line:
        return rate * (rest - x)

    match int(rng.integers(3)):
        case 0:  # the square-root process; below zero there is nothing
            return Drawn(drift, lambda x: np.sqrt(share * rate * rest * np.maximum(x, 0.0)), (rest,))
        case 1:
            return Drawn(drift, lambda x: np.sqrt(share * rate) * np.abs(x), (rest,))
        case _:
            return Drawn(drift, lambda x: np.sqrt(share * rate * (0.3 + (x - rest) ** 2)), (rest,))


DEVELOPMENT_1D = (
    Family("linear-1d", "Linear relaxation, 1-D", 1, "polynomial", "development", _linear),
    Family("double-well-1d", "Asymmetric double wells, 1-D", 1, "polynomial", "development", _double_well),
    Family("smooth-1d", "Random smooth drifts, 1-D", 1, "other", "development", _smooth),
    Family("gene-switch-1d", "Self-activating genes, 1-D", 1, "other", "development", _gene_switch, num_paths=5),
)
REPORTED_1D = (
    Family("periodic-1d", "Fine periodic drifts, 1-D", 1, "other", "reported", _periodic),
    Family("high-degree-1d", "Drifts of degree five and seven, 1-D", 1, "other", "reported", _high_degree),
    Family("threshold-1d", "Thresholds and dead zones, 1-D", 1, "other", "reported", _threshold, num_paths=5),
    Family("noise-law-1d", "Square-root, linear and quadratic noise, 1-D", 1, "polynomial", "reported", _noise_law),
)
