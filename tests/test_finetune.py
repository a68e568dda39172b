"""Finetuning: what is held out, what learns, the best weights are kept, and runs can be stopped and repeated."""

import json
import os
import signal
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch

import fimsde
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.equations.sde import fields
from fimsde.errors import CheckpointError, ConfigError, DataWarning, InvalidObservationsError
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.simulate import simulate
from fimsde.train.config import TrainConfig
from fimsde.train.finetune import objective as finetune_objective
from fimsde.train.finetune.config import FinetuneConfig
from fimsde.train.finetune.data import ScoredBatches, Windows, split
from fimsde.train.finetune.objective import WindowObjective
from fimsde.train.finetune.parameters import Learner, merged
from fimsde.train.finetune.run import finetune
from fimsde.train.log import read_log
from fimsde.train.pretrain.start import new_model
from fimsde.train.run_folder import CURVE
from problems import OrnsteinUhlenbeck

PAPER = ModelConfig(embed=8, heads=2, encoder_layers=1, functional_layers=1, feed_forward=8, head_hidden=(8,))
SHORT = FinetuneConfig(iterations=4, num_scored=16, validation_interval=2, patience=50, learning_rate=1e-2, warm_up=0)
FILTERED = replace(SHORT, objective="filtered", substeps=2, look_ahead=2, observation_noise="learnt")


def observed(dt, points=400, noise_std=0.0, dim=1, paths=1, seed=0):
    times = np.arange(points) * dt
    values = simulate(OrnsteinUhlenbeck(dim=dim), np.zeros((paths, dim)), times, substeps=20, seed=seed).values
    values = values + noise_std * np.random.default_rng(seed).standard_normal(values.shape)
    return read(values, dt=dt)


@pytest.fixture(autouse=True)
def short_simulations(monkeypatch):
    """Most of the time of a judgement; what they decide has tests of its own."""
    monkeypatch.setattr(finetune_objective, "_PATH_STEPS", 4)


@pytest.fixture(scope="module")
def dense():
    return observed(0.02, points=200)


@pytest.fixture(scope="module")
def paper():
    return FIMSDE(PAPER, seed=0).eval()


@pytest.fixture(scope="module")
def primed():
    config = TrainConfig.preset("primed-tiny")
    return new_model(config).eval()


