"""What users have is never lost: each way in which a run once removed files of theirs, and the rules that forbid it."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import fimsde
from fimsde.errors import CheckpointError, ConfigError, OutputError
from fimsde.files import claims, outputs
from fimsde.files.claims import hidden
from fimsde.files.outputs import new_file, new_folder, write_folder
from fimsde.files.ownership import MARKER, is_ours
from fimsde.files.write import write_file
from fimsde.interface.cli import main


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A working folder and a home that a mistake may harm."""
    for name in ("home", "work"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def make(out, name="new.txt", text="new", **options):
    with new_folder(out, **options) as folder:
        (folder / name).write_text(text)


def contents(folder: Path) -> dict[str, str]:
    return {str(f.relative_to(folder)): f.read_text() for f in folder.rglob("*") if f.is_file() and f.name != MARKER}


def test_a_folder_appears_complete_or_not_at_all(elsewhere):
    def interrupted():
        with new_folder("out") as folder:
            (folder / "half.txt").write_text("half")
            assert not Path("out").exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(elsewhere.iterdir()) == []
    make("out")
    assert contents(elsewhere) == {"out/new.txt": "new"}
    assert [p.name for p in elsewhere.iterdir()] == ["out"]


def test_a_folder_of_ours_is_replaced_only_when_asked_and_only_at_the_end():
    make("out", "old.txt")
    with pytest.raises(OutputError, match=r"exists already\. Choose another name, or pass overwrite=True"):
        make("out")
    with new_folder("out", overwrite=True) as folder:
        (folder / "new.txt").write_text("new")
        assert contents(Path("out")) == {"old.txt": "new"}
    assert contents(Path("out")) == {"new.txt": "new"}
    assert os.listdir() == ["out"]


@pytest.mark.parametrize("files", [["data.csv"], ["saved/x", "report.html"], [MARKER], [".hidden"]])
def test_a_folder_that_somebody_else_made_is_never_replaced(files):
    for name in files:
        Path("mine", name).parent.mkdir(parents=True, exist_ok=True)
        Path("mine", name).write_text('{"made_by": "me"}')
    before = contents(Path("mine"))
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="was not made by fimsde, so it is not replaced"):
            make("mine", overwrite=overwrite)
    assert contents(Path("mine")) == before
    assert os.listdir() == ["mine"]


def test_an_empty_folder_may_be_used_when_asked():
    Path("empty").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        make("empty")
    make("empty", overwrite=True)
    assert contents(Path("empty")) == {"new.txt": "new"}


@pytest.mark.parametrize("out", [".", "..", "../..", "", "/", "../work", "~", "inner/.."])
def test_the_working_folder_the_home_and_what_is_above_them_are_never_replaced(out, elsewhere):
    """Even if they were made by this package."""
    (elsewhere / "inner").mkdir()
    for folder in (elsewhere, elsewhere.parent, elsewhere.parent / "home"):
        (folder / "mine.txt").write_text("mine")
        (folder / MARKER).write_text(json.dumps({"made_by": "fimsde", "version": "0", "files": ["mine.txt"]}))
    place = os.path.expanduser(out)
    before = contents(elsewhere.parent)
    with pytest.raises(OutputError, match=r"is or holds the (working|home) folder"):
        make(place, overwrite=True)
    assert contents(elsewhere.parent) == before


@pytest.mark.parametrize("out", ["data", "data/../data", "data/deep", "data/deep/table.csv"])
def test_a_folder_that_holds_the_input_is_never_replaced(out):
    make("data")
    with new_folder("data/deep") as folder:
        (folder / "table.csv").write_text("t,x")
    expected = "is a file" if out.endswith(".csv") else "is or holds the input"
    with pytest.raises(OutputError, match=expected):
        make(out, overwrite=True, inputs=[Path("data/deep/table.csv")])
    assert contents(Path("data")) == {"new.txt": "new", "deep/table.csv": "t,x"}


