"""Ensemble: equations drawn from the posterior, in the units of the data, evaluated together or one by one."""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from fimsde.data.normalise import Normaliser
from fimsde.equations.sde import Fields
from fimsde.evidence.doubts import Doubts
from fimsde.evidence.draws import CoefficientDraws, draw_coefficients, within
from fimsde.evidence.field_draws import FieldDraws
from fimsde.evidence.filter import Equation
from fimsde.evidence.frame import Frame
from fimsde.evidence.infer import Inference
from fimsde.evidence.levels import Levels
from fimsde.evidence.noise_draws import draw_noise
from fimsde.evidence.remainder_draws import add_remainders
from fimsde.evidence.slopes import rate_beside
from fimsde.evidence.spread import PLAIN, Spread, spread_of
from fimsde.shapes import Array, Float, Float64, Int

_DRIFT, _RATE, _NOISE, _BEYOND, _LEFT = range(5)  # purposes: each has random numbers of its own
_LEAST = 1e-3  # of what cannot be told from zero: draws stay positive, so that densities and exit times exist; by hand
_NEVER = 1e-100  # of the levels of draws: a mean level below it is none, and shares of it say nothing


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Equations dx = f_i dt + diag(sqrt(g_i)) dW, each a draw of drift, diffusion and noise from the posterior.

    A draw of g deviates from the mean m in proportion, m exp(u) with u = (g_i - m) / m, and in straight lines beyond
    u = -1 and u = 1: it is skewed as laws of variances are, and reaches zero at u = -2. Below the floor of the estimate
    data do not tell how small g is: there it is a share of the floor, another one in every draw. Fields are constant
    outside the box, as those of the estimate.

    Attributes:
        drifts, rates: Draws of f and g, normalised.
        noise: Draws of the variance of the measurement noise, normalised.
        rate: Coefficients of the mean of g.
        floor: Of g, normalised: what is smaller cannot be told from it.
        shares: Of the floor, where g is smaller.
        normaliser: From the units of the data to normalised coordinates.
        frame: From these to those of the inference, in which draws are.
        box: Corners beyond which fields are constant, normalised.
        spread: By which factors draws were spread.
    """

    drifts: FieldDraws = field(repr=False)
    rates: FieldDraws = field(repr=False)
    noise: Float64[Array, "draws dim"] = field(repr=False)
    rate: Float64[Array, "size dim"] = field(repr=False)
    floor: Float64[Array, " dim"] = field(repr=False)
    shares: Float64[Array, "draws dim"] = field(repr=False)
    normaliser: Normaliser = field(repr=False)
    frame: Frame = field(repr=False)
    box: Float64[Array, "2 dim"] = field(repr=False)
    spread: Spread = PLAIN

    def __len__(self) -> int:
        return len(self.drifts)

    @property
    def dim(self) -> int:
        """State dimension."""
        return len(self.floor)

    @property
    def noise_std(self) -> Float64[Array, "draws dim"]:
        """Standard deviation of the measurement noise in every draw, in the units of the data."""
        return self.normaliser.scale * np.sqrt(self.frame.undo_sizes(self.noise))

    def fields(self, x: Float[Array, "queries dim"]) -> tuple[Array, Array]:
        """Drift and diffusion of all draws at the same locations: two arrays (draws, queries, dim)."""
        z = self._held(x)
        return self._drift(self.drifts.at(z)), self._diffusion(z, self.rates.at(z), self.shares)

    def fields_own(self, x: Float[Array, "draws queries dim"]) -> tuple[Array, Array]:
        """Drift and diffusion of every draw at locations of its own."""
        z = self._held(x)
        return self._drift(self.drifts.at_own(z)), self._diffusion(z, self.rates.at_own(z), self.shares)

    def drift_own(self, x: Float[Array, "draws queries dim"]) -> Float64[Array, "draws queries dim"]:
        """Drift of every draw at locations of its own."""
        return self._drift(self.drifts.at_own(self._held(x)))

    def term_probabilities(
        self, which: Literal["drift", "rate"], exponents: Int[Array, "terms dim"], *, around_zero: bool
    ) -> Float64[Array, "dim terms"]:
        """Share of the draws with each monomial, of those that are polynomials; NaN if none is.

        Args:
            which: Drift or variance rate.
            exponents: Of the monomials, in the order of the components of the data.
            around_zero: Whether they are monomials of x itself, not of x - o.
        """
        field = self.drifts if which == "drift" else self.rates
        known, terms = field.basis.exponents, field.drawn.terms
        if not around_zero:
            terms = np.stack([within(known, terms[..., c]) for c in range(self.dim)], axis=-1)
        places = {tuple(e): k for k, e in enumerate(known.tolist())}
        out = np.zeros((self.dim, len(exponents)))
        for c in range(self.dim):
            polynomial = field.drawn.terms[:, :, c].any(axis=1)
            for t, e in enumerate(exponents[:, self.frame.order].tolist()):
                there = terms[polynomial, places[tuple(e)], c] if tuple(e) in places else np.zeros(polynomial.sum())
                out[c, t] = there.mean() if len(there) else np.nan
        return self.frame.undo_sizes(out.T).T

    def __getitem__(self, i: int) -> "DrawnSDE":
        if not -len(self) <= i < len(self):
            raise IndexError(f"draw {i} of {len(self)}")
        return DrawnSDE(self, i % len(self))

    @property
    def whole(self) -> tuple[float, float]:
        """By which bands of whole curves are wider than those that hold so many draws: drift and diffusion."""
        return self.spread.drift_whole / self.spread.drift, self.spread.rate_whole / self.spread.rate

    @property
    def least_diffusion(self) -> Float64[Array, " dim"]:
        """Smallest diffusion that the data can tell from none, per component."""
        return self.normaliser.undo_diffusion(np.sqrt(self.frame.undo_sizes(self.floor)))

    def _drift(self, f: Float64[Array, "*lead dim"]) -> Float64[Array, "*lead dim"]:
        return self.normaliser.undo_drift(self.frame.undo_states(f))

    def _diffusion(
        self,
        z: Float64[Array, "*lead dim"],
        g: Float64[Array, "draws queries dim"],
        shares: Float64[Array, "draws dim"],
    ) -> Float64[Array, "draws queries dim"]:
        mean = self.rates.basis.field(self.rate, z.reshape(-1, self.dim)).reshape(z.shape)
        mean = np.maximum(mean, self.floor)
        away = g / mean - 1.0
        positive = mean * _bent(away)
        positive = np.where(positive < self.floor, self.floor * shares[:, None], positive)
        return self.normaliser.undo_diffusion(np.sqrt(self.frame.undo_sizes(positive)))

    def _held(self, x: Float[Array, "*lead dim"]) -> Float64[Array, "*lead dim"]:
        return self.frame.states(np.clip(self.normaliser.states(np.asarray(x, np.float64)), *self.box))


@dataclass(frozen=True, eq=False)
class DrawnSDE:
    """One equation of an ensemble."""

    ensemble: Ensemble = field(repr=False)
    index: int

    @property
    def dim(self) -> int:
        """State dimension."""
        return self.ensemble.dim

    @property
    def noise_std(self) -> Float64[Array, " dim"]:
        """Standard deviation of the measurement noise in this draw."""
        return self.ensemble.noise_std[self.index]

    @cached_property
    def _parts(self) -> tuple[FieldDraws, FieldDraws]:
        both = self.ensemble.drifts, self.ensemble.rates
        return both[0].only(self.index), both[1].only(self.index)

    def drift(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Drift f, state per time."""
        held = self.ensemble._held(x)
        return self.ensemble._drift(self._parts[0].first(held))

    def diffusion(self, x: Float[Array, "queries dim"]) -> Float64[Array, "queries dim"]:
        """Diffusion sqrt(g), state per square root of time."""
        held = self.ensemble._held(x)
        g = self._parts[1].first(held)
        return self.ensemble._diffusion(held, g[None], self.ensemble.shares[self.index, None])[0]

    def fields(self, x: Float[Array, "queries dim"]) -> Fields:
        """Drift and diffusion at once; NaN where x is not finite."""
        with np.errstate(over="ignore", invalid="ignore"):  # a path on its way to infinity
            return self.drift(x), self.diffusion(x)


