"""Equations whose answers are known in closed form."""

from dataclasses import dataclass

import numpy as np
from scipy import linalg


@dataclass(frozen=True)
class OrnsteinUhlenbeck:
    """dx = -theta x dt + sigma dW, in each of `dim` components."""

    theta: float = 1.5
    sigma: float = 0.7
    dim: int = 1

    def drift(self, x):
        return -self.theta * x

    def diffusion(self, x):
        return np.full_like(x, self.sigma)

    def euler_moments(self, x0, steps):
        """Mean and variance of the Euler chain after steps of the given lengths: exact at any step size."""
        mean, var = x0, 0.0
        for h in steps:
            mean, var = mean * (1 - self.theta * h), var * (1 - self.theta * h) ** 2 + self.sigma**2 * h
        return mean, var

    def stationary_variance(self):
        return self.sigma**2 / (2 * self.theta)


@dataclass(frozen=True)
class GeometricBrownianMotion:
    """dx = mu x dt + sigma x dW."""

    mu: float = 0.3
    sigma: float = 0.5
    dim: int = 1

    def drift(self, x):
        return self.mu * x

    def diffusion(self, x):
        return self.sigma * x

    def exact(self, x0, time, brownian):
        return x0 * np.exp((self.mu - self.sigma**2 / 2) * time + self.sigma * brownian)


@dataclass(frozen=True)
class CorrelatedOrnsteinUhlenbeck:
    """dx = -A x dt + diag(sigma) dB with Brownian motions B of correlation rho: any number of components."""

    pull: np.ndarray
    sigma: np.ndarray
    rho: np.ndarray

    @property
    def dim(self):
        return len(self.sigma)

    @property
    def covariance_rate(self):
        return np.outer(self.sigma, self.sigma) * self.rho

    def drift(self, x):
        return -x @ self.pull.T

    def diffusion(self, x):
        return np.tile(self.sigma, (len(x), 1))

    def correlation(self, x):
        return np.tile(self.rho, (len(x), 1, 1))

    def euler_moments(self, x0, steps):
        """Mean and covariance of the Euler chain: exact at any step size."""
        mean, covariance = x0, np.zeros((self.dim, self.dim))
        for h in steps:
            ahead = np.eye(self.dim) - h * self.pull
            mean, covariance = ahead @ mean, ahead @ covariance @ ahead.T + h * self.covariance_rate
        return mean, covariance

    def stationary_covariance(self):
        """A C + C A' = g (Lyapunov)."""
        return linalg.solve_continuous_lyapunov(self.pull, self.covariance_rate)


@dataclass(frozen=True)
class CorrelatedGeometricBrownianMotion:
    """dx_i = mu_i x_i dt + sigma_i x_i dB_i with Brownian motions of correlation rho."""

    mu: np.ndarray
    sigma: np.ndarray
    rho: np.ndarray

    @property
    def dim(self):
        return len(self.sigma)

    def drift(self, x):
        return self.mu * x

    def diffusion(self, x):
        return self.sigma * x

    def correlation(self, x):
        return np.tile(self.rho, (len(x), 1, 1))
