"""The loop: learning, averaging, schedules, steps that are not finite, interrupts, and the log."""

import os
import signal
from dataclasses import replace

import numpy as np
import pytest
import torch

from fimsde.errors import CheckpointError, ConfigError, FimsdeError
from fimsde.model.fim import FIMSDE
from fimsde.model.untrusted import read_json
from fimsde.train.config import LoopConfig, OptimiserConfig, ScheduleConfig, TrainConfig
from fimsde.train.log import read_log
from fimsde.train.loop import RunOptions, learning_rate_share, run
from fimsde.train.pretrain.batches import StreamedBatches
from fimsde.train.pretrain.objectives import Loss, choose_objective
from fimsde.train.pretrain.run import pretrain
from fimsde.train.pretrain.start import new_model

PAPER, PRIMED = TrainConfig.preset("paper-tiny"), TrainConfig.preset("primed-tiny")


class Repeated(torch.utils.data.Dataset):
    """The same batch again and again."""

    def __init__(self, batch):
        self.batch = batch

    def __getitem__(self, index):
        return self.batch


class Prepared(torch.utils.data.Dataset):
    """Batches made once for all tests."""

    def __init__(self, config):
        self.batches = [StreamedBatches(config)[i] for i in range(config.loop.steps)]

    def __getitem__(self, index):
        return self.batches[index]


@pytest.fixture(scope="module")
def batches():
    return Prepared(PAPER)


def train(batches, out, config=PAPER, objective=None, **options):
    model = new_model(config)
    state = run(
        model, batches, objective or choose_objective(config), config.loop, out, settings=config.to_mapping(), **options
    )
    return model, state


def assert_same_weights(a, b):
    for (name, p), q in zip(a.state_dict().items(), b.state_dict().values(), strict=True):
        assert torch.equal(p, q), name


@pytest.mark.slow
def test_a_tiny_model_overfits_one_batch(tmp_path):
    """T4: the squared errors of drift and diffusion fall a hundredfold. Buys that every part of the loop can learn."""
    config = replace(
        PAPER,
        model=replace(PAPER.model, dropout=0.0),
        batch_size=2,
        loop=replace(
            PAPER.loop, steps=300, optimiser=OptimiserConfig(1e-2, 0.0), schedule=ScheduleConfig("cosine", 10),
            ema_decay=0.0, checkpoint_interval=300,
        ),
    )  # fmt: skip
    batch = StreamedBatches(config)[0]
    batch = replace(batch, drift=batch.drift / batch.drift.abs().max())

    def squared_errors(model):
        with torch.no_grad():
            drift, diffusion, _ = model(batch.source, batch.x)
            real = batch.dims[:, None].expand_as(drift)
            return [float(((a - b)[real] ** 2).mean()) for a, b in ((drift, batch.drift), (diffusion, batch.diffusion))]

    before = squared_errors(new_model(config).eval())
    model, _ = train(Repeated(batch), tmp_path, config)
    after = squared_errors(model)
    assert after[0] < before[0] / 100
    assert after[1] < before[1] / 100


def test_the_same_settings_give_the_same_run_and_leave_torchs_generator_alone(tmp_path, batches):
    generator = torch.get_rng_state()
    a, _ = train(batches, tmp_path / "a")
    assert torch.equal(torch.get_rng_state(), generator)
    torch.manual_seed(123)
    try:
        b, _ = train(batches, tmp_path / "b")
    finally:
        torch.set_rng_state(generator)
    assert_same_weights(a, b)
    assert read_log(tmp_path / "a") == read_log(tmp_path / "b")
    c, _ = train(batches, tmp_path / "c", replace(PAPER, loop=replace(PAPER.loop, seed=3)))
    assert not torch.equal(next(a.parameters()), next(c.parameters()))


def test_dropout_acts_and_differs_between_steps(tmp_path, batches):
    """With the same batch and a learning rate of practically zero only dropout moves the loss."""
    config = replace(PAPER, loop=replace(PAPER.loop, optimiser=OptimiserConfig(1e-30, 0.0)))
    train(Repeated(batches[0]), tmp_path, config)
    losses = [line["loss"] for line in read_log(tmp_path)]
    assert len(set(losses)) == 6