def draw_ensemble(
    inference: Inference,
    doubts: Doubts,
    normaliser: Normaliser,
    frame: Frame,
    box: Float64[Array, "2 dim"],
    num: int,
    seed: int,
) -> Ensemble:
    """Equations drawn from what was learnt, spread as calibration asks for; draw i is a function of (seed, i)."""
    equation, dim = inference.equation, len(inference.equation.floor)
    spread = spread_of(inference, doubts)
    fields = []
    parts = (inference.drift, equation.drift), (inference.rate, equation.rate)
    for purpose, (weighed, mean), factor in zip((_DRIFT, _RATE), parts, (spread.drift, spread.rate), strict=True):
        drawn = draw_coefficients(weighed, num, (seed, purpose))
        drawn = add_remainders(drawn, weighed, (seed, _LEFT, purpose))
        drawn = drawn.moved(mean - weighed.mean)  # where the estimate was kept from falling too fast
        drawn = drawn.spread(mean, factor)
        fields.append(FieldDraws.make(weighed.basis, drawn, (seed, _BEYOND, purpose)))
    chances = np.random.default_rng([seed, _NOISE]).random((num, dim, 3))
    noise, smaller = draw_noise(inference, fields[1].drawn.coefficients, chances[..., 1])
    fields[1].drawn.coefficients[:] = _times(fields[1].drawn.coefficients, equation.rate, smaller)
    for c in np.flatnonzero(~np.isfinite(inference.rate.weights).all(axis=0)).tolist():  # paths without any noise
        largest = max(float(equation.rate[0, c]), float(equation.floor[c]))
        _hold_constant(fields[1].drawn, c, _bent_back(largest * _LEAST ** chances[:, c, 0], largest))
    for c, law in enumerate(doubts.levels):
        if law is not None:
            level = law.draw(chances[:, c, 0], spread.rate)
            noise[:, c] = law.noise_beside(level)
            if law.is_hidden:
                _hold_constant(fields[1].drawn, c, _bent_back(level, law.median))
            else:
                _set_level(fields[1].drawn.coefficients[..., c], equation.rate[:, c], law, _away(level, law.median))
    _follow_slopes(fields, equation, doubts)
    shares = np.maximum(chances[..., 2], _LEAST)
    return Ensemble(fields[0], fields[1], noise, equation.rate, equation.floor, shares, normaliser, frame, box, spread)


