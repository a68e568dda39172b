"""One method on one data set of the wide suite."""

import time
import warnings
from dataclasses import dataclass

import numpy as np

from fimsde.benchmark.wide.data import WideProblem
from fimsde.benchmark.wide.tasks import WideTask
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError
from fimsde.methods import Method
from fimsde.shapes import Array, Float64
from fimsde.systems.canonical import simulation_seed


@dataclass(frozen=True)
class Errors:
    """Relative mean square errors: mean over components j of mean (f_e,j - f_j)² / mean f_j², over some places.

    0 is perfect, 1 as good as zero everywhere; no unit matters. None if there is no finite number. The diffusion is
    sqrt(g), taken as zero where an estimate has a negative g, as in the paper.

    Attributes:
        drift: Where the data are.
        diffusion: Likewise.
        drift_outside: One standard deviation outside the data.
        diffusion_outside: Likewise.
    """

    drift: float | None = None
    diffusion: float | None = None
    drift_outside: float | None = None
    diffusion_outside: float | None = None


@dataclass(frozen=True)
class WideResult:
    """What a method achieved on a data set: errors, CPU seconds of the fit, and why there is no estimate, or None."""

    errors: Errors
    cpu_seconds: float
    failure: str | None


def measure(task: WideTask, method: Method, problem: WideProblem) -> WideResult:
    """Fit and compare. What goes wrong inside the method becomes a failure."""
    before = time.process_time()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # peers warn in many ways of their own; what they return is measured
        try:
            seed = simulation_seed(task.seed, "wide fit", task.family, task.draw)
            fitted = method.fit(problem.observations, seed)
        except ConfigError:
            raise
        except Exception as error:  # whatever a method raises is a result: it failed on these data
            return WideResult(Errors(), _since(before), f"{type(error).__name__}: {str(error)[:200]}")
        seconds = _since(before)
        inside, outside = (_compare(fitted, problem.truth, x) for x in (problem.inside, problem.outside))
    return WideResult(Errors(*inside, *outside), seconds, None)


def _since(before: float) -> float:
    return round(time.process_time() - before, 3)


def _compare(fitted: SDE, truth: SDE, x: Float64[Array, "places dim"]) -> tuple[float | None, float | None]:
    diffusion = fitted.diffusion(x)
    return (
        relative_error(fitted.drift(x), truth.drift(x)),
        relative_error(np.where(np.isnan(diffusion), 0.0, diffusion), truth.diffusion(x)),
    )


def relative_error(estimate: Float64[Array, "places dim"], truth: Float64[Array, "places dim"]) -> float | None:
    """mean_j [mean (e_j - t_j)² / mean t_j²] over the components that are not zero everywhere; None if not finite."""
    size = np.mean(truth**2, axis=0)
    known = size > 0
    error = np.mean(np.mean((estimate - truth)[:, known] ** 2, axis=0) / size[known]) if known.any() else np.nan
    return float(f"{error:.6g}") if np.isfinite(error) else None
