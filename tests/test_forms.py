"""Tables as instruments and offices write them: times in several columns, other letters, comments, fill values."""

import numpy as np
import pandas as pd
import pytest

import fimsde
from fimsde.data.dates import parse_dates
from fimsde.data.fillers import filler
from fimsde.errors import DataWarning, GuessWarning, InvalidObservationsError
from fimsde.interface.cli.table import Columns, check_columns

NUM = 60
X = np.random.default_rng(1_000_000).standard_normal(NUM).cumsum()
HOURS = pd.date_range("2022-06-01", periods=NUM, freq="12h")
DAYS = pd.date_range("2022-06-01", periods=NUM)
MONTHS = pd.date_range("1980-01-01", periods=NUM, freq="MS")

DATES = {  # cells and the days between them
    "half a day": (["03/13/2023 12:00 AM", "03/13/2023 12:00 PM", "03/14/2023 6:00 AM"], [0, 0.5, 1.25]),
    "short names": (["30-Apr-2010", "1-May-2010", "3-May-2010"], [0, 1, 3]),
    "long names": (["May 4, 2010", "June 4, 2010", "June 5, 2010"], [0, 31, 32]),
    "months with names": (["Jan 2010", "Feb 2010", "Mar 2010"], [0, 31, 59]),
    "time that passed": (["0:00:00", "12:00:00", "36:00:00"], [0, 0.5, 1.5]),
}


@pytest.mark.parametrize("name", DATES)
def test_dates_are_read_as_people_write_them(name):
    cells, days = DATES[name]
    found, order = parse_dates(np.array(cells, object))
    assert order
    np.testing.assert_array_equal((found - found[0]) / pd.Timedelta(days=1), days)


def test_words_are_no_dates():
    found, order = parse_dates(np.array(["Mai 4, 2010", "red car 1999", "x"], object))
    assert found.isna().all() or not order


TABLES = {  # a table, options of its writing, unit, words
    "year and month": (
        {"Year": MONTHS.year, "Month": MONTHS.month, "x": X},
        {},
        "month",
        "time 'Year Month' in months",
    ),
    "year to day": (
        {"year": DAYS.year, "month": DAYS.month, "day": DAYS.day, "x": X},
        {},
        "D",
        "time 'year month day' in days",
    ),
    "date and time": (
        {"Date": HOURS.strftime("%d/%m/%Y"), "Time": HOURS.strftime("%H:%M"), "x": X},
        {},
        "h",
        "time 'Date Time' in hours",
    ),
    "the newest first": ({"Date": DAYS[::-1].strftime("%Y-%m-%d"), "x": X[::-1]}, {}, "D", "time 'Date' in days"),
    "letters of Windows": (
        {"t": 0.5 * np.arange(NUM), "x": X, "Größe": ["süß"] * NUM},
        {"encoding": "cp1252"},
        None,
        "letters as Windows writes them",
    ),
    "seconds since 1970": ({"unix_time": 1.6e9 + np.arange(NUM), "x": X}, {}, "s", "in seconds"),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_an_office_is_read(name, tmp_path):
    table, options, unit, words = TABLES[name]
    file = tmp_path / "table.csv"
    pd.DataFrame(table).to_csv(file, index=False, **options)
    with pytest.warns(GuessWarning) as said:
        obs = fimsde.read(file)
    assert words in str(said[0].message)
    assert (obs.time_unit, obs.names) == (unit, ("x",))
    np.testing.assert_array_equal(obs.values[:, 0], X)
    assert np.ptp(np.diff(obs.times)) < 1e-9


def test_a_joined_time_can_be_named_before_the_table_is_read(tmp_path):
    file = tmp_path / "table.csv"
    pd.DataFrame({"year": MONTHS.year, "month": MONTHS.month, "x": X}).to_csv(file, index=False)
    check_columns(file, Columns(time="year month", values="x"))
    named = fimsde.read(file, time="year month", values="x", time_unit="month")
    np.testing.assert_array_equal(named.times, np.arange(NUM))
    with pytest.raises(InvalidObservationsError, match="no column 'year week'"):
        check_columns(file, Columns(time="year week"))


def test_a_heart_rate_is_no_clock():
    table = pd.DataFrame({"time": np.arange(NUM), "HR": X, "EDA": X[::-1] ** 2})
    with pytest.warns(GuessWarning, match="state 'HR', 'EDA'"):
        assert fimsde.read(table).names == ("HR", "EDA")


@pytest.mark.parametrize("header", ["t,x", "# t,x"])
def test_comments_above_the_header_are_skipped_and_lines_keep_their_numbers(header, tmp_path):
    file = tmp_path / "table.csv"
    rows = [f"{0.5 * i},{x!r}" for i, x in enumerate(X.tolist())]
    file.write_text("\n".join(["# station 7", "# a, b, c", header, *rows]))
    with pytest.warns(GuessWarning, match="time 't'; state 'x'"):
        np.testing.assert_array_equal(fimsde.read(file).values[:, 0], X)
    rows[10] = "5.0,broken"
    file.write_text("\n".join(["# station 7", "# a, b, c", header, *rows]))
    with pytest.raises(InvalidObservationsError, match="'broken' at line 14"):
        fimsde.read(file, time="t", values="x")


def test_fill_values_are_missing_cells_and_not_data(tmp_path):
    values = X.copy()
    values[[10, 20]] = -999
    with pytest.raises(InvalidObservationsError, match=r"-999 at index 10, .* 2 times .*missing='drop'"):
        fimsde.read(values, dt=1.0)
    with pytest.warns(DataWarning, match="-999 stands for a missing value; 2 observations"):
        kept = fimsde.read(values, dt=1.0, missing="drop")
    np.testing.assert_array_equal(kept.values[:, 0], np.delete(X, [10, 20]))
    np.testing.assert_array_equal(kept.times, np.delete(np.arange(NUM), [10, 20]))


@pytest.mark.parametrize(
    ("end", "times", "is_one"),
    [(-999, 2, True), (99.9, 3, True), (-32768, 2, True), (-999, 1, False), (-1000, 5, False), (9, 4, False)],
)
def test_only_usual_numbers_that_repeat_far_away_are_fill_values(end, times, is_one):
    assert filler(np.append(X, [end] * times)) == (end if is_one else None)
    near = np.append(np.linspace(end - 50.0, end + 50.0, NUM), [end] * times)
    assert filler(near) is None


def test_more_columns_than_are_estimated_together_are_asked_about():
    table = pd.DataFrame({"time": np.arange(NUM), **{f"cell{k}": np.roll(X, 7 * k) for k in range(9)}})
    with (
        pytest.warns(GuessWarning, match="paths of one quantity"),
        pytest.raises(InvalidObservationsError, match=r"9 components; at most 8 .*'wide'"),
    ):
        fimsde.estimate(table)
    assert fimsde.read(table, time="time", layout="wide").num_paths == 9


def test_thousands_are_asked_about(tmp_path):
    file = tmp_path / "table.csv"
    file.write_text('t,x\n0,"1,234,567"\n1,"1,234,999"\n2,"1,235,000"\n')
    with pytest.raises(InvalidObservationsError, match="without signs between thousands"):
        fimsde.read(file, time="t", values="x")
