"""Is a gain on held-out data more than chance? The gain with its standard error, paired and along time."""

from dataclasses import dataclass

import numpy as np

from fimsde.shapes import Array, Float64, Int

# of windows in a row; neighbours in time are alike, stretches hardly. The chances beside `FinetuneConfig.min_z` count
# on it: Student's t with 19 degrees of freedom is above 3 with chance 0.0037, times eleven judgements 4 %.
_STRETCHES = 20
_LARGEST = 1.0  # gain per unit of a window's count that is believed, in nats or normalised squared units; by hand


@dataclass(frozen=True)
class Gain:
    """By how much a loss falls.

    Attributes:
        mean: Loss before minus loss after, where no single window counts for more than one.
        error: Standard error of that; infinite if there is too little to tell.
    """

    mean: float
    error: float

    def is_proven(self, min_z: float) -> bool:
        """Whether the gain is positive, and more than `min_z` standard errors."""
        return self.mean > 0 and self.mean > min_z * self.error


def paired_gain(
    before: Float64[Array, " windows"], after: Float64[Array, " windows"], counts: Int[Array, " windows"]
) -> Gain:
    """The gain in mean loss from one model to another on the same windows, which are in the order of time.

    Differences are added up over twenty stretches of windows, and the error is that of a ratio of means over
    stretches: what windows share with their neighbours does not make the gain look more certain than it is. Gains of a
    window are bounded, losses are not. So the mean is too small rather than too large, and a few windows with enormous
    gains do not hide behind their own spread.

    Args:
        before: Sums of losses in each window.
        after: Those of the other model.
        counts: What each window counts for.
    """
    with np.errstate(invalid="ignore"):
        falls = np.where(np.isfinite(after), before - after, -np.inf)
    falls = np.minimum(np.where(np.isnan(falls), np.inf, falls), _LARGEST * counts)
    if not np.isfinite(falls).all():
        return Gain(-np.inf, np.inf)
    number = min(_STRETCHES, len(counts))
    first = np.linspace(0, len(counts), number + 1)[:-1].astype(int)
    falls, sizes = (np.add.reduceat(values, first) for values in (falls, counts))
    mean = float(falls.sum() / sizes.sum())
    variance = number / max(number - 1, 1) * np.sum((falls - mean * sizes) ** 2)
    return Gain(mean, float(np.sqrt(variance) / sizes.sum()) if number > 1 else np.inf)
