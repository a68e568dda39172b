"""A constant correlation of the noise, by maximum likelihood beside an equation whose own noise is diagonal.

    (S S')_ij = sigma_i sigma_j rho_ij,    max over rho of  sum_t ln p(y_t | y_1, ..., y_t-1; rho)

Whether a pair is correlated at all is asked first, of innovations z that are independent if it is not: their
standardised product s = sum z_i z_j / sqrt(sum z_i² z_j²) is then normal, and the Bayes factor against zero of a
correlation that may be anything between -1 and 1 is exp(s² / 2) sqrt(2 pi / n) / 2 (Laplace). Where the drift is off,
products keep their sign for a while: then s is divided by as much as the sums of blocks vary more than those of
independent products.
"""

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE, CorrelatedSDE, fields, nearest_correlation
from fimsde.filter.flow import Flow
from fimsde.filter.kalman import PASSES, flow_around, run_filter
from fimsde.filter.noise import beginning
from fimsde.shapes import Array, Float64, Int

CLEAR = 20.0  # odds that count as strong evidence (Jeffreys; Kass and Raftery), as for a drift
_MOST_STEPS = 20_000  # on which correlations are fitted, the first ones: errors are then below 0.01; bounds seconds
_MOST_ROUNDS, _HALVINGS = 10, 8  # of Fisher's scoring, and of one of its steps; by hand: five and none are usual
_LONGEST = 10.0  # step in a logarithm or in an artanh; by hand: a factor of 20 000, far more than any fit needs
_SETTLED = 1e-4  # standard errors: steps below it change nothing anybody reads, in any units
_PROBE = 1e-4  # of a Fisher z, for derivatives of likelihoods
_LARGEST = 0.999  # correlation that is told; beyond it the noise has a direction less


@dataclass(frozen=True, eq=False)
class EstimatedCorrelation(CorrelatedSDE):
    """An equation with a constant correlation of its noise that the data told.

    Attributes:
        inner: The equation; a correlation of its own is not used.
        rho: Correlation of the noise of each two components; 0 where the evidence for one is not strong.
        pairs: The components of each correlation that is not 0.
        covariance: Of the artanh of these correlations, as data let them err; valid for tails of any kind.
    """

    pairs: Int[Array, "pairs 2"]
    covariance: Float64[Array, "pairs pairs"]

    @property
    def error(self) -> Float64[Array, "dim dim"]:
        """Standard errors of rho; 0 where rho is 0."""
        out, (i, j) = np.zeros(self.rho.shape), self.pairs.T
        out[i, j] = out[j, i] = (1 - self.rho[i, j] ** 2) * np.sqrt(np.diagonal(self.covariance))
        return out

    def drawn(self, num: int, seed: int) -> Float64[Array, "draws dim dim"]:
        """Correlations that the data leave possible: their artanh is normal. Draw k is a function of (seed, k)."""
        i, j = self.pairs.T
        chances = np.random.default_rng([seed, 5]).standard_normal((num, len(i)))
        values, vectors = np.linalg.eigh(self.covariance)
        moved = np.arctanh(self.rho[i, j]) + chances @ (vectors * np.sqrt(np.maximum(values, 0.0))).T
        out = np.tile(np.eye(len(self.rho)), (num, 1, 1))
        out[:, i, j] = out[:, j, i] = np.clip(np.tanh(moved), -_LARGEST, _LARGEST)
        return nearest_correlation(out)


def without_correlation(sde: SDE) -> SDE:
    """The equation that was given a constant correlation, or that was found to have one."""
    return sde.inner if isinstance(sde, CorrelatedSDE) else sde


