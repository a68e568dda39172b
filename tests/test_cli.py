"""The program as a user runs it: help, exit codes, and outputs that are complete or absent."""

import json
import runpy
import subprocess
import sys
from functools import partial

import pytest
from typer.testing import CliRunner

from fimsde import __version__
from fimsde.interface.cli import app, main
from fimsde.systems.canonical import DOUBLE_WELL, context


def test_help_lists_every_command_with_an_example():
    runner = CliRunner()
    text = runner.invoke(app, ["--help"]).output
    assert "..." not in text.partition("Commands:")[2], "a command was described by half a sentence"
    for command in ("estimate", "demo", "generate", "pretrain", "finetune", "convert", "bench"):
        assert command in text
        assert "Example" in runner.invoke(app, [command, "--help"]).output, command


def test_version_is_printed():
    assert __version__ in CliRunner().invoke(app, ["--version"]).output


def test_the_program_runs_as_a_module(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["fimsde", "--version"])
    with pytest.raises(SystemExit) as stop:
        runpy.run_module("fimsde", run_name="__main__")
    assert not stop.value.code
    assert capsys.readouterr().out == f"fimsde {__version__}\n"


def test_wrong_input_is_one_sentence_and_exit_code_2(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["bench", "nonsense"])
    assert stop.value.code == 2
    assert capsys.readouterr().err.startswith("fimsde: unknown experiment 'nonsense'")


@pytest.mark.parametrize("length", [600, pytest.param(5000, marks=pytest.mark.slow)])
def test_demo_writes_data_estimate_and_figure(length, tmp_path, monkeypatch):
    """The slow case buys the number of observations that users get."""
    monkeypatch.setattr("fimsde.interface.cli.demo._RESAMPLES", 2)
    monkeypatch.setattr("fimsde.systems.canonical.context", partial(context, length=length))
    out = tmp_path / "demo"
    CliRunner().invoke(app, ["demo", "--out", str(out)], catch_exceptions=False)
    lines = (out / "double_well.csv").read_text().splitlines()
    assert lines[0] == "t,x"
    assert len(lines) == length + 1
    assert (out / "fields.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((out / "result.json").read_text())["equation"]["text"].startswith("dx = (")
    assert "Drift and diffusion" in (out / "report.html").read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["demo"]


def test_the_package_is_light_until_torch_is_needed():
    """M5: importing reads no torch, starts no threads and needs no network."""
    checks = "assert 'torch' not in sys.modules; assert threading.active_count() == 1"
    subprocess.run([sys.executable, "-c", f"import sys, threading, fimsde; fimsde.read; {checks}"], check=True)


HEAVY = ("torch", "numba", "matplotlib", "pandas", "scipy", "sympy")


def loaded_by(code, folder):
    """What of the heavy packages a process of its own has loaded when it ends."""
    check = f"import sys; print(*[name for name in {HEAVY!r} if name in sys.modules])"
    program = f"try:\n    {code}\nexcept SystemExit as stop:\n    print('code', stop.code)\n{check}"
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=True)
    *_, modules = done.stdout.splitlines()
    return modules.split(), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--help"], "The equation behind a table"),
        (["estimate", "--help"], "Example: fimsde estimate"),
        (["estimate", "five.csv", "--time", "tt"], "there is no column 'tt'; the columns are 't', 'x'"),
        (["estimate", "five.csv", "--values", "x,y"], "there is no column 'y'"),
        (["estimate", "five.csv", "--values", "x,x"], "column 'x' is used twice"),
        (["estimate", "none.csv"], "there is no file 'none.csv'"),
        (["estimate", "twice.csv"], "the header names column 'x' 2 times"),
        (["estimate", "five.csv", "--resamples", "1"], "--resamples is 1"),
        (["estimate", "five.csv", "--origin", "a"], "--origin is 'a'"),
        (["estimate", "five.csv", "--out", "taken"], "exists already"),
        (["report", "five.csv", "--path", "id"], "there is no column 'id'"),
        (["simulate", "five.csv", "--time", "when"], "there is no column 'when'"),
        (["check", "five.csv", "--time", "when"], "there is no column 'when'"),
        (["compare", "five.csv", "--time", "when"], "there is no column 'when'"),
        (["finetune", "five.csv", "--time", "when", "--out", "o"], "there is no column 'when'"),
        (["info", "five.csv", "--time", "when"], "there is no column 'when'"),
        (["estimat"], "No such command 'estimat'"),
    ],
    ids=" ".join,
)
def test_help_and_errors_in_arguments_or_header_come_before_anything_heavy_is_imported(arguments, words, tmp_path):
    (tmp_path / "five.csv").write_text("t,x\n0,1\n1,2\n")
    (tmp_path / "twice.csv").write_text("t,x,x\n0,1,2\n")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("")
    modules, said = loaded_by(f"from fimsde.interface.cli import main; main({arguments!r})", tmp_path)
    assert words in said
    assert modules == []


def test_a_good_header_does_load_what_reading_needs(tmp_path):
    """The negative control of the test above."""
    (tmp_path / "five.csv").write_text("t,x\n0,1\n1,2\n2,5\n")
    modules, said = loaded_by("from fimsde.interface.cli import main; main(['info', 'five.csv'])", tmp_path)
    assert "transitions: 2" in said
    assert modules == ["pandas"]  # and neither torch nor scipy


def test_every_public_name_is_imported_when_it_is_asked_for(tmp_path):
    modules, _ = loaded_by("import fimsde, sys; assert 'numpy' not in sys.modules; print(fimsde.read)", tmp_path)
    assert modules == []
    names = "import fimsde; print([getattr(fimsde, name).__name__ for name in fimsde.__all__[:-1]])"
    assert "'read', 'Observations', 'fimsde.datasets', 'estimate'" in loaded_by(names, tmp_path)[1]


def test_the_function_simulate_is_not_hidden_by_the_module_of_its_name(tmp_path):
    code = "import fimsde.simulate, fimsde; print(fimsde.simulate, fimsde.Paths)"
    assert "<function simulate" in loaded_by(code, tmp_path)[1]


def test_an_estimate_without_report_has_the_numbers_and_draws_nothing(tmp_path):
    drawn = context(DOUBLE_WELL, length=400, stride=10)
    rows = zip(drawn.times.tolist(), drawn.values[:, 0].tolist(), strict=True)
    (tmp_path / "well.csv").write_text("t,x\n" + "".join(f"{t},{x}\n" for t, x in rows))
    command = ["estimate", "well.csv", "--no-report", "--out", "out"]
    modules, said = loaded_by(f"from fimsde.interface.cli import main; main({command!r})", tmp_path)
    assert "matplotlib" not in modules
    assert "the numbers are in out" in said
    assert {p.name for p in (tmp_path / "out").iterdir()} == {".fimsde.json", "fields.csv", "result.json", "saved"}
    record = json.loads((tmp_path / "out" / "result.json").read_text())
    assert record["equation"]["text"].startswith("dx = (")
    assert len(record["verdicts"]) > 3
    assert set(record["not_computed"]) == {"density", "replay"}
