"""The data themselves: how many, how noisy, how far apart, how finely read, and single wrong readings."""

import numpy as np
from scipy.ndimage import median_filter

from fimsde.analysis.diagnosis.case import Case
from fimsde.analysis.diagnosis.sizes import cells
from fimsde.analysis.diagnosis.verdict import Status, Verdict
from fimsde.data.observations import Observations
from fimsde.filter.kalman import Innovations, flow_around, run_filter
from fimsde.shapes import Array, Float64, Int

_FEW, _VERY_FEW = 128, 64  # transitions: the smallest context of the paper's training, and half of it
# of the variance of the state: what the noise adds in one gap. Nothing is left of where the state was; by hand
_FAR_APART = 0.95
_LOUD = 0.5  # of the variance of a component: noise from which more is read of the instrument than of the state
_COARSE, _VERY_COARSE = 1.0, 4.0  # resolution over the deviation of a step: rounding is 0.3 of it, or more; by hand
_SAME = 1e-6  # of a resolution: how far values may be from its multiples; by hand: numbers of seven digits
# robust deviations from what is expected: no normal record is long enough to show one; and of the one after it, once
# the wrong one is left out: after a jump that large it is 5.7 away, give or take one
_WRONG, _NEAR = 8.0, 2.5
_AROUND = 10  # steps before and after with which a step is compared; by hand
_MOST_NAMED = 5  # rows in a sentence; by hand


def amount(obs: Observations) -> Verdict:
    """Number of transitions."""
    n = obs.num_transitions
    status: Status = "bad" if n < _VERY_FEW else "caution" if n < _FEW else "good"
    sentence = f"{n} transitions in {obs.num_paths} path(s)."
    advice = f"Fewer than {_FEW} say little: record longer, or more paths." if status != "good" else ""
    return Verdict("amount of data", status, float(n), sentence, advice, "data")


def measurement_noise(case: Case) -> Verdict:
    """What the filter accounts for."""
    std, names = case.noise.std, case.names
    p = float(case.noise.p_value.min()) if case.noise.p_value is not None else None
    if not std.any():
        return Verdict("measurement noise", "good", 0.0, "the data show none.", "", "data", p)
    share = std**2 / np.maximum(case.observations.values.var(axis=0), 1e-300)
    worst = int(np.argmax(share))
    shown = ", ".join(f"{s:.2g} of {name}" for s, name in zip(std.tolist(), names, strict=True) if s > 0)
    loud = share[worst] > _LOUD
    sentence = f"measurement noise of {shown} (standard deviation), accounted for."
    advice = f"{share[worst]:.0%} of the variance of {names[worst]} are noise: record longer." if loud else ""
    return Verdict("measurement noise", "caution" if loud else "good", float(std[worst]), sentence, advice, "data", p)


def sampling_interval(case: Case) -> Verdict:
    """Share of the variance of the state that is new after one gap."""
    new = np.median(np.diagonal(case.found.steps.covariance, axis1=1, axis2=2), axis=0)
    state = np.maximum(case.observations.values.var(axis=0) - case.noise.std**2, 1e-300)
    share = np.divide(new, state, out=np.ones_like(new), where=new < state)
    j = int(np.argmax(share))
    far = share[j] > _FAR_APART
    sentence = f"after one gap {1 - share[j]:.0%} of the variance of {case.names[j]} are still known."
    advice = "Observations are too far apart to tell drift from noise: observe more often." if far else ""
    return Verdict("sampling interval", "caution" if far else "good", float(share[j]), sentence, advice, "data")


def resolution(case: Case) -> Verdict:
    """Smallest difference of values, if all are multiples of it, against a step."""
    y = case.observations.values
    sizes = np.array([resolution_of(column) for column in y.T])
    step = np.sqrt(np.mean(np.diagonal(case.found.steps.covariance, axis1=1, axis2=2), axis=0))
    share = sizes / step
    j = int(np.argmax(share))
    status: Status = "bad" if share[j] > _VERY_COARSE else "caution" if share[j] > _COARSE else "good"
    sentence = "values are read finely enough."
    if sizes[j] > 0:
        sentence = (
            f"{case.names[j]} is read in steps of {sizes[j]:.3g}, {share[j]:.2g} times what noise moves it in a gap."
        )
    advice = "Read the instrument more finely, or less often." if status != "good" else ""
    return Verdict("resolution", status, float(share[j]), sentence, advice, "data")


