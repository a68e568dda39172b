"""Contexts and batches: their laws, and that batch i depends on (settings, i) alone."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from checks import check_cdf, check_frequencies, check_mean
from fimsde.bank.bank import make_bank
from fimsde.data.normalise import fit_normaliser
from fimsde.data.observations import read
from fimsde.data.transitions import to_transitions
from fimsde.errors import ConfigError, DatasetError, DataWarning, InvalidObservationsError
from fimsde.model import bank_reader
from fimsde.prior.config import CorruptionConfig, LocationConfig, PriorConfig, Setting
from fimsde.prior.dataset import generate
from fimsde.prior.equation import draw_equation
from fimsde.prior.manifest import DatasetSettings
from fimsde.train.config import ContextConfig, TrainConfig
from fimsde.train.pretrain import batches as making
from fimsde.train.pretrain import contexts
from fimsde.train.pretrain.batches import StoredBatches, StreamedBatches, draw_example, draw_kind
from fimsde.train.pretrain.contexts import (
    draw_num_observations,
    hides_curvature,
    make_example,
    paper_context,
    primed_context,
    primed_locations,
)
from fimsde.train.processes import Part

PAPER, PRIMED = TrainConfig.preset("paper-tiny"), TrainConfig.preset("primed-tiny")
CLEAN = CorruptionConfig(mix=(1.0, 0.0, 0.0, 0.0))


def an_equation(setting, dim=2, corruption=CLEAN, index=0):
    prior = PriorConfig(
        dims=(dim,), dim_shares=(1.0,), settings=(setting,), corruption=corruption, locations=PRIMED.prior.locations
    )
    return draw_equation(prior, 0, index)


def tensors(batch):
    """Everything in a batch, by name."""
    parts = {name: getattr(batch, name) for name in ("x", "drift", "diffusion", "scored", "dims")}
    return parts | {f"source.{name}": value for name, value in vars(batch.source).items()}


def assert_same(a, b):
    a, b = tensors(a), tensors(b)
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=0, msg=name)


def test_the_papers_context_size_is_uniform_up_to_one_below_all():
    """Protocol 1.7: {max(128, L), ..., min(12800, K L) - 1}. False alarms: 1e-6."""
    setting, contexts, rng = Setting(0.1, 1, 3, 10), ContextConfig(fewest=5, most=1000), np.random.default_rng(0)
    drawn = [draw_num_observations(contexts, setting, rng) for _ in range(4000)]
    check_frequencies(np.bincount(drawn, minlength=30)[10:30], np.ones(20))
    assert (min(drawn), max(drawn)) == (10, 29)
    with pytest.raises(AssertionError, match="differ from theory"):  # n up to K L would be noticed
        check_frequencies(np.bincount(rng.integers(10, 31, 4000))[10:31], np.append(np.ones(20), 1e-9))


def test_the_papers_context_is_whole_paths_in_random_order():
    equation = an_equation(Setting(0.1, 2, 6, 50))
    orders = set()
    for seed in range(20):
        obs = paper_context(equation, 199, np.random.default_rng(seed))
        assert obs.num_paths == 3  # floor(199 / 50)
        paths = [obs.path(k)[1] for k in range(3)]
        order = tuple(int(np.argmin(np.abs(equation.values - p).sum((1, 2)))) for p in paths)
        np.testing.assert_array_equal(np.stack(paths), equation.values[list(order)])
        assert len(set(order)) == 3
        orders.add(order)
    assert len(orders) > 10


def test_sizes_of_primed_contexts_of_a_single_path_are_log_uniform():
    equation, rng = an_equation(Setting(0.01, 1, 1, 5000), dim=1), np.random.default_rng(0)
    fewest = PRIMED.contexts.fewest
    sizes = [primed_context(PRIMED.contexts, equation, rng).num_points for _ in range(400)]
    check_cdf(sizes, lambda n: np.log(n / fewest) / np.log(5000 / fewest))
    with pytest.raises(AssertionError, match="bands"):
        check_cdf(sizes, lambda n: (n - fewest) / (5000 - fewest))


def test_primed_contexts_of_many_paths_leave_out_paths_or_cut_them():
    equation, rng = an_equation(Setting(0.05, 1, 8, 400)), np.random.default_rng(0)
    shapes = [
        (obs.num_paths, obs.num_points // obs.num_paths)
        for obs in (primed_context(PRIMED.contexts, equation, rng) for _ in range(300))
    ]
    assert {paths for paths, _ in shapes} == set(range(1, 9))
    whole = [length == 400 for _, length in shapes]
    assert 0.6 < np.mean(whole) < 0.85  # 0.7 and the cut ones that needed all of the length
    assert min(length for _, length in shapes) >= 100


def test_a_context_begins_anywhere_but_mostly_at_the_start():
    equation, rng = an_equation(Setting(0.01, 1, 1, 3000), dim=1), np.random.default_rng(1)
    starts = [primed_context(PRIMED.contexts, equation, rng).times[0] for _ in range(200)]
    assert 0.5 < np.mean(np.array(starts) == 0) < 0.9
    assert max(starts) > 5


def test_a_cut_context_has_as_few_paths_as_hold_it():
    """And its size is log-uniform, as that of a single path. False alarms: 1e-6."""
    equation, rng = an_equation(Setting(0.05, 1, 8, 400)), np.random.default_rng(2)
    cut = replace(PRIMED.contexts, cut_share=1.0)
    sizes = []
    for _ in range(300):
        obs = primed_context(cut, equation, rng)
        sizes.append(obs.num_points)
        assert obs.num_points > (obs.num_paths - 1) * 400 - obs.num_paths
    check_cdf(sizes, lambda n: np.log(n / cut.fewest) / np.log(3200 / cut.fewest))


def test_a_context_may_end_with_the_last_observation_wherever_it_begins():
    equation, rng = an_equation(Setting(0.05, 1, 1, 103), dim=1), np.random.default_rng(0)
    contexts = [primed_context(replace(PRIMED.contexts, fewest=100), equation, rng) for _ in range(200)]
    ends = {round(obs.times[-1] / 0.05) for obs in contexts if obs.times[0] > 0}
    assert max(ends) == 102


@pytest.mark.parametrize("config", [PAPER, PRIMED], ids=["paper", "primed"])
def test_targets_are_the_exact_fields_at_the_locations(config):
    equation = an_equation(Setting(0.05, 2, 4, 150), corruption=CorruptionConfig())
    example = make_example(config, equation, 300, 20, np.random.default_rng(3))
    first = np.random.default_rng(3)  # the context is drawn first
    obs = paper_context(equation, 300, first) if config is PAPER else primed_context(config.contexts, equation, first)
    normaliser = fit_normaliser(to_transitions(obs))
    np.testing.assert_array_equal(example.transitions.y, normaliser.states(to_transitions(obs).y))
    x = normaliser.undo_states(example.x[example.scored])
    drift, diffusion = example.drift[example.scored], example.diffusion[example.scored]
    np.testing.assert_allclose(normaliser.undo_drift(drift), equation.sde.drift(x), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(normaliser.undo_diffusion(diffusion), equation.sde.diffusion(x), rtol=1e-5, atol=1e-5)
    if example.origin is not None:
        np.testing.assert_allclose(normaliser.undo_states(example.origin), 0, atol=1e-12)


@pytest.mark.parametrize("change", [None, "constant", "infinite", "short"])
def test_drawn_paths_become_what_the_door_makes_of_them(change):
    rng = np.random.default_rng(0)
    values, times, mask = rng.standard_normal((3, 20, 2)), 0.1 * np.arange(20), rng.random((3, 20)) < 0.8
    if change == "constant":
        values[..., 1] = 7.0
    if change == "infinite":
        values[1, np.flatnonzero(mask[1])[2], 0] = np.inf
    if change == "short":
        values, times, mask = values[:1, :2], times[:2], np.ones((1, 2), bool)
    if change is None:
        a, b = contexts._masked(values, times, mask), read(values, times=times, mask=mask)
        for name in ("values", "times", "path_starts"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
        assert (a.names, a.time_unit) == (b.names, b.time_unit)
        return
    with pytest.raises(InvalidObservationsError):
        read(values, times=times, mask=mask)
    with pytest.raises(InvalidObservationsError, match="draw others"):
        contexts._masked(values, times, mask)


def test_advice_to_users_is_not_given_to_the_trainer():
    """A path with one spike makes `read` warn, and warnings are errors here."""
    equation = an_equation(Setting(0.05, 2, 1, 300), dim=1)
    values = np.full_like(equation.values, 0.1) + np.float32(1e-6) * equation.values
    values[0, 5] = 50.0
    with pytest.warns(DataWarning):
        replace(equation, values=values).observations()
    assert primed_context(PRIMED.contexts, replace(equation, values=values), np.random.default_rng(0)).num_points > 99


def test_half_of_the_primed_locations_are_clean_states_and_half_surround_the_data():
    equation, rng = an_equation(Setting(0.05, 2, 4, 150)), np.random.default_rng(0)
    obs = primed_context(PRIMED.contexts, equation, rng)
    x = primed_locations(PRIMED, equation, obs, 40, rng)
    stored = equation.locations[-128:].astype(float)
    assert [any(np.array_equal(row, state) for state in stored) for row in x] == [False] * 20 + [True] * 20
    low, high = obs.box(0.9)
    assert np.all((x[:20] >= low) & (x[:20] <= high))


def test_boxes_of_primed_locations_are_widened_by_a_uniform_share():
    """A location in a box widened by u on both sides is inside the data with probability 1 / (1 + 2 u); over u from 0
    to 0.9 that is ln(2.8) / 1.8 = 0.572, and 0.357 if all were widened by 0.9. False alarms: 1e-6."""
    equation, rng = an_equation(Setting(0.05, 2, 4, 150), dim=1), np.random.default_rng(0)
    obs = primed_context(PRIMED.contexts, equation, rng)
    low, high = obs.box()
    inside = [np.all((x >= low) & (x <= high)) for x in (location(equation, obs, rng) for _ in range(600))]
    share = np.log(2.8) / 1.8
    check_mean(inside, share, share * (1 - share))
    with pytest.raises(AssertionError, match="standard errors"):
        check_mean(inside, 1 / 2.8, 1 / 2.8 * (1 - 1 / 2.8))


def location(equation, obs, rng):
    """One location in the box of the data."""
    assert PRIMED.contexts.widen == 0.9
    return primed_locations(PRIMED, equation, obs, 2, rng)[0]


def test_locations_far_from_the_data_do_not_count():
    config = replace(PRIMED, contexts=replace(PRIMED.contexts, far=1.0))
    example = make_example(config, an_equation(Setting(0.05, 2, 4, 150)), 0, 60, np.random.default_rng(0))
    assert 5 < example.scored.sum() < 55
    assert np.abs(example.x[example.scored]).max() <= 1
    for values in (example.x, example.drift, example.diffusion):
        np.testing.assert_array_equal(values[~example.scored], 0)


def test_the_origin_is_known_for_the_given_share_of_the_equations():
    equation, rng = an_equation(Setting(0.05, 2, 2, 120)), np.random.default_rng(0)
    known = sum(make_example(PRIMED, equation, 0, 2, rng).origin is not None for _ in range(300))
    check_frequencies([known, 300 - known], [0.3, 0.7])


@pytest.mark.parametrize(
    ("drift", "spread", "queries", "hidden"),
    [
        (lambda x: x - x**3, 0.05, 64, True),
        (lambda x: x - x**3, 1.0, 64, False),
        (lambda x: 2 - x, 0.05, 64, False),
        (lambda x: x - x**3, 0.05, 16, False),
    ],
    ids=["unseen", "seen", "linear", "too few states to tell"],
)
def test_curvature_is_hidden_if_the_drift_looks_linear_on_the_paths_and_is_not(drift, spread, queries, hidden):
    rng = np.random.default_rng(0)
    example = make_example(PRIMED, an_equation(Setting(0.05, 2, 4, 150)), 0, queries, rng)
    x = np.concatenate(
        [rng.uniform(-2, 2, (queries - queries // 2, 2)), spread * rng.standard_normal((queries // 2, 2))]
    )
    fields = np.stack([x[:, 1], drift(x[:, 0])], axis=1)
    assert hides_curvature(replace(example, x=x, drift=fields, scored=np.ones(queries, np.bool_))) == hidden


def test_of_the_equations_whose_curvature_is_hidden_the_given_share_is_kept():
    prior = replace(PRIMED.prior, dims=(1,), dim_shares=(1.0,))

    def draw(share):
        config = replace(PRIMED, prior=prior, contexts=replace(PRIMED.contexts, hidden=share))
        return [
            draw_example(config, lambda item, attempt: draw_equation(prior, attempt, item), item, 0, [1, item], 64)
            for item in range(60)
        ]

    assert not any(hides_curvature(p.example) for p in draw(0.0))
    assert any(hides_curvature(p.example) for p in draw(1.0))


@pytest.mark.parametrize("config", [PAPER, PRIMED], ids=["paper", "primed"])
def test_a_batch_is_a_function_of_its_number(config):
    one, other = StreamedBatches(config), StreamedBatches(config)
    first = [one[i] for i in (0, 1, 5)]
    for a, b in zip(first, [other[i] for i in (5, 1, 0)][::-1], strict=True):
        assert_same(a, b)
    assert not torch.equal(first[0].x, first[1].x)
    reseeded = StreamedBatches(replace(config, loop=replace(config.loop, seed=11)))[0]
    assert not torch.equal(first[0].x, reseeded.x)


def test_dimensions_and_settings_of_batches_are_drawn_by_their_shares():
    """False alarms: 1e-6 each; equal shares would be noticed."""
    settings = tuple(Setting(0.1, 1, 2, 10 * k, share=share) for k, share in ((1, 1.0), (2, 3.0)))
    prior = PriorConfig(dims=(1, 2, 3), dim_shares=(1.0, 2.0, 5.0), settings=settings)
    rng = np.random.default_rng(0)
    drawn = [draw_kind(prior, rng) for _ in range(1000)]
    dims = np.bincount([kind.dims[0] for kind in drawn])[1:]
    lengths = np.bincount([kind.settings[0].num_times // 10 for kind in drawn])[1:]
    check_frequencies(dims, [1, 2, 5])
    check_frequencies(lengths, [1, 3])
    for counts in (dims, lengths):
        with pytest.raises(AssertionError, match="differ from theory"):
            check_frequencies(counts, np.ones(len(counts)))


def test_every_item_of_every_batch_is_an_equation_of_its_own_and_so_is_its_replacement(monkeypatch):
    """The first context of every item is refused."""
    asked = []

    def recorded(prior, seed, index):
        asked.append(index)
        return draw_equation(prior, seed, index)

    monkeypatch.setattr(making, "draw_equation", recorded)
    monkeypatch.setattr(making, "_has_finite_answers", lambda example: len(asked) % 2 == 0)
    whole, half = StreamedBatches(PAPER), StreamedBatches(PAPER, Part(1, 2))
    for number in range(3):
        whole[number]
    assert len(asked) == len(set(asked)) == 2 * 3 * PAPER.batch_size
    assert sorted(asked)[: 3 * PAPER.batch_size] == list(range(3 * PAPER.batch_size))
    first = asked[::2]
    asked.clear()
    half[2]
    assert asked[::2] == first[2 * PAPER.batch_size :][PAPER.batch_size // 2 :]


def test_every_attempt_has_random_numbers_of_its_own(monkeypatch):
    drawn = []

    def refused(config, equation, num_observations, num_queries, rng):
        drawn.append(rng.random())
        raise InvalidObservationsError("for the test")

    monkeypatch.setattr(making, "make_example", refused)
    with pytest.raises(DatasetError, match="none of 20 contexts"):
        draw_example(PAPER, lambda *_: an_equation(Setting(0.05, 2, 2, 120)), 0, 240, [1, 0, 0])
    assert len(set(drawn)) == 20


@pytest.mark.parametrize("is_scored", [True, False])
def test_answers_that_no_float32_holds_are_replaced_if_they_count(is_scored, monkeypatch):
    good = make_example(PAPER, an_equation(Setting(0.05, 2, 2, 120)), 240, 8, np.random.default_rng(0))
    scored = np.arange(8) > 0
    first = replace(good, drift=np.where(np.arange(8)[:, None] == int(is_scored), 1e39, good.drift), scored=scored)
    examples = iter([first, good])
    monkeypatch.setattr(making, "make_example", lambda *_: next(examples))
    found = draw_example(PAPER, lambda *_: an_equation(Setting(0.05, 2, 2, 120)), 0, 240, [1, 0, 0])
    assert found.example is (good if is_scored else first)


def test_a_bank_that_no_float32_holds_is_replaced(monkeypatch):
    made = []

    def huge_at_first(transitions, origin):
        bank = make_bank(transitions, origin)
        made.append(bank if made else replace(bank, speed=np.full_like(bank.speed, 1e39)))
        return made[-1]

    monkeypatch.setattr(bank_reader, "make_bank", huge_at_first)
    found = draw_example(PRIMED, lambda *_: an_equation(Setting(0.05, 2, 2, 120)), 0, 0, [1, 0, 0])
    assert found.reading is made[1]


def test_batches_have_one_dimension_and_all_dimensions_occur():
    batches = StreamedBatches(PAPER)
    dims = [batches[i].dims for i in range(12)]
    assert all(bool((d == d[0]).all()) for d in dims)
    assert {int(d[0].sum()) for d in dims} == {1, 2, 3}


@pytest.mark.parametrize("config", [PAPER, PRIMED], ids=["paper", "primed"])
def test_the_parts_of_several_processes_make_up_the_batch(config):
    whole = StreamedBatches(config)[3]
    parts = [StreamedBatches(config, Part(rank, 2))[3] for rank in range(2)]
    for name in ("x", "drift", "diffusion", "scored", "dims"):
        assert torch.equal(torch.cat([getattr(p, name) for p in parts]), getattr(whole, name))
    with pytest.raises(ConfigError, match="batch_size is 4 with 3 processes"):
        StreamedBatches(PAPER, Part(0, 3))


@pytest.mark.slow
def test_worker_processes_make_the_same_batches():
    """Buys certainty that nothing in a batch hangs on the process that makes it; starting processes takes long."""
    batches = StreamedBatches(PAPER)
    loader = DataLoader(batches, batch_size=None, sampler=range(2, 5), num_workers=2, multiprocessing_context="spawn")
    for index, batch in zip(range(2, 5), loader, strict=True):
        assert_same(batch, batches[index])


def test_a_context_that_rests_at_a_fixed_point_is_replaced():
    resting = an_equation(Setting(0.05, 2, 2, 120))
    resting = replace(resting, values=np.ones_like(resting.values))
    moving = an_equation(Setting(0.05, 2, 2, 120), index=1)
    prepared = draw_example(PRIMED, lambda item, attempt: resting if attempt == 0 else moving, 0, 0, [1, 0, 0])
    assert np.ptp(prepared.example.transitions.y) > 0
    with pytest.raises(DatasetError, match="none of 20 contexts"):
        draw_example(PRIMED, lambda *_: resting, 0, 0, [1, 0, 0])


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> tuple[TrainConfig, Path]:
    folder = tmp_path_factory.mktemp("data") / "set"
    prior = PriorConfig(settings=(Setting(0.05, 2, 3, 64), Setting(0.1, 2, 2, 80)), locations=LocationConfig(64))
    settings = DatasetSettings(num_equations=14, seed=0, config=prior, shard_size=5)
    generate(settings, folder)
    return replace(PAPER, prior=prior, dataset=settings.identity), folder


def test_every_pass_through_a_data_set_reads_each_equation_once(stored):
    config, folder = stored
    batches = StoredBatches(config, folder)
    passes = [[batches[i].dims.sum(1).tolist() for i in range(k, k + 3)] for k in (0, 3)]  # 14 // 4 batches
    assert sorted(passes[0]) == sorted(passes[1])
    assert_same(batches[4], StoredBatches(config, folder)[4])


class Recorded:
    """A data set that remembers what was asked of it."""

    def __init__(self, dataset):
        self.dataset, self.asked = dataset, []

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, index):
        self.asked.append(index)
        return self.dataset[index]


def test_every_pass_has_an_order_of_its_own_and_parts_share_it(stored):
    """Three batches in a pass; that eight passes have one order by chance is a case in 280 000."""
    config, folder = stored
    asked = []
    for rank in range(2):
        batches = StoredBatches(config, folder, Part(rank, 2))
        batches.dataset = Recorded(batches.dataset)
        for number in range(24):
            batches[number]
        asked.append(np.reshape(batches.dataset.asked, (8, 3, 2)))
    together = np.concatenate(asked, axis=2)  # (passes, batches, items)
    assert all(sorted(one.ravel()) == list(range(12)) for one in together)
    assert np.all(np.diff(together, axis=2) == 1), "neighbouring equations"
    assert len({tuple(one[:, 0]) for one in together}) > 1


def test_a_data_set_other_than_that_of_the_settings_is_an_error(stored):
    config, folder = stored
    with pytest.raises(DatasetError, match="not the data set of these training settings"):
        StoredBatches(replace(config, dataset="abc"), folder)
    with pytest.raises(DatasetError, match="14 equations; expected at least a batch of 16"):
        StoredBatches(replace(config, batch_size=16), folder)
    with pytest.raises(ConfigError, match="one dimension together"):
        StoredBatches(replace(PRIMED, dataset=config.dataset), folder)


def test_a_thinned_context_covers_the_same_time_at_the_same_locations():
    """Five paths of 50, gap 0.01: 245 transitions for 40 want every seventh; the prior's largest gap allows five."""
    equation = an_equation(Setting(0.01, 5, 6, 50))
    prior = replace(PAPER.prior, settings=(Setting(0.01, 5, 6, 50), Setting(0.05, 2, 4, 64)))
    thin = replace(PAPER, prior=prior, contexts=ContextConfig(fewest=50, most=300, transitions=40))
    kept = make_example(thin, equation, 250, 8, np.random.default_rng(3))
    every = to_transitions(paper_context(equation, 250, np.random.default_rng(3)))
    strided = to_transitions(paper_context(equation, 250, np.random.default_rng(3), stride=5))
    assert (len(kept.transitions), len(strided), len(every)) == (40, 5 * 9, 5 * 49)
    assert strided.dtau == pytest.approx(0.05)
    assert rows(strided.y) < rows(every.y)
    scale = fit_normaliser(strided, PAPER.model.statistics, PAPER.model.target_gap)
    assert rows(kept.transitions.y, kept.transitions.dy) < rows(
        scale.transitions(strided).y, scale.transitions(strided).dy
    )
    all_of_it = replace(thin, contexts=replace(thin.contexts, transitions=0))
    whole = make_example(all_of_it, equation, 250, 8, np.random.default_rng(3))
    plain = fit_normaliser(every, PAPER.model.statistics, PAPER.model.target_gap)
    assert len(whole.transitions) == 5 * 49
    np.testing.assert_allclose(scale.undo_states(kept.x), plain.undo_states(whole.x))
    np.testing.assert_allclose(scale.undo_drift(kept.drift), plain.undo_drift(whole.drift))


