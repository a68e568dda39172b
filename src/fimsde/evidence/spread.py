"""How much wider than the plain posterior draws must spread, from data sets whose truth is known.

The posterior is exact for a quadratic log likelihood; the likelihood of a filter is not quadratic, and noise, diffusion
and drift are weighed one after the other. What this leaves out was measured (`fimsde bench calibration`) on held-out
draws of the prior. `spread.json` holds a factor for every trait that a data set may have; those it has are multiplied.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from fimsde.evidence.doubts import NO_DOUBTS, Doubts
from fimsde.evidence.hypotheses import DRIFT, RATE
from fimsde.evidence.infer import Inference

FILE = Path(__file__).with_name("spread.json")
_GAP = 0.01  # normalised: the geometric mean of all gaps
SIZES = (550.0, 2200.0)  # steps that part small, medium and large data: between 300, 1000 and 5000
STEPS = (1e-3, 1e-2, 1e-1)  # share of the variance of the states that a gap adds: fine, medium, coarse, very coarse
STRAINS = (3.5, 8.0, 20.0)  # standard errors by which innovations deviate: fits, hardly, does not, not at all
TURNS = (0.03, 0.1, 0.3)  # by which the drift turns an error in a gap: hardly, somewhat, much, very much
_MEASURED = 3  # components of the data sets behind the table; more count as three
_SMOOTH = np.array([name.startswith("smooth") for name in DRIFT])
_CONSTANT = np.array([name.startswith("constant") for name in RATE])
SMALLEST, LARGEST = 0.7, 8.0  # a table that asks for more is about estimates that are wrong, not about intervals


@dataclass(frozen=True)
class Spread:
    """Factors by which deviations from the estimate are multiplied.

    Attributes:
        drift, rate: Of draws of f, and of g.
        drift_whole, rate_whole: Of bands that hold whole curves, against those that hold so many plain draws.
    """

    drift: float = 1.0
    rate: float = 1.0
    drift_whole: float = 1.0
    rate_whole: float = 1.0


PLAIN = Spread()
PARTS = ("drift", "rate", "drift_whole", "rate_whole")


def traits_of(inference: Inference, doubts: Doubts = NO_DOUBTS) -> tuple[str, ...]:
    """What a data set is like, by what was learnt from it: dimension, noise, size, step, turn, kind of drift, fit."""
    step = _GAP * float(np.median(inference.rate.kept.width))
    dim = min(inference.equation.drift_basis.dim, _MEASURED)
    noise = "noisy" if (inference.equation.noise > 0).any() else "clean"
    size = int(np.searchsorted(SIZES, inference.num_steps))
    far = int(np.searchsorted(STEPS, step))
    traits = ["all", f"{dim}-D", noise, f"{dim}-D, {noise}"]
    traits += [f"size {size}", f"{noise}, size {size}", f"{dim}-D, size {size}"]
    traits += [f"step {far}", f"{noise}, step {far}", f"size {size}, step {far}"]
    if inference.drift.weights[_SMOOTH].sum(axis=0).max() > 0.5:
        traits.append("smooth drift")
    if inference.rate.weights[_CONSTANT].sum(axis=0).min() > 0.5:
        traits += ["constant g", f"size {size}, constant g"]
    if doubts.has_hidden:
        traits.append("hidden g")
    strain = int(np.searchsorted(STRAINS, doubts.strain))
    turn = int(np.searchsorted(TURNS, doubts.turn))
    traits += [f"strain {strain}", f"size {size}, strain {strain}", f"turn {turn}", f"{noise}, turn {turn}"]
    return tuple(traits)


def spread_of(inference: Inference, doubts: Doubts = NO_DOUBTS) -> Spread:
    """The factors of a data set: products over its traits."""
    traits = traits_of(inference, doubts)
    found = {
        part: float(np.prod([table.get(trait, 1.0) for trait in traits])) for part, table in installed_table().items()
    }
    return Spread(**{part: float(np.clip(value, SMALLEST, LARGEST)) for part, value in found.items()})


@lru_cache(maxsize=1)
def installed_table() -> dict[str, dict[str, float]]:
    """Factors of traits, for every part."""
    factors = json.loads(FILE.read_text())["factors"]
    return {part: {trait: float(value) for trait, value in factors[part].items()} for part in PARTS}
