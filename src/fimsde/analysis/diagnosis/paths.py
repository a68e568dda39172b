"""Are all paths those of one equation? Each path has a drift and a noise of its own, or not.

dx = (f(x) + a_path) dt + ...
"""

from dataclasses import replace

import numpy as np
from scipy import stats

from fimsde.analysis.diagnosis.case import Case
from fimsde.analysis.diagnosis.verdict import FALSE_ALARM, Status, Verdict
from fimsde.analysis.replay import replay_on
from fimsde.filter.kalman import Innovations, flow_around, run_filter
from fimsde.shapes import Array, Float64, Int

_MOST_NAMED = 6  # paths in a sentence; by hand
_REPLICATES = 8  # data sets drawn from the equation, whose mean chi-square is the standard; by hand: known to 10 %
_FEWEST_STEPS = 10  # of a path whose mean square counts; by hand: its law is then near enough to a normal one
# standard deviation of the drift between paths, as a share of the root mean square of the drift: less is no matter; by
# hand. For the noise: standard deviation of its logarithm
_VISIBLE = 0.1


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
    sentence = f"paths do not differ by more than chance, p = {p:.2g}."
    if shown:
        what = "drift" if of_drift else "noise"
        sentence = f"paths differ in their {what}: {_which(scores)}; p = {p:.1g}."
    advice = "Estimate the groups apart (fimsde.read with a column less, or chosen paths), or one path at a time."
    wider = "dx = (f(x) + a) dt + ... with an a of each path" if shown and of_drift else ""
    status: Status = "bad" if shown else "good"
    return Verdict("paths alike", status, size, sentence, advice if shown else "", "class", p, wider)


def _drift_differences(case: Case) -> tuple[float, Float64[Array, " paths"], float]:
    """p-value over components, scores of the paths in the worst one, and the spread of their drifts.

    The score of a path is the sum of its innovations times what a constant further drift would add to each, over the
    root of the sum of squares: standard normal if the path is like the others.
    """
    num, dim = case.observations.num_paths, case.z.shape[1]
    worst: tuple[float, Float64[Array, " paths"], float] = (1.0, np.zeros(num), 0.0)
    for j in range(dim):
        z, size = _path_scores(case.found, j, num)
        chi_square, freedom = float(z @ z), int((size > 0).sum()) - 2
        p = min(1.0, dim * float(stats.chi2.sf(chi_square, max(freedom, 1))))
        if p < FALSE_ALARM:  # the law of short paths, by the equation itself
            chi_square /= _inflation(case, j, max(freedom, 1))
            p = min(1.0, dim * float(stats.chi2.sf(chi_square, max(freedom, 1))))
        if p <= worst[0]:
            excess = max(chi_square - freedom, 0.0) / max(float(size.sum()), 1e-300)  # variance of the drift
            drift = (case.found.steps.ahead - case.found.steps.start)[:, j] / case.found.dtau
            worst = (p, z, float(np.sqrt(excess / max(float(np.mean(drift**2)) + excess, 1e-300))))
    return worst


def _path_scores(found: Innovations, j: int, num: int) -> tuple[Float64[Array, " paths"], Float64[Array, " paths"]]:
    """Scores of a constant in the drift of each path, beside a constant and a slope common to all; and their sizes."""
    dim = found.values.shape[1]
    terms = np.zeros((len(found.dtau), dim, 2))
    terms[:, j, 0], terms[:, j, 1] = 1.0, found.state[:, j] - found.state[:, j].mean()
    response = found.response(terms)
    slope = response[:, :, 1] - response[:, :, 0] * _spread_out(response[:, :, 0], response[:, :, 1], found.path, num)
    b = float((slope * found.values).sum()) / max(float((slope**2).sum()), 1e-300)
    z = found.values - b * response[:, :, 1]
    score = _per_path((response[:, :, 0] * z).sum(axis=1), found.path, num)
    size = _per_path((response[:, :, 0] ** 2).sum(axis=1), found.path, num)
    shift = score.sum() / max(float(size.sum()), 1e-300)  # the mean of all paths is no difference
    return np.divide(score - shift * size, np.sqrt(size), out=np.zeros(num), where=size > 0), size


