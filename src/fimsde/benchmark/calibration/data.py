"""Data sets for calibration: equations of the prior, of the wide suite and the canonical ones, with known truth.

Equations of the prior are simulated anew, by midpoint steps in double precision: the prior's own paths are Euler chains
in single precision, whose drift differs from that of the equation by more than the error bars of data with hardly any
noise. Seeds from 1000000 on are for development and for the table of spreads, 0 is for reports.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import numpy as np

from fimsde.benchmark.wide.data import load
from fimsde.benchmark.wide.tasks import Column, Gap, WideTask
from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE, Fields
from fimsde.prior.config import PolynomialConfig, PriorConfig, Setting
from fimsde.prior.equation import draw_equation
from fimsde.shapes import Array, Float, Float64
from fimsde.simulate import simulate
from fimsde.systems import canonical
from fimsde.systems.wide.families import FAMILIES

Source = Literal["prior", "wide", "canonical"]
SIZES = (300, 1000, 5000)  # observations: what users have, what they wish, and the paper's number
NOISES = (0.0, 0.05)  # share of half the range; 0.05 is the noise of the paper's experiments
_SETTINGS = (Setting(0.1, 10, 50, 100), Setting(0.01, 10, 20, 250), Setting(0.001, 10, 10, 500))  # 5000 observations
GAPS = tuple(setting.gap for setting in _SETTINGS)
_SUBSTEPS = 20  # midpoint steps in a gap: the largest one, 0.005, turns the drift by less than a thousandth
_LIMIT = 100.0  # as in the prior: states beyond are on their way to infinity
_HELD_OUT = 7_000_000  # seeds of the prior from here on are used nowhere else
_PLACES = 60  # at which fields are compared; by hand: bounds seconds


@dataclass(frozen=True)
class Case:
    """One data set: where it is from, and its cell.

    Attributes:
        source: Of the equation.
        name: "1-D" to "3-D" for the prior, a family or a system for others.
        gap: Of the prior in units of its time; "fine" or "coarse" for others.
        noise: Standard deviation as a share of half the range.
        size: Number of observations.
        draw: Number of the equation.
    """

    source: Source
    name: str
    gap: str
    noise: float
    size: int
    draw: int


@dataclass(frozen=True, eq=False)
class Known:
    """Observations with their truth, and clean states at which it is asked for."""

    observations: Observations
    truth: SDE
    states: Float64[Array, "places dim"]


def cases(source: Source, draws: int, *, names: tuple[str, ...] | None = None, quick: bool = False) -> list[Case]:
    """All data sets of a source, equation after equation; the small version has one size and no third dimension."""
    sizes = SIZES[1:2] if quick else SIZES
    match source:
        case "prior":
            every = names or (("1-D", "2-D") if quick else ("1-D", "2-D", "3-D"))
            gaps = tuple(f"{gap:g}" for gap in (GAPS[1:2] if quick else GAPS))
        case "wide":
            every = names or tuple(family.name for family in FAMILIES if family.share == "development")
            gaps = ("fine", "coarse")
        case "canonical":
            every = names or tuple(system.name for system in canonical.CANONICAL)
            gaps, sizes = ("fine", "coarse"), (5000,)
    return [
        Case(source, name, gap, noise, size, draw)
        for draw, name, gap, noise, size in product(range(draws), every, gaps, NOISES, sizes)
    ]


def load_case(case: Case, seed: int) -> Known | None:
    """The data of a case; None if the equation left the finite range."""
    match case.source:
        case "prior":
            return _of_prior(case, seed)
        case "wide":
            gap: Gap = "fine" if case.gap == "fine" else "coarse"
            problem = load(WideTask(case.name, case.draw, Column(case.noise, gap, case.size), seed))
            return Known(problem.observations, problem.truth, _some(problem.inside))
        case "canonical":
            system = next(system for system in canonical.CANONICAL if system.name == case.name)
            stride = {"fine": 1, "coarse": 10}[case.gap]
            options = {"stride": stride, "seed": seed}
            obs = canonical.context(system, case.draw, noise_std=case.noise, **options)
            return Known(obs, system, _some(canonical.context(system, case.draw, **options).values))


def _of_prior(case: Case, seed: int) -> Known | None:
    config = PriorConfig(  # the mixture that the bundled weights were trained on
        wave_share=0.2, settings=_SETTINGS, polynomials=PolynomialConfig(sparse_share=0.85)
    ).restrict([int(case.name[0])], [float(case.gap)])
    drawn = draw_equation(config, _HELD_OUT + seed, case.draw)
    step = drawn.setting.gap / _SUBSTEPS
    paths = simulate(
        _Midpoint(drawn.sde, step),
        drawn.values[:, 0].astype(np.float64),
        drawn.times,
        substeps=_SUBSTEPS,
        seed=_HELD_OUT + seed + case.draw,
        limit=_LIMIT,
    )
    if paths.num_diverged:
        return None
    clean = list(_cut(paths.values, case.size))
    states = np.concatenate(clean)
    if not np.all(np.ptp(states, axis=0) > 0):
        return None
    rng = np.random.default_rng([seed, case.draw, case.size, int(1e6 * case.noise)])
    std = case.noise * np.ptp(states, axis=0) / 2.0
    seen = [path + std * rng.standard_normal(path.shape) for path in clean]
    return Known(read(seen, times=[drawn.times[: len(path)] for path in seen]), drawn.sde, _some(states))


def _cut(values: Float64[Array, "paths times dim"], size: int) -> Iterator[Float64[Array, "times dim"]]:
    """Whole paths, and a part of the last one, until there are so many observations."""
    for path in values:
        part = path[:size]
        if len(part) < 2:
            return
        yield part
        size -= len(part)


def _some(states: Float64[Array, "points dim"]) -> Float64[Array, "places dim"]:
    return states[:: max(1, len(states) // _PLACES)][:_PLACES]


@dataclass(frozen=True, eq=False)
class _Midpoint:
    """An equation whose Euler step is a midpoint step in the drift: f(x + f(x) dt / 2)."""

    inner: SDE
    dt: float

    @property
    def dim(self) -> int:
        return self.inner.dim

    def drift(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        return self.inner.drift(x + 0.5 * self.dt * self.inner.drift(x))

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        return self.inner.diffusion(x)

    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        with np.errstate(over="ignore", invalid="ignore"):
            return self.drift(x), self.diffusion(x)
