"""Finetuning as a method of the benchmark: along training, more iterations go on from fewer."""

import pickle

import numpy as np
import pytest

from fimsde.data.observations import read
from fimsde.errors import ConfigError
from fimsde.estimation import EstimatedSDE
from fimsde.methods import fit_finetuned, named
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.train.finetune import objective
from fimsde.train.finetune.config import FinetuneConfig
from fimsde.train.finetune.objective import WindowObjective

TINY = ModelConfig(embed=8, heads=2, encoder_layers=1, functional_layers=1, feed_forward=8, head_hidden=(8,))


def test_the_finetuned_model_is_a_method_of_the_benchmark():
    (method,) = named(["ours-finetuned"])
    at_start = method.at(0)
    assert at_start.settings != method.settings
    assert at_start.name == method.name
    assert pickle.loads(pickle.dumps(at_start)).settings == at_start.settings  # it travels to other processes
    walk = np.random.default_rng(0).standard_normal(300).cumsum() * 0.1
    assert isinstance(at_start.fit(read(walk, dt=0.1), 2**40), EstimatedSDE)


def test_along_training_more_iterations_go_on_from_fewer_and_change_nothing(tmp_path, monkeypatch):
    """The same numbers as in one go; a run that is there already is only read."""
    monkeypatch.setattr(objective, "_PATH_STEPS", 4)  # most of the time of a judgement
    weights, work = tmp_path / "weights", tmp_path / "work"
    FIMSDE(TINY, seed=0).save_pretrained(weights)
    config = FinetuneConfig(iterations=4, num_scored=16, validation_interval=2, hold_out=0.0, objective="dense")
    walk = read(np.random.default_rng(1).standard_normal(160).cumsum() * 0.1, dt=0.1)
    iterations, usual = [], WindowObjective.__call__
    monkeypatch.setattr(WindowObjective, "__call__", lambda *a: iterations.append(1) or usual(*a))
    found = {n: fit_finetuned(weights, config, n, work, walk, 3) for n in (0, 2, 4)}
    assert len(iterations) == 4
    fit_finetuned(weights, config, 4, work, walk, 3)
    assert len(iterations) == 4
    alone = {n: fit_finetuned(weights, config, n, None, walk, 3) for n in (2, 4)}
    x = walk.values[2:-2]
    for n in (2, 4):
        np.testing.assert_array_equal(found[n].fields(x)[0], alone[n].fields(x)[0])
    assert not np.array_equal(found[2].fields(x)[0], found[4].fields(x)[0])
    with pytest.raises(ConfigError, match="until is 3; expected a multiple of validation_interval, 2"):
        fit_finetuned(weights, config, 3, None, walk, 3)


def test_finetuning_can_be_scored_after_any_number_of_iterations():
    """Runs end where held-out data are judged: a number of iterations that does not fit makes that more frequent."""
    (method,) = named(["ours-finetuned"])
    assert "validation_interval=5" in method.at(5).settings
    assert "validation_interval=10" in method.at(40).settings
    assert "validation_interval=10" in method.at(0).settings
