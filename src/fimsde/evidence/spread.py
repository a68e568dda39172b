"""How much wider than the plain posterior draws must spread, from data sets whose truth is known.

The posterior is exact for a quadratic log likelihood; the likelihood of a filter is not quadratic, and noise, diffusion
and drift are weighed one after the other. What this leaves out was measured (`fimsde bench calibration`) on held-out
draws of the prior, in cells that a data set falls into by itself: dimension, noise found or not, number of
observations, and how much a gap adds to the variance. `spread.json` holds the factors of each cell.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fimsde.evidence.infer import Inference

FILE = Path(__file__).with_name("spread.json")
_GAP = 0.01  # normalised: the geometric mean of all gaps
SIZES = (550.0, 2200.0)  # steps that part small, medium and large data: between 300, 1000 and 5000
STEPS = (1e-3, 1e-2)  # share of the variance of the states that a gap adds: fine, medium and coarse


@dataclass(frozen=True)
class Cell:
    """Where a data set belongs."""

    dim: int
    noisy: bool
    size: int
    step: int

    @property
    def keys(self) -> tuple[str, str]:
        """Of the two tables: by step and by size, each with dimension and noise."""
        head = f"{self.dim}-D, {'noisy' if self.noisy else 'clean'}"
        return f"{head}, step {self.step}", f"{head}, size {self.size}"


def cell_of(inference: Inference) -> Cell:
    """The cell of a data set, by what was learnt from it."""
    step = _GAP * float(np.median(inference.rate.kept.width))
    return Cell(
        dim=inference.equation.drift_basis.dim,
        noisy=bool((inference.equation.noise > 0).any()),
        size=int(np.searchsorted(SIZES, inference.num_steps)),
        step=int(np.searchsorted(STEPS, step)),
    )


def spread_factors(inference: Inference) -> tuple[float, float]:
    """By which deviations of the drift and of g from their means are multiplied: geometric means over both tables."""
    found = [_table()[key] for key in cell_of(inference).keys]
    drift, rate = (float(np.exp(np.mean(np.log([pair[k] for pair in found])))) for k in range(2))
    return drift, rate


@lru_cache(maxsize=1)
def _table() -> dict[str, tuple[float, float]]:
    return {key: (float(f), float(g)) for key, (f, g) in json.loads(FILE.read_text())["factors"].items()}
