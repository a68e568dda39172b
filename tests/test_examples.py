"""Every example runs from beginning to end, without a warning, and leaves its pictures."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLES = {script.stem: script for script in (ROOT / "examples").glob("*.py")}
LONG = {"limits", "prior_and_pretraining"}  # left to the slow test


def run(names, folder):
    """Run examples in an interpreter of their own: the run-time checks of the tests would take most of the time."""
    command = [sys.executable, str(Path(__file__).with_name("run_examples.py")), str(folder)]
    done = subprocess.run(
        [*command, *(str(EXAMPLES[name]) for name in sorted(names))],
        env={**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    print({name: example["seconds"] for name, example in found.items()})
    return found


def check(found):
    failures = {name: example["failure"] for name, example in found.items() if example["failure"]}
    assert not failures, "\n".join(f"{name}: {failure}" for name, failure in failures.items())
    for name, example in found.items():
        assert len(example["printed"].splitlines()) >= 3, name
        assert "nan" not in example["printed"].split(), name
        assert example["pictures"], name


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What came of the examples that do not take long."""
    return run(EXAMPLES.keys() - LONG, tmp_path_factory.mktemp("examples"))


def test_the_examples_run(found):
    check(found)


def test_the_first_tutorial_took_a_damped_oscillator_for_an_undamped_one_without_a_word(found):
    printed = found["zero_shot"]["printed"]
    low, high = map(float, re.findall(r"drift of u at \[2.5 0. \]: (\S+) to (\S+) at", printed)[0])
    assert low < -0.1 < 0 < high, "the band holds damping and none: too few data, as the page says"
    longer = printed.partition("twenty times as long")[2]
    of_u, of_v = re.search(r"du = \((\S+) u \+", longer), re.search(r"dv = .* - (\S+) v\)", longer)
    rates = -float(of_u[1]), float(of_v[1])
    assert rates == pytest.approx((0.1, 0.1), abs=0.03), "the longer record shows it in both components"


@pytest.mark.slow
def test_the_long_examples_run(tmp_path):
    """Buys a tutorial and the page about limits; some twenty seconds."""
    check(run(LONG, tmp_path))


def test_an_example_that_warns_or_prints_nothing_is_noticed(tmp_path, monkeypatch):
    for name, code in (("warns", "import warnings\nwarnings.warn('old')"), ("silent", "x = 1")):
        (tmp_path / f"{name}.py").write_text(code)
        monkeypatch.setitem(EXAMPLES, name, tmp_path / f"{name}.py")
    found = run(["warns", "silent"], tmp_path / "run")
    with pytest.raises(AssertionError, match="UserWarning: old"):
        check({"warns": found["warns"]})
    with pytest.raises(AssertionError, match="silent"):
        check({"silent": found["silent"]})


def test_every_field_has_an_example():
    fields = {"climate", "ecology", "cells", "finance", "neuroscience", "molecular"}
    assert fields | {"quickstart", "zero_shot", "compare_methods", "prior_and_pretraining"} <= EXAMPLES.keys()
