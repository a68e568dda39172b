"""Every bad input gets an error of our own whose message names what was found, where, and what to do.

The numbers B1 to B17 are those of the requirements; queries and the model's limits are tested with `estimate`.
"""

import contextlib
import inspect
import re
import warnings

import dask.dataframe
import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fimsde.data.observations import read as checked_read
from fimsde.equations.sde import FunctionSDE
from fimsde.errors import ConfigError, DataWarning, InvalidObservationsError, ObservationTypeError
from fimsde.simulate import simulate as checked_simulate
from problems import OrnsteinUhlenbeck

# As users call them: without the run-time checks of annotations that only the tests switch on.
read, simulate = inspect.unwrap(checked_read), inspect.unwrap(checked_simulate)

Y = np.random.default_rng(0).standard_normal((3, 10, 2))
DAYS = np.datetime64("2024-01-01") + np.arange(10)


def with_entry(value, *index):
    y = Y.copy()
    y[index] = value
    return y


def times_with(value, i):
    times = np.arange(10.0)
    times[i] = value
    return times


def masked(k):
    mask = np.ones((3, 10), bool)
    mask[k] = False
    return mask


STEADY = np.column_stack([Y[0, :, 0], np.full(10, 5000.0)])
WAVERING = np.float32(5000) + np.float32(2**-11) * (np.arange(10, dtype=np.float32) % 3)  # one rounding step apart

