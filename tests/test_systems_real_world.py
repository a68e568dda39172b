"""The real series: counts, checksums and spot values of the data sheet, folds and arrangements, clear errors."""

import dataclasses
import hashlib
import re

import numpy as np
import pytest

from fimsde.data.transitions import to_transitions
from fimsde.errors import DatasetError, FimsdeError
from fimsde.systems.real_world import REAL_WORLD, TESLA, WIND, RealSeries, Split, load, splits

COUNTS = {
    "wind": (26202, 5240, 524),
    "oil": (7921, 1584, 158),
    "facebook": (24960, 4992, 499),
    "tesla": (24960, 4992, 499),
}
ARRANGEMENTS = ("separate", "concatenated", "four paths", "forty paths")


@pytest.fixture(params=REAL_WORLD, ids=lambda s: s.name)
def series(request) -> RealSeries:
    return request.param


def test_counts_are_those_of_the_paper(series, real_world):
    total, fold, piece = COUNTS[series.name]
    assert len(load(series, real_world)) == total
    for split in splits(series, real_world):
        assert split.folds.shape == (5, fold)
        assert split.reference().shape == (10, piece, 1)


def test_checksums_are_those_of_the_data_sheet(series, real_world):
    sheet = (real_world / "README.md").read_text()
    assert f"{series.sha256}  {series.name}.csv" in sheet


def test_spot_values_are_those_of_the_data_sheet(series, real_world):
    sheet = (real_world / "README.md").read_text()
    number = r"\s*(-?\d+\.\d{6})\s*\|"
    rows = re.findall(rf"^\| {series.name} \| (\d) \|{number}{number}{number}{number}$", sheet, re.MULTILINE)
    assert len(rows) == 5
    for row, split in zip(rows, splits(series, real_world), strict=True):
        fold = split.folds[split.held_out]
        spots = (fold[0], fold[-1], fold.std(), split.reference()[9, 0, 0])
        assert [str(split.held_out + 1), *(f"{value + 0:.6f}" for value in spots)] == list(row)


def test_stocks_are_compared_as_prices_and_the_others_as_differences(series, real_world):
    stored = np.loadtxt(real_world / f"{series.name}.csv", delimiter=",", skiprows=1)[:, 1]
    modelled = load(series, real_world)
    expected = stored if series.transform == "log" else stored[1:] - stored[:-1]
    np.testing.assert_allclose(series.to_evaluation(modelled), expected, rtol=1e-13)


def test_the_stored_clock_has_the_step_we_use(series, real_world):
    """The size table of the paper prints 1.8e-5 for stocks; the data sheet explains why that is a misprint."""
    clock = np.loadtxt(real_world / f"{series.name}.csv", delimiter=",", skiprows=1)[:, 0]
    np.testing.assert_allclose(np.diff(clock), series.dt, rtol=1e-7)


def small_split(held_out: int, fold: int = 23) -> Split:
    """Folds 0 1 2 ... so that every value says where it came from; 23 points leave a remainder of 3."""
    return Split(dataclasses.replace(WIND, dt=0.5), held_out, np.arange(5.0 * fold).reshape(5, fold))


@pytest.mark.parametrize("held_out", range(5))
@pytest.mark.parametrize("arrangement", ARRANGEMENTS)
def test_no_arrangement_leaks_the_held_out_fold(held_out, arrangement):
    split = small_split(held_out)
    held = set(split.folds[held_out])
    training = split.training(arrangement).values[:, 0]
    assert not held & set(training)
    assert len(set(training)) == len(training) == (4 * 20 if arrangement == "forty paths" else 4 * 23)
    assert set(split.reference().ravel()) == set(split.folds[held_out][:20])


@pytest.mark.parametrize("held_out", range(5))
def test_steps_cross_the_hole_only_where_the_paper_let_them(held_out):
    split = small_split(held_out)
    numbers = {"separate": 1 if held_out in (0, 4) else 2, "concatenated": 1, "four paths": 4, "forty paths": 40}
    for arrangement, num_paths in numbers.items():
        obs = split.training(arrangement)
        steps = to_transitions(obs)
        assert obs.num_paths == num_paths
        np.testing.assert_allclose(steps.dtau, 0.5)  # the false step of "concatenated" counts as one step
        false = np.sum(steps.dy != 1)
        assert false == (1 if arrangement == "concatenated" and held_out in (1, 2, 3) else 0)


def test_paths_keep_the_clock_of_the_whole_series():
    obs = small_split(1).training("separate")
    assert obs.path(0)[0][0] == 0
    assert obs.path(1)[0][0] == 2 * 23 * 0.5
    assert obs.time_unit == "h"
    assert obs.names == ("wind",)
    pieces = small_split(1).training("forty paths")
    assert [pieces.path(k)[1][0, 0] for k in (0, 1, 9, 10)] == [0, 2, 18, 2 * 23]


def test_the_folder_may_come_from_the_environment(monkeypatch, tmp_path):
    content = b"time,value\n0,1\n1,3\n2,8\n"
    (tmp_path / "wind.csv").write_bytes(content)
    tiny = dataclasses.replace(WIND, sha256=hashlib.sha256(content).hexdigest())
    monkeypatch.setenv("FIMSDE_DATA", str(tmp_path))
    assert load(tiny).tolist() == [2, 5]
    assert load(tiny, tmp_path).tolist() == [2, 5]


def test_an_unknown_folder_is_an_error_that_says_how_to_set_it(monkeypatch):
    monkeypatch.delenv("FIMSDE_DATA", raising=False)
    with pytest.raises(FimsdeError, match="Pass folder=, or set the environment variable FIMSDE_DATA"):
        splits(TESLA)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DatasetError, match=r"tesla\.csv' cannot be read \(No such file.*FIMSDE_DATA"):
        load(TESLA, tmp_path)


def test_another_file_of_the_same_name_is_refused_with_both_checksums(tmp_path):
    content = b"time,value\n0,1\n1,2\n"
    (tmp_path / "tesla.csv").write_bytes(content)
    found = hashlib.sha256(content).hexdigest()
    with pytest.raises(DatasetError, match=f"tesla.csv' has the SHA-256 checksum {found}; expected {TESLA.sha256}"):
        load(TESLA, tmp_path)
