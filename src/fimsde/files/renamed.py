"""Settings under their old names: understood in files for good, and in code for a while, with a warning."""

import warnings
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, TypeVar

from fimsde.errors import ConfigError

T = TypeVar("T")
RENAMED = {"proof": "min_z"}  # settings of finetuning: the name in files of versions before 0.2, and that of today


def renamed(version: str) -> Callable[[type[T]], type[T]]:
    """A decorator of dataclasses: arguments and attributes under old names are understood until a version."""

    def decorate(kind: type[T]) -> type[T]:
        init: Callable[..., None] = kind.__init__

        @wraps(init)
        def with_old_names(self: T, *values: Any, **settings: Any) -> None:
            for old in RENAMED.keys() & settings:
                _warn(kind, old, version)
            init(self, *values, **new_names(settings))

        kind.__init__ = with_old_names  # type: ignore[method-assign, assignment]
        for old in RENAMED:
            setattr(kind, old, _reader(kind, old, version))
        return kind

    return decorate


def new_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings with the names of today."""
    for old, new in RENAMED.items():
        if old in settings and new in settings:
            raise ConfigError(f"{old} is the old name of {new}, and both are given; expected one. Leave {old} out.")
    return {RENAMED.get(name, name): value for name, value in settings.items()}


def _reader(kind: type, old: str, version: str) -> property:
    def read(self: Any) -> Any:
        _warn(kind, old, version)
        return getattr(self, RENAMED[old])

    return property(read, doc=f"The old name of `{RENAMED[old]}`, until version {version}.")


def _warn(kind: type, old: str, version: str) -> None:
    warnings.warn(
        f"{kind.__name__}.{old} is called {RENAMED[old]} now; the old name goes with fimsde {version}.",
        DeprecationWarning,
        stacklevel=3,
    )
