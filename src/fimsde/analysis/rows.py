"""Parts of observations: chosen rows become paths of their own."""

from collections.abc import Sequence

import numpy as np

from fimsde.observations import Observations
from fimsde.shapes import Array, Int


def as_paths(observations: Observations, rows: Sequence[Int[Array, " _"]]) -> Observations:
    """The observations with the numbers rows[k] as path k."""
    chosen = np.concatenate(rows)
    path_starts = np.concatenate([[0], np.cumsum([len(part) for part in rows])])
    return Observations(
        observations.values[chosen],
        observations.times[chosen],
        path_starts,
        observations.names,
        observations.time_unit,
    )
