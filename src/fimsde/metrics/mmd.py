"""Maximum mean discrepancy between reference paths and model paths: the paper's number, and what it hides.

The paper prints the squared discrepancy, estimated without the diagonal of the two self-Grams but with all pairs in the
cross term, and clips it at zero. Its model paths start where the reference paths start, so the cross term holds n
matched pairs that are alike whatever the model does; they pull the estimate down by 2 (k_matched - k_unmatched) / n,
and a wrong model can print 0. Beside it stand therefore the estimate before clipping, the estimate without the matched
pairs, and a permutation p-value.
"""

import os
from dataclasses import dataclass

import numpy as np

from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.metrics.gram_cache import cached_self_gram
from fimsde.metrics.signature import SignatureKernel, cross_gram, self_gram
from fimsde.shapes import Array, Bool, Float, Float64

# estimates closer than this share of the largest kernel value differ by rounding only; by hand: some thousand of it
_ROUNDING = 1e-12


@dataclass(frozen=True)
class MMD:
    """Squared maximum mean discrepancy of one comparison.

    Attributes:
        value: The paper's estimate before clipping; takes both signs.
        unmatched: The estimate without the pairs that share a start; unbiased, so that 0 is its mean for a true model.
            Equal to `value` if no starts are shared.
        p_value: Share of relabellings with at least the discrepancy found; small values speak against the model.
        num_reference: Number of reference paths.
        num_model: Number of model paths.
    """

    value: float
    unmatched: float
    p_value: float
    num_reference: int
    num_model: int

    @property
    def printed(self) -> float:
        """The number in the paper's tables: `value`, clipped at zero."""
        return max(self.value, 0.0)


@dataclass(frozen=True, eq=False)
class Grams:
    """Kernels of all pairs among reference paths x and model paths y; everything here follows from them."""

    xx: Float64[Array, "paths paths"]
    yy: Float64[Array, "others others"]
    xy: Float64[Array, "paths others"]


def mmd(
    reference: Float[Array, "paths times dim"],
    model: Float[Array, "others length _"],
    *,
    kernel: SignatureKernel | None = None,
    matched: bool = True,
    num_permutations: int = 999,
    seed: int = 0,
    cache: str | os.PathLike[str] | None = None,
    threads: int = 1,
) -> MMD:
    """MMD² = mean_i≠j k(x_i, x_j) + mean_i≠j k(y_i, y_j) - 2 mean_ij k(x_i, y_j), in the units the paths have.

    x are reference paths, y model paths and k is the signature kernel.

    Args:
        reference: Observed paths.
        model: Simulated paths. One NaN is an error: the paper counts such a run as failed.
        kernel: The paper's unless said otherwise.
        matched: Path i of the model starts where path i of the reference starts, as in all experiments of the paper.
        num_permutations: Relabellings behind the p-value, whose smallest value is 1 / (num_permutations + 1).
        seed: Of the relabellings.
        cache: Folder in which the Gram of the reference is kept; nothing is written by default.
        threads: Does not change the result.
    """
    kernel = kernel or SignatureKernel()
    grams = signature_grams(reference, model, kernel=kernel, cache=cache, threads=threads)
    return mmd_from_grams(grams, matched=matched, num_permutations=num_permutations, seed=seed)


def signature_grams(
    reference: Float[Array, "paths times dim"],
    model: Float[Array, "others length _"],
    *,
    kernel: SignatureKernel,
    cache: str | os.PathLike[str] | None = None,
    threads: int = 1,
) -> Grams:
    """The three Grams of `mmd`."""
    x = cached_self_gram(reference, kernel, cache, threads=threads)
    y = self_gram(model, kernel, threads=threads)
    xy = cross_gram(reference, model, x.self_levels, y.self_levels, kernel, threads=threads)
    return Grams(xx=x.gram, yy=y.gram, xy=xy)