def state_bytes(model):
    return {name: tensor.numpy().tobytes() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize(
    ("paths", "points", "share", "pieces"), [(1, 40, 0.2, 1), (3, 40, 0.1, 3), (12, 40, 0.25, 3), (2, 1500, 0.15, 8)]
)
def test_every_step_is_learnt_from_or_held_out_but_never_both(paths, points, share, pieces):
    obs = observed(0.1, points=points, paths=paths)
    learnt, held = split(obs, share, seed=1)
    rows = [np.column_stack([tr.y, tr.y + tr.dy, tr.dtau]) for tr in map(to_transitions, (learnt, held))]
    together = np.concatenate(rows)
    whole = to_transitions(obs)
    expected = np.column_stack([whole.y, whole.y + whole.dy, whole.dtau])
    assert sorted(map(tuple, together)) == sorted(map(tuple, expected))
    assert len(rows[1]) == pytest.approx(share * len(whole), rel=0.1)
    assert held.num_paths == pieces


def test_too_little_to_judge_is_an_error_and_nothing_need_be_held_out():
    obs = observed(0.1, points=8)
    with pytest.raises(InvalidObservationsError, match=r"8 observations in 1 paths is too little to"):
        split(obs, 0.15, seed=0)
    assert split(obs, 0.0, seed=0) == (obs, None)


def test_windows_hold_what_follows_and_do_not_cross_paths():
    obs = read([np.arange(5.0), np.arange(10.0, 14.0)], dt=0.5)
    windows = Windows(to_transitions(obs), 3, 2, torch.float64)
    found = windows.take(np.array([0, 2, 3, 4, 6]))
    assert found.start[0, :, 0].tolist() == [0, 2, 3, 10, 12]
    assert found.target[0, 0, :, 0].tolist() == [1, 2, 3]
    assert found.valid[0].tolist() == [
        [True] * 3,
        [True, True, False],
        [True, False, False],
        [True] * 3,
        [True, False, False],
    ]
    assert not found.start[..., 1].any()
    assert found.dims.tolist() == [[True, False]]


def test_batch_number_i_is_a_function_of_seed_and_i(dense):
    windows = Windows(to_transitions(dense), 1, 3, torch.float32)
    a, b, other = ScoredBatches(windows, 20, 0), ScoredBatches(windows, 20, 0), ScoredBatches(windows, 20, 1)
    assert torch.equal(a[3].start, b[3].start)
    assert not torch.equal(a[3].start, a[4].start)
    assert not torch.equal(a[3].start, other[3].start)
    assert len(set(a[3].start[0, :, 0].tolist())) == 20


@pytest.mark.parametrize(
    ("dt", "noise_std", "objective", "reason"),
    [
        (0.002, 0.0, "dense", "one Euler step per gap predicts the same"),
        (0.02, 0.1, "filtered", "measurement noise of about"),
        (0.4, 0.0, "filtered", "gaps are long"),
    ],
)
def test_the_objective_follows_from_the_data(dt, noise_std, objective, reason, primed):
    found = finetune(primed, observed(dt, 1500, noise_std), replace(SHORT, iterations=0))
    assert found.objective == objective
    assert reason in found.reason


def test_an_objective_that_is_asked_for_is_taken(paper, dense):
    found = finetune(paper, dense, replace(SHORT, iterations=0, objective="sparse"))
    assert (found.objective, found.reason) == ("sparse", "as asked for")


@pytest.mark.parametrize(
    ("objective", "kind"), [("dense", "paper"), ("sparse", "paper"), ("filtered", "paper"), ("filtered", "primed")]
)
def test_held_out_predictions_never_get_worse_and_the_model_passed_stays_as_it_was(objective, kind, dense, request):
    model = request.getfixturevalue(kind)
    before = state_bytes(model)
    found = finetune(model, dense, replace(FILTERED, objective=objective))
    assert found.objective == objective
    assert found.after.loss <= found.before.loss
    allowed = [j for j in found.curve if j.lost_paths <= max(3, found.before.lost_paths)]
    assert found.after.loss == min(j.loss for j in allowed if j == found.before or j.is_proven(SHORT.min_z))
    assert [j.iteration for j in found.curve] == [0, 0, 2, 4]  # as it was, the first guess, then iterations
    assert (found.iterations, found.ended, found.skipped) == (4, "finished", 0)
    assert state_bytes(model) == before
    assert found.sde.num_transitions == dense.num_transitions


def test_a_gain_that_may_be_chance_is_not_kept(paper, dense):
    """The same run under three demands. Without any, the negative control, the smallest loss is what is returned."""
    config = replace(SHORT, objective="dense", first_guess=False, iterations=2, learning_rate=1e-4)
    any_gain, some, too_much = (finetune(paper, dense, replace(config, min_z=z)) for z in (0.0, 3.0, 1e9))
    assert any_gain.curve == some.curve == too_much.curve
    last = any_gain.curve[-1]
    assert 0 < last.gain < any_gain.before.loss - last.loss  # some windows of an untrained model gain more than a nat
    assert any_gain.after == last
    assert f"the weights of iteration {last.iteration} are returned" in any_gain.verdict
    assert some.after == (last if last.gain > 3 * last.gain_error else some.before)
    assert too_much.after == too_much.before
    assert too_much.verdict == "no improvement beyond chance: the zero-shot estimate is returned"
    assert too_much.report()["verdict"] == too_much.verdict
    x = dense.values[1:-1:20]
    before, returned, changed = (
        fields(sde, x)[0] for sde in (fimsde.estimate(dense, paper), too_much.sde, any_gain.sde)
    )
    np.testing.assert_array_equal(returned, before)
    assert not np.array_equal(changed, before)


@pytest.mark.parametrize(
    ("changes", "words"), [({"hold_out": 0.0}, "nothing was held out"), ({"iterations": 0}, "no iterations")]
)
def test_the_verdict_says_when_nothing_was_judged(changes, words, paper, dense):
    config = replace(SHORT, **{"iterations": 1, "validation_interval": 1, **changes})
    assert words in finetune(paper, dense, config).verdict


@pytest.fixture(scope="module")
def silent():
    """A model that answers, whatever it reads: no drift, and a diffusion of softplus(-3) = 0.05 in normalised units."""
    model = FIMSDE(PAPER, seed=0).eval()
    with torch.no_grad():
        for operator, bias in ((model.drift_operator, 0.0), (model.diffusion_operator, -3.0)):
            operator.head.output.weight.zero_()
            operator.head.output.bias.fill_(bias)
    return model


@pytest.mark.parametrize(("objective", "first_guess"), [("dense", False), ("dense", True), ("filtered", True)])
def test_a_diffusion_that_is_far_too_small_is_mended(objective, first_guess, silent, dense):
    """The closed form for a stationary Ornstein-Uhlenbeck process seen at gaps that are short: normalised, its
    diffusion is sqrt(2 theta) in units of the time scale, some thirty times that of the model; every factor e that is
    missing costs more than a nat. Gradients alone have 60 iterations in which the log may move by 0.1 each."""
    config = replace(SHORT, objective=objective, observation_noise="none", look_ahead=1, substeps=1)
    if not first_guess:
        config = replace(config, iterations=60, validation_interval=30, schedule="constant", first_guess=False)
    found = finetune(silent, dense, config)
    assert found.after.loss < found.before.loss - 3
    assert found.after.iteration > 0 or first_guess
    x = dense.values[1:-1:5]
    _, diffusion = fields(found.sde, x)
    assert np.median(diffusion) == pytest.approx(OrnsteinUhlenbeck().sigma, rel=0.5)


def test_the_first_guess_finds_how_the_diffusion_varies(silent):
    """An Euler chain whose diffusion is exp(0.6 x) and a model with a constant one. The slope of the log has a standard
    error of 1 / (sqrt(2 n) std(x)), about 0.03: the tolerance is six of them. Training moves nothing at this rate."""
    chain = fimsde.FunctionSDE(1, lambda x: -2 * x, lambda x: np.exp(0.6 * x))
    obs = read(simulate(chain, np.zeros((1, 1)), np.arange(3000) * 0.05, seed=0).values, dt=0.05)
    config = replace(SHORT, objective="dense", iterations=1, validation_interval=1, learning_rate=1e-9)
    x = np.array([[-0.4], [0.4]])
    for first_guess, slope in ((True, 0.6), (False, 0.0)):
        _, diffusion = fields(finetune(silent, obs, replace(config, first_guess=first_guess)).sde, x)
        assert np.log(diffusion[1, 0] / diffusion[0, 0]) / 0.8 == pytest.approx(slope, abs=0.2)


def test_a_diffusion_that_is_absent_is_found_behind_measurement_noise(silent):
    """Noise of a seventh of the standard deviation. The constant is chosen among shares that are factors of ten apart,
    and the true one is a third of the errors: so a third or three times the diffusion."""
    noisy = observed(0.02, points=600, noise_std=0.06)
    config = replace(FILTERED, substeps=1, look_ahead=8, iterations=2, parameters="heads", hold_out=0.0)
    _, diffusion = fields(finetune(silent, noisy, config).sde, noisy.values[5:-5:20])
    assert OrnsteinUhlenbeck().sigma / 3 < np.median(diffusion) < OrnsteinUhlenbeck().sigma * 3


def test_the_likelihood_is_in_the_units_of_the_data(paper, dense):
    """In other units the same densities, up to the Jacobian; the model sees the same normalised numbers."""
    config = replace(SHORT, iterations=2, objective="dense")
    plain, moved = (finetune(paper, obs, config) for obs in (dense, dense.with_units(scale=8.0, time_scale=16.0)))
    for a, b in ((plain.before, moved.before), (plain.after, moved.after)):
        assert b.log_likelihood == pytest.approx(a.log_likelihood - np.log(8.0), abs=1e-4)


def test_weights_that_predict_worse_are_not_kept(primed, dense):
    """Q9 by construction: with an absurd learning rate the model stays what it was."""
    found = finetune(primed, dense, replace(SHORT, objective="dense", learning_rate=5.0, clip=0.0, first_guess=False))
    assert found.after == found.before
    x = dense.grid(9)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        np.testing.assert_allclose(found.sde.drift(x), fimsde.estimate(dense, primed).drift(x), rtol=1e-5)


def test_weights_under_which_paths_explode_are_not_kept(silent, dense, monkeypatch):
    """The likelihood looks one observation ahead; a model that gets better there and loses paths is refused."""
    calls = iter(range(100))
    monkeypatch.setattr(WindowObjective, "lost_paths", lambda self, learner, windows, seed: 4 * min(next(calls), 1))
    found = finetune(silent, dense, replace(SHORT, objective="dense"))
    assert [j.lost_paths for j in found.curve] == [0, 4, 4, 4]
    assert found.curve[1].loss < found.before.loss - 1  # the closed form for a diffusion that is far too small
    assert found.after == found.before


def test_paths_that_leave_the_data_are_counted(paper, dense):
    steps = to_transitions(dense)
    windows = Windows(steps, 1, 3, torch.float32)
    choice = finetune_objective.Choice("dense", "", 1, 1, 32, 256, None)
    objective = WindowObjective(choice, paper.read([steps]), 1)
    learner = Learner(merged(paper), None)
    with torch.no_grad():
        for bias, lost in ((0.0, 0), (1e3, windows.spread(64).start.shape[1])):
            learner.model.drift_operator.head.output.weight.zero_()
            learner.model.drift_operator.head.output.bias.fill_(bias)
            learner.model.diffusion_operator.head.output.weight.zero_()
            learner.model.diffusion_operator.head.output.bias.fill_(-5.0)
            assert objective.lost_paths(learner, windows, seed=0) == lost


def test_training_ends_when_nothing_gets_better(paper, dense):
    found = finetune(
        paper, dense, replace(SHORT, objective="dense", learning_rate=5.0, clip=0.0, iterations=60, patience=2)
    )
    assert (found.iterations, found.ended) == (4, "stopped early")


def test_without_held_out_data_the_last_weights_are_kept(paper, dense):
    found = finetune(paper, dense, replace(SHORT, objective="dense", learning_rate=5.0, clip=0.0, hold_out=0.0))
    assert found.after.iteration == 4
    assert found.after == found.curve[-1]


@pytest.mark.parametrize("parameters", ["all", "heads", "low-rank"])
def test_only_what_was_chosen_learns(parameters, paper, dense):
    found = finetune(paper, dense, replace(SHORT, objective="dense", parameters=parameters, hold_out=0.0, rank=2))
    old, new = paper.state_dict(), found.model.state_dict()
    changed = {name for name in old if not torch.equal(old[name], new[name])}
    assert not [name for name in changed if name.startswith("log_variance_operator")]
    assert (found.model.correction.drift_coefficients != 0).any()
    heads = {name for name in old if ".head." in name and not name.startswith("log_variance")}
    if parameters == "heads":
        assert changed == heads
    elif parameters == "all":
        assert heads < changed
    else:
        assert not [name for name in changed if name.endswith("bias")]
        for name in changed:
            values = torch.linalg.svdvals((new[name] - old[name]).double())
            assert (values[2:] < 1e-5 * values[0]).all(), name
        assert len(changed) > 10


def test_a_model_without_correction_has_the_weights_it_had(paper, dense):
    found = finetune(paper, dense, replace(SHORT, objective="dense", correction=False, hold_out=0.0))
    assert found.model.config == paper.config
    assert state_bytes(found.model) != state_bytes(paper)


def test_the_result_is_a_model_like_any_other(primed, dense, tmp_path):
    found = finetune(primed, dense, SHORT)
    found.save(tmp_path / "weights")
    loaded = FIMSDE.from_pretrained(tmp_path / "weights")
    assert loaded.config.correction
    x = dense.values[::50]
    for name in ("drift", "diffusion"):
        np.testing.assert_array_equal(getattr(fimsde.estimate(dense, loaded), name)(x), getattr(found.sde, name)(x))
    assert loaded.training_record["finetuning"]["chosen"]["objective"] == "dense"
    again = finetune(loaded, dense, replace(SHORT, iterations=0))  # goes on from its own correction
    assert again.before.log_likelihood == pytest.approx(found.after.log_likelihood, abs=1e-6)


def test_the_same_seed_gives_the_same_bytes_and_another_one_others(paper, dense, tmp_path):
    generator = torch.get_rng_state()
    config = replace(
        SHORT, objective="dense", iterations=2, hold_out=0.0
    )  # the last weights are kept, whether better or not
    results = [finetune(paper, dense, replace(config, seed=seed), out=tmp_path / name) for name, seed in
               (("a", 0), ("b", 0), ("c", 1))]  # fmt: skip
    a, b, c = (state_bytes(found.model) for found in results)
    assert a == b != c
    assert torch.equal(torch.get_rng_state(), generator)
    for name in ("curve.jsonl", "log.jsonl", "weights/model.safetensors", "weights/training.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_ctrl_c_keeps_the_best_and_the_resumed_run_is_the_undisturbed_one(paper, dense, tmp_path, monkeypatch):
    config = replace(FILTERED, parameters="low-rank")  # with all that has a state: weights, their changes, the noise
    usual, calls = WindowObjective.__call__, iter(range(1000))

    def interrupting(self, learner, steps):
        if next(calls) == 2:
            os.kill(os.getpid(), signal.SIGINT)
        return usual(self, learner, steps)

    with monkeypatch.context() as patch:
        patch.setattr(WindowObjective, "__call__", interrupting)
        stopped = finetune(paper, dense, config, out=tmp_path / "a")
    assert (stopped.ended, stopped.iterations) == ("interrupted", 3)
    kept = [j for j in stopped.curve if j == stopped.before or (j.lost_paths <= 3 and j.is_proven(SHORT.min_z))]
    assert stopped.after == min(kept, key=lambda j: j.loss)
    resumed = finetune(paper, dense, config, out=tmp_path / "a", resume=True)
    whole = finetune(paper, dense, config, out=tmp_path / "b")
    assert resumed.ended == "finished"
    assert state_bytes(resumed.model) == state_bytes(whole.model)
    assert resumed.after == whole.after
    for name in ("log.jsonl", CURVE):  # no judgement where none was planned, which might have been the best
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_kill_between_checkpoint_and_judgement_loses_nothing(paper, dense, tmp_path):
    """The judgement of the last checkpoint is made up for on resume."""
    whole = finetune(paper, dense, SHORT, out=tmp_path / "a")
    lines = (tmp_path / "a" / CURVE).read_text().splitlines(keepends=True)
    (tmp_path / "a" / CURVE).write_text("".join(lines[:-1]))
    again = finetune(paper, dense, SHORT, out=tmp_path / "a", resume=True)
    assert again.curve == whole.curve
    assert state_bytes(again.model) == state_bytes(whole.model)


def test_a_folder_is_used_for_one_run_only(paper, dense, tmp_path):
    with pytest.raises(CheckpointError, match="nothing to resume"):
        finetune(paper, dense, SHORT, out=tmp_path / "a", resume=True)
    assert not (tmp_path / "a" / "weights").exists()
    finetune(paper, dense, SHORT, out=tmp_path / "a")
    with pytest.raises(CheckpointError, match="holds a finished run"):
        finetune(paper, dense, SHORT, out=tmp_path / "a")
    with pytest.raises(CheckpointError, match=r"learning_rate is 0.01 there and 0.02 here"):
        finetune(paper, dense, replace(SHORT, learning_rate=0.02), out=tmp_path / "a", resume=True)
    with pytest.raises(CheckpointError, match="observations is"):
        finetune(paper, observed(0.02, seed=5), SHORT, out=tmp_path / "a", resume=True)
    with pytest.raises(CheckpointError, match="without a folder"):
        finetune(paper, dense, SHORT, resume=True)


def test_no_iterations_is_the_model_itself(paper, dense):
    found = finetune(paper, dense, replace(SHORT, iterations=0))
    assert (found.iterations, found.ended, len(found.curve)) == (0, "finished", 1)
    assert found.after == found.before


def test_the_noise_starts_where_it_is_told_to_and_its_logarithm_is_learnt(paper):
    """A parameter of 0.01 stands for a tenth in the logarithm of the standard deviation."""
    learner = Learner(paper, np.array([0.04, 0.25]))
    np.testing.assert_allclose(learner.noise_var(2).detach(), [0.04, 0.25], rtol=1e-6)
    with torch.no_grad():
        learner.noise.fill_(0.01)
    np.testing.assert_allclose(learner.noise_var(2).detach(), np.exp(0.2) * np.array([0.04, 0.25]), rtol=1e-6)


def test_measurement_noise_is_learnt(paper, monkeypatch, tmp_path):
    """Noise of about a seventh of the standard deviation, from a start that is twice too large."""
    obs = observed(0.02, points=500, noise_std=0.06)
    known = finetune_objective._measurement_noise
    monkeypatch.setattr(finetune_objective, "_measurement_noise", lambda tr: (4 * known(tr)[0], known(tr)[1]))
    config = replace(FILTERED, iterations=20, num_scored=64, look_ahead=4, substeps=1, parameters="heads")
    config = replace(config, validation_interval=20)
    finetune(paper, obs, config, out=tmp_path / "run")
    stds = [line["noise_std"] for line in read_log(tmp_path / "run")]
    true = 0.06 / obs.values.std()
    assert 1.6 * true < stds[0] < 2.5 * true
    assert true / 1.5 < stds[-1] < 1.5 * true


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"objective": "best"}, "objective is 'best'; expected one of auto, dense, sparse, filtered"),
        ({"parameters": "some"}, "parameters is 'some'"),
        ({"hold_out": 0.9}, "hold_out is 0.9; expected a share"),
        ({"iterations": -1}, "iterations is -1"),
        ({"substeps": 0}, "substeps is 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0"),
        ({"patience": 0}, "patience is 0"),
        ({"min_z": -1.0}, "min_z is -1; expected a number of standard errors"),
    ],
)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises(ConfigError, match=words):
        FinetuneConfig(**settings)


def test_the_papers_settings():
    dense, sparse = FinetuneConfig.paper("dense"), FinetuneConfig.paper("sparse")
    assert (dense.num_scored, dense.substeps, sparse.num_scored, sparse.substeps) == (512, 1, 32, 10)
    assert dense.loop().optimiser.learning_rate == 1e-5
    assert (dense.correction, dense.hold_out, dense.loop().clip) == (False, 0, 0)


def test_the_report_is_json(paper, dense, tmp_path):
    found = finetune(paper, dense, replace(SHORT, iterations=2, objective="dense"), out=tmp_path / "run")
    stored = json.loads((tmp_path / "run" / "report.json").read_text())
    assert stored == json.loads(json.dumps(found.report()))
    assert stored["before"]["iteration"] == 0
    assert stored["objective"] == "dense"
    assert "SDE" not in str(stored)
