"""The data sets of the wide suite: every system with and without noise, at two gaps, in three lengths."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from fimsde.errors import ConfigError
from fimsde.systems.canonical import DEV_SEED
from fimsde.systems.wide.families import DEVELOPMENT, FAMILIES, REPORTED
from fimsde.systems.wide.paths import DRAWS, LENGTHS

Gap = Literal["fine", "coarse"]
Chosen = Literal["development", "reported", "all"]
GAPS: tuple[Gap, ...] = get_args(Gap)
NOISE = (0.0, 0.05)  # shares of half the range, as in the paper's canonical suite


@dataclass(frozen=True)
class Column:
    """What varies besides the system.

    Attributes:
        noise_std: Standard deviation of the measurement noise as a share of half the range of each component.
        gap: Time between observations: 0.1 ("fine") or 0.5 ("coarse") natural times of the system.
        length: Observations in all.
    """

    noise_std: float
    gap: Gap
    length: int

    def __str__(self) -> str:
        return f"{'noisy' if self.noise_std else 'clean'}, {self.gap}, {self.length}"


COLUMNS = tuple(Column(*values) for values in product(NOISE, GAPS, LENGTHS))


@dataclass(frozen=True)
class WideTask:
    """One data set: a draw of a family with a seed, observed as a column says."""

    family: str
    draw: int
    column: Column
    seed: int = DEV_SEED


def chosen_families(families: Chosen | Sequence[str]) -> tuple[str, ...]:
    """Names of families: those for development, those only reported, all, or some by name."""
    match families:
        case "development" | "reported" | "all":
            by_share = {"development": DEVELOPMENT, "reported": REPORTED, "all": FAMILIES}
            return tuple(family.name for family in by_share[families])
    known = [family.name for family in FAMILIES]
    unknown = [name for name in families if name not in known]
    if unknown or isinstance(families, str):
        raise ConfigError(
            f"{families if isinstance(families, str) else ', '.join(unknown)} is no family of the wide suite; choose "
            f"development, reported, all, or from {', '.join(known)}."
        )
    return tuple(families)


def wide_tasks(
    families: Chosen | Sequence[str] = "development",
    *,
    seed: int = DEV_SEED,
    draws: int = DRAWS,
    every: int = 1,
    quick: bool = False,
) -> tuple[WideTask, ...]:
    """All data sets, draw after draw of one family after the other, so that a system is simulated once.

    Args:
        families: See `chosen_families`.
        seed: Of systems and data.
        draws: Systems of each family.
        every: Only every so many of them, for methods that take long.
        quick: A small version: two systems of each family, two columns.
    """
    if draws < 1 or every < 1:
        raise ConfigError(f"draws is {draws} and every {every}; expected at least 1.")
    numbers = range(0, min(draws, 2) if quick else draws, 1 if quick else every)
    columns = (COLUMNS[1], COLUMNS[7]) if quick else COLUMNS
    return tuple(WideTask(f, n, c, seed) for f, n, c in product(chosen_families(families), numbers, columns))