def resolution_of(values: Float64[Array, " n"]) -> float:
    """The step of which all values are multiples, up to an offset; 0 if there is none, or as many values as numbers."""
    distinct = np.unique(values)
    if len(distinct) < 2 or len(distinct) > len(values) / 2:
        return 0.0
    steps = np.diff(distinct)
    smallest = float(steps.min())
    off = np.abs(steps / smallest - np.round(steps / smallest))
    return smallest if float(off.max()) < max(_SAME, 1e-9 * float(np.abs(distinct).max()) / smallest) else 0.0


def wrong_readings(case: Case) -> Int[Array, " rows"]:
    """Numbers of observations that are far from what the equation expects, while the next ones are not without them."""
    suspects = _suspects(case.found)
    if not len(suspects):
        return suspects
    first = suspects[np.concatenate([[True], np.diff(suspects) > 1])]  # the way back from a wrong reading is long, too
    kept = without(case.observations, first)
    sde, std, scale = case.sde, case.noise.std, case.noise.scale
    again = run_filter(flow_around(sde, kept, kept.values), kept, std, scale)
    after = np.searchsorted(
        np.delete(np.arange(case.observations.num_points), first), first
    )  # the next row that is left
    far = set(_suspects(again, _NEAR).tolist())
    begins = set(kept.path_starts.tolist())
    return np.array(
        [r for r, nxt in zip(first.tolist(), after.tolist(), strict=True) if nxt not in far | begins], np.int64
    )


def _suspects(found: Innovations, far: float = _WRONG) -> Int[Array, " rows"]:
    """Numbers of observations whose innovation is large against others of all, of near and of recent states."""
    rows = np.delete(np.arange(found.path_starts[-1]), found.path_starts[:-1])
    cell, small = cells(found.state), np.abs(found.values)
    medians = np.stack([np.median(small[cell == k], axis=0) for k in range(int(cell.max()) + 1)])
    size = 1.4826 * np.maximum(np.median(small, axis=0), medians[cell])  # noise may live in some places only
    raw = np.abs(found.plain * found.std)
    near = np.stack([median_filter(column, 2 * _AROUND + 1, mode="nearest") for column in raw.T], axis=1)
    large = np.abs(found.values) > far * np.where(size > 0, size, np.inf)
    return rows[np.any(large & (raw > far * 1.4826 * near), axis=1)]  # also against the steps around it


def outliers(obs: Observations, rows: Int[Array, " rows"]) -> Verdict:
    """Single readings that neither neighbour supports."""
    if not len(rows):
        return Verdict("outliers", "good", 0.0, "no single reading is out of line.", "", "data")
    path = np.searchsorted(obs.path_starts, rows, side="right")
    places = [
        f"time {obs.times[r]:.6g}" + (f" of path {p}" if obs.num_paths > 1 else "")
        for r, p in zip(rows, path, strict=True)
    ]
    more = f" and {len(rows) - _MOST_NAMED} more" if len(rows) > _MOST_NAMED else ""
    sentence = (
        f"{len(rows)} single readings are out of line with both neighbours: {', '.join(places[:_MOST_NAMED])}{more}."
    )
    advice = "Leave these rows out and estimate again; the verdicts here are without them."
    return Verdict("outliers", "bad", float(len(rows)), sentence, advice, "data")


def without(obs: Observations, rows: Int[Array, " rows"]) -> Observations:
    """The observations without some of them."""
    if not len(rows):
        return obs
    kept = [np.setdiff1d(np.arange(a, b), rows) for a, b in zip(obs.path_starts[:-1], obs.path_starts[1:], strict=True)]
    return obs.as_paths([part for part in kept if len(part)])
