"""Progress bars on standard error; none where nobody looks (a pipe, a log file)."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
from tqdm import tqdm

from fimsde.equations.sde import SDE, correlation, fields, is_diagonal
from fimsde.shapes import Array, Float


@contextmanager
def bar(total: int, what: str) -> Iterator[Callable[[str], None]]:
    """A bar that moves by one whenever the function it gives is called with a few words."""
    with tqdm(total=total, desc=what, disable=None, leave=False, dynamic_ncols=True) as shown:

        def tell(label: str) -> None:
            shown.set_postfix_str(label, refresh=False)
            shown.update()

        yield tell


class Watched:
    """An equation that tells whenever it is asked: a simulation asks it once per step."""

    def __init__(self, sde: SDE, tell: Callable[[str], None]) -> None:
        self._sde, self._tell = sde, tell

    @property
    def dim(self) -> int:
        """State dimension."""
        return self._sde.dim

    @property
    def is_diagonal(self) -> bool:
        """Whether its noise is diagonal."""
        return is_diagonal(self._sde)

    def correlation(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim dim"]:
        """Correlation of the noise."""
        return correlation(self._sde, x)

    def drift(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Drift f."""
        return self.fields(x)[0]

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float[Array, "queries dim"]:
        """Diffusion sqrt(g)."""
        return self.fields(x)[1]

    def fields(self, x: Float[Array, "queries dim"]) -> tuple[Float[Array, "queries dim"], Float[Array, "queries dim"]]:
        """Drift and diffusion."""
        self._tell("")
        drift, diffusion = fields(self._sde, x)
        return np.asarray(drift), np.asarray(diffusion)
