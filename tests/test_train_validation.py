"""Validation: held-out equations that no seed trains on, and a curve that survives a repeated part of a run."""

from dataclasses import replace

import pytest
import torch

from fimsde.model.fim import FIMSDE
from fimsde.train.config import TrainConfig
from fimsde.train.log import read_log
from fimsde.train.pretrain.batches import StreamedBatches
from fimsde.train.pretrain.objectives import choose_objective
from fimsde.train.pretrain.run import pretrain
from fimsde.train.pretrain.validation import FILE, record_validation, validate, validation_batches

CONFIG = TrainConfig.preset("primed-tiny")


def test_held_out_equations_are_the_same_for_all_seeds_and_not_those_of_training():
    batches = validation_batches(CONFIG)
    others = validation_batches(replace(CONFIG, loop=replace(CONFIG.loop, seed=3)))
    assert all(torch.equal(a.x, b.x) for a, b in zip(batches, others, strict=True))
    assert not torch.equal(batches[0].drift, StreamedBatches(CONFIG)[0].drift)


def test_weights_come_with_their_loss_on_held_out_equations(tmp_path):
    config = replace(CONFIG, loop=replace(CONFIG.loop, steps=4))
    pretrain(config, tmp_path)
    lines = read_log(tmp_path, FILE)
    assert [line["step"] for line in lines] == [2, 4]
    model = FIMSDE.from_pretrained(tmp_path / "weights").requires_grad_(False)
    assert model.training_record["validation"]["loss"] == lines[1]["loss"]
    totals = [float(choose_objective(config)(model, batch).total) for batch in validation_batches(config)]
    assert lines[1]["loss"] == pytest.approx(sum(totals) / 2, rel=1e-6)


def test_dropout_is_off():
    config = replace(TrainConfig.preset("paper-tiny"), validation_batches=1)
    model, batches = FIMSDE(config.model).train(), validation_batches(config)
    assert validate(model, batches, config) == validate(model.train(), batches, config)


def test_lines_of_a_part_that_is_repeated_are_replaced(tmp_path):
    for step in (2, 4, 6, 4):
        record_validation(tmp_path, step, {"loss": float(step)})
    assert [line["step"] for line in read_log(tmp_path, FILE)] == [2, 4]
