"""The estimate as an estimator of scikit-learn: a path in, one step ahead out, scored by the likelihood of paths.

`fit` takes states in the order of time, as a density estimator takes points: there is no target, and `y` is ignored.
Cross-validation must keep the order of the rows, e.g. `TimeSeriesSplit`.
"""

from typing import Any

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.errors import ConfigError
from fimsde.results.make import estimate
from fimsde.shapes import Array, Float64

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ConfigError(
        "fimsde.sklearn needs scikit-learn 1.6 or newer. Install the extra: pip install 'fimsde[sklearn]'."
    ) from error


_STEPS = 4  # from one row to the next; by hand: a linear drift is met to 3e-5 over a whole relaxation time


class SDERegressor(BaseEstimator):
    """dx = f(x) dt + diag(sqrt(g(x))) dW, estimated from the rows of X as one path.

    Args:
        dt: Time between rows.
        weights: Folder of a recognition model; None for evidence, without one.

    Attributes:
        result_: The `Result`, with everything that it can do.
        n_features_in_: State dimension.
        feature_names_in_: Names of the components, if X was a DataFrame.
    """

    def __init__(self, dt: float = 1.0, weights: str | None = None) -> None:
        self.dt = dt
        self.weights = weights

    def fit(self, X: Any, y: Any = None) -> "SDERegressor":
        """Estimate the equation.

        Args:
            X: States (times, dim) in the order of time, `dt` apart.
            y: Ignored.
        """
        states = validate_data(self, X, dtype=np.float64, ensure_min_samples=3)
        self.result_ = estimate(self._path(states), self.weights)
        return self

    def predict(self, X: Any) -> Float64[Array, "rows dim"]:
        """The next state after each row, `dt` later, along dx = f(x) dt: its mean, up to the curvature of the drift."""
        check_is_fitted(self)
        states = validate_data(self, X, dtype=np.float64, reset=False)
        step = self.dt / _STEPS
        for _ in range(_STEPS):  # Runge and Kutta's method
            first = self._drift(states)
            second = self._drift(states + step / 2 * first)
            third = self._drift(states + step / 2 * second)
            last = self._drift(states + step * third)
            states = states + step / 6 * (first + 2 * second + 2 * third + last)
        return states

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of a path per step and component, by a filter that knows the measurement noise.

        The number of `Result.score`.

        Args:
            X: States in the order of time, as for `fit`.
            y: Ignored.
        """
        check_is_fitted(self)
        states = validate_data(self, X, dtype=np.float64, reset=False, ensure_min_samples=3)
        return self.result_.score(self._path(states))

    def _drift(self, states: Float64[Array, "rows dim"]) -> Float64[Array, "rows dim"]:
        return self.result_.fields(states)[0]  # which does not warn outside the data

    def _path(self, states: Float64[Array, "rows dim"]) -> Observations:
        names = getattr(self, "feature_names_in_", None)  # of a DataFrame
        return read(states, dt=self.dt, names=None if names is None else [str(name) for name in names])
