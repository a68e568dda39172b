"""Residuals of an equation against observed steps, and statistics of them whose null distributions are known.

r = L^-1 ((dy - f dtau) / sqrt(g_ii dtau)) with the factor L of the correlation of the noise (the identity if it is
diagonal). If the equation is right and steps are short, residuals are independent standard normal numbers. Every
p-value here is over all components: the smallest one times their number.
"""

from dataclasses import dataclass

import numpy as np
from scipy import stats

from fimsde.analysis.box import finite_fields
from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import SDE, correlation, is_diagonal, noise_factor, whiten
from fimsde.shapes import Array, Bool, Float64

# steps of history in the Markov test; by hand: doubled, so that five tests see short and long memory
LAGS = (1, 2, 4, 8, 16)
# spread of residuals, as a share of their mean, that is rounding; by hand: some thousand roundings of a float64
_ALIKE = 1e-12
_LEAST_KURTOSIS = -2.0  # excess of any law; that of two equal values
# share of independent noise: no combination of components is taken for more certain than this; by hand
_LEAST_SPREAD = 1e-3
# of the mean variance rate: no step is taken for more certain than this; by hand: a thousand average steps
_LEAST_NOISE = 1e-3


@dataclass(frozen=True, eq=False)
class Residuals:
    """Standardised residuals in time order.

    Attributes:
        values: r, per component.
        step_std: sqrt(g_ii dtau): what the noise moves in each step, in the units of the data.
        joined: Whether a step follows the one before it in the same path.
        plain: r before L^-1, which mixes components; None if the noise is diagonal.
    """

    values: Float64[Array, "n dim"]
    step_std: Float64[Array, "n dim"]
    joined: Bool[Array, " n"]
    plain: Float64[Array, "n dim"] | None = None

    def increments(self) -> Float64[Array, "n dim"]:
        """dy - f dtau, in the units of the data."""
        return (self.values if self.plain is None else self.plain) * self.step_std


@dataclass(frozen=True)
class Evidence:
    """A statistic of the most conspicuous component.

    Attributes:
        size: The statistic.
        p_value: Probability of anything as extreme if the equation is right, over all components.
        component: Its number.
    """

    size: float
    p_value: float
    component: int


def residuals(sde: SDE, observations: Observations) -> Residuals:
    """r = L^-1 ((dy - f dtau) / sqrt(g_ii dtau)) of all observed steps; g is not near zero in any."""
    steps = to_transitions(observations)
    drift, diffusion = finite_fields(sde, steps.y)
    g = np.maximum(diffusion**2, _LEAST_NOISE * np.mean(diffusion**2, axis=0))
    rounding = np.finfo(np.float64).eps * np.abs(observations.values).max(axis=0)  # no step is known better than that
    step_std = np.sqrt(np.maximum(g * steps.dtau[:, None], rounding**2))
    joined = np.concatenate([[False], steps.path[1:] == steps.path[:-1]])
    plain = (steps.dy - drift * steps.dtau[:, None]) / step_std
    if is_diagonal(sde):
        return Residuals(plain, step_std, joined)
    rho = correlation(sde, steps.y)
    factor = noise_factor((1 - _LEAST_SPREAD) * rho + _LEAST_SPREAD * np.eye(sde.dim))
    return Residuals(whiten(factor, plain), step_std, joined, plain)


