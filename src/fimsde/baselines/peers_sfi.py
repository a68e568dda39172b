"""Stochastic Force Inference 2 (package StochasticForceInference), the strongest peer where measurements are noisy.

Its equation is dx = F dt + sqrt(2 D) dW with a full matrix D; ours has f = F and g = 2 diag(D). Both fields are
polynomials, of which the PASTIS criterion selects the terms that the data support.
"""

import warnings
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any, Literal

import numpy as np

from fimsde.baselines.library import LibraryField, LibrarySDE, monomials
from fimsde.baselines.peers import import_peer
from fimsde.data.observations import Observations
from fimsde.errors import ConfigError, DataWarning
from fimsde.shapes import Array, Float64

_SAME_GAP = 1e-6  # gaps that differ by less than this share are equal; by hand: times with seven digits are a grid


@dataclass(frozen=True)
class SFISettings:
    """Which of SFI's estimators, with its defaults."""

    estimator: Literal["linear", "parametric"] = "parametric"  # regression, or a likelihood with measurement noise
    select: bool = True  # whether PASTIS drops terms
    noise: Literal["auto", "absent"] = "auto"  # measurement noise: SFI's own rule, or the knowledge that there is none
    drift_degree: int = 3
    diffusion_degree: int = 2  # of g, the square of the diffusion
    clip: bool = False  # whether a negative g counts as 0; otherwise the diffusion is NaN there

    def __post_init__(self) -> None:
        if self.estimator not in ("linear", "parametric") or self.noise not in ("auto", "absent"):
            raise ConfigError(
                f"estimator {self.estimator!r}, noise {self.noise!r}; expected 'linear' or 'parametric', "
                "'auto' or 'absent'."
            )
        if min(self.drift_degree, self.diffusion_degree) < 0:
            raise ConfigError(f"degrees {self.drift_degree} and {self.diffusion_degree}; expected 0 or more.")


LINEAR = SFISettings("linear")
PARAMETRIC = SFISettings("parametric")


def fit(observations: Observations, settings: SFISettings = PARAMETRIC, seed: int = 0) -> LibrarySDE:
    """Estimate drift and diffusion with Stochastic Force Inference (extra `peers`), in float64.

    Compilation dominates the first fit of a process; SFI keeps compiled code in the folder SFI_JAX_CACHE_DIR if set.

    Args:
        observations: Any number of paths with any gaps.
        settings: Estimator, selection and degrees.
        seed: Not used: nothing here is random. Part of the common interface of the baselines.

    Returns:
        The equation with its terms; standard errors are NaN, because they are not asked for.
    """
    return fit_with_inference(observations, settings)[0]


def fit_with_inference(observations: Observations, settings: SFISettings = PARAMETRIC) -> tuple[LibrarySDE, Any]:
    """`fit`, and the inference object of SFI, for its diagnostics and reports."""
    sfi = import_peer("SFI", "StochasticForceInference")
    jax = import_peer("jax", "StochasticForceInference")
    dim = observations.dim
    with jax.enable_x64(True):
        inference = sfi.OverdampedLangevinInference(_collection(sfi, observations))
        drift_basis = sfi.bases.monomials_up_to(settings.drift_degree, dim=dim, rank="vector")
        diffusion_basis = sfi.bases.monomials_up_to(settings.diffusion_degree, dim=dim, rank="symmetric_matrix")
        if settings.estimator == "linear":
            inference.compute_diffusion_constant()
            inference.infer_force_linear(drift_basis, preset="clean" if settings.noise == "absent" else "auto")
            inference.infer_diffusion_linear(diffusion_basis)
        else:
            inference.infer_force(drift_basis, eiv=False if settings.noise == "absent" else "auto")
            inference.infer_diffusion(diffusion_basis)
        if settings.select:
            inference.sparsify_force()
            _select_diffusion(inference)
    return _equation(inference, settings, observations.names), inference


def _select_diffusion(inference: Any) -> None:
    """PASTIS on the diffusion; SFI fails if a covariance is not positive definite or no term is left."""
    try:
        inference.sparsify_diffusion()
    except (RuntimeError, ValueError) as error:
        warnings.warn(
            f"SFI could not select terms of the diffusion ({error}); all terms are kept. Lower diffusion_degree, or "
            "take the parametric estimator.",
            DataWarning,
            stacklevel=4,
        )


def _equation(inference: Any, settings: SFISettings, names: tuple[str, ...]) -> LibrarySDE:
    """Coefficients of SFI in our order: monomials in the same order, components fastest (pinned by a test)."""
    dim = len(names)
    pairs = list(combinations_with_replacement(range(dim), 2))  # entries of a symmetric matrix
    force = np.asarray(inference.force_coefficients_full, np.float64).reshape(-1, dim)
    matrix = np.asarray(inference.diffusion_coefficients_full, np.float64).reshape(-1, len(pairs))
    diagonal = matrix[:, [pairs.index((j, j)) for j in range(dim)]]
    return LibrarySDE(
        _field(force, settings.drift_degree), _field(2 * diagonal, settings.diffusion_degree), settings.clip, names
    )


def _field(coefficients: Float64[Array, "terms dim"], degree: int) -> LibraryField:
    unknown = np.where(coefficients != 0, np.nan, 0.0)
    return LibraryField(monomials(coefficients.shape[1], degree), coefficients, unknown)


def _collection(sfi: Any, observations: Observations) -> Any:
    """Paths on the same grid travel as particles of one data set, which SFI compiles for once."""
    groups: dict[bytes, list[Float64[Array, "times dim"]]] = {}
    clocks: dict[bytes, dict[str, Any]] = {}
    for k in range(observations.num_paths):
        times, values = observations.path(k)
        if len(times) < 2:
            continue  # a path of one point has no step
        key, clock = _clock(times)
        groups.setdefault(key, []).append(values)
        clocks[key] = clock
    parts = [
        sfi.trajectory.TrajectoryCollection.from_arrays(X=np.stack(paths, axis=1), **clocks[key])
        for key, paths in groups.items()
    ]
    return parts[0].concat(parts[1:]) if len(parts) > 1 else parts[0]


def _clock(times: Float64[Array, " times"]) -> tuple[bytes, dict[str, Any]]:
    """What tells grids apart, and a grid as SFI takes it: one gap if all are equal, else the times from the start."""
    gaps = np.diff(times)
    gap = float(gaps.mean())
    if np.all(np.abs(gaps - gap) <= _SAME_GAP * gap):
        return f"{len(times)} {gap:.6e}".encode(), {"dt": gap}
    return gaps.tobytes(), {"t": times - times[0]}
