"""Random cubic systems of one and two components, under names that textbooks give them; none is a draw of the prior.

A draw has random coefficients, noise that is constant or grows with the state (g quadratic), and in every other draw
units and a zero of its own, so that the place zero means nothing. Gaps are in natural times:

    natural time = 1 / sqrt(mean ||J(x)||² / dim),    J the Jacobian of the drift, x along a path

which is 1/k for an Ornstein-Uhlenbeck process of rate k and 1/w for a rotation with angular frequency w.
"""

from collections.abc import Callable

import numpy as np

from fimsde.equations.changes import AffineSDE
from fimsde.equations.sde import SDE, Field, FunctionSDE
from fimsde.errors import ConfigError, DatasetError
from fimsde.shapes import Array, Float, Float64
from fimsde.simulate import simulate
from fimsde.systems.canonical import REPORT_SEED, cube, simulation_seed, stream
from fimsde.systems.samples import Sample, observe, share_of_half_range

LENGTH = 5000  # observations; the paper's context
NOISE = 0.05  # of half the range; the paper's
GAPS = (0.01, 0.1)  # natural times
DATA_SETS = 20  # of each family and seed
_FARTHEST = 20.0  # in the units of a family's equation; by hand: wells and cycles have a size of about one
_ATTEMPTS = 50  # by hand; hardly any draw is refused
_PILOT, _STEP = 4000, 0.01  # Euler steps from which a natural time is read, and their length; by hand
_PRERUN = 20.0  # natural times before the first observation; by hand: what is left of the start is e^-20 of it
_SUBSTEPS = {0.01: 10, 0.1: 40}  # Euler steps per gap; by hand: 1/400 natural time or less
_DIFFERENCE = 1e-4  # of states, in the Jacobian: exact up to rounding and the cubic term

Random = np.random.Generator
Drift = tuple[int, Field]


def _double_well(r: Random) -> Drift:
    a, b, c = r.uniform(0.7, 1.5), r.uniform(0.7, 1.5), r.uniform(-0.3, 0.3)
    return 1, lambda x: c + a * x - b * cube(x)


def _threshold_growth(r: Random) -> Drift:
    """A population with a strong Allee effect."""
    rate, threshold = r.uniform(2.0, 5.0), r.uniform(0.2, 0.45)
    return 1, lambda x: rate * x * (1 - x) * (x - threshold)


def _stiffening_trap(r: Random) -> Drift:
    a, b, c = r.uniform(0.3, 1.0), r.uniform(-0.4, 0.4), r.uniform(0.3, 1.0)
    return 1, lambda x: -a * x - b * x**2 - c * cube(x)