def _spread_out(
    one: Float64[Array, "n dim"], other: Float64[Array, "n dim"], path: Int[Array, " n"], num: int
) -> Float64[Array, "n 1"]:
    """Coefficient of one response in another, per path, at every step."""
    share = _per_path((one * other).sum(axis=1), path, num)
    size = _per_path((one**2).sum(axis=1), path, num)
    return np.divide(share, size, out=np.zeros(num), where=size > 0)[path][:, None]


def _inflation(case: Case, j: int, freedom: int) -> float:
    """Mean chi-square of data drawn from the equation, per degree of freedom: slopes of short paths are biased."""
    played = replay_on(case.sde, case.observations, case.noise.std, _REPLICATES, case.seed)
    found = []
    for values in played.values:
        if np.isfinite(values).all():
            obs = replace(played.observed, values=values)
            again = run_filter(flow_around(case.sde, obs, values), obs, case.noise.std, case.noise.scale)
            z, _ = _path_scores(again, j, obs.num_paths)
            found.append(float(z @ z) / max(min(freedom, obs.num_paths - 2), 1))
    return max(1.0, float(np.mean(found))) if found else 1.0


def _noise_differences(case: Case) -> tuple[float, Float64[Array, " paths"], float]:
    """The same for mean squares of innovations."""
    found, num, dim = case.found, case.observations.num_paths, case.z.shape[1]
    counts = np.bincount(found.path, minlength=num)
    long = counts >= _FEWEST_STEPS
    worst: tuple[float, Float64[Array, " paths"], float] = (1.0, np.zeros(num), 0.0)
    if long.sum() < 2:
        return worst
    for j in range(dim):
        if j in case.exact:
            continue
        squares = np.minimum(case.z[:, j] ** 2, 25.0)
        x = (found.state - found.state.mean(axis=0)) / np.maximum(found.state.std(axis=0), 1e-300)
        known = np.concatenate([np.ones((len(x), 1)), x, x**2, np.abs(x)], axis=1)
        mean_square = float(squares.mean())  # what the state explains is no difference of paths
        squares = squares - known @ np.linalg.lstsq(known, squares, rcond=None)[0] + mean_square
        variance = float(squares.var())
        mean = _per_path(squares, found.path, num) / np.maximum(counts, 1)
        common = float(mean[long] @ counts[long] / counts[long].sum())
        # the logarithm of a mean square is more nearly normal than the mean square
        z = np.where(
            long, np.log(np.maximum(mean, 1e-3) / common) * common * np.sqrt(counts / max(variance, 1e-300)), 0
        )
        chi_square, freedom = float(z @ z), int(long.sum()) - 1
        p = min(1.0, dim * float(stats.chi2.sf(chi_square, freedom)))
        if p <= worst[0]:
            excess = max(chi_square - freedom, 0.0) * variance / common**2 / max(int(counts[long].sum()), 1)
            worst = (p, z, float(np.sqrt(excess) / 2))
    return worst


def _per_path(values: Float64[Array, " n"], path: Int[Array, " n"], num: int) -> Float64[Array, " paths"]:
    return np.bincount(path, values, num)


def _which(scores: Float64[Array, " paths"]) -> str:
    """The paths that stand out, counted from 1, or the two sides they fall into."""
    apart = np.flatnonzero(np.abs(scores) > stats.norm.isf(FALSE_ALARM / 2 / len(scores)))
    if 0 < len(apart) <= _MOST_NAMED:
        return "number " + ", ".join(str(k + 1) for k in apart[np.argsort(-np.abs(scores[apart]))]) + " stand out"
    above = int(np.sum(scores > 0))
    return f"{above} lie above the common equation, {len(scores) - above} below"
