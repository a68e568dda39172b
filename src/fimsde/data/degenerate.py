"""Components that no equation can be estimated for: those that never move, and those that others determine.

Both are facts about the data, not judgements: a component is refused only if rounding explains all that is left of it.
"""

import numpy as np

from fimsde.data.observations import ROUNDING_STEPS, Observations
from fimsde.data.transitions import Transitions
from fimsde.errors import InvalidObservationsError
from fimsde.shapes import Array, Float64

# observations in which a linear relation is looked for; all others are compared with it; by hand: bounds memory
_MOST_ROWS = 100_000


def refuse_degenerate(observations: Observations, steps: Transitions) -> None:
    """Raise InvalidObservationsError, with names, if a component moves in no step or is a linear function of others."""
    for j in np.flatnonzero(~(steps.dy != 0).any(axis=0)):
        name, num = observations.names[j], observations.num_paths
        where = f"within each of the {num} paths" if num > 1 else "between neighbouring observations"
        raise InvalidObservationsError(
            f"component {name!r} (number {j}) is constant {where}, so that it has no equation of its own. It is an "
            "input, not a state: leave it out and estimate its values apart, or name it as the path column if it "
            "tells paths apart."
        )
    for later in range(1, observations.dim):  # the first component that those before it determine
        _refuse_relation(observations, later)


def _refuse_relation(observations: Observations, j: int) -> None:
    """Raise if component j is a linear function of the components before it, up to rounding, in every observation."""
    values = observations.values[:, : j + 1]
    if len(values) <= j + 1:  # so few states always lie on a plane
        return
    middle, span = values.min(axis=0), np.ptp(values, axis=0)
    unit = (values - middle) / span  # one unit per range: cells of any size are compared alike
    others = np.column_stack([np.ones(len(unit)), unit[:, :j]])
    slopes = np.linalg.lstsq(others[:_MOST_ROWS], unit[:_MOST_ROWS, j], rcond=None)[0]
    rounding = _rounding(values) * np.abs(values).max(axis=0) / span  # of every column, in its unit
    allowed = ROUNDING_STEPS * (rounding[j] + np.abs(slopes[1:]) @ rounding[:j])
    if not np.abs(unit[:, j] - others @ slopes).max() <= allowed:
        return
    needed = np.flatnonzero(np.abs(slopes[1:]) > allowed)
    factors = slopes[1:] * span[j] / span[:j]
    offset = middle[j] + span[j] * slopes[0] - factors[needed] @ middle[needed]
    names = observations.names
    size = np.abs(values[:, [*needed, j]]).max(axis=0) @ np.abs([*factors[needed], 1.0])
    terms = ([f"{offset:.6g}"] if abs(offset) > allowed * size else []) + [
        f"{factors[k]:.6g} {names[k]}" for k in needed
    ]
    raise InvalidObservationsError(
        f"component {names[j]!r} (number {j}) is an exact linear function of "
        f"{' and '.join(repr(names[k]) for k in needed)}: {names[j]} = {' + '.join(terms).replace('+ -', '- ')}. "
        "It has no noise of its own, so that there is no equation for it; leave one of them out."
    )


def _rounding(values: Float64[Array, "points dim"]) -> Float64[Array, " dim"]:
    """Relative rounding of each column: that of float32 if all its numbers are float32 numbers."""
    with np.errstate(over="ignore", under="ignore"):
        narrow = (values.astype(np.float32) == values).all(axis=0)
    whole = (values == np.round(values)).all(axis=0)  # whole numbers are exact in either precision
    return np.where(narrow & ~whole, np.finfo(np.float32).eps, np.finfo(np.float64).eps)
