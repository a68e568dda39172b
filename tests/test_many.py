"""Many data sets: each as if it were the only one, complete folders or none, and one table."""

import csv
import json
import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import fimsde
from fimsde.errors import ConfigError, GuessWarning, OutputError
from fimsde.interface.cli import main
from fimsde.report.many import Settings, _row, folder_names
from fimsde.systems.canonical import DOUBLE_WELL

TIMES = 0.02 * np.arange(300)


def well(seed):
    return fimsde.simulate(DOUBLE_WELL, np.ones((1, 1)), TIMES, substeps=5, seed=seed).values[0, :, 0]


def data(seed):
    return fimsde.read(well(seed), times=TIMES, names=["x"])


def files_of(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in sorted(folder.rglob("*")) if f.is_file()}


def run(*arguments):
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code


def test_two_processes_one_after_the_other_and_alone_give_the_same_bytes(tmp_path):
    sets = {"a": data(1), "b": data(2)}
    table = fimsde.estimate_many(sets, tmp_path / "one")
    assert fimsde.estimate_many(sets, tmp_path / "two", workers=2).equals(table)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "two")
    alone = fimsde.estimate(sets["b"])
    x = np.linspace(-1, 1, 7)
    np.testing.assert_array_equal(fimsde.load(tmp_path / "one" / "b" / "saved").drift(x), alone.drift(x))
    assert table.equation[1] == str(alone.equation()).split("\nleft out")[0]
    assert set(table.verdict) <= {"good", "caution", "bad"}
    times = table.relaxation_time.dropna()  # none where the slope at the equilibrium is not known
    assert len(times)
    assert (times > 0).all()


def test_work_goes_on_where_it_stopped_and_what_is_complete_is_not_made_again(tmp_path, monkeypatch):
    sets = {"a": data(1), "b": data(2)}
    made = []

    def stopping(label):
        made.append(label)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fimsde.estimate_many(sets, tmp_path / "out", progress=stopping)
    assert made == ["a"]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a"]
    before = (tmp_path / "out" / "a").stat().st_ino
    made.clear()
    table = fimsde.estimate_many(sets, tmp_path / "out", progress=made.append)
    assert made == ["b"]
    assert (tmp_path / "out" / "a").stat().st_ino == before
    assert list(table.data_set) == ["a", "b"]
    with (tmp_path / "out" / "summary.csv").open() as file:
        assert [row["equation"] for row in csv.DictReader(file)] == list(table.equation)


def test_other_data_or_settings_under_the_same_name_replace_nothing_unless_asked_to(tmp_path):
    fimsde.estimate_many({"a": data(1)}, tmp_path / "out")
    before = files_of(tmp_path / "out")
    for source, settings in ((data(2), None), (data(1), Settings(seed=1))):
        with pytest.raises(OutputError, match="exists already"):
            fimsde.estimate_many({"a": source}, tmp_path / "out", settings)
    assert files_of(tmp_path / "out") == before
    fimsde.estimate_many({"a": data(2)}, tmp_path / "out", overwrite=True)
    assert files_of(tmp_path / "out") != before


def test_a_data_set_that_cannot_be_estimated_has_its_reason_in_the_table_and_no_folder(tmp_path):
    constant = pd.DataFrame({"t": TIMES, "x": 1.0})
    table = fimsde.estimate_many({"a": constant, "b": data(2), "c": "nowhere.csv"}, tmp_path / "out")
    assert "is constant" in table.failure[0]
    assert "there is no file 'nowhere.csv'" in table.failure[2]
    assert table.failure.isna().tolist() == [False, True, False]
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["b", "summary.csv"]


def test_names_become_folders_inside_the_place_and_never_share_one():
    assert folder_names(["a b", "../x", "µm=1", ".."]) == ["a_b", "_x", "µm_1", "_"]
    with pytest.raises(ConfigError, match="would share a folder"):
        folder_names(["a b", "a_b"])


