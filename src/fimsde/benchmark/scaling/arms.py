"""The arms: what is trained on what. All begin with the same seed and see equations in the same order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fimsde.errors import ConfigError
from fimsde.train.config import ScheduleConfig, TrainConfig

SIZES = ("0.4m", "0.1m", "1.6m")  # in the order in which they are trained
DATA = ("streaming", "3000", "30000")  # different equations
MILESTONES = (500, 1000, 2000, 4000, 6000)  # steps at which all arms wait for each other and weights are kept; by hand
# contexts of the primed arm, made once and counted as its own compute; by hand: minutes of making
PRIMED_CONTEXTS = 4096
DEGREE = "degree4"


@dataclass(frozen=True)
class Arm:
    """One model in training.

    Attributes:
        name: Part of file names.
        size: "0.1m", ..., or "primed".
        data: One of `DATA`.
        config: All that its weights depend on.
        degree: Of the polynomials in the drift of its prior.
    """

    name: str
    size: str
    data: str
    config: TrainConfig
    degree: int = 3


def all_arms(*, quick: bool = False) -> tuple[Arm, ...]:
    """Every arm, those first that tables need first.

    Args:
        quick: Tiny models of six steps, for tests.
    """
    sizes = [_arm(size, data, quick=quick) for data in DATA for size in SIZES]
    fixed = _arm("0.4m", "30000", quick=quick)
    polynomials = replace(fixed.config.prior.polynomials, drift_degree=4)
    steeper = replace(fixed.config, prior=replace(fixed.config.prior, polynomials=polynomials))
    degree = Arm(f"{fixed.name}-{DEGREE}", "0.4m", "30000", steeper, degree=4)
    primed = _primed(quick=quick)
    return (*sizes[:4], primed, *sizes[4:7], degree, *sizes[7:])


def milestones(*, quick: bool = False) -> tuple[int, ...]:
    """The steps at which arms wait for each other."""
    return (2, 4, 6) if quick else MILESTONES


def chosen_arms(words: Sequence[str], *, quick: bool = False) -> tuple[Arm, ...]:
    """Arms by name; "all" stands for every one."""
    known = {arm.name: arm for arm in all_arms(quick=quick)}
    if list(words) == ["all"]:
        return tuple(known.values())
    if unknown := [word for word in words if word not in known]:
        raise ConfigError(f"no arm {', '.join(unknown)}; choose from {', '.join(known)}, or all.")
    if not words:
        raise ConfigError(f"no arms are named; choose from {', '.join(known)}, or all.")
    return tuple(known[word] for word in dict.fromkeys(words))


def _arm(size: str, data: str, *, quick: bool) -> Arm:
    config = TrainConfig.preset("paper-tiny" if quick else f"paper-{size}")
    if quick:
        width = {"0.1m": 16, "0.4m": 32, "1.6m": 48}[size]
        config = replace(config, model=replace(config.model, embed=width, heads=4))
    # 3000 and 30000 become whole batches; judged by `judge`, on the same equations as all others
    bound = 0 if data == "streaming" else (8 if quick else int(data) // config.batch_size * config.batch_size)
    return Arm(f"paper-{size}-{data}", size, data, replace(config, equations=bound, validation_batches=0))


def _primed(*, quick: bool) -> Arm:
    """Our model with its own prior, contexts and loss; the schedule is that of the other arms, not the bundled one."""
    config = TrainConfig.preset("primed-tiny" if quick else "primed")
    other = _arm("0.4m", "streaming", quick=quick).config.loop
    loop = replace(
        config.loop,
        steps=other.steps,
        schedule=ScheduleConfig("constant", config.loop.schedule.warm_up),
        checkpoint_interval=other.checkpoint_interval,
    )
    contexts = 64 if quick else PRIMED_CONTEXTS
    return Arm(
        "primed", "primed", str(contexts), replace(config, loop=loop, validation_batches=0, cache_equations=contexts)
    )
