"""What the suites consist of: every case is a few words and numbers and names one data set."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from fimsde.errors import ConfigError
from fimsde.systems import bursts, gallery, random_cubic
from fimsde.systems.canonical import REPORT_SEED
from fimsde.systems.samples import Sample

Suite = Literal["gallery", "noisy-cubic", "bursts"]
SUITES: tuple[Suite, ...] = get_args(Suite)
_ROESSLER = "roessler"  # the only system of the bursts
_QUICK = {  # by hand: the fastest systems, one or two of each dimension
    "gallery": ("ou", "limit_cycle", "lorenz"),
    "noisy-cubic": ("stiffening_trap", "coupled_wells"),
    "bursts": (_ROESSLER,),
}
_REPETITIONS = {"gallery": gallery.DATA_SETS, "noisy-cubic": 5, "bursts": bursts.DATA_SETS}  # by hand: 90 cubic cases
_MOST = {"gallery": gallery.DATA_SETS, "noisy-cubic": random_cubic.DATA_SETS, "bursts": bursts.DATA_SETS}


@dataclass(frozen=True)
class Case:
    """One data set of a suite.

    Attributes:
        suite: Which one.
        system: Name of the system or family.
        setting: The gap in natural times, where there are several; else empty.
        repetition: Number of the data set.
        seed: `REPORT_SEED` for reports, `DEV_SEED` and above for development.
    """

    suite: Suite
    system: str
    setting: str
    repetition: int
    seed: int = REPORT_SEED


def cases(
    suite: Suite,
    *,
    seed: int = REPORT_SEED,
    repetitions: int | None = None,
    systems: Sequence[str] | None = None,
    quick: bool = False,
) -> tuple[Case, ...]:
    """All cases of a suite, system after system: the data sets of one are simulated together.

    Args:
        suite: Which one.
        seed: Of the data.
        repetitions: Data sets of each system.
        systems: Some of them.
        quick: Two data sets of a few systems.
    """
    known = names(suite)
    if unknown := [name for name in systems or () if name not in known]:
        raise ConfigError(f"{', '.join(unknown)} is not in {suite}; choose from {', '.join(known)}.")
    chosen = systems or (_QUICK[suite] if quick else known)
    number = (2 if quick else _REPETITIONS[suite]) if repetitions is None else repetitions
    if not 1 <= number <= _MOST[suite]:
        raise ConfigError(f"{number} repetitions; expected 1 to {_MOST[suite]}. Take another seed for more data.")
    return tuple(
        Case(suite, system, setting, repetition, seed)
        for system, setting, repetition in product(chosen, settings(suite), range(number))
    )


def names(suite: Suite) -> tuple[str, ...]:
    """The systems or families of a suite."""
    match suite:
        case "gallery":
            return tuple(gallery.GALLERY)
        case "noisy-cubic":
            return tuple(random_cubic.FAMILIES)
        case "bursts":
            return (_ROESSLER,)


def settings(suite: Suite) -> tuple[str, ...]:
    """What else varies, as in the heads of the tables."""
    return tuple(f"gap={gap:g}" for gap in random_cubic.GAPS) if suite == "noisy-cubic" else ("",)


def load(case: Case) -> Sample:
    """The data of a case with the truth."""
    match case.suite:
        case "gallery":
            return gallery.gallery_sample(gallery.GALLERY[case.system], case.repetition, seed=case.seed)
        case "noisy-cubic":
            gap = float(case.setting.removeprefix("gap="))
            return random_cubic.cubic_sample(case.system, gap, case.repetition, seed=case.seed)
        case "bursts":
            return bursts.burst_sample(case.repetition, seed=case.seed)
