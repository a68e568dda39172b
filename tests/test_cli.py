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
from fimsde.systems.canonical import context


def test_help_lists_every_command_with_an_example():
    runner = CliRunner()
    text = runner.invoke(app, ["--help"]).output
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
