"""A method that is quick to fit, for tests of what results can do."""

import numpy as np

import fimsde
from problems import OrnsteinUhlenbeck


def fit(observations, seed):
    """Slope and noise of a linear equation by least squares: a method that is quick to fit again."""
    a, b = observations.values[:-1], observations.values[1:]
    dt = float(np.median(np.diff(observations.times)))
    theta = -np.sum(a * (b - a)) / np.sum(a * a) / dt
    return OrnsteinUhlenbeck(theta, float(np.std(b - a) / dt**0.5), observations.dim)


def linear(dim, names=None, time_unit=None, num_points=400, refit=fit):
    """A linear equation fitted to its own data."""
    times = np.arange(num_points) * 0.1
    values = fimsde.simulate(OrnsteinUhlenbeck(dim=dim), np.zeros((1, dim)), times, substeps=2, seed=3).values[0]
    observations = fimsde.read(values, times=times, names=names, time_unit=time_unit)
    return fimsde.result(fit(observations, 0), observations, refit=refit, method="least squares")
