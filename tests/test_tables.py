"""The door for tables and files: the same cells in any frame, dialect or file give the same observations."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from checks import check_same_observations
from fimsde.data.observations import read
from fimsde.errors import GuessWarning, InvalidObservationsError

RNG = np.random.default_rng(1)
# Two tracks of 12 and 8 points, rows interleaved as a tracker writes them: sorted by time, then by track.
LONG = pd.DataFrame(
    {
        "track": ["b"] * 12 + ["a"] * 8,
        "t": [*(0.5 * np.arange(12)), *(0.25 + 0.5 * np.arange(8))],
        "x": RNG.standard_normal(20),
        "y": RNG.standard_normal(20),
    }
).sort_values("t", ignore_index=True)
COLUMNS = {"time": "t", "values": ["x", "y"], "path": "track"}


def track(name: str) -> pd.DataFrame:
    return LONG[LONG.track == name]


EXPECTED = read(
    [track("b")[["x", "y"]].to_numpy(), track("a")[["x", "y"]].to_numpy()],
    times=[track("b").t.to_numpy(), track("a").t.to_numpy()],
    names=["x", "y"],
)

FRAMES = {
    "pandas": lambda: LONG,
    "pandas nullable": lambda: LONG.convert_dtypes(),
    "pandas arrow": lambda: LONG.convert_dtypes(dtype_backend="pyarrow"),
    "pandas with times as index": lambda: LONG.set_index("t"),
    "pandas with times and ids as index": lambda: LONG.set_index(["track", "t"]),
    "pandas with another index": lambda: LONG.set_index(np.arange(20)[::-1]),
    "categorical ids": lambda: LONG.astype({"track": "category"}),
    "numbers as text": lambda: LONG.astype({"x": str, "t": str}),
    "pyarrow": lambda: pa.Table.from_pandas(LONG, preserve_index=False),
    "pyarrow in chunks": lambda: pa.concat_tables([pa.Table.from_pandas(LONG[:7]), pa.Table.from_pandas(LONG[7:])]),
    "polars": lambda: pl.DataFrame(LONG.to_dict("list")),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_long_table_of_any_library_gives_its_paths_in_order_of_appearance(name):
    frame = FRAMES[name]()
    untouched = frame.copy() if isinstance(frame, pd.DataFrame) else None
    check_same_observations(read(frame, **COLUMNS), EXPECTED)
    if untouched is not None:
        pd.testing.assert_frame_equal(frame, untouched)


DIALECTS = {
    "comma": ({}, {}),
    "semicolon and decimal comma": ({"sep": ";", "decimal": ","}, {"separator": ";", "decimal": ","}),
    "tab": ({"sep": "\t"}, {"separator": "\t"}),
    "byte order mark": ({"encoding": "utf-8-sig"}, {}),
    "Windows line ends": ({"lineterminator": "\r\n"}, {}),
    "quoted": ({"quoting": 1}, {}),
    "blanks": ({"sep": " "}, {"separator": r"\s+"}),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_csv_file_in_any_dialect_is_read_to_the_last_bit(name, tmp_path):
    written, read_with = DIALECTS[name]
    LONG.to_csv(tmp_path / "tracks.csv", index=False, **written)
    check_same_observations(read(tmp_path / "tracks.csv", **COLUMNS, **read_with), EXPECTED)
    check_same_observations(read(str(tmp_path / "tracks.csv"), **COLUMNS, **read_with), EXPECTED)


def test_blanks_after_the_separator_belong_to_neither_names_nor_cells(tmp_path):
    text = LONG.to_csv(index=False).replace(",", ", ")
    (tmp_path / "tracks.csv").write_text(text)
    check_same_observations(read(tmp_path / "tracks.csv", **COLUMNS), EXPECTED)


def test_numbers_of_every_size_are_read_to_the_last_bit(tmp_path):
    values = RNG.standard_normal(2000) * 10.0 ** RNG.integers(-300, 300, 2000)
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(map(repr, values.tolist())))
    with pytest.warns(match="outliers"):
        obs = read(tmp_path / "x.csv", dt=1)
    np.testing.assert_array_equal(obs.values[:, 0], values)


@pytest.mark.parametrize("index", [None, "t", ["track", "t"]])
def test_a_parquet_file_keeps_columns_that_pandas_made_its_index(index, tmp_path):
    (LONG if index is None else LONG.set_index(index)).to_parquet(tmp_path / "tracks.parquet")
    check_same_observations(read(tmp_path / "tracks.parquet", **COLUMNS), EXPECTED)


def test_a_compressed_csv_file_is_read(tmp_path):
    LONG.to_csv(tmp_path / "tracks.csv.gz", index=False)
    check_same_observations(read(tmp_path / "tracks.csv.gz", **COLUMNS), EXPECTED)


def test_all_other_columns_are_components_by_default_and_one_name_needs_no_list():
    one = track("b")[["t", "x", "y"]]
    assert read(one, time="t").names == ("x", "y")
    check_same_observations(read(one, time="t", values="x"), read(one, time="t", values=["x"]))
    assert read(one, time="t", values=["y", "x"]).names == ("y", "x")
    assert read(pd.DataFrame(one.to_numpy()), dt=1).names == ("0", "1", "2")


def test_dt_replaces_the_time_column_in_every_path():
    obs = read(LONG[["track", "x"]], path="track", dt=0.5)
    np.testing.assert_array_equal(obs.times, [*(0.5 * np.arange(12)), *(0.5 * np.arange(8))])


def test_blank_lines_are_nothing_beside_a_time_column_and_a_missing_observation_without_one(tmp_path):
    """Skipping a blank line without a time column would shift the clock of everything after it."""
    timed, counted = tmp_path / "timed.csv", tmp_path / "counted.csv"
    timed.write_text("t,x\n0,1\n1,2\n\n3,5\n\n\n")
    counted.write_text("x\n1\n2\n\n5\n\n\n")
    np.testing.assert_array_equal(read(timed, time="t").times, [0, 1, 3])
    np.testing.assert_array_equal(read(counted, dt=1, missing="drop").times, [0, 1, 3])
    with pytest.raises(InvalidObservationsError, match=r".* at line 4, component 'x'"):
        read(counted, dt=1)


def test_lines_after_blank_ones_keep_their_number(tmp_path):
    (tmp_path / "x.csv").write_text("t,x\n\n0,1\n\n\n1,oops\n2,3\n")
    with pytest.raises(InvalidObservationsError, match="'oops' at line 6"):
        read(tmp_path / "x.csv", time="t")


def test_missing_cells_are_refused_with_their_line_or_dropped(tmp_path):
    file = tmp_path / "x.csv"
    file.write_text("t,x,y\n0,1,1\n1,,2\n2,3,NA\n3,4,5\n4,9,4\n")
    with pytest.raises(InvalidObservationsError, match=r"no value .* at line 3, component 'x'"):
        read(file, time="t")
    obs = read(file, time="t", missing="drop")
    np.testing.assert_array_equal(obs.times, [0, 3, 4])
    np.testing.assert_array_equal(obs.values, [[1, 1], [4, 5], [9, 4]])


def test_each_column_of_a_wide_table_is_a_path_as_long_as_its_numbers():
    wide = pd.DataFrame({"t": [0.0, 1.0, 3.0, 4.0], "a": [1.0, 2.0, 5.0, 4.0], "b": [7.0, 8.0, np.nan, np.nan]})
    obs = read(wide, time="t", layout="wide")
    np.testing.assert_array_equal(obs.path(0)[1][:, 0], wide.a)
    np.testing.assert_array_equal(obs.path(1)[1][:, 0], [7, 8])
    np.testing.assert_array_equal(obs.path(1)[0], [0, 1])
    assert obs.names == ("x1",)
    assert read(wide, time="t", layout="wide", names=["speed"]).names == ("speed",)
    wide.loc[0, "a"] = np.nan  # a hole before the last number is missing, not a shorter path
    with pytest.raises(InvalidObservationsError, match=r"column 'a' has no value .* at row 0"):
        read(wide, time="t", layout="wide")
    np.testing.assert_array_equal(read(wide, time="t", layout="wide", missing="drop").path(0)[0], [1, 3, 4])


STAMPS = pd.date_range("2024-03-30T20:00", periods=30, freq="h", unit="us")  # Berlin loses an hour in the night between
ZONED = STAMPS.tz_localize("UTC").tz_convert("Europe/Berlin")
STAMP_COLUMNS = {
    "datetimes": STAMPS,
    "nanoseconds": STAMPS.as_unit("ns"),
    "with time zone": ZONED,
    "ISO text": STAMPS.strftime("%Y-%m-%dT%H:%M"),
    "ISO text with seconds and a blank": STAMPS.strftime("%Y-%m-%d %H:%M:%S"),
    "ISO text in UTC": STAMPS.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "ISO text with changing offset": [stamp.isoformat() for stamp in ZONED],
    "day first, points": STAMPS.strftime("%d.%m.%Y %H:%M"),
    "day first, slashes": STAMPS.strftime("%d/%m/%Y %H:%M:%S"),
    "month first": STAMPS.strftime("%m/%d/%Y %H:%M"),
    "year first, slashes": STAMPS.strftime("%Y/%m/%d %H:%M"),
    "durations": STAMPS - STAMPS[0],
    "objects": np.array(STAMPS.to_pydatetime(), dtype=object),
}


CASES = [(name, source) for name in STAMP_COLUMNS for source in ("pandas", "pyarrow", "csv", "parquet")]
CASES.remove(("durations", "csv"))  # a CSV file holds no durations


@pytest.mark.parametrize(("name", "source"), CASES)
def test_dates_in_tables_count_in_the_unit_that_is_named(name, source, tmp_path):
    frame = pd.DataFrame({"when": STAMP_COLUMNS[name], "x": RNG.standard_normal(30)})
    table = frame
    if source == "pyarrow":
        table = pa.Table.from_pandas(frame)
    elif source == "csv":
        table = tmp_path / "x.csv"
        frame.to_csv(table, index=False)
    elif source == "parquet":
        table = tmp_path / "x.parquet"
        frame.to_parquet(table)
    for unit, per_hour in {"s": 3600, "min": 60, "h": 1, "us": 3_600_000_000}.items():
        np.testing.assert_array_equal(read(table, time="when", time_unit=unit).times, np.arange(30) * per_hour)
    with pytest.raises(InvalidObservationsError, match="column 'when': these are dates or durations and time_unit is"):
        read(table, time="when", time_unit="fortnight")
    with pytest.warns(GuessWarning, match="time 'when' in hours"):
        np.testing.assert_array_equal(read(table, time="when", values=["x"]).times, np.arange(30))


@pytest.mark.parametrize(
    ("cells", "days"),
    [
        (["1/2/2020", "13/2/2020", "14/2/2020"], [0, 12, 13]),
        (["1/2/2020", "1/13/2020", "1/14/2020"], [0, 11, 12]),
        (["1.2.2020", "2.2.2020", "3.2.2020"], [0, 1, 2]),
        (["1/2/2020", "2/2/2020", "3/2/2020"], None),  # either
        (["1/13/2020", "13/1/2020", "14/1/2020"], None),  # neither
        (["1/13/20", "1/14/20", "1/15/20"], None),  # of which century?
        (["1-13-2020", "1/14/2020", "1-15-2020"], None),
    ],
)
def test_day_and_month_are_told_apart_by_the_cells_or_not_at_all(cells, days):
    table = pd.DataFrame({"when": cells, "x": [1.0, 3.0, 2.0]})
    if days is None:
        with pytest.raises(InvalidObservationsError, match="neither a number nor a date such as 2024-01-31"):
            read(table, time="when", values=["x"], time_unit="D")
    else:
        np.testing.assert_array_equal(read(table, time="when", values=["x"], time_unit="D").times, days)


def test_plain_dates_and_missing_stamps_are_understood():
    days = [datetime.date(2024, 2, 28), datetime.date(2024, 2, 29), datetime.date(2024, 3, 1)]
    for table in (pd.DataFrame({"d": days, "x": [1, 2, 4]}), pa.table({"d": days, "x": [1, 2, 4]})):
        np.testing.assert_array_equal(read(table, time="d", time_unit="D").times, [0, 1, 2])
    stamps = pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-04"])
    frame = pd.DataFrame({"d": stamps, "x": [1.0, np.nan, 3.0, 9.0]})
    np.testing.assert_array_equal(read(frame, time="d", time_unit="D", missing="drop").times, [0, 2, 3])
    frame["x"] = [1.0, 2.0, 3.0, 9.0]
    with pytest.raises(InvalidObservationsError, match="time nan at row 1"):
        read(frame, time="d", time_unit="D")


def test_centuries_of_dates_do_not_overflow(tmp_path):
    days = [datetime.date(year, 1, 1) for year in (1500, 1900, 2500)]
    (tmp_path / "x.csv").write_text("d,x\n" + "\n".join(f"{day},{day.year}" for day in days))
    obs = read(tmp_path / "x.csv", time="d", time_unit="D")
    np.testing.assert_array_equal(obs.times, [(day - days[0]).days for day in days])


def test_decimals_of_exact_arithmetic_are_numbers():
    cells = [Decimal("1.5"), Decimal("2.5"), Decimal("4")]
    for table in (pd.DataFrame({"t": cells, "x": cells}), pa.table({"t": cells, "x": cells})):
        np.testing.assert_array_equal(read(table, time="t").values[:, 0], [1.5, 2.5, 4.0])


def test_a_real_series_is_read_as_it_is_written(real_world):
    lines = (real_world / "facebook.csv").read_text().split()[1:]
    obs = read(real_world / "facebook.csv", time="time")
    cells = np.array([line.split(",") for line in lines], dtype=np.float64)
    np.testing.assert_array_equal(np.column_stack([obs.times, obs.values]), cells)
