"""Statistics of residuals whose null distributions are known.

Residuals are the innovations of a filter that knows the measurement noise: if the equation is right, they are
independent standard normal numbers. Every p-value here is over all components: the smallest one times their number.
"""

from dataclasses import dataclass

import numpy as np

from fimsde import distributions as stats
from fimsde.filter.kalman import Innovations
from fimsde.shapes import Array, Bool, Float64

# steps of history in the Markov test; by hand: doubled, so that five tests see short and long memory
LAGS = (1, 2, 4, 8, 16)
# spread of residuals, as a share of their mean, that is rounding; by hand: some thousand roundings of a float64
_ALIKE = 1e-12
_LEAST_KURTOSIS = -2.0  # excess of any law; that of two equal values


@dataclass(frozen=True, eq=False)
class Residuals:
    """Standardised residuals in time order.

    Attributes:
        values: r, per component.
        step_std: Standard deviation of each innovation, in the units of the data.
        joined: Whether a step follows the one before it in the same path.
        plain: Innovations over their standard deviations, components not yet made independent; None if they are.
    """

    values: Float64[Array, "n dim"]
    step_std: Float64[Array, "n dim"]
    joined: Bool[Array, " n"]
    plain: Float64[Array, "n dim"] | None = None


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


def residuals(found: Innovations) -> Residuals:
    """Innovations of a filter, with what they need for statistics: residuals that know the measurement noise."""
    return Residuals(found.values, found.std, found.joined, found.plain)


def autocorrelation(r: Residuals, lags: int = 10) -> Evidence:
    """Q = sum_k n_k rho_k² against chi²: Ljung and Box's test; `size` is the largest autocorrelation.

    rho_k is the autocorrelation over k steps, n_k the number of pairs behind it, and k runs over the first lags.
    """
    n, dim = r.values.shape
    lags = max(1, min(lags, n // 10))
    rho, counts = lagged(r, lags)
    p = stats.chi2.sf((counts[:, None] * rho**2).sum(axis=0), lags)
    j = int(np.argmin(p))
    return Evidence(float(rho[np.argmax(np.abs(rho[:, j])), j]), min(1.0, float(p[j]) * dim), j)


def lagged(r: Residuals, lags: int) -> tuple[Float64[Array, "lags dim"], Float64[Array, " lags"]]:
    """Autocorrelations over 1, 2, ... steps of the same path, and the numbers of pairs behind them."""
    mean, spread = r.values.mean(axis=0), r.values.std(axis=0)
    centred = np.where(_are_alike(r), 0.0, r.values - mean) / np.where(spread > 0, spread, 1.0)
    rho, counts = np.zeros((lags, r.values.shape[1])), np.ones(lags)
    for k in range(1, lags + 1):
        pairs = _joined_over(r.joined, k)
        counts[k - 1] = max(int(pairs.sum()), 1)
        rho[k - 1] = (centred[k:] * centred[:-k])[pairs].sum(axis=0) / counts[k - 1]
    return rho, counts


def non_normality(r: Residuals) -> Evidence:
    """K² = z_s² + z_k² against chi² with two degrees of freedom: D'Agostino and Pearson's test.

    z_s and z_k are skewness and kurtosis as standard normal numbers; `size` is the excess kurtosis.
    """
    alike = np.flatnonzero(_are_alike(r) & r.values.any(axis=0))  # which nothing normal is; zeros stand for no noise
    if len(alike):
        return Evidence(_LEAST_KURTOSIS, 0.0, int(alike[0]))
    p = np.array([stats.normality(column) if column.any() else 1.0 for column in r.values.T])
    j = int(np.argmin(p))
    kurtosis = float(stats.kurtosis(r.values[:, j])) if r.values[:, j].any() else 0.0
    return Evidence(kurtosis, min(1.0, float(p[j]) * r.values.shape[1]), j)


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


def _are_alike(r: Residuals) -> Bool[Array, " dim"]:
    """Components whose residuals are all the same, up to rounding."""
    return r.values.std(axis=0) <= _ALIKE * np.abs(r.values.mean(axis=0))


def _joined_over(joined: Bool[Array, " n"], k: int) -> Bool[Array, " pairs"]:
    """For steps k, k + 1, ...: whether the k steps before belong to the same path."""
    breaks = np.concatenate([[0], np.cumsum(~joined)])  # breaks[i + 1]: paths begun up to step i
    return breaks[k + 1 :] == breaks[1:-k]
