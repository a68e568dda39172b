"""Contexts: what the model sees of an equation, and where it is asked, in normalised coordinates.

`paper`: whole paths, as many as make up a number of observations that is the same for all equations of a batch;
locations are nodes of the grid around the clean paths. `primed`: what users bring, from a short piece of one path to
all paths there are; half of the locations are around the observed data, half are clean states on the paths.

Of an equation only paths, clean states and exact fields are used, so other families than polynomials fit in.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fimsde.data.arrays import rounding
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import MIN_TRANSITIONS, ROUNDING_STEPS, Observations
from fimsde.data.transitions import Transitions, to_transitions
from fimsde.errors import InvalidObservationsError
from fimsde.prior.config import Setting
from fimsde.prior.equation import DrawnEquation
from fimsde.shapes import Array, Bool, Float64
from fimsde.train.config import ContextConfig, TrainConfig

# Shapes of the contexts that people have, set by hand.
_SHORTEST = 100  # observations of a path that was cut
_FROM_START = 0.7  # share of the cut paths that keep their beginning
_CURVED = 0.05  # share of the variance of a drift that a linear drift must miss for its curvature to show


@dataclass(frozen=True, eq=False)
class Example:
    """An equation as the model meets it: context, locations and exact answers, all normalised.

    Attributes:
        transitions: The context.
        origin: The true origin, if the model may know it.
        x: Locations.
        drift, diffusion: Exact values there.
        scored: False for locations too far from the data to count.
    """

    transitions: Transitions
    origin: Float64[Array, " dim"] | None
    x: Float64[Array, "queries dim"]
    drift: Float64[Array, "queries dim"]
    diffusion: Float64[Array, "queries dim"]
    scored: Bool[Array, " queries"]


def draw_num_observations(config: ContextConfig, setting: Setting, rng: np.random.Generator) -> int:
    """The paper's context size, one for all equations of a batch: uniform from the least to below the most."""
    low = max(config.fewest, setting.num_times)
    high = min(config.most, setting.num_paths * setting.num_times)
    return int(rng.integers(low, max(high, low + 1)))


def make_example(
    config: TrainConfig,
    equation: DrawnEquation,
    num_observations: int | None,
    num_queries: int,
    rng: np.random.Generator,
) -> Example:
    """A random context of an equation with its locations, by the rule of `config.contexts`.

    Args:
        config: The rule.
        equation: Where context and answers come from.
        num_observations: The paper's context size; None draws one for this equation. Primed contexts draw their own.
        num_queries: Number of locations.
        rng: All randomness.
    """
    if config.contexts.rule == "paper":
        if num_observations is None:
            num_observations = draw_num_observations(config.contexts, equation.setting, rng)
        every = stride(config.contexts, config.prior.settings, equation.setting, num_observations)
        observations = paper_context(equation, num_observations, rng, every)
        nodes = equation.grid(config.prior.locations)
        x = nodes[rng.permutation(len(nodes))[:num_queries]]
        example = _normalised(config, equation, observations, x, known_origin=False)
        return _some_transitions(example, config.contexts, rng) if config.model.reader.joins_dims else example
    observations = primed_context(config.contexts, equation, rng)
    x = primed_locations(config, equation, observations, num_queries, rng)
    known_origin = bool(rng.random() < config.contexts.known_origin)
    return _normalised(config, equation, observations, x, known_origin=known_origin)


