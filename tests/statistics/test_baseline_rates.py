"""Q1: errors of the baselines fall with the amount of data at the expected rate. Q2: BISDE finds the true terms.

Data are Euler chains observed at every step, so each estimator's model of an increment is exact and no discretisation
error hides the rate. Errors are root mean squares over states the process visits, for the drift f and for g.
"""

from functools import cache

import numpy as np
import pytest

from checks import check_slope, slope_interval
from fimsde.baselines import bisde, kramers_moyal, sparse_gp
from fimsde.baselines.kramers_moyal import BINNED, POLYNOMIAL, BinnedSettings
from fimsde.baselines.sparse_gp import SparseGPSettings
from fimsde.data.observations import read
from fimsde.equations.sde import FunctionSDE
from fimsde.results.make import estimate
from fimsde.simulate import simulate

GAP = 0.2
SIZES = (250, 1000, 4000, 16_000)
REPETITIONS = (
    32  # width of the slope intervals falls like 1/sqrt: 16 gave 0.53 for the polynomial fit, 0.45 is asked for
)
ROTATION = np.array([[-1.0, 1.0], [-1.0, -1.0]])
SYSTEMS = {
    "ornstein-uhlenbeck": FunctionSDE(1, lambda x: -1.5 * x, lambda x: np.full_like(x, 0.7)),
    "double-well": FunctionSDE(1, lambda x: x - x**3, lambda x: np.full_like(x, 0.8)),
    "rotation": FunctionSDE(2, lambda x: x @ ROTATION.T, lambda x: np.full_like(x, 0.7)),
}
ALL = pytest.mark.parametrize("system", SYSTEMS)


@cache
def data(system, size):
    """Independent paths; other sizes use other noise, so that errors of different sizes are independent too."""
    sde = SYSTEMS[system]
    return simulate(sde, np.zeros((REPETITIONS, sde.dim)), np.arange(size + 1) * GAP, seed=size).values


def errors(fit, system, sizes, repetitions=REPETITIONS):
    """One row per fitted path: number of transitions, error of f, error of g."""
    truth = SYSTEMS[system]
    x = data(system, SIZES[-1])[:, ::97].reshape(-1, truth.dim)
    rows = []
    for size in sizes:
        for path in data(system, size)[:repetitions]:
            sde = fit(read(path, dt=GAP))
            drift = sde.drift(x) - truth.drift(x)
            diffusion_sq = (
                np.nan_to_num(sde.diffusion(x)) ** 2 - truth.diffusion(x) ** 2
            )  # negative estimates count as 0
            rows.append((size, np.sqrt(np.mean(drift**2)), np.sqrt(np.mean(diffusion_sq**2))))
    return np.array(rows).T


def check_falls(sizes, error, rate=-0.5):
    """The interval of the slope excludes 0, and the slope is at least half of the rate.

    The second half is needed: an estimator stuck at its bias still shows a tiny slope while its noise dies out, and
    with enough repetitions that slope is significant."""
    slope, low, high = slope_interval(sizes, error)
    assert max(high, slope - rate / 2) < 0, f"slope {slope:.3f} ({low:.3f} to {high:.3f}) is no rate of {rate:.2f}"


@ALL
def test_polynomial_kramers_moyal_has_the_parametric_rate(system):
    """Slope -1/2. The interval holds it up to a false alarm of 1e-6, and is narrow at 0.999."""
    sizes, *found = errors(lambda o: kramers_moyal.fit(o, POLYNOMIAL), system, SIZES[1:])
    for error in found:
        _, low, high = slope_interval(sizes, error, confidence=1 - 1e-6)
        assert low < -0.5 < high
        _, low, high = slope_interval(sizes, error)
        assert high - low < 0.45


@ALL
def test_binned_kramers_moyal_has_the_rate_of_a_step_function(system):
    """Width n^(-1 / (dim + 2)) balances bias and noise; the error falls like the width. The tolerance is for the box of
    the data, which widens slowly with n."""
    sizes, drift, diffusion_sq = errors(lambda o: kramers_moyal.fit(o, BINNED), system, SIZES)
    rate = -1 / (SYSTEMS[system].dim + 2)
    check_slope(sizes, drift, rate, tolerance=0.06)
    check_falls(sizes, drift, rate)
    check_falls(sizes, diffusion_sq, rate)


