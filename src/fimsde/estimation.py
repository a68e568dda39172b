"""EstimatedSDE: observations and a recognition model become an equation in the units of the data."""

import copy
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fimsde.bank.bank import LEAST_NOISE, NOISE_DESCRIPTOR
from fimsde.data.degenerate import refuse_degenerate
from fimsde.data.normalise import Normaliser, fit_normaliser
from fimsde.data.observations import Observations
from fimsde.data.support import Support, fit_support
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import Fields
from fimsde.errors import DataWarning, InvalidObservationsError
from fimsde.model.fim import CHUNK, FIMSDE, Context
from fimsde.model.threads import threads_for
from fimsde.shapes import Array, Bool, Float, Float64

# transitions in the smallest context the published model was trained on: one path of the paper's prior
FEWEST_TRAINED = 128
_NO_ESTIMATE = (
    "the data give no finite estimate: they hold too few different states or steps to tell the terms of an equation "
    "apart. Add observations, or leave out components that hardly change."
)
METHOD = "FIM-SDE"
BUNDLED = Path(__file__).parent / "weights"  # the weights that come with the package


@dataclass(frozen=True, eq=False)
class EstimatedSDE:
    """The equation behind a data set as a recognition model reads it: dx = drift(x) dt + diag(diffusion(x)) dW, Ito.

    Locations are arrays (queries, dim) in the units of the data; results have the same shape. A primed model's fields
    are held constant along each axis farther outside the data than these are wide: powers of the state would only
    explode there.

    The data are read once, when the estimate is made; any number of queries follows, in bounded memory. The weights of
    `model` are shared, not copied: estimate again after training it.

    Attributes:
        num_transitions: Number of observed steps that were read.
        model: The model, in evaluation mode; its weights decide precision and device.
        context: What it remembers of the data.
        normaliser: From the units of the data to those of the model.
        support: Where data were.
        origin: Where the equation was expected to have few terms, in the units of the data; None if nothing was said.
        chunk: Locations evaluated at a time: bounds memory, does not change results.
    """

    num_transitions: int
    model: FIMSDE = field(repr=False)
    context: Context = field(repr=False)
    normaliser: Normaliser = field(repr=False)
    support: Support = field(repr=False)
    origin: Float64[Array, " dim"] | None = field(default=None, repr=False)
    chunk: int = field(default=CHUNK, repr=False)

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.normaliser.offset)

    @property
    def noise_std(self) -> Float64[Array, " dim"] | None:
        """sqrt(v): standard deviation of the measurement noise of each component, in the units of the data.

        As read from the data, 0 where they show none; None for a model that does not read it.
        """
        descriptors: Tensor | None = getattr(self.context.source, "descriptors", None)
        if descriptors is None:
            return None
        log_variance = descriptors[0, : self.dim, NOISE_DESCRIPTOR].double().numpy(force=True)
        variance = np.exp(log_variance) - LEAST_NOISE
        return self.normaliser.scale * np.sqrt(np.where(variance > LEAST_NOISE, variance, 0.0))

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f, state per time."""
        return self.normaliser.undo_drift(self._answers(self.model.drift, x)[:, : self.dim])

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Diffusion sqrt(g), state per square root of time."""
        return self.normaliser.undo_diffusion(self._answers(self.model.diffusion, x)[:, : self.dim])

    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        """Drift and diffusion at once, for simulation.

        NaN where x is not finite, and for a model that is not primed farther than 1e12 standard deviations away: a
        simulated path that gets there has diverged.
        """

        def both(context: Context, z: Tensor) -> Tensor:
            return torch.cat(self.model.evaluate(context, z), dim=-1)

        drift, diffusion = (part[:, : self.dim] for part in np.split(self._answers(both, x), 2, axis=1))
        return self.normaliser.undo_drift(drift), self.normaliser.undo_diffusion(diffusion)

    def uncertainty(self, x: Float[Array, "queries dim"]) -> Float64[Array, " queries"]:
        """The model's own uncertainty U: a log variance in normalised coordinates, for drift and diffusion together.

        Useful to compare locations: larger means less certain.
        """
        return self._answers(self.model.log_variance, x)

    def supports(self, x: Float[Array, "queries dim"]) -> Bool[Array, " queries"]:
        """True where data support the location; elsewhere drift and diffusion are extrapolated. See `Support`."""
        return self.support.contains(self._normalised(x))

    def _answers(
        self, question: Callable[[Context, Tensor], Tensor], x: Float[Array, "queries dim"]
    ) -> Float64[Array, "queries ..."]:
        """What the model says at each location, in normalised coordinates; NaN where it has no answer."""
        z = self._normalised(x)
        near = (np.isfinite(z) & (np.abs(z) <= self.context.limits.farthest)).all(axis=1)  # others need not be asked
        weight = next(self.model.parameters())
        largest = torch.finfo(weight.dtype).max  # finite places stay finite in the model's precision
        z = np.clip(z, -largest, largest)
        num = int(near.sum())
        padded = torch.zeros(
            1, max(num, 1), self.model.config.max_dim, dtype=weight.dtype
        )  # none asked: the shape of one
        padded[0, :num, : self.dim] = torch.from_numpy(z[near])  # the other components are exactly zero
        work = self.model.config.num_parameters * min(self.chunk, padded.shape[1])
        with torch.no_grad(), threads_for(work):
            parts = [question(self.context, part.to(weight.device)).cpu() for part in padded.split(self.chunk, dim=1)]
        found = torch.cat(parts, dim=1)[0, :num].double().numpy()
        answers = np.full((len(x), *found.shape[1:]), np.nan)
        answers[near] = found
        return answers

    def _normalised(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        with np.errstate(over="ignore", invalid="ignore"):  # a path on its way to infinity
            return self.normaliser.states(x)


def estimate_sde(
    observations: Observations,
    model: FIMSDE | str | Path | None = None,
    *,
    origin: Float[Array, " dim"] | Sequence[float] | None = None,
) -> EstimatedSDE:
    """The equation behind the observations, in their units; arguments as for `fimsde.estimate`."""
    if not isinstance(observations, Observations):
        raise InvalidObservationsError(
            f"observations are of type {type(observations).__name__}; expected Observations. Pass them through "
            "fimsde.read first: it takes arrays, tables and files."
        )
    model = bundled_model() if model is None else model
    model = _in_evaluation(model if isinstance(model, FIMSDE) else FIMSDE.from_pretrained(model))
    if observations.dim > model.config.max_dim:
        raise InvalidObservationsError(
            f"the observations have {observations.dim} components; this model reads at most {model.config.max_dim}. "
            "Choose some of them."
        )
    transitions = to_transitions(observations)
    refuse_degenerate(observations, transitions)
    if len(transitions) < FEWEST_TRAINED:
        warnings.warn(
            f"the observations make {len(transitions)} transitions; the model was trained on {FEWEST_TRAINED} and "
            "more. Expect a rough estimate, or add observations.",
            DataWarning,
            stacklevel=3,
        )
    normaliser = fit_normaliser(transitions, model.config.statistics, model.config.target_gap)
    normalised = normaliser.transitions(transitions)
    place = _to_origin(origin, normaliser, model)
    try:
        source = model.read([normalised], place)
    except np.linalg.LinAlgError:
        raise InvalidObservationsError(_NO_ESTIMATE) from None
    with torch.no_grad(), threads_for(model.config.num_parameters * source.mask.numel()):
        context = model.encode(source)
    _check_finite(context, normaliser)
    return EstimatedSDE(
        num_transitions=len(transitions),
        model=model,
        context=context,
        normaliser=normaliser,
        support=fit_support(normalised),
        origin=None if origin is None else np.array(origin, np.float64),
    )


def estimate_again(sde: EstimatedSDE, observations: Observations, seed: int) -> EstimatedSDE:
    """The same model on other data, with the same origin. Nothing is random, so the seed has no use."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # said when the data themselves were estimated
        return estimate_sde(observations, sde.model, origin=sde.origin)


def _to_origin(
    origin: Float[Array, " dim"] | Sequence[float] | None, normaliser: Normaliser, model: FIMSDE
) -> Float64[Array, " dim"] | None:
    """The origin in normalised coordinates."""
    if origin is None:
        return None
    place = np.asarray(origin, np.float64)
    if place.shape != normaliser.offset.shape or not np.isfinite(place).all():
        raise InvalidObservationsError(
            f"the origin has {place.size} numbers, {np.isfinite(place).sum()} of them finite; expected "
            f"{len(normaliser.offset)} finite numbers, one per component."
        )
    if not model.config.reader.uses_origin:
        raise InvalidObservationsError("an origin was given, but this model cannot use it; leave it out.")
    return normaliser.states(place[None])[0]


def _check_finite(context: Context, normaliser: Normaliser) -> None:
    """Refuse data that numbers of the model's precision cannot describe, whatever the reason."""
    ones = np.ones_like(normaliser.scale)
    with np.errstate(all="ignore"):
        units = np.concatenate([normaliser.undo_drift(ones), normaliser.undo_diffusion(ones)])
    if not (np.isfinite(units) & (units > 0)).all():
        raise InvalidObservationsError(
            f"changes of {normaliser.scale} over gaps of {1 / normaliser.time_scale:.3g} are rates that no float64 "
            "holds. Choose other units, e.g. with observations.with_units(scale=..., time_scale=...)."
        )
    parts = [context.encoded, *(getattr(context.source, f.name) for f in fields(context.source))]
    if not all(torch.isfinite(part).all() for part in parts):
        raise InvalidObservationsError(_NO_ESTIMATE)


@cache
def bundled_model() -> FIMSDE:
    """The model that comes with the package, read once."""
    return FIMSDE.from_pretrained(BUNDLED).eval()


def _in_evaluation(model: FIMSDE) -> FIMSDE:
    """The model without dropout: itself, or a twin that shares the weights, so that the caller's stays in training."""
    if not model.training:
        return model
    return copy.deepcopy(model, {id(weight): weight for weight in model.parameters()}).eval()
