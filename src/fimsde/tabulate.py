"""Tables of drift and diffusion: an equation that is slow to evaluate, tabulated once and interpolated.

A regular grid over a box is refined by halving its steps until cubic interpolation predicts the fields at all nodes
added last. Outside the box the equation itself is asked.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fimsde.data.grid import nodes_per_axis, regular_grid
from fimsde.data.observations import Observations
from fimsde.data.support import to_locations, to_starts
from fimsde.equations.sde import SDE, correlation, fields, is_diagonal, nearest_correlation
from fimsde.errors import ConfigError, DataWarning, InvalidObservationsError
from fimsde.shapes import Array, Bool, Float, Float64, Int
from fimsde.simulate import Paths, simulate
from fimsde.tabulate_kernels import interpolate_1d, interpolate_2d, interpolate_3d, march

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

# 257 per axis in two dimensions, 33 in three; by hand: bounds the time of a model that is asked at all of them
MAX_NODES = 70_000
_MOST_DIMS = 3  # the kernels' stencil has 4^dim nodes, and nodes for more dimensions are too many; by hand
# nodes per axis of the coarsest grid, and in all; by hand: 9³ in space, which the first halving makes 17³
_FIRST, _FIRST_BUDGET = 17, 800
# most nodes of a table around data, in all and per axis; by hand: bounds seconds; 33³ in space, 1025 on a line
_AROUND, _AROUND_AXIS = 36_000, 2000
_AROUND_ERROR = 0.01  # of the size of the fields: small against what bands say; by hand
# components of the field smaller than this share of the largest are measured against that; by hand
_SMALLEST_SCALE = 1e-3

# nodes of each axis, then the components
NodeValues = Float64[Array, "_ outputs"] | Float64[Array, "_ _ outputs"] | Float64[Array, "_ _ _ outputs"]


@dataclass(frozen=True, eq=False)
class TabulatedSDE:
    """An equation in up to three dimensions whose fields are interpolated from a table inside a box.

    The errors were measured with every other node of the table left out, at all nodes left out; cubic interpolation
    with all of them is better (16 times where the fields are smooth).

    Attributes:
        sde: The equation; answers outside the box.
        low, high: Corners of the box.
        values: Drift components, then diffusion components, then, unless the noise is diagonal, the correlations of
            components (0, 1), (0, 2), ..., (1, 2), ... at the nodes of a regular grid.
        error_bound: Largest error measured, as a share of the size (root mean square over the box) of the component.
        drift_error, diffusion_error: Largest errors measured, per component in the units of the fields.
        correlation_error: Largest error of a correlation; 0 for diagonal noise.
    """

    sde: SDE
    low: Float64[Array, " dim"]
    high: Float64[Array, " dim"]
    values: NodeValues = field(repr=False)
    error_bound: float
    drift_error: Float64[Array, " dim"]
    diffusion_error: Float64[Array, " dim"]
    correlation_error: float = 0.0
    names: tuple[str, ...] = ()

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.low)

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the table."""
        return int(np.prod(self.values.shape[:-1]))

    def to_pandas(self, names: Sequence[str] | None = None) -> "pd.DataFrame":
        """A row per node: its components (x1, x2, ... unless named), then drift and diffusion of each."""
        import pandas as pd  # takes a while to import

        called = names or self.names or [f"x{j + 1}" for j in range(self.dim)]
        nodes = np.stack(np.meshgrid(*self.axes(), indexing="ij"), axis=-1).reshape(-1, self.dim)
        fields = self.values.reshape(len(nodes), -1)[:, : 2 * self.dim]
        head = [*called, *(f"{what} {name}" for what in ("drift", "diffusion") for name in called)]
        return pd.DataFrame(np.concatenate([nodes, fields], axis=1), columns=head)

    def to_xarray(self, names: Sequence[str] | None = None) -> "xr.Dataset":
        """Drift and diffusion of every component over the axes of the state. Needs xarray."""
        import xarray as xr

        called = list(names or self.names or [f"x{j + 1}" for j in range(self.dim)])
        head = [f"{what} {name}" for what in ("drift", "diffusion") for name in called]
        parts = {name: (called, self.values[..., k]) for k, name in enumerate(head)}
        return xr.Dataset(parts, dict(zip(called, self.axes(), strict=True)))

    def axes(self) -> tuple[Float64[Array, " nodes"], ...]:
        """The nodes along each axis."""
        return tuple(np.linspace(*ends) for ends in zip(self.low, self.high, self.values.shape[:-1], strict=True))

    def drift(self, x: Float[Array, "queries dim"] | Float[Array, " queries"]) -> Float64[Array, "*shape"]:
        """Drift f at each location, in the shape of x."""
        return self.fields(to_locations(x, self.dim))[0].reshape(np.shape(x))

    def diffusion(self, x: Float[Array, "queries dim"] | Float[Array, " queries"]) -> Float64[Array, "*shape"]:
        """Diffusion sqrt(g) at each location, in the shape of x."""
        return self.fields(to_locations(x, self.dim))[1].reshape(np.shape(x))

    def fields(
        self, x: Float[Array, "queries dim"]
    ) -> tuple[Float64[Array, "queries dim"], Float64[Array, "queries dim"]]:
        """Drift and diffusion at each location."""
        inside = self._inside(x)
        if inside.all():
            return self._split(_interpolate(self.values, self.low, self.high, x))
        drift, diffusion = np.empty(x.shape), np.empty(x.shape)
        drift[inside], diffusion[inside] = self._split(_interpolate(self.values, self.low, self.high, x[inside]))
        drift[~inside], diffusion[~inside] = fields(self.sde, x[~inside])
        return drift, diffusion

    @property
    def is_diagonal(self) -> bool:
        """Whether the noise of the equation is diagonal."""
        return is_diagonal(self.sde)

    def correlation(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
        """Correlation of the noise at each location."""
        inside = self._inside(x)
        rho = np.tile(np.eye(self.dim), (len(x), 1, 1))
        if self.is_diagonal:
            return rho
        i, j = np.triu_indices(self.dim, 1)
        rows = np.flatnonzero(inside)[:, None]
        rho[rows, i, j] = _interpolate(self.values, self.low, self.high, x[inside])[:, 2 * self.dim :]
        rho[rows, j, i] = rho[rows, i, j]
        rho[inside] = nearest_correlation(rho[inside])
        rho[~inside] = correlation(self.sde, x[~inside])
        return rho

    def simulate(
        self,
        x0: Float[Array, " dim"] | Float[Array, "paths dim"],
        times: Float[Array, " times"] | Float[Array, "_ times"] | Sequence[Float[Array, " _"]] | Sequence[float],
        num_paths: int | None = None,
        *,
        substeps: int = 1,
        dt: float | None = None,
        seed: int = 0,
    ) -> Paths:
        """Simulate by Euler-Maruyama, as `Result.simulate`. Steps of paths outside the box are slow."""
        return simulate(self, to_starts(x0, self.dim, num_paths), times, substeps=substeps, dt=dt, seed=seed)

    def march(
        self,
        x: Float64[Array, "paths dim"],
        length: Float64[Array, "paths steps"],
        noise: Float64[Array, "paths steps dim"],
        half: float = 0.0,
    ) -> tuple[Float64[Array, "paths steps dim"], Int[Array, " paths"]] | None:
        """Compiled steps of paths for `simulate`: states, and how many steps each path has taken inside the table.

        The drift is asked at x + half f(x). None for correlated noise.
        """
        if not self.is_diagonal:
            return None
        nodes = self.values.reshape(self.num_nodes, -1)
        return march(nodes, np.array(self.values.shape[:-1]), self.low, self.high, half, x, length, noise)

    def _split(
        self, outputs: Float64[Array, "queries outputs"]
    ) -> tuple[Float64[Array, "queries dim"], Float64[Array, "queries dim"]]:
        # A cubic may dip below zero next to a steep rise; sqrt(g) does not, so this only makes errors smaller.
        return outputs[:, : self.dim], np.maximum(outputs[:, self.dim : 2 * self.dim], 0.0)

    def _inside(self, x: Float[Array, "queries dim"]) -> Bool[Array, " queries"]:
        return np.all((x >= self.low) & (x <= self.high), axis=1)


def tabulate(
    sde: SDE,
    low: Float[Array, " dim"],
    high: Float[Array, " dim"],
    tolerance: float = 1e-3,
    max_nodes: int = MAX_NODES,
) -> TabulatedSDE:
    """Tabulate drift and diffusion over a box until max abs(u - v) <= tolerance s for each of their components.

    u is a component at the nodes that halving the steps added, v is what the table before predicts there and s is the
    root mean square of the component over the box.

    Args:
        sde: Any equation in up to three dimensions.
        low, high: Corners of the box.
        tolerance: Largest error of interpolation, as a share of the size of each component of the fields.
        max_nodes: Stop refining before the table has more nodes; a warning says what was reached.
    """
    low, high = np.array(low, np.float64), np.array(high, np.float64)
    _check(sde.dim, low, high, tolerance, max_nodes)
    first = nodes_per_axis(sde.dim, _FIRST_BUDGET, _FIRST)
    values = _ask(sde, regular_grid(low, high, first)).reshape(*(first,) * sde.dim, -1)
    share = np.inf
    while share > tolerance and (2 * len(values) - 1) ** sde.dim <= max_nodes:
        values, error = _refine(sde, low, high, values)
        scale = _scale(values, high - low)
        share = float(np.max(np.divide(error, scale, out=np.zeros_like(error), where=scale > 0)))
    dim = sde.dim
    of_correlation = float(error[2 * dim :].max(initial=0.0))
    table = TabulatedSDE(sde, low, high, values, share, error[:dim], error[dim : 2 * dim], of_correlation)
    if share > tolerance:
        warnings.warn(
            f"a table of {table.num_nodes} nodes has errors of {share:.2g} of the size of the field, more than the "
            f"tolerance {tolerance:g}. Raise max_nodes ({max_nodes}), or choose a smaller box.",
            DataWarning,
            stacklevel=2,
        )
    return table


def table_around(sde: SDE, observations: Observations) -> tuple[SDE, float]:
    """The equation from a table around data, where long simulations are cheap, and the error of the table.

    The equation itself in more than three dimensions, and where its fields are not finite.
    """
    if sde.dim > _MOST_DIMS:
        return sde, 0.0
    low, high = observations.box(0.25)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)  # the error is part of the answer
            table = tabulate(sde, low, high, _AROUND_ERROR, min(_AROUND, _AROUND_AXIS**sde.dim))
    except InvalidObservationsError:  # fields that are not finite somewhere in the box cannot be interpolated
        return sde, 0.0
    return table, table.error_bound


