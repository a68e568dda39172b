"""All methods on one data set: how probable they make data they have not seen, how alike their paths are, how long.

A fifth of the data is held out: whole paths if there are enough, else the end of every path. Scores are for steps and
pieces of the held-out part only. A method that fails is listed with the reason and has no scores.
"""

import time
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from fimsde.data.observations import Observations
from fimsde.equations.sde import SDE
from fimsde.errors import ConfigError, DataWarning
from fimsde.filter.kalman import innovations, tabulated
from fimsde.filter.noise import fit_noise
from fimsde.methods import Method, find_method
from fimsde.metrics.likelihood import transition_likelihood
from fimsde.metrics.mmd import mmd
from fimsde.shapes import Array, Float64
from fimsde.simulate import simulate

DEFAULT = (
    *("evidence", "kramers-moyal", "kramers-moyal-binned", "bisde", "bisde-scaled", "sparsegp", "sparsegp-improved"),
    "ours",
)
_HELD_OUT = 0.2  # of the data: one of five folds, as in the paper's experiments on real series
_ENOUGH_PATHS = 10  # from here on whole paths are held out: a fifth of them are two
# by hand, bounds seconds; six can be swapped in 2^5 different ways, so that p-values below 5 % exist
_MOST_PIECES, _FEWEST_PIECES = 50, 6
_MOST_POINTS, _FEWEST_POINTS = 50, 5  # of a piece; by hand: bounds seconds, and a path of fewer points has no shape
_SUBSTEPS = 5  # of the simulation, per gap: those of the authors' code for real series