def test_a_link_to_the_input_protects_it_as_well():
    make("data", "table.csv")
    os.symlink("data/table.csv", "link.csv")
    with pytest.raises(OutputError, match="is or holds the input"):
        make("data", overwrite=True, inputs=[Path("link.csv")])


def test_a_link_is_not_replaced_by_a_folder():
    make("real")
    os.symlink("real", "link")
    with pytest.raises(OutputError, match="is a link"):
        make("link", overwrite=True)
    assert contents(Path("real")) == {"new.txt": "new"}


def test_what_others_put_into_a_folder_of_ours_stays_in_it():
    with new_folder("out") as folder:
        (folder / "part").mkdir()
        (folder / "part" / "old.txt").write_text("old")
    Path("out/notes.txt").write_text("mine")
    Path("out/part/deep").mkdir()
    Path("out/part/deep/data.csv").write_text("mine too")
    Path("out/plans").mkdir()
    os.symlink("nowhere", "out/link")
    make("out", overwrite=True)
    assert contents(Path("out")) == {"new.txt": "new", "notes.txt": "mine", "part/deep/data.csv": "mine too"}
    assert os.readlink("out/link") == "nowhere"
    assert Path("out/plans").is_dir()
    assert os.listdir() == ["out"]
    make("out", "newer.txt", overwrite=True)  # they are not ours now, either
    assert contents(Path("out")) == {"newer.txt": "new", "notes.txt": "mine", "part/deep/data.csv": "mine too"}


def test_a_result_inside_a_result_belongs_to_its_maker():
    make("out")
    make("out/second", "second.txt")
    make("out", "other.txt", overwrite=True)
    assert contents(Path("out")) == {"other.txt": "new", "second/second.txt": "new"}
    assert is_ours(Path("out/second"))


