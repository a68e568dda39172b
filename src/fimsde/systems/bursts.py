"""Three-dimensional flows with a component that rests near zero and bursts now and then, like Rössler's.

    x' = -w y - z,    y' = w x + a y,    z' = b + z (x - c),    and a little noise in each

z rests near b / (c - x), one hundredth of its largest values, and leaves it for a moment in most turns of (x, y). With
measurement noise of 5 % of half the range the rest is buried in it.
"""

import numpy as np

from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError, DatasetError
from fimsde.shapes import Array, Float
from fimsde.simulate import simulate
from fimsde.systems.canonical import REPORT_SEED, simulation_seed, stream
from fimsde.systems.samples import Sample, observe, share_of_half_range

DATA_SETS = 10  # parameter sets of a seed
GAP = 0.01  # a turn takes about six units of time
LENGTH = 5000  # observations: about eight turns; the paper's context
NOISE = 0.05  # of half the range; the paper's
BURSTING = 2  # the component
_PRERUN = 5000  # gaps before the first observation; by hand: about eight turns
_SUBSTEPS = 10  # by hand: 1e-3 units of time
_REST = 0.1  # of half the range below which the median of z lies, else nothing bursts; by hand
_ATTEMPTS = 50  # by hand; about one draw of two is refused


def burst_sample(repetition: int = 0, *, noise: float = NOISE, seed: int = REPORT_SEED) -> Sample:
    """A parameter set, 0 to 9, and 5000 noisy observations; `noise` as a share of half the range of each component."""
    if not 0 <= repetition < DATA_SETS:
        raise ConfigError(f"repetition is {repetition}; expected 0 to {DATA_SETS - 1}. Take another seed for more.")
    times = np.arange(_PRERUN + LENGTH) * GAP
    for attempt in range(_ATTEMPTS):
        labels = ("bursts", repetition, attempt)
        truth = _draw(np.random.default_rng(stream(seed, *labels)))
        start = np.array([[1.0, 1.0, 0.1]])
        path = simulate(truth, start, times, substeps=_SUBSTEPS, seed=simulation_seed(seed, *labels)).values[0]
        states = path[_PRERUN:]
        if np.isfinite(states).all() and np.median(states[:, BURSTING]) < _REST * np.ptp(states[:, BURSTING]) / 2:
            return observe(truth, states, GAP, share_of_half_range(states, noise), stream(seed, *labels, "noise"))
    raise DatasetError(f"none of {_ATTEMPTS} flows stayed bounded and burst with seed {seed}. Take another seed.")


def _draw(r: np.random.Generator) -> FunctionSDE:
    w, a, b, c = r.uniform(0.8, 1.2), r.uniform(0.1, 0.25), r.uniform(0.15, 0.4), r.uniform(4.0, 8.0)
    size = np.array([*r.uniform(0.02, 0.1, 2), r.uniform(0.01, 0.04)])

    def drift(x: Float[Array, "queries 3"]) -> Float[Array, "queries 3"]:
        x1, x2, x3 = x.T
        return np.stack([-w * x2 - x3, w * x1 + a * x2, b + x3 * (x1 - c)], axis=1)

    return FunctionSDE(3, drift, lambda x: np.broadcast_to(size, x.shape))
