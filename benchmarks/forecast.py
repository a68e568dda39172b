"""Forecasts on held-out data: CRPS of the estimated equation beside simple forecasts.

    python benchmarks/forecast.py [--seed 0] [--repetitions 3] [--store]

The first four fifths of a series are read; from states of the last fifth, forecasts 1, 10 and 50 observations ahead are
compared with what followed. Beside the equation: a random walk with drift, an autoregression (order by the Akaike
criterion, at most 10), and the climatology (the values of the first four fifths, which is what a seasonal forecast is
without seasons). Scores are divided by those of the random walk: below 1 is better. Simulated series are made anew for
each seed; real ones are those of `fimsde.datasets` that are installed.
"""

import argparse
import warnings

import numpy as np
from record import store

import fimsde
from fimsde.errors import DataWarning
from fimsde.metrics.crps import crps
from fimsde.systems.canonical import CANONICAL, context

AHEAD = (1, 10, 50)
MEMBERS, ORIGINS, MOST_ORDER, DRAWS = 200, 60, 10, 20
SYSTEMS = [s for s in CANONICAL if s.dim == 1][:2] + [s for s in CANONICAL if s.dim == 2][:2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--store", action="store_true", help="keep the numbers for the pages (make tables)")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    rows = []
    for name, series in all_series(options.seed, options.repetitions):
        found = np.mean([scores(obs, options.seed) for obs in series], axis=0)  # (methods, ahead)
        ratios = found / found[0]
        rows.append({"series": name, "ratios": dict(zip(METHODS, ratios.tolist(), strict=True))})
        cells = "   ".join(f"{m} " + " ".join(f"{r:.2f}" for r in ratios[k]) for k, m in enumerate(METHODS))
        print(f"{name:28s}{cells}", flush=True)
    if options.store:
        store("forecast", {"ahead": AHEAD, "rows": rows, "repetitions": options.repetitions})


def all_series(seed, repetitions):
    """Names and repetitions of every series."""
    for system in SYSTEMS:
        yield system.title, [context(system, length=2500, stride=10, seed=seed + 1000 * k) for k in range(repetitions)]
    for name in ("vix", "exchange-rate", "treasury-rate", "el-nino", "sunspots", "co2"):
        try:
            yield name, [fimsde.datasets.load(name)]
        except fimsde.FimsdeError as error:
            print(f"{name}: {error}")


def scores(obs, seed):
    """Mean CRPS over held-out starts and components (in standard deviations): methods by steps ahead."""
    values = obs.values / obs.values.std(axis=0)
    cut = int(0.8 * len(values))
    train = fimsde.read(values[:cut], times=obs.times[:cut])
    starts = np.unique(np.linspace(cut, len(values) - max(AHEAD) - 1, ORIGINS).astype(int))
    rng = np.random.default_rng([seed, 7])
    drawn = [method(train, values, obs.times, starts, rng) for method in METHODS.values()]
    truth = np.stack([values[starts + h] for h in AHEAD], axis=1)  # (starts, ahead, dim)
    return [crps(np.moveaxis(d, 1, -1), truth).mean(axis=(0, 2)) for d in drawn]


def random_walk(train, values, times, starts, rng):
    """x + h m + sqrt(h) s z."""
    steps = np.diff(train.values, axis=0)
    z = rng.standard_normal((len(starts), MEMBERS, len(AHEAD), train.dim))
    ahead = np.array(AHEAD)[:, None]
    return values[starts][:, None, None] + ahead * steps.mean(axis=0) + np.sqrt(ahead) * steps.std(axis=0) * z


def autoregression(train, values, times, starts, rng):
    """x_t = c + a_1 x_t-1 + ... + a_p x_t-p + s z, each component by itself."""
    made = []
    for j in range(train.dim):
        coefficients, spread, order = fit_autoregression(train.values[:, j])
        past = np.stack([values[starts - k, j] for k in range(order)], axis=-1)  # newest first
        state = np.repeat(past[:, None], MEMBERS, axis=1)  # (starts, members, order)
        kept = []
        for _ in range(max(AHEAD)):
            new = coefficients[0] + state @ coefficients[1:] + spread * rng.standard_normal(state.shape[:2])
            state = np.concatenate([new[..., None], state[..., :-1]], axis=-1)
            kept.append(new)
        made.append(np.stack([kept[h - 1] for h in AHEAD], axis=-1))
    return np.stack(made, axis=-1)


def fit_autoregression(x):
    """Coefficients, spread and order by least squares and the Akaike criterion."""
    best = None
    for order in range(1, MOST_ORDER + 1):
        rows = np.column_stack([np.ones(len(x) - MOST_ORDER)] + [x[MOST_ORDER - k : -k] for k in range(1, order + 1)])
        found = np.linalg.lstsq(rows, x[MOST_ORDER:], rcond=None)[0]
        spread = float(np.std(x[MOST_ORDER:] - rows @ found))
        criterion = len(rows) * np.log(spread**2) + 2 * (order + 2)
        if best is None or criterion < best[0]:
            best = criterion, found, spread, order
    return best[1:]


def climatology(train, values, times, starts, rng):
    """Any earlier state, whatever the time."""
    return train.values[rng.integers(len(train.values), size=(len(starts), MEMBERS, len(AHEAD)))]


def equation(train, values, times, starts, rng):
    """Paths of the estimated equation: of draws of its posterior, which take turns, as `forecast` has them."""
    draws = [sde.tabulate() for sde in fimsde.estimate(train).posterior(DRAWS)]
    made = np.empty((len(starts), MEMBERS, len(AHEAD), train.dim))
    for k, start in enumerate(starts):
        grid = times[start : start + max(AHEAD) + 1]
        begin = np.tile(values[start], (MEMBERS // DRAWS, 1))
        for i, sde in enumerate(draws):
            paths = fimsde.simulate(sde, begin, grid, substeps=4, seed=DRAWS * int(start) + i)
            made[k, i::DRAWS] = np.nan_to_num(paths.values[:, list(AHEAD)], nan=1e3)
    return made


METHODS = {
    "random walk": random_walk,
    "autoregression": autoregression,
    "climatology": climatology,
    "fimsde": equation,
}

if __name__ == "__main__":
    main()
