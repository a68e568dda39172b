"""Everything a report says about a result, computed once; what cannot be computed is a sentence that says why."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from fimsde._version import __version__
from fimsde.analysis.agreement import Agreement, compare_fixed_points
from fimsde.analysis.box import checked
from fimsde.analysis.check import Checks
from fimsde.analysis.cycles import Cycle, find_cycle
from fimsde.analysis.density import StationaryDensity
from fimsde.analysis.draws import Interval
from fimsde.analysis.equation import Equation
from fimsde.analysis.fixed_points import FixedPoint
from fimsde.analysis.naming import without_units
from fimsde.analysis.replay import Replay, replay
from fimsde.data.health import Health, health
from fimsde.data.observations import Observations
from fimsde.equations.sde import CorrelatedSDE
from fimsde.errors import ConfigError, FimsdeError
from fimsde.files.identities import data_hash, model_hash
from fimsde.results.result import Result
from fimsde.shapes import Array, Float64

T = TypeVar("T")
Progress = Callable[[str], None]
STEPS = ("data", "fixed points", "density", "simulation", "verdicts", "equation")
BRIEF = ("data", "fixed points", "verdicts", "equation")  # what neither draws nor simulates long
_KNOWN = 0.5  # share of the posterior that must have a relaxation time for it to be told
_LEFT_OUT = "left out: no report was asked for"
_PARTS = ("points", "density", "replay", "checks", "equation")  # that may be impossible to compute


@dataclass(frozen=True, eq=False)
class Findings:
    """What was found about a result; a sentence in place of what could not be computed.

    Attributes:
        result: The result.
        observations: Its data.
        seed: Of simulations and checks.
        health, points, density, replay, checks, equation: See there; names in the equation have no units.
    """

    result: Result
    observations: Observations
    seed: int
    health: Health
    points: tuple[FixedPoint, ...] | str
    density: StationaryDensity | str
    replay: Replay | str
    checks: Checks | str
    equation: Equation | str

    @cached_property
    def agreement(self) -> Agreement | None:
        """Fixed points of field and formula side by side; None if one of them could not be computed."""
        if isinstance(self.points, str) or isinstance(self.equation, str):
            return None
        return compare_fixed_points(self.result, self.equation, self.points)

    @cached_property
    def cycle(self) -> Cycle | None:
        """A limit cycle of the drift in the plane; None if there is none or equilibria could not be computed."""
        if isinstance(self.points, str):
            return None
        return find_cycle(self.result.sde, self.points, *self.observations.box(), self.result.inside)

    def record(self) -> dict[str, Any]:
        """The findings in numbers, ready for JSON: units of the data, null for what is not finite."""
        obs = self.observations
        found: dict[str, Any] = {
            "fimsde": __version__,
            "method": self.result.method,
            "names": list(obs.names),
            "time_unit": obs.time_unit,
            "paths": obs.num_paths,
            "observations": obs.num_points,
            "transitions": obs.num_transitions,
            "remarks": list(self.health.remarks),
            "seed": self.seed,
            "weights_sha256": weights_hash(self.result),
            "data_sha256": data_hash(obs),
        }
        found["relaxation_time"] = relaxation_time(self.points)
        found["measurement_noise"] = measurement_noise(self.result).tolist()
        if isinstance(sde := self.result.sde, CorrelatedSDE):
            found["noise_correlation"] = sde.rho.tolist()
        reasons = {name: value for name in _PARTS if isinstance(value := getattr(self, name), str)}
        return _finite(found | dict(self._parts()) | {"not_computed": reasons})

    def _parts(self) -> Iterator[tuple[str, Any]]:
        if not isinstance(self.points, str):
            yield "fixed_points", [self._field_point(k, p) for k, p in enumerate(self.points)]
        if (cycle := self.cycle) is not None:
            yield "limit_cycle", {"period": cycle.period, "low": cycle.low.tolist(), "high": cycle.high.tolist()}
        if isinstance(d := self.density, StationaryDensity):
            numbers = {"mean": d.mean().tolist(), "variance": d.variance().tolist(), "distance": d.distance()}
            yield "stationary_density", numbers | {"unsupported_share": d.unsupported_share}
        if isinstance(r := self.replay, Replay):
            yield "simulated", {"paths": r.num_simulated, "diverged": r.num_diverged}
        if isinstance(self.checks, Checks):
            yield "status", self.checks.status
            yield "summary", self.checks.summary
            yield "verdicts", [verdict.record() for verdict in self.checks]
        if isinstance(e := self.equation, Equation):
            yield (
                "equation",
                {
                    "text": str(e),
                    "latex": e.latex(),
                    "python": e.code(),
                    "remarks": list(e.remarks()),
                    **_terms(e),
                    "explained": {
                        "drift": e.drift_terms.explained.tolist(),
                        "diffusion_sq": e.diffusion_sq_terms.explained.tolist(),
                    }
                    | ({} if e.correlation_terms is None else {"correlation": e.correlation_terms.explained.tolist()}),
                }
                | self._formula_points(),
            )

    def _field_point(self, number: int, point: FixedPoint) -> dict[str, Any]:
        if self.agreement is None:
            return _point(point)
        partner = self.agreement.in_formula(number)
        return _point(point) | {"in_formula": None if partner is None else partner.x.tolist()}

    def _formula_points(self) -> dict[str, Any]:
        if (agreement := self.agreement) is None:
            return {}
        points = [_point(p) for p in agreement.formula_points]
        return {"fixed_points": points, "fixed_points_compared": agreement.sentence}


def relaxation_time(points: Sequence[FixedPoint] | str) -> float | None:
    """1 / |Re λ| of the slowest direction back to a stable equilibrium with data nearby.

    The average of what is possible can be flatter there than nearly all of it: then the nearer end of the interval.
    None without one, and if less than half of the posterior has such a time.
    """
    if (slowest := slowest_point(points)) is None:
        return None
    if slowest.error is not None and slowest.error.relaxation_time.known < _KNOWN:
        return None
    rate = -float(slowest.eigenvalues.real.max())
    if not math.isfinite(rate):
        return None
    return 1 / rate if slowest.error is None else _within(1 / rate, slowest.error.relaxation_time)


def slowest_point(points: Sequence[FixedPoint] | str) -> FixedPoint | None:
    """The stable equilibrium with data nearby whose way back is the longest."""
    stable = [] if isinstance(points, str) else [p for p in points if p.inside and p.is_stable]
    return max(stable, key=lambda p: float(p.eigenvalues.real.max()), default=None)


def _within(time: float, interval: Interval) -> float:
    low, high = (float(np.ravel(end)[0]) for end in (interval.low, interval.high))
    return min(max(time, low), high) if np.isfinite([low, high]).all() else time


def measurement_noise(result: Result) -> Float64[Array, " dim"]:
    """Standard deviation of the measurement noise: the estimator's own where it has one."""
    own = getattr(result.fitted, "noise_std", None)
    return result.noise_std if own is None else np.asarray(own, np.float64)


