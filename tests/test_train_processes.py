"""Several processes: two of them give the losses of one."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fimsde.train.config import TrainConfig
from fimsde.train.log import read_log
from fimsde.train.pretrain.run import pretrain


def config(preset):
    """Without dropout, whose random numbers differ between processes."""
    config = TrainConfig.preset(preset)
    loop = replace(config.loop, steps=4, log_interval=1)
    return replace(config, model=replace(config.model, dropout=0.0), loop=loop, validation_batches=0)


def train(preset, folder):
    pretrain(config(preset), Path(folder))


LAUNCHERS = {
    "torchrun": ("torch.distributed.run", "--standalone", "--nproc-per-node=2"),
    "accelerate": (
        "accelerate.commands.launch",
        "--cpu",
        "--num_processes=2",
        "--num_machines=1",
        "--mixed_precision=no",
    ),
}


def launch(launcher, folder, preset):
    command = [sys.executable, "-m", *LAUNCHERS[launcher], __file__, preset, str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("launcher", "preset"),
    [("torchrun", "paper-tiny"), ("torchrun", "primed-tiny"), ("torchrun", "paper-0.1m"), ("accelerate", "paper-0.1m")],
)
def test_two_processes_give_the_losses_of_one(launcher, preset, tmp_path):
    """Buys what a cluster relies on; starting processes takes long. Only the order of sums differs: 1e-4.

    Losses and norms of the gradient are compared, not weights: where a gradient is zero by symmetry (biases of keys),
    AdamW makes full steps of rounding errors, which change nothing else.
    """
    done = launch(launcher, tmp_path / "two", preset)
    assert done.returncode == 0, done.stderr
    pretrain(config(preset), tmp_path / "one")
    one, two = read_log(tmp_path / "one"), read_log(tmp_path / "two")
    assert len(two) == 4
    for a, b in zip(one, two, strict=True):
        assert b == pytest.approx(a, rel=1e-4, abs=1e-6)


if __name__ == "__main__":
    train(*sys.argv[1:])
