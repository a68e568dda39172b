"""Arms of several sizes and data: settings, portions, judgements, power laws, operations, tables, the command."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from typer.testing import CliRunner

import fimsde
from fimsde.benchmark.scaling import judge as judging
from fimsde.benchmark.scaling import train as training
from fimsde.benchmark.scaling.arms import MILESTONES, all_arms, chosen_arms
from fimsde.benchmark.scaling.cost import forward_operations, mean_tokens, published_operations, step_operations
from fimsde.benchmark.scaling.curves import Curve, Point, curve_file, read_curve, write_curve
from fimsde.benchmark.scaling.judge import ERRORS, Judgement, held_out, judge
from fimsde.benchmark.scaling.powerlaw import PowerLaw, fit_exponent, fit_power_law, interval, slope_at_end
from fimsde.benchmark.scaling.reading import LONGEST_GAP, TRANSITIONS, as_trained
from fimsde.benchmark.scaling.tables import exponents, tables, text_tables
from fimsde.benchmark.scaling.train import kept_weights, steps_done, train_arms
from fimsde.benchmark.tables import to_markdown
from fimsde.errors import ConfigError, DatasetError
from fimsde.interface.cli.bench import bench
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.paper import Tokens
from fimsde.prior.config import Setting
from fimsde.train.config import ContextConfig, TrainConfig
from fimsde.train.losses import supervised_loss
from fimsde.train.pretrain.batches import Batch, StreamedBatches

sys.path.append(str(Path(__file__).parent.parent / "benchmarks"))  # last: there are modules of the same name here
import location_bound
import paper_arm

TWO = ("paper-0.1m-streaming", "paper-0.1m-3000")


def test_arms_differ_in_one_thing_at_a_time():
    arms = {arm.name: arm for arm in all_arms()}
    assert len(arms) == 16
    bound, streaming = arms["paper-0.4m-3000"].config, arms["paper-0.4m-streaming"].config
    assert replace(bound, equations=0) == streaming
    assert 2985 <= bound.equations <= 3000
    steeper, flat = arms["paper-0.4m-streaming-degree4"].config, streaming
    polynomials = replace(steeper.prior.polynomials, drift_degree=3)
    assert replace(steeper, prior=replace(steeper.prior, polynomials=polynomials)) == flat
    constant = arms["paper-0.4m-streaming-constant"].config
    assert replace(arms["paper-0.4m-streaming-constant-bound5"].config, location_clip=2.0) == constant
    rates = replace(constant.loop, schedule=streaming.loop.schedule, optimiser=streaming.loop.optimiser)
    assert replace(constant, loop=rates) == streaming
    assert constant.loop.optimiser.learning_rate == pytest.approx(1e-3)
    for arm in arms.values():
        interval_ = arm.config.loop.checkpoint_interval
        assert all(step % interval_ == 0 and training.is_judged(step // interval_) for step in MILESTONES)
        assert max(MILESTONES) <= arm.config.loop.steps


@pytest.mark.parametrize(
    ("words", "said"), [(["paper-9m"], "no arm paper-9m; choose from paper-0.1m"), ([], "no arms")]
)
def test_unknown_arms_are_answered_with_the_known_ones(words, said):
    with pytest.raises(ConfigError, match=said):
        chosen_arms(words)


def test_a_bounded_number_of_equations_comes_again_in_another_order_with_other_contexts():
    config = replace(TrainConfig.preset("paper-tiny"), equations=12)  # three batches
    bounded, endless = StreamedBatches(config), StreamedBatches(replace(config, equations=0))
    assert all(torch.equal(bounded[i].drift, endless[i].drift) for i in range(3))
    assert {bounded._first_visit(i) for i in range(3, 6)} == {0, 1, 2}
    orders = {tuple(bounded._first_visit(3 * turn + i) for i in range(3)) for turn in range(1, 12)}
    assert len(orders) > 1
    again = next(i for i in range(3, 6) if bounded._first_visit(i) == 0)
    assert torch.equal(bounded[again].dims, bounded[0].dims)
    assert not torch.equal(bounded[again].x, bounded[0].x)  # other locations
    assert not torch.equal(bounded[again].drift, endless[again].drift)


def trained(work, results, milestones=(2, 4), arms=TWO, seconds=600.0):
    return train_arms(
        *(chosen_arms(arms, quick=True), work, results),
        seconds=seconds, milestones=milestones, quick=True, tell=lambda line: None,
    )  # fmt: skip


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("undisturbed")
    assert trained(folder / "work", folder / "results")
    return folder


def weights(folder, arm, step):
    return (kept_weights(folder / "work", arm, step) / "model.safetensors").read_bytes()


def test_an_arm_in_portions_has_the_bytes_of_one_that_was_never_stopped(undisturbed, tmp_path):
    arms = chosen_arms(TWO, quick=True)
    assert not trained(tmp_path / "work", tmp_path / "results", seconds=1e-9)  # nothing fits in
    for _ in range(2):  # every portion ends at its first checkpoint
        for name in TWO:
            trained(tmp_path / "work", tmp_path / "results", milestones=(6,), arms=[name], seconds=0.02)
    assert [steps_done(tmp_path / "work", arm) for arm in arms] == [4, 4]
    assert trained(tmp_path / "work", tmp_path / "results", milestones=(6,))
    assert trained(undisturbed / "work", undisturbed / "results", milestones=(6,))
    for arm in arms:
        assert weights(tmp_path, arm, 6) == weights(undisturbed, arm, 6)
        a, b = (read_curve(curve_file(folder / "results", arm.name)) for folder in (tmp_path, undisturbed))
        assert [(p.step, p.equations, p.judgement) for p in a.points] == [
            (p.step, p.equations, p.judgement) for p in b.points
        ]
        assert all(0 < p.cpu_seconds < q.cpu_seconds for p, q in zip(a.points, a.points[1:], strict=False))


def test_a_kept_arm_estimates_and_goes_on_to_the_same_bytes(undisturbed, tmp_path, monkeypatch):
    """What `benchmarks/paper_arm.py` keeps: weights with a card, and a work folder to go on from."""
    monkeypatch.setattr(paper_arm, "WEIGHTS", tmp_path / "weights")
    monkeypatch.setattr(paper_arm, "RESULTS", tmp_path / "results")
    (arm,) = chosen_arms(TWO[:1], quick=True)
    assert trained(tmp_path / "work", tmp_path / "results", milestones=(4,), arms=TWO[:1])
    paper_arm.keep_weights(arm, 4, tmp_path / "work")
    paper_arm.keep_checkpoint(arm, tmp_path / "work")
    card = (tmp_path / "weights" / arm.name / "README.md").read_text()
    assert "Not the published model" in card
    assert "after 4" in card
    x = np.cumsum(np.random.default_rng(0).standard_normal((200, 1)), axis=0)
    result = fimsde.estimate(fimsde.read(x, dt=0.1), str(tmp_path / "weights" / arm.name))
    assert np.isfinite(result.drift(x[:3])).all()
    assert trained(tmp_path / "weights" / "resume", tmp_path / "again", milestones=(6,), arms=TWO[:1])
    assert trained(undisturbed / "work", undisturbed / "results", milestones=(6,), arms=TWO[:1])
    kept = (kept_weights(tmp_path / "weights" / "resume", arm, 6) / "model.safetensors").read_bytes()
    assert kept == weights(undisturbed, arm, 6)


def test_contexts_of_an_earlier_portion_are_not_for_free(monkeypatch, tmp_path):
    """Of three shards two are there, one is made in a second: all took three. None is missing: one is made again."""
    clock = iter([0.0, 1.0, 10.0, 12.0])
    monkeypatch.setattr(training, "fill_cache", lambda config, folder: (folder / "2.safetensors").touch())
    monkeypatch.setattr(training, "make_shard", lambda config, folder, shard: None)
    monkeypatch.setattr(training.time, "process_time", lambda: next(clock))
    config = replace(TrainConfig.preset("primed"), cache_equations=3 * 64)
    for name in "01":
        (tmp_path / f"{name}.safetensors").touch()
    assert training.contexts_seconds(config, tmp_path) == 3.0
    assert training.contexts_seconds(config, tmp_path) == 6.0


def test_stored_curves_outlive_the_work_folder(undisturbed, tmp_path):
    """A run from the beginning does not replace a longer curve of the same arm."""
    name = TWO[0]
    before = read_curve(curve_file(undisturbed / "results", name))
    write_curve(curve_file(tmp_path, name), before)
    assert trained(tmp_path / "work", tmp_path, milestones=(2,), arms=[name])
    assert read_curve(curve_file(tmp_path, name)) == before


def test_work_of_other_settings_is_not_gone_on_with(undisturbed, tmp_path):
    curve = read_curve(undisturbed / "work" / f"{TWO[0]}.curve.jsonl")
    write_curve(tmp_path / f"{TWO[0]}.curve.jsonl", replace(curve, settings="0" * 64))
    with pytest.raises(ConfigError, match="other settings"):
        trained(tmp_path, tmp_path, arms=TWO[:1])


def test_a_damaged_curve_is_named(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"format": 1}\n')
    with pytest.raises(DatasetError, match=r"a.jsonl holds no readable learning curve"):
        read_curve(tmp_path / "a.jsonl")


class Truth(FIMSDE):
    """Answers `share` of the truth."""

    def forward(self, source, x):
        batch = next(b for parts in self.batches for b in parts if b.x is x)
        return self.share * batch.drift, self.share * batch.diffusion, torch.zeros(x.shape[:2])


@pytest.mark.parametrize(("share", "error"), [(0.0, 0.0), (0.9, -2.0), (1.0, -6.0), (11.0, 2.0)])
def test_errors_are_shares_of_the_field(share, error):
    config = TrainConfig.preset("paper-tiny")
    model = Truth(config.model)
    model.batches, model.share = held_out(config, quick=True), share
    found = judge(model, model.batches, config)
    for name in ERRORS:
        numbers = getattr(found, name)
        assert len(numbers) == len(model.batches)
        assert any(numbers) or error == 0.0
        assert [number for number in numbers if number] == pytest.approx([error] * sum(map(bool, numbers)), abs=1e-4)
    if share == 1:
        assert found.loss == pytest.approx([0.0] * len(model.batches), abs=1e-6)


def test_checkpoints_are_judged_evenly_in_logarithms():
    assert [k for k in range(1, 100) if training.is_judged(k)] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96]


@pytest.mark.parametrize("reached", [1.5, 40.0])
def test_the_held_loss_has_the_gradient_of_training(reached):
    """In drift, diffusion and U, below the bound and above it; and below it is the loss."""
    config = TrainConfig.preset("paper-0.4m")
    dims = torch.tensor([[True, True, False]])
    truth, u = torch.ones(1, 4, 3).double(), torch.full((1, 4), 0.3).double().requires_grad_()
    miss = (reached * np.exp(0.3) / 2) ** 0.5  # of drift and diffusion: together their squares, weighted, are `reached`
    drift, diffusion = ((truth + miss).requires_grad_() for _ in range(2))
    every = torch.ones(1, 4, dtype=torch.bool)
    batch = Batch(Tokens(truth, truth, truth[..., 0], every), truth, truth, truth, every, dims)
    held = judging._held_losses(drift, diffusion, u, batch).sum()
    loss = supervised_loss(drift, diffusion, u, truth, truth, dims, "authors", config.location_clip).total
    for a, b in zip(*(torch.autograd.grad(f, (drift, diffusion, u)) for f in (held, loss)), strict=True):
        torch.testing.assert_close(a, b)
        assert b.abs().sum() > 0
    assert (held < loss - 1e-6) == (reached > config.location_clip)


def test_primed_models_are_judged_on_the_same_equations_as_papers():
    paper, primed = (held_out(TrainConfig.preset(name), quick=True) for name in ("paper-tiny", "primed-tiny"))
    for (a,), parts in zip(paper, primed, strict=True):
        for name in ("x", "drift"):
            assert rows(a, name) == sorted(row for part in parts for row in rows(part, name))


def rows(batch, name):
    """The first two components at all locations, an entry for every equation."""
    return sorted(map(tuple, getattr(batch, name)[..., :2].flatten(1).tolist()))


@pytest.mark.parametrize("exponent", [0.1, 0.5, 1.0])
def test_a_power_law_is_found_exactly_without_noise(exponent):
    x = np.geomspace(100, 1e5, 20)
    law = fit_power_law(x, PowerLaw(exponent, 30.0, 5.0)(x))
    assert law.exponent == pytest.approx(exponent, rel=0.02)  # the grid of exponents is 1.5 % apart
    assert law.floor == pytest.approx(5.0, abs=0.5)
    assert fit_exponent(x, np.log10(3 * x**-exponent)) == pytest.approx(exponent, rel=1e-9)


def test_intervals_cover_the_truth_as_often_as_they_say():
    """40 curves with noise over 32 batches: 95 % intervals of the exponent; 29 or fewer hits: 1e-6 at 93 %."""
    rng, x, hits = np.random.default_rng(0), np.geomspace(100, 1e4, 8), 0
    for _ in range(40):
        columns = np.log10(x**-0.3)[:, None] + 0.1 * rng.standard_normal((8, 32)) + rng.standard_normal(32)
        found = interval(columns, lambda y: fit_exponent(x, y))
        hits += found.low <= 0.3 <= found.high
    assert hits > 29
    wrong = interval(columns, lambda y: fit_exponent(x, y) + 1)  # the test can fail
    assert not wrong.low <= 0.3 <= wrong.high


def test_a_curve_that_rises_is_not_called_falling():
    x = np.geomspace(100, 1e4, 8)
    assert slope_at_end(x, 10 * x**-0.5) < 0
    assert slope_at_end(x, np.log(x)) == 0
    with pytest.raises(ConfigError, match="too few"):
        fit_power_law(x[:2], x[:2])
    with pytest.raises(ConfigError, match="positive, increasing"):
        fit_power_law(-x, x)


@pytest.mark.parametrize("bound", [2.0, 5.0, float("inf")])
def test_u_settles_where_bounded_errors_have_the_mean_one(bound):
    """Square errors that follow an exponential law: the mean of min(a X, b) is a (1 - exp(-b / a)), and a = exp(-U)."""
    squares = -np.log1p(-(np.arange(200_000) + 0.5) / 200_000).reshape(2, 100, 1000)
    log_squares, u = torch.from_numpy(np.log(squares)), torch.full(squares.shape, 0.7).double()
    a = np.exp(-(0.7 + location_bound.settle(log_squares - u, bound)))
    assert a * (1 - np.exp(-bound / a)) == pytest.approx(1.0, abs=1e-4)
    found = location_bound.settled(log_squares.transpose(0, 2), u.transpose(0, 2), bound)  # both halves are alike
    assert found["mean"] == pytest.approx(2 * (a - np.log(a)), rel=1e-2)


def test_operations_are_those_that_torch_counts():
    config = ModelConfig(embed=32, heads=4, functional_layers=3, feed_forward=48, head_hidden=(20, 28), dropout=0.0)
    n, queries = 50, 7
    tokens = Tokens(torch.randn(1, n, 3), torch.randn(1, n, 3), torch.rand(1, n), torch.ones(1, n, dtype=torch.bool))
    model = FIMSDE(config).train()  # with gradients the compiled attention is not used, whose work torch cannot see
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(tokens, torch.randn(1, queries, 3))
    # `forward` makes the queries twice, once for U
    assert counter.get_total_flops() == forward_operations(config, n, queries) + 2 * queries * 3 * 32


def test_the_published_run_costs_what_its_sizes_say():
    """Contexts: 1 to 99 paths of 128, 1 to 24 of 512, 1 to 11 of 1024, uniform in observations."""
    assert mean_tokens(ContextConfig(), (Setting(0.1, 25, 100, 128),)) == pytest.approx(127 * 50.0, rel=0.01)
    assert mean_tokens(ContextConfig(most=2048), (Setting(0.001, 1, 12, 1024),)) == 1023
    small = TrainConfig.preset("paper-0.1m")
    read = [StreamedBatches(small)[i].source.mask.sum(dim=1).double().mean().item() for i in range(6)]
    assert mean_tokens(small.contexts, small.prior.settings) == pytest.approx(np.mean(read), rel=0.1)  # gaps: 3 % fewer
    assert step_operations(TrainConfig.preset("paper")) == pytest.approx(12.5e12, rel=0.05)  # 64 * 6300 * 31e6
    assert published_operations() == pytest.approx(1.6e19, rel=0.05)
    with pytest.raises(ConfigError, match="paper's architecture only"):
        forward_operations(ModelConfig.preset("primed"), 1, 1)


def curve(name, level, steps=(100, 200, 400, 800, 1600, 2400, 3200, 4800, 6400), exponent=0.2, loss=True):
    shifts = np.linspace(-0.1, 0.1, 8)
    points = []
    for step in steps:
        errors = tuple(level - exponent * np.log10(step) + shifts)
        losses = tuple(100 + 500 * step**-0.5 + shifts) if loss else None
        points.append(Point(step, 16 * step, 0.5 * step, Judgement(losses, losses, losses, *[errors] * 6)))
    return Curve(name, 1000, "x", tuple(points))


def test_tables_compare_at_equal_steps_and_at_equal_compute():
    arms = all_arms()
    curves = {
        "paper-0.1m-streaming": curve("a", 0.5),
        "paper-0.4m-streaming": curve("b", 0.25, (100, 200, 400, 800, 1600)),
        "paper-0.4m-30000": curve("c", 0.5),
        "paper-0.4m-streaming-degree4": curve("d", 0.2),
        "paper-0.4m-streaming-constant": curve("f", 0.3, (100, 200, 400)),
        "paper-0.4m-streaming-constant-bound5": curve("g", 0.15, (50, 100, 200)),
        "primed": curve("e", -1.0, (100, 200), loss=False),
    }
    text = text_tables(arms, curves)
    assert "### Sizes and data, after 1600 steps each" in text
    same = "0.000 ± 0.000 | 0.000 ± 0.000"  # losses
    assert f"| 0.1m–streaming | 0.4m–streaming | 1600 | {same} | −0.250 ± 0.000 | −0.250 ± 0.000 |" in text
    assert f"| paper-0.4m-streaming | paper-0.4m-streaming-degree4 | 1600 | {same} | −0.050 ± 0.000 |" in text
    constant = "paper-0.4m-streaming-constant"
    assert f"| paper-0.4m-streaming | {constant} | 400 | {same} | 0.050 ± 0.000 |" in text
    assert f"| {constant} | {constant}-bound5 | 200 | {same} | −0.150 ± 0.000 |" in text
    assert "### Equal compute: the last judgement within 100 CPU-seconds of training" in text
    assert "| primed | 100 | 200 | −1.460 ± 0.025 |" in text
    found = exponents(curves["paper-0.1m-streaming"])
    assert found["drift"].value == pytest.approx(0.2)
    assert found["doubling"].value == pytest.approx(500 * 6400**-0.5 * (2**-0.5 - 1), rel=0.02)
    assert exponents(curves["primed"]) == {}
    for table in tables(arms, curves):
        assert {len(row) for row in table.rows} == {len(table.columns)}, to_markdown(table)


def command(*arguments):
    app = typer.Typer()
    app.command()(bench)
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_command_trains_and_prints(tmp_path):
    places = ("--quick", "--work", tmp_path / "work", "--out", tmp_path / "results")
    arm = ("ablation", "--arms", TWO[0])
    done = command(*arm, *places, "--minutes", 5)
    assert done.exception is None, done.exception
    assert "paper-0.1m-streaming: step 6," in done.stderr
    assert "### Arms, as far as they are trained" in done.stdout
    printed = json.loads(command(*arm, *places, "--summary", "--json", "--figures", tmp_path / "figures").stdout)
    assert (tmp_path / "figures" / "ablation-curves.png").stat().st_size > 10_000
    assert (printed[0]["arm"], printed[0]["step"]) == ("paper-0.1m-streaming", 6)


def test_arms_read_paths_with_gaps_as_long_as_those_they_were_trained_on():
    """5000 observations, 256 steps: every 20th, from each of the first 20 on; at gaps of 0.02 every 5th, for 0.1."""
    values = np.random.default_rng(0).normal(size=(5000, 2))
    for gap, every in ((0.002, 20), (0.02, 5)):
        whole = fimsde.read(values, times=gap * np.arange(5000))
        thinned = as_trained(whole)
        assert (thinned.num_paths, thinned.num_points) == (every, 5000)
        np.testing.assert_array_equal(thinned.path(3)[1], values[3::every])
        np.testing.assert_allclose(np.diff(thinned.path(3)[0]), every * gap)
    ragged = fimsde.read([values[:3], values[:2000]], times=[0.01 * np.arange(3), 0.01 * np.arange(2000)])
    thinned = as_trained(ragged)
    assert sorted(thinned.values[:, 0]) == sorted(ragged.values[:, 0])  # nothing is lost or seen twice


def test_the_arm_in_the_repository_reads_an_equation():
    """dX = -2 X dt + dW, its exact law at gaps of 0.02: half of the square error of zero, the diffusion by a half."""
    rng, gap = np.random.default_rng(1_000_000), 0.02
    decay, x = np.exp(-2 * gap), np.zeros(5000)
    noise = np.sqrt((1 - decay**2) / 4) * rng.standard_normal(5000)
    for k in range(1, 5000):
        x[k] = decay * x[k - 1] + noise[k]
    observations = fimsde.read(x[:, None], dt=gap)
    result = fimsde.estimate(as_trained(observations), paper_arm.WEIGHTS / "paper-0.4m-streaming-constant")
    at = np.linspace(-0.9, 0.9, 19)[:, None]  # within two standard deviations, 1/2 each
    assert float(((result.drift(at) + 2 * at) ** 2).mean()) < 0.5 * float(((2 * at) ** 2).mean())
    np.testing.assert_allclose(result.diffusion(at), 1.0, atol=0.5)


def test_arms_read_as_they_are_what_was_not_thinned_in_training():
    values = np.random.default_rng(0).normal(size=(5000, 2))
    short, long = (fimsde.read(v, times=0.002 * np.arange(len(v))) for v in (values[:200], values))
    assert as_trained(short) is short
    assert as_trained(long, 0) is long
    for name in ("paper-0.1m", "paper-0.4m", "paper-1.6m"):
        config = TrainConfig.preset(name)
        assert config.contexts.transitions == TRANSITIONS
        assert max(setting.gap for setting in config.prior.settings) == LONGEST_GAP
    assert TrainConfig.preset("paper").contexts.transitions == TrainConfig.preset("primed").contexts.transitions == 0


@pytest.mark.slow
def test_the_command_measures_the_last_milestone_on_the_canonical_tasks(undisturbed, tmp_path):
    """Buys that weights of an arm go all the way to result files; making the data takes long."""
    places = ("--quick", "--work", undisturbed / "work", "--out", undisturbed / "results", "--cache", tmp_path)
    done = command("ablation", "--arms", TWO[0], *places, "--measure", "--no-paths", "--repetitions", 1)
    assert done.exception is None, done.exception
    stored = list((undisturbed / "results" / "ablation").rglob("fim-paper-0.1m-streaming-*.json"))
    assert len(stored) == 8  # two systems, four settings
    assert list((undisturbed / "results" / "context-size").rglob("fim-paper-0.1m-streaming-*.json"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["canonical", "--arms", "all"], "--arms was given, but canonical has no use for it"),
        (["ablation", "--minutes", "5"], "name the arms"),
        (["ablation", "--arms", "all", "--methods", "ours"], "--methods was given, but ablation --arms has no use"),
        (["ablation", "--arms", "all"], "no arm was judged so far"),
        (["ablation", "--arms", "all", "--measure"], "train longer"),
    ],
)
def test_options_that_do_not_fit_are_refused(arguments, said, tmp_path):
    done = command(*arguments, "--out", tmp_path / "out", "--work", tmp_path / "work")
    assert isinstance(done.exception, ConfigError)
    assert said in str(done.exception)
