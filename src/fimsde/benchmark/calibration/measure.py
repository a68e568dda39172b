"""Intervals of one data set against its truth: coverage, ranks of the truth among draws, and distances (TARP)."""

import math
import time
import warnings
from dataclasses import asdict, dataclass, field

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.spatial import cKDTree

from fimsde.analysis.band import Band
from fimsde.benchmark.calibration.data import Known
from fimsde.equations.sde import SDE, CorrelatedSDE
from fimsde.errors import FimsdeError
from fimsde.evidence.estimate import PosteriorSDE
from fimsde.evidence.spread import spread_of, traits_of
from fimsde.results.make import fit
from fimsde.results.result import Result
from fimsde.shapes import Array, Float64

LEVEL = 0.9
_KEPT = 16  # of the factors that intervals would need, per data set and field; by hand: the size of result files
_NEIGHBOURS = 2000  # observations among which neighbours are looked for
_NODES = 201  # on which exit times are integrated
_ENDLESS = 1e100  # of a diffusion over its estimate: a larger one counts as this


@dataclass(frozen=True)
class Measured:
    """What was found on one data set; None for what does not exist there.

    Attributes:
        drift, diffusion: Share of places and components inside pointwise intervals.
        drift_all, diffusion_all: Share of components whose curve is inside the simultaneous band.
        density: Share inside pointwise intervals of drift and diffusion, at the third of the places where data are most
            rare, the next, and the third where they are densest.
        needed: By which intervals would have to be wider to reach the truth: some quantiles over places and components
            for `drift` and `rate`, and for `drift_whole` and `rate_whole` what bands of whole curves would need.
        ranks: Share of draws below the truth: of f and g at a place, of the slope of the drift, of an exit time.
        tarp: Share of draws closer to a random point than the truth is: whole drifts, whole diffusions.
        traits: Of the data set, in the table of spreads.
        factors: By that table.
        milliseconds: CPU time of draws and a band at 200 places.
        failure: Why there is no estimate, or None.
    """

    drift: float | None = None
    diffusion: float | None = None
    drift_all: float | None = None
    diffusion_all: float | None = None
    density: tuple[tuple[float, float], ...] = ()
    needed: dict[str, tuple[float, ...]] = field(default_factory=dict)
    ranks: dict[str, float] | None = None
    tarp: dict[str, float] | None = None
    traits: tuple[str, ...] = ()
    factors: dict[str, float] = field(default_factory=dict)
    milliseconds: float | None = None
    failure: str | None = None