ARRAYS = {
    "B1 nan": (with_entry(np.nan, 1, 4, 0), {"dt": 1}, ["path 1", "nan", "index 4", "'x1'", "mask=", "missing='drop'"]),
    "B2 inf": (with_entry(np.inf, 2, 0, 1), {"dt": 1}, ["path 2", "value inf", "index 0", "'x2'", "Correct it"]),
    "B2 -inf": (with_entry(-np.inf, 2, 9, 1), {"dt": 1}, ["value -inf", "index 9"]),
    "B2 inf is not missing": (with_entry(np.inf, 0, 0, 0), {"dt": 1, "missing": "drop"}, ["value inf", "index 0"]),
    "B3 one path masked": (Y, {"dt": 1, "mask": masked(1)}, ["nothing is observed in path 1", "Leave it out"]),
    "B3 all paths masked": (Y, {"dt": 1, "mask": np.zeros(10, bool)}, ["nothing is observed in path 0"]),
    "B3 all nan": (with_entry(np.nan, 1), {"dt": 1, "missing": "drop"}, ["nothing is observed in path 1"]),
    "B4 constant": (STEADY, {"dt": 1}, ["'x2' (number 1)", "range is 0", "threshold 1.78e-11", "Remove it"]),
    "B4 constant up to rounding": (WAVERING, {"dt": 1}, ["'x1'", "range is 0.000977", "threshold 0.00954"]),
    "B2 beyond float64": ([1, 10**400, 3, 5], {"dt": 1}, ["value inf", "index 1"]),
    "B4 range beyond float64": ([-1e308, 0, 1e308, 5], {"dt": 1}, ["'x1'", "more than a float64"]),
    "B5 one observation": (np.ones(1), {"dt": 1}, ["1 observation(s)", "0 transition(s)", "at least 2"]),
    "B5 one transition": (np.arange(2.0), {"dt": 1}, ["2 observation(s)", "1 transition(s)", "at least 2"]),
    "B5 single points": (Y[:, :1], {"dt": 1}, ["3 observation(s) in 3 path(s)", "0 transition(s)"]),
    "B8 equal": (Y, {"times": times_with(6.0, 5)}, ["path 0", "6.0 at index 5", "6.0 at index 6", "Keep one"]),
    "B8 decreasing": (Y, {"times": times_with(7.5, 5)}, ["7.5 at index 5", "6.0 at index 6", "Sort"]),
    "B8 decreasing in path 2": (
        Y,
        {"times": [np.arange(10.0), np.arange(10.0), times_with(-1, 1)]},
        ["path 2", "0.0 at index 0", "-1.0 at index 1"],
    ),
    "B8 nan": (Y, {"times": times_with(np.nan, 3)}, ["path 0", "time nan", "index 3", "finite"]),
    "B8 inf": (Y, {"times": times_with(np.inf, 9)}, ["time inf", "index 9"]),
    "B8 too few times": (Y, {"times": np.arange(9.0)}, ["path 0 has 10 observations but times of shape (9,)"]),
    "B8 times for two of three": (Y, {"times": np.zeros((2, 10))}, ["path 0", "times of shape (2, 10)"]),
    "B8 ragged": ([Y[0], Y[1, :5]], {"times": [np.arange(10), np.arange(6)]}, ["path 1 has 5", "times of shape (6,)"]),
    "B8 too few masks": (Y, {"dt": 1, "mask": np.ones(7, bool)}, ["10 observations but mask of shape (7,)"]),
    "B8 a mask per component": (Y[0], {"dt": 1, "mask": np.ones((10, 2), bool)}, ["mask of shape (10, 2)", "Pass one"]),
    "a mask of weights": (Y, {"dt": 1, "mask": np.full(10, 0.5)}, ["mask of path 0", "True and False"]),
    "B9 no paths": (np.ones((0, 5, 2)), {"dt": 1}, ["shape (0, 5, 2)", "expected (times,)", "not empty"]),
    "B9 no components": (np.ones((5, 0)), {"dt": 1}, ["shape (5, 0)", "not empty"]),
    "B9 empty": ([], {"dt": 1}, ["shape (0,)", "not empty"]),
    "B9 one empty path": ([Y[0], Y[1, :0]], {"dt": 1}, ["path 1 has shape (0, 2)", "Leave empty paths out"]),
    "B9 four axes": (Y[None], {"dt": 1}, ["shape (1, 3, 10, 2)", "(paths, times, dim)"]),
    "B9 unequal components": ([Y[0], Y[1, :, :1]], {"dt": 1}, ["numbers of components: [1, 2]"]),
    "ragged rows": ([[1.0, 2.0], 3.0], {"dt": 1}, ["cannot be read as an array", "list of arrays"]),
    "B11 complex": (Y[0] * 1j, {"dt": 1}, ["path 0", "complex128", "real numbers"]),
    "B11 complex tensor": (torch.ones(9, 1, dtype=torch.complex64), {"dt": 1}, ["complex64"]),
    "B11 text": (["1.0", "2.0", "3.0"], {"dt": 1}, ["path 0", "<U3"]),
    "B11 objects": (np.array([object(), 1.0, 2.0]), {"dt": 1}, ["path 0", "object"]),
    "B11 booleans": (Y[0] > 0, {"dt": 1}, ["path 0", "bool"]),
    "B11 booleans among objects": (np.array([True, 1.0, None, 4.0], dtype=object), {"dt": 1}, ["path 0", "object"]),
    "B11 dates as values": (DAYS, {"dt": 1}, ["path 0", "datetime64[D]"]),
    "B11 nothing": (None, {"dt": 1}, ["NoneType", "expected an array"]),
    "B11 a dictionary": ({"x": [1, 2, 3]}, {"dt": 1}, ["dict", "a table or a file"]),
    "B11 text as times": (Y, {"times": list("abcdefghij")}, ["times are of type <U1", "expected numbers"]),
    "B12 dates without unit": (Y, {"times": DAYS}, ["times", "dates", "time_unit= one of ns, us, ms, s, min, h, D, W"]),
    "B12 unknown unit": (Y, {"times": DAYS, "time_unit": "decade"}, ["time_unit is 'decade'", "one of ns"]),
    "B12 months of duration": (Y, {"times": np.arange(10).astype("m8[M]"), "time_unit": "D"}, ["timedelta64[M]"]),
    "B12 half the zones": (
        [1.0, 2.0, 4.0],
        {
            "times": [*pd.date_range("2024", periods=2, tz="UTC"), pd.Timestamp("2025")],
            "time_unit": "D",
        },
        ["some times have a time zone and some have none"],
    ),
    "no clock": (Y, {}, ["neither times nor dt", "times=", "dt="]),
    "two clocks": (Y, {"times": np.arange(10), "dt": 1}, ["both times and dt"]),
    "dt zero": (Y, {"dt": 0}, ["dt is 0", "positive"]),
    "dt nan": (Y, {"dt": np.nan}, ["dt is nan", "positive"]),
    "dt as text": (Y, {"dt": "0.1"}, ["dt is '0.1'", "positive number"]),
    "dt as array": (Y, {"dt": np.ones(10)}, ["dt is array", "positive number"]),
    "too many names": (Y, {"dt": 1, "names": ["a", "b", "c"]}, ["3 names given for 2 components"]),
    "unknown choice for missing": (Y, {"dt": 1, "missing": "ignore"}, ["missing is 'ignore'", "'error' or 'drop'"]),
    "unknown layout": (Y, {"dt": 1, "layout": "tall"}, ["layout is 'tall'", "'long' or 'wide'"]),
    "options of tables": (Y, {"dt": 1, "time": "t", "path": "id"}, ["time=, path= cannot be used with an array"]),
    "options with Observations": (read(Y, dt=1), {"dt": 2}, ["dt= cannot be used with Observations"]),
}
TYPE_ERRORS = {name for name in ARRAYS if name.startswith("B11")}


