"""Training that is killed at any moment, also before its first checkpoint, and training that is started twice.

The kills happen in a process of their own (this file run as a script), which imports everything once and forks.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from children import as_script, exit_code, in_child
from fimsde.data.observations import read
from fimsde.errors import CheckpointError, FimsdeError
from fimsde.files.lock import LOCK, only_one
from fimsde.interface.cli import main
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.train.config import TrainConfig
from fimsde.train.finetune import objective
from fimsde.train.finetune.config import FinetuneConfig
from fimsde.train.finetune.objective import WindowObjective
from fimsde.train.finetune.run import finetune
from fimsde.train.log import Log, read_log
from fimsde.train.pretrain.run import pretrain

TINY = ModelConfig(embed=8, heads=2, encoder_layers=1, functional_layers=1, feed_forward=8, head_hidden=(8,))
SHORT = FinetuneConfig(iterations=4, num_scored=16, validation_interval=2, patience=50, learning_rate=1e-2, warm_up=0)
PRETRAINING = replace(TrainConfig.preset("paper-tiny"), batch_size=2, num_queries=8)
PRETRAINING = replace(
    PRETRAINING, model=TINY, loop=replace(PRETRAINING.loop, steps=4, checkpoint_interval=2), validation_batches=1
)


@pytest.fixture(autouse=True)
def short_simulations(monkeypatch):
    """Most of the time of a judgement."""
    monkeypatch.setattr(objective, "_PATH_STEPS", 4)


def data():
    walk = np.random.default_rng(0).standard_normal((1, 150, 1)).cumsum(axis=1) * 0.1
    return read(walk, dt=0.05)


def finetuned(out, **options):
    return finetune(FIMSDE(TINY, seed=0).eval(), data(), SHORT, out=out, **options)


def pretrained(out, **options):
    return pretrain(PRETRAINING, out, **options)


CALLS = {"finetune": finetuned, "pretrain": pretrained}


def left(out):
    """All that a run leaves and that does not tell the time; no half-made file is among it."""
    files = {str(f.relative_to(out)): f.read_bytes() for f in sorted(out.rglob("*")) if f.is_file()}
    assert not [name for name in files if ".partial" in name or ".old" in name]
    for name, content in files.items():
        if name in ("report.json", "weights/training.json") or name.endswith("state.json"):
            files[name] = {key: value for key, value in json.loads(content).items() if key != "seconds"}
        elif name == "weights/README.md":
            files[name] = [line for line in content.splitlines() if b"seconds" not in line]
    return files


# --- killed -----------------------------------------------------------------------------------------------------------


def dying(call, out, moment):
    """The call, killed before the given one of the moments at which it opens or renames a file in its folder."""
    count = iter(range(10**6))

    def watch(event, arguments):
        touched = event in ("open", "os.rename", "os.mkdir") and str(arguments[0]).startswith(str(out))
        if touched and next(count) == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)
    call(out)


def kill_at_moments(name, folder, num):
    """Kill at so many moments, spread over the run; the same call again ends as an undisturbed run does."""
    objective._PATH_STEPS = 4
    call = CALLS[name]
    assert exit_code(in_child(lambda: call(folder / "whole"))) == 0
    whole = left(folder / "whole")
    killed = 0
    for moment in np.unique(np.linspace(8, 50, num).astype(int)).tolist():
        out = folder / f"killed-{moment}"
        if exit_code(in_child(lambda out=out, moment=moment: dying(call, out, moment))) == 0:
            print("moment", moment, "is after the end")
            continue
        killed += 1
        assert exit_code(in_child(lambda out=out: call(out))) == 0, f"no way on after a kill at moment {moment}"
        assert left(out) == whole, f"moment {moment}"
    assert killed >= num / 2


@pytest.mark.parametrize("name", CALLS)
def test_the_same_call_after_a_kill_was_a_dead_end_before_the_first_checkpoint(name, tmp_path):
    done = as_script(__file__, name, tmp_path, 2)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_the_same_call_goes_on_after_a_kill_at_every_moment(name, tmp_path):
    """Buys every moment at which something on disk changes."""
    done = as_script(__file__, name, tmp_path, 46)
    assert done.returncode == 0, done.stderr


# --- the log ----------------------------------------------------------------------------------------------------------


def test_a_kill_right_after_a_restart_cost_the_log_its_past(tmp_path):
    lines = [{"step": i, "loss": 1.0} for i in range(5)]
    (tmp_path / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"step": 5, "lo')
    log = Log(tmp_path, 3, False, True)  # not closed: what is on disk now is what a kill would leave
    assert read_log(tmp_path) == lines[:3]
    log.write(3, {"loss": 2.0})
    assert read_log(tmp_path) == [*lines[:3], {"step": 3, "loss": 2.0}]
    log.__exit__(None, None, None)


def test_a_damaged_line_of_a_log_is_named(tmp_path):
    (tmp_path / "log.jsonl").write_bytes(b'{"step": 0}\n\x00\x00\n{"step": 2}\n')
    with pytest.raises(CheckpointError, match=r"line 2 of .*log.jsonl is damaged"):
        read_log(tmp_path)


# --- what is gone on with, and what is not ----------------------------------------------------------------------------


@pytest.fixture
def begun(tmp_path, monkeypatch):
    """A finetuning run that ended in its first iteration."""

    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(WindowObjective, "__call__", stop)
        with pytest.raises(KeyboardInterrupt):
            finetuned(tmp_path / "run")
    assert not (tmp_path / "run" / "checkpoints").exists()
    return tmp_path / "run"


def test_resume_before_the_first_checkpoint_starts_the_run_that_was_begun(begun, tmp_path):
    with pytest.raises(CheckpointError, match=r"other settings: learning_rate is 0.01 there and 0.02 here"):
        finetune(FIMSDE(TINY, seed=0), data(), replace(SHORT, learning_rate=0.02), out=begun, resume=True)
    finetuned(begun, resume=True)
    finetuned(tmp_path / "whole")
    assert left(begun) == left(tmp_path / "whole")


def test_without_a_checkpoint_other_settings_may_begin(begun):
    found = finetune(FIMSDE(TINY, seed=0), data(), replace(SHORT, learning_rate=0.02), out=begun)
    assert found.ended == "finished"


def test_a_run_with_other_settings_is_not_gone_on_with(tmp_path):
    finetuned(tmp_path / "run", until=2)
    with pytest.raises(CheckpointError, match="other settings: learning_rate"):
        finetune(FIMSDE(TINY, seed=0), data(), replace(SHORT, learning_rate=0.02), out=tmp_path / "run")
    assert finetuned(tmp_path / "run").ended == "finished"


def test_pretraining_from_other_weights_is_not_gone_on_with(tmp_path, monkeypatch):
    longer = replace(PRETRAINING, loop=replace(PRETRAINING.loop, steps=3, checkpoint_interval=1))
    usual, calls = Log.write, iter(range(100))

    def stop(self, *numbers):
        usual(self, *numbers)
        if next(calls) == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Log, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            pretrain(longer, tmp_path / "run")
    FIMSDE(TINY, seed=5).save_pretrained(tmp_path / "others")
    with pytest.raises(CheckpointError, match="other settings: start is None there"):
        pretrain(longer, tmp_path / "run", start=tmp_path / "others")
    assert pretrain(longer, tmp_path / "run").step == 3
    with pytest.raises(CheckpointError, match="holds a finished run"):
        pretrain(longer, tmp_path / "run")


def test_weights_that_are_of_no_run_were_replaced_by_those_of_a_new_one(tmp_path):
    FIMSDE(TINY, seed=5).save_pretrained(tmp_path / "weights")
    before = (tmp_path / "weights" / "model.safetensors").read_bytes()
    for call in CALLS.values():
        with pytest.raises(CheckpointError, match="holds no run of fimsde: 'weights' is in it"):
            call(tmp_path)
    assert (tmp_path / "weights" / "model.safetensors").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["weights"]


# --- two at once ------------------------------------------------------------------------------------------------------


@pytest.fixture
def files(tmp_path):
    rows = [f"{0.05 * i},{value}\n" for i, value in enumerate(data().values[:, 0].tolist())]
    (tmp_path / "data.csv").write_text("t,x\n" + "".join(rows))
    FIMSDE(TINY, seed=0).save_pretrained(tmp_path / "tiny")
    return tmp_path


@pytest.mark.parametrize("verb", CALLS)
def test_the_second_of_two_runs_in_one_folder_is_told_about_the_command_line(verb, files, capsys, monkeypatch):
    monkeypatch.chdir(files)
    commands = {
        "finetune": [
            *("finetune", "data.csv", "--time", "t", "--values", "x"),
            *("--weights", "tiny", "--out", "run", "--iterations", "1"),
        ],
        "pretrain": ["pretrain", "--preset", "paper-tiny", "--steps", "1", "--out", "run"],
    }
    with only_one(Path("run")), pytest.raises(SystemExit) as stopped:
        main(commands[verb])
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        "fimsde: another process is at work in 'run'. Wait until it has ended, or choose another folder (--out).\n"
    )
    assert [path.name for path in Path("run").iterdir()] == [LOCK]


def test_a_lock_that_a_killed_process_left_does_not_block(tmp_path):
    holder = "import sys, time; from pathlib import Path; from fimsde.files.lock import only_one\n"
    holder += "with only_one(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", holder, str(tmp_path / "run")], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        with pytest.raises(FimsdeError, match="another process is at work"), only_one(tmp_path / "run"):
            pass
        process.kill()
    assert (tmp_path / "run" / LOCK).exists()
    with only_one(tmp_path / "run"):
        pass


def test_several_may_share_a_folder_and_none_of_them_leaves_it_behind(tmp_path):
    a = tmp_path / "a"
    with (
        only_one(a, shared=True),
        only_one(a, shared=True),
        pytest.raises(FimsdeError, match="another process"),
        only_one(a),
    ):
        pass
    with pytest.raises(ZeroDivisionError), only_one(tmp_path / "new" / "deep"):
        raise ZeroDivisionError
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_two_threads_of_a_program_cannot_finetune_into_one_folder(tmp_path):
    caught = []

    def second():
        try:
            finetuned(tmp_path / "run")
        except FimsdeError as error:
            caught.append(str(error))

    with only_one(tmp_path / "run"):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert "another process is at work" in caught[0]


if __name__ == "__main__":
    kill_at_moments(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
