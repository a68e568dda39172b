"""The door for arrays: every way to hold the same numbers gives the same observations and leaves the source alone."""

import datetime
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch

from checks import check_same_observations
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.errors import DataWarning, InvalidObservationsError

# Whole numbers below 2048: exact in every type that holds numbers, float16 included.
PLAIN = np.random.default_rng(0).integers(-500, 500, (30, 2)).astype(np.float64)
HOURS = pd.date_range("2024-03-30 20:00", periods=30, freq="h")


def test_shapes_of_arrays_are_times_then_components_then_paths_in_front():
    one = read(PLAIN[:, 0], dt=0.5)
    two = read(PLAIN, dt=0.5)
    many = read(PLAIN.reshape(3, 10, 2), dt=0.5)
    assert (one.dim, one.num_paths, one.num_points, one.num_transitions) == (1, 1, 30, 29)
    assert (two.dim, two.num_paths, two.num_points, two.num_transitions) == (2, 1, 30, 29)
    assert (many.dim, many.num_paths, many.num_points, many.num_transitions) == (2, 3, 30, 27)
    np.testing.assert_array_equal(many.values, PLAIN)
    np.testing.assert_array_equal(many.path(2)[1], PLAIN[20:])
    np.testing.assert_array_equal(many.path(2)[0], 0.5 * np.arange(10))


def test_more_than_three_components_pass_the_door():
    assert read(np.random.default_rng(0).standard_normal((20, 5)), dt=1).dim == 5


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor, lambda a: a.tolist(), lambda a: pd.DataFrame(a)])
def test_a_list_of_unequal_paths_keeps_their_lengths(make):
    pieces = [PLAIN[:3], PLAIN[3:20], PLAIN[20:]]
    obs = read([make(p) for p in pieces], dt=1)
    np.testing.assert_array_equal(obs.path_starts, [0, 3, 20, 30])
    for k, piece in enumerate(pieces):
        np.testing.assert_array_equal(obs.path(k)[1], piece)


def test_a_list_of_equal_arrays_is_a_list_of_paths_and_nested_lists_are_an_array():
    assert read([PLAIN[:15], PLAIN[15:]], dt=1).num_paths == 2
    assert read(PLAIN.tolist(), dt=1).num_paths == 1
    assert read(PLAIN.reshape(3, 10, 2).tolist(), dt=1).num_paths == 3
    assert read([np.float64(v) for v in PLAIN[:, 0]], dt=1).num_paths == 1


def _read_only(a):
    a = a.copy()
    a.flags.writeable = False
    return a


