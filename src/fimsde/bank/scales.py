"""What the data say before any field is fitted: speeds, measurement noise, lengths of blocks."""

from dataclasses import dataclass

import numpy as np

from fimsde.bank import monomials
from fimsde.bank.windows import DIFFUSION_DEGREE, Series, Windows, mean_square_displacement
from fimsde.shapes import Array, Float64, Int

# Sources: docs/training-log.md, "The candidate bank" for the floor, "Instruments where the window begins" for the rest.
_COARSE = 1.2  # mean square displacement over one gap, in variances, above which data are coarse; 2 if they are white
_FLOOR = 0.1  # of the mean variance rate; without it a boundary where g = 0 gets all the weight
_LEAST_RATE = 1e-3  # of the quadratic variation, which may be noise for the rest
_MORE = 1.3  # blocks longer than is best for the increments alone
_STAY = 4  # a block takes at most a quarter of the steps in which the path moves away
MAX_BLOCK = 32  # steps; bounds the work per window
SETTINGS = f"coarse {_COARSE:g}, floor {_FLOOR:g}, least rate {_LEAST_RATE:g}, blocks {_MORE:g} {_STAY} {MAX_BLOCK}"


@dataclass(frozen=True)
class BlockNoise:
    """Measurement noise as a fit with windows of 2m - 1 steps meets it, per component."""

    var: Float64[Array, " dim"]
    error: Float64[Array, " dim"]  # standard error of `var`
    m: int


@dataclass(frozen=True)
class Motion:
    """How far paths move in which time, per component: all that is read off mean square displacements.

    Attributes:
        speed: One standard deviation per time in which the mean square displacement reaches half a variance.
        reach: Steps in which it reaches a quarter of a variance.
        rough: Quadratic variation per time, measurement noise included.
        coarse: Whether neighbouring observations know little of each other.
    """

    speed: Float64[Array, " dim"]
    reach: Int[Array, " dim"]
    rough: Float64[Array, " dim"]
    coarse: bool


@dataclass(frozen=True)
class Scales:
    """What the data say before any field is fitted, per component."""

    speed: Float64[Array, " dim"]  # one standard deviation per time the path needs to move about half of one
    reach: Int[Array, " dim"]  # steps over which the path stays within about half a standard deviation
    diffusion_rate: Float64[Array, " dim"]  # mean variance rate without measurement noise
    noise_var: Float64[Array, " dim"]  # variance of the measurement noise
    noise_error: Float64[Array, " dim"]  # its standard error
    coarse: bool  # neighbouring observations know little of each other

    @property
    def noise_score(self) -> Float64[Array, " dim"]:
        """The noise variance in units of its standard error."""
        return self.noise_var / (self.noise_error + np.finfo(float).tiny)

    @property
    def rate_share(self) -> Float64[Array, " dim"]:
        """Diffusion over one natural time, in squared standard deviations: small where the drift rules."""
        return self.diffusion_rate / self.speed


def measure_motion(series: Series) -> Motion:
    """Speeds and reaches from the first of the lags 1, 2, 4, ... at which displacements are large enough."""
    spans, squares = mean_square_displacement(series)
    far = squares >= 0.5
    lag = np.where(far.any(axis=0), far.argmax(axis=0), len(spans) - 1)
    near = squares >= 0.25
    reach = 2 ** np.where(near.any(axis=0), near.argmax(axis=0), len(spans) - 1)
    return Motion(1.0 / spans[lag], reach, squares[0] / spans[0], bool((squares[0] > _COARSE).all()))


def measure_noise(
    windows: Windows, drift: Float64[Array, "dim terms"], rough: Float64[Array, " dim"], *, coarse: bool
) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"], Float64[Array, " dim"]]:
    """v = -mean(r_i r_{i+1}) and g = (sum r² - 2 n v) / time: variance of the noise and mean variance rate.

    r_i are the residuals of single steps, and neighbours share the noise of one observation with opposite signs. Noise
    adds 2 v to every square. The standard error of v is that of a mean of independent products. Of coarse data noise
    cannot be told from motion, and there is none.

    Returns:
        g, v and the standard error of v.
    """
    square, product, product_sq = np.zeros_like(rough), np.zeros_like(rough), np.zeros_like(rough)
    time, pairs, num = 0.0, 0, 0
    for c in windows():
        r = c.increment - c.integral @ drift.T
        neighbours = (r[1:] * r[:-1])[c.joined[:-1]]
        square, product, product_sq = (
            square + (r * r).sum(0),
            product + neighbours.sum(0),
            product_sq + (neighbours**2).sum(0),
        )
        time, pairs, num = time + c.length.sum(), pairs + len(neighbours), num + len(r)
    if pairs == 0 or coarse:
        return square / time, np.zeros_like(rough), np.zeros_like(rough)
    noise_var = np.maximum(-product / pairs, 0.0)
    error = np.sqrt(product_sq) / pairs
    rate = np.maximum((square - 2 * num * noise_var) / time, _LEAST_RATE * rough)
    return rate, noise_var, error


def block_lengths(scales: Scales, series: Series) -> Int[Array, " dim"]:
    """m = 1.3 sqrt(3 v / (g h)) steps, rounded: the block that balances noise and diffusion, per component.

    Var = 2/3 g m h + 2 v / m is smallest at m = sqrt(3 v / (g h)), with the geometric mean h of the gaps; a little more
    is better still, since noise does harm elsewhere too. Not longer than the path stays in place.
    """
    gap = float(np.exp(np.mean(np.log(series.dtau[series.dtau > 0]))))
    ideal = np.sqrt(3.0 * scales.noise_var / (scales.diffusion_rate * gap))
    longest = max(1, (int(np.diff(series.path_starts).max()) - 1) // 4)
    cap = np.minimum(np.minimum(np.maximum(scales.reach // _STAY, 1), MAX_BLOCK), longest)
    return np.clip(np.ceil(_MORE * ideal - 0.3), 1, cap).astype(np.int64)


def variance_rate(
    places: Float64[Array, "windows dim"], rate: Float64[Array, " dim"], g: Float64[Array, "dim terms2"] | None
) -> Float64[Array, "windows dim"]:
    """max(g(x), 0) + 0.1 rate at places, so that no region gets all the weight; the rate itself without g."""
    if g is None:
        return np.broadcast_to(rate, places.shape)
    return np.maximum(monomials.evaluate(places, DIFFUSION_DEGREE) @ g.T, 0.0) + _FLOOR * rate
