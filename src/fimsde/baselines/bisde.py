"""BISDE: sparse Bayesian identification of stochastic differential equations (Wang et al. 2022).

Two regressions per state component over the same library: increments per time give the drift f, squared residuals per
time give the variance rate g. Terms with small coefficients are dropped in between and at the end. The published code
assumes a constant gap between observations; here every step carries its own gap, which gives the same for equal gaps.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fimsde.baselines.library import Library, LibraryField, LibrarySDE, design_matrix, paper_library
from fimsde.baselines.msbl import MsblFit, MsblSettings, msbl
from fimsde.data.observations import Observations
from fimsde.data.transitions import Transitions, to_transitions
from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.shapes import Array, Float64


@dataclass(frozen=True)
class BisdeSettings:
    """How BISDE runs. For a single path the defaults are the configuration of the FIM-SDE paper; see `PAPER`."""

    library: Library | None = None  # None: the paper's library for the dimension of the data
    regression: MsblSettings = field(default_factory=MsblSettings)
    threshold_rule: Literal["absolute", "relative"] = "absolute"  # see `_small`
    threshold: float = 0.05  # absolute: of a coefficient; relative: share of the fitted target
    drop_seam: bool = True  # False: paths are joined end to end, with one false increment at every seam
    clip: bool = False  # whether a negative g counts as 0; otherwise the diffusion is NaN there

    def __post_init__(self) -> None:
        if self.threshold_rule not in ("absolute", "relative"):
            raise ConfigError(f"threshold_rule is {self.threshold_rule!r}; choose 'absolute' or 'relative'.")
        if not self.threshold >= 0:
            raise ConfigError(f"threshold is {self.threshold}; it must not be negative (0 keeps every term).")


DEFAULTS = BisdeSettings()

PAPER = BisdeSettings(drop_seam=False)
"""The FIM-SDE paper's runs: training folds joined into one path, absolute threshold 0.05, no clipping."""

SCALED = BisdeSettings(threshold_rule="relative")
"""An absolute threshold deletes terms that matter when |x| is large (log prices); here the size of the term counts."""


@dataclass(frozen=True)
class BisdeSDE(LibrarySDE):
    """The equation found by BISDE. Standard errors are posterior standard deviations of the terms kept.

    Attributes:
        drift_fits: The regression behind f before the threshold, one per component.
        diffusion_sq_fits: The same for g.
    """

    drift_fits: tuple[MsblFit, ...]
    diffusion_sq_fits: tuple[MsblFit, ...]

    @property
    def converged(self) -> bool:
        """False if the iteration cap stopped any of the regressions."""
        return all(fit.converged for fit in self.drift_fits + self.diffusion_sq_fits)


def fit(observations: Observations, settings: BisdeSettings = DEFAULTS, seed: int = 0) -> BisdeSDE:
    """Identify a sparse equation.

    Args:
        observations: Any number of paths. Gaps may differ; the steps of longer gaps get more weight in the drift.
        settings: See `BisdeSettings`; presets are `PAPER` and `SCALED`.
        seed: Not used: nothing in BISDE is random. Part of the common interface of the baselines.

    Raises:
        InvalidObservationsError: There are fewer steps than library terms, or a term overflows at the data.
    """
    steps = to_transitions(observations) if settings.drop_seam else _joined(observations)
    library = settings.library or paper_library(observations.dim)
    if len(steps) < len(library):
        raise InvalidObservationsError(
            f"{len(steps)} transitions for {len(library)} library terms; BISDE needs at least as many. "
            f"Pass longer paths, or a smaller library."
        )
    phi = design_matrix(library, steps.y, observations.names)
    drift_fits, drift = _regress(phi, steps.dy / steps.dtau[:, None], _drift_weights(steps), library, settings)
    residuals = steps.dy - steps.dtau[:, None] * (phi @ drift.coefficients)
    diffusion_sq_fits, diffusion_sq = _regress(
        phi, residuals**2 / steps.dtau[:, None], np.ones(len(steps)), library, settings
    )
    return BisdeSDE(drift, diffusion_sq, settings.clip, observations.names, drift_fits, diffusion_sq_fits)


def _joined(observations: Observations) -> Transitions:
    """All observations as one path; at a seam the clock moves on by the median gap."""
    y, dtau = observations.values, np.diff(observations.times)
    seams = observations.path_starts[1:-1] - 1
    dtau[seams] = np.median(np.delete(dtau, seams))
    return Transitions(y=y[:-1], dy=np.diff(y, axis=0), dtau=dtau, path=np.zeros(len(dtau), dtype=np.int64))


def _drift_weights(steps: Transitions) -> Float64[Array, " n"]:
    """dy/dtau has variance g/dtau, so rows times sqrt(dtau) have equal noise; one for a constant gap."""
    return np.sqrt(steps.dtau / steps.dtau.mean())


def _regress(
    phi: Float64[Array, "n terms"],
    targets: Float64[Array, "n dim"],
    weights: Float64[Array, " n"],
    library: Library,
    settings: BisdeSettings,
) -> tuple[tuple[MsblFit, ...], LibraryField]:
    weighted = phi * weights[:, None]
    fits = tuple(msbl(weighted, weights * target, settings.regression) for target in targets.T)
    kept = [~_small(f.mean, phi, settings) for f in fits]
    coefficients = np.stack([np.where(k, f.mean, 0.0) for k, f in zip(kept, fits, strict=True)], axis=1)
    errors = np.stack([np.where(k, np.sqrt(f.variance), 0.0) for k, f in zip(kept, fits, strict=True)], axis=1)
    return fits, LibraryField(library, coefficients, errors)


def _small(mean: Float64[Array, " terms"], phi: Float64[Array, "n terms"], settings: BisdeSettings) -> Array:
    """Which coefficients to drop.

    The relative rule compares the size of a term over the data with the size of what the whole regression explains. The
    raw target is no yardstick: its noise grows without bound as the gap shrinks, and would delete every drift.
    """
    if settings.threshold_rule == "absolute":
        return np.abs(mean) < settings.threshold
    size = np.sqrt(np.mean(phi**2, axis=0)) * np.abs(mean)
    return size < settings.threshold * np.sqrt(np.mean((phi @ mean) ** 2))
