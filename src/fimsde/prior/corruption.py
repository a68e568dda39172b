"""Observation noise and gaps: which equations get them, how much, and the corrupted paths."""

from dataclasses import dataclass

import numpy as np

from fimsde.prior.config import CorruptionConfig
from fimsde.prior.law_kernels import draw_category
from fimsde.prior.noise_kernels import derive, uniform
from fimsde.prior.path_kernels import add_noise, keep_some
from fimsde.prior.paths import CleanPaths
from fimsde.shapes import Array, Bool, Float

CLEAN, NOISE, GAPS, BOTH = range(4)  # the order of `CorruptionConfig.mix`


@dataclass(frozen=True)
class Corruption:
    """What happens to the paths of one equation."""

    noise_std: float = 0.0  # share of half the range of the clean values
    survival: float = 1.0  # probability that an observation is kept


def draw_corruption(config: CorruptionConfig, counter: Array) -> Corruption:
    """Draw the kind of corruption of an equation and its strength from the generator with state `counter`."""
    kind = draw_category(counter, np.array(config.mix))
    noise_std = _between(config.noise_std, uniform(counter))
    survival = _between(config.survival, uniform(counter))
    return Corruption(
        noise_std=noise_std if kind in (NOISE, BOTH) else 0.0,
        survival=survival if kind in (GAPS, BOTH) else 1.0,
    )


def _between(interval: tuple[float, float], share: float) -> float:
    return interval[0] + (interval[1] - interval[0]) * share


def corrupt_paths(
    config: CorruptionConfig, corruption: Corruption, clean: CleanPaths, key: np.uint64
) -> tuple[Float[Array, "paths times dim"], Bool[Array, "paths times"]]:
    """Noisy values at all times, and which of them were observed.

    The authors measure noise against half the range over all paths, times and components of the equation, the paper
    against half the range of each component (`noise_range`). Noise comes before gaps and reaches every value.
    """
    values, mask = clean.values, np.ones(clean.values.shape[:2], np.bool_)
    if corruption.noise_std > 0:
        low, high = clean.bounds
        if config.noise_range == "equation":
            low, high = np.full_like(low, low.min()), np.full_like(high, high.max())
        noise_std = np.float32(corruption.noise_std) * (high - low) / np.float32(2)
        values = add_noise(np.uint64(derive(key, 0)), noise_std, values)
    if corruption.survival < 1:
        keep_some(np.uint64(derive(key, 1)), corruption.survival, mask)
    return values, mask