def _limit_cycle(r: Random) -> Drift:
    size, turn, shear = r.uniform(0.5, 1.5), r.choice([-1, 1]) * r.uniform(0.7, 2.5), r.uniform(-0.6, 0.6)

    def drift(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
        square = (x**2).sum(axis=1, keepdims=True)
        return (size - square) * x + (turn + shear * square) * x[:, ::-1] * [-1, 1]

    return 2, drift


def _van_der_pol(r: Random) -> Drift:
    m, k = r.uniform(0.4, 2.0), r.uniform(0.7, 1.5)
    return 2, lambda x: np.stack([x[:, 1], m * (1 - x[:, 0] ** 2) * x[:, 1] - k * x[:, 0]], axis=1)


def _duffing(r: Random) -> Drift:
    a, b, damping = r.uniform(0.6, 1.4), r.uniform(0.6, 1.4), r.uniform(0.2, 0.8)
    return 2, lambda x: np.stack([x[:, 1], a * x[:, 0] - b * cube(x[:, 0]) - damping * x[:, 1]], axis=1)


def _excitable(r: Random) -> Drift:
    """FitzHugh and Nagumo's neuron."""
    fast, slow, current = r.uniform(1.0, 3.0), r.uniform(0.2, 0.6), r.uniform(0.2, 0.6)
    a, b = r.uniform(0.5, 0.9), r.uniform(0.5, 0.9)

    def drift(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
        v, w = x.T
        return np.stack([fast * (v - cube(v) / 3 - w + current), slow * (v + a - b * w)], axis=1)

    return 2, drift


def _coupled_wells(r: Random) -> Drift:
    """Two units, each in a double well or a trap, that pull at each other unequally."""
    a, b, pull = r.uniform(-0.8, 1.3, 2), r.uniform(0.5, 1.2, 2), r.uniform(-0.6, 0.6, 2)
    return 2, lambda x: a * x - b * cube(x) + pull * x[:, ::-1]


def _autocatalysis(r: Random) -> Drift:
    """Selkov's glycolysis."""
    a, b = r.uniform(0.06, 0.14), r.uniform(0.4, 0.9)

    def drift(x: Float[Array, "queries 2"]) -> Float[Array, "queries 2"]:
        reaction = a * x[:, 1] + x[:, 0] ** 2 * x[:, 1]
        return np.stack([reaction - x[:, 0], b - reaction], axis=1)

    return 2, drift


FAMILIES: dict[str, Callable[[Random], Drift]] = {
    "double_well": _double_well,
    "threshold_growth": _threshold_growth,
    "stiffening_trap": _stiffening_trap,
    "limit_cycle": _limit_cycle,
    "van_der_pol": _van_der_pol,
    "duffing": _duffing,
    "excitable": _excitable,
    "coupled_wells": _coupled_wells,
    "autocatalysis": _autocatalysis,
}
_SMALL = {"threshold_growth": 0.3, "autocatalysis": 0.3}  # their states are smaller, so the noise is too; by hand


def cubic_sample(
    family: str, gap: float, repetition: int = 0, *, noise: float = NOISE, seed: int = REPORT_SEED
) -> Sample:
    """A random system of a family and 5000 noisy observations of it.

    Args:
        family: One of `FAMILIES`.
        gap: 0.01 or 0.1 natural times; both are of the same system.
        repetition: Number of the draw, from 0.
        noise: Measurement noise as a share of half the range of each component.
        seed: As in `canonical`.
    """
    if family not in FAMILIES or gap not in GAPS or not 0 <= repetition < DATA_SETS:
        raise ConfigError(
            f"family {family!r}, gap {gap}, repetition {repetition}; expected one of {', '.join(FAMILIES)}, a gap of "
            f"{' or '.join(map(str, GAPS))} and a number from 0 to {DATA_SETS - 1}."
        )
    for attempt in range(_ATTEMPTS):
        labels = ("random_cubic", family, repetition, attempt)
        truth, pilot = _draw(family, np.random.default_rng(stream(seed, *labels)), simulation_seed(seed, *labels))
        if pilot is None:
            continue
        time = natural_time(truth, pilot)
        states = _observed_states(truth, pilot[-1], gap * time, gap, simulation_seed(seed, *labels, f"gap {gap:g}"))
        if np.isfinite(states).all():
            noise_std = share_of_half_range(states, noise)
            return observe(truth, states, gap * time, noise_std, stream(seed, *labels, "noise", f"gap {gap:g}"))
    raise DatasetError(f"none of {_ATTEMPTS} draws of {family} stayed bounded with seed {seed}. Take another seed.")


def _draw(family: str, r: Random, seed: int) -> tuple[SDE, Float64[Array, "times dim"] | None]:
    """An equation and a path of it; None in its place if the path did not stay bounded."""
    dim, drift = FAMILIES[family](r)
    size = _SMALL.get(family, 1.0) * r.uniform(0.25, 0.7, dim)
    growth = r.uniform(0.2, 0.8, dim) * r.integers(2)  # 0: constant noise
    inner = FunctionSDE(dim, drift, lambda x: size * np.sqrt(1 + growth * x**2))
    path = simulate(inner, np.full((1, dim), 0.5), np.arange(_PILOT) * _STEP, seed=seed, limit=_FARTHEST).values[0]
    if r.integers(2):
        scale, shift = np.exp(r.uniform(-1.5, 1.5, dim)), r.normal(0.0, 2.0, dim)
        moved: SDE = AffineSDE(inner, scale=1 / scale, offset=-shift)  # u = z / scale - shift
        path = (path + shift) * scale
    else:
        moved = inner
    return moved, path if np.isfinite(path).all() else None


def natural_time(sde: SDE, x: Float64[Array, "queries dim"]) -> float:
    """1 / sqrt(mean ||J||² / dim) over the states x, each component in units of its own spread."""
    spread = x.std(axis=0)
    total = 0.0
    for j in range(sde.dim):
        step = np.zeros(sde.dim)
        step[j] = _DIFFERENCE * spread[j]
        slope = (sde.drift(x + step) - sde.drift(x - step)) / (2 * _DIFFERENCE * spread)  # dim of f over that of x
        total += float(np.mean((slope**2).sum(axis=1)))
    return float(np.sqrt(sde.dim / total))


def _observed_states(
    truth: SDE, start: Float64[Array, " dim"], gap: float, natural_gap: float, seed: int
) -> Float64[Array, "times dim"]:
    prerun = round(_PRERUN / natural_gap)
    times = np.arange(prerun + LENGTH) * gap
    paths = simulate(truth, start[None], times, substeps=_SUBSTEPS[natural_gap], seed=seed)
    return paths.values[0, prerun:]
