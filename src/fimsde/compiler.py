"""numba's compiler, which keeps what it compiles on disk where it can, and in memory where nothing can be written."""

import functools
import multiprocessing
import os
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
from numba.core.caching import FunctionCache

Function = Callable[..., Any]


def njit(function: Function | None = None, *, cache: bool = False, **options: Any) -> Any:
    """`numba.njit`, but a cache that cannot be written or read makes things slower and never fails."""
    if function is None:
        return partial(njit, cache=cache, **options)
    compiled = numba.njit(**options)(function)
    if cache:
        try:
            _check_place(function)
            compiled._cache = _Cache(function)  # as `cache=True` does with numba's own
        except (RuntimeError, OSError):  # no folder: a read-only installation, and no home
            _say()
    return compiled


def _check_place(function: Function) -> None:
    """Without a home, numba would make a folder called ~ in the working folder."""
    if any(map(os.environ.get, ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"))) or os.path.isabs(os.path.expanduser("~")):
        return
    if not os.access(os.path.dirname(function.__code__.co_filename), os.W_OK):
        raise FileNotFoundError("no home")


class _Cache(FunctionCache):
    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:  # numba's file was cut short by a crash, and anything may come of that: it is made again
            self._guarded(self.flush)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        self._guarded(partial(super().save_overload, sig, data))

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception:  # no room, no permission, or an index that was cut short
            self.disable()
            _say()


@functools.cache
def _say() -> None:
    """Once, and not by every worker."""
    if multiprocessing.parent_process() is None:
        warnings.warn(
            "compiled code cannot be kept on disk, so every start takes longer. Set NUMBA_CACHE_DIR to a folder that "
            "can be written.",
            stacklevel=2,
        )