def assert_says(error, words):
    for word in words:
        assert word in str(error), f"{word!r} is missing from: {error}"
    assert not re.search(r"np\.|array\(\[\[", str(error)), f"the message shows internals: {error}"


@pytest.mark.parametrize("name", ARRAYS)
def test_bad_arrays_are_refused_with_what_was_found_and_what_to_do(name):
    source, options, words = ARRAYS[name]
    kind = ObservationTypeError if name in TYPE_ERRORS else InvalidObservationsError
    with pytest.raises(kind) as caught:
        read(source, **options)
    assert_says(caught.value, words)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError) == (kind is ObservationTypeError or name == "B12 months of duration")


FILES = {
    "missing column": ("t,x\n0,1\n", {"time": "time"}, ["no column 'time'", "'t', 'x'"]),
    "missing path column": ("t,x\n0,1\n", {"time": "t", "path": "id"}, ["no column 'id'"]),
    "missing value column": ("t,x\n0,1\n", {"time": "t", "values": ["x", "y"]}, ["no column 'y'"]),
    "wrong separator": ("t|x\n0|1\n1|2\n", {"time": "t"}, ["no column 't'", "'t|x'", "separator="]),
    "wrong separator, no names": ("t|x\n0|1\n1|2\n", {"dt": 1}, ["'t|x' has '0|1' at line 2", "separator="]),
    "text cell": ("t,x\n0,1\n1,broken\n2,3\n", {"time": "t"}, ["column 'x'", "'broken'", "line 3", "Correct it"]),
    "text in the time column": ("t,x\n0,1\nsoon,2\n2,3\n", {"time": "t"}, ["column 't'", "'soon'", "line 3"]),
    "underscore": ("t,x\n0,1\n1,1_000\n2,3\n", {"time": "t"}, ["column 'x'", "'1_000'", "line 3"]),
    "booleans": ("t,x\n0,True\n1,False\n2,True\n", {"time": "t"}, ["column 'x'", "Boolean"]),
    "decimal comma": (
        "t;x\n0;1\n1;2,5\n2;3\n",
        {"time": "t", "separator": ";"},
        ["column 'x'", "'2,5'", "line 3", "decimal comma", "decimal=','"],
    ),
    "decimal comma with exponent": (
        "t;x\n0;1\n1;-2,5e3\n2;3\n",
        {"time": "t", "separator": ";"},
        ["'-2,5e3'", "decimal=','"],
    ),
    "decimal comma in the times": (
        "t;x\n0,5;1\n1;2\n2;3\n",
        {"time": "t", "separator": ";"},
        ["column 't'", "'0,5'", "line 2", "decimal=','"],
    ),
    "decimal comma between commas": ("t,x\n0,1,5\n1,2,5\n", {"time": "t"}, ["line 2", "more cells", "decimal=','"]),
    "a longer line": ("t,x\n0,1\n1,2\n2,3,4\n", {"time": "t"}, ["line 4", "saw 3", "as many cells as the header"]),
    "a file cut short": ("t,x\n0,1\n1,2\n2,4\n3", {"time": "t"}, ["no value", "line 5", "'x'"]),
    "duplicate times": (
        "id,t,x\na,0,1\nb,0,1\na,1,2\nb,1,5\na,1,7\n",
        {"time": "t", "path": "id"},
        ["path 'a'", "1.0 at line 4", "1.0 at line 6", "Keep one"],
    ),
    "times of two paths": ("t,x\n0,1\n1,2\n0,1\n1,3\n", {"time": "t"}, ["1.0 at line 3", "0.0 at line 4", "path="]),
    "no path id": ("id,t,x\na,0,1\n,1,2\n", {"time": "t", "path": "id"}, ["column 'id'", "line 3"]),
    "inf": ("t,x\n0,1\n1,inf\n2,3\n", {"time": "t"}, ["value inf", "line 3", "'x'"]),
    "empty cell": (
        "t,x\n0,1\n1,\n2,3\n",
        {"time": "t"},
        ["no value", "line 3", "1 of its 3", "missing='drop'", "row out"],
    ),
    "empty time": ("t,x\n0,1\n,2\n2,3\n", {"time": "t"}, ["time nan", "line 3"]),
    "empty file": ("", {"time": "t"}, ["is empty", "header line"]),
    "blank file": ("\n\n", {"time": "t"}, ["is empty"]),
    "header only": ("t,x\n", {"time": "t"}, ["no rows"]),
    "no clock": ("a,x\n3,1\n2,5\n5,3\n", {}, ["no column looks like a clock", "'a', 'x'", "time=", "dt="]),
    "two clocks": ("t,x\n0,1\n", {"time": "t", "dt": 1}, ["both a time column and dt"]),
    "a column twice": ("t,x\n0,1\n", {"time": "t", "values": ["x", "t"]}, ["'t' is used twice"]),
    "a name twice": ("t,x,x\n0,1,2\n1,2,3\n2,5,3\n", {"time": "t"}, ["header names column 'x' 2 times", "Rename"]),
    "a blank first line": ("\nt,x\n0,1\n1,2\n", {"time": "t"}, ["its first line is", "header line"]),
    "no state": ("t\n0\n1\n", {"time": "t"}, ["no column is left"]),
    "a row index": (",x\n0,1\n1,2\n", {"dt": 1, "values": ["t"]}, ["no column 't'", "'Unnamed: 0', 'x'"]),
    "constant column": ("t,x\n0,7\n1,7\n2,7\n", {"time": "t"}, ["'x'", "is constant"]),
    "dates in a unit of nobody": (
        "t,x\n2024-01-01,1\n2024-01-02,2\n",
        {"time": "t", "time_unit": "decade"},
        ["column 't'", "time_unit= one of"],
    ),
    "half the zones": (
        "t,x\n2024-01-01T00:00Z,1\n2024-01-02T00:00,2\n",
        {"time": "t", "time_unit": "h"},
        ["time zone at line 2 but none at line 3"],
    ),
    "a date of another form": (
        "t,x\n2024-01-01,1\n31.1.2024,2\n",
        {"time": "t", "time_unit": "h"},
        ["'31.1.2024'", "line 3", "a date such as 2024-01-31", "2024-01-31 12:00"],
    ),
    "wide with a path column": (
        "t,a,b\n0,1,2\n1,2,3\n",
        {"time": "t", "layout": "wide", "path": "a"},
        ["path per column", "layout='long'"],
    ),
    "an empty wide column": (
        "t,a,b\n0,1,\n1,2,\n",
        {"time": "t", "layout": "wide"},
        ["nothing is observed in column 'b'"],
    ),
    "options of arrays": ("t,x\n0,1\n", {"time": "t", "mask": [1], "names": ["x"]}, ["mask=, names=", "with a table"]),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_files_are_refused_with_line_and_column(name, tmp_path):
    text, options, words = FILES[name]
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(InvalidObservationsError) as caught:
        read(tmp_path / "data.csv", **options)
    assert_says(caught.value, words)
    assert [file.name for file in tmp_path.iterdir()] == ["data.csv"]


def test_files_that_are_no_tables_are_refused(tmp_path):
    (tmp_path / "binary.csv").write_bytes(b"t,x\n0,\xff\xfe\x00\n")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1" + bytes(100))
    pd.DataFrame({"t": [0, 1, 2], "x": [1, 5, 2]}).to_parquet(tmp_path / "good.parquet")
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "good.parquet").read_bytes()[:-50])
    for name, words in {
        "nowhere.csv": ["no file", "nowhere.csv"],
        "nowhere.parquet": ["no file", "nowhere.parquet"],
        "": ["is a folder", "Name a file in it"],
        "binary.csv": ["binary.csv", "not text in UTF-8"],
        "broken.parquet": ["broken.parquet", "cannot be read"],
        "cut.parquet": ["cut.parquet", "cannot be read"],
    }.items():
        with pytest.raises(InvalidObservationsError) as caught:
            read(tmp_path / name, time="t")
        assert_says(caught.value, words)
    with pytest.raises(InvalidObservationsError, match="separator= and decimal= are for CSV files"):
        read(tmp_path / "good.parquet", time="t", separator=";")


