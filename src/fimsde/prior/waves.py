"""WaveSDE: sums of waves and switches with confinement, as one SDE among others."""

from dataclasses import dataclass

import numpy as np

from fimsde.prior.wave_kernels import Waves, fields
from fimsde.shapes import Array, Float, Float64


@dataclass(frozen=True, eq=False)
class WaveSDE:
    """An equation whose drift is a confined sum of waves, and whose diffusion is the exponential of such a sum."""

    waves: Waves

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.waves.level)

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f at each location."""
        return self.fields(x)[0]

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Diffusion sqrt(g) at each location."""
        return self.fields(x)[1]

    def fields(
        self, x: Float[Array, "queries dim"]
    ) -> tuple[Float64[Array, "queries dim"], Float64[Array, "queries dim"]]:
        """Both at once."""
        x = np.ascontiguousarray(x, np.float64)
        drift, diffusion = np.empty_like(x), np.empty_like(x)
        fields(self.waves, x, drift, diffusion)
        return drift, diffusion


def draw_waves(dim: int, rng: np.random.Generator) -> WaveSDE:
    """Up to five waves or switches per component; in half of the planes and spaces the drift is a gradient."""
    num_waves, num_ripples = int(rng.integers(1, 6)), int(rng.integers(0, 3))
    frequency = _between(0.5, 4.0, rng)
    amplitude = rng.standard_normal((dim, num_waves)) * _between(0.3, 5.0, rng)
    wave = rng.standard_normal((dim, num_waves, dim)) * frequency
    phase = rng.uniform(0, 2 * np.pi, (dim, num_waves))
    is_switch = rng.random((dim, num_waves)) < 0.25
    if dim > 1 and rng.random() < 0.5:  # minus the gradient of sum_k a_k cos(w_k · x + p_k), up to sign
        wave, phase = np.repeat(wave[:1], dim, axis=0), np.repeat(phase[:1], dim, axis=0)
        amplitude = amplitude[:1] * wave[0].T / frequency
        is_switch = np.repeat(is_switch[:1], dim, axis=0)
    linear = rng.uniform(0, 2, dim) * (rng.random() < 0.8)
    cubic = rng.uniform(0, 1, dim) * (rng.random() < 0.4)
    level = _between(0.1, 2.0, rng) * np.exp(0.3 * rng.standard_normal(dim))
    return WaveSDE(
        Waves(
            linear=linear,
            cubic=cubic,
            amplitude=amplitude,
            wave=wave,
            phase=phase,
            is_switch=is_switch,
            level=level,
            swing=0.5 * rng.standard_normal((dim, num_ripples)),
            ripple=1.5 * rng.standard_normal((dim, num_ripples, dim)),
            shift=rng.uniform(0, 2 * np.pi, (dim, num_ripples)),
        )
    )


def _between(low: float, high: float, rng: np.random.Generator) -> float:
    """Uniform in the logarithm."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