def test_files_of_others_stay_without_hard_links(monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(1, "Operation not permitted")

    make("out")
    Path("out/notes.txt").write_text("mine")
    monkeypatch.setattr(os, "link", refused)
    make("out", "other.txt", overwrite=True)
    assert contents(Path("out")) == {"other.txt": "new", "notes.txt": "mine"}
    assert os.listdir() == ["out"]


def test_a_name_that_others_took_is_not_taken_from_them():
    make("out")
    Path("out/result.json").write_text("mine")
    with pytest.raises(OutputError, match=r"did not make and would replace: .*result\.json"):
        make("out", "result.json", "ours", overwrite=True)
    assert contents(Path("out")) == {"new.txt": "new", "result.json": "mine"}
    assert os.listdir() == ["out"]


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_appears_during_the_work_is_left_as_it_is(kind, overwrite, elsewhere):
    def disturbed():
        with new_folder("out", overwrite=overwrite) as folder:
            (folder / "new.txt").write_text("new")
            match kind:
                case "folder":
                    Path("out").mkdir()
                    Path("out/mine.txt").write_text("mine")
                case "file":
                    Path("out").write_text("mine")
                case "link":
                    os.symlink("elsewhere", "out")

    with pytest.raises(OutputError):
        disturbed()
    assert os.listdir() == ["out"]
    assert kind == "link" or "mine" in contents(elsewhere).values()


def test_a_folder_made_between_the_last_check_and_the_renaming_is_left_as_it_is(monkeypatch):
    def late(work, check=outputs._check_folder):
        def checked(target, *rest):
            check(target, *rest)
            if hidden(target).exists():
                target.mkdir()
                (target / "mine.txt").write_text("mine")

        return checked

    monkeypatch.setattr(outputs, "_check_folder", late(None))
    with pytest.raises(OutputError, match="made by somebody else meanwhile"):
        make("out")
    assert contents(Path("out")) == {"mine.txt": "mine"}


def test_the_second_of_two_runs_into_one_folder_stops_with_a_sentence():
    with new_folder("out") as folder:
        (folder / "first.txt").write_text("first")
        with pytest.raises(OutputError, match=r"another run of fimsde is writing .*out' at this moment"):
            make("out")
        make("other")
    assert contents(Path("out")) == {"first.txt": "first"}


KILLED = """
import os, signal, sys
from pathlib import Path
from fimsde.files import ownership, outputs
from fimsde.files.outputs import new_folder

def die(*args):
    os.kill(os.getpid(), signal.SIGKILL)

moment = sys.argv[1]
if moment == "marking":
    os.replace = die
if moment == "sealed":
    outputs._check_folder = lambda *args: Path(".out.fimsde-partial/new.txt").exists() and die()
if moment == "between":
    rename = Path.rename
    Path.rename = lambda self, target: die() if ".fimsde-partial" in self.name else rename(self, target)
if moment == "after":
    outputs.remove_ours = die
with new_folder("out", overwrite=True) as folder:
    (folder / "new.txt").write_text("new")
    if moment == "writing":
        die()
"""


@pytest.mark.parametrize(
    ("moment", "found"),
    [
        ("marking", "old.txt"),
        ("writing", "old.txt"),
        ("sealed", "old.txt"),
        ("between", "old.txt"),
        ("after", "new.txt"),
    ],
)
def test_a_killed_run_loses_nothing_and_the_next_one_clears_up(moment, found):
    make("out", "old.txt", "new")
    Path("out/notes.txt").write_text("mine")
    done = subprocess.run([sys.executable, "-c", KILLED, moment], check=False)
    assert done.returncode == -signal.SIGKILL
    assert len(os.listdir()) > 1
    make("other")  # into the same place, another name
    assert sorted(os.listdir()) == ["other", "out"]
    assert contents(Path("out")) == {found: "new", "notes.txt": "mine"}
    make("out", "newest.txt", overwrite=True)
    assert contents(Path("out")) == {"newest.txt": "new", "notes.txt": "mine"}


def test_a_killed_file_is_cleared_up_and_one_in_the_making_is_not(elsewhere):
    hidden(elsewhere / "paths.csv").write_text("half")
    with new_file("report.html") as file:
        assert sorted(os.listdir()) == [".report.html.fimsde-partial"]
        make("other")
        file.write_text("page")
    assert sorted(os.listdir()) == ["other", "report.html"]


def test_hidden_folders_of_others_are_not_cleared_up(elsewhere):
    mine = hidden(elsewhere / "out")
    mine.mkdir()
    (mine / "mine.txt").write_text("mine")
    make("other")
    with pytest.raises(OutputError, match="is in the way and was not made by fimsde"):
        make("out")
    assert (mine / "mine.txt").read_text() == "mine"


def test_without_locks_a_run_works_and_what_is_there_is_left(elsewhere, monkeypatch):
    def refused(*args):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(claims.fcntl, "flock", refused)
    make("out")
    make("out", "newer.txt", overwrite=True)
    assert contents(elsewhere) == {"out/newer.txt": "new"}
    hidden(elsewhere / "third").mkdir()
    with pytest.raises(OutputError, match="another run of fimsde is writing"):
        make("third")


def test_a_marker_cannot_name_files_outside_its_folder(elsewhere):
    make("out")
    (elsewhere / "mine.txt").write_text("mine")
    marker = {"made_by": "fimsde", "version": "0", "files": ["../mine.txt", str(elsewhere / "mine.txt"), "new.txt"]}
    Path("out", MARKER).write_text(json.dumps(marker))
    make("out", "newer.txt", overwrite=True)
    assert (elsewhere / "mine.txt").read_text() == "mine"
    assert contents(Path("out")) == {"newer.txt": "new"}


# --- files ------------------------------------------------------------------------------------------------------------


def test_a_file_is_replaced_only_if_it_is_ours_and_only_when_asked(elsewhere):
    def write(**options):
        with new_file("out.html", signature="<made by us", **options) as file:
            file.write_text("<made by us> new")

    write()
    with pytest.raises(OutputError, match="exists already"):
        write()
    write(overwrite=True)
    Path("out.html").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(OutputError, match="was not made by fimsde"):
            write(overwrite=overwrite)
    assert contents(elsewhere) == {"out.html": "mine"}


def test_a_file_never_replaces_the_input():
    Path("data.csv").write_text("path,t,x\n")
    with (
        pytest.raises(OutputError, match="is the input"),
        new_file("data.csv", overwrite=True, inputs=[Path("data.csv")], signature="path,t,"),
    ):
        pytest.fail("the work began")


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_appears_during_the_work_is_left_as_it_is(has_links, monkeypatch):
    def refused(*args, **kwargs):
        raise PermissionError(1, "Operation not permitted")

    def disturbed():
        with new_file("out.csv") as file:
            file.write_text("new")
            Path("out.csv").write_text("mine")

    if not has_links:
        monkeypatch.setattr(os, "link", refused)
    with pytest.raises(OutputError):
        disturbed()
    assert Path("out.csv").read_text() == "mine"
    assert os.listdir() == ["out.csv"]


def test_the_second_of_two_runs_into_one_file_stops_with_a_sentence():
    with new_file("out.csv") as file:
        with pytest.raises(OutputError, match="another run of fimsde is writing"), new_file("out.csv"):
            pytest.fail("the work began")
        file.write_text("first")
    assert Path("out.csv").read_text() == "first"


def test_a_place_that_cannot_be_written_is_refused_before_any_work(elsewhere):
    for make_new in (new_folder, new_file):
        with pytest.raises(ConfigError, match=r"no folder .*Make it first"), make_new(elsewhere / "missing" / "out"):
            pytest.fail("the work began")


def test_folders_above_are_made_if_wanted_and_vanish_if_the_work_fails(elsewhere):
    (elsewhere / "kept").mkdir()
    out = elsewhere / "kept" / "a" / "b" / "out"
    with pytest.raises(KeyboardInterrupt), new_folder(out, parents=True):
        raise KeyboardInterrupt
    assert list((elsewhere / "kept").iterdir()) == []
    with new_folder(out, parents=True) as folder:
        (folder / "all").write_text("done")
    assert contents(out) == {"all": "done"}


def test_a_single_file_is_written_whole_or_not_at_all(elsewhere, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    write_file(elsewhere / "a", b"one")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(elsewhere / "a", b"two")
    assert contents(elsewhere) == {"a": "one"}


def test_folders_of_bytes_say_why_they_cannot_be_written(elsewhere):
    write_folder(elsewhere / "deep" / "out", {"a": b"1"})
    (elsewhere / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written: File exists"):
        write_folder(elsewhere / "file" / "out", {"a": b"1"})


# --- results ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def observations():
    rng = np.random.default_rng(0)
    x = np.zeros(400)
    for i in range(399):
        x[i + 1] = 0.9 * x[i] + rng.normal() * 0.3
    return fimsde.read(x, dt=0.1)


def test_saving_into_the_working_folder_with_overwrite_loses_nothing(observations, elsewhere):
    (elsewhere / "data.csv").write_text("mine")
    sde = fimsde.estimate(observations)
    for place in (".", elsewhere, elsewhere.parent):
        with pytest.raises(OutputError, match="is or holds the working folder"):
            sde.save(place, overwrite=True)
    assert contents(elsewhere) == {"data.csv": "mine"}
    sde.save("saved")
    Path("saved/notes.txt").write_text("mine")
    sde.save("saved", overwrite=True)
    assert Path("saved/notes.txt").read_text() == "mine"
    assert fimsde.load("saved").dim == 1


def test_a_report_replaces_reports_only(observations, elsewhere):
    sde = fimsde.result(fimsde.estimate(observations), observations)
    sde.report("r.html", resamples=0)
    sde.report("r.html", resamples=0)
    with pytest.raises(OutputError, match="exists already"):
        sde.report("r.html", resamples=0, overwrite=False)
    Path("r.html").write_text("<html>mine</html>")
    with pytest.raises(OutputError, match="was not made by fimsde"):
        sde.report("r.html", resamples=0)
    assert contents(elsewhere) == {"r.html": "<html>mine</html>"}


# --- the program ------------------------------------------------------------------------------------------------------


def run(*words) -> tuple[int, str]:
    """Exit code and standard error of the program."""
    error = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(error):
        try:
            main([str(word) for word in words])
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    return code, error.getvalue()


@pytest.fixture
def table(observations, elsewhere):
    rows = zip(observations.times, observations.values[:, 0], strict=True)
    (elsewhere / "data").mkdir()
    file = elsewhere / "data" / "table.csv"
    file.write_text("t,x\n" + "".join(f"{t},{x}\n" for t, x in rows))
    return file


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["estimate", "data/table.csv", "--overwrite", "--out", "."], "is or holds the input"),
        (["estimate", "data/table.csv", "--overwrite", "--out", "data"], "is or holds the input"),
        (["estimate", "data/table.csv", "--out", "data"], "is or holds the input"),
        (["estimate", "data/table.csv", "--overwrite", "--out", "data/table.csv"], "is a file"),
        (["estimate", "data/table.csv", "--overwrite", "--out", "demo"], "was not made by fimsde"),
        (["demo"], "was not made by fimsde"),
        (["demo", "--overwrite"], "was not made by fimsde"),
        (["demo", "--out", ".", "--overwrite"], "is or holds the working folder"),
        (["report", "data/table.csv", "--out", "data/table.csv", "--overwrite"], "is the input"),
        (["report", "data/table.csv", "--out", "page.html", "--overwrite"], "was not made by fimsde"),
        (["simulate", "data/table.csv", "--out", "data/table.csv", "--overwrite"], "is the input"),
        (["simulate", "data/table.csv", "--out", "page.html", "--overwrite"], "was not made by fimsde"),
        (["export", "bundled", "demo", "--format", "torch", "--overwrite"], "was not made by fimsde"),
    ],
)
def test_no_verb_removes_what_is_not_its_own(words, says, table, elsewhere):
    (elsewhere / "demo").mkdir()
    (elsewhere / "demo" / "thesis.tex").write_text("mine")
    (elsewhere / "page.html").write_text("mine")
    before = contents(elsewhere)
    code, error = run(*words)
    assert code == 2
    assert error.count("\n") == 1
    assert says in error
    assert contents(elsewhere) == before


