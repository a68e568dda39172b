"""G5: generation killed at random moments and run again ends in the same bytes; no name ever lies."""

import hashlib
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import numpy as np
import pytest

from fimsde.prior.config import LocationConfig, PriorConfig, Setting
from fimsde.prior.dataset import generate
from fimsde.prior.manifest import MANIFEST_FILE, DatasetSettings, read_manifest, read_settings
from fimsde.prior.shards import parse_shard

SMALL = PriorConfig(settings=(Setting(0.1, 2, 20, 100),), locations=LocationConfig(300, 0.25, 10, 7))
SETTINGS = DatasetSettings(num_equations=600, seed=9, config=SMALL, shard_size=10)
COMMAND = """
import os, signal, sys, typer
from fimsde.interface.cli.generate import generate
from fimsde.prior.config import PriorConfig
from fimsde.prior.equation import draw_equation

folder, steps_left = sys.argv[sys.argv.index("--out") + 1], int(os.environ.get("STEPS_TO_LIVE", -1))

def die_in_time(event, arguments):  # a file is written in three steps: open it, rename it, open its folder to sync
    global steps_left
    if event in ("open", "os.rename") and arguments[1] != "r" and str(arguments[0]).startswith(folder):
        if steps_left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        steps_left -= 1

if __name__ == "__main__":
    draw_equation(PriorConfig(), 0, 0)
    print("ready", flush=True)
    sys.addaudithook(die_in_time)
    typer.run(generate)
"""


@pytest.fixture
def command(tmp_path):
    script, config = tmp_path / "command.py", tmp_path / "prior.toml"
    script.write_text(COMMAND)
    config.write_text(SMALL.to_toml())
    return script, config


def checksums(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@contextmanager
def working(script, config, folder, workers, equations=600, **environment):
    """The command in a process of its own, from the moment when it begins to work."""
    options = {"--equations": equations, "--seed": 9, "--shard-size": 10, "--out": folder, "--config": config}
    arguments = [str(part) for option in (options | {"--workers": workers}).items() for part in option]
    command = [sys.executable, script, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=os.environ | environment, **pipes) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process


def finish(*arguments):
    with working(*arguments) as process:
        assert process.wait() == 0


def assert_every_name_is_true(folder):
    """What carries a final name is complete: shards pass their checksum, a manifest means that nothing is missing."""
    for number in range(SETTINGS.num_shards):
        path = folder / SETTINGS.file_name(number)
        if path.exists():
            items = SETTINGS.items(number)
            shard = parse_shard(path.read_bytes(), SMALL, SETTINGS.identity, items.start, path.name)
            assert len(shard) == len(items)
    if (folder / MANIFEST_FILE).exists():
        listed = {shard.file: shard.sha256 for shard in read_manifest(folder).shards}
        assert listed.items() <= checksums(folder).items()
    if (folder / "settings.json").exists():
        assert read_settings(folder) == SETTINGS


def num_shards(folder):
    return len(list(folder.glob("shard-*")))


def kill_soon(process, folder, rng):
    """Kill after a random number of further shards and some milliseconds; False if the process ended before."""
    enough = num_shards(folder) + rng.integers(0, 15)
    while num_shards(folder) < enough and process.poll() is None:
        time.sleep(0.001)
    time.sleep(rng.uniform(0, 0.03))
    process.kill()
    return process.wait() != 0


def kill_and_resume(command, tmp_path, kills, workers):
    """Kill at random moments and check every name; whenever a data set gets finished, compare it and begin another."""
    finish(*command, tmp_path / "undisturbed", workers)
    rng, partly_done, folder = np.random.default_rng(0), 0, tmp_path / "data-0"
    for kill in range(kills):
        with working(*command, folder, workers) as process:
            was_killed = kill_soon(process, folder, rng)
        if folder.exists():
            assert_every_name_is_true(folder)
            partly_done += 0 < num_shards(folder) < SETTINGS.num_shards
        if not was_killed or kill == kills - 1:
            finish(*command, folder, workers)
            assert checksums(folder) == checksums(tmp_path / "undisturbed")
            folder = tmp_path / f"data-{kill + 1}"
    assert partly_done > 0, "no kill hit a half-made data set"


def test_killed_at_every_step_of_a_write_and_run_again_the_bytes_are_the_same(command, tmp_path):
    """Before a file is opened, before it gets its name, and before its name is on disk; the moments are counted."""
    folder, names = tmp_path / "data", ["settings.json"]
    for steps, new_shards in ((1 + 3 + 3 * 7, 7), (1 + 3 * 5 + 1, 5), (1 + 3 * 6 + 2, 7)):  # the lock is opened first
        with working(*command, folder, 1, STEPS_TO_LIVE=str(steps)) as process:
            assert process.wait() == -signal.SIGKILL
        names += [SETTINGS.file_name(number) for number in range(len(names) - 1, len(names) - 1 + new_shards)]
        assert sorted(path.name for path in folder.glob("s*")) == sorted(names)
        assert_every_name_is_true(folder)
    generate(SETTINGS, folder)
    generate(SETTINGS, tmp_path / "undisturbed")
    assert checksums(folder) == checksums(tmp_path / "undisturbed")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_killed_sixty_times_and_run_again_the_bytes_are_the_same(command, tmp_path, workers):
    """Buys random moments: inside a write, between syncing and renaming, at the manifest, and two workers."""
    kill_and_resume(command, tmp_path, kills=60, workers=workers)


def test_workers_end_when_their_parent_is_killed(command, tmp_path):
    """Otherwise every kill would leave processes that wait forever. More equations than it could ever finish."""
    with working(*command, tmp_path / "d", 2, equations=100_000) as process:
        while not list((tmp_path / "d").glob("shard-*")):
            assert process.poll() is None
            time.sleep(0.01)
        process.kill()
        rest = process.stdout.read()  # ends only when every process that holds the pipe has ended
    assert b"equations" not in rest


def test_what_an_interrupted_writer_left_is_cleared_away(tmp_path):
    settings = DatasetSettings(num_equations=20, seed=9, config=SMALL, shard_size=10)
    generate(settings, tmp_path / "plain")
    generate(settings, tmp_path / "again", shard_index=0)
    (tmp_path / "again" / ".shard-000001.safetensors.123-abcd.partial").write_bytes(b"half a sha")
    generate(settings, tmp_path / "again")
    assert checksums(tmp_path / "again") == checksums(tmp_path / "plain")