HOLDERS = {
    "list": lambda a: a.tolist(),
    "tuple": lambda a: tuple(map(tuple, a.tolist())),
    "int64": lambda a: a.astype(np.int64),
    "int16": lambda a: a.astype(np.int16),
    "float16": lambda a: a.astype(np.float16),
    "float32": lambda a: a.astype(np.float32),
    "long double": lambda a: a.astype(np.longdouble),
    "big-endian float": lambda a: a.astype(">f8"),
    "big-endian integer": lambda a: a.astype(">i4"),
    "read-only": _read_only,
    "non-contiguous": lambda a: np.repeat(a, 2, axis=0)[::2],
    "reversed strides": lambda a: a[::-1].copy()[::-1],
    "Fortran order": np.asfortranarray,
    "objects": lambda a: a.astype(object),
    "masked array": np.ma.masked_array,
    "torch": torch.as_tensor,
    "torch float32 with grad": lambda a: torch.tensor(a, dtype=torch.float32, requires_grad=True),
    "torch bfloat16": lambda a: torch.tensor(a % 200, dtype=torch.bfloat16),
    "torch transposed": lambda a: torch.tensor(a.T.copy()).T,
    "pandas nullable": lambda a: pd.DataFrame(a, columns=["x1", "x2"]).astype("Float64"),
    "pandas nullable integer": lambda a: pd.DataFrame(a, columns=["x1", "x2"]).astype("Int32"),
    "pandas arrow": lambda a: pd.DataFrame(a, columns=["x1", "x2"]).astype("float64[pyarrow]"),
    "pandas float16": lambda a: pd.DataFrame(a, columns=["x1", "x2"]).astype(np.float16),
    "pandas big-endian": lambda a: pd.DataFrame(a.astype(">f8"), columns=["x1", "x2"]),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_the_same_numbers_give_the_same_observations_and_the_source_is_unchanged(name):
    plain = PLAIN % 200 if "bfloat16" in name else PLAIN
    source, untouched = HOLDERS[name](plain), HOLDERS[name](plain)
    obs = read(source, dt=0.25)
    check_same_observations(obs, read(plain, dt=0.25))
    obs.values[:] = -1.0  # the observations own their numbers
    obs.times[:] = -1.0
    if isinstance(source, torch.Tensor):
        source, untouched = source.detach().double(), untouched.detach().double()
    np.testing.assert_array_equal(np.asarray(source), np.asarray(untouched))


MISSING = [1.0, None, 4.0, 2.0, 7.0]
GAPPY_HOLDERS = {
    "nan": np.array(MISSING, dtype=float),
    "None in a list": MISSING,
    "masked array": np.ma.masked_array([1, 99, 4, 2, 7], mask=[0, 1, 0, 0, 0]),
    "pandas Float64": pd.Series(MISSING, dtype="Float64"),
    "pandas Int64": pd.Series(MISSING, dtype="Int64"),
    "pandas objects": pd.Series([1.0, pd.NA, 4.0, 2.0, 7.0], dtype=object),
}


@pytest.mark.parametrize("name", GAPPY_HOLDERS)
def test_every_spelling_of_missing_is_refused_with_its_index_or_dropped_on_request(name):
    with pytest.raises(InvalidObservationsError, match=r"no value .* at index 1, component 'x1'.*missing='drop'"):
        read(GAPPY_HOLDERS[name], dt=1)
    obs = read(GAPPY_HOLDERS[name], dt=1, missing="drop")
    np.testing.assert_array_equal(obs.values[:, 0], [1, 4, 2, 7])
    np.testing.assert_array_equal(obs.times, [0, 2, 3, 4])


def test_one_missing_component_drops_the_whole_observation_and_the_gap_is_one_longer_step():
    y = PLAIN.copy()
    y[7, 1] = np.nan
    steps = to_transitions(read(y, dt=0.5, missing="drop"))
    assert len(steps) == 28
    np.testing.assert_array_equal(steps.dtau, [0.5] * 6 + [1.0] + [0.5] * 21)
    np.testing.assert_array_equal(steps.dy[6], y[8] - y[6])


def test_a_mask_takes_observations_out_whatever_stands_there():
    y, times, mask = PLAIN.copy(), 0.5 * np.arange(30), np.ones(30, bool)
    mask[[0, 7, 8, 29]] = False
    y[~mask], times[~mask] = np.nan, -np.inf
    expected = read(PLAIN[mask], times=0.5 * np.arange(30)[mask])
    for m in (mask, mask.astype(int), mask[:, None], torch.as_tensor(mask), mask.tolist(), [mask]):
        check_same_observations(read(y, times=times, mask=m), expected)


def test_masked_padding_changes_nothing():
    lengths = [4, 10, 7]
    pieces = [PLAIN.reshape(3, 10, 2)[k, :n] for k, n in enumerate(lengths)]
    mask = np.arange(10) < np.array(lengths)[:, None]
    padded = np.where(mask[..., None], PLAIN.reshape(3, 10, 2), 1e300)
    check_same_observations(read(padded, dt=0.1, mask=mask), read(pieces, dt=0.1))
    check_same_observations(read(padded, dt=0.1, mask=mask[..., None]), read(pieces, dt=0.1))


def test_times_may_be_shared_or_per_path_in_any_holder():
    y, shared = PLAIN.reshape(3, 10, 2), np.cumsum(np.arange(1.0, 11.0))
    expected = read(y, times=shared)
    np.testing.assert_array_equal(expected.times, np.tile(shared, 3))
    rows = np.tile(shared, (3, 1))
    for times in (shared.tolist(), torch.as_tensor(shared), shared.astype(int), rows, rows[..., None], list(rows)):
        check_same_observations(read(y, times=times), expected)
    own = [[0.0, 1.0, 4.0], np.arange(17) * 0.1, torch.arange(10)]
    ragged = read([PLAIN[:3], PLAIN[3:20], PLAIN[20:]], times=own)
    np.testing.assert_array_equal(ragged.times, np.concatenate([np.asarray(t) for t in own]))


def test_times_keep_small_gaps_at_large_offsets():
    obs = read(PLAIN, times=1e6 + 0.002 * np.arange(30))
    np.testing.assert_allclose(to_transitions(obs).dtau, 0.002, rtol=1e-7)  # in float32 most would be zero


DATES = {
    "datetime64[ns]": HOURS.to_numpy().astype("datetime64[ns]"),
    "datetime64[s]": HOURS.to_numpy().astype("datetime64[s]"),
    "datetime64[15m]": HOURS.to_numpy().astype("datetime64[15m]"),
    "pandas index": HOURS,
    "pandas series": pd.Series(HOURS),
    "with time zone": HOURS.tz_localize("UTC").tz_convert("Europe/Berlin"),  # crosses the change to summer time
    "Python datetimes": HOURS.to_pydatetime().tolist(),
    "zoned datetimes": HOURS.tz_localize("UTC").tz_convert("Europe/Berlin").to_pydatetime().tolist(),
    "durations": (HOURS - HOURS[0]).to_numpy(),
}


@pytest.mark.parametrize("name", DATES)
def test_dates_count_in_the_unit_that_is_named_and_are_refused_without_one(name):
    for unit, per_hour in {"s": 3600, "min": 60, "h": 1, "ms": 3_600_000}.items():
        obs = read(PLAIN, times=DATES[name], time_unit=unit)
        np.testing.assert_array_equal(obs.times, np.arange(30) * per_hour)
        assert obs.time_unit == unit
    for unit, hours in {"D": 24, "W": 168}.items():
        np.testing.assert_allclose(
            read(PLAIN, times=DATES[name], time_unit=unit).times, np.arange(30) / hours, rtol=1e-15
        )
    with pytest.raises(InvalidObservationsError, match="Say in which unit to count: time_unit= one of ns, us, ms, s,"):
        read(PLAIN, times=DATES[name])


def test_dates_far_apart_do_not_overflow():
    """Nanoseconds over 584 years exceed a 64-bit integer; days and years do not, nor may the difference."""
    days = np.array(["1677-10-01", "2000-01-01", "2262-01-01"], "datetime64[D]")
    expected = (days - days[0]).astype(float)
    y = [1.0, 2.0, 4.0]
    np.testing.assert_array_equal(read(y, times=days.astype("datetime64[ns]"), time_unit="D").times, expected)
    np.testing.assert_array_equal(read(y, times=days, time_unit="D").times, expected)
    ice_core = np.array([-10_000, -500, 1950], "datetime64[Y]")
    np.testing.assert_allclose(
        read(y, times=ice_core, time_unit="D").times / 365.2425, [0, 9500 + 1970 - 1970, 11950], rtol=1e-5
    )


def test_all_paths_count_from_the_same_moment():
    dates = [[datetime.date(2024, 1, 5), datetime.date(2024, 1, 9)], [datetime.date(2024, 1, d) for d in (1, 2, 3)]]
    obs = read([[1.0, 2.0], [0.0, 1.0, 5.0]], times=dates, time_unit="D")
    np.testing.assert_array_equal(obs.times, [4, 8, 0, 1, 2])


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e-9, 1e9, 1e100, 1e300])
def test_any_scale_of_values_passes_the_door(scale):
    np.testing.assert_array_equal(read(PLAIN * scale, dt=1).values, PLAIN * scale)