def test_of_two_runs_into_one_folder_the_second_says_so(table):
    with new_folder("result") as folder:
        (folder / "first.txt").write_text("first")
        for words in (["estimate", table], ["estimate", table, "--overwrite"], ["demo"]):
            code, error = run(*words, "--out", "result")
            assert code == 2
            assert "another run of fimsde is writing" in error
    assert contents(Path("result")) == {"first.txt": "first"}


def test_every_verb_overwrites_by_the_same_rule(table):
    none = ["--resamples", "0"]
    verbs = {
        "result": ["estimate", table, *none],
        "page.html": ["report", "result", *none],
        "paths.csv": ["simulate", "result", "--paths", "1", "--duration", "1"],
    }
    for name, words in verbs.items():
        assert run(*words, "--out", name)[0] == 0
        code, error = run(*words, "--out", name)
        assert code == 2
        assert "exists already. Choose another name, or use --overwrite to replace it." in error
        assert run(*words, "--out", name, "--overwrite")[0] == 0


@pytest.mark.parametrize("moment", ["_empty", "mark"])
def test_an_interrupt_while_the_hidden_folder_is_made_left_it_there(tmp_path, monkeypatch, moment):
    def interrupt(*_):
        raise KeyboardInterrupt

    place = tmp_path / "own"
    place.mkdir()
    with monkeypatch.context() as patched:
        patched.setattr(claims, moment, interrupt)
        if moment == "_empty":  # clearing away needs it, too
            patched.setattr(claims, "_remove", lambda work: work.rmdir())
        with pytest.raises(KeyboardInterrupt), new_folder(place / "result"):
            pass
    assert list(place.iterdir()) == []
    with new_folder(place / "result"):
        pass
    assert (place / "result").is_dir()