def measure(known: Known, seed: int, method: str = "evidence") -> Measured:
    """Estimate, draw, and compare. What goes wrong becomes a failure."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = fit(known.observations, method)
        except (FimsdeError, np.linalg.LinAlgError) as error:
            return Measured(failure=f"{type(error).__name__}: {str(error)[:200]}")
        sde = result.sde.inner if isinstance(result.sde, CorrelatedSDE) else result.sde
        assert isinstance(sde, PosteriorSDE), "calibration is of the posterior"
        inference, doubts = sde.inference, sde.doubts
        x = known.states[result.inside(known.states)]
        if len(x) < 2:
            return Measured(failure="no place that data support")
        before = time.process_time()
        result.band(np.resize(x, (200, x.shape[1])), level=LEVEL)
        spent = 1000 * (time.process_time() - before)
        truth = np.asarray(known.truth.drift(x), float), np.asarray(known.truth.diffusion(x), float)
        pointwise, whole = (result.band(x, level=LEVEL, simultaneous=s) for s in (False, True))
        inside, curves = _inside(pointwise, truth), _inside(whole, truth)
        single, whole_curves = (_needed(result, band, truth) for band in (pointwise, whole))
        rng = np.random.default_rng([seed, len(x)])
        return Measured(
            drift=float(inside[0].mean()),
            diffusion=float(inside[1].mean()),
            drift_all=float(curves[0].all(axis=0).mean()),
            diffusion_all=float(curves[1].all(axis=0).mean()),
            density=_by_density(known, x, inside),
            needed={
                "drift": _quantiles(single[0]),
                "rate": _quantiles(single[1]),
                "drift_whole": _rounded(whole_curves[0].max(axis=0)),
                "rate_whole": _rounded(whole_curves[1].max(axis=0)),
            },
            ranks=_ranks(result, known.truth, x, truth, rng),
            tarp=_tarp(result, x, truth, rng),
            traits=traits_of(inference, doubts),
            factors=asdict(spread_of(inference, doubts)),
            milliseconds=round(spent, 1),
        )


def _inside(band: Band, truth: tuple[Array, Array]) -> tuple[Array, Array]:
    return (
        (band.drift_low <= truth[0]) & (truth[0] <= band.drift_high),
        (band.diffusion_low <= truth[1]) & (truth[1] <= band.diffusion_high),
    )


def _by_density(
    known: Known, x: Float64[Array, "places dim"], inside: tuple[Array, Array]
) -> tuple[tuple[float, float], ...]:
    """Coverage in thirds of the places, by the distance to the tenth nearest observation."""
    values = known.observations.values
    scale = np.maximum(values.std(axis=0), np.finfo(np.float64).tiny)
    tree = cKDTree(values[:: max(1, len(values) // _NEIGHBOURS)] / scale)
    away = tree.query(x / scale, k=min(10, tree.n))[0].reshape(len(x), -1)[:, -1]
    parts = np.array_split(np.argsort(-away), 3)
    return tuple((float(inside[0][part].mean()), float(inside[1][part].mean())) for part in parts if len(part))


def _needed(result: Result, band: Band, truth: tuple[Array, Array]) -> tuple[Array, Array]:
    """Distance of the truth over that of the end of the interval on its side, both from the estimate.

    Of g in the coordinate in which draws are spread: log(g / estimate), and straight lines beyond a factor of e.
    """
    drift, diffusion = result.fields(band.x)
    middle = np.maximum(diffusion, np.finfo(np.float64).tiny)
    low, high, exact = (_straight(end / middle) for end in (band.diffusion_low, band.diffusion_high, truth[1]))
    return (
        _ratio(truth[0] - drift, band.drift_low - drift, band.drift_high - drift),
        _ratio(exact, low, high),
    )


def _straight(ratio: Float64[Array, "places dim"]) -> Float64[Array, "places dim"]:
    """u with exp(u) = ratio² between -1 and 1, and tangents of exp beyond."""
    square = np.minimum(ratio, _ENDLESS) ** 2
    near = np.clip(square, 1.0 / math.e, math.e)
    return np.log(near) + (square - near) / near


def _ratio(
    truth: Float64[Array, "places dim"], low: Float64[Array, "places dim"], high: Float64[Array, "places dim"]
) -> Float64[Array, "places dim"]:
    tiny = np.finfo(np.float64).tiny
    return np.minimum(np.maximum(truth / np.maximum(high, tiny), -truth / np.maximum(-low, tiny)), 1e6)


def _quantiles(needed: Float64[Array, "places dim"]) -> tuple[float, ...]:
    return _rounded(np.quantile(needed, (np.arange(_KEPT) + 0.5) / _KEPT))


def _rounded(values: Float64[Array, " some"]) -> tuple[float, ...]:
    return tuple(float(f"{value:.4g}") for value in values)


def _ranks(
    result: Result, truth: SDE, x: Float64[Array, "places dim"], fields: tuple[Array, Array], rng: np.random.Generator
) -> dict[str, float]:
    drawn = result.posterior()
    drift, diffusion = drawn.fields(x)
    place, c = int(rng.integers(len(x))), int(rng.integers(x.shape[1]))
    found = {
        "drift at a place": _rank(drift[:, place, c], fields[0][place, c]),
        "diffusion at a place": _rank(diffusion[:, place, c], fields[1][place, c]),
        "slope of the drift": _rank(_slope(x[:, c], drift[:, :, c]), _slope(x[:, c], fields[0][None, :, c])[0]),
    }
    if x.shape[1] == 1:
        low, high = np.quantile(x[:, 0], [0.1, 0.9])
        nodes = np.linspace(low, high, _NODES)[:, None]
        exact = exit_times(nodes[:, 0], truth.drift(nodes)[None, :, 0], truth.diffusion(nodes)[None, :, 0] ** 2)[0]
        values = exit_times(nodes[:, 0], *(f[:, :, 0] ** p for f, p in zip(drawn.fields(nodes), (1, 2), strict=True)))
        if np.isfinite(exact) and np.isfinite(values).all():
            found["exit time"] = _rank(values, exact)
    return found


def _rank(drawn: Float64[Array, " draws"], truth: float) -> float:
    """Share of draws below the truth, ties by half."""
    return float(np.mean(drawn < truth) + 0.5 * np.mean(drawn == truth))


def _slope(x: Float64[Array, " places"], values: Float64[Array, "draws places"]) -> Float64[Array, " draws"]:
    centred = x - x.mean()
    return values @ centred / (centred @ centred)


def exit_times(
    x: Float64[Array, " nodes"], drift: Float64[Array, "draws nodes"], rate: Float64[Array, "draws nodes"]
) -> Float64[Array, " draws"]:
    """Mean time from the middle of an interval to either of its ends, in one dimension, by quadrature.

    With the scale s' = exp(-∫ 2 f / g) and M = ∫ 2 / (g s'), u = S(x) ∫ M s' / S(b) - ∫ M s' over a to x.
    """
    inner = cumulative_trapezoid(2.0 * drift / rate, x, axis=1, initial=0.0)
    scale = np.exp(-(inner - inner.mean(axis=1, keepdims=True)))
    speed = cumulative_trapezoid(2.0 / (rate * scale), x, axis=1, initial=0.0)
    both = cumulative_trapezoid(speed * scale, x, axis=1, initial=0.0)
    reach = cumulative_trapezoid(scale, x, axis=1, initial=0.0)
    half = len(x) // 2
    return reach[:, half] / reach[:, -1] * both[:, -1] - both[:, half]


def _tarp(
    result: Result, x: Float64[Array, "places dim"], truth: tuple[Array, Array], rng: np.random.Generator
) -> dict[str, float]:
    """Distances from a random point, in standard deviations of the draws: uniform if draws and truth are alike."""
    found = {}
    for name, drawn, exact in zip(("drift", "diffusion"), result.posterior().fields(x), truth, strict=True):
        mean, std = drawn.mean(axis=0), np.maximum(drawn.std(axis=0), np.finfo(np.float64).tiny)
        point = mean + std * rng.standard_normal(x.shape[1])  # the same step at all places: a shifted curve
        distance = np.sqrt(np.mean(((drawn - point) / std) ** 2, axis=(1, 2)))
        own = float(np.sqrt(np.mean(((exact - point) / std) ** 2)))
        found[name] = float(np.mean(distance < own))
    return found
