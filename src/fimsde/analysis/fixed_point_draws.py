"""Fixed points in draws of an equation: where they are, whether they exist, and what time scales they have."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from fimsde.analysis.draws import LEVEL, Draws, interval_of
from fimsde.analysis.fixed_points import FixedPoint, PointError
from fimsde.shapes import Array, Bool, Float64

_STEP = 1e-3  # of the box: difference quotients, as in `fixed_points`
_NEWTON = 40  # steps; by hand: the longest cross the box twice
_LONGEST = 0.05  # of the box: a Newton step; by hand: keeps an iteration near the point it started from
_CONVERGED = 1e-5  # of the box: last Newton step
_ROUNDING = 1e-9  # of the largest eigenvalue: smaller real parts are difference quotients of nothing
_NODES, _HALVINGS = 401, 12  # of the box on a line, and of a cell of it in which the drift changes sign; by hand: 1e-6
_SAME = 3e-3  # of the box: roots closer than this are one, as in `fixed_points`


def with_errors(
    points: Sequence[FixedPoint],
    draws: Draws,
    low: Float64[Array, " dim"],
    high: Float64[Array, " dim"],
    level: float = LEVEL,
) -> tuple[FixedPoint, ...]:
    """The same points, with what draws say of each.

    Args:
        points: Of the estimate.
        draws: Of its posterior.
        low, high: Corners of where roots are looked for.
        level: Of intervals.
    """
    if not points:
        return ()
    line = len(low) == 1
    found = [(_roots_on_line(draws, p, low, high) if line else _roots(draws, p.x, low, high)) for p in points]
    places = np.stack([x for x, _ in found])  # (points, draws, dim)
    good = np.stack([g for _, g in found])
    good &= _own(places, good, np.stack([point.x for point in points]), high - low)
    return tuple(
        replace(point, error=_describe(draws, x, g, high - low, level))
        for point, x, g in zip(points, places, good, strict=True)
    )


def _roots_on_line(
    draws: Draws, point: FixedPoint, low: Float64[Array, " dim"], high: Float64[Array, " dim"]
) -> tuple[Float64[Array, "draws dim"], Bool[Array, " draws"]]:
    """The root of every draw that is nearest to a point, of its kind if there is one; and whether there is any.

    Newton's method would not do: from a place where the drift is flat it leads anywhere.
    """
    nodes = np.linspace(low[0], high[0], _NODES)
    above = draws.drift_own(np.tile(nodes[:, None], (len(draws), 1, 1)))[:, :, 0] > 0  # (draws, nodes)
    changes, falls = above[:, 1:] != above[:, :-1], above[:, :-1]
    away = np.abs((nodes[1:] + nodes[:-1]) / 2 - point.x[0]) + (high - low)[0] * (falls != point.is_stable)
    away = np.where(changes, away, np.inf)
    cell, rows = away.argmin(axis=1), np.arange(len(away))
    start, end, falling = nodes[cell], nodes[cell + 1], falls[rows, cell]
    for _ in range(_HALVINGS):
        middle = (start + end) / 2
        ahead = (draws.drift_own(middle[:, None, None])[:, 0, 0] > 0) == falling
        start, end = np.where(ahead, middle, start), np.where(ahead, end, middle)
    return ((start + end) / 2)[:, None], np.isfinite(away[rows, cell])


def _roots(
    draws: Draws, start: Float64[Array, " dim"], low: Float64[Array, " dim"], high: Float64[Array, " dim"]
) -> tuple[Float64[Array, "draws dim"], Bool[Array, " draws"]]:
    """Newton's method in all draws at once, from one place; and whether it came to rest inside the box."""
    width = high - low
    x, size = np.tile(start, (len(draws), 1)), np.full(len(draws), np.inf)
    for _ in range(_NEWTON):
        drift, slopes = _slopes(draws, x, width)
        step = -np.einsum("nij,nj->ni", np.linalg.pinv(slopes * width), drift)  # the shortest, where there are many
        size = np.abs(step).max(axis=1)
        x = np.clip(x + width * step * np.minimum(1, _LONGEST / np.maximum(size, _CONVERGED))[:, None], low, high)
        if (size < _CONVERGED).all():
            break
    inside = np.all((x > low) & (x < high), axis=1)
    return x, inside & (size < 10 * _CONVERGED)


def _slopes(
    draws: Draws, x: Float64[Array, "draws dim"], width: Float64[Array, " dim"]
) -> tuple[Float64[Array, "draws dim"], Float64[Array, "draws dim dim"]]:
    """Drift of every draw at its own place, and its Jacobian there by central differences."""
    dim = x.shape[1]
    steps = np.diag(_STEP * width)
    around = np.concatenate([x[:, None], x[:, None] + steps, x[:, None] - steps], axis=1)  # (draws, 1 + 2 dim, dim)
    drift = draws.drift_own(around)
    ahead, behind = drift[:, 1 : dim + 1], drift[:, dim + 1 :]
    return drift[:, 0], np.swapaxes((ahead - behind) / (2 * np.diag(steps)[:, None]), 1, 2)


def _own(
    places: Float64[Array, "points draws dim"],
    good: Bool[Array, "points draws"],
    points: Float64[Array, "points dim"],
    width: Float64[Array, " dim"],
) -> Bool[Array, "points draws"]:
    """False where a root was found from another point as well, and is nearer to that one."""
    out = np.ones(good.shape, bool)
    distance = np.abs((places - points[:, None]) / width).max(axis=2)  # (points, draws)
    for i in range(len(points)):
        for j in range(len(points)):
            same = np.all(np.abs(places[i] - places[j]) < _SAME * width, axis=1) & good[i] & good[j]
            nearer = (distance[j] < distance[i]) | ((distance[j] == distance[i]) & (j < i))
            out[i] &= ~(same & nearer) | (i == j)
    return out


def _describe(
    draws: Draws,
    x: Float64[Array, "draws dim"],
    good: Bool[Array, " draws"],
    width: Float64[Array, " dim"],
    level: float,
) -> PointError:
    _, slopes = _slopes(draws, x, width)
    values = np.full(x.shape, np.nan, np.complex128)
    for k in np.flatnonzero(good).tolist():
        own = np.linalg.eigvals(slopes[k]).astype(np.complex128)
        own.real[np.abs(own.real) < _ROUNDING * np.abs(own).max()] = 0.0
        values[k] = own[np.argsort(-own.real)]
    stable = good & (values.real.max(axis=1, initial=-np.inf, where=~np.isnan(values.real)) < 0)
    turning = good & (np.abs(values[:, 0].imag) > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        relaxation = np.where(stable, 1.0 / np.abs(values[:, 0].real), np.nan)
        frequency = np.where(turning, np.abs(values[:, 0].imag) / (2 * np.pi), np.nan)
    return PointError(
        probability=float(good.mean()),
        stable=float(stable.sum() / good.sum()) if good.any() else float("nan"),
        x=interval_of(np.where(good[:, None], x, np.nan), level),
        eigenvalues=interval_of(values.real, level),
        relaxation_time=interval_of(relaxation, level),
        frequency=interval_of(frequency, level),
    )
