"""Valid tables never crash and never give silent NaN: random ones, and one test for every mistake that was made.

The random tables here are the first ones of `make fuzz`.
"""

import numpy as np
import pytest
from scipy import sparse

import fimsde
from fimsde.analysis import potential
from fimsde.analysis.band import make_band
from fimsde.analysis.generator import factorise
from fimsde.analysis.residuals import Residuals, autocorrelation, memory, non_normality, residuals
from fimsde.errors import ConfigError, DataWarning, InvalidObservationsError
from fimsde.filter.kalman import innovations
from fuzz import failure
from problems import OrnsteinUhlenbeck
from random_tables import random_table

TABLES = range(1, 17)


@pytest.mark.parametrize("seed", TABLES)
def test_a_random_table_is_refused_in_a_sentence_or_has_finite_answers(seed):
    _, trouble, outcome = failure(seed)
    assert trouble is None, f"{random_table(seed)}\n{trouble}"
    assert outcome


def test_the_random_tables_are_the_same_every_time_and_many_are_estimated():
    first, again = (random_table(7).frame() for _ in range(2))
    assert first.equals(again)
    tables = [random_table(seed) for seed in TABLES]
    assert len({kind for table in tables for kind in table.kinds}) > 15
    assert len({table.values.shape[1] for table in tables}) >= 3


def test_the_fuzz_notices_an_answer_that_is_not_finite(monkeypatch):
    monkeypatch.setattr(fimsde.Result, "diffusion", lambda self, x: np.full(np.shape(x), np.nan))
    _, trouble, _ = failure(1)
    assert trouble is not None
    assert "diffusion: " in trouble


def test_the_fuzz_notices_an_exception_of_another_library(monkeypatch):
    def broken(*args, **kwargs):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(fimsde.Result, "fixed_points", broken)
    _, trouble, _ = failure(1)
    assert trouble is not None
    assert "Singular matrix" in trouble


@pytest.mark.filterwarnings("ignore::fimsde.DataWarning")
def test_terms_that_no_noise_leaves_open_were_said_to_be_between_zero_and_zero():
    """Steps without noise, and products that vanish at all states: a standard error of zero, by which was divided."""
    equation = fimsde.estimate(random_table(10114).read()).equation()
    assert (equation.drift_terms.doubt.added_errors == 0).any()
    assert "between 0 and 0" not in str(equation)


def test_no_polynomial_above_a_floor_was_a_division_by_zero():
    assert failure(10878)[1] is None


def test_a_cell_that_no_path_leaves_crashed_the_solver():
    """A state at rest: the backward equation has a row of zeros."""
    with pytest.raises(InvalidObservationsError, match="parts of the box exchange no paths at all"):
        factorise(sparse.csc_matrix(np.diag([1.0, 0.0, 2.0])))
    assert failure(12051)[1] is None


def test_nodes_that_digits_do_not_tell_apart_were_an_error_of_the_integrator():
    brownian = fimsde.result(fimsde.FunctionSDE(1, lambda x: 0 * x, lambda x: 1 + 0 * x))
    with pytest.raises(ConfigError, match=r"41 nodes from 1\.0 to .* are no 41 different numbers"):
        brownian.potential((1.0, 1.0 + 20 * np.finfo(float).eps), num=41)
    assert failure(3057)[1] is None


def test_sizes_of_stored_answers_overflowed():
    assert failure(2294)[1] is None


def test_residuals_of_exactly_zero_had_an_infinite_logarithm():
    assert failure(11928)[1] is None


@pytest.mark.filterwarnings("ignore::fimsde.DataWarning")
@pytest.mark.parametrize("seed", [122, 238, 714])
def test_rounding_does_not_take_away_what_few_different_states_say_of_an_equation(seed):
    """Two-valued columns beside steep ones: precisions lost their sign, and averages over models were NaN."""
    observations = random_table(seed).read()
    assert np.isfinite(fimsde.estimate(observations).fields(observations.values)).all()


def walks(num_paths=1, num=200, dim=1, seed=0):
    return np.cumsum(np.random.default_rng(seed).standard_normal((num_paths, num, dim)), axis=1)


def test_a_dose_that_is_constant_within_each_track_is_named_and_offered_as_path_or_input():
    paths = [np.column_stack([walk, np.full(len(walk), float(k % 3))]) for k, walk in enumerate(walks(6, 50))]
    observations = fimsde.read(paths, dt=1.0, names=["size", "dose"])
    with pytest.raises(InvalidObservationsError, match=r"'dose' .* constant within each of the 6 paths.*path column"):
        fimsde.estimate(observations)


def test_a_sensor_in_celsius_fahrenheit_and_kelvin_is_refused_with_the_relation():
    celsius = 20 + walks()[0, :, 0]
    with pytest.raises(InvalidObservationsError, match=r"'F' .* exact linear function of 'C': F = 32 \+ 1\.8 C\."):
        fimsde.estimate(fimsde.read(np.column_stack([celsius, 1.8 * celsius + 32]), dt=1.0, names=["C", "F"]))
    three = np.column_stack([celsius, celsius + 273.15, walks(seed=1)[0, :, 0]])
    with pytest.raises(InvalidObservationsError, match=r"K = 273\.15 \+ 1 C\."):
        fimsde.estimate(fimsde.read(three, dt=1.0, names=["C", "K", "other"]))


def test_what_is_left_of_a_whole_is_refused_with_both_its_parts():
    s, i = 30 + np.abs(walks(dim=2)[0].T)
    observations = fimsde.read(np.column_stack([s, i, 1000 - s - i]), dt=1.0, names=["S", "I", "R"])
    with pytest.raises(InvalidObservationsError, match=r"'S' and 'I': R = 1000 - 1 S - 1 I"):
        fimsde.estimate(observations)


