"""What the columns of a table are: guesses by name, type and content, and objections to choices they contradict."""

import numpy as np
import pandas as pd
import pytest

from fimsde.data.columns import guess, look, objections
from fimsde.data.tables import open_table
from fimsde.interface.cli import main
from fimsde.interface.cli.table import Columns, join_names

ROWS, PATHS = 40, 4
RNG = np.random.default_rng(0)
WALK = RNG.standard_normal((ROWS * PATHS, 3)).cumsum(axis=0)
IDS = np.repeat(np.arange(PATHS), ROWS)
CLOCK = np.tile(2.5 * np.arange(ROWS), PATHS)
DAYS = pd.date_range("2024-01-31", periods=ROWS).strftime("%Y-%m-%d")


def columns_of(columns, tmp_path, **options):
    file = tmp_path / "table.csv"
    pd.DataFrame(columns).to_csv(file, index=False, **options)
    return look(open_table(file, None, None, options.get("sep"), None))


X = {"x": WALK[:, 0], "y": WALK[:, 1]}
ONE = {"x": WALK[:ROWS, 0], "y": WALK[:ROWS, 1]}
T = CLOCK[:ROWS]

TABLES = {
    "a name with a unit": ({"time (min)": T, **ONE}, "time (min)", None, "xy"),
    "a name with other words": ({"obsTime_local": T, **ONE}, "obsTime_local", None, "xy"),
    "dates under a name of no help": ({"wann": DAYS, **ONE}, "wann", None, "xy"),
    "cells and minutes": ({"cell": IDS, "minutes": CLOCK, **X}, "minutes", "cell", "xy"),
    "ids that are text": ({"animal": [f"m{i}" for i in IDS], "t": CLOCK, **X}, "t", "animal", "xy"),
    "names of no help": ({"zelle": IDS, "wann": CLOCK, **X}, "wann", "zelle", "xy"),
    "a row number beside the clock": ({"Unnamed: 0": range(ROWS), "t": T, **ONE}, "t", None, "xy"),
    "two clocks with names": ({"FRAME": np.arange(ROWS), "POSITION_T": T, **ONE}, "FRAME", None, "xy"),
    "a dose that belongs to the path": ({"cell": IDS, "t": CLOCK, "dose": 2.0 * IDS, **X}, "t", "cell", "xy"),
    "min is not minutes": ({"date": DAYS, "x_min": ONE["x"], "x_max": ONE["y"]}, "date", None, ["x_min", "x_max"]),
    "counts of cells": ({"t": T, "cell": RNG.integers(0, 9, ROWS)}, "t", None, ["cell"]),
    "a state that grows": ({"t": T, "size": np.exp(0.1 * T)}, "t", None, ["size"]),
    "no clock at all": (ONE, None, None, "xy"),
    "only a state that grows": ({"size": np.exp(0.1 * T)}, None, None, ["size"]),
}


@pytest.mark.parametrize("name", TABLES)
def test_what_a_table_holds_is_guessed(name, tmp_path):
    table, time, path, values = TABLES[name]
    found = guess(columns_of(table, tmp_path))
    assert (found.time, found.path, list(found.values)) == (time, path, list(values))
    assert found.reasons[0].startswith("time: ")


@pytest.mark.parametrize("order", [["cell", "minutes"], ["minutes", "cell"]])
def test_the_order_of_the_rows_does_not_matter(order, tmp_path):
    table = pd.DataFrame({"cell": IDS, "minutes": CLOCK, **X}).sort_values(order)
    found = guess(columns_of(table, tmp_path))
    assert (found.time, found.path, found.values) == ("minutes", "cell", ("x", "y"))


def test_a_clock_with_one_wrong_row_is_still_the_clock_of_its_paths(tmp_path):
    """So that reading the table refuses it with the place, and nothing else is taken for the time."""
    wrong = CLOCK.copy()
    wrong[7] = wrong[6]
    found = guess(columns_of({"cell": IDS, "minutes": wrong, **X}, tmp_path))
    assert (found.time, found.path) == ("minutes", "cell")


