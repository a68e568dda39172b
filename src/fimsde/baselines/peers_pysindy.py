"""PySINDy as an estimator of stochastic equations: sequentially thresholded least squares on monomials.

PySINDy identifies ordinary equations; it has no estimator for the noise. As its users do, we regress the increments per
time for the drift f, and the squared residuals per time for the variance rate g.
"""

from dataclasses import dataclass
from types import ModuleType

import numpy as np

from fimsde.baselines.library import LibraryField, LibrarySDE, monomials
from fimsde.baselines.peers import import_peer
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.errors import ConfigError
from fimsde.shapes import Array, Float64


@dataclass(frozen=True)
class PySINDySettings:
    """PySINDy's own defaults for the regression."""

    drift_degree: int = 3
    diffusion_degree: int = 2  # of g, the square of the diffusion
    threshold: float = 0.1  # coefficients below this are set to zero, in the units of the data
    clip: bool = False  # whether a negative g counts as 0; otherwise the diffusion is NaN there

    def __post_init__(self) -> None:
        if min(self.drift_degree, self.diffusion_degree) < 0 or self.threshold < 0:
            raise ConfigError(
                f"degrees {self.drift_degree} and {self.diffusion_degree}, threshold {self.threshold}; "
                "expected 0 or more."
            )


STLSQ = PySINDySettings()


def fit(observations: Observations, settings: PySINDySettings = STLSQ, seed: int = 0) -> LibrarySDE:
    """Estimate drift and diffusion with PySINDy (extra `peers`).

    Args:
        observations: Any number of paths with any gaps; steps are regressed without weights, as PySINDy does.
        settings: Degrees and threshold.
        seed: Not used: nothing here is random. Part of the common interface of the baselines.

    Returns:
        The equation with its terms; standard errors are NaN, because PySINDy gives none.
    """
    pysindy = import_peer("pysindy", "PySINDy")
    steps = to_transitions(observations)
    gap = steps.dtau[:, None]
    drift = _regress(pysindy, steps.y, steps.dy / gap, settings.drift_degree, settings.threshold)
    residuals = steps.dy - drift(steps.y) * gap
    diffusion_sq = _regress(pysindy, steps.y, residuals**2 / gap, settings.diffusion_degree, settings.threshold)
    return LibrarySDE(drift, diffusion_sq, settings.clip, observations.names)


def _regress(
    pysindy: ModuleType, y: Float64[Array, "n dim"], targets: Float64[Array, "n dim"], degree: int, threshold: float
) -> LibraryField:
    model = pysindy.SINDy(
        optimizer=pysindy.STLSQ(threshold=threshold), feature_library=pysindy.PolynomialLibrary(degree=degree)
    )
    model.fit(y, t=1.0, x_dot=targets)  # derivatives are given, so the clock is not used
    coefficients = np.asarray(model.coefficients(), np.float64).T  # in the order of `monomials`: pinned by a test
    return LibraryField(monomials(y.shape[1], degree), coefficients, np.where(coefficients != 0, np.nan, 0.0))
