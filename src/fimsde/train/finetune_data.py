"""The data of finetuning: what is held out, and the windows that are scored in each iteration."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from fimsde.errors import InvalidObservationsError
from fimsde.observations import Observations
from fimsde.shapes import Array, Float64, Int
from fimsde.train.losses import ScoredSteps
from fimsde.transitions import Transitions

_MANY_PATHS = 10  # from here on whole paths are held out, below it the end of each path
_FEWEST = 3  # observations in a held-out part: two steps


def split(obs: Observations, share: float, seed: int) -> tuple[Observations, Observations | None]:
    """What is learnt from, and what only judges: whole paths if there are many, else the last part of each path.

    A held-out end begins with the last observation before it, so that no step is lost.

    Args:
        obs: All observations.
        share: Of the paths or of each path.
        seed: Decides which paths.
    """
    if not share:
        return obs, None
    lengths = np.diff(obs.path_starts)
    if obs.num_paths >= _MANY_PATHS:
        number = max(1, round(share * obs.num_paths))
        held = np.zeros(obs.num_paths, bool)
        held[np.random.default_rng(seed).choice(obs.num_paths, number, replace=False)] = True
        kept, judged = np.where(held, 0, lengths), np.where(held, lengths, 0)
    else:
        judged = np.where(share * lengths >= _FEWEST - 1, np.round(share * lengths).astype(np.int64) + 1, 0)
        kept = np.where(judged > 0, lengths - judged + 1, lengths)
    if not np.any(judged >= 2):
        raise InvalidObservationsError(
            f"a share of {share:g} of {obs.num_points} observations in {obs.num_paths} paths is too little to judge. "
            "Pass hold_out=0 to learn from all of them, or add observations."
        )
    first, end = obs.path_starts[:-1], obs.path_starts[1:]
    return _part(obs, first, first + kept), _part(obs, end - judged, end)


def _part(obs: Observations, first: Int[Array, " paths"], end: Int[Array, " paths"]) -> Observations:
    """Rows first..end of each path; paths without any are left out."""
    some = end > first
    rows = np.concatenate([np.arange(a, b) for a, b in zip(first[some], end[some], strict=True)])
    starts = np.concatenate([[0], np.cumsum((end - first)[some])])
    return replace(obs, values=obs.values[rows], times=obs.times[rows], path_starts=starts)


@dataclass(frozen=True)
class Windows:
    """Starts with the observations that follow: batch i is a function of (seed, i)."""

    steps: Transitions  # normalised
    look_ahead: int
    max_dim: int
    dtype: torch.dtype

    def take(self, rows: Int[Array, " starts"]) -> ScoredSteps:
        """Windows that start at these transitions; what lies behind the end of a path does not count."""
        tr, last = self.steps, len(self.steps) - 1
        ahead = rows[:, None] + np.arange(self.look_ahead)
        valid = (ahead <= last) & (tr.path[np.minimum(ahead, last)] == tr.path[rows, None])
        ahead = np.minimum(ahead, last)
        dims = torch.arange(self.max_dim) < tr.dim
        return ScoredSteps(
            start=self._tensor(_padded(tr.y[rows], self.max_dim)),
            gaps=self._tensor(tr.dtau[ahead]),
            target=self._tensor(_padded(tr.y[ahead] + tr.dy[ahead], self.max_dim)),
            valid=torch.from_numpy(valid)[None],
            dims=dims[None],
        )

    def spread(self, at_most: int) -> ScoredSteps:
        """Windows evenly over the data: always the same ones."""
        every = max(1, -(-len(self.steps) // at_most))
        return self.take(np.arange(0, len(self.steps), every))

    def _tensor(self, values: Float64[Array, "..."]) -> torch.Tensor:
        return torch.from_numpy(values).to(self.dtype)[None]


class ScoredBatches(TorchDataset[ScoredSteps]):
    """Windows for every iteration, drawn anew without replacement."""

    def __init__(self, windows: Windows, num_scored: int, seed: int) -> None:
        self.windows, self.seed = windows, seed
        self.number = min(num_scored, len(windows.steps))

    def __getitem__(self, index: int) -> ScoredSteps:
        rng = np.random.default_rng([self.seed, index])
        return self.windows.take(rng.choice(len(self.windows.steps), self.number, replace=False))


def _padded(states: Float64[Array, "*lead dim"], max_dim: int) -> Float64[Array, "*lead max_dim"]:
    return np.pad(states, [(0, 0)] * (states.ndim - 1) + [(0, max_dim - states.shape[-1])])
