"""Truncated signature kernel between paths: how similar two paths are, whatever their laws.

Level k of the kernel of paths x and y is the sum, over strictly increasing time indices on both sides, of products of k
second differences of the static kernel (order 1, differenced). Every level is divided by the geometric mean of the two
self-kernels of that level, and levels 0 to `levels` are averaged, so that a path has similarity 1 with itself.
Defaults are the paper's: Gaussian static kernel of bandwidth 1 in the units of the paths, 5 levels, no time channel.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from fimsde.errors import ConfigError, InvalidObservationsError
from fimsde.metrics.signature_kernels import LANES, LEVELS, signature_levels
from fimsde.shapes import Array, Float, Float64, Int

_SELF_KERNEL_FLOOR = 1e-12  # the paper's (KSig's); levels of a path that hardly moves are not blown up to 1


@dataclass(frozen=True)
class SignatureKernel:
    """Settings of the kernel."""

    levels: int = 5  # levels above 0
    bandwidth: float = 1.0  # of the Gaussian static kernel, in the units of the paths; the linear kernel has none
    static: Literal["rbf", "linear"] = "rbf"

    def __post_init__(self) -> None:
        if not 1 <= self.levels <= LEVELS:
            raise ConfigError(f"levels is {self.levels}, but 1 to {LEVELS} are implemented.")
        if not (self.bandwidth > 0 and np.isfinite(self.bandwidth)):
            raise ConfigError(f"bandwidth is {self.bandwidth:g}, but a positive number is needed.")
        if self.static not in ("rbf", "linear"):
            raise ConfigError(f"static kernel is {self.static!r}, but 'rbf' and 'linear' are known.")


@dataclass(frozen=True, eq=False)
class SelfGram:
    """A set of paths against itself.

    Attributes:
        gram: Normalised kernel of all pairs; the diagonal is 1 unless a path hardly moves.
        self_levels: Levels of every path with itself before normalisation, for comparisons with other sets.
    """

    gram: Float64[Array, "paths paths"]
    self_levels: Float64[Array, "paths levels"]


def self_gram(
    paths: Float[Array, "paths times dim"], kernel: SignatureKernel | None = None, *, threads: int = 1
) -> SelfGram:
    """mean_k K_k(x, y) / sqrt(K_k(x, x) K_k(y, y)) over levels k, for all pairs inside one set.

    K_k is level k before normalisation. Every pair is computed once; `threads` does not change the result.
    """
    kernel = kernel or SignatureKernel()
    num = len(paths)
    levels = level_gram(paths, paths, [np.arange(i, num) for i in range(num)], kernel, threads=threads)
    lower = np.tril_indices(num, -1)
    levels[lower] = levels.swapaxes(0, 1)[lower]
    diagonal = levels[np.arange(num), np.arange(num)]
    return SelfGram(gram=_normalise(levels, diagonal, diagonal), self_levels=diagonal)


def cross_gram(
    x: Float[Array, "paths times dim"],
    y: Float[Array, "others length _"],
    x_levels: Float64[Array, "paths levels"],
    y_levels: Float64[Array, "others levels"],
    kernel: SignatureKernel | None = None,
    *,
    threads: int = 1,
) -> Float64[Array, "paths others"]:
    """Kernel of all pairs of two sets, given the self-kernels of both (`SelfGram.self_levels`)."""
    kernel = kernel or SignatureKernel()
    levels = level_gram(x, y, [np.arange(len(y))] * len(x), kernel, threads=threads)
    return _normalise(levels, x_levels, y_levels)


def level_gram(
    x: Float[Array, "paths times dim"],
    y: Float[Array, "others length _"],
    partners: list[Int[Array, " _"]],
    kernel: SignatureKernel,
    *,
    threads: int = 1,
) -> Float64[Array, "paths others levels"]:
    """Levels 0 to `kernel.levels` before normalisation, of every x[i] with y[partners[i]]; NaN for other pairs."""
    x, y = _checked(x, y, threads)
    rows, columns = _blocks(partners)
    scaled_x, scaled_y, is_rbf = _scaled(x, kernel), _scaled(y, kernel), kernel.static == "rbf"
    found = np.empty((len(rows), LEVELS, LANES))
    cuts = np.linspace(0, len(rows), threads + 1).astype(int)
    parts = [
        (scaled_x, scaled_y, rows[start:stop], columns[start:stop], is_rbf, found[start:stop])
        for start, stop in pairwise(cuts)
    ]
    if threads == 1:
        signature_levels(*parts[0])
    else:
        with ThreadPoolExecutor(threads) as pool:  # the compiled code releases the interpreter lock
            list(pool.map(signature_levels, *zip(*parts, strict=True)))

    levels = np.full((len(x), len(y), kernel.levels + 1), np.nan)
    levels[rows[:, None], columns, 0] = 1.0
    levels[rows[:, None], columns, 1:] = found[:, : kernel.levels].swapaxes(1, 2)  # (blocks, LANES, levels)
    return levels


def _checked(x: Array, y: Array, threads: int) -> tuple[Array, Array]:
    if x.shape[2] != y.shape[2]:
        raise InvalidObservationsError(
            f"paths of {x.shape[2]} and of {y.shape[2]} components cannot be compared; select the same components."
        )
    if threads < 1:
        raise ConfigError(f"threads is {threads}, but at least 1 is needed.")
    for paths in (x, y):
        if 0 in paths.shape or paths.shape[1] < 2:
            raise InvalidObservationsError(
                f"paths have shape {paths.shape} (paths, times, dim), but at least one path and two times are needed."
            )
        bad = np.flatnonzero(~np.isfinite(paths).all(axis=(1, 2)))
        if bad.size:
            raise InvalidObservationsError(
                f"{bad.size} of {len(paths)} paths hold NaN or infinite values, the first is path {bad[0]}. "
                "A kernel needs finite paths: count this run as failed instead of dropping the paths."
            )
    return x.astype(np.float64), y.astype(np.float64)


def _blocks(partners: list[Array]) -> tuple[Array, Array]:
    """Cut each row's partners into blocks of LANES; a short block repeats its last partner."""
    rows, columns = [], []
    for i, partner in enumerate(partners):
        num_blocks = -(-len(partner) // LANES)
        filled = np.minimum(np.arange(num_blocks * LANES), len(partner) - 1)
        rows.append(np.full(num_blocks, i))
        columns.append(partner[filled].reshape(num_blocks, LANES))
    return np.concatenate(rows), np.concatenate(columns)


def _scaled(paths: Array, kernel: SignatureKernel) -> Array:
    """Paths in units in which the compiled static kernel is exp(-|a - b|²) or a·b."""
    if kernel.static == "rbf":
        return np.ascontiguousarray(paths / (np.sqrt(2.0) * kernel.bandwidth))
    return np.ascontiguousarray(paths - paths[:, :1])  # differences do not see the start, rounding does


def _normalise(levels: Array, x_levels: Array, y_levels: Array) -> Array:
    x_norm = np.sqrt(np.maximum(x_levels, _SELF_KERNEL_FLOOR))
    y_norm = np.sqrt(np.maximum(y_levels, _SELF_KERNEL_FLOOR))
    return np.mean(levels / (x_norm[:, None] * y_norm[None]), axis=-1)