def autocorrelation(r: Residuals, lags: int = 10) -> Evidence:
    """Q = sum_k n_k rho_k² against chi²: Ljung and Box's test; `size` is the largest autocorrelation.

    rho_k is the autocorrelation over k steps, n_k the number of pairs behind it, and k runs over the first lags.
    """
    n, dim = r.values.shape
    mean, spread = r.values.mean(axis=0), r.values.std(axis=0)
    centred = np.where(_are_alike(r), 0.0, r.values - mean) / np.where(spread > 0, spread, 1.0)
    lags = max(1, min(lags, n // 10))
    rho, counts = np.zeros((lags, dim)), np.ones(lags)
    for k in range(1, lags + 1):
        pairs = _joined_over(r.joined, k)
        counts[k - 1] = max(int(pairs.sum()), 1)
        rho[k - 1] = (centred[k:] * centred[:-k])[pairs].sum(axis=0) / counts[k - 1]
    p = stats.chi2.sf((counts[:, None] * rho**2).sum(axis=0), lags)
    j = int(np.argmin(p))
    return Evidence(float(rho[np.argmax(np.abs(rho[:, j])), j]), min(1.0, float(p[j]) * dim), j)


def non_normality(r: Residuals) -> Evidence:
    """K² = z_s² + z_k² against chi² with two degrees of freedom: D'Agostino and Pearson's test.

    z_s and z_k are skewness and kurtosis as standard normal numbers; `size` is the excess kurtosis.
    """
    alike = np.flatnonzero(_are_alike(r))  # which nothing normal is
    if len(alike):
        return Evidence(_LEAST_KURTOSIS, 0.0, int(alike[0]))
    p = np.array([stats.normaltest(column).pvalue for column in r.values.T])
    j = int(np.argmin(p))
    return Evidence(float(stats.kurtosis(r.values[:, j])), min(1.0, float(p[j]) * r.values.shape[1]), j)


def memory(r: Residuals) -> Evidence:
    """z = sum_i s_i r_i / sqrt(sum_i s_i² r_i²): do the last steps predict the next residual?

    If the state is all that matters, they do not. s_i is the sum of the residuals over the steps before residual r_i,
    for each number of steps in `LAGS`; sums of such products are martingales, so that their standardised values
    are normal. `size` is the correlation.
    """
    n, dim = r.values.shape
    scores, sizes = np.zeros((2, len(LAGS), dim))
    total = np.concatenate([np.zeros((1, dim)), np.cumsum(r.values, axis=0)])
    for row, k in enumerate(LAGS):
        if n <= k + 1:
            continue
        whole = _joined_over(r.joined, k)  # step i + k belongs with the k steps before it
        past = (total[k:-1] - total[: -k - 1])[whole]
        ahead = r.values[k:][whole]
        norm = np.sqrt((past**2 * ahead**2).sum(axis=0))
        scores[row] = np.divide((past * ahead).sum(axis=0), norm, out=np.zeros(dim), where=norm > 0)
        sizes[row] = scores[row] / np.sqrt(max(len(ahead), 1))
    p = 2 * stats.norm.sf(np.abs(scores)) * len(LAGS)
    best, j = divmod(int(np.argmin(p)), dim)
    return Evidence(float(sizes[best, j]), min(1.0, float(p[best, j]) * dim), j)


def measurement_noise(r: Residuals) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"], Float64[Array, " dim"]]:
    """sqrt(-mean(d_i d_i+1)) of increments d: the deviation of the measurement noise, its share of a step, p-values.

    Noise in an observation moves one increment up and the next one down: the covariance of neighbouring increments
    is minus its variance. One-sided, per component.
    """
    increments = r.increments()
    pairs = _joined_over(r.joined, 1)
    products = -(increments[1:] * increments[:-1])[pairs]  # (pairs, dim)
    if not len(products):
        return np.zeros(r.values.shape[1]), np.zeros(r.values.shape[1]), np.ones(r.values.shape[1])
    variance = products.mean(axis=0)
    error = np.sqrt(np.mean(products**2, axis=0) / len(products))
    p = stats.norm.sf(np.divide(variance, error, out=np.zeros_like(error), where=error > 0))
    std = np.sqrt(np.maximum(variance, 0.0))
    return std, std / np.sqrt(np.mean(r.step_std**2, axis=0)), p


def _are_alike(r: Residuals) -> Bool[Array, " dim"]:
    """Components whose residuals are all the same, up to rounding."""
    return r.values.std(axis=0) <= _ALIKE * np.abs(r.values.mean(axis=0))


def _joined_over(joined: Bool[Array, " n"], k: int) -> Bool[Array, " pairs"]:
    """For steps k, k + 1, ...: whether the k steps before belong to the same path."""
    breaks = np.concatenate([[0], np.cumsum(~joined)])  # breaks[i + 1]: paths begun up to step i
    return breaks[k + 1 :] == breaks[1:-k]
