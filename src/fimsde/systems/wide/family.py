"""What a family of random systems is, and the numbers and functions that families are made of."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fimsde.equations.sde import Field
from fimsde.shapes import Array, Float, Float64

Share = Literal["development", "reported"]
Kind = Literal["polynomial", "other"]
_WAVES = 64  # of a random smooth function; by hand: its values are then normal to a percent


@dataclass(frozen=True)
class Drawn:
    """A random system: dx = drift(x) dt + diag(diffusion(x)) dW, and a place where its paths may start."""

    drift: Field
    diffusion: Field
    start: tuple[float, ...]

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.start)


@dataclass(frozen=True)
class Family:
    """Random systems of one kind.

    Attributes:
        name: Key in result files; ends with the dimension.
        title: Name in tables.
        dim: State dimension of all its systems.
        kind: "polynomial" if drift and squared diffusion are polynomials of degree at most 3 and 2, else "other".
        share: Whether it may be used to choose models and settings, or is only reported on.
        draw: A system from a generator.
        num_paths: Paths of a data set; the observations are divided among them.
    """

    name: str
    title: str
    dim: int
    kind: Kind
    share: Share
    draw: Callable[[np.random.Generator], Drawn]
    num_paths: int = 1


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """exp(U), U uniform between the logarithms."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def constant(*sizes: float) -> Field:
    """The same diffusion everywhere."""
    values = np.array(sizes)

    def diffusion(x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        return np.broadcast_to(values, x.shape)

    return diffusion


def maybe_zero(rng: np.random.Generator, spread: float) -> float:
    """The zero of the scale in one of two draws, else a uniform number up to `spread` on either side of it."""
    place = rng.uniform(-spread, spread)
    return 0.0 if rng.random() < 0.5 else float(place)


def random_smooth(
    rng: np.random.Generator, length: float
) -> Callable[[Float[Array, "queries 1"]], Float64[Array, "queries 1"]]:
    """sqrt(2 / m) sum cos(w x + b), w normal with deviation 1 / length: nearly a Gaussian process of variance one."""
    waves = rng.normal(size=_WAVES) / length
    phases = rng.uniform(0.0, 2.0 * np.pi, _WAVES)

    def function(x: Float[Array, "queries 1"]) -> Float64[Array, "queries 1"]:
        return np.sqrt(2.0 / _WAVES) * np.cos(x * waves + phases).sum(axis=1, keepdims=True)

    return function
