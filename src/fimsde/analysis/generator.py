"""The equation as jumps between the cells of a grid, in one and two dimensions.

The flux of probability p along an axis is a p - D p', with D = g / 2 and a = f - g'/2 (Ito). Between two cells it is
taken as constant and the ordinary equation is solved exactly (Scharfetter and Gummel): the rates to both sides are
D B(-a h / D) / h² and D B(a h / D) / h² with B(z) = z / (exp z - 1). They are positive for any step h, so densities
stay positive and mass is conserved; without noise the scheme is upwind. The same rates serve the density (forward
equation) and mean times (backward equation). The error falls as h². Correlated noise: `fimsde.analysis.oblique`.
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from fimsde.analysis.box import finite_fields
from fimsde.analysis.cells import BoxCells, bernoulli
from fimsde.analysis.oblique import oblique_jumps
from fimsde.equations.sde import SDE, is_diagonal
from fimsde.errors import InvalidObservationsError
from fimsde.shapes import Array, Float64

# of the largest g: keeps D positive where the noise vanishes; by hand: 3e-5 of its root, less than grids show
_LEAST_NOISE = 1e-9


@dataclass(frozen=True, eq=False)
class Generator:
    """Rates of the jumps, per unit of time.

    Attributes:
        cells: The grid.
        rates: Entry (i, j): rate from cell i to cell j; rows sum to minus `exits`.
        exits: Rate out of the box from each cell, through walls that let paths out.
    """

    cells: BoxCells
    rates: sparse.csc_matrix
    exits: Float64[Array, " cells"]


def make_generator(
    sde: SDE, cells: BoxCells, open_low: Array | None = None, open_high: Array | None = None
) -> Generator:
    """The rates of all jumps; walls are reflecting unless they are open.

    Args:
        sde: The equation.
        cells: The grid.
        open_low, open_high: For each axis, whether paths leave through the lower and the upper wall.
    """
    closed = np.zeros(cells.dim, bool)
    open_low, open_high = (closed if o is None else o for o in (open_low, open_high))
    if not is_diagonal(sde):
        jumps, exits = oblique_jumps(sde, cells, open_low, open_high)
    else:
        jumps, exits = _straight_jumps(sde, cells, open_low, open_high)
    leaving = np.asarray(jumps.sum(axis=1)).ravel() + exits
    return Generator(cells, (jumps - sparse.diags(leaving)).tocsc(), exits)


def _straight_jumps(
    sde: SDE, cells: BoxCells, open_low: Array, open_high: Array
) -> tuple[sparse.coo_matrix, Float64[Array, " cells"]]:
    """Rates of the jumps to neighbours along the axes, and of those out of the box: for diagonal noise."""
    shape = (cells.num,) * cells.dim
    number = np.arange(cells.num**cells.dim).reshape(shape)
    exits = np.zeros(shape)
    rows, columns, values = [], [], []
    for axis in range(cells.dim):
        ahead, back = _face_rates(sde, cells, axis)  # (faces..., others...) with `axis` first
        lower, upper = (np.moveaxis(number, axis, 0)[part] for part in (slice(None, -1), slice(1, None)))
        rows += [lower.ravel(), upper.ravel()]
        columns += [upper.ravel(), lower.ravel()]
        values += [ahead[1:-1].ravel(), back[1:-1].ravel()]
        out = np.moveaxis(exits, axis, 0)  # a view
        if open_low[axis]:
            out[0] += back[0]
        if open_high[axis]:
            out[-1] += ahead[-1]
    size = number.size
    jumps = sparse.coo_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), (size, size))
    return jumps, exits.ravel()


def factorise(matrix: sparse.csc_matrix) -> SuperLU:
    """Factors of an M-matrix without pivoting: no entry is ever the difference of two positive numbers."""
    apart = InvalidObservationsError(
        "parts of the box exchange no paths at all: neither noise nor drift leads from one to the other. "
        "Choose a box around one of them."
    )
    if not (matrix.diagonal() > 0).all():  # a cell that no path ever leaves; the library would crash
        raise apart
    try:
        return splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    except RuntimeError:  # exactly singular
        raise apart from None


def _face_rates(sde: SDE, cells: BoxCells, axis: int) -> tuple[Float64[Array, "..."], Float64[Array, "..."]]:
    """Rates ahead and back across all faces normal to an axis, walls included: that axis first, num + 1 faces.

    From a wall the centre of a cell is half a step away.
    """
    num, h = cells.num, cells.width[axis]
    points = [np.concatenate([[lo], c, [hi]]) if j == axis else c for j, (lo, c, hi) in enumerate(_ends(cells))]
    grids = np.meshgrid(*points, indexing="ij")
    shape = grids[0].shape
    drift, diffusion = finite_fields(sde, np.stack([g.ravel() for g in grids], axis=1))
    f, g = (np.moveaxis(v[:, axis].reshape(shape), axis, 0) for v in (drift, diffusion**2))  # (num + 2, ...)
    gaps = np.full((num + 1,) + (1,) * (f.ndim - 1), h)
    gaps[[0, -1]] = h / 2
    spread = np.maximum((g[1:] + g[:-1]) / 4, _LEAST_NOISE * g.max() / 2)  # D at the faces
    if not g.max() > 0:
        spread = np.full_like(spread, _LEAST_NOISE * np.abs(f).max() * h)
    pull = (f[1:] + f[:-1]) / 2 - np.diff(g, axis=0) / gaps / 2
    z = pull * gaps / spread
    return spread / (h * gaps) * bernoulli(-z), spread / (h * gaps) * bernoulli(z)


def _ends(cells: BoxCells) -> list[tuple[float, Float64[Array, " cells"], float]]:
    return list(zip(cells.low.tolist(), cells.axes, cells.high.tolist(), strict=True))
