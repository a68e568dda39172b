"""Families in two dimensions. Ranges of parameters are by hand, as in one."""

import numpy as np

from fimsde.shapes import Array, Float, Float64
from fimsde.systems.canonical import cube
from fimsde.systems.wide.family import Drawn, Family, constant, log_uniform, maybe_zero

Plane = Float[Array, "queries 2"]


def _limit_cycle(rng: np.random.Generator) -> Drawn:
    """Van der Pol's oscillator, or a Hopf cycle with shear."""
    speed, growth, size = log_uniform(rng, 1.0, 4.0), log_uniform(rng, 0.3, 2.0), log_uniform(rng, 0.5, 2.0)
    noise, shear = size * log_uniform(rng, 0.05, 0.4), rng.uniform(-0.5, 0.5)
    diffusion = constant(noise * np.sqrt(speed), noise * np.sqrt(speed) * log_uniform(rng, 0.5, 2.0))

    def van_der_pol(x: Plane) -> Plane:
        u, v = x.T / size
        return speed * size * np.array([v, growth * (1.0 - u * u) * v - u]).T

    def hopf(x: Plane) -> Plane:
        u, v = x.T / size
        square = u * u + v * v
        pull, turn = growth * (1.0 - square), 1.0 + shear * square
        return speed * size * np.array([pull * u - turn * v, pull * v + turn * u]).T

    return Drawn(van_der_pol if rng.random() < 0.5 else hopf, diffusion, (size, 0.0))


def _wells(rng: np.random.Generator) -> Drawn:
    """Minus the gradient of a few Gaussian wells in a bowl; noise temperature below the depth of a well."""
    centres = _apart(rng, int(rng.integers(3, 6)))
    depth, width = rng.uniform(1.0, 3.0, len(centres)), rng.uniform(0.35, 0.6, len(centres))
    pull, temperature = rng.uniform(0.3, 0.8), rng.uniform(0.3, 0.5) * depth.mean()

    def drift(x: Plane) -> Plane:
        away = x[:, None] - centres  # (queries, wells, 2)
        force = depth / width**2 * np.exp(-(away * away).sum(axis=2) / (2.0 * width**2))
        return -(force[..., None] * away).sum(axis=1) - pull * x

    return Drawn(drift, constant(*[np.sqrt(2.0 * temperature)] * 2), tuple(centres[0]))


def _apart(rng: np.random.Generator, num: int) -> Float64[Array, "wells 2"]:
    """Places in a square of side three, drawn again until they are one apart."""
    while True:
        places = rng.uniform(-1.5, 1.5, (num, 2))
        away = np.linalg.norm(places[:, None] - places, axis=2) + 9.0 * np.eye(num)
        if away.min() > 1.0:
            return places


def _weak_noise(rng: np.random.Generator) -> Drawn:
    """The Brusselator beyond its bifurcation, with hardly any noise."""
    a = rng.uniform(0.8, 1.2)
    b, speed, noise = 1.0 + a * a + rng.uniform(0.3, 1.2), log_uniform(rng, 0.5, 2.0), log_uniform(rng, 0.003, 0.02)

    def drift(x: Plane) -> Plane:
        u, v = x.T
        reaction = u * u * v
        return speed * np.array([a - (b + 1.0) * u + reaction, b * u - reaction]).T

    return Drawn(drift, constant(noise * np.sqrt(speed), noise * np.sqrt(speed)), (a + 0.5, b / a))


def _linear(rng: np.random.Generator) -> Drawn:
    """Stable spirals, nodes, and chains in which one component drives the other."""
    rates, turn = np.array([log_uniform(rng, 0.3, 2.0) for _ in range(2)]), log_uniform(rng, 0.3, 3.0)
    rest = np.array([maybe_zero(rng, 2.0), maybe_zero(rng, 2.0)])
    match int(rng.integers(3)):
        case 0:
            matrix = np.array([[-rates[0], turn], [-turn * log_uniform(rng, 0.5, 2.0), -rates[0]]])
        case 1:
            matrix = np.array([[-rates[0], 0.0], [turn, -rates[1]]])
        case _:
            matrix = np.diag(-rates)
    sizes = [log_uniform(rng, 0.3, 1.5) for _ in range(2)]
    return Drawn(lambda x: (x - rest) @ matrix.T, constant(*sizes), tuple(rest))


def _cubic(rng: np.random.Generator) -> Drawn:
    """A few linear and quadratic terms around an origin, and a cubic pull towards it; half with a quadratic g."""
    origin = np.array([maybe_zero(rng, 2.0), maybe_zero(rng, 2.0)])
    linear = rng.normal(size=(2, 2)) * (rng.random((2, 2)) < 0.75)
    quadratic = 0.6 * rng.normal(size=(2, 3)) * (rng.random((2, 3)) < 0.4)
    pull, speed = rng.uniform(0.5, 1.5, 2), log_uniform(rng, 0.7, 3.0)
    sizes, bend = np.array([log_uniform(rng, 0.3, 1.0) for _ in range(2)]), rng.choice([0.0, 0.5])

    def drift(x: Plane) -> Plane:
        u = x - origin
        squares = np.array([u[:, 0] ** 2, u[:, 0] * u[:, 1], u[:, 1] ** 2]).T
        return speed * (u @ linear.T + squares @ quadratic.T - pull * cube(u))

    def diffusion(x: Plane) -> Plane:
        return np.sqrt(speed) * sizes * np.sqrt(1.0 + bend * (x - origin)[:, ::-1] ** 2)

    return Drawn(drift, diffusion, tuple(origin + 0.5))


