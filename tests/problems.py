"""Equations whose answers are known in closed form."""

from dataclasses import dataclass

import numpy as np


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
