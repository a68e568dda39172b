"""Memory that is kept for the next array."""

import numpy as np

_KEPT = 2**23  # bytes: more than any array of a context of thousands of observations


def keep_freed_memory() -> None:
    """Let the C library keep freed arrays of some megabytes for the next ones instead of giving them back.

    Fresh pages may cost more than what is computed on them: up to a fifth of the CPU time of a bank. glibc keeps twice
    the size of the largest block that was ever freed (mallopt(3), M_MMAP_THRESHOLD); elsewhere nothing happens.
    """
    np.empty(_KEPT, np.uint8)  # freed at once and never touched, so that it takes no memory itself
