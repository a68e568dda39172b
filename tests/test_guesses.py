"""Reading a table whose columns are not named: what is guessed is said, and doubt is a sentence."""

import inspect
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import fimsde
from fimsde.data.headers import sniff
from fimsde.data.observations import Reading
from fimsde.errors import GuessWarning, InvalidObservationsError
from fimsde.systems.canonical import DUFFING

NUM = 60
RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, NUM)).cumsum(axis=1)
T = 0.5 * np.arange(NUM)
DAYS = pd.date_range("2020-01-01", periods=NUM)
MONTHS = pd.date_range("1950-01-01", periods=NUM, freq="MS")
IDS, OWN = np.repeat([0, 1], NUM // 2), np.tile(T[: NUM // 2], 2)
NO_CLOCK = "no column looks like a clock"

READ = {  # a table, how it is written, unit, first times, names, number of paths, words that are said
    "decimal commas": (
        {"t": T, "x": X},
        {"sep": ";", "decimal": ","},
        None,
        [0, 0.5],
        "x",
        1,
        "semicolons and decimal",
    ),
    "tabs": ({"minutes": T, "x": X}, {"sep": "\t"}, "min", [0, 0.5], "x", 1, "time 'minutes' in minutes"),
    "blanks": ({"t": T, "x": X}, {"sep": " "}, None, [0, 0.5], "x", 1, "separated by blanks"),
    "timestamps": ({"timestamp": DAYS, "x": X}, {}, "D", [0, 1], "x", 1, "'timestamp' in days"),
    "dates of America": ({"date": DAYS.strftime("%m/%d/%Y"), "x": X}, {}, "D", [0, 1], "x", 1, "(month/day/year)"),
    "months": ({"date": MONTHS, "x": X}, {}, "month", [0, 1, 2], "x", 1, "in months"),
    "years": ({"YEAR": 1700 + np.arange(NUM), "x": X}, {}, "year", [1700, 1701], "x", 1, "in years"),
    "an unnamed index": ({"t": T, "x": X, "y": Y}, {"index": True}, None, [0, 0.5], "xy", 1, "left out 'Unnamed: 0'"),
    "ids": ({"cell": IDS, "minutes": OWN, "x": X}, {}, "min", [0, 0.5], "x", 2, "paths told apart by 'cell'"),
    "a column of text": ({"t": T, "x": X, "note": ["a"] * NUM}, {}, None, [0, 0.5], "x", 1, "left out 'note'"),
}


@pytest.mark.parametrize("name", READ)
def test_a_file_is_read_without_a_word_and_one_line_says_how(name, tmp_path):
    table, options, unit, first, names, paths, words = READ[name]
    pd.DataFrame(table).to_csv(tmp_path / "table.csv", **{"index": False} | options)
    with pytest.warns(GuessWarning) as said:
        obs = fimsde.read(tmp_path / "table.csv")
    assert len(said) == 1
    assert words in str(said[0].message)
    assert (obs.time_unit, obs.names, obs.num_paths) == (unit, tuple(names), paths)
    np.testing.assert_allclose(obs.times[: len(first)], first, atol=1e-12)
    np.testing.assert_allclose(obs.values[:, 0], X)


DOUBTFUL = {
    "no time": ({"x": X, "y": Y}, {}, NO_CLOCK),
    "only row numbers": ({"x": X, "y": Y}, {"index": True}, "'Unnamed: 0' numbers the rows"),
    "two clocks": ({"t": T, "time": 2 * T, "x": X}, {}, "'t' and 'time' are all called like a time"),
    "what merely increases": ({"wann": np.sort(RNG.random(NUM)), "x": X}, {}, "'wann' may be the time"),
    "dates of some country": ({"date": DAYS[:9].strftime("%m/%d/%Y"), "x": X[:9]}, {}, "'01/01/2020' is neither a num"),
}


@pytest.mark.parametrize("name", DOUBTFUL)
def test_doubt_is_one_sentence_that_says_what_to_do(name, tmp_path):
    table, options, words = DOUBTFUL[name]
    pd.DataFrame(table).to_csv(tmp_path / "table.csv", **{"index": False} | options)
    with pytest.raises(
        InvalidObservationsError, match=r"the columns are .*\(time=\) or the constant gap \(dt=\)"
    ) as said:
        fimsde.read(tmp_path / "table.csv")
    assert words in str(said.value)


@pytest.mark.parametrize("options", [{"time": "t", "values": ["x"]}, {"dt": 1.0, "values": "x"}])
def test_nothing_is_guessed_or_said_where_time_and_state_are_named(options):
    obs = fimsde.read(pd.DataFrame({"cell": IDS, "t": T, "x": X, "note": "a"}), **options)
    assert (obs.num_paths, obs.names) == (1, ("x",))


def test_ids_beside_a_named_time_tell_paths_apart_and_were_a_state_before():
    with pytest.warns(GuessWarning, match="told apart by 'cell'"):
        obs = fimsde.read(pd.DataFrame({"cell": IDS, "t": OWN, "x": X}), time="t")
    assert (obs.num_paths, obs.names) == (2, ("x",))


INDEXED = {
    "dates": (pd.DataFrame({"x": X}, index=DAYS), "D"),
    "periods": (pd.DataFrame({"x": X}, index=pd.period_range("2000-01", periods=NUM, freq="M")), "month"),
    "a name": (pd.DataFrame({"x": X}, index=pd.Index(T, name="t")), None),
    "fractions": (pd.DataFrame({"x": X}, index=T), None),
    "ids and times": (pd.DataFrame({"x": X}, index=pd.MultiIndex.from_arrays([IDS, OWN], names=["id", "t"])), None),
    "a series": (pd.Series(X, index=DAYS), "D"),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_of_pandas_may_be_the_time(name):
    source, unit = INDEXED[name]
    before = source.copy()
    with pytest.warns(GuessWarning):
        obs = fimsde.read(source)
    assert (obs.names, obs.time_unit, obs.num_paths) == (("x",), unit, 2 if name == "ids and times" else 1)
    np.testing.assert_array_equal(obs.values[:, 0], X)
    assert source.equals(before)


def test_row_numbers_that_filtering_left_are_no_time():
    with pytest.raises(InvalidObservationsError, match=NO_CLOCK):
        fimsde.read(pd.DataFrame({"x": X, "y": Y})[::2])


def test_months_follow_the_calendar_and_durations_its_mean():
    """From 15 February 2024, which has 29 days, to 1 March: half a month and a little; a year later a year more."""
    dates = np.array(["2024-02-01", "2024-02-15T12", "2024-03-01", "2025-03-01"], "datetime64[h]")
    obs = fimsde.read(np.arange(4.0) ** 2, times=dates, time_unit="month")
    np.testing.assert_allclose(obs.times, [0, 0.5, 1, 13])
    years = fimsde.read(np.arange(4.0) ** 2, times=dates, time_unit="year")
    np.testing.assert_allclose(years.times, obs.times / 12)
    spans = fimsde.read(np.arange(3.0) ** 2, times=np.array([0, 146_097, 292_194], "m8[D]"), time_unit="year")
    np.testing.assert_allclose(spans.times, [0, 400, 800])


@pytest.mark.parametrize(
    ("text", "separator", "decimal"),
    [
        ("t,x\n0,1\n1,2\n", ",", "."),
        ("t;x\n0;1\n1;2\n", ";", "."),
        ("t;x\n0,5;1\n1;2\n", ";", ","),
        ("t;x\n0,5;1.5\n1;2\n", ";", "."),  # both signs: refused with the place, when it is read
        ('t,"x;y"\n0,1\n', ",", "."),
        ("x\n1\n2\n", ",", "."),
        ("t,x\n0,1,5\n1,2,5\n", ",", "."),  # decimal commas between commas: no telling
        ("", ",", "."),
    ],
)
def test_the_separator_is_what_cuts_all_lines_alike(text, separator, decimal, tmp_path):
    (tmp_path / "a.csv").write_text(text)
    found = sniff(tmp_path / "a.csv")
    assert (found.separator, found.decimal) == (separator, decimal)


def test_excel_is_read_and_several_sheets_are_asked_about(tmp_path):
    pytest.importorskip("openpyxl")
    frame = pd.DataFrame({"t": T, "x": X})
    frame.to_excel(tmp_path / "one.xlsx", index=False)
    np.testing.assert_allclose(fimsde.read(tmp_path / "one.xlsx", time="t").values[:, 0], X)
    with pd.ExcelWriter(tmp_path / "two.xlsx") as book:
        frame.to_excel(book, sheet_name="a", index=False)
        frame.to_excel(book, sheet_name="b", index=False)
    with pytest.raises(InvalidObservationsError, match="has 2 sheets with rows: 'a', 'b'"):
        fimsde.read(tmp_path / "two.xlsx", time="t")
    frame.assign(x=[*X[:-1], "oops"]).to_excel(tmp_path / "text.xlsx", index=False)
    with pytest.raises(InvalidObservationsError, match=f"'oops' at row {NUM + 1}"):
        fimsde.read(tmp_path / "text.xlsx", time="t")


def test_xarray_is_read_with_components_or_paths_along_a_dimension():
    xr = pytest.importorskip("xarray")
    both = np.stack([X, Y], axis=1)
    with pytest.warns(GuessWarning):
        states = fimsde.read(
            xr.DataArray(both, dims=("time", "component"), coords={"time": T, "component": ["u", "v"]})
        )
    assert states.names == ("u", "v")
    np.testing.assert_array_equal(states.values, both)
    with pytest.warns(GuessWarning, match="told apart by 'particle'"):
        paths = fimsde.read(xr.Dataset({"x": (("time", "particle"), both)}, {"time": T, "particle": [0, 1]}))
    assert paths.num_paths == 2
    np.testing.assert_array_equal(paths.path(1)[1][:, 0], Y)


def test_a_table_or_a_file_can_be_estimated_at_once(tmp_path):
    times = 0.02 * np.arange(400)
    values = fimsde.simulate(DUFFING, np.zeros((1, 2)) + 1, times, substeps=5).values[0]
    frame = pd.DataFrame({"time": times, "x": values[:, 0], "v": values[:, 1]})
    frame.to_csv(tmp_path / "duffing.csv", index=False)
    named = fimsde.estimate(fimsde.read(frame, time="time", values=["x", "v"]))
    for source in (frame, tmp_path / "duffing.csv", str(tmp_path / "duffing.csv")):
        with pytest.warns(GuessWarning, match="time 'time'"):
            found = fimsde.estimate(source)
        np.testing.assert_array_equal(found.drift([1.0, 0.0]), named.drift([1.0, 0.0]))


def test_results_lead_out_as_tables():
    obs = fimsde.read([np.stack([X, Y], axis=1), np.stack([Y, X], axis=1)[:9]], dt=0.5, names=["a", "b"])
    frame = obs.to_pandas()
    again = fimsde.read(frame, time="time", values=["a", "b"], path="path")
    np.testing.assert_array_equal(again.values, obs.values)
    np.testing.assert_array_equal(again.path_starts, obs.path_starts)
    paths = fimsde.simulate(DUFFING, np.ones((3, 2)), T[:5])
    table = paths.to_pandas(["x", "v"])
    assert list(table.columns) == ["path", "time", "x", "v"]
    np.testing.assert_array_equal(table["v"].to_numpy().reshape(3, 5), paths.values[..., 1])
    grid = fimsde.result(DUFFING).tabulate((np.full(2, -1.0), np.ones(2)))
    nodes = grid.to_pandas(["x", "v"])
    np.testing.assert_allclose(nodes["drift v"], DUFFING.drift(nodes[["x", "v"]].to_numpy())[:, 1], atol=1e-9)
    terms = fimsde.result(DUFFING).equation(box=(np.full(2, -2.0), np.full(2, 2.0))).to_pandas()
    assert set(terms[(terms.field == "drift") & (terms.component == "x1")].term) == {"x2"}


def test_tables_of_a_result_have_the_names_of_its_data():
    pytest.importorskip("xarray")
    rng = np.random.default_rng(1_000_000)
    obs = fimsde.read(rng.standard_normal((300, 1)).cumsum(axis=0) * 0.1, dt=0.1, names=["width (mm)"])
    sde = fimsde.estimate(obs)
    low, high = obs.box()
    band = sde.band(np.linspace(low[0], high[0], 3))
    assert list(band.to_pandas())[:2] == ["width (mm)", "drift_low width (mm)"]
    np.testing.assert_array_equal(band.to_xarray()["drift_low width (mm)"].values, band.drift_low[:, 0])
    paths = sde.simulate(np.zeros(1), np.arange(3.0), num_paths=2)
    assert list(paths.to_pandas()) == ["path", "time", "width (mm)"]
    assert paths.observations().names == ("width (mm)",)
    assert "drift width (mm)" in sde.tabulate().to_xarray()
    terms = sde.equation()
    np.testing.assert_array_equal(terms.to_xarray()["coefficient"].values, terms.to_pandas()["coefficient"])
    table = obs.to_xarray()
    np.testing.assert_array_equal(table["width (mm)"].values, obs.values[:, 0])
    np.testing.assert_array_equal(table["time"].values, obs.times)


def test_paths_and_grids_lead_out_to_xarray():
    pytest.importorskip("xarray")
    paths = fimsde.simulate(DUFFING, np.ones((3, 2)), T[:5])
    np.testing.assert_array_equal(paths.to_xarray()["x2"].values, paths.values[..., 1])
    grid = fimsde.result(DUFFING).tabulate((np.full(2, -1.0), np.ones(2))).to_xarray(["x", "v"])
    there = grid["drift v"].sel(x=0.5, v=-0.5, method="nearest")
    at = np.array([[float(there.x), float(there.v)]])
    np.testing.assert_allclose(float(there), DUFFING.drift(at)[0, 1], atol=1e-9)


def test_an_array_without_times_is_still_refused():
    with pytest.raises(InvalidObservationsError, match="neither times nor dt"):
        fimsde.estimate(X)


def test_what_is_guessed_was_said_about_a_line_of_this_package(tmp_path):
    """In a process of its own: the checks of types in tests stand between a function and its caller."""
    script = tmp_path / "mine.py"
    pd.DataFrame({"t": T, "x": X}).to_csv(tmp_path / "a.csv", index=False)
    script.write_text('import fimsde\n\nfimsde.estimate("a.csv")\n')
    done = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert f"{script}:3: GuessWarning: read as: time 't'; state 'x'" in done.stderr


def test_what_read_is_told_estimate_was_not():
    """`missing='drop'`, which an error names, was a TypeError."""
    table = pd.DataFrame({"when": T, "gap": np.where(np.arange(len(T)) == 3, np.nan, X), "x": X})
    with pytest.raises(InvalidObservationsError, match="missing='drop'"):
        fimsde.estimate(table, time="when", values=["gap"])
    told = fimsde.estimate(table, time="when", values=["gap"], missing="drop")
    read = fimsde.estimate(fimsde.read(table, time="when", values=["gap"], missing="drop"))
    assert str(told) == str(read)
    assert told.observations.num_points == len(T) - 1
    assert fimsde.estimate(X, dt=0.5, time_unit="s").observations.time_unit == "s"
    with pytest.raises(InvalidObservationsError, match="Observations"):
        fimsde.estimate(read.observations, time="when")
    assert list(inspect.signature(fimsde.read).parameters)[1:] == list(Reading.__annotations__)