def test_an_outlier_passes_with_a_warning_that_says_what_is_left():
    y = np.random.default_rng(0).standard_normal(1000)
    y[500] = 1e8
    with pytest.warns(
        DataWarning, match=r"component 'x1' is dominated by outliers: .* span 9\.7e-07 standard deviations"
    ):
        obs = read(y, dt=1)
    assert obs.values[500, 0] == 1e8
    y[500] = 30.0
    read(y, dt=1)  # thirty standard deviations are no reason to warn


def test_a_component_is_constant_relative_to_the_precision_it_came_in():
    steps = 1e-3 * np.arange(20)
    assert read(5000 + steps, dt=1).dim == 1
    with pytest.raises(InvalidObservationsError, match="is constant"):
        read((5000 + 0.3 * steps).astype(np.float32), dt=1)  # five thousandths: a dozen rounding steps
    assert read(5000 + 0.3 * steps, dt=1).dim == 1
    mixed = pd.DataFrame({"fine": 1e6 + 0.01 * np.arange(20), "coarse": np.arange(20, dtype=np.float32)})
    assert read(mixed, dt=1).dim == 2  # the precision of one column says nothing about the other


def test_names_units_box_and_grid_describe_the_data():
    obs = read(PLAIN, dt=0.5, names=["a", "b"], time_unit="s")
    assert (obs.names, obs.time_unit) == (("a", "b"), "s")
    assert read(PLAIN, dt=0.5).names == ("x1", "x2")
    low, high = obs.box(widen=0.1)
    width = np.ptp(PLAIN, axis=0)
    np.testing.assert_allclose(low, PLAIN.min(axis=0) - 0.1 * width)
    np.testing.assert_allclose(high, PLAIN.max(axis=0) + 0.1 * width)
    grid = obs.grid(4)
    assert grid.shape == (16, 2)
    np.testing.assert_array_equal(grid[[0, -1]], [PLAIN.min(axis=0), PLAIN.max(axis=0)])
    np.testing.assert_array_equal(grid[:4, 0], PLAIN[:, 0].min())  # the last component varies fastest


def test_other_units_move_values_and_times_and_forget_the_label_of_time():
    obs = read(PLAIN, dt=0.5, time_unit="s")
    moved = obs.with_units(scale=np.array([2.0, -3.0]), offset=7.0, time_scale=60.0)
    np.testing.assert_array_equal(moved.values, PLAIN * [2, -3] + 7)
    np.testing.assert_array_equal(moved.times, 30.0 * np.arange(30))
    assert moved.time_unit is None
    assert obs.with_units(scale=2.0).time_unit == "s"


def test_observations_are_read_as_they_are_and_paths_are_counted_from_zero():
    obs = read(PLAIN, dt=0.5)
    assert read(obs) is obs
    assert obs == obs  # arrays inside must not make the comparison ambiguous
    for k in (-1, 1):
        with pytest.raises(IndexError, match="numbered 0 to 0"):
            obs.path(k)


def test_reading_arrays_imports_neither_torch_nor_pandas():
    program = (
        "import sys, numpy, fimsde.data.observations as o; o.read(numpy.arange(9.0) ** 2, dt=1);"
        "print(sorted({'torch', 'pandas', 'narwhals', 'numba', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
