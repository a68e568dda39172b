"""The authors' checkpoint, in every shape it is known to come in, becomes the same model under our names."""

import json
import re

import pytest
import safetensors.torch
import torch
from typer.testing import CliRunner

from fimsde.errors import CheckpointError, ConfigError
from fimsde.interface.cli.convert import convert as command
from fimsde.model.config import ModelConfig
from fimsde.model.convert import authors_config, convert, to_our_names, to_their_names
from fimsde.model.fim import FIMSDE
from fimsde.model.paper import Tokens

SMALL = ModelConfig(embed=16, heads=2, functional_layers=3, feed_forward=24, head_hidden=(12, 20))


def their_config(config, **extra):
    """A config as their code writes it, with keys that mean nothing to us."""
    attention = {
        "nhead": config.heads,
        "dim_feedforward": config.feed_forward,
        "dropout": 0.1,
        "activation": "torch.nn.GELU",
    }
    operator = {
        "paths_block_attention": False,
        "num_res_layers": config.functional_layers,
        "attention": attention,
        "projection": {"name": "fim.models.blocks.base.MLP", "hidden_layers": list(config.head_hidden), "dropout": 0.1},
    }
    layer = attention | {"attn_method": "linear", "lin_feature_map": "softmax", "lin_normalize": False}
    return {
        "model_type": "fimsde",
        "architectures": ["FIMSDE"],
        "max_dimension": config.max_dim,
        "model_embedding_size": config.embed,
        "psi_1": {"name": "CombinedPathTransformer", "num_layers": config.encoder_layers, "layer": layer},
        "operator": operator,
        "learnable_loss_scales": operator | {"comment": "anything"},
        "num_locations_on_path": None,
    } | extra


def their_tensors(model):
    theirs = {name: t.clone() for name, t in to_their_names(model.state_dict(), model.config).items()}
    embed = model.config.embed
    return theirs | {"phi_0.weight": torch.ones(embed, embed // 2), "phi_0.bias": torch.ones(embed)}


def write(folder, config, tensors):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.torch.save_file(tensors, folder / "model.safetensors")
    return folder


@pytest.fixture
def model():
    return FIMSDE(SMALL, seed=1)


@pytest.fixture
def source(model, tmp_path):
    return write(tmp_path / "authors", their_config(SMALL), their_tensors(model))


def same(a, b):
    a, b = a.state_dict(), b.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_checkpoint_of_the_authors_becomes_a_folder_of_weights(model, source, tmp_path):
    converted = convert(source, tmp_path / "ours")
    assert same(converted, model)
    loaded = FIMSDE.from_pretrained(tmp_path / "ours")
    assert same(loaded, model)
    assert loaded.config == SMALL
    assert "authors" in loaded.training_record["origin"]


def test_stacked_attention_inputs_are_rows_of_query_key_and_value(model):
    theirs = their_tensors(model)
    stacked = theirs["operator_drift.res_layers.2.attn.in_proj_weight"]
    attention = model.drift_operator.layers[2].attention
    assert torch.equal(stacked[:16], attention.query.weight)
    assert torch.equal(stacked[16:], attention.key_value.weight)
    assert all(torch.equal(a, model.state_dict()[n]) for n, a in to_our_names(theirs, SMALL).items())


@pytest.mark.parametrize("kept", [("drift", "diffusion"), ("drift",), ("diffusion",)])
def test_the_older_names_of_the_stack_of_u_are_understood(kept, model, tmp_path):
    tensors = their_tensors(model)
    for name in [n for n in tensors if n.startswith("operator_loss_scale.")]:
        value = tensors.pop(name)
        for which in kept:
            tensors[name.replace("loss_scale.", f"loss_scale_{which}.")] = value.clone()
    assert same(convert(write(tmp_path / "old", their_config(SMALL), tensors), tmp_path / "ours"), model)


def test_unknown_settings_of_other_versions_are_passed_over(model, tmp_path):
    config = their_config(SMALL, finetune=True, something_old={"name": "os.system"}, states_norm={"name": "anything"})
    assert same(convert(write(tmp_path / "a", config, their_tensors(model)), tmp_path / "ours"), model)


def test_missing_surplus_and_misshapen_tensors_are_all_listed(model, tmp_path):
    tensors = their_tensors(model)
    del tensors["phi_1x.bias"]
    tensors["phi_0t.weight"] = torch.zeros(5, 1)
    tensors["psi_9.weight"] = torch.zeros(1)
    with pytest.raises(CheckpointError) as caught:
        convert(write(tmp_path / "a", their_config(SMALL), tensors), tmp_path / "ours")
    for line in (
        "phi_1x.bias is missing",
        "phi_0t.weight is F32 [5, 1], expected F32 [4, 1]",
        "psi_9.weight is not expected",
    ):
        assert line in str(caught.value)
    assert not (tmp_path / "ours").exists()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model_type", "fimodeon"),
        ("psi_1.layer.attn_method", "softmax"),
        ("psi_1.layer.lin_normalize", True),
        ("psi_1.layer.lin_feature_map", "elu"),
        ("operator.paths_block_attention", True),
        ("operator.attention.nhead", 4),
        ("learnable_loss_scales.num_res_layers", 2),
    ],
)
def test_another_architecture_is_refused_by_the_setting_that_differs(path, value):
    config = json.loads(json.dumps(their_config(SMALL)))
    *parents, last = path.split(".")
    place = config
    for key in parents:
        place = place[key]
    place[last] = value
    with pytest.raises(ConfigError, match=re.escape(path)):
        authors_config(config)


