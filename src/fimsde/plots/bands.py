"""Which band goes with a figure."""

from dataclasses import dataclass

from fimsde.analysis.band import Band
from fimsde.results.result import Result
from fimsde.shapes import Array, Float64


@dataclass(frozen=True)
class BandSettings:
    """How bands are made; see `Result.band`."""

    level: float = 0.9  # share of the intervals that should cover the truth
    resamples: int = 50  # bootstrap resamples of the data; 0: no band
    seed: int = 0  # of the draws

    def of(self, result: Result, x: Float64[Array, "queries dim"]) -> Band | None:
        """The band at these locations; None for an equation that was not fitted, or if none is wanted."""
        if not (self.resamples and has_band(result)):
            return None
        return result.band(x, level=self.level, resamples=self.resamples, seed=self.seed)


def is_bootstrapped(result: Result) -> bool:
    """Whether the band is made by estimating again, rather than from a posterior of the estimator."""
    return has_band(result) and not result.has_posterior


def has_band(result: Result) -> bool:
    """Whether the equation has a posterior, or was fitted to data, so that it can be fitted again."""
    return result.has_posterior or (result.observations is not None and result.refit is not None)
