"""Polynomial drift and diffusion by weighted instrumental regression of the weak form, with their full posteriors.

Two fits of the same equation: `step` trusts every observation (best without measurement noise), `block` knows the
noise: it averages over blocks and removes the noise from all moments.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from fimsde.bank import monomials, window_kernels
from fimsde.bank.windows import (
    DIFFUSION_DEGREE,
    DRIFT_DEGREE,
    Chunk,
    Series,
    hat_windows,
    mean_square_displacement,
    step_windows,
)
from fimsde.shapes import Array, Bool, Float64, Int

_FLOOR = 0.1  # of the mean variance rate, added to local ones so that no region gets all the weight
_LEAST_ERROR = 1e-3  # relative error that a second moment has at least, also where the path is deterministic
_COARSE = 1.2  # mean square displacement over one gap, in variances, above which data are coarse; 2 if they are white
_PRIOR_WIDTH = 10.0  # of the drift coefficients, in units of the natural speed: wide, only against singular matrices
MAX_BLOCK = 32
_MORE = 1.3

Windows = Callable[[], Iterator[Chunk]]
Part = TypeVar("Part")


@dataclass(frozen=True)
class Posterior:
    """Normal posteriors of polynomial coefficients, one per state component."""

    mean: Float64[Array, "dim terms"]
    precision: Float64[Array, "dim terms terms"]


@dataclass(frozen=True)
class Noise:
    """Measurement noise as a fit with windows of 2m - 1 steps meets it, per component."""

    var: Float64[Array, " dim"]
    error: Float64[Array, " dim"]  # standard error of `var`
    m: int


@dataclass(frozen=True)
class PolynomialFit:
    """Drift (degree 3) and variance rate g (degree 2) with posteriors, in normalised coordinates."""

    drift: Posterior
    diffusion_sq: Posterior
    num_windows: int


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


def fit_step(series: Series) -> tuple[PolynomialFit, Scales]:
    """The fit that trusts every observation, and the scales of the data, which its residuals tell."""
    spans, squares = mean_square_displacement(series)
    far = squares >= 0.5
    lag = np.where(far.any(axis=0), far.argmax(axis=0), len(spans) - 1)
    speed = 1.0 / spans[lag]
    near = squares >= 0.25
    reach = 2 ** np.where(near.any(axis=0), near.argmax(axis=0), len(spans) - 1)
    coarse = bool((squares[0] > _COARSE).all())
    windows = _held(lambda: step_windows(series, coarse=coarse))
    rough = squares[0] / spans[0]  # quadratic variation, noise included
    drift = _fit_drift(windows, rough, speed, None, None)
    rate, noise_var, noise_error = _noise(windows, drift.mean, rough, coarse=coarse)
    fit = _alternate(windows, rough, speed, drift, None)
    return fit, Scales(speed, reach, rate, noise_var, noise_error, coarse)


def block_lengths(scales: Scales, series: Series) -> Int[Array, " dim"]:
    """Block length per component: noise of the block means about equal to the diffusion over a block.

    Var = 2/3 g m h + 2 v / m is smallest at m = sqrt(3 v / (g h)); a little more is better still, since noise does
    harm elsewhere too. Not longer than the path stays in place.
    """
    gap = float(np.exp(np.mean(np.log(series.dtau[series.dtau > 0]))))
    ideal = np.sqrt(3.0 * scales.noise_var / (scales.diffusion_rate * gap))
    longest = max(1, (int(np.diff(series.path_starts).max()) - 1) // 4)
    cap = np.minimum(np.minimum(np.maximum(scales.reach // 4, 1), MAX_BLOCK), longest)
    return np.clip(np.ceil(_MORE * ideal - 0.3), 1, cap).astype(np.int64)


def fit_block(series: Series, scales: Scales, step: PolynomialFit) -> PolynomialFit:
    """The fit that knows the noise; a component without enough windows keeps its `step` fit, and so do coarse data.

    There noise cannot be told from motion.
    """
    if scales.coarse:
        return step
    lengths = block_lengths(scales, series)
    dim = len(lengths)
    fits: dict[int, PolynomialFit | None] = {}
    for m in sorted(set(lengths.tolist())):
        windows = _held(lambda m=m: hat_windows(series, m, scales.noise_var))  # type: ignore[misc]
        if sum(len(c.length) for c in windows()) < 3 * step.drift.mean.shape[1]:
            fits[m] = None
            continue
        noise = Noise(scales.noise_var, scales.noise_error, m)
        drift = _fit_drift(windows, scales.diffusion_rate, scales.speed, None, noise)
        fits[m] = _alternate(windows, scales.diffusion_rate, scales.speed, drift, noise)
    chosen = [fits[m] or step for m in lengths.tolist()]
    return PolynomialFit(
        Posterior(
            *(np.stack([getattr(f.drift, name)[d] for d, f in enumerate(chosen)]) for name in ("mean", "precision"))
        ),
        Posterior(
            *(
                np.stack([getattr(f.diffusion_sq, name)[d] for d, f in enumerate(chosen)])
                for name in ("mean", "precision")
            )
        ),
        min(f.num_windows for f in chosen[:dim]),
    )


@dataclass(frozen=True)
class LeftOver:
    """What a fit leaves over, window by window.

    Attributes:
        place: Where the window begins, free of the noise inside it.
        time: Its weighted length.
        residual: Increment that the drift does not explain.
        variation: Second moment of the residual, free of measurement noise.
        expected: What the diffusion expects of `variation`.
    """

    place: Float64[Array, "windows dim"]
    time: Float64[Array, " windows"]
    residual: Float64[Array, "windows dim"]
    variation: Float64[Array, "windows dim"]
    expected: Float64[Array, "windows dim"]


def has_noisy_windows(series: Series, scales: Scales) -> bool:
    """Whether any path is long enough for the hats that the noise demands."""
    windows = hat_windows(series, _noisy_length(scales, series), scales.noise_var)
    return any(len(c.length) > 0 for c in windows)


def _noisy_length(scales: Scales, series: Series) -> int:
    """Steps of one block that suits all components."""
    return int(np.median(block_lengths(scales, series)))


def residual_windows(series: Series, scales: Scales, fit: PolynomialFit, *, noisy: bool) -> LeftOver:
    """Residuals of a fit: of single steps, or of hats as long as the noise demands."""
    m = _noisy_length(scales, series) if noisy else 1
    chunks = hat_windows(series, m, scales.noise_var) if noisy else step_windows(series, coarse=scales.coarse)
    rows = []
    for c in chunks:
        r = c.increment - c.integral @ fit.drift.mean.T
        q = _without_noise(r, c.joined) if noisy else r * r
        g = np.maximum(monomials.evaluate(c.centre, DIFFUSION_DEGREE) @ fit.diffusion_sq.mean.T, 0.0)
        expected = np.where(np.isfinite(q), g * c.length[:, None], 0.0)
        rows.append((c.before, c.length, r, np.where(np.isfinite(q), q, 0.0), expected))
    return LeftOver(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def _without_noise(r: Float64[Array, "windows dim"], joined: Bool[Array, " windows"]) -> Float64[Array, "windows dim"]:
    """r_j² + r_j (r_{j-1} + r_{j+1}), whose mean is g times the length: neighbours cancel the noise in the square."""
    q = np.full_like(r, np.nan)
    both = joined[1:-1] & joined[:-2]
    q[1:-1][both] = (r[1:-1] * (r[1:-1] + r[2:] + r[:-2]))[both]
    return q


def _held(make: Callable[[], Iterator[Part]]) -> Callable[[], Iterator[Part]]:
    """Keep what small data give in memory; long data are walked anew each time, in flat memory."""
    start = make()
    first = next(start, None)
    if first is None:
        return lambda: iter(())
    if next(start, None) is None:
        return lambda: iter((first,))
    return make


def _alternate(
    windows: Windows, rate: Float64[Array, " dim"], speed: Float64[Array, " dim"], drift: Posterior, noise: Noise | None
) -> PolynomialFit:
    """Fit the diffusion from the residuals, then the drift anew with weights 1/g, then the diffusion once more."""
    first = _regress_diffusion(windows, rate, drift.mean, None, noise).mean
    drift = _fit_drift(windows, rate, speed, first, noise)
    g = _diffusion_posterior(_regress_diffusion(windows, rate, drift.mean, first, noise), rate, noise)
    return PolynomialFit(drift, g, sum(len(c.length) for c in windows()))


def _variance_rate(
    places: Float64[Array, "windows dim"], rate: Float64[Array, " dim"], g: Float64[Array, "dim terms2"] | None
) -> Float64[Array, "windows dim"]:
    if g is None:
        return np.broadcast_to(rate, places.shape)
    return np.maximum(monomials.evaluate(places, DIFFUSION_DEGREE) @ g.T, 0.0) + _FLOOR * rate


def _fit_drift(
    windows: Windows,
    rate: Float64[Array, " dim"],
    speed: Float64[Array, " dim"],
    g: Float64[Array, "dim terms2"] | None,
    noise: Noise | None,
) -> Posterior:
    """Optimal linear instruments: features where the window begins over the variance rate before it.

    With W = instrument / v: (sum W F') b = sum W dL, and the noise of the right side has covariance sum W W' v T, which
    is made of moments of twice the degree.
    Neighbouring hats overlap, but summed against slowly varying instruments their noise is that of independent windows.
    The instrument knows the noise of the first observation, by its slope over m; so both sums are freed of the product
    of that with what the same noise does to the increment, -1/m, and to the integral, (gap / 2m) times the slopes.
    """
    dim = len(rate)
    terms = len(monomials.exponents(dim, DRIFT_DEGREE))
    cross, spread = np.zeros((dim, terms, terms)), np.zeros((dim, terms, terms))
    right, sums = np.zeros((dim, terms)), np.zeros((dim, terms))
    for c in windows():
        weight = np.ones((len(c.length), 1)) if g is None else 1.0 / _variance_rate(c.before, rate, g)
        moments = window_kernels.product_sums(
            weight * c.length[:, None], c.instrument, monomials.factors(dim, DRIFT_DEGREE)
        )
        spread += moments[:, monomials.products(dim, DRIFT_DEGREE)]
        own_cross, own_right = window_kernels.instrumental_sums(weight, c.instrument, c.integral, c.increment, terms)
        cross, right, sums = cross + own_cross, right + own_right, sums + weight.T @ c.instrument
    if g is None:  # the weight is the same everywhere
        cross, right, spread, sums = (s / rate.reshape(dim, *[1] * (s.ndim - 1)) for s in (cross, right, spread, sums))
    if noise is not None:
        slopes = [monomials.derivative(dim, DRIFT_DEGREE, j) for j in range(dim)]
        cross -= sum(0.5 * v / noise.m**3 * (a.T @ spread @ a) for v, a in zip(noise.var, slopes, strict=True))
        known = np.stack([s @ a for s, a in zip(sums, slopes, strict=True)]) / noise.m**2
        right += noise.var[:, None] * known
        spread = spread + (noise.error[:, None] * known)[:, :, None] * (noise.error[:, None] * known)[:, None, :]
    prior = np.eye(terms) / (_PRIOR_WIDTH * speed[:, None, None]) ** 2
    return _solve(cross, right, spread, prior)


@dataclass(frozen=True)
class Moments:
    """Second moments of the residuals of some windows, and how to weigh them; zeros where the ends have none."""

    windows: Chunk
    moment: Float64[Array, "windows dim"]  # its mean is ∫ w g dt along the path: neighbouring hats add up to one
    weight: Float64[Array, "windows dim"]
    least: Float64[Array, "windows dim"]  # the score that it has at least


@dataclass(frozen=True)
class DiffusionRegression:
    """Second moments of the residuals against integrals of the features: cross mean = right."""

    cross: Float64[Array, "dim terms2 terms2"]
    right: Float64[Array, "dim terms2"]
    mean: Float64[Array, "dim terms2"]
    moments: Callable[[], Iterator[Moments]]


def _regress_diffusion(
    windows: Windows,
    rate: Float64[Array, " dim"],
    drift: Float64[Array, "dim terms"],
    g: Float64[Array, "dim terms2"] | None,
    noise: Noise | None,
) -> DiffusionRegression:
    """Weighted regression of the second moment of the residuals.

    Features at the place where the window begins are the instruments: those inside it know the noise and the steps that
    make up the moment, and least squares on them would bend g.
    """
    dim = len(rate)
    terms = len(monomials.exponents(dim, DIFFUSION_DEGREE))
    cross, right = np.zeros((dim, terms, terms)), np.zeros((dim, terms))
    moments = _held(lambda: (_moments(c, rate, drift, g, noise) for c in windows()))
    for part in moments():
        c = part.windows
        own_cross, own_right = window_kernels.instrumental_sums(
            part.weight, c.instrument, c.integral, part.moment, terms
        )
        cross, right = cross + own_cross, right + own_right
    ridge = 1e-10 * np.trace(cross, axis1=1, axis2=2)[:, None, None] / terms * np.eye(terms)
    mean = np.linalg.solve(cross + ridge, right[..., None])[..., 0]
    return DiffusionRegression(cross, right, mean, moments)


def _moments(
    c: Chunk,
    rate: Float64[Array, " dim"],
    drift: Float64[Array, "dim terms"],
    g: Float64[Array, "dim terms2"] | None,
    noise: Noise | None,
) -> Moments:
    length = c.length[:, None]
    r = c.increment - c.integral @ drift.T
    q = r * r if noise is None or noise.m == 1 else _without_noise(r, c.joined)
    spread = _variance_rate(c.before, rate, g)  # per unit of time
    if noise is not None:
        block_var = 2.0 * noise.var / noise.m
        q = q - _noise_through_drift(c, drift, noise.var) / noise.m - (block_var if noise.m == 1 else 0.0)
        spread = spread + block_var / length
    good = np.isfinite(q).all(axis=1)[:, None]
    return Moments(
        c,
        np.where(good, q, 0.0),
        np.where(good, 1.0 / (length * spread**2), 0.0),
        np.where(good, _LEAST_ERROR / spread, 0.0),
    )


def _diffusion_posterior(found: DiffusionRegression, rate: Float64[Array, " dim"], noise: Noise | None) -> Posterior:
    """The posterior, with a covariance from the scores and their neighbours, and from the error of the noise."""
    terms = found.mean.shape[1]
    scatter, unsure = np.zeros_like(found.cross), np.zeros_like(found.right)
    for part in found.moments():
        c = part.windows
        score = part.weight * (part.moment - c.integral[:, :terms] @ found.mean.T)
        scatter += window_kernels.score_sums(score, part.least, c.instrument, c.joined, terms)
        if noise is not None and noise.m == 1:
            unsure += 2.0 * noise.error[:, None] * (part.weight.T @ c.instrument[:, :terms])
    scatter = _positive(scatter) + unsure[:, :, None] * unsure[:, None, :]
    prior = np.eye(terms) / (_PRIOR_WIDTH * rate[:, None, None]) ** 2
    return _solve(found.cross, found.right, scatter, prior)


def _noise_through_drift(
    c: Chunk, drift: Float64[Array, "dim terms"], noise_var: Float64[Array, " dim"]
) -> Float64[Array, "windows dim"]:
    """What the noise inside the integrated drift adds to the moments, times the number of steps in half a window.

    sum_j (∂f_i/∂x_j)² v_j h T with gap h and weighted time T: small unless the drift is steep over a gap.
    """
    dim = len(noise_var)
    slopes = c.instrument @ np.hstack([monomials.derivative(dim, DRIFT_DEGREE, j) @ drift.T for j in range(dim)])
    return slopes**2 @ np.kron(noise_var[:, None], np.eye(dim)) * c.length[:, None] ** 2


def _positive(noise: Float64[Array, "dim terms terms"]) -> Float64[Array, "dim terms terms"]:
    """The nearest matrices with no eigenvalue below a millionth of the largest."""
    values, vectors = np.linalg.eigh(noise)
    values = np.maximum(values, 1e-6 * values[:, -1:])
    return np.einsum("dij,dj,dkj->dik", vectors, values, vectors)


def _solve(
    cross: Float64[Array, "dim terms terms"],
    right: Float64[Array, "dim terms"],
    noise: Float64[Array, "dim terms terms"],
    prior: Float64[Array, "dim terms terms"],
) -> Posterior:
    """Posterior of b given cross b = right + noise."""
    terms = cross.shape[1]
    ridge = 1e-12 * np.trace(noise, axis1=1, axis2=2)[:, None, None] / terms * np.eye(terms)
    whitened = np.linalg.solve(noise + ridge, np.concatenate([cross, right[..., None]], axis=2))
    transposed = np.swapaxes(cross, 1, 2)
    precision = transposed @ whitened[..., :-1] + prior
    precision = _definite(0.5 * (precision + np.swapaxes(precision, 1, 2)))
    mean = np.linalg.solve(precision, (transposed @ whitened[..., -1:]))[..., 0]
    return Posterior(mean, precision)


def _definite(precision: Float64[Array, "dim terms terms"]) -> Float64[Array, "dim terms terms"]:
    """The precision; where rounding took a direction away that the data do not see, rounding is what is known of it."""
    try:
        np.linalg.cholesky(precision)
        return precision
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(precision)
        least = precision.shape[1] * np.finfo(np.float64).eps * values[:, -1:]
        return np.einsum("dij,dj,dkj->dik", vectors, np.maximum(values, least), vectors)


def _noise(
    windows: Windows, drift: Float64[Array, "dim terms"], rough: Float64[Array, " dim"], *, coarse: bool
) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"], Float64[Array, " dim"]]:
    """Diffusion rate, noise variance and its standard error, from squares and neighbouring products of the residuals.

    E[r_i r_{i+1}] = -v under measurement noise of variance v, and 0 without it.
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
    rate = np.maximum((square - 2 * num * noise_var) / time, 1e-3 * rough)
    return rate, noise_var, error
