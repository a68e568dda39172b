"""The data in numbers, and what a careful reader would notice about them before any equation is looked at."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from fimsde.shapes import Array, Float64, Int

_FEW = 128  # transitions: the smallest context of the paper's experiments
_STANDING = 0.05  # share of steps without any movement that is worth a word; by hand: noise never stands still
_FEW_VALUES = 50  # distinct values of a component: coarse; by hand
_LONG = 5.0  # times the median gap; by hand: a hole, not an uneven clock
# smallest against largest singular value of the states in units of their deviations; by hand: a copy of seven digits
_TIED = 1e-6
# robust standard deviations between a step and its neighbours; by hand: no normal record is long enough to show one
_JUMP = 10.0


@runtime_checkable
class Seen(Protocol):
    """What `Observations` hold; they print their health, so it cannot import them."""

    @property
    def values(self) -> Float64[Array, "points dim"]: ...

    @property
    def times(self) -> Float64[Array, " points"]: ...

    @property
    def path_starts(self) -> Int[Array, " paths_plus_1"]: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    @property
    def time_unit(self) -> str | None: ...


@dataclass(frozen=True, eq=False)
class Health:
    """Data in numbers.

    Attributes:
        quantiles: Smallest, 5 %, median, 95 % and largest value of each component.
        deviations: Standard deviation of each component.
        gaps: Shortest, median and longest time between observations.
        span: Time covered by all paths together.
        remarks: Sentences on what to keep in mind.
    """

    quantiles: Float64[Array, "5 dim"]
    deviations: Float64[Array, " dim"]
    gaps: tuple[float, float, float]
    span: float
    remarks: tuple[str, ...]


def health(observations: Seen) -> Health:
    """Look at the data."""
    path = np.repeat(np.arange(len(observations.path_starts) - 1), np.diff(observations.path_starts))
    inside = path[1:] == path[:-1]  # steps never lead from one path to the next
    dy, dtau = np.diff(observations.values, axis=0)[inside], np.diff(observations.times)[inside]
    size = np.abs(observations.values).max(axis=0)
    size[size == 0] = 1.0
    gaps = tuple(float(q) for q in np.quantile(dtau, [0, 0.5, 1]))
    return Health(
        quantiles=np.quantile(observations.values, [0, 0.05, 0.5, 0.95, 1], axis=0),
        deviations=size * (observations.values / size).std(axis=0),  # squares of large numbers overflow
        gaps=gaps,  # type: ignore[arg-type]  # three quantiles
        span=float(dtau.sum()),
        remarks=tuple(_remarks(observations, dy, dtau, path[:-1][inside])),
    )


def _remarks(
    observations: Seen, dy: Float64[Array, "n dim"], dtau: Float64[Array, " n"], path: Int[Array, " n"]
) -> Iterator[str]:
    if len(dy) < _FEW:
        yield f"{len(dy)} steps between observations are few: expect a rough estimate with wide bands."
    typical = float(np.median(dtau))
    long = int(np.sum(dtau > _LONG * typical))
    if long:
        yield (
            f"{long} of {len(dtau)} gaps are longer than {_LONG:g} times the median gap; each counts as one long step, "
            "nothing is interpolated."
        )
    if _are_tied(observations.values):
        yield (
            f"{', '.join(observations.names)}: one of them follows from the others by a linear relation, so values off "
            "it are never seen. Leave one out."
        )
    for name, move, values in zip(observations.names, dy.T, observations.values.T, strict=True):
        standing = float(np.mean(move == 0))
        if standing > _STANDING:
            yield f"{name}: {standing:.0%} of the steps do not move at all. Was it held, or recorded too coarsely?"
        distinct = len(np.unique(values))
        if distinct < min(_FEW_VALUES, len(values) // 2):
            yield f"{name}: only {distinct} distinct values, so steps are rounded and the diffusion suffers."
        jumps = _num_jumps(move / np.sqrt(dtau), path)
        if jumps:
            yield (
                f"{name}: {jumps} steps differ from their neighbours by more than {_JUMP:g} robust standard "
                "deviations. Jumps and outliers are not part of the model; look at them."
            )


def _are_tied(values: Float64[Array, "points dim"]) -> bool:
    """Whether the states lie on a line or plane, such as a column and a copy of it."""
    centred = values / np.abs(values).max(axis=0).clip(min=np.finfo(float).tiny)
    centred = centred - centred.mean(axis=0)
    deviations = centred.std(axis=0)
    if not deviations.all():
        return False
    sizes = np.linalg.svd(centred / deviations, compute_uv=False)
    return bool(sizes[-1] < _TIED * sizes[0])


def _num_jumps(moves: Float64[Array, " n"], path: Int[Array, " n"]) -> int:
    """Steps that neither drift nor noise explains: unlike both neighbours, with which they share drift and noise."""
    if len(moves) < 3:
        return 0
    apart = np.minimum(np.abs(moves[1:-1] - moves[:-2]), np.abs(moves[1:-1] - moves[2:]))
    apart = apart[(path[1:-1] == path[:-2]) & (path[1:-1] == path[2:])]
    spread = 1.4826 * float(np.median(np.abs(np.diff(moves)))) / 2**0.5
    return int(np.sum(apart > _JUMP * spread)) if spread > 0 else 0
