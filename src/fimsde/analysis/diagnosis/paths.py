"""Are all paths those of one equation? Each path has a drift and a noise of its own, or not.

dx = (f(x) + a_path) dt + ...
"""

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from fimsde import distributions as stats
from fimsde.analysis.diagnosis.case import Case, responses, state_terms
from fimsde.analysis.diagnosis.sizes import unexplained
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict, chance
from fimsde.analysis.fixed_points import find, place
from fimsde.filter.kalman import Innovations
from fimsde.shapes import Array, Float64, Int

_MOST_NAMED = 6  # paths in a sentence; by hand
_FEWEST_REPLICATES = 5  # of which mean and variance are taken; by hand
_FEWEST_STEPS = 10  # of a path whose mean square counts; by hand: its law is then near enough to a normal one
# standard deviation of the drift between paths, as a share of the root mean square of the drift: less is no matter; by
# hand. For the noise: standard deviation of its logarithm
_VISIBLE = 0.1
_MOST_COMPONENTS = 2  # in which equilibria are looked for; by hand: a tenth of a second
_PER_SCORE = 0.85  # ln of a size that moves the mean normal score of sizes by one, near one: by simulation


def paths_alike(case: Case) -> Verdict:
    """Sums of innovations over each path: chi-square with a degree of freedom per path."""
    num = case.observations.num_paths
    if num < 2:
        return Verdict("paths alike", "good", float("nan"), "there is one path.", "", "class")
    drift_p, drift_scores, share = _drift_differences(case)
    noise_p, noise_scores, spread = _noise_differences(case)
    p = min(1.0, 2 * min(drift_p, noise_p))
    of_drift = drift_p <= noise_p
    size = share if of_drift else spread
    shown = p < FALSE_ALARM and size >= _VISIBLE
    scores = drift_scores if of_drift else noise_scores
    sentence = f"paths do not differ by more than chance, {chance(p, 2)}."
    if shown:
        what = "drift" if of_drift else "noise"
        sentence = f"paths differ in their {what}: {_which(scores)}; {chance(p)}."
    advice = "Estimate the groups apart (--by names the column that tells them), or one path at a time."
    wider = "dx = (f(x) + a) dt + ... with an a of each path" if shown and of_drift else ""
    if not shown and (apart := _never_met(case)):
        record = "Record until a path goes over, or estimate the groups apart."
        return Verdict("paths alike", "caution", size, apart, record, "class", p)
    status: Status = "bad" if shown else "good"
    return Verdict("paths alike", status, size, sentence, advice if shown else "", "class", p, wider)


def _never_met(case: Case) -> str:
    """Stable equilibria that have paths of their own, if no path is ever near two of them; else empty.

    Whether these are wells of one equation or subjects of several kinds is a question about what was not seen.
    """
    values = case.observations.values
    low, high = values.min(axis=0), values.max(axis=0)
    if values.shape[1] > _MOST_COMPONENTS:
        return ""
    points = [point for point in find(case.sde, low, high, case.inside) if point.is_stable and point.inside]
    if len(points) < 2:
        return ""
    places, spread = np.stack([point.x for point in points]), np.maximum(values.std(axis=0), 1e-300)
    nearest = cKDTree(places / spread).query(values / spread)[1]
    of_paths = [np.unique(part) for part in np.split(nearest, case.observations.path_starts[1:-1])]
    counts = np.bincount([int(own[0]) for own in of_paths], minlength=len(points))
    if any(len(own) > 1 for own in of_paths) or np.count_nonzero(counts) < 2:
        return ""
    where = [", ".join(place(x, high - low)) for x in places]
    groups = " and ".join(f"{n} near {x}" for n, x in zip(counts, where, strict=True) if n)
    return (
        f"no path goes from one stable equilibrium to another: {groups}. These may be wells of one equation or groups "
        "of subjects; the data cannot tell."
    )


def _drift_differences(case: Case) -> tuple[float, Float64[Array, " paths"], float]:
    """p-value over components, scores of the paths in the worst one, and the spread of their drifts."""
    num, dim = case.observations.num_paths, case.z.shape[1]
    worst: tuple[float, Float64[Array, " paths"], float] = (1.0, np.zeros(num), 0.0)
    for j in range(dim):
        found = _own_constants(case.found, j, num)
        chi_square, freedom = found.chi_square, float(max(int((found.size > 0).sum()) - 1, 1))
        p = min(1.0, dim * float(stats.chi2.sf(chi_square, freedom)))
        if p < FALSE_ALARM:  # the law of short paths, by the equation itself
            drawn = freedom * np.array([_of(again, j) for again in case.redrawn])
            p = min(1.0, dim * _chance(chi_square, freedom, drawn))
            chi_square *= freedom / max(float(drawn.mean()), freedom) if len(drawn) else 1.0
        if p <= worst[0]:
            excess = max(chi_square - freedom, 0.0) / max(float(found.size.sum()), 1e-300)  # variance of the drift
            drift = (case.found.steps.ahead - case.found.steps.start)[:, j] / case.found.dtau
            share = float(np.sqrt(excess / max(float(np.mean(drift**2)) + excess, 1e-300)))
            worst = (p, found.scores, share)
    return worst


