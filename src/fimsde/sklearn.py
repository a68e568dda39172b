"""The estimate as an estimator of scikit-learn: a path in, one step ahead out, scored by the likelihood of the steps.

`fit` takes states in the order of time, as a density estimator takes points: there is no target, and `y` is ignored.
Cross-validation must keep the order of the rows, e.g. `TimeSeriesSplit`.
"""

from typing import Any

import numpy as np

from fimsde.data.observations import Observations, read
from fimsde.errors import ConfigError
from fimsde.metrics.likelihood import transition_likelihood
from fimsde.results.make import estimate
from fimsde.shapes import Array, Float64

try:
    from sklearn.base import BaseEstimator
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError as error:
    raise ConfigError(
        "fimsde.sklearn needs scikit-learn 1.6 or newer. Install the extra: pip install 'fimsde[sklearn]'."
    ) from error


class SDERegressor(BaseEstimator):
    """dx = f(x) dt + diag(sqrt(g(x))) dW, estimated zero-shot from the rows of X as one path.

    Args:
        dt: Time between rows.
        weights: Folder of a recognition model; None for evidence, without one.

    Attributes:
        result_: The `Result`, with everything that it can do.
        n_features_in_: State dimension.
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
        """x + f(x) dt: the mean of the next state after each row, one Euler step ahead."""
        check_is_fitted(self)
        states = validate_data(self, X, dtype=np.float64, reset=False)
        return states + self.dt * self.result_.fields(states)[0]

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-likelihood of the steps of a path per component, given the state before each.

        Args:
            X: States in the order of time, as for `fit`.
            y: Ignored.
        """
        check_is_fitted(self)
        states = validate_data(self, X, dtype=np.float64, reset=False, ensure_min_samples=3)
        return transition_likelihood(self.result_.sde, self._path(states)).mean

    def _path(self, states: Float64[Array, "rows dim"]) -> Observations:
        return read(states, dt=self.dt)