def _check(dim: int, low: Float64[Array, "..."], high: Float64[Array, "..."], tolerance: float, max_nodes: int) -> None:
    if dim > _MOST_DIMS:
        raise InvalidObservationsError(
            f"the equation has {dim} dimensions; tables are for up to three. Simulate the equation itself."
        )
    if low.shape != (dim,) or high.shape != (dim,) or not np.all(np.isfinite(high - low) & (low < high)):
        raise ConfigError(f"the box reaches from {low} to {high}; expected {dim} finite number(s) each, low < high.")
    if not tolerance > 0:
        raise ConfigError(f"tolerance is {tolerance}; expected a positive share of the size of the field.")
    fewest = (2 * nodes_per_axis(dim, _FIRST_BUDGET, _FIRST) - 1) ** dim
    if max_nodes < fewest:
        raise ConfigError(f"max_nodes is {max_nodes}; expected at least {fewest}.")


def _ask(sde: SDE, x: Float64[Array, "queries dim"]) -> Float64[Array, "queries outputs"]:
    values = np.concatenate(fields(sde, x), axis=1)
    if not is_diagonal(sde):
        i, j = np.triu_indices(sde.dim, 1)
        values = np.concatenate([values, correlation(sde, x)[:, i, j]], axis=1)
    bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
    if len(bad):
        raise InvalidObservationsError(
            f"the fields are not finite at {x[bad[0]]} (and {len(bad) - 1} more nodes). Choose a box where they are."
        )
    return values