def test_the_log_has_a_line_for_every_step(tmp_path, batches):
    train(batches, tmp_path)
    lines = read_log(tmp_path)
    assert [line["step"] for line in lines] == list(range(6))
    for line in lines:
        assert line["loss"] == pytest.approx(line["drift"] + line["diffusion"] + line["log_variance"], rel=1e-5)
        assert line["gradient_norm"] > 0


def test_averaged_weights_are_the_recursion(tmp_path, batches):
    """Weights after each step by runs of different length, averaged by hand."""
    config = replace(PAPER, loop=replace(PAPER.loop, steps=1))
    average = {name: t.double() for name, t in new_model(config).state_dict().items()}
    for steps in (1, 2, 3):
        config = replace(PAPER, loop=replace(PAPER.loop, steps=steps))
        model, state = train(batches, tmp_path / str(steps), config)
        decay = min(0.9, steps / (steps + config.loop.ema_part))
        for name, t in model.state_dict().items():
            average[name] = decay * average[name] + (1 - decay) * t.double()
    for name, t in state.ema.items():
        torch.testing.assert_close(t.double(), average[name], rtol=1e-5, atol=1e-7)


def test_the_gradient_is_clipped(tmp_path, batches):
    """With one step of plain descent in disguise: AdamW's first moment shows the gradient it was given."""
    config = replace(PAPER, loop=replace(PAPER.loop, steps=1, clip=0.5))
    _, state = train(batches, tmp_path, config)
    moments = [values["exp_avg"].flatten() / 0.1 for values in state.optimiser.state.values()]
    assert float(torch.cat(moments).norm()) == pytest.approx(0.5, rel=1e-4)
    assert read_log(tmp_path)[0]["gradient_norm"] > 0.5


@pytest.mark.parametrize(
    ("schedule", "step", "share"),
    [
        (ScheduleConfig(), 0, 1.0),
        (ScheduleConfig(), 99, 1.0),
        (ScheduleConfig(warm_up=3), 0, 0.25),
        (ScheduleConfig(warm_up=3), 3, 1.0),
        (ScheduleConfig("root", warm_up=3), 1, 0.5),
        (ScheduleConfig("root", warm_up=3), 3, 1.0),
        (ScheduleConfig("root", warm_up=3), 15, 0.5),
        (ScheduleConfig("cosine", final=0.1), 0, 1.0),
        (ScheduleConfig("cosine", final=0.1), 50, 0.55),
        (ScheduleConfig("cosine", final=0.1), 100, 0.1),
        (ScheduleConfig("cosine", warm_up=99, final=0.0), 50, 0.51 * 0.5),
    ],
)
def test_learning_rates_follow_the_schedule(schedule, step, share):
    assert learning_rate_share(schedule, step, 100) == pytest.approx(share)


def poisoned(objective, at, what):
    """An objective whose loss is not finite at some calls; `what` says whether value or gradient is to blame."""
    calls = iter(range(100))

    def evaluate(model, batch):
        loss = objective(model, batch)
        if next(calls) not in at:
            return loss
        if what == "loss":
            return Loss(loss.total * float("nan"), loss.parts)
        weight = next(model.parameters()).flatten()[0]
        return Loss(loss.total + torch.sqrt((weight - weight.detach()).abs()), loss.parts)  # 0, with infinite slope

    return evaluate


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_a_step_that_is_not_finite_is_skipped_and_counted(tmp_path, batches, what):
    """T10. The skipped steps change neither weights, nor averages, nor moments: the same as training without them."""
    objective = choose_objective(PAPER)
    model, state = train(batches, tmp_path / "a", objective=poisoned(objective, {2, 3}, what))
    assert (state.step, state.skipped) == (6, 2)
    lines = read_log(tmp_path / "a")
    assert [line["skipped"] for line in lines] == [False, False, True, True, False, False]
    assert all(np.isfinite(p.detach().numpy()).all() for p in model.parameters())
    only = replace(PAPER, loop=replace(PAPER.loop, steps=4))
    _, shorter = train(batches, tmp_path / "b", only, objective=poisoned(objective, {2, 3}, what))
    _, before = train(batches, tmp_path / "c", replace(PAPER, loop=replace(PAPER.loop, steps=2)))
    assert_same_weights(shorter.model, before.model)
    assert all(torch.equal(shorter.ema[name], before.ema[name]) for name in before.ema)


