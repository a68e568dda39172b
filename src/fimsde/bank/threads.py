"""One thread for small linear algebra."""

from contextlib import AbstractContextManager, nullcontext
from functools import cache

from threadpoolctl import ThreadpoolController

_MANY = 200_000  # observations from which threads are worth their price


def blas_threads_for(num_observations: int) -> AbstractContextManager[object]:
    """Linear algebra of NumPy and SciPy on one thread inside this block, unless there is much to compute.

    Matrices of some hundred rows are not worth sharing: two threads took three times the CPU time of one.
    """
    if num_observations >= _MANY:
        return nullcontext()
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> ThreadpoolController:
    """Of the libraries that are loaded at the first call: by then those of the fits are."""
    return ThreadpoolController()
