"""Limit cycles of the drift in the plane.

    P(r) = r,  |P'(r)| < 1

P is the return map of a ray from an unstable equilibrium: a path of dx = f(x) dt that starts on the ray at distance r
goes once around and comes back at P(r). A stable cycle crosses the ray where P(r) - r falls through zero.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fimsde.analysis.fixed_points import FixedPoint
from fimsde.equations.sde import SDE
from fimsde.shapes import Array, Bool, Float64

_STARTS = 32  # on the ray; by hand: cycles closer to each other than a thirtieth of the box are not told apart
_NEAREST = 0.02  # of the box: the first start; by hand: outside what difference quotients call one point
_ARC = 0.02  # of the box: a step along the path; Runge-Kutta errs by its fourth power
_LONGEST = 600  # steps of one turn, twelve times the width of the box; by hand: bounds milliseconds
_SUPPORTED = 0.9  # of the cycle must be where data are; by hand: a short gap does not hide it
_ROOM = 0.25  # of the box: how far outside the data a turn may lead, as simulations may


@dataclass(frozen=True, eq=False)
class Cycle:
    """A stable limit cycle of dx = f(x) dt.

    Attributes:
        period: Time of one turn.
        low, high: Corners of the smallest box around it.
        around: The equilibrium that it encloses.
    """

    period: float
    low: Float64[Array, " dim"]
    high: Float64[Array, " dim"]
    around: FixedPoint


def find_cycle(
    sde: SDE,
    points: Sequence[FixedPoint],
    low: Float64[Array, " dim"],
    high: Float64[Array, " dim"],
    inside: Callable[[Float64[Array, "queries dim"]], Bool[Array, " queries"]],
) -> Cycle | None:
    """The innermost stable cycle around an unstable equilibrium of a planar drift; None if data support none.

    Args:
        sde: The equation.
        points: Its equilibria; data need not have come near them.
        low, high: Corners of the box in which to look.
        inside: Whether data support locations.
    """
    if sde.dim != 2:
        return None
    for point in points:
        if point.kind in ("unstable focus", "unstable node"):
            cycle = _around(sde, point, low, high, inside)
            if cycle is not None:
                return cycle
    return None


def _around(
    sde: SDE,
    point: FixedPoint,
    low: Float64[Array, "2"],
    high: Float64[Array, "2"],
    inside: Callable[[Float64[Array, "queries dim"]], Bool[Array, " queries"]],
) -> Cycle | None:
    width = high - low
    far = (high - point.x)[0] / width[0] + _ROOM
    radii = np.linspace(_NEAREST, far, _STARTS)
    back, _, _ = _one_turn(sde, point, width, radii, low, high)
    growth = back - radii
    crossing = np.flatnonzero((growth[:-1] > 0) & (growth[1:] <= 0))
    if not len(crossing):
        return None
    k = int(crossing[0])
    share = growth[k] / (growth[k] - growth[k + 1])
    radius = radii[k] + share * (radii[k + 1] - radii[k])
    _, period, orbit = _one_turn(sde, point, width, np.array([radius]), low, high)
    if not np.isfinite(period[0]) or np.mean(inside(orbit[:, 0])) < _SUPPORTED:
        return None
    return Cycle(float(period[0]), orbit[:, 0].min(axis=0), orbit[:, 0].max(axis=0), point)


def _one_turn(
    sde: SDE,
    point: FixedPoint,
    width: Float64[Array, "2"],
    radii: Float64[Array, " starts"],
    low: Float64[Array, "2"],
    high: Float64[Array, "2"],
) -> tuple[Float64[Array, " starts"], Float64[Array, " starts"], Float64[Array, "steps starts 2"]]:
    """Distance after one turn and its duration, per start, NaN for those that do not come round; and the orbits.

    Steps have equal lengths in units of the box, so that fast and slow stretches are followed alike.
    """

    def velocity(x: Float64[Array, "starts 2"]) -> tuple[Float64[Array, "starts 2"], Float64[Array, " starts"]]:
        drift = np.nan_to_num(np.asarray(sde.drift(x), np.float64))
        speed = np.maximum(np.linalg.norm(drift / width, axis=1), np.finfo(np.float64).tiny)
        return drift / speed[:, None], 1 / speed

    x = point.x + np.stack([radii, np.zeros_like(radii)], axis=1) * width
    turned, time = np.zeros_like(radii), np.zeros_like(radii)
    back, duration = np.full_like(radii, np.nan), np.full_like(radii, np.nan)
    waiting, orbit = np.ones(len(radii), bool), [x]
    edge = low - 2 * _ROOM * width, high + 2 * _ROOM * width
    for _ in range(_LONGEST):
        (a, ta), (b, tb) = (first := velocity(x)), velocity(x + _ARC / 2 * first[0])
        c, tc = velocity(x + _ARC / 2 * b)
        d, td = velocity(x + _ARC * c)
        ahead, step = x + _ARC / 6 * (a + 2 * b + 2 * c + d), _ARC / 6 * (ta + 2 * tb + 2 * tc + td)
        before, after = (x - point.x) / width, (ahead - point.x) / width
        cross, dot = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0], np.sum(before * after, axis=1)
        angle = np.arctan2(cross, dot)
        is_round = waiting & (np.abs(turned + angle) >= 2 * np.pi)
        share = np.clip((2 * np.pi - np.abs(turned)) / np.maximum(np.abs(angle), 1e-300), 0, 1)
        size = np.linalg.norm(before, axis=1), np.linalg.norm(after, axis=1)
        back[is_round] = ((1 - share) * size[0] + share * size[1])[is_round]
        duration[is_round] = (time + share * step)[is_round]
        lost = np.any((ahead < edge[0]) | (ahead > edge[1]), axis=1)
        waiting &= ~(is_round | lost)
        x = np.where(waiting[:, None], ahead, x)
        turned, time = turned + angle, time + step
        orbit.append(x)
        if not waiting.any():
            break
    return back, duration, np.stack(orbit)
