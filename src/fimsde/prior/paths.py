"""Draw an SDE, simulate its paths, and draw again until none of them explodes."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fimsde.errors import ConfigError
from fimsde.prior.config import PriorConfig, Setting
from fimsde.prior.path_kernels import Grid, bounds, draw_paths
from fimsde.prior.polynomials import PolynomialSDE, polynomial_law
from fimsde.prior.wave_kernels import run_path
from fimsde.prior.waves import WaveSDE, draw_waves
from fimsde.shapes import Array, Float


@dataclass(frozen=True, eq=False)
class CleanPaths:
    """An accepted equation and its paths, before corruption.

    Attributes:
        sde: The equation.
        values: States on the grid of the setting; float32, the precision they were simulated in.
        num_proposals: Equations drawn until this one was accepted, itself included.
    """

    sde: PolynomialSDE | WaveSDE
    values: Float[Array, "paths times dim"]
    num_proposals: int

    @cached_property
    def bounds(self) -> Float[Array, "2 dim"]:
        """Smallest and largest value of each component."""
        return bounds(self.values)


def draw_clean_paths(
    config: PriorConfig, dim: int, setting: Setting, key: np.uint64, *, early_rejection: bool = True
) -> CleanPaths:
    """Propose equations until all paths of one stay below the limit at every observation.

    States between observations are not looked at, as in the authors' data. `early_rejection` stops a proposal at its
    first violation; that changes the time this takes and nothing else (see `fimsde.prior.path_kernels.draw_paths`).
    """
    law = polynomial_law(config.polynomials, dim)
    grid = Grid(np.float32(setting.gap / setting.substeps), setting.substeps, np.float32(config.limit))
    values = np.empty((setting.num_paths, setting.num_times, dim), np.float32)
    drift = np.empty((dim, law.drift_first[-1]), np.float32)
    diffusion = np.empty((dim, law.diffusion_first[-1]), np.float32)
    num_proposals = draw_paths(key, law, grid, config.max_proposals, early_rejection, values, drift, diffusion)
    if num_proposals < 0:
        raise ConfigError(
            f"none of {config.max_proposals} proposed equations in {dim} dimensions kept {setting.num_paths} paths of "
            f"{setting.num_times} observations, {setting.gap:g} apart, below {config.limit:g}. "
            "Raise limit or max_proposals, or simulate for a shorter time."
        )
    return CleanPaths(PolynomialSDE(drift, diffusion), values, num_proposals)


def draw_wave_paths(config: PriorConfig, dim: int, setting: Setting, key: np.uint64) -> CleanPaths:
    """The same for equations of waves; a function of the key.

    Paths start from standard normal states, as in the polynomial family.
    """
    rng = np.random.default_rng(int(key))
    values = np.empty((setting.num_paths, setting.num_times, dim), np.float32)
    num_steps = (setting.num_times - 1) * setting.substeps
    for proposal in range(config.max_proposals):
        sde = draw_waves(dim, rng)
        values[:, 0] = rng.standard_normal((setting.num_paths, dim))
        if all(
            run_path(
                sde.waves,
                setting.gap / setting.substeps,
                setting.substeps,
                config.limit,
                rng.standard_normal((num_steps, dim)),
                path,
            )
            for path in values
        ):
            return CleanPaths(sde, values, proposal + 1)
    raise ConfigError(
        f"none of {config.max_proposals} proposed wave equations in {dim} dimensions kept its paths below "
        f"{config.limit:g}. Raise limit or max_proposals, or simulate for a shorter time."
    )