def test_frames_that_cannot_be_used_are_refused():
    frame = pd.DataFrame({"t": [0.0, 1.0, 2.0], "x": [1.0, 2.0, 5.0]})
    for table, words in [
        (dask.dataframe.from_pandas(frame, npartitions=1), ["cannot be read", "in memory"]),
        (frame.set_axis(["t", "t"], axis=1), ["unique column names"]),
        (frame.assign(x=[1j, 2j, 3j]), ["column 'x'", "real numbers"]),
        (frame.assign(x=[[1], [2], [3]]), ["column 'x' has a list at row 0"]),
        (frame.assign(x=pd.array([True, None, False], dtype="boolean")), ["column 'x'", "Boolean"]),
        (frame.assign(x=pd.date_range("2024", periods=3)), ["column 'x'", "Datetime"]),
    ]:
        with pytest.raises(ObservationTypeError) as caught:
            read(table, time="t")
        assert_says(caught.value, words)
    with pytest.raises(InvalidObservationsError, match=r"no value .* at row 1"):
        read(frame.assign(x=pd.array([1, None, 3], dtype="Int64")), time="t")


CELLS = ["0", "1", "2.5", "-3e5", "nan", "inf", "", "NA", "abc", "1,5", '"1,5"', '"', "2024-01-01", "2024-01-01T00:00Z"]
CELLS += [
    "2024-01-01T00:00+01:00",
    "True",
    "1e400",
    "1e-320",
    "1_0",
    "\x00",
    "é",
    "9" * 30,
    " 7 ",
    "\t",
    "12:30",
    "1j",
    "٤.٥",
]
rows_of_cells = st.lists(st.lists(st.sampled_from(CELLS), min_size=1, max_size=3), max_size=6)
leaves = st.one_of(
    *(st.integers(), st.floats(), st.booleans(), st.none(), st.text(max_size=2), st.complex_numbers()),
    st.sampled_from([np.float32(3), 10**400, np.datetime64("2024"), np.ones(2), np.ones((2, 1)), torch.ones(3)]),
)
nested = st.recursive(leaves, lambda inner: st.lists(inner, max_size=4), max_leaves=12)
fuzz = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def read_or_refuse(source, **options):
    """Only our own errors may come out; data with one huge value may warn of it."""
    with warnings.catch_warnings(), contextlib.suppress(InvalidObservationsError):
        warnings.simplefilter("ignore", DataWarning)
        checked_read(source, **options)


