"""Drawn functions at any location, also beyond the nodes of the grid that they were drawn on."""

from dataclasses import dataclass

import numpy as np

from fimsde.evidence.basis import Basis
from fimsde.evidence.beyond_kernels import add_beyond
from fimsde.evidence.draws import CoefficientDraws
from fimsde.shapes import Array, Float64

_WAVES = 32  # of a random function beyond the nodes; by hand: values are then nearly normal
_INSIDE = 1e-9  # by which B-splines may miss their sum, one, inside the grid


@dataclass(frozen=True, eq=False)
class FieldDraws:
    """Functions f_i(x) = sum_k b_ik φ_k(x), and beyond the nodes of the grid a random process for what is not known.

    There B-splines end. A process of length l and size s that is h at the nearest node has the mean square
    k² h² + (1 - k²) s² at a distance d from it, with k = exp(-d² / 2 l²): what the splines leave of it, 1 - (sum φ)²,
    is added as a random function of that mean square. So functions spread the more the farther data are away.

    Attributes:
        basis: Of the coefficients.
        drawn: Coefficients, sizes and lengths.
        waves, phases: Of the random functions, cos(w' x / length + phase).
    """

    basis: Basis
    drawn: CoefficientDraws
    waves: Float64[Array, "draws dim waves axes"]
    phases: Float64[Array, "draws dim waves"]

    @staticmethod
    def make(basis: Basis, drawn: CoefficientDraws, stream: tuple[int, ...]) -> "FieldDraws":
        """With random functions of their own for every draw and component."""
        num, _, dim = drawn.coefficients.shape
        waves = np.random.default_rng([*stream, 0]).standard_normal((num, dim, _WAVES, dim))
        phases = np.random.default_rng([*stream, 1]).uniform(0.0, 2.0 * np.pi, (num, dim, _WAVES))
        return FieldDraws(basis, drawn, waves, phases)

    def __len__(self) -> int:
        return len(self.drawn.coefficients)

    def at(self, x: Float64[Array, "queries dim"]) -> Float64[Array, "draws queries dim"]:
        """All functions at the same locations."""
        features = self.basis.features(x)
        num, size, dim = self.drawn.coefficients.shape
        flat = features @ np.moveaxis(self.drawn.coefficients, 0, 1).reshape(size, num * dim)
        values = np.moveaxis(flat.reshape(len(x), num, dim), 0, 1)
        same = (np.broadcast_to(part, (num, *part.shape)) for part in (x, features))
        return values + self._beyond(*same)

    def at_own(self, x: Float64[Array, "draws queries dim"]) -> Float64[Array, "draws queries dim"]:
        """Every function at locations of its own."""
        num, queries, dim = x.shape
        features = self.basis.features(x.reshape(-1, dim)).reshape(num, queries, -1)
        return features @ self.drawn.coefficients + self._beyond(x, features)

    def only(self, i: int) -> "FieldDraws":
        """One of the draws."""
        part = slice(i, i + 1)
        return FieldDraws(self.basis, self.drawn.only(i), self.waves[part], self.phases[part])

    def first(self, x: Float64[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """The first function, compiled: simulations ask for one draw thousands of times."""
        values = self.basis.field(np.ascontiguousarray(self.drawn.coefficients[0]), x)
        if not self.drawn.size[0].any():
            return values
        return values + self._beyond(x[None], self.basis.features(x)[None])[0]

    def _beyond(
        self, x: Float64[Array, "draws queries dim"], features: Float64[Array, "draws queries size"]
    ) -> Float64[Array, "draws queries dim"]:
        """What the process adds where B-splines do not add up to one; zero for polynomials."""
        out = np.zeros(x.shape)
        grid, terms = self.basis.grid, self.basis.num_terms
        is_smooth = (self.drawn.size > 0).any(axis=1)
        if grid is None or not is_smooth.any():
            return out
        known = np.minimum(features[..., terms:].sum(axis=-1), 1.0)
        rows, columns = np.nonzero(np.asarray(known < 1.0 - _INSIDE) & np.asarray(is_smooth)[:, None])
        if not len(rows):
            return out
        places = np.ascontiguousarray(x[rows, columns])
        added = np.zeros(places.shape)
        heights = self.drawn.coefficients[:, terms:]
        add_beyond(
            places, rows, known[rows, columns], grid.places, heights, self.drawn.size, self.drawn.length, self.waves,
            self.phases, added,
        )  # fmt: skip
        out[rows, columns] = added
        return out