def test_a_guess_that_rests_on_little_is_asked_about(tmp_path):
    columns = columns_of({"wann": np.sort(RNG.random(ROWS)), **ONE}, tmp_path)
    found = guess(columns)
    assert found.time == "wann"
    assert objections(columns, "wann", None, ["x"]) == [
        "Column 'wann' is taken for the time only because it increases."
    ]


def test_two_columns_that_increase_are_not_chosen_between(tmp_path):
    columns = columns_of({"a": np.sort(RNG.random(ROWS)), "b": np.sort(RNG.random(ROWS)), **ONE}, tmp_path)
    found = guess(columns)
    assert found.time is None
    assert "'a' and 'b' increase" in found.reasons[0]
    assert any("'a' looks like a clock" in sentence for sentence in objections(columns, None, None, found.values))


@pytest.mark.parametrize(
    ("time", "path", "values", "words"),
    [
        ("minutes", "cell", ["x", "y"], []),
        (None, "cell", ["x"], ["constant gap", "'minutes' looks like a clock"]),
        ("minutes", None, ["x"], ["one path", "'cell' looks like path ids"]),
        ("minutes", "cell", ["minutes", "x"], ["'minutes' looks like a clock, but is chosen as a state"]),
        ("minutes", None, ["cell"], ["'cell' looks like path ids, but is chosen as a state"]),
    ],
)
def test_choices_against_what_the_columns_look_like_are_objected_to(time, path, values, words, tmp_path):
    columns = columns_of({"cell": IDS, "minutes": CLOCK, **X}, tmp_path)
    said = " ".join(objections(columns, time, path, values))
    assert all(word in said for word in words)
    assert bool(said) == bool(words)


def test_cells_of_any_kind_are_looked_at(tmp_path):
    """Booleans, gaps, text with a number first, decimal commas and an empty column: whatever they are, no clock."""
    table = {"t": T, "on": RNG.random(ROWS) > 0.5, "none": [None] * ROWS, "note": ["1", "oops"] * (ROWS // 2)}
    table |= {
        "gaps": np.where(np.arange(ROWS) % 7 == 3, np.nan, ONE["x"]),
        "comma": [f"{x:.3f}".replace(".", ",") for x in ONE["y"]],
    }
    found = guess(columns_of(table, tmp_path))
    assert found.time == "t"
    assert {"gaps", "comma"} <= set(found.values)
    assert "on" not in found.values
    assert "none" not in found.values


def test_the_command_line_guesses_by_the_same_rules_and_says_so(tmp_path, capsys, monkeypatch):
    pd.DataFrame({"cell": IDS, "minutes": CLOCK, "a,b": WALK[:, 0]}).to_csv(tmp_path / "cells.csv", index=False)
    monkeypatch.chdir(tmp_path)
    said = []
    for options in ([], ["--time", "minutes", "--path", "cell", "--values", '"a,b"', "--time-unit", "min"]):
        with pytest.raises(SystemExit) as stop:
            main(["info", "cells.csv", *options])
        assert stop.value.code == 0
        said.append(capsys.readouterr())
    assert said[0].out == said[1].out
    assert "fimsde: read as: time 'minutes' in minutes; paths told apart by 'cell'; state 'a,b'." in said[0].err
    assert "(--time, --values, --path)" in said[0].err
    assert said[1].err == ""


@pytest.mark.parametrize("names", [["x"], ["x", "y z"], ["a,b", "c"], [" x ", "y"], ['say "x"', "y"], ["=x", "µm"]])
def test_names_given_as_one_option_come_back(names):
    assert Columns(values=join_names(names)).value_names() == names


def test_spaces_around_names_do_not_matter():
    assert Columns(values="x , y").value_names() == ["x", "y"]