@dataclass(frozen=True)
class MethodScore:
    """What one method did.

    Attributes:
        method: Name of the method.
        title: Name for tables.
        likelihood: Mean log density of held-out observations given those before them, per step and component, in the
            units of the data; larger is better. Minus infinity if a step is impossible under the equation; None if the
            method failed.
        mmd: Squared discrepancy between held-out and simulated pieces of paths, about 0 for a perfect method; None if
            it failed, if simulated paths diverged, or if there are too few held-out data.
        p_value: Small values speak against the simulated paths.
        seconds: CPU time of the fit.
        failure: What went wrong; None if nothing did.
        noise_std: Measurement noise beside the equation, per component: the most likely for the data it was fitted to.
        num_impossible: Held-out steps that the equation excludes: its variance rate is negative or zero there, or so
            small that the step is more than 38 standard deviations away.
    """

    method: str
    title: str
    likelihood: float | None
    mmd: float | None
    p_value: float | None
    seconds: float
    failure: str | None
    num_impossible: int = 0
    noise_std: tuple[float, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """Scores of all methods, the best likelihood first, then those under which steps are impossible, failures last.

    Attributes:
        scores: One per method.
        num_held_out: Number of held-out steps.
        num_pieces: Number of held-out pieces of paths behind the discrepancies; 0 if there were too few data.
    """

    scores: tuple[MethodScore, ...]
    num_held_out: int
    num_pieces: int

    @property
    def num_failed(self) -> int:
        """Methods without an estimate, or whose simulated paths diverged."""
        return sum(score.failure is not None for score in self.scores)

    def __str__(self) -> str:
        likelihoods = [_likelihood(s) for s in self.scores]
        wide = max(map(len, ["likelihood", *likelihoods]))
        lines = [f"{'method':24} {'likelihood':>{wide}} {'MMD²':>10} {'p':>6} {'CPU s':>7}"]
        for s, likelihood in zip(self.scores, likelihoods, strict=True):
            numbers = (f"{likelihood:>{wide}}", _shown(s.mmd, "10.5f"), _shown(s.p_value, "6.3f"))
            reason = "" if s.failure is None else "  " + s.failure.splitlines()[0]
            lines.append(f"{s.title[:24]:24} {' '.join(numbers)} {s.seconds:7.2f}{reason}")
        return "\n".join([*lines, f"{self.num_held_out} held-out steps; {self.num_failed} failure(s)"])


def ranked(scores: Iterable[MethodScore]) -> tuple[MethodScore, ...]:
    """The best first: by likelihood, then by the number of impossible steps; failures last."""
    return tuple(sorted(scores, key=_rank))


def compare(observations: Observations, methods: Sequence[str | Method] | None = None, *, seed: int = 0) -> Comparison:
    """Fit every method to four fifths of the data and score it on the rest.

    Args:
        observations: What `fimsde.read` returns.
        methods: Names (see `fimsde.methods.NAMES`) or methods of your own; by default all that need neither
            training nor further packages.
        seed: Of the split, of fits and of simulations, which are the same for all methods.
    """
    chosen = [m if isinstance(m, Method) else find_method(m) for m in (DEFAULT if methods is None else methods)]
    if not chosen:
        raise ConfigError("no methods were given. Name at least one, or leave methods out for all.")
    kept, held_out = split(observations, seed)
    pieces = _pieces(held_out)
    scores = _with_one_noise([_score(method, kept, held_out, pieces, seed) for method in chosen])
    return Comparison(ranked(scores), held_out.num_transitions, 0 if pieces is None else len(pieces.values))


def _with_one_noise(scores: Sequence[MethodScore]) -> list[MethodScore]:
    """Noise is of the data, not of an equation: if the likeliest equation has none, none makes up for impossible steps.

    If it has some, no step is impossible.
    """
    best = max((s.likelihood for s in scores if s.likelihood is not None), default=None)
    is_noisy = any(any(s.noise_std) for s in scores if best is not None and s.likelihood == best)

    def judged(s: MethodScore) -> MethodScore:
        if not (s.num_impossible and any(s.noise_std)):
            return s
        if is_noisy:
            return replace(s, num_impossible=0)
        return replace(s, likelihood=-np.inf, noise_std=(0.0,) * len(s.noise_std))

    return [judged(s) for s in scores]


def split(observations: Observations, seed: int) -> tuple[Observations, Observations]:
    """The part to fit and the held-out part."""
    ends = observations.path_starts
    paths = [np.arange(start, stop) for start, stop in pairwise(ends)]
    if len(paths) >= _ENOUGH_PATHS:
        order = np.random.default_rng(seed).permutation(len(paths))
        num = max(1, round(_HELD_OUT * len(paths)))
        kept, held_out = ([paths[k] for k in np.sort(part)] for part in (order[num:], order[:num]))
    else:
        cuts = [int((1 - _HELD_OUT) * len(rows)) for rows in paths]
        kept = [rows[:cut] for rows, cut in zip(paths, cuts, strict=True) if cut >= 2]
        held_out = [rows[cut - 1 :] for rows, cut in zip(paths, cuts, strict=True) if cut >= 2]
    if not kept:
        raise ConfigError(f"{observations.num_points} observations are too few to hold a fifth of them out.")
    return observations.as_paths(kept), observations.as_paths(held_out)


@dataclass(frozen=True, eq=False)
class _Pieces:
    """Held-out pieces of paths with equally many points."""

    values: Float64[Array, "paths times dim"]
    times: Float64[Array, "paths times"]


def _pieces(held_out: Observations) -> _Pieces | None:
    """Neighbouring pieces, the longest for which there are enough; None if there are too few data."""
    sizes = np.diff(held_out.path_starts)
    for length in range(_MOST_POINTS, _FEWEST_POINTS - 1, -1):
        counts = sizes // length
        if counts.sum() >= _MOST_PIECES or (length == _FEWEST_POINTS and counts.sum() >= _FEWEST_PIECES):
            firsts = [s + length * i for s, c in zip(held_out.path_starts, counts, strict=False) for i in range(c)]
            rows = np.array(firsts)[:: -(-len(firsts) // _MOST_PIECES), None] + np.arange(length)
            return _Pieces(held_out.values[rows], held_out.times[rows])
    return None


def _score(
    method: Method, kept: Observations, held_out: Observations, pieces: _Pieces | None, seed: int
) -> MethodScore:
    before = time.process_time()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", DataWarning)  # held-out states may lie outside the others
        try:
            sde = method.fit(kept, seed)
        except ConfigError:
            raise
        except Exception as error:  # whatever a method raises is a result: it failed on these data
            seconds = time.process_time() - before
            return MethodScore(method.name, method.title, None, None, None, seconds, f"{type(error).__name__}: {error}")
        seconds = time.process_time() - before
        likelihood, num_impossible, noise = _likelihood_of(sde, kept, held_out)
        value, p_value, failure = (None, None, None) if pieces is None else _discrepancy(sde, pieces, kept, seed)
    return MethodScore(
        method.name, method.title, likelihood, value, p_value, seconds, failure, num_impossible, tuple(noise.tolist())
    )


def _likelihood_of(sde: SDE, kept: Observations, held_out: Observations) -> tuple[float, int, Float64[Array, " dim"]]:
    """Mean log density by a filter, number of impossible steps, and the measurement noise of the data that were fitted.

    Every equation is given the measurement noise that makes the data it was fitted to most likely: without it, the one
    that takes noise for diffusion would win on noisy data. Where there is none, a step may be impossible.
    """
    none = np.zeros(sde.dim)
    steps = transition_likelihood(sde, held_out)
    if steps.num_invalid or transition_likelihood(sde, kept).num_invalid:
        return -np.inf, max(steps.num_impossible, 1), none
    noise = fit_noise(tabulated(sde, kept), kept, scales=False).std
    if not noise.any() and steps.num_impossible:
        return -np.inf, steps.num_impossible, none
    found = innovations(tabulated(sde, held_out), held_out, noise)
    return float(found.likelihood.mean()) / sde.dim, steps.num_impossible, noise


def _discrepancy(
    sde: SDE, pieces: _Pieces, kept: Observations, seed: int
) -> tuple[float | None, float | None, str | None]:
    """MMD² in units of the spread of the data, its p-value, or what became of the simulated paths."""
    paths = simulate(sde, pieces.values[:, 0], pieces.times, substeps=_SUBSTEPS, seed=seed)
    if not paths.mask.all():
        lost = int(np.sum(~paths.mask.all(axis=1)))
        return None, None, f"{lost} of {len(paths.mask)} simulated paths diverged"
    offset, scale = kept.values.mean(axis=0), kept.values.std(axis=0)
    found = mmd((pieces.values - offset) / scale, (paths.values - offset) / scale, seed=seed)
    return found.unmatched, found.p_value, None


def _rank(score: MethodScore) -> tuple[bool, float, int]:
    return score.likelihood is None, -(score.likelihood or 0.0), score.num_impossible


def _likelihood(score: MethodScore) -> str:
    if score.num_impossible:
        return f"impossible ({score.num_impossible} step{'s' if score.num_impossible > 1 else ''})"
    return _shown(score.likelihood, "11.4f")


def _shown(number: float | None, spec: str) -> str:
    width = int(spec.split(".")[0])
    return f"{'-':>{width}}" if number is None else format(number, spec)