def _phases(rng: np.random.Generator) -> Drawn:
    """Two coupled phases, each drawn back by a weak spring."""
    frequency, coupling, own = rng.uniform(-1.5, 1.5, 2), rng.uniform(-3.0, 3.0, 2), rng.uniform(0.0, 2.0, 2)
    spring, size = rng.uniform(0.2, 0.6), log_uniform(rng, 0.5, 1.2)

    def drift(x: Plane) -> Plane:
        return frequency - spring * x + coupling * np.sin(x[:, ::-1] - x) + own * np.sin(x)

    return Drawn(drift, constant(size, size), (0.0, 0.0))


def _excitable(rng: np.random.Generator) -> Drawn:
    """FitzHugh and Nagumo's neuron: fast spikes and slow recovery."""
    ratio, current = log_uniform(rng, 0.05, 0.2), rng.uniform(0.2, 0.6)
    threshold, damping = rng.uniform(0.6, 0.8), rng.uniform(0.6, 0.9)
    fast, slow = log_uniform(rng, 0.2, 0.6), log_uniform(rng, 0.05, 0.2)

    def drift(x: Plane) -> Plane:
        v, w = x.T
        return np.array([(v - cube(v) / 3.0 - w + current) / ratio, v + threshold - damping * w]).T

    return Drawn(drift, constant(fast, slow), (-1.0, -0.5))


def _predator_prey(rng: np.random.Generator) -> Drawn:
    """Logarithms of prey and predators (Rosenzweig and MacArthur's model), with noise of the environment."""
    growth, capacity, attack = log_uniform(rng, 0.7, 2.0), rng.uniform(1.5, 3.0), log_uniform(rng, 1.0, 2.0)
    yield_, death = rng.uniform(0.7, 1.0), rng.uniform(0.35, 0.5)  # death as a share of the largest gain
    sizes = [log_uniform(rng, 0.1, 0.4) for _ in range(2)]

    def drift(x: Plane) -> Plane:
        prey, predators = np.exp(x.T)
        eaten = attack / (1.0 + prey)
        return np.array(
            [growth * (1.0 - prey / capacity) - eaten * predators, yield_ * attack * (prey / (1.0 + prey) - death)]
        ).T

    return Drawn(drift, constant(*sizes), (np.log(death / (1.0 - death)), np.log(0.5 * growth / attack)))


def _egg_box(rng: np.random.Generator) -> Drawn:
    """A lattice of wells, not a gradient, in a noise that changes from place to place."""
    wave, phase = np.array([log_uniform(rng, 2.0, 4.0) for _ in range(2)]), rng.uniform(0.0, 2.0 * np.pi, (2, 2))
    size, pull, cross = log_uniform(rng, 2.0, 4.0), rng.uniform(0.5, 1.0), rng.uniform(-1.5, 1.5, 2)
    noise, swing = np.sqrt(4.0 * size / wave.mean() / rng.uniform(0.8, 2.0)), rng.choice([0.0, 0.4])

    def drift(x: Plane) -> Plane:
        return size * np.sin(wave * x + phase[0]) - pull * x + cross * np.sin(x[:, ::-1])

    return Drawn(drift, lambda x: noise * np.sqrt(1.0 + swing * np.cos(x[:, ::-1] + phase[1])), (0.0, 0.0))


def _clock(rng: np.random.Generator) -> Drawn:
    """A pendulum kept going by its clockwork, with hardly any noise."""
    frequency, drive, reach = log_uniform(rng, 1.0, 3.0), rng.uniform(0.2, 0.6), rng.uniform(0.8, 1.2)
    noise = log_uniform(rng, 0.003, 0.02)

    def drift(x: Plane) -> Plane:
        angle, velocity = x.T
        push = drive * (1.0 - (angle / reach) ** 2) * velocity
        return np.array([velocity, frequency * push - frequency**2 * np.sin(angle)]).T

    return Drawn(drift, constant(noise, noise * frequency), (reach, 0.0))


DEVELOPMENT_2D = (
    Family("limit-cycle-2d", "Limit cycles, 2-D", 2, "polynomial", "development", _limit_cycle),
    Family("wells-2d", "Gaussian wells in a plane, 2-D", 2, "other", "development", _wells),
    Family("weak-noise-2d", "Reactions with hardly any noise, 2-D", 2, "polynomial", "development", _weak_noise),
)
REPORTED_2D = (
    Family("linear-2d", "Linear systems, 2-D", 2, "polynomial", "reported", _linear),
    Family("cubic-2d", "Cubic systems, 2-D", 2, "polynomial", "reported", _cubic),
    Family("excitable-2d", "Excitable neurons, 2-D", 2, "polynomial", "reported", _excitable),
    Family("phases-2d", "Coupled phases, 2-D", 2, "other", "reported", _phases),
    Family("predator-prey-2d", "Logarithms of predators and prey, 2-D", 2, "other", "reported", _predator_prey, 10),
    Family("egg-box-2d", "Lattices of wells, 2-D", 2, "other", "reported", _egg_box),
    Family("clock-2d", "Pendulum clocks with hardly any noise, 2-D", 2, "other", "reported", _clock),
)
