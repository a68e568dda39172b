"""Where an analysis looks: a box, and the fields inside it."""

import warnings
from typing import Any, Protocol, runtime_checkable

import numpy as np

from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE, fields
from fimsde.errors import ConfigError, DataWarning, InvalidObservationsError
from fimsde.shapes import Array, Bool, Float, Float64

Corner = float | Float[Array, " dim"]


@runtime_checkable
class Supported(SDE, Protocol):
    """An equation that knows its data and where they support it."""

    @property
    def observations(self) -> Observations | None: ...

    def inside(self, x: Float64[Array, "queries dim"]) -> Bool[Array, " queries"]: ...


Box = tuple[Corner, Corner]  # lower and upper corner; plain numbers in one dimension
# of the range of the data, on every side: tables, and walls where paths cannot leave; as the grid of the prior
WIDEN = 0.25
_LARGEST = 1e70  # range of a component, or one over it: its fourth power, 1e280, is a number


def to_box(
    box: Any, dim: int, observations: Observations | None, widen: float = 0.0
) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
    """The corners asked for, or those of the data, widened by a share of the range on every side."""
    if box is None:
        if observations is None:
            raise ConfigError("no box was given and there are no data to take it from. Pass box=(low, high).")
        return checked(*observations.box(widen))
    if not (isinstance(box, tuple | list) and len(box) == 2):
        raise ConfigError(f"box is {box!r}; expected a pair (low, high) of corners.")
    low, high = (np.atleast_1d(np.array(corner, np.float64)) for corner in box)
    if low.shape != (dim,) or high.shape != (dim,) or not np.all(np.isfinite(high - low) & (low < high)):
        raise ConfigError(f"the box reaches from {low} to {high}; expected {dim} finite number(s) each, low < high.")
    return checked(low, high)


def to_open_box(box: Any, dim: int) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
    """Corners of a box that may be infinite."""
    if not (isinstance(box, tuple | list) and len(box) == 2):
        raise ConfigError(f"box is {box!r}; expected a pair (low, high) of corners.")
    low, high = (np.atleast_1d(np.array(corner, np.float64)) for corner in box)
    if low.shape != (dim,) or high.shape != (dim,) or not np.all(low < high):
        raise ConfigError(f"the box reaches from {low} to {high}; expected {dim} number(s) each, low < high.")
    return checked(low, high)


def to_walls(
    walls: Any, low: Float64[Array, " dim"], high: Float64[Array, " dim"], observations: Observations | None
) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
    """Reflecting walls for the infinite sides of a box: those asked for, or around the data."""
    if np.all(np.isfinite(low) & np.isfinite(high)):
        return low, high
    return to_box(walls, len(low), observations, widen=WIDEN)


def checked(
    low: Float64[Array, " dim"], high: Float64[Array, " dim"]
) -> tuple[Float64[Array, " dim"], Float64[Array, " dim"]]:
    """The corners of a box; an error if variances of variances in it are too large or too small for a float64."""
    span = (high - low)[np.isfinite(high - low)]
    for width in span[(span > _LARGEST) | (span > 0) & (span < 1 / _LARGEST)]:  # 0: a component that never moves
        raise ConfigError(
            f"a component ranges over {width:.3g}, whose powers no float64 holds; expected between {1 / _LARGEST:g} "
            f"and {_LARGEST:g}. Choose another unit, e.g. with observations.with_units(scale=...)."
        )
    return low, high


def finite_drift(sde: SDE, x: Float64[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
    """Drift at each location, whatever the diffusion; an error names the first place where it is not finite."""
    drift = np.asarray(fields(sde, x)[0], np.float64)
    bad = np.flatnonzero(~np.isfinite(drift).all(axis=1))
    if len(bad):
        raise InvalidObservationsError(
            f"the drift is not finite at {np.array2string(x[bad[0]], precision=4)} and {len(bad) - 1} more of {len(x)} "
            "locations. Choose a smaller box, or another method."
        )
    return drift


def finite_fields(
    sde: SDE, x: Float64[Array, "queries dim"]
) -> tuple[Float64[Array, "queries dim"], Float64[Array, "queries dim"]]:
    """Drift and diffusion at each location; an error names the first place where one of them is not finite."""
    drift, diffusion = fields(sde, x)
    bad = np.flatnonzero(~np.isfinite(drift + diffusion).all(axis=1))
    if len(bad):
        raise InvalidObservationsError(
            f"drift or diffusion is not finite at {np.array2string(x[bad[0]], precision=4)} and {len(bad) - 1} more of "
            f"{len(x)} locations (a negative variance rate, perhaps). Choose a smaller box, or another method."
        )
    return drift, diffusion


def warn_outside(x: Float64[Array, "queries dim"], inside: Bool[Array, " queries"], stacklevel: int) -> None:
    """Warn if data support not all locations."""
    outside = np.flatnonzero(~inside)
    if len(outside):
        i = outside[0]
        warnings.warn(
            f"{len(outside)} of {len(x)} locations are outside the data (the first is index {i}, "
            f"{np.array2string(x[i], precision=4)}): the values there are extrapolated. "
            "inside(x) tells which; fields(x) does not warn.",
            DataWarning,
            stacklevel=stacklevel,
        )