def mmd_from_grams(grams: Grams, *, matched: bool = True, num_permutations: int = 999, seed: int = 0) -> MMD:
    """`mmd` for Grams of any kernel."""
    n, m = grams.xy.shape
    if min(n, m) < 2:
        raise InvalidObservationsError(f"{n} reference and {m} model paths: at least 2 of each are needed.")
    if matched and n != m:
        raise InvalidObservationsError(
            f"{n} reference and {m} model paths cannot have matched starts. "
            "Simulate one path from the start of every reference path, or pass matched=False."
        )
    if num_permutations < 1:
        raise ConfigError(f"num_permutations is {num_permutations}, but at least 1 is needed.")
    rng = np.random.default_rng(seed)
    value = _mean_off_diagonal(grams.xx) + _mean_off_diagonal(grams.yy) - 2.0 * float(grams.xy.mean())
    if matched:
        unmatched, p_value = _swap_test(grams, num_permutations, rng)
    else:
        unmatched, p_value = value, _pooled_test(grams, num_permutations, rng)
    return MMD(value=value, unmatched=unmatched, p_value=p_value, num_reference=n, num_model=m)


def _mean_off_diagonal(gram: Array) -> float:
    n = len(gram)
    return float((gram.sum() - np.trace(gram)) / (n * (n - 1)))


def _swap_test(grams: Grams, num_permutations: int, rng: np.random.Generator) -> tuple[float, float]:
    """Matched starts: the estimate without matched pairs, and its p-value under swaps inside pairs.

    If the model is right, path i of the reference and path i of the model are two draws of one law, that of paths from
    their common start: each pair may be swapped, while paths of different pairs may not be exchanged. The estimate is
    the mean over i != j of <d_i, d_j>, where d_i is the difference of the features of pair i, and a swap flips d_i.
    """
    differences = grams.xx + grams.yy - grams.xy - grams.xy.T
    np.fill_diagonal(differences, 0.0)
    n = len(differences)
    signs = rng.choice([-1.0, 1.0], size=(num_permutations, n))
    swapped = np.sum((signs @ differences) * signs, axis=1)
    num_pairs = n * (n - 1)
    unmatched = float(differences.sum()) / num_pairs
    return unmatched, _p_value(unmatched, swapped / num_pairs, np.abs(grams.xy).max())


def _pooled_test(grams: Grams, num_permutations: int, rng: np.random.Generator) -> float:
    """Independent starts: if the model is right, all paths are draws of one law, and any relabelling is as likely."""
    n, m = grams.xy.shape
    pooled = np.block([[grams.xx, grams.xy], [grams.xy.T, grams.yy]])
    np.fill_diagonal(pooled, 0.0)
    is_reference = np.zeros((num_permutations + 1, n + m), dtype=bool)
    is_reference[:, :n] = True
    is_reference[1:] = rng.permuted(is_reference[1:], axis=1)
    found = _pooled_statistic(pooled, is_reference)
    return _p_value(float(found[0]), found[1:], np.abs(pooled).max())


def _pooled_statistic(pooled: Array, is_reference: Bool[Array, "labels paths"]) -> Float64[Array, " labels"]:
    """The estimate for every labelling of a pooled Gram with empty diagonal."""
    x = is_reference.astype(np.float64)
    y = 1.0 - x
    n, m = x[0].sum(), y[0].sum()
    to_x, to_y = x @ pooled, y @ pooled  # (labels, paths)
    inside_x, inside_y, between = (np.sum(a * b, axis=1) for a, b in ((to_x, x), (to_y, y), (to_x, y)))
    return inside_x / (n * (n - 1)) + inside_y / (m * (m - 1)) - 2.0 * between / (n * m)


def _p_value(found: float, relabelled: Float64[Array, " labels"], largest: float) -> float:
    """(1 + N) / (1 + M): N of M relabellings have at least the estimate; ties, and the labelling found, count too."""
    at_least = int(np.sum(relabelled >= found - _ROUNDING * largest))
    return (1 + at_least) / (1 + len(relabelled))
