"""The settings of the prior: defaults, round trips, and every way to get them wrong."""

import dataclasses
import json

import pytest

from fimsde.errors import ConfigError
from fimsde.prior.config import CorruptionConfig, LocationConfig, PolynomialConfig, PriorConfig, Setting

OTHER = PriorConfig(
    dims=(2, 1),
    dim_shares=(0.1, 1 / 3),
    settings=(Setting(1e-06, 7, 3, 9, 1 / 7), Setting(0.25, 1, 1, 2)),
    limit=12.5,
    polynomials=PolynomialConfig(4, 1, "paper"),
    corruption=CorruptionConfig((0.05, 0.2), "component", (0.5, 0.75), (0.0, 1.0, 2.0, 0.1)),
    locations=LocationConfig(100, 0.0, 5, 0),
)


@pytest.mark.parametrize("config", [PriorConfig(), PriorConfig.paper(), OTHER])
@pytest.mark.parametrize("suffix", ["toml", "json"])
def test_a_config_written_to_a_file_comes_back_equal(config, suffix, tmp_path):
    path = tmp_path / f"prior.{suffix}"
    path.write_text(config.to_toml() if suffix == "toml" else json.dumps(config.to_mapping()))
    assert PriorConfig.from_file(path) == config


def test_defaults_are_the_authors_training_data():
    config = PriorConfig()
    table = [(s.gap, s.gap / s.substeps, s.num_paths, s.num_times) for s in config.settings]
    assert table == [(0.1, 0.004, 100, 128), (0.01, 0.002, 25, 512), (0.001, 0.001, 12, 1024)]
    assert config.corruption.mix == (3, 1, 1, 1)
    assert config.polynomials.most_degrees(3) == 4


def test_the_papers_reading_has_a_ninth_of_both_corruptions_and_one_degree_less():
    config = PriorConfig.paper()
    assert config.corruption.mix[3] / sum(config.corruption.mix) == pytest.approx(1 / 9)
    assert (config.corruption.mix[1] + config.corruption.mix[3]) / sum(config.corruption.mix) == pytest.approx(1 / 3)
    assert config.polynomials.most_degrees(3) == 3


def test_restricting_keeps_relative_shares():
    config = PriorConfig().restrict(dims=[1, 3], gaps=[0.001])
    assert (config.dims, config.dim_shares, len(config.settings)) == ((1, 3), (1.0, 3.0), 1)


def test_a_config_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        PriorConfig().limit = 5.0


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"limits": 100}, "unknown setting 'limits'"),
        ({"polynomials": {"degree": 3}}, "unknown setting 'degree' in polynomials"),
        ({"settings": [{"gap": 0.1, "substeps": 1, "num_paths": 1, "num_times": 2, "steps": 3}]}, "'steps'"),
        ({"settings": [{"gap": 0.1}]}, "incomplete"),
        ({"settings": []}, "settings has 0 entries"),
        ({"settings": {"gap": 0.1}}, "expected a list"),
        ({"polynomials": 3}, "expected a table"),
        ({"polynomials": {"drift_degree": 3.5}}, "expected an integer"),
        ({"polynomials": {"drift_degree": True}}, "expected an integer"),
        ({"polynomials": {"drift_degree": 10**400}}, "more than 60 digits"),
        ({"polynomials": {"drift_degree": 11}}, "drift_degree is 11"),
        ({"polynomials": {"degrees_present": "code"}}, "authors, paper"),
        ({"polynomials": {"degrees_present": "paper", "diffusion_degree": 0}}, "diffusion_degree is 0"),
        ({"polynomials": {"drift_degree": 10}, "dims": [10], "dim_shares": [1]}, "184756 monomials"),
        ({"limit": "100"}, "expected a number"),
        ({"limit": float("nan")}, "limit is nan"),
        ({"limit": -1}, "limit is -1"),
        ({"dims": [1, 1], "dim_shares": [1, 1]}, "each dimension once"),
        ({"dims": [0], "dim_shares": [1]}, "dims contains 0"),
        ({"dims": [1, 2]}, "one share per dimension"),
        ({"dim_shares": [0, 0, 0]}, "relative shares"),
        ({"dim_shares": [1, -1, 1]}, "relative shares"),
        ({"corruption": {"survival": [0.9, 1.1]}}, "survival is"),
        ({"corruption": {"noise_std": [0.2, 0.1]}}, "noise_std is"),
        ({"corruption": {"mix": [1, 1, 1]}}, "mix has 3 entries; expected 4"),
        ({"corruption": {"noise_range": "path"}}, "equation, component"),
        ({"locations": {"stored_nodes": -1}}, "stored_nodes is -1"),
        ({"locations": {"grid_size": 0}}, "grid_size is 0"),
        ({"settings": [{"gap": 0.1, "substeps": 1, "num_paths": 10**6, "num_times": 10**6}]}, "would hold"),
        ({"settings": [{"gap": 0.0, "substeps": 1, "num_paths": 1, "num_times": 2}]}, "gap is 0"),
        ({"settings": [{"gap": 0.1, "substeps": 0, "num_paths": 1, "num_times": 2}]}, "substeps is 0"),
        ({"settings": [{"gap": 0.1, "substeps": 1, "num_paths": 1, "num_times": 1}]}, "num_times is 1"),
        ([1, 2], "expected a table"),
    ],
)
def test_a_wrong_setting_is_named(mapping, words):
    with pytest.raises(ConfigError, match=words):
        PriorConfig.from_mapping(mapping)


@pytest.mark.parametrize("text", ["dims = [1", '{"dims": ', "\x00", "[" * 50_000])
def test_a_file_that_is_not_toml_or_json_is_named(text, tmp_path):
    for suffix in ("toml", "json"):
        path = tmp_path / f"prior.{suffix}"
        path.write_text(text)
        with pytest.raises(ConfigError, match=f"cannot read the settings in .*{suffix}"):
            PriorConfig.from_file(path)
    with pytest.raises(ConfigError, match="cannot read"):
        PriorConfig.from_file(tmp_path / "absent.toml")


def test_a_number_too_long_for_python_is_an_error_of_ours(tmp_path):
    (tmp_path / "prior.json").write_text('{"limit": 1' + "0" * 5000 + "}")
    (tmp_path / "prior.toml").write_text("limit = 1" + "0" * 5000)
    for name in ("prior.json", "prior.toml"):
        with pytest.raises(ConfigError, match="cannot read"):
            PriorConfig.from_file(tmp_path / name)


def test_unknown_dimensions_and_gaps_are_named():
    with pytest.raises(ConfigError, match="dimension 4 is not in the settings; expected some of 1, 2, 3"):
        PriorConfig().restrict(dims=[1, 4])
    with pytest.raises(ConfigError, match=r"gap 0\.2 is not in the settings"):
        PriorConfig().restrict(gaps=[0.2])
    with pytest.raises(ConfigError, match="no gap is chosen"):
        PriorConfig().restrict(gaps=[])
