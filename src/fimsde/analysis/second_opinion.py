"""A second opinion on intervals: those of the posterior beside those of a bootstrap.

The posterior knows hypotheses and believes in them; a bootstrap knows none and asks how far the estimate moves when the
data are drawn again. Where both are right they overlap nearly everywhere, and their widths are of one size.
"""

from dataclasses import dataclass

import numpy as np

from fimsde.analysis.band import Band
from fimsde.shapes import Array, Bool, Float64

_APART = 0.1  # share of places at which intervals of 90 % may miss each other: where both are right hardly any do
_WIDER = 2.0  # times by which the typical width may differ; by hand: a bootstrap of few blocks varies by a third


@dataclass(frozen=True)
class SecondOpinion:
    """How intervals of the posterior and of the bootstrap compare at places where data are.

    Attributes:
        apart: Share of places at which they do not overlap: drift, diffusion.
        ratio: Median width of the bootstrap's over those of the posterior: drift, diffusion.
        sentence: What that means.
    """

    apart: tuple[float, float]
    ratio: tuple[float, float]
    sentence: str

    @property
    def agrees(self) -> bool:
        """Whether intervals overlap nearly everywhere, and the bootstrap's are not much wider."""
        return max(self.apart) <= _APART and max(self.ratio) <= _WIDER

    def __str__(self) -> str:
        return self.sentence


def compare_bands(posterior: Band, bootstrap: Band) -> SecondOpinion:
    """Both at the same places."""
    names = ("drift", "diffusion")
    pairs = [(_ends(posterior, name), _ends(bootstrap, name)) for name in names]
    apart = tuple(float(np.mean(_miss(*one, *other))) for one, other in pairs)
    ratio = tuple(float(np.median(_width(*other) / _width(*one))) for one, other in pairs)
    problems = []
    for name, share, wider in zip(names, apart, ratio, strict=True):
        if share > _APART:
            problems.append(f"intervals of the {name} miss each other at {share:.0%} of the places")
        elif wider > _WIDER:
            problems.append(f"the bootstrap's intervals of the {name} are {wider:.1f} times as wide")
    if problems:
        sentence = (
            f"Posterior and bootstrap disagree: {'; '.join(problems)}. Believe the wider one, and see the verdicts of "
            "check()."
        )
    else:
        sentence = "Posterior and bootstrap agree: their intervals overlap, and the bootstrap's are not much wider."
    return SecondOpinion((apart[0], apart[1]), (ratio[0], ratio[1]), sentence)


def _ends(band: Band, name: str) -> tuple[Array, Array]:
    return getattr(band, f"{name}_low"), getattr(band, f"{name}_high")


def _miss(low: Array, high: Array, other_low: Array, other_high: Array) -> Bool[Array, "places dim"]:
    return (other_low > high) | (other_high < low)


def _width(low: Array, high: Array) -> Float64[Array, "places dim"]:
    return np.maximum(high - low, np.finfo(np.float64).tiny)
