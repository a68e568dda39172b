"""Libraries of functions of the state, and equations that are linear combinations of them.

A `Term` is wrap(factor * x^powers): x², xy, sin x, cos 2x, exp(xy). Terms are data, not code, so that fitted equations
can be compared, printed and sent to another process.
"""

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Literal

import numpy as np

from fimsde.errors import InvalidObservationsError
from fimsde.shapes import Array, Float, Float64

Wrap = Literal["", "sin", "cos", "exp"]
_FUNCTIONS = {"": np.positive, "sin": np.sin, "cos": np.cos, "exp": np.exp}


@dataclass(frozen=True)
class Term:
    """wrap(factor * x1^powers[0] * x2^powers[1] * ...)."""

    powers: tuple[int, ...]
    wrap: Wrap = ""
    factor: float = 1.0

    def __call__(self, x: Float64[Array, "queries dim"]) -> Float64[Array, " queries"]:
        product = np.full(len(x), self.factor)
        with np.errstate(
            over="ignore", invalid="ignore"
        ):  # far outside the data a value may be inf: the caller's business
            for column, power in zip(x.T, self.powers, strict=True):
                if power:
                    product = product * column**power
            return _FUNCTIONS[self.wrap](product)

    def name(self, variables: tuple[str, ...]) -> str:
        """How the term reads, e.g. "x1^2 x2" or "sin(2 x1)"."""
        parts = [f"{v}^{p}" if p > 1 else v for v, p in zip(variables, self.powers, strict=True) if p]
        inside = " ".join(([f"{self.factor:g}"] if self.factor != 1 or not parts else []) + parts)
        return f"{self.wrap}({inside})" if self.wrap else inside


Library = tuple[Term, ...]


def monomials(dim: int, degree: int) -> Library:
    """All monomials up to a total degree, constant first."""
    chosen = [c for d in range(degree + 1) for c in combinations_with_replacement(range(dim), d)]
    return tuple(Term(tuple(c.count(j) for j in range(dim))) for c in chosen)


def paper_library(dim: int) -> Library:
    """The functions that BISDE was given in the FIM-SDE paper: 6 in one dimension, 16 in two.

    Cubic polynomials, sines and exponentials of each component; in two dimensions also exp(xy) and sin(xy). The paper
    stops there; from three dimensions on we leave the products out: they are many, and exp of them overflows.
    """
    units = [tuple(int(i == j) for i in range(dim)) for j in range(dim)]
    library = monomials(dim, 3) + tuple(Term(u, w) for w in ("sin", "exp") for u in units)
    return library + ((Term((1, 1), "exp"), Term((1, 1), "sin")) if dim == 2 else ())


def evaluate(library: Library, x: Float64[Array, "queries dim"]) -> Float64[Array, "queries terms"]:
    """One column per term."""
    return np.stack([term(x) for term in library], axis=1)


def design_matrix(library: Library, y: Float64[Array, "n dim"], names: tuple[str, ...]) -> Float64[Array, "n terms"]:
    """The library at the data, refused if a term does not fit the data."""
    for term in library:
        if len(term.powers) != y.shape[1]:
            raise InvalidObservationsError(
                f"the library has a term of {len(term.powers)} variables, the data have {y.shape[1]} components. "
                f"Pass a library of that dimension."
            )
    phi = evaluate(library, y)
    bad = np.argwhere(~np.isfinite(phi))
    if len(bad):
        row, column = bad[0]
        raise InvalidObservationsError(
            f"the library term {library[column].name(names)} is {phi[row, column]} at the state {y[row]}. "
            f"Rescale the data, or pass a library without it."
        )
    return phi


@dataclass(frozen=True)
class LibraryField:
    """A vector field that is linear in the library: component j at x is sum_i coefficients[i, j] * library[i](x).

    Attributes:
        library: The terms.
        coefficients: One column per component; exact zeros mark absent terms.
        standard_errors: Of the coefficients; zero where a term is absent.
    """

    library: Library
    coefficients: Float64[Array, "terms dim"]
    standard_errors: Float64[Array, "terms dim"]

    def __call__(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        phi = evaluate(self.library, np.asarray(x, np.float64))
        values = np.empty((len(x), self.coefficients.shape[1]))
        for j, w in enumerate(self.coefficients.T):
            present = w != 0  # an absent exp(x) must not turn into 0 * inf
            values[:, j] = phi[:, present] @ w[present]
        return values

    def support(self, variables: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        """Names of the terms present, for every component."""
        names = [term.name(variables) for term in self.library]
        return tuple(tuple(n for n, w in zip(names, column, strict=True) if w) for column in self.coefficients.T)

    def expression(self, component: int, variables: tuple[str, ...]) -> str:
        """One component as a formula, four decimals as in the paper."""
        text = ""
        for term, w in zip(self.library, self.coefficients[:, component], strict=True):
            if w:
                name = "" if term == Term((0,) * len(variables)) else f" {term.name(variables)}"
                sign = ("-" if w < 0 else "") if not text else (" - " if w < 0 else " + ")
                text += f"{sign}{abs(w):.4f}{name}"
        return text or "0"


def square_root(diffusion_sq: Float64[Array, "queries dim"], clip: bool) -> Float64[Array, "queries dim"]:
    """sqrt(g); where an estimate of g is negative, 0 if `clip`, else NaN."""
    return np.sqrt(np.maximum(diffusion_sq, 0.0) if clip else np.where(diffusion_sq < 0, np.nan, diffusion_sq))


@dataclass(frozen=True)
class LibrarySDE:
    """A fitted equation whose drift f and variance rate g are linear in a library.

    Attributes:
        drift_field: f, with coefficients and standard errors.
        diffusion_sq_field: g, not its root. Nothing keeps it positive.
        clip: Whether a negative g counts as 0; otherwise the diffusion is NaN there.
        names: Names of the state components.
    """

    drift_field: LibraryField
    diffusion_sq_field: LibraryField
    clip: bool
    names: tuple[str, ...]

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.names)

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f, state per time."""
        return self.drift_field(x)

    def diffusion_sq(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Variance rate g as fitted, also where it is negative."""
        return self.diffusion_sq_field(x)

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """sqrt(g), state per square root of time; see `clip` for negative g."""
        return square_root(self.diffusion_sq(x), self.clip)

    def __str__(self) -> str:
        f, g = self.drift_field, self.diffusion_sq_field
        return "\n".join(
            f"d{name} = ({f.expression(j, self.names)}) dt + sqrt({g.expression(j, self.names)}) dW{j + 1}"
            for j, name in enumerate(self.names)
        )