@fuzz
@given(rows=rows_of_cells, separator=st.sampled_from([",", ";"]), missing=st.sampled_from(["error", "drop"]))
def test_any_table_of_odd_cells_is_read_or_refused(rows, separator, missing, tmp_path):
    file = tmp_path / "odd.csv"
    file.write_text("t,x,y\n" + "\n".join(separator.join(row) for row in rows))
    read_or_refuse(file, time="t", time_unit="s", missing=missing)
    read_or_refuse(file, dt=1, values="x", missing=missing)
    read_or_refuse(file, dt=1, separator=separator, decimal=",", layout="wide", missing=missing)


@fuzz
@given(content=st.binary(max_size=120))
def test_any_bytes_are_read_or_refused(content, tmp_path):
    for name, data in {"a.csv": content, "b.csv": b"t,x\n" + content, "c.parquet": b"PAR1" + content + b"PAR1"}.items():
        (tmp_path / name).write_bytes(data)
        read_or_refuse(tmp_path / name, dt=1)


@fuzz
@given(source=nested.filter(lambda s: not isinstance(s, str)), times=nested, mask=nested)
def test_any_nested_lists_are_read_or_refused(source, times, mask):
    read_or_refuse(source, dt=1)
    read_or_refuse(source, times=times)
    read_or_refuse(source, dt=1, mask=mask)
    read_or_refuse(source, times=times, time_unit="s", mask=mask)


