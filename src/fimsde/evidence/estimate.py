"""PosteriorSDE: the equation behind a data set, as the average of all hypotheses, in the units of the data."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from fimsde.data.degenerate import refuse_degenerate
from fimsde.data.normalise import Normaliser, fit_normaliser
from fimsde.data.observations import Observations
from fimsde.data.support import Support, fit_support
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import Fields
from fimsde.errors import InvalidObservationsError
from fimsde.evidence.doubts import NO_DOUBTS, Doubts, doubts_about
from fimsde.evidence.ensemble import Ensemble, draw_ensemble
from fimsde.evidence.frame import Frame, choose_frame
from fimsde.evidence.hypotheses import DRIFT, RATE, Origin
from fimsde.evidence.infer import MOST_COMPONENTS, Inference, drift_beside, infer
from fimsde.shapes import Array, Bool, Float, Float64

# ranges of the data outside of them beyond which fields are constant, as for primed models: powers only explode there
_REACH = 1.0
_CLEAR = 20.0  # ratio of likelihoods that counts as strong evidence (Jeffreys; Kass and Raftery)


@dataclass(frozen=True)
class Settings:
    """How hypotheses are weighed.

    Attributes:
        origin: Where equations may have few terms. "auto": around the zero of your scale, or around an unknown place;
            None: around an unknown place, so that a shift of the data shifts the answer and changes nothing else; a
            state, in the units of the data: there.
    """

    origin: tuple[float, ...] | Literal["auto"] | None = "auto"


_NO_ESTIMATE = (
    "the data give no finite estimate: they hold too few different states or steps to tell the terms of an equation "
    "apart. Add observations, or leave out components that hardly change."
)
AUTO, STRICT = Settings(), Settings(None)
METHOD = "fimsde"  # in labels: this is the estimate of the package


@dataclass(frozen=True, eq=False)
class PosteriorSDE:
    """dx = drift(x) dt + diag(diffusion(x)) dW (Ito): posterior means over all hypotheses, in the units of the data.

    Locations are arrays (queries, dim); results have the same shape. Fields are held constant along each axis farther
    outside the data than these are wide.

    Attributes:
        inference: What was learnt, in normalised coordinates, its axes those of the frame.
        normaliser: From the units of the data to normalised coordinates.
        frame: From normalised coordinates to those of the inference.
        support: Where data were, normalised.
        box: Corners beyond which fields are constant, normalised.
        settings: How hypotheses were weighed.
        doubts: What its quadratic log likelihood does not say.
    """

    inference: Inference = field(repr=False)
    normaliser: Normaliser = field(repr=False)
    frame: Frame = field(repr=False)
    support: Support = field(repr=False)
    box: Float64[Array, "2 dim"] = field(repr=False)
    settings: Settings = AUTO
    doubts: Doubts = field(default=NO_DOUBTS, repr=False)

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.normaliser.offset)

    @property
    def noise_std(self) -> Float64[Array, " dim"]:
        """Standard deviation of the measurement noise, per component, in the units of the data; 0 if none was found."""
        return self.normaliser.scale * np.sqrt(self.frame.undo_sizes(self.inference.equation.noise))

    @property
    def probabilities(self) -> dict[str, dict[str, Float64[Array, " dim"]]]:
        """Probability of every hypothesis about drift and diffusion, per component."""
        found, back = self.inference, self.frame.undo_sizes
        return {
            "drift": dict(zip(DRIFT, back(found.drift.weights), strict=True)),
            "diffusion": dict(zip(RATE, back(found.rate.weights), strict=True)),
        }

    @property
    def has_drift(self) -> Bool[Array, " dim"]:
        """Whether the data are twenty times as likely with a drift as without, per component."""
        weighed = self.inference.drift
        ratio = weighed.log_evidence - weighed.evidence[DRIFT.index("none")]
        return self.frame.undo_sizes(ratio) > np.log(_CLEAR)

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f, state per time."""
        equation = self.inference.equation
        f = equation.drift_basis.field(equation.drift, self._held(x))
        return self.normaliser.undo_drift(self.frame.undo_states(f))

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Diffusion sqrt(g), state per square root of time."""
        equation = self.inference.equation
        g = np.maximum(equation.rate_basis.field(equation.rate, self._held(x)), equation.floor)
        return self.normaliser.undo_diffusion(np.sqrt(self.frame.undo_sizes(g)))

    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        """Drift and diffusion at once; NaN where x is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):  # a path on its way to infinity
            return self.drift(x), self.diffusion(x)

    def supports(self, x: Float[Array, "queries dim"]) -> Bool[Array, " queries"]:
        """True where data support the location; elsewhere drift and diffusion are extrapolated. See `Support`."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.support.contains(self.normaliser.states(np.asarray(x, np.float64)))

    def draws(self, num: int, seed: int = 0) -> Ensemble:
        """Equations drawn from the posterior; draw i is a function of (seed, i). See `Ensemble`."""
        return draw_ensemble(self.inference, self.doubts, self.normaliser, self.frame, self.box, num, seed)

    def _held(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Locations as the inference knows them, moved to the nearest place in the box."""
        return self.frame.states(np.clip(self.normaliser.states(np.asarray(x, np.float64)), *self.box))


