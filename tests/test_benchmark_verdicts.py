"""Calibration of the verdicts: resumable, and its tables count what was said."""

import json

import pytest

from fimsde.benchmark import verdicts
from fimsde.benchmark.verdict_data import CELLS, ROWS, right_class
from fimsde.benchmark.verdicts import Kind, Outcome, kinds, read, run, table
from fimsde.errors import DatasetError


def outcome(seed, causes=()):
    return Outcome(seed, "bad" if causes else "good", causes, (*causes, *(("memory",) if causes else ())), 0.1)


def test_a_run_goes_on_where_it_stopped_and_computes_nothing_twice(tmp_path, monkeypatch):
    judged = []
    monkeypatch.setattr(verdicts, "judge", lambda kind, seed: judged.append((kind.name, seed)) or outcome(seed))
    first = next(run(tmp_path, quick=True, seed=1, repetitions=2))
    assert [o.seed for o in first[1]] == [10_000, 10_001]
    everything = list(run(tmp_path, quick=True, seed=1, repetitions=3))
    assert len(everything) == len(kinds(quick=True))
    assert len(judged) == len(set(judged)) == 3 * len(everything)


def test_tables_count_lights_causes_and_names():
    row = ROWS[0]
    found = [
        (Kind(cell=CELLS[0]), [outcome(0), outcome(1), outcome(2), outcome(3, ("trend",))]),
        (Kind(row=row, strength=0.8), [outcome(0, ("season", *row.verdicts)), outcome(1, row.verdicts), outcome(2)]),
    ]
    lines = table(found).splitlines()
    assert "| 4 | 25.0% | trend 1 | 0.10 |" in lines[2]
    assert "| 3 | 67% | 33% | 0.10 |" in lines[-1]


def test_a_damaged_file_is_named(tmp_path):
    file = tmp_path / "a.json"
    file.write_text(json.dumps([{"seed": 1}]))
    with pytest.raises(DatasetError, match=r"a\.json"):
        read(file)


@pytest.mark.parametrize("cell", CELLS, ids=str)
def test_data_of_the_right_class_have_the_size_of_their_cell(cell):
    obs = right_class(cell, 3)
    assert (obs.num_points, obs.num_paths) == (cell.num, cell.num_paths)
    assert right_class(cell, 3).values.tobytes() == obs.values.tobytes()


@pytest.mark.slow
def test_verdicts_are_right_about_being_wrong_and_do_not_cry_wolf(tmp_path):
    """Buys the bars on fresh data: at the largest strength every third way to be wrong is named in at least two of
    three data sets, and at most one of six lights on data of the right class is not good."""
    found = list(run(tmp_path, quick=True, seed=41, repetitions=3))
    lights = [o.status != "good" for kind, outcomes in found if kind.row is None for o in outcomes]
    assert sum(lights) <= 1
    for kind, outcomes in found:
        if kind.row is not None:
            assert sum(bool(set(kind.row.verdicts) & set(o.causes)) for o in outcomes) >= 2, kind.name
