"""T5–T9: training that is killed, disks that are full, and checkpoints that do not fit.

The kills happen in a process of their own (this file run as a script), which imports everything once and forks.
"""

import json
import os
import resource
import shutil
import signal
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from children import as_script, exit_code, in_child
from fimsde.errors import CheckpointError
from fimsde.train import checkpoint
from fimsde.train.checkpoint import State, restore, save, steps
from fimsde.train.config import TrainConfig
from fimsde.train.log import read_log
from fimsde.train.pretrain.run import pretrain
from fimsde.train.pretrain.start import new_model

TINY = TrainConfig.preset("paper-tiny")
LONGER = replace(TINY, loop=replace(TINY.loop, steps=10, checkpoint_interval=3))
SETTINGS = {"loop": {"seed": 1}, "sizes": [1, 2]}


def scenario(name, folder, *arguments):
    """Run a function of this file in a process of its own."""
    return as_script(__file__, name, folder, *arguments, OMP_NUM_THREADS="1")


def a_state(step=0):
    """A tiny model with all its tensors equal to the step, so that a mixture of two checkpoints would show."""
    model = new_model(replace(TINY, model=replace(TINY.model, embed=16, feed_forward=16)))
    optimiser = torch.optim.AdamW(list(model.parameters()), lr=0.0)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimiser.step()
    state = State(model, optimiser, {name: t.clone() for name, t in model.state_dict().items()})
    fill(state, step)
    return state


@torch.no_grad()
def fill(state, step):
    state.step = step
    for tensor in checkpoint._tensors(state).values():
        tensor.fill_(float(step))


def assert_complete(folder, probe):
    """Whatever is called step-N loads and is all of step N. Returns the last N."""
    found = steps(folder)
    assert found, "no checkpoint is left"
    for step in found:
        alone = folder / "alone"
        alone.mkdir()
        os.rename(folder / f"step-{step:09d}", alone / f"step-{step:09d}")
        fill(probe, -1)
        restore(alone, probe, SETTINGS)
        os.rename(alone / f"step-{step:09d}", folder / f"step-{step:09d}")
        alone.rmdir()
        assert probe.step == step
        assert all(bool((t == step).all()) for t in checkpoint._tensors(probe).values()), f"step {step} is a mixture"
    return found[-1]


# --- T5 ---------------------------------------------------------------------------------------------------------------


def kill_training(folder, kills):
    """Train undisturbed, and with at most so many kills at random moments; compare every bit."""
    assert not exit_code(in_child(lambda: pretrain(LONGER, folder / "whole")))
    rng, out, killed = np.random.default_rng(0), folder / "killed", 0
    while True:
        resume = bool(steps(out / "checkpoints"))
        enough = len(read_log(out)) + int(rng.integers(1, 4)) if killed < int(kills) else 10**6
        child = in_child(lambda resume=resume: pretrain(LONGER, out, resume=resume))
        while len(read_log(out)) < enough and os.waitpid(child, os.WNOHANG)[0] == 0:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.02))
        try:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            killed += 1
        except (ProcessLookupError, ChildProcessError):  # it came to its end, on a busy machine before all kills
            assert steps(out / "checkpoints")[-1] == LONGER.loop.steps, "training failed"
            break
    assert killed > 0
    assert read_log(out) == read_log(folder / "whole")
    for name in ("checkpoints/step-000000010/state.safetensors", "weights/model.safetensors"):
        assert (out / name).read_bytes() == (folder / "whole" / name).read_bytes(), name


def test_training_killed_and_resumed_equals_the_undisturbed_run(tmp_path):
    done = scenario("kill_training", tmp_path, 2)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_training_killed_many_times_equals_the_undisturbed_run(tmp_path):
    """Buys the chance to hit the short moments around a checkpoint."""
    done = scenario("kill_training", tmp_path, 25)
    assert done.returncode == 0, done.stderr


# --- T6 ---------------------------------------------------------------------------------------------------------------