def _refine(
    sde: SDE, low: Float64[Array, " dim"], high: Float64[Array, " dim"], coarse: NodeValues
) -> tuple[NodeValues, Float64[Array, " outputs"]]:
    """The table with half the steps, and how far the coarse one was off at the nodes that are new."""
    num, dim = 2 * len(coarse) - 1, len(low)
    is_new = np.ones((num,) * dim, bool)
    is_new[(slice(None, None, 2),) * dim] = False
    x = regular_grid(low, high, num)[is_new.ravel()]
    fine = np.empty((*is_new.shape, coarse.shape[-1]))
    fine[~is_new] = coarse.reshape(-1, coarse.shape[-1])
    fine[is_new] = _ask(sde, x)
    return fine, np.abs(fine[is_new] - _interpolate(coarse, low, high, x)).max(axis=0)


def _scale(values: NodeValues, width: Float64[Array, " dim"]) -> Float64[Array, " outputs"]:
    """sqrt(mean u²) over the nodes: the size of each component u of the fields.

    Components that all but vanish are measured against the largest one, with lengths in units of the box. The size of
    a correlation is 1.
    """
    dim, num_outputs = len(width), values.shape[-1]
    of_box = values.reshape(-1, num_outputs)[:, : 2 * dim].reshape(-1, 2, dim) / width
    size = np.sqrt(np.mean(of_box**2, axis=0))  # (2, dim): drift, diffusion
    scale = (np.maximum(size, _SMALLEST_SCALE * size.max(axis=1, keepdims=True)) * width).ravel()
    return np.concatenate([scale, np.ones(num_outputs - 2 * dim)])


def _interpolate(
    values: NodeValues, low: Float64[Array, " dim"], high: Float64[Array, " dim"], x: Float[Array, "queries dim"]
) -> Float64[Array, "queries outputs"]:
    step = (high - low) / (len(values) - 1)
    interpolate = (interpolate_1d, interpolate_2d, interpolate_3d)[len(low) - 1]
    return interpolate(values, low, step, x)
