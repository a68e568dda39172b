"""Paths whose moments over a gap are those of their equation, to second order in the step."""

import numpy as np

from fimsde.equations.sde import SDE
from fimsde.shapes import Array, Float64
from fimsde.simulate import euler_step


def heun_paths(
    sde: SDE, start: Float64[Array, "paths dim"], gap: float, num_times: int, substeps: int, rng: np.random.Generator
) -> Float64[Array, "paths times dim"]:
    """x + (f(x) + f(x')) dt / 2 + S(x'') dW with x' = x + f(x) dt + S(x'') dW and x'' = x + f(x) dt / 2.

    The drift is averaged over the ends of a step, noise included: mean and variance after it are exact to second order
    for noise that is the same everywhere. Otherwise the variance rate is that in the middle of the step.

    Args:
        sde: With noise that is independent in every component.
        start: States to begin with.
        gap: Time from an observation to the next.
        num_times: Observations of a path.
        substeps: Steps in a gap.
        rng: Source of the noise.
    """
    dt = gap / substeps
    x = np.array(start, np.float64)
    values = np.empty((len(x), num_times, x.shape[1]))
    values[:, 0] = x
    with np.errstate(all="ignore"):  # a path on its way to infinity
        for i in range(1, num_times):
            for normal in rng.standard_normal((substeps, *x.shape)):
                slope = sde.drift(x)
                end = euler_step(x, slope, sde.diffusion(x + 0.5 * dt * slope), dt, normal)
                x = end + 0.5 * dt * (sde.drift(end) - slope)
            values[:, i] = x
    return values
