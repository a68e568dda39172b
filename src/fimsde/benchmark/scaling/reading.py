"""Data as the arms were trained to read them: with gaps as long as those of contexts that were thinned.

An arm saw contexts with one observation of every few: about `transitions` steps were left, and gaps stayed within those
of the prior. With more data and shorter gaps than that, steps tell a model less of the drift than any that it knows. So
a path is read as several: every s-th observation from the first on, every s-th from the second on, and so forth. No
observation is left out, and s is that of training for as much data.
"""

import numpy as np

from fimsde.data.observations import Observations
from fimsde.data.transitions import to_transitions

# Of the presets of the paper's architecture: steps that contexts were thinned to, and the longest gap of their prior.
TRANSITIONS = 256
LONGEST_GAP = 0.1


def as_trained(
    observations: Observations, transitions: int = TRANSITIONS, longest_gap: float = LONGEST_GAP
) -> Observations:
    """The same observations as paths with longer gaps.

    Args:
        observations: Paths.
        transitions: Steps of a context in training; 0: contexts were not thinned, and nothing changes.
        longest_gap: No gap becomes longer than this, as in training.
    """
    every = _stride(observations, transitions, longest_gap)
    if every == 1:
        return observations
    ends = zip(observations.path_starts[:-1], observations.path_starts[1:], strict=True)
    return observations.as_paths(
        [np.arange(first + k, end, every) for first, end in ends for k in range(min(every, end - first))]
    )


def _stride(observations: Observations, transitions: int, longest_gap: float) -> int:
    """As many steps as trained on, but gaps no longer than those of the prior; typical paths keep a step."""
    if not transitions:
        return 1
    gap = float(np.median(to_transitions(observations).dtau))
    wanted = -(-observations.num_transitions // transitions)
    length = int(np.median(np.diff(observations.path_starts)))
    return max(1, min(wanted, round(longest_gap / gap), length // 2))
