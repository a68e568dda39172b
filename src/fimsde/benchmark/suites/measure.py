"""One method on one case: fit it, and compare it with the truth where the data are.

Two measures stand side by side. Ours is that of `field_error`. SFI's (StochasticForceInference) is

    NMSE_F = <(F - Fh)' A^-1 (F - Fh)> / <Fh' A^-1 Fh>,    NMSE_D = <tr(A^-1 E A^-1 E)> / <tr(A^-1 Dh A^-1 Dh)>

with E = D - Dh, D = g / 2, A twice the mean of D, the averages over the states of the data and the estimate, Fh and Dh,
in the denominators. Most estimators here have diagonal noise, so D is compared on its diagonal. A is that of the truth,
the same for all methods.
"""

import time
import warnings
from dataclasses import dataclass, replace

import numpy as np

from fimsde.baselines import peers_sfi
from fimsde.benchmark.fingerprint import SHARED, digest_of, own_places
from fimsde.benchmark.suites.cases import Case, Suite
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError, DataWarning
from fimsde.methods import AnyMethod, Method, sfi
from fimsde.metrics.vector_field import field_error
from fimsde.shapes import Array, Float64
from fimsde.systems.canonical import simulation_seed
from fimsde.systems.gallery import GALLERY
from fimsde.systems.samples import Sample

_MAX_STATES = 2000  # at which fields are compared, as in the gallery of SFI
_SYSTEMS = {"gallery": "systems/gallery.py", "noisy-cubic": "systems/random_cubic.py", "bursts": "systems/bursts.py"}


@dataclass(frozen=True)
class Score:
    """What one method achieved on one case.

    Attributes:
        system: Of the case.
        setting: Of the case.
        repetition: Of the case.
        code: Fingerprint of the code that made the numbers.
        seconds: CPU time of the fit.
        failure: Why there is no estimate, or None; all that follows is then None.
        drift: Mean square error of the drift at the states of the data.
        diffusion: The same of sqrt(g).
        relative_drift: Divided by the variance of the true drift, component by component.
        num_negative: Values of the diffusion that came from a negative g; they enter as 0.
        nmse_drift: SFI's error of the drift; None if the estimate is zero everywhere, so that there is no such number.
        nmse_diffusion: SFI's error of the diffusion.
        rate_ratio: Mean g over the mean of the true g, per component.
        noise_ratio: Estimated variance of the measurement noise over the true one, per component; None if the method
            does not tell or if there is no noise.
    """

    system: str
    setting: str
    repetition: int
    code: str
    seconds: float
    failure: str | None = None
    drift: float | None = None
    diffusion: float | None = None
    relative_drift: float | None = None
    num_negative: int | None = None
    nmse_drift: float | None = None
    nmse_diffusion: float | None = None
    rate_ratio: list[float] | None = None
    noise_ratio: list[float] | None = None


def measure(case: Case, method: AnyMethod, sample: Sample) -> Score:
    """Everything that is reported about a method on a case. What goes wrong inside the method becomes a failure."""
    if not isinstance(method, Method):
        raise ConfigError(f"{method.title} has neither drift nor diffusion; leave it out of {case.suite}.")
    fit = specialised(method, case, sample).fit
    seed = simulation_seed(case.seed, case.suite, case.system, "fit", case.repetition)
    fitted: SDE | None = None
    failure: str | None = None
    before = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what peers warn of is their business; ours are said to users, not to tables
        try:
            fitted = fit(sample.observations, seed)
        except ConfigError:
            raise
        except Exception as error:  # whatever a method raises is a result: it failed on these data
            failure = f"{type(error).__name__}: {error}"
    seconds = round(time.process_time() - before, 4)
    score = Score(case.system, case.setting, case.repetition, suite_code(case.suite, method.name), seconds, failure)
    return score if fitted is None else _compared(score, fitted, sample)


def specialised(method: Method, case: Case, sample: Sample) -> Method:
    """The method as its authors would use it on a system.

    SFI gets the degree of the drift that its gallery takes, and is told where there is no measurement noise, as its
    gallery does by its choice of moments. Whether the diffusion is constant is for its selection of terms to find.
    """
    if method.name not in ("sfi-linear", "sfi-parametric"):
        return method
    settings = peers_sfi.LINEAR if method.name == "sfi-linear" else peers_sfi.PARAMETRIC
    degree = GALLERY[case.system].drift_degree if case.suite == "gallery" else settings.drift_degree
    return sfi(replace(settings, drift_degree=degree, noise="auto" if np.any(sample.noise_std > 0) else "absent"))


def suite_code(suite: Suite, method: str) -> str:
    """Digest of what decides the numbers of a method on a suite."""
    return digest_of((*SHARED, *suite_places(suite), *own_places(method)))


def suite_places(suite: Suite) -> tuple[str, ...]:
    """The modules that decide the data of a suite and what is measured on them, beside those of all suites."""
    return "systems/samples.py", _SYSTEMS[suite], "benchmark/suites/cases.py", "benchmark/suites/measure.py"


def _compared(score: Score, fitted: SDE, sample: Sample) -> Score:
    x = thinned(sample.states)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", DataWarning)
        error = field_error(fitted, sample.truth, x)
        nmse_drift, nmse_diffusion = sfi_errors(fitted, sample.truth, x)
        rates = [np.mean(_rate(sde, x), axis=0) for sde in (fitted, sample.truth)]
    if not np.isfinite([error.drift, error.diffusion]).all():
        return replace(score, failure=f"the error of the drift is {error.drift}, of the diffusion {error.diffusion}")
    return replace(
        score,
        drift=error.drift,
        diffusion=error.diffusion,
        relative_drift=error.relative_drift,
        num_negative=error.num_negative,
        nmse_drift=nmse_drift if np.isfinite(nmse_drift) else None,
        nmse_diffusion=nmse_diffusion if np.isfinite(nmse_diffusion) else None,
        rate_ratio=(rates[0] / rates[1]).tolist(),
        noise_ratio=_noise_ratio(fitted, sample),
    )


def sfi_errors(estimate: SDE, truth: SDE, x: Float64[Array, "queries dim"]) -> tuple[float, float]:
    """NMSE_F and NMSE_D, above, at locations. A negative g counts as 0. Infinite if the estimate is zero everywhere."""
    drift, true_drift = estimate.drift(x), truth.drift(x)
    half_rate, true_half_rate = _rate(estimate, x) / 2, _rate(truth, x) / 2
    a = 2 * true_half_rate.mean(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):  # an estimate of zero
        nmse_drift = np.sum((drift - true_drift) ** 2 / a) / np.sum(drift**2 / a)
        nmse_diffusion = np.sum(((half_rate - true_half_rate) / a) ** 2) / np.sum((half_rate / a) ** 2)
    return float(nmse_drift), float(nmse_diffusion)


def _rate(sde: SDE, x: Float64[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
    """g on its diagonal, 0 where it is negative."""
    diffusion = sde.diffusion(x)
    return np.where(np.isnan(diffusion), 0.0, diffusion) ** 2


def _noise_ratio(fitted: SDE, sample: Sample) -> list[float] | None:
    found = getattr(fitted, "noise_std", None)
    if found is None or not np.all(sample.noise_std > 0):
        return None
    return ((found / sample.noise_std) ** 2).tolist()


def thinned(states: Float64[Array, "times dim"]) -> Float64[Array, "queries dim"]:
    """About 2000 states, evenly spread over the path."""
    return states[:: max(1, len(states) // _MAX_STATES)]