def test_a_step_that_is_not_finite_stops_training_if_so_configured(tmp_path, batches):
    config = replace(PAPER, loop=replace(PAPER.loop, non_finite="stop"))
    with pytest.raises(FimsdeError, match="step 4: the loss is nan"):
        train(batches, tmp_path, config, objective=poisoned(choose_objective(config), {4}, "loss"))
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["step-000000002", "step-000000004"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_saves_and_the_resumed_run_is_the_undisturbed_one(tmp_path, batches, number):
    usual = signal.getsignal(number)
    objective, calls = choose_objective(PAPER), iter(range(100))

    def interrupting(model, batch):
        if next(calls) == 2:
            os.kill(os.getpid(), number)
        return objective(model, batch)

    _, state = train(batches, tmp_path / "a", objective=interrupting)
    assert state.step == 3
    assert signal.getsignal(number) is usual
    resumed, state = train(batches, tmp_path / "a", resume=True)
    assert state.step == 6
    whole, _ = train(batches, tmp_path / "b")
    assert_same_weights(resumed, whole)
    assert read_log(tmp_path / "a") == read_log(tmp_path / "b")


def test_a_finished_run_can_be_resumed_and_nothing_happens(tmp_path, batches):
    model, _ = train(batches, tmp_path)
    again, state = train(batches, tmp_path, resume=True)
    assert state.step == 6
    assert_same_weights(model, again)
    assert len(read_log(tmp_path)) == 6


def test_averages_moments_and_the_count_of_skipped_steps_are_restored(tmp_path, batches):
    objective = poisoned(choose_objective(PAPER), {1}, "loss")
    _, state = train(batches, tmp_path, objective=objective)
    _, again = train(batches, tmp_path, resume=True)
    assert (again.step, again.skipped) == (state.step, state.skipped) == (6, 1)
    assert state.ema
    assert all(torch.equal(again.ema[name], average) for name, average in state.ema.items())
    found, expected = (s.optimiser.state_dict()["state"] for s in (again, state))
    for number, moments in expected.items():
        assert all(torch.equal(found[number][name], value) for name, value in moments.items())


def test_a_folder_that_holds_a_run_is_not_used_for_another(tmp_path, batches):
    train(batches, tmp_path)
    with pytest.raises(CheckpointError, match=r"holds a run that got to step 6. Resume it with --resume"):
        train(batches, tmp_path)


def test_pretraining_writes_weights_with_their_record(tmp_path):
    config = replace(PRIMED, loop=replace(PRIMED.loop, steps=3))
    state = pretrain(config, tmp_path / "run")
    model = FIMSDE.from_pretrained(tmp_path / "run" / "weights")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state.ema[name])
    record = read_json(tmp_path / "run" / "weights" / "training.json")
    assert (record["steps"], record["equations"], record["skipped_steps"]) == (3, 6, 0)
    assert TrainConfig.from_mapping(record["config"]) == config
    assert TrainConfig.from_file(tmp_path / "run" / "config.toml") == config


def test_folders_and_settings_have_to_agree(tmp_path):
    with pytest.raises(ConfigError, match="expected a folder exactly for what the settings name"):
        pretrain(PRIMED, tmp_path / "run", cache=tmp_path / "cache")
    with pytest.raises(ConfigError, match="expected a folder exactly for what the settings name"):
        pretrain(replace(PRIMED, cache_equations=5), tmp_path / "run")


def test_tensorboard_is_optional(tmp_path, batches):
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        with pytest.raises(ConfigError, match=r"pip install fimsde\[train\]"):
            train(batches, tmp_path, options=RunOptions(tensorboard=True))
    else:
        train(batches, tmp_path, options=RunOptions(tensorboard=True))
        assert list((tmp_path / "tensorboard").iterdir())


def test_defaults_of_the_loop_do_not_average_or_clip():
    assert (LoopConfig().ema_decay, LoopConfig().clip) == (0, 0)
