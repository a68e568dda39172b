"""Training settings: round trips, strictness, and the paper's numbers."""

import json
import tomllib
from dataclasses import replace

import pytest

from fimsde.errors import ConfigError
from fimsde.train.config import PRESETS, ContextConfig, LoopConfig, OptimiserConfig, TrainConfig


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_survives_toml_and_json(name, tmp_path):
    config = TrainConfig.preset(name)
    assert TrainConfig.from_mapping(tomllib.loads(config.to_toml())) == config
    (tmp_path / "run.toml").write_text(config.to_toml())
    (tmp_path / "run.json").write_text(json.dumps(config.to_mapping()))
    assert TrainConfig.from_file(tmp_path / "run.toml") == config
    assert TrainConfig.from_file(tmp_path / "run.json") == config


def test_the_paper_preset_is_the_papers_recipe():
    """Protocol, sections 1.7 and 3."""
    config = TrainConfig.preset("paper")
    assert config.loop.optimiser == OptimiserConfig(learning_rate=1e-5, weight_decay=1e-4, betas=(0.9, 0.999))
    assert (config.loop.schedule.kind, config.loop.schedule.warm_up) == ("constant", 0)
    assert (config.loop.steps, config.batch_size, config.num_queries) == (1_300_000, 64, 32)
    assert (config.loop.clip, config.loop.ema_decay, config.loop.precision) == (0, 0, "bfloat16")
    assert (config.contexts.rule, config.contexts.fewest, config.contexts.most) == ("paper", 128, 12_800)
    assert (config.model.variant, config.model.dropout, config.objective) == ("paper", 0.1, "authors")


def test_missing_settings_take_their_defaults():
    assert TrainConfig.from_mapping({"loop": {"steps": 7}}) == TrainConfig(loop=LoopConfig(steps=7))


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"bach_size": 3}, "unknown setting 'bach_size'"),
        ({"loop": {"optimizer": {}}}, "unknown setting 'optimizer' in loop"),
        ({"model": {"embedding": 3}}, "embedding"),
        ({"prior": {"contexts": 1}}, "unknown setting 'contexts'"),
        ({"contexts": {"rule": "wide"}}, "rule is 'wide'; expected one of paper, primed"),
        ({"loop": {"steps": 0}}, "steps is 0; expected at least 1"),
        ({"loop": {"ema_decay": 1.0}}, "ema_decay is 1"),
        ({"loop": {"clip": float("inf")}}, "clip is inf"),
        ({"loop": {"seed": -1}}, "seed is -1"),
        ({"loop": {"optimiser": {"learning_rate": 0}}}, "learning_rate is 0"),
        ({"loop": {"optimiser": {"betas": [0.9]}}}, "betas has 1 entries; expected 2"),
        ({"loop": {"non_finite": "ignore"}}, "expected one of skip, stop"),
        ({"contexts": {"fewest": 10, "most": 5}}, "fewest is 10, most is 5"),
        ({"contexts": {"known_origin": 1.5}}, "known_origin is 1.5"),
        ({"contexts": {"hidden": -0.1}}, "hidden is -0.1"),
        ({"batch_size": 2.5}, "batch_size is 2.5; expected an integer"),
        ({"model": 3}, "expected tables of settings"),
        ([], "expected tables of settings"),
    ],
)
def test_wrong_settings_are_named(mapping, words):
    with pytest.raises(ConfigError) as error:
        TrainConfig.from_mapping(mapping)
    assert words in str(error.value)


def test_a_file_that_is_not_toml_is_an_error(tmp_path):
    (tmp_path / "run.toml").write_text("steps = = 3")
    with pytest.raises(ConfigError, match="Expected a TOML or JSON file"):
        TrainConfig.from_file(tmp_path / "run.toml")
    with pytest.raises(ConfigError, match="cannot read"):
        TrainConfig.from_file(tmp_path / "absent.toml")


def test_an_unknown_preset_is_an_error():
    with pytest.raises(ConfigError, match="expected one of paper, primed"):
        TrainConfig.preset("huge")


def test_settings_of_contexts_are_checked_however_they_are_made():
    with pytest.raises(ConfigError, match="far is 0"):
        replace(ContextConfig(), far=0.0)


@pytest.mark.parametrize(
    ("name", "weights", "width", "layers"),
    [("paper-0.1m", 108_439, 32, 2), ("paper-0.4m", 425_767, 64, 2), ("paper-1.6m", 1_623_031, 96, 4)],
)
def test_smaller_presets_keep_the_papers_recipe(name, weights, width, layers):
    """Prior, loss, locations, context sizes, normalisation and optimiser are the paper's."""
    paper, small = TrainConfig.preset("paper"), TrainConfig.preset(name)
    assert (small.model.num_parameters, small.model.embed, small.model.functional_layers) == (weights, width, layers)
    assert small.model.encoder_layers == paper.model.encoder_layers
    sizes = ("embed", "functional_layers", "heads", "feed_forward", "head_hidden", "dropout")
    assert replace(small.model, **{size: getattr(paper.model, size) for size in sizes}) == paper.model
    assert (small.prior, small.objective, small.num_queries) == (paper.prior, paper.objective, paper.num_queries)
    assert replace(small.contexts, transitions=paper.contexts.transitions) == paper.contexts
    rate = paper.loop.optimiser.learning_rate
    assert replace(small.loop.optimiser, learning_rate=rate) == paper.loop.optimiser
    assert (paper.mixed, paper.location_clip, paper.start) == (False, 0.0, "published")
    assert (paper.loop.schedule.kind, paper.loop.clip, paper.loop.ema_decay) == ("constant", 0.0, 0.0)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"equations": 3}, "a batch .64. or more"),
        ({"equations": 640, "cache_equations": 64}, "0 where contexts or data are stored"),
        ({"equations": 640, "dataset": "x"}, "0 where contexts or data are stored"),
        ({"mixed": True, "dataset": "x"}, "false where contexts or data are stored"),
        ({"location_clip": -1.0}, "a positive number, or 0 for none"),
        ({"location_clip": 1.0, "objective": "primed"}, "0 for the primed objective"),
    ],
)
def test_a_bound_on_equations_has_to_make_sense(settings, said):
    with pytest.raises(ConfigError, match=said):
        TrainConfig(**settings)
