"""A benchmark run may be stopped at any moment: what is on disk is complete, and only what is missing is computed."""

import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from fimsde.benchmark import Method, named, run
from fimsde.benchmark.results import read
from fimsde.equations.sde import FunctionSDE
from fimsde.systems.canonical import DOUBLE_WELL

SETTINGS = {"systems": ["double_well"], "repetitions": 2, "quick": True, "compare_paths": False}


def fit(observations, seed):
    return FunctionSDE(1, DOUBLE_WELL.drift, DOUBLE_WELL.diffusion)


def stored(folder):
    return sorted(f for f in folder.rglob("*") if f.is_file())


def timeless(results):
    return [replace(r, fit_cpu_seconds=0.0) for r in results]


def test_an_interrupted_run_keeps_what_it_has_and_continues_from_there(tmp_path):
    calls = []

    def interrupted(observations, seed):
        calls.append(seed)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return fit(observations, seed)

    with pytest.raises(KeyboardInterrupt):
        run("canonical", [Method("mine", "Mine", interrupted)], out=tmp_path, **SETTINGS)
    assert len(stored(tmp_path)) == 3
    results = run("canonical", [Method("mine", "Mine", interrupted)], out=tmp_path, **SETTINGS)
    assert len(results) == len(stored(tmp_path)) == 8
    assert len(calls) == 4 + 5
    whole = run("canonical", [Method("mine", "Mine", fit)], out=tmp_path / "whole", **SETTINGS)
    assert timeless(whole) == timeless(results)


def test_a_full_disk_leaves_no_half_written_result(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        run("canonical", [Method("mine", "Mine", fit)], out=tmp_path, **SETTINGS)
    assert stored(tmp_path) == []


PROGRAM = """
import sys
from pathlib import Path
from fimsde.benchmark import named, run
run("canonical", named(["kramers-moyal", "bisde"]), out=Path(sys.argv[1]), systems=["double_well"], repetitions=5,
    quick=True, compare_paths=False)
"""


@pytest.mark.slow
def test_killed_at_random_moments_every_file_is_complete(tmp_path):
    """Six SIGKILLs, then a run to the end equals an uninterrupted one. Buys: no window in which a result is half
    written under its final name."""
    rng = random.Random(0)
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path / "killed")])
        before = len(stored(tmp_path / "killed"))
        while process.poll() is None and len(stored(tmp_path / "killed")) == before:
            time.sleep(0.05)
        time.sleep(rng.uniform(0, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
        for file in (tmp_path / "killed").rglob("[!.]*.json"):
            read(file)
    options = {**SETTINGS, "repetitions": 5}
    results = [
        run("canonical", named(["kramers-moyal", "bisde"]), out=tmp_path / name, **options)
        for name in ("killed", "whole")
    ]
    assert timeless(results[0]) == timeless(results[1])


@pytest.mark.slow
def test_processes_give_the_results_of_one(tmp_path):
    """Two spawned workers. Buys: methods and tasks travel to other processes, and seeds do not depend on order."""
    one, two = (
        run("canonical", named(["kramers-moyal", "bisde"]), out=tmp_path / str(n), workers=n, **SETTINGS)
        for n in (1, 2)
    )
    assert timeless(one) == timeless(two)