OU = OrnsteinUhlenbeck(dim=2)
START, GRID = np.zeros((3, 2)), np.arange(5.0)
FLAT = FunctionSDE(2, lambda x: -x[:, 0], np.ones_like)
SIMULATIONS = {
    "x0 of one axis": (OU, np.zeros(2), GRID, {}, InvalidObservationsError, ["x0", "(2,)", "(paths, 2)"]),
    "x0 of other dim": (OU, np.zeros((3, 1)), GRID, {}, InvalidObservationsError, ["(3, 1)", "(paths, 2)"]),
    "no times": (OU, START, np.ones(0), {}, InvalidObservationsError, ["time grid 0 has shape (0,)", "not empty"]),
    "empty grid": (OU, START, [GRID, GRID, GRID[:0]], {}, InvalidObservationsError, ["time grid 2", "not empty"]),
    "two grids": (OU, START, [GRID, GRID], {}, InvalidObservationsError, ["2 time grids for 3 starts"]),
    "equal times": (
        OU,
        START,
        np.array([0.0, 1.0, 1.0]),
        {},
        InvalidObservationsError,
        ["1.0 at index 1 followed by 1.0"],
    ),
    "nan time": (OU, START, np.array([np.nan]), {}, InvalidObservationsError, ["time grid 0 has nan at index 0"]),
    "infinite time": (OU, START, np.array([0.0, np.inf]), {}, InvalidObservationsError, ["has inf at index 1"]),
    "no substeps": (OU, START, GRID, {"substeps": 0}, ConfigError, ["substeps is 0", "at least 1"]),
    "half a substep": (OU, START, GRID, {"substeps": 1.5}, ConfigError, ["substeps is 1.5", "whole number"]),
    "negative dt": (OU, START, GRID, {"dt": -0.1}, ConfigError, ["dt is -0.1", "positive"]),
    "nan dt": (OU, START, GRID, {"dt": np.nan}, ConfigError, ["dt is nan", "positive"]),
    "dt and substeps": (
        OU,
        START,
        GRID,
        {"dt": 0.1, "substeps": 2},
        ConfigError,
        ["dt is 0.1 and substeps is 2"],
    ),
    "negative seed": (OU, START, GRID, {"seed": -1}, ConfigError, ["seed is -1", "0 to 2**64"]),
    "huge seed": (OU, START, GRID, {"seed": 2**64}, ConfigError, ["seed is 18446744073709551616"]),
    "no limit": (OU, START, GRID, {"limit": np.nan}, ConfigError, ["limit is nan", "positive"]),
    "field of other shape": (
        FLAT,
        np.zeros((2, 2)),
        GRID,
        {},
        InvalidObservationsError,
        ["drift has shape (2,)", "(2, 2)"],
    ),
}


@pytest.mark.parametrize("name", SIMULATIONS)
def test_bad_arguments_of_a_simulation_are_refused(name):
    sde, x0, times, options, kind, words = SIMULATIONS[name]
    with pytest.raises(kind) as caught:
        simulate(sde, x0, times, **options)
    assert_says(caught.value, words)
