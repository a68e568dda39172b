"""fimsde: the stochastic differential equation behind your time series, zero-shot."""

from fimsde._version import __version__

__all__ = ["__version__"]