def rows(*columns):
    """The rows of arrays side by side."""
    return {tuple(row) for row in np.column_stack(columns)}


def test_equations_of_a_mixed_batch_are_of_their_own_kinds():
    prior = replace(PAPER.prior, settings=(Setting(0.05, 2, 4, 64), Setting(0.1, 2, 4, 32)))
    config = replace(PAPER, prior=prior, mixed=True, batch_size=24, contexts=ContextConfig(fewest=32, most=256))
    batch = StreamedBatches(config)[0]
    assert set(batch.dims.sum(dim=1).tolist()) == {1, 2, 3}  # 24 draws with shares 1/6, 1/3, 1/2
    lengths = batch.source.mask.sum(dim=1)
    assert (lengths % 31 == 0).any()
    assert (lengths % 63 == 0).any()
    assert len(set(lengths.tolist())) > 3
    assert_same(batch, StreamedBatches(config)[0])
    again = StreamedBatches(replace(config, equations=48))
    turn = next(i for i in (2, 3) if again._first_visit(i) == 0)
    assert torch.equal(again[turn].dims, batch.dims)
    assert not torch.equal(again[turn].x, batch.x)
    with pytest.raises(ConfigError, match="primed model reads equations of one dimension"):
        StreamedBatches(replace(PRIMED, mixed=True))[0]