def log_odds(z: Float64[Array, "n dim"]) -> Float64[Array, "dim dim"]:
    """Logarithm of the odds that the components of each pair are correlated; they are even that any pair is.

    Args:
        z: Innovations that are independent and of one size if no noise is correlated.
    """
    n, dim = z.shape
    score = np.zeros((dim, dim))
    for i, j in combinations(range(dim), 2):
        score[i, j] = score[j, i] = standardised_sum(z[:, i] * z[:, j])
    num_pairs = max(dim * (dim - 1) // 2, 1)
    return 0.5 * score**2 + np.log(0.5 * np.sqrt(2 * np.pi / n)) - np.log(num_pairs)


def standardised_sum(products: Float64[Array, " n"]) -> float:
    """sum p / sqrt(sum p²) over the root of the variance of block sums, if that is larger than of independent p."""
    length = max(1, int(np.sqrt(len(products))))
    blocks = products[: len(products) // length * length].reshape(-1, length).sum(axis=1)
    tiny = np.finfo(np.float64).tiny
    alike = blocks.var(ddof=1) / max(length * products.var(), tiny) if len(blocks) > 1 else 1.0
    return float(products.sum() / np.sqrt(max((products**2).sum() * max(alike, 1.0), tiny)))


def correlated_pairs(z: Float64[Array, "n dim"]) -> Int[Array, "pairs 2"]:
    """The pairs with strong evidence for a correlation."""
    found = np.argwhere(np.triu(log_odds(z), 1) > np.log(CLEAR))
    return found.astype(np.int64)


def fit_correlation(
    sde: SDE,
    obs: Observations,
    noise_std: Float64[Array, " dim"],
    pairs: Int[Array, "pairs 2"],
    flow: Flow | None = None,
) -> EstimatedCorrelation:
    """The most likely correlations of some pairs, beside a factor on the diffusion of every component.

    Args:
        sde: An equation with noise of their own for all components.
        obs: The data.
        noise_std: Standard deviation of the measurement noise.
        pairs: Which correlations may differ from zero.
        flow: The equation along the data, if that is known already.
    """
    search = _Search.make(sde, obs, noise_std, pairs, flow)
    at = np.zeros(len(pairs) + sde.dim)
    here = search.likelihood(at)
    for _ in range(_MOST_ROUNDS):
        score, told = search.derivatives(at)
        step = np.linalg.lstsq(told, score.sum(axis=0), rcond=None)[0]
        step *= min(1.0, _LONGEST / max(np.abs(step).max(), _SETTLED))
        for _ in range(_HALVINGS):
            there = search.likelihood(at + step)
            if there >= here:
                break
            step = 0.5 * step
        else:
            break
        at, here = at + step, there
        if np.sqrt(step @ told @ step) < _SETTLED:
            break
    score, told = search.derivatives(at)
    moved = (score @ np.linalg.pinv(told, hermitian=True))[:, : len(pairs)]  # what each step says, in units of rho's
    return EstimatedCorrelation(sde, nearest_correlation(search.matrix(at)), pairs, moved.T @ moved)


@dataclass(frozen=True, eq=False)
class _Search:
    """The likelihood as a function of the artanh of correlations and the logarithms of factors on the diffusion.

    Attributes:
        obs, noise_std: The data, or their beginning, and their measurement noise.
        flow: The linearised equation, its noise uncorrelated.
        pairs: Whose correlation is looked for.
        shares: What a correlation of one would add to the covariance of the noise of each step, per pair.
    """

    obs: Observations
    noise_std: Float64[Array, " dim"]
    flow: Flow
    pairs: Int[Array, "pairs 2"]
    shares: Float64[Array, "pairs n dim dim"]

    @classmethod
    def make(
        cls,
        sde: SDE,
        obs: Observations,
        noise_std: Float64[Array, " dim"],
        pairs: Int[Array, "pairs 2"],
        flow: Flow | None,
    ) -> "_Search":
        obs = beginning(obs, _MOST_STEPS)
        if flow is None:
            flow = flow_around(sde, obs, obs.values)
            for _ in range(PASSES - 1 if noise_std.any() else 0):
                flow = flow_around(sde, obs, run_filter(flow, obs, noise_std).mean)
        flow = flow.rows(np.arange(obs.num_transitions))
        gaps = np.delete(np.diff(obs.times), obs.path_starts[1:-1] - 1)
        return cls(obs, noise_std, flow, pairs, np.stack([_share(sde, flow, gaps, *pair) for pair in pairs.tolist()]))

    def matrix(self, at: Float64[Array, " _"]) -> Float64[Array, "dim dim"]:
        """Correlations as a matrix."""
        rho, (i, j) = np.eye(self.obs.dim), self.pairs.T
        rho[i, j] = rho[j, i] = np.clip(np.tanh(at[: len(self.pairs)]), -_LARGEST, _LARGEST)
        return rho

    def likelihood(self, at: Float64[Array, " _"]) -> float:
        """ln p(data); minus infinity where the matrix is no correlation."""
        if np.linalg.eigvalsh(self.matrix(at))[0] <= 0:
            return -np.inf
        total = float(self._filtered(at)[0].sum())
        return total if np.isfinite(total) else -np.inf

    def derivatives(self, at: Float64[Array, " _"]) -> tuple[Float64[Array, "n _"], Float64[Array, "_ _"]]:
        """Scores of every observation, and Fisher's information:

        sum_t tr(S⁻¹ dS S⁻¹ dS) / 2 + dv' S⁻¹ dv    with the innovations v and their covariances S.
        """
        _, factor, _ = self._filtered(at)
        scores, sizes, means = [], [], []
        for k in range(len(at)):
            step = _PROBE * np.eye(len(at))[k]
            ahead, behind = self._filtered(at + step), self._filtered(at - step)
            one, other = (np.einsum("nij,nkj->nik", f, f) for f in (ahead[1], behind[1]))
            scores.append((ahead[0] - behind[0]) / (2 * _PROBE))
            half = np.linalg.solve(factor, (one - other) / (2 * _PROBE))
            sizes.append(np.linalg.solve(factor, np.swapaxes(half, 1, 2)).reshape(len(factor), -1))  # L⁻¹ dS L⁻¹'
            means.append(np.linalg.solve(factor, ((ahead[2] - behind[2]) / (2 * _PROBE))[:, :, None])[:, :, 0])
        told = np.einsum("ank,bnk->ab", np.stack(sizes), np.stack(sizes)) / 2
        told += np.einsum("ank,bnk->ab", np.stack(means), np.stack(means))
        score = np.stack(scores, axis=1)  # an observation that no number can hold says nothing
        return np.where(np.isfinite(score), score, 0.0), np.where(np.isfinite(told), told, 0.0)

    def _filtered(
        self, at: Float64[Array, " _"]
    ) -> tuple[Float64[Array, " n"], Float64[Array, "n dim dim"], Float64[Array, "n dim"]]:
        """Log density of every observation, factors of the covariances of innovations, and innovations."""
        rho, scale = np.tanh(at[: len(self.pairs)]), np.exp(at[len(self.pairs) :])
        covariance = self.flow.covariance + np.einsum("p,pnij->nij", rho, self.shares)
        found = run_filter(replace(self.flow, covariance=covariance), self.obs, self.noise_std, scale)
        return found.likelihood, found.factor, found.plain * found.std


def _share(sde: SDE, flow: Flow, gaps: Float64[Array, " n"], i: int, j: int) -> Float64[Array, "n dim dim"]:
    """Integral of M(s) E M(s)' over a gap, by Simpson's rule: E has sigma_i sigma_j at (i, j) and (j, i).

    Half-way the flow is the root of the matrix M of the whole gap, I + D / 2 - D² / 8 with D = M - I.
    """
    change = flow.matrix - np.eye(sde.dim)
    half = np.eye(sde.dim) + change / 2 - change @ change / 8
    begin, end = (_mixed(sde, x, flow.least, i, j) for x in (flow.start, flow.ahead))
    middle = half @ (begin + end) @ np.swapaxes(half, 1, 2)
    whole = flow.matrix @ begin @ np.swapaxes(flow.matrix, 1, 2)
    return (whole + 2 * middle + end) * (gaps / 6)[:, None, None]


def _mixed(
    sde: SDE, x: Float64[Array, "n dim"], least: Float64[Array, " dim"], i: int, j: int
) -> Float64[Array, "n dim dim"]:
    """sigma_i sigma_j at (i, j) and (j, i)."""
    sigma = np.sqrt(np.maximum(np.asarray(fields(sde, x)[1], np.float64) ** 2, least))
    out = np.zeros((len(x), sde.dim, sde.dim))
    out[:, i, j] = out[:, j, i] = sigma[:, i] * sigma[:, j]
    return out
