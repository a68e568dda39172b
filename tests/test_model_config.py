"""Settings of the model: presets, JSON, and everything that must be refused before memory is touched."""

import json

import pytest

from fimsde.errors import ConfigError
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE


@pytest.mark.parametrize(
    ("preset", "parameters"),
    [("paper", 20_965_255 - 33_024), ("ablation-10m", 9_913_471), ("ablation-5m", 5_256_007), ("tiny", 75_159)],
)
def test_presets_have_the_stated_number_of_parameters(preset, parameters):
    """The published model counts 33 024 more: a map of its state dict that no computation uses."""
    config = ModelConfig.preset(preset)
    assert config.num_parameters == parameters
    assert sum(p.numel() for p in FIMSDE(config, seed=None).parameters()) == parameters


def test_defaults_are_the_paper_preset():
    assert ModelConfig() == ModelConfig.preset("paper")


def test_a_config_survives_json():
    config = ModelConfig(embed=48, heads=3, head_hidden=(5, 7, 9), dropout=0.0, statistics="starts", target_gap=0.25)
    assert ModelConfig.from_mapping(json.loads(config.to_json())) == config


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"embed": 10**9}, "embed is 1000000000; expected 1 to"),
        ({"embed": 10**400}, "more than 60 digits"),
        ({"embed": 8192, "feed_forward": 65536, "functional_layers": 128}, "parameters; at most"),
        ({"embed": 0}, "expected 1 to"),
        ({"embed": -256}, "expected 1 to"),
        ({"embed": 256.0}, "expected an integer"),
        ({"embed": "256"}, "expected an integer"),
        ({"embed": True}, "expected an integer"),
        ({"embed": None}, "expected an integer"),
        ({"embed": 100}, "multiple of heads"),
        ({"embed": 34, "heads": 17}, "multiple of heads"),
        ({"heads": 7}, "multiple of heads"),
        ({"max_dim": 10**6}, "max_dim"),
        ({"encoder_layers": 10**6}, "encoder_layers"),
        ({"head_hidden": "256"}, "head_hidden"),
        ({"head_hidden": [256, 10**9]}, r"head_hidden\[1\]"),
        ({"head_hidden": [1] * 10**5}, "head_hidden"),
        ({"dropout": 1.0}, "dropout"),
        ({"dropout": -0.1}, "dropout"),
        ({"dropout": float("nan")}, "dropout"),
        ({"dropout": 10**400}, "dropout"),
        ({"dropout": "0.1"}, "dropout is '0.1'"),
        ({"target_gap": 0}, "target_gap"),
        ({"target_gap": float("inf")}, "target_gap"),
        ({"target_gap": [0.01]}, "target_gap"),
        ({"statistics": "../../etc/passwd"}, "observations, starts"),
        ({"statistics": ["starts"]}, "observations, starts"),
        ({"activation": "torch.nn.GELU"}, "unknown setting 'activation'"),
        ({"__class__": "os.system"}, "unknown setting"),
        ({"x" * 10**6: 1}, "unknown setting"),
    ],
)
def test_impossible_settings_are_refused_with_a_reason(settings, words):
    with pytest.raises(ConfigError, match=words) as caught:
        ModelConfig.from_mapping(settings)
    assert len(str(caught.value)) < 400


def test_an_unknown_preset_is_refused():
    with pytest.raises(ConfigError, match="ablation-10m"):
        ModelConfig.preset("large")
