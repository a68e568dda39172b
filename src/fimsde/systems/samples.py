"""A sample of a known equation: what is observed, and the truth behind it."""

from dataclasses import dataclass

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.equations.sde import SDE
from fimsde.shapes import Array, Float64


@dataclass(frozen=True, eq=False)
class Sample:
    """One path of a known equation.

    Attributes:
        observations: With measurement noise, if there is any.
        truth: The equation.
        states: The same path without measurement noise.
        noise_std: Standard deviation of the measurement noise of each component, in units of the data.
    """

    observations: Observations
    truth: SDE
    states: Float64[Array, "times dim"]
    noise_std: Float64[Array, " dim"]


def observe(
    truth: SDE,
    states: Float64[Array, "times dim"],
    gap: float,
    noise_std: Float64[Array, " dim"],
    stream: np.random.SeedSequence,
) -> Sample:
    """y = x + noise_std z at equal gaps, with independent standard normal z of the stream."""
    noise = np.random.default_rng(stream).standard_normal(states.shape)
    return Sample(read(states + noise_std * noise, dt=gap), truth, states, noise_std)


def share_of_half_range(states: Float64[Array, "times dim"], share: float) -> Float64[Array, " dim"]:
    """share (max - min) / 2 of each component: how the paper measures noise."""
    return share * np.ptp(states, axis=0) / 2
