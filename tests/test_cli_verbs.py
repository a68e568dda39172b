"""The commands for one's own data, tried as a newcomer would: right tables, wrong tables, results on disk."""

import contextlib
import csv
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import fimsde
from fimsde.files.claims import hidden
from fimsde.interface.cli import app, main
from problems import OrnsteinUhlenbeck

VERBS = ("estimate", "report", "simulate", "finetune", "compare", "check", "demo", "bench", "generate", "pretrain")
VERBS += ("convert", "export", "info")  # all but `app`, which ends when its reader says so
QUICK = ["--resamples", "2"]


def write_csv(file: Path, head, rows):
    """A table as a user's program would write it."""
    with file.open("w", newline="") as target:
        csv.writer(target).writerows([head, *rows])
    return file


def record(dim=1, num=200, paths=1, seed=5):
    """Times and states of a linear system."""
    times = np.arange(num) * 0.1
    found = fimsde.simulate(OrnsteinUhlenbeck(dim=dim), np.zeros((paths, dim)), times, substeps=2, seed=seed)
    return times, found.values


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a table of two columns and what `estimate` made of it without any option but the place."""
    place = tmp_path_factory.mktemp("newcomer")
    times, values = record()
    rows = zip(times.tolist(), values[0, :, 0].tolist(), strict=True)
    write_csv(place / "data.csv", ["time", "height (mm)"], rows)
    assert run("estimate", place / "data.csv", "--out", place / "result", "--time-unit", "s", *QUICK).code == 0
    return place


class Outcome:
    """What a run of the program left: exit code, standard output and error."""

    def __init__(self, code, out, err):
        self.code, self.out, self.err = code, out, err


def run(*arguments):
    """The program in this process, as `main` runs it."""
    import contextlib
    import io

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main([str(a) for a in arguments])
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    return Outcome(code, out.getvalue(), err.getvalue())


def test_every_verb_has_help_with_an_example_and_json():
    runner = CliRunner()
    listed = runner.invoke(app, ["--help"]).output
    for verb in VERBS:
        assert f"  {verb} " in listed
        text = runner.invoke(app, [verb, "--help"]).output
        assert f"Example: fimsde {verb}" in " ".join(text.split()), verb
        assert "--json" in text, verb


def test_a_table_of_two_columns_becomes_a_complete_folder(folder):
    made = {p.name for p in (folder / "result").iterdir()}
    assert made == {".fimsde.json", "report.html", "result.json", "fields.csv", "fields.png", "saved"}
    numbers = json.loads((folder / "result" / "result.json").read_text())
    assert numbers["names"] == ["height (mm)"]
    assert numbers["time_unit"] == "s"
    assert numbers["observations"] == 200
    assert numbers["data_sha256"] in (folder / "result" / "report.html").read_text()
    assert {p.name for p in folder.iterdir()} >= {"data.csv", "result"}
    assert not [p for p in folder.iterdir() if p.name.startswith(".")]


def test_the_grid_holds_what_the_saved_result_says(folder):
    with (folder / "result" / "fields.csv").open(newline="") as lines:
        head, *rows = csv.reader(lines)
    assert head[:3] == ["height (mm)", "drift height (mm)", "diffusion height (mm)"]
    numbers = np.array(rows, float)
    result = fimsde.load(folder / "result" / "saved")
    drift, diffusion = result.fields(numbers[:, :1])
    np.testing.assert_allclose(numbers[:, 1], drift[:, 0], rtol=1e-5)
    np.testing.assert_allclose(numbers[:, 2], diffusion[:, 0], rtol=1e-5)
    assert np.all(numbers[:, 3] <= numbers[:, 4])


def test_an_existing_folder_is_kept_and_the_sentence_says_how_to_replace_it(folder):
    before = (folder / "result" / "result.json").read_bytes()
    found = run("estimate", folder / "data.csv", "--out", folder / "result")
    assert found.code == 2
    assert "--overwrite" in found.err
    assert (folder / "result" / "result.json").read_bytes() == before


def test_a_saved_result_is_checked_reported_and_described(folder, tmp_path):
    verdicts = json.loads(run("check", folder / "result", "--json").out)
    assert {"name", "status", "number", "sentence", "next_step", "group", "p_value", "wider", "because"} == set(
        verdicts["verdicts"][0]
    )
    page = tmp_path / "again.html"
    assert run("report", folder / "result", "--out", page, "--resamples", "0").code == 0
    assert "height" in page.read_text()
    described = json.loads(run("info", folder / "result", "--json").out)
    assert described["method"] == "fimsde"
    assert described["observations"] == 200


def test_simulated_paths_are_a_table_that_can_be_read_again(folder, tmp_path):
    out = tmp_path / "paths.csv"
    options = ["--paths", "3", "--start", "0.2", "--duration", "2", "--step", "0.1", "--seed", "4"]
    found = run("simulate", folder / "result", "--out", out, *options, "--json")
    assert json.loads(found.out) == {"paths": 3, "rows": 63, "diverged": 0, "out": str(out)}
    obs = fimsde.read(out, time="t", path="path", values=["height (mm)"])
    assert obs.num_paths == 3
    np.testing.assert_allclose(obs.path(0)[0], np.arange(21) * 0.1)
    np.testing.assert_array_equal(obs.values[obs.path_starts[:-1], 0], 0.2)
    other = tmp_path / "other.csv"
    run("simulate", folder / "result", "--out", other, *options)
    assert other.read_bytes() == out.read_bytes()


def test_the_json_of_compare_has_no_number_for_what_is_impossible():
    from fimsde.analysis.compare import Comparison, MethodScore
    from fimsde.interface.cli.compare import _record

    score = MethodScore("a", "A", -np.inf, None, None, 0.1, None, 3)
    found = json.loads(json.dumps(_record(Comparison((score,), 40, 0)), allow_nan=False))["scores"][0]
    assert found["likelihood"] is None
    assert found["likelihood_reason"] == "3 of 40 held-out steps are impossible under this equation"


def test_methods_are_compared_in_the_order_of_their_likelihood(folder):
    found = json.loads(run("compare", folder / "data.csv", "--methods", "kramers-moyal,ours", "--json").out)
    likelihoods = [s["likelihood"] for s in found["scores"]]
    assert {s["method"] for s in found["scores"]} == {"kramers-moyal", "ours"}
    known = [v for v in likelihoods if v is not None]
    assert known == sorted(known, reverse=True)
    assert "likelihood" in run("compare", folder / "data.csv", "--methods", "ours").out


@pytest.mark.parametrize(("dim", "paths"), [*(pytest.param(d, 1, marks=pytest.mark.slow) for d in (2, 3)), (1, 12)])
def test_more_components_and_several_paths_are_estimated(tmp_path, dim, paths):
    """More components are slow: their figures and simulations. What it buys: the whole way for them, too."""
    times, values = record(dim, 60 if paths > 1 else 160, paths)
    names = ["x", "y", "z"][:dim]
    rows = [[k, t, *state] for k in range(paths) for t, state in zip(times, values[k].tolist(), strict=True)]
    file = write_csv(tmp_path / "tracks.csv", ["track", "t", *names], rows)
    options = ["--time", "t", "--values", ",".join(names), "--path", "track", "--resamples", "0", "--json"]
    options += ["--origin", ",".join("0" * dim)]
    found = run("estimate", file, "--out", tmp_path / "out", *options)
    assert found.code == 0, found.err
    assert fimsde.load(tmp_path / "out" / "saved").sde.settings.origin == (0.0,) * dim
    numbers = json.loads(found.out)
    assert (numbers["paths"], numbers["names"]) == (paths, names)
    assert (tmp_path / "out" / "report.html").stat().st_size > 100_000


def test_two_components_are_read_by_their_names_and_checked(tmp_path):
    times, values = record(2, 160)
    rows = [[t, *state] for t, state in zip(times, values[0].tolist(), strict=True)]
    file = write_csv(tmp_path / "data.csv", ["t", "x", "y"], rows)
    found = run("check", file, "--values", "y,x", "--json")
    assert found.code == 0, found.err
    assert {"name", "status", "number", "sentence", "next_step", "group", "p_value", "wider", "because"} == set(
        json.loads(found.out)["verdicts"][0]
    )
    assert list(json.loads(run("info", file, "--values", "y,x", "--json").out)["components"]) == ["y", "x"]


GOOD = [[i * 0.1, np.sin(i)] for i in range(60)]
WRONG = {  # head, rows, options, words of the sentence
    "missing column": (["t", "x"], GOOD, ["--values", "y"], "no column 'y'; the columns are 't', 'x'"),
    "no clock": (["a", "b"], [[x, x] for _, x in GOOD], [], "no column looks like a clock; the columns are 'a', 'b'"),
    "two clocks": (["t", "time"], [[i, 2 * i] for i in range(60)], [], "'t' and 'time' are all called like a time"),
    "no names": ([0.5, -1e-3], GOOD, [], "put a line with names above it"),
    "origin in words": (
        ["t", "x"],
        GOOD,
        ["--origin", "here"],
        "--origin is 'here'; expected one number",
    ),
    "origin too long": (["t", "x"], GOOD, ["--origin", "0,0"], "the origin has 2 numbers"),
    "one column": (["height in mm"], [row[1:] for row in GOOD], [], "the columns are 'height in mm'. Name"),
    "huge": (["t", "x"], [[t, 1e200 * x] for t, x in GOOD], [], "ranges over 2e+200"),
    "tiny": (["t", "x"], [[t, 1e-200 * x] for t, x in GOOD], [], "ranges over 2e-200"),
    "text": (["t", "x"], [*GOOD[:30], [3.0, "oops"], *GOOD[31:]], [], "'oops' at line 32"),
    "empty cell": (["t", "x"], [*GOOD[:30], [3.0, ""], *GOOD[31:]], [], "--missing 'drop'"),
    "unsorted": (["t", "x"], [*GOOD[:30], [0.05, 0.1], *GOOD[31:]], [], "followed by 0.05 at line 32"),
    "duplicate times": (["t", "x"], [*GOOD[:30], GOOD[29], *GOOD[31:]], [], "Keep one of the two"),
    "constant": (["t", "x"], [[i, 5.0] for i in range(60)], [], "is constant"),
    "one row": (["t", "x"], GOOD[:1], [], "at least 2 transitions are needed"),
    "no rows": (["t", "x"], [], [], "no rows"),
    "nine components": (
        ["t", *"abcdefghi"],
        [[i, *np.sin(i * np.arange(1, 10))] for i in range(60)],
        [],
        "has 9 components",
    ),
    "level": (["t", "x"], GOOD, ["--level", "1.5"], "a share between 0 and 1"),
    "weights": (["t", "x"], GOOD, ["--weights", "nowhere"], "no weights at 'nowhere'"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_is_one_sentence_and_nothing_is_written(case, tmp_path):
    head, rows, options, words = WRONG[case]
    file = write_csv(tmp_path / "data.csv", head, rows)
    found = run("estimate", file, "--out", tmp_path / "out", *options)
    assert found.code == 2
    errors = [line for line in found.err.splitlines() if "warning" not in line and "read as" not in line]
    assert len(errors) == 1
    assert errors[0].startswith("fimsde: ")
    assert words in errors[0]
    assert [p.name for p in tmp_path.iterdir()] == ["data.csv"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"t;x\n0,1;0,2\n0,3;0,4\n", "make 1 transition(s)"),
        (b"t|x\n0|1\n1|2\n2|5\n", "the columns are 't|x'"),
        (b"\xff\xfe\x00", "UTF-8"),
        (None, "no file"),
    ],
)
def test_a_file_that_is_no_table_is_one_sentence(content, words, tmp_path):
    file = tmp_path / "data.csv"
    if content is not None:
        file.write_bytes(content)
    found = run("estimate", file, "--out", tmp_path / "out")
    assert found.code == 2
    assert words in found.err
    assert not (tmp_path / "out").exists()


def test_a_workbook_that_is_none_is_one_sentence(tmp_path):
    (tmp_path / "data.xlsx").write_bytes(b"PK\x03\x04")
    found = run("check", tmp_path / "data.xlsx")
    assert found.code == 2
    assert "is no complete archive" in found.err


def test_parquet_without_its_extra_is_one_line(tmp_path, monkeypatch):
    (tmp_path / "data.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "fastparquet", None)
    found = run("check", tmp_path / "data.parquet", "--time", "t")
    assert found.code == 2
    assert found.err.count("\n") == 1
    assert "pip install 'fimsde[io]'" in found.err


def test_a_folder_is_no_table(tmp_path):
    found = run("estimate", tmp_path, "--out", tmp_path / "out")
    assert found.code == 2
    assert "is a folder; expected a table" in found.err


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="no file system here that refuses new files to everybody")
@pytest.mark.parametrize(("verb", "out"), [("estimate", "/proc/out"), ("simulate", "/proc/paths.csv")])
def test_a_place_that_takes_no_files_is_refused(verb, out, tmp_path):
    found = run(verb, write_csv(tmp_path / "data.csv", ["t", "x"], GOOD), "--out", out)
    assert found.code == 2
    assert "cannot write into '/proc'" in found.err


def test_a_full_disk_is_one_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    file = write_csv(tmp_path / "data.csv", ["t", "x"], GOOD)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "somewhere")

    monkeypatch.setattr("fimsde.report.folder.write_result", full)
    found = run("estimate", file, "--out", tmp_path / "out", *QUICK)
    assert found.code == 2
    assert "at 'somewhere': No space left on device. Make room" in found.err
    assert [p.name for p in tmp_path.iterdir()] == ["data.csv"]


def test_a_folder_that_holds_no_result_is_named_as_one(tmp_path):
    found = run("report", tmp_path, "--out", tmp_path / "page.html")
    assert found.code == 2
    assert "is a folder without a result. Give one made by `fimsde estimate`" in found.err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("options", [["--start", "a"], ["--start", "1,2"], ["--duration", "-1"], ["--step", "0"]])
def test_a_wrong_simulation_is_refused_and_nothing_is_written(folder, tmp_path, options):
    found = run("simulate", folder / "result", "--out", tmp_path / "paths.csv", *options)
    assert found.code == 2
    assert options[0] in found.err
    assert list(tmp_path.iterdir()) == []


def test_options_of_tables_do_not_go_with_a_saved_result(folder):
    found = run("check", folder / "result", "--time", "t")
    assert found.code == 2
    assert "Leave the other options out" in found.err


def test_semicolons_and_decimal_commas_are_read_when_named(tmp_path):
    file = tmp_path / "data.csv"
    lines = [f"{t};{x}".replace(".", ",") for t, x in GOOD]
    file.write_text("\n".join(["t;x", *lines]))
    found = run("info", file, "--separator", ";", "--decimal", ",", "--json")
    assert json.loads(found.out)["observations"] == 60


def test_warnings_are_sentences_without_python_in_them(tmp_path):
    file = write_csv(tmp_path / "data.csv", ["t", "x"], GOOD)
    found = run("check", file, "--weights", "bundled")
    assert "fimsde: warning: the observations make 59 transitions" in found.err
    assert ".py" not in found.err


def test_info_names_versions_and_weights():
    found = json.loads(run("info", "--json").out)
    assert found["fimsde"] == fimsde.__version__
    assert len(found["weights_sha256"]) == 64


def test_ctrl_c_ends_with_130_and_leaves_nothing(tmp_path):
    """The interrupt comes while the work is under way: when the hidden working folder has appeared."""
    times, values = record(num=3000)
    rows = zip(times.tolist(), values[0, :, 0].tolist(), strict=True)
    write_csv(tmp_path / "data.csv", ["t", "x"], rows)
    command = [
        sys.executable,
        "-c",
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # deaf if run in the background
        "from fimsde.interface.cli import main; main()",
        "estimate",
        "data.csv",
        "--resamples",
        "10000",
    ]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 600  # a fresh machine compiles the kernels first
    while not hidden(tmp_path / "result").exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)  # again, if a destructor swallowed the last one
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert err.endswith("fimsde: interrupted\n")
    assert [p.name for p in tmp_path.iterdir()] == ["data.csv"]


def test_an_interrupt_is_said(monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("fimsde.interface.cli.info._installation", interrupted)
    found = run("info")
    assert (found.code, found.err) == (130, "fimsde: interrupted\n")


@pytest.mark.parametrize("depth", [1, 2])
def test_an_interrupt_inside_compiled_code_was_a_traceback(monkeypatch, depth):
    """Python turns it into a SystemError when the compiled function returns; into two if that was reading a cache."""

    def interrupted(*_):
        error: BaseException = KeyboardInterrupt()
        for _ in range(depth):
            outer = SystemError("returned a result with an exception set")
            outer.__cause__ = error
            error = outer
        raise error

    monkeypatch.setattr("fimsde.interface.cli.info._installation", interrupted)
    found = run("info")
    assert (found.code, found.err) == (130, "fimsde: interrupted\n")

    def broken(*_):
        raise SystemError("something else")

    monkeypatch.setattr("fimsde.interface.cli.info._installation", broken)
    with pytest.raises(SystemError, match="something else"):
        run("info")


def test_the_shell_completes_verbs():
    environment = os.environ | {"_FIMSDE_COMPLETE": "complete_bash", "COMP_WORDS": "fimsde est", "COMP_CWORD": "1"}
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv = ['fimsde']; from fimsde.interface.cli import app; app(prog_name='fimsde')",
    ]
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert "estimate" in found.stdout
