"""LatentSDE: interrupted trainings continue to the bit, and wrong files are refused."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fimsde.baselines import latent_sde
from fimsde.baselines.latent_sde import PAPER, fit
from fimsde.data.observations import read
from fimsde.errors import CheckpointError

TINY = replace(PAPER, latent_size=2, hidden_size=8, context_size=5, dt=0.1, iterations=12, kl_warmup=4)


@pytest.fixture(scope="module")
def paths():
    values = np.cumsum(np.random.default_rng(3).standard_normal((6, 21, 1)), axis=1)
    return read(values, dt=0.25)


def test_an_interrupted_training_continues_to_the_bit(paths, tmp_path, monkeypatch):
    whole = fit(paths, TINY, seed=0)
    file = tmp_path / "runs" / "latent.safetensors"
    done, iterate = [], latent_sde._iterate

    def interrupted(*args):
        if args[-1] == 8:
            raise KeyboardInterrupt
        return iterate(*args)

    monkeypatch.setattr(latent_sde, "_iterate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        fit(paths, TINY, seed=0, checkpoint=file, checkpoint_every=3)
    monkeypatch.setattr(latent_sde, "_iterate", lambda *args: done.append(args[-1]) or iterate(*args))
    resumed = fit(paths, TINY, seed=0, checkpoint=file)
    assert done == list(range(6, 12))
    _assert_same(resumed, whole)
    assert [f.name for f in file.parent.iterdir()] == ["latent.safetensors"]
    done.clear()
    _assert_same(fit(paths, TINY, seed=0, checkpoint=file), whole)
    assert not done


def test_a_finished_training_can_be_extended_but_not_shortened(paths, tmp_path):
    file = tmp_path / "latent.safetensors"
    fit(paths, replace(TINY, iterations=5), seed=0, checkpoint=file)
    _assert_same(fit(paths, replace(TINY, sample_dt=0.01), seed=0, checkpoint=file), fit(paths, TINY, seed=0))
    with pytest.raises(CheckpointError, match="holds 12 iterations, asked for 5"):
        fit(paths, replace(TINY, iterations=5), seed=0, checkpoint=file)


def test_checkpoints_of_other_runs_and_damaged_ones_are_refused(paths, tmp_path):
    file = tmp_path / "latent.safetensors"
    fit(paths, replace(TINY, iterations=2), seed=0, checkpoint=file)
    with pytest.raises(CheckpointError, match="seed is 0, asked for 1"):
        fit(paths, TINY, seed=1, checkpoint=file)
    with pytest.raises(CheckpointError, match="another run: settings"):
        fit(paths, replace(TINY, dt=0.2), seed=0, checkpoint=file)
    with pytest.raises(CheckpointError, match="another run: data"):
        fit(paths.with_units(scale=2.0), TINY, seed=0, checkpoint=file)
    file.write_bytes(file.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match="not a readable"):
        fit(paths, TINY, seed=0, checkpoint=file)


def _assert_same(one, other):
    assert np.array_equal(one.losses, other.losses)
    for a, b in zip(one.networks.parameters(), other.networks.parameters(), strict=True):
        assert torch.equal(a, b)