def paper_context(
    equation: DrawnEquation, num_observations: int, rng: np.random.Generator, stride: int = 1
) -> Observations:
    """As many whole paths, in random order, as make up the number of observations; at least one.

    Of each path every observation is seen, or every second, ... (`stride`).
    """
    num_paths, num_times = equation.mask.shape
    chosen = rng.permutation(num_paths)[: max(1, num_observations // num_times)]
    return _observed(equation, chosen, slice(0, num_times, stride))


def stride(config: ContextConfig, settings: Sequence[Setting], setting: Setting, num_observations: int) -> int:
    """Large enough for the number of transitions that are read, but for gaps no larger than any of the settings has.

    Fewer observations of the same time tell about as much of the drift; fewer neighbouring ones do not.
    """
    if not config.transitions:
        return 1
    largest = max(other.gap for other in settings)
    transitions = max(1, num_observations // setting.num_times) * (setting.num_times - 1)
    wanted = -(-transitions // config.transitions)
    return max(1, min(wanted, round(largest / setting.gap), setting.num_times - 1))


def primed_context(config: ContextConfig, equation: DrawnEquation, rng: np.random.Generator) -> Observations:
    """A number of observations, uniform in its logarithm, reached by leaving out paths or by cutting them."""
    num_paths, num_times = equation.mask.shape
    total = num_paths * num_times
    wanted = np.exp(rng.uniform(np.log(min(config.fewest, total)), np.log(total)))
    length, start = num_times, 0
    if num_paths == 1 or rng.random() < config.cut_share:
        keep = int(np.clip(np.ceil(wanted / num_times), 1, num_paths))
        length = int(min(num_times, max(_SHORTEST, wanted / keep)))
        start = 0 if rng.random() < _FROM_START else int(rng.integers(0, num_times - length + 1))
    else:
        keep = int(np.clip(np.round(wanted / num_times), 1, num_paths))
    return _observed(equation, rng.permutation(num_paths)[:keep], slice(start, start + length))


def primed_locations(
    config: TrainConfig, equation: DrawnEquation, observations: Observations, num_queries: int, rng: np.random.Generator
) -> Float64[Array, "queries dim"]:
    """Half clean states on the paths, the others uniform in the box of the data, widened by a random share."""
    stored = min(config.prior.locations.stored_states, equation.mask.size)
    states = equation.locations[len(equation.locations) - stored :].astype(np.float64)
    states = states[rng.permutation(stored)[: num_queries // 2]]
    low, high = observations.box(widen=rng.uniform(0.0, config.contexts.widen))
    return np.concatenate([rng.uniform(low, high, size=(num_queries - len(states), equation.dim)), states])


def hides_curvature(example: Example) -> bool:
    """Whether some component of the drift looks linear on the paths and is not, where it is asked.

    Nobody writes down such an equation: its other terms would have to come from elsewhere. The last half of the
    locations are states on the paths; with few of them there is no telling.
    """
    on_paths = example.scored & (np.arange(len(example.x)) >= (len(example.x) + 1) // 2)
    if on_paths.sum() <= 3 * (example.x.shape[1] + 1):
        return False
    there, everywhere = (_missed_by_a_line(example, chosen) for chosen in (on_paths, example.scored))
    return bool(((there < _CURVED) & (everywhere > _CURVED)).any())


def _missed_by_a_line(example: Example, chosen: Bool[Array, " queries"]) -> Float64[Array, " dim"]:
    """Share of the variance of the drift, per component, that a linear drift misses."""
    x, drift = example.x[chosen], example.drift[chosen]
    features = np.column_stack([np.ones(len(x)), x])
    left = drift - features @ np.linalg.lstsq(features, drift)[0]
    return left.var(axis=0) / (drift.var(axis=0) + np.finfo(float).tiny)


def _some_transitions(example: Example, config: ContextConfig, rng: np.random.Generator) -> Example:
    """At most as many as a model that reads single transitions may read. Their order means nothing to it."""
    steps = example.transitions
    if not config.transitions or len(steps) <= config.transitions:
        return example
    kept = np.sort(rng.permutation(len(steps))[: config.transitions])
    return replace(example, transitions=Transitions(steps.y[kept], steps.dy[kept], steps.dtau[kept], steps.path[kept]))


def _observed(equation: DrawnEquation, paths: Array, times: slice) -> Observations:
    mask = equation.mask[paths, times]
    seen = mask.any(axis=1)
    return _masked(equation.values[paths, times][seen].astype(np.float64), equation.times[times], mask[seen])


def _masked(
    values: Float64[Array, "paths times dim"], times: Float64[Array, " times"], mask: Bool[Array, "paths times"]
) -> Observations:
    """What `read` makes of drawn paths, in a tenth of the time: no message has to say where."""
    rows, dim = values[mask], values.shape[2]
    path_starts = np.cumsum([0, *mask.sum(axis=1)])
    if len(rows) - len(values) < MIN_TRANSITIONS:
        raise InvalidObservationsError("drawn paths are too short; draw others.")
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.ptp(rows, axis=0)
    threshold = ROUNDING_STEPS * rounding(rows.dtype) * np.abs(rows).max(axis=0)
    if not np.isfinite(spread).all() or (spread <= threshold).any():
        raise InvalidObservationsError("drawn paths are constant or not finite; draw others.")
    clocks = np.broadcast_to(times, mask.shape)[mask]
    return Observations(rows, clocks, path_starts, tuple(f"x{j + 1}" for j in range(dim)))


def _normalised(
    config: TrainConfig,
    equation: DrawnEquation,
    observations: Observations,
    x: Float64[Array, "queries dim"],
    *,
    known_origin: bool,
) -> Example:
    transitions = to_transitions(observations)
    normaliser = fit_normaliser(transitions, config.model.statistics, config.model.target_gap)
    z = normaliser.states(x)
    far = config.contexts.rule == "primed" and config.contexts.far
    scored = np.abs(z).max(axis=1) <= far if far else np.ones(len(z), np.bool_)
    return Example(
        transitions=normaliser.transitions(transitions),
        origin=normaliser.states(np.zeros(equation.dim)) if known_origin else None,
        x=np.where(scored[:, None], z, 0.0),  # a location that does not count must not overflow anything either
        drift=np.where(scored[:, None], normaliser.drift(equation.sde.drift(x)), 0.0),
        diffusion=np.where(scored[:, None], normaliser.diffusion(equation.sde.diffusion(x)), 0.0),
        scored=scored,
    )