def _follow_slopes(fields: list[FieldDraws], equation: Equation, doubts: Doubts) -> None:
    """Draws of g beside the drifts that they are drawn with; levels have the drift integrated out already."""
    if not len(doubts.places):
        return
    window = np.array(doubts.window)
    window[[law is not None for law in doubts.levels]] = 0.0
    drawn = fields[0].drawn.coefficients
    factor = rate_beside(fields[0].basis, drawn, equation.drift, doubts.places, window)
    fields[1].drawn.coefficients[:] = _times(fields[1].drawn.coefficients, equation.rate, factor)


def _times(
    drawn: Float64[Array, "draws size dim"], mean: Float64[Array, "size dim"], factor: Float64[Array, "draws dim"]
) -> Float64[Array, "draws size dim"]:
    """Coefficients of draws m _bent(g_i / m - 1) that are smaller by a factor where g_i = m."""
    return drawn + _away(factor, 1.0)[:, None] * mean


def _hold_constant(drawn: CoefficientDraws, c: int, level: Float64[Array, " draws"]) -> None:
    """Draws of a component that are the same everywhere."""
    drawn.coefficients[:, :, c], drawn.terms[:, :, c], drawn.size[:, c] = 0.0, False, 0.0
    drawn.coefficients[:, 0, c], drawn.terms[:, 0, c] = level, True


def _set_level(
    drawn: Float64[Array, "draws size"], mean: Float64[Array, " size"], law: Levels, away: Float64[Array, " draws"]
) -> None:
    """Draws whose level along the paths deviates by these shares from that of the mean, and by nothing else."""
    levels = drawn @ law.features
    least = max(_NEVER * float(np.abs(levels).max()), np.finfo(np.float64).tiny)
    own = levels / max(float(mean @ law.features), least) - 1.0
    drawn += np.outer(away - own, mean)


def _bent(away: Float64[Array, "..."]) -> Float64[Array, "..."]:
    """exp(u) for u between -1 and 1, its tangents beyond, and zero below -2."""
    near = np.clip(away, -1.0, 1.0)
    return np.maximum(np.exp(near) * (1.0 + away - near), 0.0)


def _bent_back(level: Float64[Array, " draws"], mean: float) -> Float64[Array, " draws"]:
    """g with mean * _bent(g / mean - 1) = level."""
    return mean * (1.0 + _away(level, mean))


def _away(level: Float64[Array, "..."], mean: float) -> Float64[Array, "..."]:
    """u with mean * _bent(u) = level."""
    ratio = level / mean
    near = np.clip(ratio, 1.0 / math.e, math.e)
    return np.log(near) + (ratio - near) / near
