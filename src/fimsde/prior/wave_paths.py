"""Draw an equation of waves and simulate its paths; draw again until none of them explodes."""

import numpy as np

from fimsde.errors import ConfigError
from fimsde.prior.config import PriorConfig, Setting
from fimsde.prior.paths import CleanPaths
from fimsde.prior.wave_kernels import run_path
from fimsde.prior.waves import draw_waves


def draw_wave_paths(config: PriorConfig, dim: int, setting: Setting, key: np.uint64) -> CleanPaths:
    """Propose equations until all paths of one stay below the limit; a function of the key.

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
