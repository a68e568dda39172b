"""Where estimation begins: a random walk seen through noise, component by component."""

from dataclasses import dataclass

import numpy as np

from fimsde.bank.windows import Series
from fimsde.evidence import filter_kernels
from fimsde.shapes import Array, Float64

_RATIOS = 10.0 ** np.arange(-2.0, 3.3, 0.25)  # noise variance over the variance that a gap adds: all that can be told
_GAIN = 3.0  # nats that noise must gain to begin with it; twice as many as the law of the iterated logarithm gives


@dataclass(frozen=True)
class Level:
    """The random walk with noise that fits best, per component: g and v."""

    rate: Float64[Array, " dim"]
    noise: Float64[Array, " dim"]


def local_level(series: Series, *, noisy: bool = True) -> Level:
    """argmax p(y | g, v) for y = x + e, dx = sqrt(g) dW, e ~ N(0, v), over a grid of v / g, each with its best g.

    Drift counts as diffusion here: g is rather too large, so that the filter follows the data. With `noisy` False, v is
    zero.
    """
    dim = series.y.shape[1]
    gap = float(np.exp(np.mean(np.log(series.dtau[series.dtau > 0]))))
    ratios = [0.0, *(gap * _RATIOS)] if noisy else [0.0]
    rate, noise = np.empty(dim), np.zeros(dim)
    for c in range(dim):
        y = np.ascontiguousarray(series.y[:, c])
        found = [filter_kernels.level_likelihood(y, series.dtau, series.path_starts, r) for r in ratios]
        likelihood = np.array([value for value, _ in found])
        best = int(np.argmax(likelihood))
        if likelihood[best] < likelihood[0] + _GAIN:
            best = 0
        rate[c] = found[best][1]
        noise[c] = ratios[best] * rate[c]
    return Level(rate, noise)
