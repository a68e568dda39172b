"""Data sets for calibration: equations of the prior, of the wide suite and the canonical ones, with known truth.

Equations of the prior are simulated anew, by Heun steps in double precision: the prior's own paths are Euler chains in
single precision, whose drift differs from that of the equation by more than the error bars of data with hardly any
noise, and whose variance differs too: twenty Euler steps in a gap make the variance that it adds larger by the slope of
the drift times a step, 2 % and more at coarse gaps, which is all that 5000 observations leave open. Seeds from 1000000
on are for development and for the table of spreads, others for reports.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Literal

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE
from fimsde.prior.config import PolynomialConfig, PriorConfig, Setting
from fimsde.prior.equation import DrawnEquation, draw_equation
from fimsde.shapes import Array, Float64
from fimsde.systems import canonical
from fimsde.systems.canonical import stream
from fimsde.systems.heun import heun_paths
from fimsde.systems.wide.families import FAMILIES
from fimsde.systems.wide.paths import FINE, RATIO, clean_paths, wide_system

Source = Literal["prior", "wide", "canonical"]
SIZES = (300, 1000, 5000)  # observations: what users have, what they wish, and the paper's number
NOISES = (0.0, 0.05)  # share of half the range; 0.05 is the noise of the paper's experiments
_SETTINGS = (Setting(0.1, 10, 50, 100), Setting(0.01, 10, 20, 250), Setting(0.001, 10, 10, 500))  # 5000 observations
GAPS = tuple(setting.gap for setting in _SETTINGS)
_SUBSTEPS = 20  # Heun steps in a gap: the largest one is 0.005, and errors are of its square
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
        draw: Number of the equation; of the prior, every combination of dimension, gap and size has its own.
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
            return _of_wide(case, seed)
        case "canonical":
            system = next(system for system in canonical.CANONICAL if system.name == case.name)
            stride = {"fine": 1, "coarse": 10}[case.gap]
            options = {"stride": stride, "seed": seed}
            obs = canonical.context(system, case.draw, noise_std=case.noise, **options)
            return Known(obs, system, _some(canonical.context(system, case.draw, **options).values))


def _of_prior(case: Case, seed: int) -> Known | None:
    number = _number(case)
    drawn, paths = _prior_paths(case.name, case.gap, number, seed)
    if paths is None:
        return None
    clean = list(_cut(paths, case.size))
    states = np.concatenate(clean)
    if not np.all(np.ptp(states, axis=0) > 0):
        return None
    rng = np.random.default_rng([seed, number, int(1e6 * case.noise)])
    std = case.noise * np.ptp(states, axis=0) / 2.0
    seen = [path + std * rng.standard_normal(path.shape) for path in clean]
    return Known(read(seen, times=[drawn.times[: len(path)] for path in seen]), drawn.sde, _some(states))


@lru_cache(maxsize=len(SIZES))  # noisy data follow clean ones
def _prior_paths(
    name: str, gap: str, number: int, seed: int
) -> tuple[DrawnEquation, Float64[Array, "paths times dim"] | None]:
    """The equation and its paths; None if one of them is on its way to infinity."""
    config = PriorConfig(  # the mixture that the bundled weights were trained on
        wave_share=0.2, settings=_SETTINGS, polynomials=PolynomialConfig(sparse_share=0.85)
    ).restrict([int(name[0])], [float(gap)])
    drawn = draw_equation(config, _HELD_OUT + seed, number)
    start = drawn.values[:, 0].astype(np.float64)
    rng = np.random.default_rng([_HELD_OUT, seed, number])
    paths = heun_paths(drawn.sde, start, drawn.setting.gap, len(drawn.times), _SUBSTEPS, rng)
    finite = (np.isfinite(paths) & (np.abs(paths) < _LIMIT)).all()
    return drawn, paths if finite else None


def _of_wide(case: Case, seed: int) -> Known:
    system = wide_system(case.name, case.draw, seed)
    stride = RATIO if case.gap == "coarse" else 1
    paths = _wide_paths(case.name, case.draw, seed)
    clean = paths[:, ::stride][:, : case.size // len(paths)]  # (paths, times, dim)
    states = clean.reshape(-1, clean.shape[2])
    labels = ("calibration noise", case.name, case.draw, case.gap, case.size)
    noise = np.random.default_rng(stream(seed, *labels)).standard_normal(clean.shape)
    seen = clean + case.noise * np.ptp(states, axis=0) / 2.0 * noise
    return Known(read(seen, dt=stride * FINE * system.natural_time), system.drawn, _some(states))


@lru_cache(maxsize=2)  # cases come equation after equation
def _wide_paths(family: str, draw: int, seed: int) -> Float64[Array, "paths times dim"]:
    return clean_paths(family, draw, seed).values


def _number(case: Case) -> int:
    """Number of the equation in the prior: data sets are independent, but clean and noisy ones share their paths."""
    cells = [(f"{dim}-D", f"{gap:g}", size) for dim in (1, 2, 3) for gap in GAPS for size in SIZES]
    return case.draw * len(cells) + cells.index((case.name, case.gap, case.size))


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