def test_that_check_notices_an_estimator_that_does_not_learn():
    """A single bin cannot follow the drift, however much data there are."""
    sizes, drift, _ = errors(
        lambda o: kramers_moyal.fit(o, BinnedSettings(num_bins=1)), "ornstein-uhlenbeck", SIZES[1:]
    )
    with pytest.raises(AssertionError, match="is no rate of"):
        check_falls(sizes, drift)
    with pytest.raises(AssertionError, match=r"expected -0\.33"):
        check_slope(sizes, drift, -1 / 3, tolerance=0.06)


def test_bisde_improves_with_data():
    """No theory for the slope: once the terms are right it is -1/2, and the terms get right on the way."""
    sizes, *found = errors(bisde.fit, "ornstein-uhlenbeck", SIZES, repetitions=12)
    for error in found:
        check_falls(sizes, error)


@pytest.mark.slow
@pytest.mark.parametrize("system", ["double-well", "rotation"])
def test_bisde_improves_with_data_on_the_other_systems(system):
    """Buys a cubic drift and two dimensions with sixteen functions."""
    sizes, *found = errors(bisde.fit, system, SIZES, repetitions=12)
    for error in found:
        check_falls(sizes, error)


def test_sparse_gp_improves_with_data():
    """The drift of one system, 16 repetitions: with 6 the interval was -0.47 ± 0.62, too wide to say anything."""
    sizes, drift, _ = errors(
        lambda o: sparse_gp.fit(o, SparseGPSettings(restarts=1)), "ornstein-uhlenbeck", SIZES[:3], repetitions=16
    )
    check_falls(sizes, drift)


@pytest.mark.slow
@ALL
def test_sparse_gp_improves_with_data_on_all_systems(system):
    """Buys the other two systems and the rate of g; a fit of 16000 transitions takes a second."""
    settings = SparseGPSettings(subtract_drift=True, restarts=1)
    sizes, drift, diffusion_sq = errors(lambda o: sparse_gp.fit(o, settings), system, SIZES, repetitions=16)
    check_falls(sizes, drift)
    check_falls(sizes, diffusion_sq)


@pytest.mark.parametrize(
    "system", ["ornstein-uhlenbeck", *(pytest.param(s, marks=pytest.mark.slow) for s in ("double-well", "rotation"))]
)
def test_the_bundled_model_improves_with_data(system):
    """No theory for the slope of a model with a prior, but the error of its drift falls. The slow cases buy a cubic
    drift and two dimensions.

    The gap is a tenth of the others': the model reads data as continuous in time, and here the Euler chain is close."""
    gap, sizes, truth = GAP / 10, (500, 2000, 8000), SYSTEMS[system]
    paths = simulate(truth, np.zeros((8, truth.dim)), np.arange(sum(sizes)) * gap, seed=17).values
    x = paths[:, ::1000].reshape(-1, truth.dim)
    rows = []
    for path in paths:
        for piece in np.split(path, np.cumsum(sizes)[:-1]):  # of one long path: nearly independent
            drift, _ = estimate(read(piece, dt=gap)).fields(x)
            rows.append((len(piece), np.sqrt(np.mean((drift - truth.drift(x)) ** 2))))
    check_falls(*np.array(rows).T)


# ---- Q2 ------------------------------------------------------------------------------------------------------------

# The case is chosen: of 14 equations tried with fresh noise, 5 were recovered in at least 95 of 100 paths, the others
# in 4 to 89 (docs/baselines.md has all of them). The noise used here was not used in choosing it.


def num_recovered(drift, diffusion_sq, gap, terms, num_paths, seed):
    """In how many paths of 20000 steps exactly these terms of f and g are found."""
    truth = FunctionSDE(1, drift, lambda x: np.sqrt(diffusion_sq(x)))
    paths = simulate(truth, np.zeros((num_paths, 1)), np.arange(20_001) * gap, seed=seed).values
    fits = [bisde.fit(read(path, dt=gap)) for path in paths]
    return sum(f.drift_field.support(("x",)) + f.diffusion_sq_field.support(("x",)) == terms for f in fits)


