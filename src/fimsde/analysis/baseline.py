"""The methods of the benchmark as results: fitted by name, so that bands and `load` can fit them again."""

from fimsde.analysis.fitted import FittedSDE
from fimsde.benchmark.methods import Method, named
from fimsde.errors import ConfigError
from fimsde.observations import Observations


def find_method(name: str) -> Method:
    """A method that gives drift and diffusion, by name."""
    method = named([name])[0]
    if not isinstance(method, Method):
        raise ConfigError(f"{name} samples paths and gives neither drift nor diffusion. Choose another method.")
    return method


def fit(observations: Observations, method: str, *, seed: int = 0) -> FittedSDE:
    """Estimate the equation behind the observations by one of the baselines.

    Args:
        observations: What `fimsde.read` returns.
        method: For instance "kramers-moyal", "bisde-scaled" or "sparsegp-improved"; `fimsde.benchmark.methods.NAMES`
            has all of them.
        seed: Of methods that draw random numbers.
    """
    found = find_method(method)
    sde = found.fit(observations, seed)
    return FittedSDE(
        observations.names, observations.time_unit, observations, found.title, sde, found.fit, recipe=(method, seed)
    )