@pytest.mark.parametrize("config", [{}, {"model_type": "fimsde"}, {"model_type": "fimsde", "psi_1": 3, "operator": []}])
def test_a_config_without_its_parts_is_refused(config):
    with pytest.raises(ConfigError):
        authors_config(config)


def test_pickled_checkpoints_of_the_trainer_are_refused_with_advice(source, tmp_path):
    (source / "model.safetensors").rename(source / "model-checkpoint.pth")
    with pytest.raises(CheckpointError, match=r"model-checkpoint\.pth.*weights_only=True.*save_file"):
        convert(source, tmp_path / "ours")


def test_an_existing_target_is_left_alone(source, tmp_path):
    (tmp_path / "ours").mkdir()
    with pytest.raises(CheckpointError, match="exists already"):
        convert(source, tmp_path / "ours")


def test_the_command_writes_the_folder_and_one_line(source, tmp_path):
    import typer

    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [str(source), str(tmp_path / "ours")])
    assert result.exit_code == 0, result.output
    assert result.output.strip().endswith(f"{SMALL.num_parameters:,} parameters")
    assert FIMSDE.from_pretrained(tmp_path / "ours").config == SMALL
    found = CliRunner().invoke(app, [str(source), str(tmp_path / "again"), "--json"])
    assert json.loads(found.output) == {"parameters": SMALL.num_parameters, "out": str(tmp_path / "again")}


def test_a_full_size_checkpoint_with_the_published_names_and_shapes_loads_and_runs(shared, tmp_path):
    """Random weights of the published size: 350 tensors, 20 965 255 numbers, of which 33 024 are never used."""
    published = json.loads((shared / "fixtures" / "openfim" / "published_parameters.json").read_text())
    generator = torch.Generator().manual_seed(0)
    shapes = published["parameters"]
    tensors = {name: 0.05 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    assert len(tensors) == 350
    assert sum(t.numel() for t in tensors.values()) == 20_965_255
    source = write(tmp_path / "published", published["config_fields_expected_in_checkpoint"], tensors)
    model = convert(source, tmp_path / "ours")
    assert model.config == ModelConfig.preset("paper")
    assert sum(p.numel() for p in model.parameters()) == 20_965_255 - 33_024
    theirs = to_their_names(model.state_dict(), model.config)
    assert theirs.keys() == shapes.keys() - {"phi_0.weight", "phi_0.bias"}
    assert all(torch.equal(theirs[name], tensors[name]) for name in theirs)
    tokens = Tokens(
        *(torch.randn(1, 40, 3, generator=generator) for _ in range(2)),
        torch.full((1, 40), 0.01),
        torch.ones(1, 40) > 0,
    )
    with torch.no_grad():
        outputs = FIMSDE.from_pretrained(tmp_path / "ours")(tokens, torch.zeros(1, 3, 3))
    assert all(torch.isfinite(t).all() for t in outputs)