def test_bisde_finds_the_true_terms_of_a_well_posed_equation():
    """x covers a period of the sine, so that sin x, x and x³ can be told apart, and every coefficient is many standard
    errors away from the threshold 0.05."""
    terms = (("x", "sin(x)"), ("1", "sin(x)"))
    found = num_recovered(
        lambda x: 0.4 * np.sin(x) - 0.15 * x, lambda x: 0.3 + 0.15 * np.sin(x), 1.0, terms, num_paths=100, seed=7
    )
    assert found >= 95


def test_that_count_notices_an_equation_that_is_not_well_posed():
    """On the states of this double well sin x looks like a mixture of x and x³; about half of the paths are right."""
    terms = (("x", "x^3"), ("1",))
    found = num_recovered(lambda x: x - x**3, lambda x: np.full_like(x, 2.25), 0.1, terms, num_paths=30, seed=8)
    assert found < 0.95 * 30


X, ONE = ("x",), ("1",)
RECOVERY = {  # f, g, gap, terms of f and g, in how many of 100 paths they were found: the table in docs/baselines.md
    "-x; 4": (lambda x: -x, lambda x: 4 + 0 * x, 0.1, (X, ONE), 61),
    "1 - x; 4": (lambda x: 1 - x, lambda x: 4 + 0 * x, 0.1, (("1", "x"), ONE), 67),
    "2 sin x - x/2; 4": (lambda x: 2 * np.sin(x) - x / 2, lambda x: 4 + 0 * x, 0.1, (("x", "sin(x)"), ONE), 77),
    "x - x^3; 9/4": (lambda x: x - x**3, lambda x: 2.25 + 0 * x, 0.1, (("x", "x^3"), ONE), 53),
    "-x; 1 + x^2/2": (lambda x: -x, lambda x: 1 + x**2 / 2, 0.1, (X, ("1", "x^2")), 4),
    "-0.2x; 0.25": (lambda x: -0.2 * x, lambda x: 0.25 + 0 * x, 1.0, (X, ONE), 89),
    "0.2 - 0.2x; 0.25": (lambda x: 0.2 - 0.2 * x, lambda x: 0.25 + 0 * x, 1.0, (("1", "x"), ONE), 99),
    "-0.2x; 0.2 + 0.06x^2": (lambda x: -0.2 * x, lambda x: 0.2 + 0.06 * x**2, 1.0, (X, ("1", "x^2")), 49),
    "0.5 sin x - 0.2x; 0.25": (
        *(lambda x: 0.5 * np.sin(x) - 0.2 * x, lambda x: 0.25 + 0 * x, 1.0),
        *((("x", "sin(x)"), ONE), 100),
    ),
    "0.2 + 0.5 sin x - 0.2x; 0.25": (
        *(lambda x: 0.2 + 0.5 * np.sin(x) - 0.2 * x, lambda x: 0.25 + 0 * x, 1.0),
        *((("1", "x", "sin(x)"), ONE), 84),
    ),
    "0.4 sin x - 0.2x; 0.1 + 0.1x^2": (
        *(lambda x: 0.4 * np.sin(x) - 0.2 * x, lambda x: 0.1 + 0.1 * x**2, 1.0),
        *((("x", "sin(x)"), ("1", "x^2")), 85),
    ),
    "0.5 sin x - 0.2x; 0.36": (
        *(lambda x: 0.5 * np.sin(x) - 0.2 * x, lambda x: 0.36 + 0 * x, 1.0),
        *((("x", "sin(x)"), ONE), 100),
    ),
    "0.5 sin x - 0.2x; 0.3 + 0.15 sin x": (
        *(lambda x: 0.5 * np.sin(x) - 0.2 * x, lambda x: 0.3 + 0.15 * np.sin(x), 1.0),
        *((("x", "sin(x)"), ("1", "sin(x)")), 100),
    ),
    "0.4 sin x - 0.15x; 0.3 + 0.15 sin x": (
        *(lambda x: 0.4 * np.sin(x) - 0.15 * x, lambda x: 0.3 + 0.15 * np.sin(x), 1.0),
        *((("x", "sin(x)"), ("1", "sin(x)")), 100),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("equation", RECOVERY)
def test_how_often_bisde_recovers_each_equation(equation):
    """Buys the table in the documentation, misses included: most equations of the dictionary are not well posed."""
    drift, diffusion_sq, gap, terms, expected = RECOVERY[equation]
    assert abs(num_recovered(drift, diffusion_sq, gap, terms, num_paths=100, seed=20251) - expected) <= 3