def find(result: Result, seed: int = 0, progress: Progress | None = None, *, parts: Sequence[str] = STEPS) -> Findings:
    """Analyse a result.

    Args:
        result: Any result with observations.
        seed: Seed of simulations and checks.
        progress: Called with a few words after every one of `STEPS`.
        parts: Which of `STEPS` to take; "data" always is.
    """
    observations = result.observations
    if observations is None:
        raise ConfigError("a report needs observations, and this equation has none. Pass them to fimsde.result.")
    checked(*observations.box())
    tell = progress or (lambda label: None)

    def step(label: str, compute: Callable[[], T]) -> T | str:
        value = _or_reason(compute) if label in parts else _LEFT_OUT
        tell(label)
        return value

    summary = health(observations)
    tell("data")
    return Findings(
        result=result,
        observations=observations,
        seed=seed,
        health=summary,
        points=step("fixed points", result.fixed_points),
        density=step("density", result.stationary_density),
        replay=step("simulation", lambda: replay(result, seed=seed)),
        checks=step("verdicts", lambda: result.check(seed=seed)),
        equation=step("equation", lambda: _in_short(result.equation())),
    )


def _in_short(equation: Equation) -> Equation:
    """The formula with names that have no units in them, which it is easier to read with."""
    return replace(equation, names=without_units(equation.names))


def _or_reason(compute: Callable[[], T]) -> T | str:
    try:
        return compute()
    except FimsdeError as error:
        return str(error)


def _terms(equation: Equation) -> dict[str, Any]:
    """Every term with its interval and probability; nothing without a posterior."""
    if equation.drift_terms.intervals is None:
        return {}
    return {"terms": equation.to_pandas().to_dict("records")}


def _point(point: FixedPoint) -> dict[str, Any]:
    eigenvalues = [[float(e.real), float(e.imag)] for e in point.eigenvalues]
    found = {"x": point.x.tolist(), "kind": point.kind, "eigenvalues": eigenvalues, "data_nearby": point.inside}
    if (error := point.error) is None:
        return found
    intervals = {
        name: [np.asarray(part.low).tolist(), np.asarray(part.high).tolist()]
        for name, part in (
            ("x", error.x),
            ("real_parts", error.eigenvalues),
            ("relaxation_time", error.relaxation_time),
            ("frequency", error.frequency),
        )
    }
    return found | {"probability": error.probability, "stable": error.stable, "intervals": intervals}


def _finite(value: Any) -> Any:
    """JSON knows no infinity and no NaN."""
    match value:
        case dict():
            return {str(k): _finite(v) for k, v in value.items()}
        case list() | tuple():
            return [_finite(v) for v in value]
        case bool() | np.bool_():
            return bool(value)
        case float() | np.floating():
            return float(value) if math.isfinite(value) else None
    return value


def weights_hash(result: Result) -> str | None:
    """SHA-256 of the weights, that of the file model.safetensors they come from; None for an equation without any."""
    model: Any = getattr(result.fitted, "model", None)
    return None if model is None else model_hash(model)
