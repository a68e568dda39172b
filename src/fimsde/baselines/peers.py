"""Optional peers: packages of others that a user may have, and how we say that one is missing."""

from importlib import import_module
from types import ModuleType

from fimsde.errors import ConfigError


def import_peer(module: str, package: str) -> ModuleType:
    """The module of a peer, or an error that says how to install the package it belongs to."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{package} cannot be imported ({error}); it is an optional method of the benchmark. "
            "Install it with: pip install 'fimsde[peers]'."
        ) from error
