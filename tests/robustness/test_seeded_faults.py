"""Tests of the tests: small faults are put into a copy of the package, one at a time, and the fast tests must fail.

A fault is a replacement in the text of one file. The text must occur exactly once, so a fault that no longer applies
is noticed; a fault that survives is a missing test.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent.parent


class Fault(NamedTuple):
    file: str
    old: str
    new: str
    tests: str  # the file of fast tests that must notice


FAULTS = {
    "state not carried between sub-steps": Fault(
        "simulate.py", "states[:, b] = x = ahead", "states[:, b] = ahead", "test_simulate.py"
    ),
    "sqrt(dt) replaced by dt": Fault(
        "simulate.py", "diffusion * dt**0.5 * noise", "diffusion * dt * noise", "statistics/test_simulate.py"
    ),
    "the same noise for every path": Fault(
        "simulate.py", "np.array([seed, k], np.uint64)", "np.array([seed, 0], np.uint64)", "test_simulate.py"
    ),
    "noise drawn afresh in every block": Fault(
        "simulate.py",
        "generators[k].standard_normal(",
        "np.random.default_rng(k).standard_normal(",
        "test_simulate.py",
    ),
    "equal gaps assumed": Fault(
        "simulate.py", "schedule.step[own, gap]", "schedule.step[own, 0 * gap]", "test_simulate.py"
    ),
    "an invalid start counted as a state": Fault(
        "simulate.py", "values[started, 0] = x0[started]", "values[:, 0] = x0", "test_simulate.py"
    ),
    "divergence forgotten between blocks": Fault(
        "simulate.py", "= states[:, -1], good[:, -1]", "= states[:, -1], True", "test_simulate.py"
    ),
    "g returned for sqrt(g)": Fault(
        "sde.py", "(sde.drift(x), sde.diffusion(x))", "(sde.drift(x), sde.diffusion(x) ** 2)", "test_sde.py"
    ),
    "Ito's correction forgotten": Fault("sde.py", "drift / x - 0.5 * (diffusion / x) ** 2", "drift / x", "test_sde.py"),
    "Ito's correction with the wrong sign": Fault(
        "sde.py", "x * (drift + 0.5 * diffusion**2)", "x * (drift - 0.5 * diffusion**2)", "test_sde.py"
    ),
    "diffusion rescaled like the drift": Fault(
        "sde.py",
        "(np.abs(self.scale) * np.sqrt(self.time_scale))",
        "(np.abs(self.scale) * self.time_scale)",
        "test_sde.py",
    ),
    "unbiased variance": Fault("normalise.py", "unit.std(axis=0)", "unit.std(axis=0, ddof=1)", "test_normalise.py"),
    "starts and observations swapped": Fault(
        "normalise.py", 'if statistics == "starts"', 'if statistics != "starts"', "test_normalise.py"
    ),
    "absolute floor on the scale": Fault(
        "normalise.py",
        "unit.std(axis=0) * spread",
        "np.maximum(unit.std(axis=0) * spread, 1e-6)",
        "test_normalise.py",
    ),
    "arithmetic mean of the gaps": Fault(
        "normalise.py", "np.exp(-np.mean(np.log(tr.dtau)))", "1 / np.mean(tr.dtau)", "test_normalise.py"
    ),
    "drift not rescaled by time": Fault(
        "normalise.py", "return f * (self.scale * self.time_scale)", "return f * self.scale", "test_normalise.py"
    ),
    "transition across a path boundary": Fault(
        "transitions.py", "path[1:] == path[:-1]", "path[1:] == path[1:]", "test_transitions.py"
    ),
    "absolute times for gaps": Fault(
        "transitions.py", "np.diff(obs.times)[inside]", "obs.times[1:][inside]", "test_transitions.py"
    ),
    "the end of a path not counted as observed": Fault(
        "transitions.py",
        "[self.y, self.y[last] + self.dy[last]]",
        "[self.y, self.y[last]]",
        "test_transitions.py",
    ),
    "last observation dropped": Fault(
        "observations.py",
        "rows = np.flatnonzero(observed)",
        "rows = np.flatnonzero(observed)[:-1]",
        "test_observations.py",
    ),
    "mask of the first path for all": Fault(
        "arrays.py",
        "[m.astype(bool) for m in masks]",
        "[masks[0].astype(bool) for m in masks]",
        "test_observations.py",
    ),
    "dates counted from the first one given": Fault(
        "arrays.py", "first = np.fmin.reduce(stamps)", "first = stamps[0]", "test_observations.py"
    ),
    "blank lines skipped": Fault(
        "tables.py", '"skip_blank_lines": False', '"skip_blank_lines": True', "test_tables.py"
    ),
    "lines counted from zero": Fault("tables.py", "_FIRST_LINE = 2", "_FIRST_LINE = 0", "test_tables.py"),
}


def run_tests(folder: Path, tests: list[str]) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package that the tests will import instead of the installed one."""
    copy = tmp_path / "fimsde"
    shutil.copytree(ROOT / "src" / "fimsde", copy, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_applies_to_the_source_as_it_is(name):
    fault = FAULTS[name]
    assert (ROOT / "src" / "fimsde" / fault.file).read_text().count(fault.old) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_a_seeded_fault_is_noticed_by_the_fast_tests(name, package):
    """Buys the knowledge that a mistake of this kind cannot pass unseen."""
    fault = FAULTS[name]
    file = package / fault.file
    file.write_text(file.read_text().replace(fault.old, fault.new))
    done = run_tests(package.parent, [f"tests/{fault.tests}"])
    assert done.returncode == 1, f"the fault survived:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    assert "1 failed" in done.stdout
    assert "ImportError" not in done.stdout


@pytest.mark.slow
def test_without_a_fault_the_copy_passes(package):
    """Buys the other half: it is the fault that is noticed, not the copy; and it is the copy that is tested."""
    sign = package.parent / "the copy was imported"
    with (package / "transitions.py").open("a") as file:
        file.write(f"\nimport pathlib\n\npathlib.Path({str(sign)!r}).touch()\n")
    done = run_tests(package.parent, sorted({f"tests/{fault.tests}" for fault in FAULTS.values()}))
    assert done.returncode == 0, done.stdout[-2000:]
    assert sign.exists()