def test_a_column_or_several_files_tell_data_sets_apart_on_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    parts = [pd.DataFrame({"subject": name, "t": TIMES, "x": well(k)}) for k, name in enumerate(("ann", "bob"))]
    pd.concat(parts).to_csv("all.csv", index=False)
    for name, part in zip(("ann", "bob"), parts, strict=True):
        part.drop(columns="subject").to_csv(f"{name}.csv", index=False)
    assert run("estimate", "all.csv", "--by", "subject", "--no-report", "--out", "by") == 0
    said = capsys.readouterr()
    assert said.err.count("read as: time 't'; state 'x'") == 1
    assert re.match(r"ann: (good|(caution|bad) \(.+\)): dx = ", said.out)
    assert run("estimate", "ann.csv", "bob.csv", "--no-report", "--out", "files", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["data_set"] for row in rows] == ["ann", "bob"]
    assert files_of(tmp_path / "by") == files_of(tmp_path / "files")
    assert run("estimate", "all.csv", "--by", "nobody", "--out", "no") == 2
    assert "there is no column 'nobody'" in capsys.readouterr().err
    assert run("estimate", "all.csv", "bob.csv", "--by", "subject", "--out", "no") == 2
    assert not (tmp_path / "no").exists()


def test_one_bad_file_or_part_stopped_all_others_and_was_not_named(tmp_path, capsys, monkeypatch):
    """Its reason stands in its row, and those of the others still have their equations, not "nan"."""
    monkeypatch.chdir(tmp_path)
    good, still = pd.DataFrame({"t": TIMES, "x": well(1)}), pd.DataFrame({"t": TIMES, "x": 1.0})
    good.to_csv("good.csv", index=False)
    still.to_csv("still.csv", index=False)
    pd.concat([good.assign(who="good"), still.assign(who="still")]).to_csv("all.csv", index=False)
    for arguments in (["good.csv", "still.csv"], ["all.csv", "--by", "who"]):
        place = tmp_path / f"out{len(arguments)}"
        assert run("estimate", *arguments, "--no-report", "--out", place) == 0
        said = capsys.readouterr().out
        assert re.search(r"^good: (good|(caution|bad) \(.+\)): dx = ", said, re.M)
        assert re.search(r"^still: component 'x' .* is constant", said, re.M)
        assert sorted(p.name for p in place.iterdir()) == ["good", "summary.csv"]
    assert run("estimate", "still.csv", "--by", "x", "--no-report", "--out", "none") == 2
    assert "none of the data sets could be estimated" in capsys.readouterr().err
    still.rename(columns={"x": "y"}).to_csv("other.csv", index=False)
    assert run("estimate", "good.csv", "other.csv", "--values", "x", "--out", "no") == 2
    assert "in 'other.csv' there is no column 'x'" in capsys.readouterr().err


def test_a_script_without_a_guard_ended_in_a_broken_pool(tmp_path):
    """Every process imports the script that started it: the error says what to write there."""
    script = tmp_path / "script.py"
    script.write_text(
        "import numpy as np, fimsde\n"
        "sets = {k: fimsde.read(np.random.default_rng(0).standard_normal(50), dt=1.0) for k in 'ab'}\n"
        f"fimsde.estimate_many(sets, {str(tmp_path / 'out')!r}, workers=2)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("fimsde.errors.ConfigError: a worker ended")
    assert 'if __name__ == "__main__":' in done.stderr.splitlines()[-1]


def test_a_report_for_each_is_written_if_asked_for(tmp_path):
    settings = Settings(report=True, resamples=2)
    with pytest.warns(GuessWarning):
        fimsde.estimate_many({"a": pd.DataFrame({"t": TIMES, "x": well(1)})}, tmp_path / "out", settings)
    assert "Drift and diffusion" in (tmp_path / "out" / "a" / "report.html").read_text()


def test_the_noise_of_the_table_was_that_of_the_first_verdict_with_this_word():
    """Verdicts are sorted by what they explain: "correlated noise", with a correlation, may come first."""
    verdicts = [
        {"name": "correlated noise", "status": "bad", "number": 0.8, "because": ""},
        {"name": "memory", "status": "bad", "number": 0.3, "because": "correlated noise"},
        {"name": "measurement noise", "status": "good", "number": 0.05, "because": ""},
    ]
    record = {"observations": 9, "paths": 1, "time_unit": None, "relaxation_time": None, "status": "bad"}
    row = _row("a", record | {"verdicts": verdicts, "measurement_noise": [0.05]})
    assert (row["measurement_noise"], row["verdict"], row["doubts"]) == (0.05, "bad", "correlated noise")
    assert _row("a", record | {"measurement_noise": [0.05, 2.0]})["measurement_noise"] == "0.05; 2"
