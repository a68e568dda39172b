"""The data of finetuning: what is held out, and the windows that are scored in each iteration."""

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from torch.utils.data import Dataset as TorchDataset

from fimsde.data.observations import Observations
from fimsde.data.transitions import Transitions
from fimsde.errors import InvalidObservationsError
from fimsde.shapes import Array, Float64, Int
from fimsde.train.losses import ScoredSteps

_MANY_PATHS = 10  # from here on whole paths are held out: the fewest of which 15 % are two; below it parts of each path
_STRETCHES = 5  # into which a long path is cut, and the end of each held out; by hand: change along time is seen
_LONG = 50  # steps in a held-out part from which on a path is long enough to be cut; by hand
_FEWEST = 2  # steps in a held-out part; by hand: single steps between stretches say little

Rows = list[tuple[int, int]]  # first observation and the one after the last, of each piece


def split(obs: Observations, share: float, seed: int) -> tuple[Observations, Observations | None]:
    """What is learnt from, and what only judges: whole paths if there are many, else parts of each path.

    A short path is held out at its end, a long one at the ends of five stretches, because data change with time. Where
    two parts of a path meet they share an observation, so that every step is in one of them.

    Args:
        obs: All observations.
        share: Of the paths, or of the steps of each path.
        seed: Decides which paths.
    """
    if not share:
        return obs, None
    paths = list(zip(obs.path_starts[:-1].tolist(), obs.path_starts[1:].tolist(), strict=True))
    if len(paths) >= _MANY_PATHS:
        number = max(1, round(share * len(paths)))
        held = set(np.random.default_rng(seed).choice(len(paths), number, replace=False).tolist())
        kept, judged = ([p for k, p in enumerate(paths) if (k in held) is wanted] for wanted in (False, True))
    else:
        parts = [_parts(first, end, share) for first, end in paths]
        kept, judged = ([piece for part in parts for piece in part[side]] for side in (0, 1))
    if not any(end - first >= 2 for first, end in judged):
        raise InvalidObservationsError(
            f"a share of {share:g} of {obs.num_points} observations in {obs.num_paths} paths is too little to judge. "
            "Pass hold_out=0 to learn from all of them, or add observations."
        )
    return _pieces(obs, kept), _pieces(obs, judged)


def _parts(first: int, end: int, share: float) -> tuple[Rows, Rows]:
    """Pieces of a path to learn from, and pieces to judge by."""
    steps = end - 1 - first
    number = int(np.clip(share * steps // _LONG, 1, _STRETCHES))
    cuts = np.linspace(first, end - 1, number + 1).round().astype(int).tolist()
    kept, judged = [], []
    for a, b in pairwise(cuts):
        held = round(share * (b - a))
        if held < _FEWEST:
            kept.append((a, b + 1))
        else:
            kept.append((a, b - held + 1))
            judged.append((b - held, b + 1))
    return kept, judged


def _pieces(obs: Observations, pieces: Rows) -> Observations:
    rows = np.concatenate([np.arange(a, b) for a, b in pieces])
    starts = np.concatenate([[0], np.cumsum([b - a for a, b in pieces])])
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
