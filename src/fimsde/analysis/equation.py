"""Equation: a formula with sparse polynomials for drift, variance rate and correlation; an equation itself."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fimsde.analysis import formula, remarks
from fimsde.analysis.polynomials import Polynomials
from fimsde.equations.sde import nearest_correlation
from fimsde.shapes import Array, Float, Float64

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


@dataclass(frozen=True, eq=False)
class Equation:
    """dx_i = f_i dt + sqrt(g_ii) dW_i with dW_i dW_j = rho_ij dt, in sparse polynomials; can be simulated itself.

    Attributes:
        names: Names of the components, as the user gave them.
        symbols: Identifiers that stand for them in Python and SymPy, one each; the name itself if it is one.
        origin: The polynomials are in x - origin; zero unless the data are far from it.
        drift_terms: Polynomials of the drift f, state per time.
        diffusion_sq_terms: Polynomials of the variance rates g_ii, squared state per time.
        correlation_terms: Polynomials of the correlations rho_ij of components (0, 1), (0, 2), ..., (1, 2), ...; None
            for diagonal noise.
    """

    names: tuple[str, ...]
    symbols: tuple[str, ...]
    origin: Float64[Array, " dim"]
    drift_terms: Polynomials
    diffusion_sq_terms: Polynomials
    correlation_terms: Polynomials | None = None

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.names)

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f, state per time."""
        return self.drift_terms(np.asarray(x, np.float64) - self.origin)

    def diffusion_sq(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Variance rate g, squared state per time; 0 where the polynomial is negative."""
        return np.maximum(self.diffusion_sq_terms(np.asarray(x, np.float64) - self.origin), 0.0)

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Diffusion sqrt(g), state per square root of time."""
        return np.sqrt(self.diffusion_sq(x))

    @property
    def is_diagonal(self) -> bool:
        """Whether the formula has no correlation."""
        return self.correlation_terms is None or not self.correlation_terms.coefficients.any()

    def correlation(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim dim"]:
        """Correlation of the noise; where the polynomials make no correlation matrix, the nearest one."""
        rho = np.tile(np.eye(self.dim), (len(x), 1, 1))
        if self.correlation_terms is None:
            return rho
        i, j = np.triu_indices(self.dim, 1)
        rho[:, i, j] = rho[:, j, i] = self.correlation_terms(np.asarray(x, np.float64) - self.origin)
        return nearest_correlation(rho)

    def __str__(self) -> str:
        return "\n".join([formula.text(self), *self.remarks()])

    def remarks(self) -> tuple[str, ...]:
        """Sentences on what the formula leaves out: components without drift, and terms that may or may not be there.

        Empty without data.
        """
        return remarks.little_drift(self) + remarks.open_terms(self)

    def latex(self, digits: int | None = None) -> str:
        """The equations as a LaTeX `aligned` block, to be put between dollar signs or into an equation environment.

        Args:
            digits: Of each coefficient; by default three, and more where fewer would change the formula.
        """
        return formula.latex(self, digits)

    def sympy(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Drift and variance rate of each component as SymPy expressions in `symbols`."""
        return formula.sympy_expressions(self)

    def sympy_correlation(self) -> dict[tuple[int, int], Any]:
        """Correlation of the noise of each pair of components as a SymPy expression; empty for diagonal noise."""
        return formula.sympy_correlation(self)

    def code(self) -> str:
        """Python source of `drift(x)`, `diffusion(x)` and, if there is one, `correlation(x)`: needs NumPy alone."""
        return formula.code(self)

    def to_pandas(self) -> "pd.DataFrame":
        """A row per term that was kept: field, component, term, coefficient and its standard error.

        Fields are drift, g and, of pairs of components, correlation.
        With a posterior also the ends of its interval (low, high) and the probability of the term.
        """
        import pandas as pd  # takes a while to import

        factors, rows = formula.text_factors(self), []
        columns = ["field", "component", "term", "coefficient", "standard_error"]
        more = ["low", "high", "probability"] if self.drift_terms.intervals is not None else []
        for field, polynomials in (("drift", self.drift_terms), ("g", self.diffusion_sq_terms)):
            for j, k in np.argwhere(polynomials.coefficients != 0).tolist():
                term = formula.monomial(polynomials.exponents[k].tolist(), factors) or "1"
                numbers = float(polynomials.coefficients[j, k]), float(polynomials.standard_errors[j, k])
                rows.append((field, self.names[j], term, *numbers, *_posterior(polynomials, j, k)))
        for row, (i, j) in formula.pairs(self):
            rho = self.correlation_terms
            assert rho is not None, "there are pairs"
            for k in np.flatnonzero(rho.coefficients[row]).tolist():
                term = formula.monomial(rho.exponents[k].tolist(), factors) or "1"
                numbers = float(rho.coefficients[row, k]), float(rho.standard_errors[row, k])
                ends = _posterior(rho, row, k) or (float("nan"),) * len(more)
                rows.append(("correlation", f"{self.names[i]}, {self.names[j]}", term, *numbers, *ends))
        return pd.DataFrame(rows, columns=[*columns, *more])

    def to_xarray(self) -> "xr.Dataset":
        """The same as a data set over `row`. Needs xarray."""
        return self.to_pandas().rename_axis("row").to_xarray()


def _posterior(polynomials: Polynomials, component: int, term: int) -> tuple[float, ...]:
    """Ends of the interval of a coefficient, and the probability of its term; empty without a posterior."""
    if polynomials.intervals is None:
        return ()
    shares = polynomials.probabilities
    chance = float("nan") if shares is None else float(shares[component, term])
    return (*(float(end) for end in polynomials.intervals[:, component, term]), chance)