def fit_again(sde: PosteriorSDE, observations: Observations, seed: int) -> PosteriorSDE:
    """The equation behind other data, in the same way."""
    return fit(observations, sde.settings, seed)


def fit(observations: Observations, settings: Settings = AUTO, seed: int = 0) -> PosteriorSDE:
    """The equation behind the observations. Nothing is random, so the seed has no use.

    Raises:
        InvalidObservationsError: If they have too many components, or cannot tell the terms of an equation apart.
    """
    if observations.dim > MOST_COMPONENTS:
        raise InvalidObservationsError(
            f"the observations have {observations.dim} components; hypotheses are known for at most {MOST_COMPONENTS}. "
            "Choose some of them."
        )
    transitions = to_transitions(observations)
    refuse_degenerate(observations, transitions)
    normaliser = fit_normaliser(transitions)
    normalised = normaliser.transitions(transitions)
    frame = choose_frame(normalised)
    place = _place(settings, observations.dim)
    there = None if place is None else frame.states(normaliser.states(place[None]))[0]
    framed = frame.transitions(normalised)
    try:
        origin = Origin(there, is_sure=isinstance(settings.origin, tuple))
        found = infer(framed, origin)
        doubts, other = doubts_about(framed, found)
        if other is not None:
            found = drift_beside(framed, origin, found, other)
    except np.linalg.LinAlgError:
        raise InvalidObservationsError(_NO_ESTIMATE) from None
    _check_finite(found.equation.drift, found.equation.rate, found.equation.noise)
    low, high = normalised.y.min(axis=0), normalised.y.max(axis=0)
    box = np.stack([low - _REACH * (high - low), high + _REACH * (high - low)])
    return PosteriorSDE(found, normaliser, frame, fit_support(normalised), box, settings, doubts)


def _place(settings: Settings, dim: int) -> Float64[Array, " dim"] | None:
    """The state that may be special; None if it is unknown."""
    if settings.origin is None:
        return None
    place = np.zeros(dim) if settings.origin == "auto" else np.array(settings.origin, np.float64)
    if place.shape != (dim,) or not np.isfinite(place).all():
        raise InvalidObservationsError(
            f"the origin has {place.size} numbers, {np.isfinite(place).sum()} of them finite; expected {dim} finite "
            "numbers, one per component."
        )
    return place


def _check_finite(*parts: Float64[Array, "..."] | Sequence[float]) -> None:
    if not all(np.isfinite(part).all() for part in parts):
        raise InvalidObservationsError(_NO_ESTIMATE)