def kill_saving(folder, kills, writer="ours"):
    """Kill at random byte counts (the kernel does it, by the limit on file sizes) and at random moments."""
    if writer == "naive":
        checkpoint.write_folder = _write_in_place
    rng, state, probe = np.random.default_rng(0), a_state(), a_state()
    save(folder, state, SETTINGS)
    size = (folder / "step-000000000" / "state.safetensors").stat().st_size
    last, outcomes = 0, {"before": 0, "after": 0}
    for kill in range(int(kills)):
        limit = int(rng.integers(0, size)) if kill % 2 else None
        child = in_child(partial(_save_on, folder, state, last + 1, limit))
        if not kill % 2:
            time.sleep(rng.uniform(0, 0.03))
            os.kill(child, signal.SIGKILL)
        assert exit_code(child)
        reached = assert_complete(folder, probe)
        assert reached >= last
        outcomes["after" if reached > last else "before"] += 1
        last = reached
    save(folder, _filled(state, last + 1), SETTINGS)
    left = sorted(path.name for path in folder.iterdir())
    assert left == [f"step-{last:09d}", f"step-{last + 1:09d}"], f"leftovers: {left}"
    print(json.dumps(outcomes))


def _save_on(folder, state, step, limit):
    """Save one step after the other, until killed."""
    if limit is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it, and gets an error instead
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    for number in range(step, step + 1000):
        save(folder, _filled(state, number), SETTINGS)


def _filled(state, step):
    fill(state, step)
    return state


def _write_in_place(folder, files):
    """A writer without care, to show that the check notices."""
    folder.mkdir()
    for name, data in files.items():
        (folder / name).write_bytes(data)


@pytest.mark.parametrize("kills", [30, pytest.param(300, marks=pytest.mark.slow)])
def test_killed_while_saving_a_complete_checkpoint_is_always_there(tmp_path, kills):
    """Every second kill falls inside the write, whatever the speed. The slow case buys more of the short moments."""
    done = scenario("kill_saving", tmp_path, kills)
    assert done.returncode == 0, done.stderr
    outcomes = json.loads(done.stdout)
    assert outcomes["before"] >= kills // 2
    assert outcomes["before"] + outcomes["after"] == kills


def test_that_check_notices_a_writer_without_care(tmp_path):
    done = scenario("kill_saving", tmp_path, 30, "naive")
    assert done.returncode != 0
    assert "CheckpointError" in done.stderr


# --- T7 ---------------------------------------------------------------------------------------------------------------


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def fill_disk(folder):
    """A limit on file sizes that a checkpoint exceeds: every write beyond it fails, as on a full disk."""
    state = a_state()
    save(folder, state, SETTINGS)
    before = content(folder)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
    try:
        save(folder, _filled(state, 1), SETTINGS)
    except CheckpointError as error:
        print(error)
    assert content(folder) == before
    assert assert_complete(folder, a_state()) == 0