@pytest.mark.parametrize("scale", [1e-60, 1.0, 1e60])
def test_a_relation_is_seen_in_any_unit_and_in_float32(scale):
    x = walks()[0, :, 0]
    for dtype in (np.float64, np.float32):
        if dtype == np.float32 and scale != 1:
            continue
        both = (scale * np.column_stack([x, 3 * x - 5])).astype(dtype)
        with pytest.raises(InvalidObservationsError, match="exact linear function"):
            fimsde.estimate(fimsde.read(both, dt=1.0))


@pytest.mark.parametrize("share", [1e-8, 1e-2])
def test_a_component_with_a_little_noise_of_its_own_is_not_refused(share):
    x = walks()[0, :, 0]
    own = share * np.random.default_rng(1).standard_normal(len(x))
    sde = fimsde.estimate(fimsde.read(np.column_stack([x, x + own]), dt=1.0))
    assert np.isfinite(sde.fields(sde.observations.values)).all()


@pytest.mark.parametrize(
    "column",
    [
        np.arange(200) >= 120,  # a setpoint changed once
        np.arange(200) // 50,  # a few times
        np.arange(200) % 2,
        np.round(walks()[0, :, 0]),
    ],
    ids=["setpoint", "staircase", "alternating", "quantised"],
)
def test_setpoints_and_quantised_columns_beside_a_state_give_finite_fields(column):
    observations = fimsde.read(np.column_stack([walks(seed=3)[0, :, 0], column.astype(float)]), dt=1.0)
    sde = fimsde.estimate(observations)
    drift, diffusion = sde.fields(observations.values)
    assert np.isfinite(drift).all()
    assert np.isfinite(diffusion).all()
    assert (diffusion >= 0).all()


def test_redraws_in_which_a_setpoint_does_not_change_are_skipped_counted_and_told_once():
    column = (np.arange(300) >= 150) * 1.0
    observations = fimsde.read(np.column_stack([walks(num=300)[0, :, 0], column]), dt=1.0)
    sde = fimsde.estimate(observations)
    x = observations.values[::50]
    with pytest.warns(DataWarning, match="of 8 redraws of the data could not be estimated"):
        band = sde.band(x, resamples=8, method="bootstrap")
    assert 0 < band.skipped <= 4
    assert band.resamples == 8
    assert np.isfinite([band.drift_low, band.drift_high, band.diffusion_low, band.diffusion_high]).all()
    assert sum(drawn is None for drawn in sde.resampled(8)) == band.skipped
    assert (
        sde.band(x, resamples=8, method="bootstrap").skipped == band.skipped
    )  # warnings are errors here: it is not said again


def test_a_band_of_too_few_redraws_is_refused():
    ou, x = OrnsteinUhlenbeck(), np.zeros((2, 1))
    with pytest.raises(InvalidObservationsError, match="3 of 5 redraws"):
        make_band([ou, None, None, None, ou], ou, x, 0.9, 20)
    assert make_band([ou, None, ou], ou, x, 0.9, 20).skipped == 1


def test_noisy_paths_too_short_for_averages_over_blocks_are_estimated():
    """25 paths of three points: neighbouring increments tell of noise, but there is no block to average over."""
    values = np.random.default_rng(0).standard_normal((60, 3, 1)) * [1.0] + np.arange(60)[:, None, None]
    observations = fimsde.read(values, dt=1.0)
    with pytest.warns(DataWarning, match="120 transitions"):
        read_by_a_model = fimsde.estimate(observations, "bundled")
    for sde in (read_by_a_model, fimsde.estimate(observations)):
        assert np.isfinite(sde.fields(observations.values)).all()


def test_short_paths_in_plenty_have_a_verdict_on_the_sampling_interval():
    """216 steps in 108 paths: none is left when every second observation goes."""
    values = np.random.default_rng(0).standard_normal((108, 3, 1))
    checks = fimsde.estimate(fimsde.read(values, dt=1.0)).check()
    assert checks["sampling interval"].status in ("good", "caution")


def test_an_exit_that_practically_never_happens_is_a_sentence():
    """The noise is so small against the drift to the middle that rates of leaving vanish in rounding."""
    steep = fimsde.result(fimsde.FunctionSDE(1, lambda x: -1e4 * x, lambda x: np.full_like(x, 0.01)))
    with pytest.raises(ConfigError, match=r"never leave|neither noise nor drift"):
        steep.exit_time((-1.0, 1.0), num_cells=100)


def test_a_quasi_potential_is_finite_where_the_density_is_no_float64(monkeypatch):
    monkeypatch.setattr(potential, "stationary_mass", lambda sde, cells: np.array([0.0, 0.5, 0.5, 0.0]))
    values = fimsde.result(OrnsteinUhlenbeck()).quasi_potential((-1.0, 1.0), num_cells=4).values
    assert np.isfinite(values).all()
    assert 700 < values.max() < 709


def test_residuals_that_are_all_alike_are_not_normal_and_no_division_by_zero():
    alike = Residuals(np.full((30, 1), 0.7), np.ones((30, 1)), np.arange(30) > 0)
    assert non_normality(alike).p_value == 0
    assert autocorrelation(alike).size == 0


def test_components_without_any_noise_have_residuals_no_surer_than_rounding():
    t = np.arange(300) * 0.01
    observations = fimsde.read(np.exp(-t), times=t)
    silent = fimsde.FunctionSDE(1, lambda x: 0 * x, np.zeros_like)
    found = residuals(innovations(silent, observations))
    assert np.abs(found.values).max() < 1e16  # an absolute floor made them 1e153, whose fourth powers overflow
    for evidence in (non_normality(found), memory(found), autocorrelation(found)):
        assert np.isfinite([evidence.size, evidence.p_value]).all()
