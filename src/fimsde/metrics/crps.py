"""Scores of forecasts by samples: the continuous ranked probability score."""

import numpy as np

from fimsde.shapes import Array, Float, Float64


def crps(
    samples: Float[Array, "*lead members"], observed: Float[Array, "*lead"] | float
) -> Float64[Array, "*lead"] | Float64[Array, ""]:
    """E|X - y| - E|X - X'| / 2 for independent X, X' of the forecast: in the units of y, 0 for a certain truth.

    The second mean is over pairs of different members, so that the score of a small sample is that of its law on
    average (Gneiting and Raftery 2007). With one member it is the absolute error.
    """
    ordered = np.sort(np.asarray(samples, np.float64), axis=-1)
    num = ordered.shape[-1]
    near = np.abs(ordered - np.asarray(observed, np.float64)[..., None]).mean(axis=-1)
    if num == 1:
        return np.asarray(near)
    weights = 2 * np.arange(1, num + 1) - num - 1
    return np.asarray(near - (ordered @ weights) / (num * (num - 1)))
