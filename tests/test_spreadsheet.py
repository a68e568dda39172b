"""Names from users' files in exported tables: spreadsheets compute none of them, and reading gives them back."""

import csv
import io

import numpy as np
import pandas as pd
import pytest

import fimsde
from fimsde.errors import InvalidObservationsError
from fimsde.files.spreadsheet import neutral, original
from fimsde.interface.cli import main
from fimsde.plots import BandSettings
from fimsde.report.folder import write_fields
from fitted import linear

FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-x", "@SUM(A1)", "\tx", "\rx", " =1", "＝1+1"]
OTHERS = ["x", "größe µm", "a,b", "-1.5", "+3e4", "x = 1", "'quoted'", "", "it's", "<script>alert(1)</script>"]
NO_BANDS = BandSettings(resamples=0)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_name_that_begins_like_a_formula_gets_an_apostrophe(name):
    assert neutral(name) == f"'{name}"
    assert original(neutral(name)) == name


@pytest.mark.parametrize("name", OTHERS)
def test_other_names_and_numbers_are_left_alone(name):
    assert neutral(name) == original(name) == name


def dangerous(table):
    """Cells that a spreadsheet would compute: text that begins like a formula."""
    cells = [cell for row in csv.reader(io.StringIO(table)) for cell in row]
    return [cell for cell in cells if cell[:1] in set("=+-@\t\r") and not cell.lstrip("+-")[:1].isdigit()]


def test_fields_csv_had_formulas_in_its_head(tmp_path):
    write_fields(linear(2, names=["=cmd|' /C calc'!A0", "-y"]), tmp_path / "fields.csv", NO_BANDS)
    table = (tmp_path / "fields.csv").read_text()
    assert dangerous(table) == []
    read = pd.read_csv(tmp_path / "fields.csv")
    assert read.columns[0] == "'=cmd|' /C calc'!A0"
    assert (read.iloc[:, 0] < 0).any(), "negative numbers are numbers"
    again = fimsde.read(tmp_path / "fields.csv", dt=1.0, values=["=cmd|' /C calc'!A0", "-y"])
    assert again.names == ("=cmd|' /C calc'!A0", "-y")


def walk(names, num=150):
    steps = np.random.default_rng(0).standard_normal((num, len(names)))
    values = np.zeros_like(steps)
    for i in range(1, num):
        values[i] = 0.9 * values[i - 1] + 0.3 * steps[i]
    return pd.DataFrame(values, columns=names).assign(t=0.1 * np.arange(num))


@pytest.mark.filterwarnings("ignore::fimsde.errors.DataWarning")
def test_paths_csv_had_formulas_in_its_head_and_can_be_read_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    walk(["=1+1"]).to_csv("data.csv", index=False)
    with pytest.raises(SystemExit) as stop:
        main(["simulate", "data.csv", "--paths", "3", "--out", "paths.csv"])
    assert stop.value.code == 0
    table = (tmp_path / "paths.csv").read_text()
    assert table.splitlines()[0] == "path,t,'=1+1"
    assert dangerous(table) == []
    assert "-" in table, "negative numbers are numbers"
    assert fimsde.read("paths.csv", time="t", path="path").names == ("=1+1",)
    capsys.readouterr()


def test_a_name_with_and_without_its_apostrophe_is_the_same_name_twice(tmp_path):
    (tmp_path / "data.csv").write_text("t,=x,'=x\n0,1,2\n1,2,3\n")
    with pytest.raises(InvalidObservationsError, match="names column '=x' 2 times"):
        fimsde.read(tmp_path / "data.csv", time="t")