@dataclass(frozen=True, eq=False)
class _Constants:
    """A constant in the drift of each path, beside terms in the state that are common to all.

    Attributes:
        chi_square: Wald's statistic that all constants are the same.
        scores: Each constant against the mean of all, over its standard error; common terms are those within paths.
        size: What the innovations of each path say about its constant: one over the variance.
    """

    chi_square: float
    scores: Float64[Array, " paths"]
    size: Float64[Array, " paths"]


def _own_constants(found: Innovations, j: int, num: int) -> _Constants:
    terms = state_terms(found.state, j)[:, : 1 + found.state.shape[1]]  # a path is too short to tell more of them
    response = responses(found, j, terms)
    path = np.repeat(found.path, response.shape[1])
    one, others = response[:, :, 0].ravel(), response[:, :, 1:].reshape(len(path), -1)
    z = found.values.ravel()
    size = np.bincount(path, one**2, num)
    within_z, within = (_within(part, one, path, size) for part in (z[:, None], others))
    coefficient = np.linalg.lstsq(within, within_z[:, 0], rcond=1e-10)[0]
    score = np.bincount(path, one * (z - others @ coefficient), num)
    shift = score.sum() / max(float(size.sum()), 1e-300)  # the mean of all paths is no difference
    scores = np.divide(score - shift * size, np.sqrt(size), out=np.zeros(num), where=size > 0)
    return _Constants(float(scores @ scores), scores, size)


def _within(
    columns: Float64[Array, "n terms"],
    one: Float64[Array, " n"],
    path: Int[Array, " n"],
    size: Float64[Array, " paths"],
) -> Float64[Array, "n terms"]:
    """Columns without what a constant of each path explains of them."""
    share = np.stack([np.bincount(path, one * column, len(size)) for column in columns.T], axis=1)
    mean = np.divide(share, size[:, None], out=np.zeros(share.shape), where=size[:, None] > 0)
    return columns - one[:, None] * mean[path]


def _of(found: Innovations, j: int) -> float:
    """The chi-square of another data set per degree of freedom; it may have fewer paths."""
    again = _own_constants(found, j, len(found.path_starts) - 1)
    return again.chi_square / max(int((again.size > 0).sum()) - 1, 1)


def _chance(chi_square: float, freedom: float, drawn: Float64[Array, " replicates"]) -> float:
    """P(a larger statistic), by the law that has the mean and the variance of replicates of the equation.

    Mean and variance of a chi-square are its degrees of freedom and twice these; it is never taken to be narrower than
    the limit law. That the mean is one of some replicates makes it Fisher's law.
    """
    if len(drawn) < _FEWEST_REPLICATES:
        return float(stats.chi2.sf(chi_square, freedom))
    mean, variance = max(float(drawn.mean()), freedom), max(float(drawn.var(ddof=1)), 1e-300)
    own = min(2 * mean**2 / variance, freedom)
    return float(stats.f.sf(chi_square / mean, own, own * len(drawn)))


def _noise_differences(case: Case) -> tuple[float, Float64[Array, " paths"], float]:
    """The same for sizes of innovations."""
    found, num, dim = case.found, case.observations.num_paths, case.z.shape[1]
    counts = np.bincount(found.path, minlength=num)
    long = counts >= _FEWEST_STEPS
    worst: tuple[float, Float64[Array, " paths"], float] = (1.0, np.zeros(num), 0.0)
    if long.sum() < 2:
        return worst
    for j in range(dim):
        if j in case.exact:
            continue
        # normal scores of sizes have the same law whatever the tails; what the state explains is no difference of paths
        ranks = (stats.rankdata(np.abs(case.z[:, j])) - 0.5) / len(case.z)
        scores = unexplained(stats.norm.ppf(ranks), found.state)
        total = np.bincount(found.path, scores, num)
        z = np.where(long, total / np.sqrt(np.maximum(counts, 1) * max(float(scores.var()), 1e-300)), 0.0)
        chi_square, freedom = float(z @ z), int(long.sum()) - 1
        p = min(1.0, dim * float(stats.chi2.sf(chi_square, freedom)))
        if p <= worst[0]:
            excess = max(chi_square - freedom, 0.0) * float(scores.var()) / max(int(counts[long].sum()), 1)
            worst = (p, z, float(np.sqrt(excess)) * _PER_SCORE)
    return worst


def _which(scores: Float64[Array, " paths"]) -> str:
    """The paths that stand out, counted from 1, or the two sides they fall into."""
    apart = np.flatnonzero(np.abs(scores) > stats.norm.isf(FALSE_ALARM / 2 / len(scores)))
    if 0 < len(apart) <= _MOST_NAMED:
        which = ", ".join(str(k + 1) for k in apart[np.argsort(-np.abs(scores[apart]))])
        return f"number {which} stands out" if len(apart) == 1 else f"numbers {which} stand out"
    sides = {"above": np.flatnonzero(scores > 0), "below": np.flatnonzero(scores <= 0)}
    few = min(sides, key=lambda side: len(sides[side]))
    which = ", ".join(str(k + 1) for k in sides[few])
    named = {side: f" ({which})" if side == few and len(own) <= _MOST_NAMED else "" for side, own in sides.items()}
    above, below = (f"{len(own)} lie {side} the common equation{named[side]}" for side, own in sides.items())
    return f"{above}, {below.replace(' lie', '').replace(' the common equation', '')}"
