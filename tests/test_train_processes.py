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
    return replace(config, model=replace(config.model, dropout=0.0), loop=replace(config.loop, steps=4))


def train(preset, folder):
    pretrain(config(preset), Path(folder))


def torchrun(folder, preset, num_processes):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_processes}"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        [*command, __file__, preset, str(folder)], capture_output=True, text=True, env=environment, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["paper-tiny", "primed-tiny"])
def test_two_processes_give_the_losses_of_one(preset, tmp_path):
    """Buys what a cluster relies on; starting processes takes long. Only the order of sums differs: 1e-4.

    Losses and norms of the gradient are compared, not weights: where a gradient is zero by symmetry (biases of keys),
    AdamW makes full steps of rounding errors, which change nothing else.
    """
    done = torchrun(tmp_path / "two", preset, 2)
    assert done.returncode == 0, done.stderr
    pretrain(config(preset), tmp_path / "one")
    one, two = read_log(tmp_path / "one"), read_log(tmp_path / "two")
    assert len(two) == 4
    for a, b in zip(one, two, strict=True):
        assert b == pytest.approx(a, rel=1e-4, abs=1e-6)


if __name__ == "__main__":
    train(*sys.argv[1:])
