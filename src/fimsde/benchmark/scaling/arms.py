"""The arms: what is trained on what. All begin with the same seed and see equations in the same order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fimsde.errors import ConfigError
from fimsde.train.config import LoopConfig, ScheduleConfig, TrainConfig

SIZES = ("0.1m", "0.4m", "1.6m")  # in the order in which they are trained
DATA = ("streaming", "3000", "300", "30000")  # different equations; 2400 steps read 38 400
# steps at which all arms wait for each other and weights are kept; by hand
MILESTONES = (300, 600, 1200, 2400, 4800, 9600)
# contexts of the primed arm, made once and counted as its own compute; by hand: minutes of making
PRIMED_CONTEXTS = 4096
# changes at fixed size and data; the last one on top of the second
DEGREE, CONSTANT, BOUND = "degree4", "constant", "constant-bound5"
# Of the gradient of a location, as of Student's t with four degrees of freedom; docs/scaling.md says why
OTHER_BOUND = 5.0


@dataclass(frozen=True)
class Arm:
    """One model in training.

    Attributes:
        name: Part of file names.
        size: "0.1m", ..., or "primed".
        data: One of `DATA`.
        config: All that its weights depend on.
        change: `DEGREE`, polynomials of degree 4 in the drift of its prior; `CONSTANT`, an earlier schedule, whose
            learning rate does not fall; `BOUND`, that one with gradients held at 5 in place of 2; or empty.
    """

    name: str
    size: str
    data: str
    config: TrainConfig
    change: str = ""


def all_arms(*, quick: bool = False) -> tuple[Arm, ...]:
    """Every arm, those first that tables need first.

    Args:
        quick: Tiny models of six steps, for tests.
    """
    sizes = {(size, data): _arm(size, data, quick=quick) for data in DATA for size in SIZES}
    fixed = sizes["0.4m", "streaming"]
    polynomials = replace(fixed.config.prior.polynomials, drift_degree=4)
    steeper = replace(fixed.config, prior=replace(fixed.config.prior, polynomials=polynomials))
    constant = replace(fixed.config, loop=_constant(fixed.config.loop))
    looser = replace(constant, location_clip=OTHER_BOUND)
    changed = [
        replace(fixed, name=f"{fixed.name}-{change}", config=config, change=change)
        for change, config in ((DEGREE, steeper), (CONSTANT, constant), (BOUND, looser))
    ]
    first = [sizes.pop((size, data)) for data in ("streaming", "3000") for size in ("0.1m", "0.4m")]
    largest = sizes.pop(("1.6m", "streaming"))
    return (*first, largest, *changed, _primed(quick=quick), *sizes.values())


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
    # numbers of equations become whole batches; judged by `judge`, on the same equations as all others
    bound = 0 if data == "streaming" else (8 if quick else int(data) // config.batch_size * config.batch_size)
    return Arm(f"paper-{size}-{data}", size, data, replace(config, equations=bound, validation_batches=0))


def _constant(loop: LoopConfig) -> LoopConfig:
    """Two thirds of the largest rate, which the falling one has after 675 steps, from step 100 on."""
    rate = loop.optimiser.learning_rate * 2 / 3
    return replace(loop, schedule=ScheduleConfig(warm_up=100), optimiser=replace(loop.optimiser, learning_rate=rate))


def _primed(*, quick: bool) -> Arm:
    """Our model with its own prior, contexts, rate and loss; a constant schedule, and as many steps as the others."""
    config = TrainConfig.preset("primed-tiny" if quick else "primed")
    other = _arm("0.4m", "streaming", quick=quick).config.loop
    loop = replace(
        config.loop,
        steps=other.steps,
        schedule=ScheduleConfig(warm_up=100),
        ema_part=other.ema_part,
        checkpoint_interval=other.checkpoint_interval,
    )
    contexts = 64 if quick else PRIMED_CONTEXTS
    return Arm(
        "primed", "primed", str(contexts), replace(config, loop=loop, validation_batches=0, cache_equations=contexts)
    )
