"""Fixed points of the drift and their stability."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fimsde.analysis.box import finite_drift
from fimsde.analysis.draws import Interval
from fimsde.data.grid import nodes_per_axis, regular_grid
from fimsde.equations.sde import SDE, fields
from fimsde.shapes import Array, Bool, Float64

Kind = Literal["stable node", "stable focus", "unstable node", "unstable focus", "saddle", "centre", "unclear"]

# of the grid on which roots are looked for: in all, per axis, on a line; by hand: bounds seconds
_NODES, _MOST_NODES, _ALONE = 10_000, 61, 801
# nodes per axis below which cells are too wide to show all roots by changes of sign; by hand: four dimensions have 10
_COARSE = 10
# of Newton's method on such grids: the nodes at which the drift is smallest; by hand: bounds seconds
_MORE_STARTS = 500
# of the box: difference quotients; a float32 network answers to about 1e-7 of its size, and central differences err
# least for steps around its cube root, 5e-3; by hand somewhat shorter, since fields bend within a box
_STEP = 1e-3
_NEWTON = 30  # steps; by hand: ten of the longest cross the box, and the last ones converge quadratically
_LONGEST = 0.1  # of the box: a Newton step; by hand: keeps an iteration near the cell it started from
_CONVERGED = 1e-4  # of the box: last Newton step; by hand: a thirtieth of what makes two roots
_SAME = 3e-3  # of the box: roots closer than this are one; by hand: a fifth of a cell of the grid in the plane
# share of the largest eigenvalue below which a real part has no sign; by hand: float32 slopes err by 1e-7 / 1e-3
_UNDECIDED = 3e-3
_FINE = (
    1e-4  # of the box: states that are nearer to zero are written as zero; by hand: a tenth of what the answer tells
)


@dataclass(frozen=True, eq=False)
class PointError:
    """What draws say of a fixed point of the estimate.

    Attributes:
        probability: Share of the draws that have it: a root inside the box that is no other point's. On a line it is
            the nearest one of its kind, or of any; else the one to which Newton's method leads from there.
        stable: Share of these in which it is stable; NaN if there are none.
        x: Where it is.
        eigenvalues: Their real parts, the largest first.
        relaxation_time: 1 over the size of the largest real part, where it is stable: how fast paths return.
        frequency: Size of the imaginary part of the first eigenvalue over 2 pi, turns per time, where it turns; NaN
            if in no draw.
    """

    probability: float
    stable: float
    x: Interval
    eigenvalues: Interval
    relaxation_time: Interval
    frequency: Interval


@dataclass(frozen=True, eq=False)
class FixedPoint:
    """A state at which the drift vanishes.

    Attributes:
        x: The state, in the units of the data.
        eigenvalues: Of the Jacobian of the drift there, per unit of time; the largest real part first.
        kind: What the eigenvalues say. "centre" and "unclear": a real part is too close to zero to have a sign.
        inside: Whether data support the location.
        error: What draws of the posterior say of it; None without one.
    """

    x: Float64[Array, " dim"]
    eigenvalues: Array  # complex
    kind: Kind
    inside: bool
    error: PointError | None = None

    @property
    def is_stable(self) -> bool:
        """True if paths without noise return to it."""
        return self.kind.startswith("stable")


def place(x: Float64[Array, " dim"], width: Float64[Array, " dim"]) -> tuple[str, ...]:
    """A state in writing: four digits, and more if it is far from zero for the size of the box; none are below that."""
    width = np.where(width > 0, width, 1.0)
    step = _FINE * 10.0 ** np.floor(np.log10(width))
    more = np.log10(np.maximum(np.abs(x) / width, 1.0))
    x = np.where(np.abs(x) < step / 2, 0.0, x)
    return tuple(f"{value:.{4 + extra}g}" for value, extra in zip(x, np.ceil(more).astype(int), strict=True))


def find(
    sde: SDE,
    low: Float64[Array, " dim"],
    high: Float64[Array, " dim"],
    inside: Callable[[Float64[Array, "roots dim"]], Bool[Array, " roots"]],
) -> tuple[FixedPoint, ...]:
    """The fixed points in a box, described; `inside` tells which of them data support."""
    roots = find_roots(sde, low, high)
    return tuple(describe(sde, x, high - low, bool(near)) for x, near in zip(roots, inside(roots), strict=True))


def find_roots(sde: SDE, low: Float64[Array, " dim"], high: Float64[Array, " dim"]) -> Float64[Array, "roots dim"]:
    """States x with f(x) = 0 inside a box, in the order of their first component.

    Every cell of a grid over whose corners no component keeps its sign starts a Newton iteration; where the grid is
    coarse (five dimensions and more), so do the nodes with the smallest drift. Two roots inside one cell, or roots at
    which the drift only touches zero, may be missed.
    """
    dim, width = sde.dim, high - low
    num = nodes_per_axis(dim, _NODES, _MOST_NODES, _ALONE)
    nodes = regular_grid(low, high, num)
    drift = finite_drift(sde, nodes)
    cells = np.argwhere(_sign_changes(drift.reshape(*(num,) * dim, dim)))  # (cells, dim)
    starts = low + (cells + 0.5) * width / (num - 1)
    if num < _COARSE:
        speed = np.linalg.norm(drift / np.maximum(np.abs(drift).max(axis=0), np.finfo(np.float64).tiny), axis=1)
        starts = np.concatenate([starts, nodes[np.argsort(speed, kind="stable")[:_MORE_STARTS]]])
    if not len(starts):
        return np.empty((0, dim))
    x = _newton(sde, starts, low, high)
    return _distinct(x[np.lexsort(x.T[::-1])], _SAME * width)


def describe(sde: SDE, x: Float64[Array, " dim"], width: Float64[Array, " dim"], inside: bool) -> FixedPoint:
    """Stability of a root; `width` is the size of the box, which sets the step of the difference quotients."""
    eigenvalues = np.linalg.eigvals(jacobian(sde, x[None], width)[0]).astype(np.complex128)
    eigenvalues = eigenvalues[np.argsort(-eigenvalues.real)]
    return FixedPoint(x, eigenvalues, classify(eigenvalues, _rate(sde, x, width)), inside)


def classify(eigenvalues: Array, rate: float = 0.0) -> Kind:
    """Node, focus, saddle or centre; unclear if all eigenvalues are small against `rate`, per unit of time."""
    real, size = eigenvalues.real, np.abs(eigenvalues).max()
    turning = bool(np.any(np.abs(eigenvalues.imag) > _UNDECIDED * size))
    if size <= _UNDECIDED * rate:
        return "unclear"
    if np.any(np.abs(real) <= _UNDECIDED * size):
        return "centre" if turning and np.all(np.abs(real) <= _UNDECIDED * size) else "unclear"
    if np.all(real < 0):
        return "stable focus" if turning else "stable node"
    if np.all(real > 0):
        return "unstable focus" if turning else "unstable node"
    return "saddle"


def jacobian(
    sde: SDE, x: Float64[Array, "queries dim"], width: Float64[Array, " dim"]
) -> Float64[Array, "queries dim dim"]:
    """(f_i(x + h e_j) - f_i(x - h e_j)) / 2h at entry (i, j): the slope of component i of the drift along axis j."""
    dim = x.shape[1]
    steps = np.diag(_STEP * width)  # (dim, dim)
    around = np.concatenate([x[:, None] + steps, x[:, None] - steps], axis=1)  # (queries, 2 dim, dim)
    drift = finite_drift(sde, around.reshape(-1, dim)).reshape(len(x), 2, dim, dim)
    return np.swapaxes((drift[:, 0] - drift[:, 1]) / (2 * np.diag(steps)[:, None]), 1, 2)


def _rate(sde: SDE, x: Float64[Array, " dim"], width: Float64[Array, " dim"]) -> float:
    """How fast the drift crosses the box: what it is a quarter of the box away, in boxes per time."""
    around = np.concatenate([x + np.diag(width) / 4, x - np.diag(width) / 4])
    return float(np.nanmax(np.abs(fields(sde, around)[0]) / width, initial=0.0))


def _sign_changes(drift: Float64[Array, "*nodes dim"]) -> Array:
    """True for cells over whose corners every component takes both signs, or zero."""
    low = high = drift
    for axis in range(drift.ndim - 1):
        first, second = [slice(None)] * drift.ndim, [slice(None)] * drift.ndim
        first[axis], second[axis] = slice(None, -1), slice(1, None)
        low = np.minimum(low[tuple(first)], low[tuple(second)])
        high = np.maximum(high[tuple(first)], high[tuple(second)])
    return np.all((low <= 0) & (high >= 0), axis=-1, keepdims=False)


def _newton(
    sde: SDE, x: Float64[Array, "starts dim"], low: Float64[Array, " dim"], high: Float64[Array, " dim"]
) -> Float64[Array, "roots dim"]:
    """Where Newton's method comes to rest inside the box; starts that leave it on the way are given up."""
    width, found = high - low, [x[:0]]
    for _ in range(_NEWTON):
        drift = finite_drift(sde, x)
        slopes = jacobian(sde, x, width) * width  # in units of the box
        step = -np.stack([np.linalg.lstsq(a, b, rcond=None)[0] for a, b in zip(slopes, drift, strict=True)])
        size = np.abs(step).max(axis=1)
        x = x + width * step * np.minimum(1, _LONGEST / np.maximum(size, _CONVERGED))[:, None]
        kept = np.all((x >= low) & (x <= high), axis=1)
        found.append(x[kept & (size < _CONVERGED)])
        x = x[kept & (size >= _CONVERGED)]
        if not len(x):
            break
    return np.concatenate(found)


def _distinct(x: Float64[Array, "roots dim"], tolerance: Float64[Array, " dim"]) -> Float64[Array, "kept dim"]:
    kept: list[Array] = []
    for root in x:
        if all(np.any(np.abs(root - other) > tolerance) for other in kept):
            kept.append(root)
    return np.array(kept).reshape(-1, x.shape[1])
