"""numba's compiler, which keeps what it compiles on disk where it can, and in memory where nothing can be written."""

import functools
import multiprocessing
import os
import sys
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numba
from numba.core.caching import FunctionCache

Function = Callable[..., Any]


def njit(function: Function | None = None, *, cache: bool = False, allocates: bool = True, **options: Any) -> Any:
    """`numba.njit`, but a cache that cannot be written or read makes things slower and never fails.

    A function that makes no arrays (`allocates=False`) does not count references to those it is given. Small ones that
    take tuples of arrays spend most of their time on that.
    """
    if function is None:
        return partial(njit, cache=cache, allocates=allocates, **options)
    compiled = numba.njit(**options | {"_nrt": allocates})(function)
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
        found = None
        try:
            found = super().load_overload(sig, target_context)
        except Exception:  # numba's file was cut short by a crash, and anything may come of that: it is made again
            self._guarded(self.flush)
        if found is None:
            _say_that_it_takes_long()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        self._guarded(partial(super().save_overload, sig, data))

    def _guarded(self, write: Callable[[], None]) -> None:
        try:
            write()
        except Exception:  # no room, no permission, or an index that was cut short
            self.disable()
            _say()


@functools.cache
def _say_that_it_takes_long() -> None:
    """Once, where somebody waits (a terminal, a notebook), and not by every worker."""
    is_watched = (sys.stderr is not None and sys.stderr.isatty()) or "ipykernel" in sys.modules
    if is_watched and multiprocessing.parent_process() is None:
        print("fimsde: compiling for this computer, once; the first run takes up to a minute ...", file=sys.stderr)


@functools.cache
def _say() -> None:
    """Once, and not by every worker."""
    if multiprocessing.parent_process() is None:
        warnings.warn(
            "compiled code cannot be kept on disk, so every start takes longer. Set NUMBA_CACHE_DIR to a folder that "
            "can be written.",
            stacklevel=2,
        )