def test_a_full_disk_is_an_error_and_the_last_checkpoint_stays(tmp_path):
    done = scenario("fill_disk", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cannot be written: File too large. What was there before is unchanged" in done.stdout


def test_training_stops_when_a_checkpoint_cannot_be_written(tmp_path, monkeypatch):
    write = Path.write_bytes

    def refused(self, content):
        if "step-000000004" in self.parent.name:
            raise PermissionError(13, "Permission denied")
        return write(self, content)

    monkeypatch.setattr(Path, "write_bytes", refused)
    with pytest.raises(CheckpointError, match=r"step-000000004 cannot be written: Permission denied"):
        pretrain(TINY, tmp_path / "run")
    assert steps(tmp_path / "run" / "checkpoints") == [2]
    assert len(read_log(tmp_path / "run")) == 4
    monkeypatch.undo()
    assert pretrain(TINY, tmp_path / "run", resume=True).step == 6


def test_a_state_that_is_not_finite_is_not_saved(tmp_path):
    state = a_state()
    with torch.no_grad():
        next(iter(state.model.parameters())).fill_(float("nan"))
    with pytest.raises(CheckpointError, match=r"cannot be saved:\n.*model.encoder.features.dtau.weight"):
        save(tmp_path, state, SETTINGS)
    assert not steps(tmp_path)


# --- T8, T9 -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def saved(tmp_path):
    save(tmp_path / "c", a_state(7), SETTINGS)
    return tmp_path / "c"


def edit(folder, **changes):
    path = folder / "step-000000007" / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_resuming_from_nothing_is_an_error_and_not_a_fresh_start(tmp_path):
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(CheckpointError, match="there is nothing to resume"):
            restore(folder, a_state(), SETTINGS)
    with pytest.raises(CheckpointError, match="there is nothing to resume"):
        pretrain(TINY, tmp_path / "run", resume=True)
    assert not (tmp_path / "run").exists()


def test_a_foreign_config_is_an_error_that_says_what_differs(saved, tmp_path):
    with pytest.raises(CheckpointError, match=r"loop.seed is 1 there and 2 here; new is absent there and 3 here"):
        restore(saved, a_state(), {"loop": {"seed": 2}, "sizes": [1, 2], "new": 3})
    pretrain(replace(TINY, loop=replace(TINY.loop, steps=1)), tmp_path / "run")
    changed = replace(TINY, loop=replace(TINY.loop, steps=1), num_queries=5)
    with pytest.raises(CheckpointError, match="num_queries is 4 there and 5 here"):
        pretrain(changed, tmp_path / "run", resume=True)


def test_a_newer_format_is_an_error(saved):
    edit(saved, format_version=2)
    with pytest.raises(CheckpointError, match="has format 2, this fimsde reads up to 1"):
        restore(saved, a_state(), SETTINGS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format_version": None}, "no format_version"),
        ({"step": "7"}, "lacks step"),
        ({"settings": None}, "lacks settings"),
        ({"step": 8}, "says that it holds step 8"),
    ],
)
def test_a_record_that_was_tampered_with_is_an_error(saved, changes, words):
    edit(saved, **changes)
    with pytest.raises(CheckpointError, match=words):
        restore(saved, a_state(), SETTINGS)


def test_tensors_that_do_not_fit_are_listed(saved):
    path = saved / "step-000000007" / "state.safetensors"
    tensors = safetensors.torch.load(path.read_bytes())
    del tensors["optimiser.3.exp_avg"], tensors["ema.encoder.features.y.bias"]
    tensors["model.locations.bias"] = torch.zeros(3)
    path.write_bytes(safetensors.torch.save(tensors))
    with pytest.raises(CheckpointError) as error:
        restore(saved, a_state(), SETTINGS)
    for words in ("optimiser.3.exp_avg is missing", "y.bias is missing", "model.locations.bias is F32 [3], expected"):
        assert words in str(error.value)


def test_a_checkpoint_cut_short_is_an_error(saved):
    path = saved / "step-000000007" / "state.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(CheckpointError, match="Fetch"):
        restore(saved, a_state(), SETTINGS)


def test_a_checkpoint_next_to_a_pickle_is_refused(saved):
    (saved / "step-000000007" / "optimizer.pt").write_bytes(b"")
    with pytest.raises(CheckpointError, match="pickled"):
        restore(saved, a_state(), SETTINGS)


def test_a_checkpoint_holds_all_there_is(saved):
    """T9, by reading it. Schedule and random numbers follow from step and settings."""
    record = json.loads((saved / "step-000000007" / "state.json").read_text())
    assert record["step"] == 7
    assert record["settings"] == SETTINGS
    assert set(record["versions"]) == {"fimsde", "Python", "torch", "numpy", "scipy", "numba", "machine"}
    names = safetensors.torch.load((saved / "step-000000007" / "state.safetensors").read_bytes())
    kinds = {name.split(".")[0] for name in names}
    moments = {name.split(".")[2] for name in names if name.startswith("optimiser")}
    assert (kinds, moments) == ({"model", "ema", "optimiser"}, {"step", "exp_avg", "exp_avg_sq"})


def test_the_last_two_checkpoints_are_kept(tmp_path):
    state = a_state()
    for step in (1, 5, 9, 12):
        save(tmp_path, _filled(state, step), SETTINGS)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000000009", "step-000000012"]
    shutil.rmtree(tmp_path / "step-000000012")  # the older one is there to fall back on
    restore(tmp_path, state, SETTINGS)
    assert state.step == 9


if __name__ == "__main__":
    globals()[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])
