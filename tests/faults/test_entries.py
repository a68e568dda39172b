"""Every seeded fault still applies to the source as it is; the runner tells caught faults from all others."""

from pathlib import Path

import pytest

from faults.copies import kernels_with
from faults.entries import ROOT, Fault, load
from faults.run import main

FAULTS = load()


@pytest.mark.parametrize("area", sorted({fault.area for fault in FAULTS}))
def test_every_fault_applies_to_the_source_and_names_tests_that_exist(area):
    problems = {fault.name: problem for fault in FAULTS if fault.area == area and (problem := fault.problem())}
    assert not problems


def test_names_of_faults_are_different():
    names = [(fault.area, fault.name) for fault in FAULTS]
    assert len(names) == len(set(names))


def test_there_are_faults_in_every_part_of_the_package():
    parts = {Path(fault.file).parts[0] for fault in FAULTS}
    assert len(FAULTS) >= 120
    assert {"bank", "model", "simulate.py", "data", "equations", "analysis"} <= parts


def test_a_fault_that_no_longer_applies_is_described():
    fault = Fault("road", "x", "simulate.py", "no such text", "", ("test_simulate.py",))
    assert fault.problem() == "its old text occurs 0 times in simulate.py"
    there = {"area": "road", "name": "x", "file": "simulate.py", "old": "diffusion * dt**0.5 * noise", "new": ""}
    assert Fault(**there, tests=("test_simulate.py::test_that_nobody_wrote",)).problem().startswith("there is no test")
    assert Fault(**there, tests=("test_simulate.py",)).problem() is None


def test_kernels_that_contain_the_code_of_another_file_are_known():
    """numba compares the time of a kernel's own file only: caches of these would hide a fault."""
    package = ROOT / "src" / "fimsde"
    assert kernels_with(package, "simulate.py") == [
        "prior/path_kernels.py",
        "prior/wave_kernels.py",
        "tabulate_kernels.py",
    ]
    assert kernels_with(package, "model/tiles.py") == ["model/attention_kernels.py", "model/tiles.py"]
    assert kernels_with(package, "prior/noise_kernels.py") == [
        "prior/law_kernels.py",
        "prior/noise_kernels.py",
        "prior/path_kernels.py",
    ]
    assert kernels_with(package, "data/normalise.py") == []


SMALL = {
    "src/fimsde/__init__.py": "",
    "src/fimsde/area.py": "def area(a, b):\n    return a * b\n\n\ndef half(a):\n    return 0.5 * a\n",
    "tests/test_area.py": "from fimsde.area import area, half\n\n\n"
    "def test_area():\n    assert area(2, 3) == 6\n\n\ndef test_half():\n    assert half(0) == 0\n",
    "pyproject.toml": '[tool.pytest.ini_options]\nmarkers = ["slow"]\n',
}
ENTRY = """[[fault]]
name = "{name}"
file = "area.py"
old = '{old}'
new = '{new}'
tests = ["test_area.py"]
"""
ENTRIES = {
    "sum": ("a * b", "a + b"),
    "twice": ("0.5 * a", "2.0 * a"),
    "unknown name": ("0.5 * a", "0.5 * c"),
    "no such function": ("def half", "def hlaf"),
}


@pytest.fixture
def small(tmp_path):
    """A repository with a package of two functions, of which the tests know one well."""
    for name, text in SMALL.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    entries = [ENTRY.format(name=name, old=old, new=new) for name, (old, new) in ENTRIES.items()]
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "small.toml").write_text("\n".join(entries))
    return tmp_path


def test_the_runner_tells_what_is_caught_from_what_survives_and_from_what_breaks_everything(small, capsys):
    assert main(["--resume", str(small / "outcomes.json")], small, small / "faults") == 1
    said = capsys.readouterr().out
    assert "small: sum: test_area.py::test_area" in said
    assert "small: twice: survived 2 tests" in said
    assert "small: unknown name: breaks everything: NameError" in said
    assert "small: no such function: breaks everything: collection error" in said
    assert "1 of 4 faults caught" in said
    assert "**1 of 4 caught.**" in (small / "faults" / "REPORT.md").read_text()
    assert main(["sum", "--resume", str(small / "outcomes.json")], small, small / "faults") == 0
    assert "test_area" not in capsys.readouterr().out, "what was caught before is not run again"


def test_the_runner_says_so_if_tests_fail_without_a_fault(small, capsys):
    (small / "tests" / "test_area.py").write_text("def test_wrong():\n    assert False\n")
    assert main(["sum"], small, small / "faults") == 1
    assert "tests fail without any fault" in capsys.readouterr().out
