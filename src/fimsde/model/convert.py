"""The authors' published checkpoint becomes a folder of weights of ours.

Their folder holds config.json and model.safetensors (hub layout). Their trainer writes a pickled model-checkpoint.pth
in place of the latter, which is refused: see `fimsde.model.untrusted`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from fimsde.errors import ConfigError
from fimsde.files.outputs import check_new
from fimsde.model.config import ModelConfig
from fimsde.model.fim import FIMSDE
from fimsde.model.untrusted import read_header, read_json, read_tensors, refuse_pickles
from fimsde.model.weights import CONFIG, TENSORS

_BLOCK = {"block.widen": "linear1", "block.narrow": "linear2", "block.norm_attended": "norm1", "block.norm": "norm2"}
_STACKS = {"drift": "operator_drift", "diffusion": "operator_diffusion", "log_variance": "operator_loss_scale"}
_UNUSED = "phi_0."  # a map in their state dict that no computation touches


def convert(authors_dir: str | Path, out_dir: str | Path, *, overwrite: bool = False) -> FIMSDE:
    """Read the authors' checkpoint, write it as a folder of weights, and return the model.

    Args:
        authors_dir: Local folder with their config.json and model.safetensors.
        out_dir: Folder to write; must not exist unless `overwrite` is set.
        overwrite: Whether a folder of that name that this package made may be replaced.
    """
    source = Path(authors_dir)
    check_new(out_dir, overwrite=overwrite, inputs=[source])
    refuse_pickles(source)
    model = FIMSDE(authors_config(read_json(source / CONFIG)), seed=None)
    model.load_state_dict(_read_state(source / TENSORS, model), assign=True)
    record = {"origin": "converted from the authors' published checkpoint"}
    model.save_pretrained(out_dir, training=record, overwrite=overwrite)
    model.training_record = record
    return model.eval()


def authors_config(theirs: Mapping[str, Any]) -> ModelConfig:
    """Our config for one of theirs. Settings that change nothing here are passed over, as are unknown ones."""
    operator, scales, encoder = theirs.get("operator"), theirs.get("learnable_loss_scales"), theirs.get("psi_1")
    sizes = [
        ("num_res_layers",),
        ("attention", "nhead"),
        ("attention", "dim_feedforward"),
        ("projection", "hidden_layers"),
    ]
    wanted = {
        "model_type": (theirs.get("model_type"), "fimsde"),
        "psi_1.layer.attn_method": (_get(encoder, "layer", "attn_method"), "linear"),
        "psi_1.layer.lin_feature_map": (_get(encoder, "layer", "lin_feature_map"), "softmax"),
        "psi_1.layer.lin_normalize": (_get(encoder, "layer", "lin_normalize"), False),
        "operator.paths_block_attention": (_get(operator, "paths_block_attention"), False),
        "operator.attention.nhead": (_get(operator, "attention", "nhead"), _get(encoder, "layer", "nhead")),
        "operator.attention.dim_feedforward": (
            _get(operator, "attention", "dim_feedforward"),
            _get(encoder, "layer", "dim_feedforward"),
        ),
    } | {f"learnable_loss_scales.{'.'.join(key)}": (_get(scales, *key), _get(operator, *key)) for key in sizes}
    wrong = [f"{key} is {str(a)[:60]}, expected {str(b)[:60]}" for key, (a, b) in wanted.items() if a != b]
    if wrong:
        raise ConfigError("this is not the architecture of the paper:\n  " + "\n  ".join(wrong))
    return ModelConfig.from_mapping(
        {
            "max_dim": theirs.get("max_dimension"),
            "embed": theirs.get("model_embedding_size"),
            "encoder_layers": _get(encoder, "num_layers"),
            "functional_layers": _get(operator, "num_res_layers"),
            "heads": _get(encoder, "layer", "nhead"),
            "feed_forward": _get(encoder, "layer", "dim_feedforward"),
            "head_hidden": _get(operator, "projection", "hidden_layers"),
            "dropout": _get(encoder, "layer", "dropout"),
        }
    )


def authors_names(config: ModelConfig) -> dict[str, str]:
    """Their module for each of ours that holds one map or norm; attention inputs, which they stack, are left out."""
    names = {
        "encoder.features.dtau": "phi_0t",
        "encoder.features.y": "phi_0x_x",
        "encoder.features.dy": "phi_0x_dx",
        "encoder.features.dy_sq": "phi_0x2_dx",
        "locations": "phi_1x",
    }
    for i in range(config.encoder_layers):
        ours, theirs = f"encoder.layers.{i}", f"psi_1.layers.{i}.self_attn"
        for part, name in {"query": "linear_Q", "key": "linear_K", "value": "linear_V", "out": "out_proj"}.items():
            names[f"{ours}.attention.{part}"] = f"{theirs}.attn.{name}"
        names |= {f"{ours}.{part}": f"{theirs}.{name}" for part, name in _BLOCK.items()}
    for stack, operator in _STACKS.items():
        for i in range(config.functional_layers):
            ours, theirs = f"{stack}_operator.layers.{i}", f"{operator}.res_layers.{i}"
            names[f"{ours}.attention.out"] = f"{theirs}.attn.out_proj"
            names |= {f"{ours}.{part}": f"{theirs}.{name}" for part, name in _BLOCK.items()}
        for j in range(len(config.head_hidden)):
            names[f"{stack}_operator.head.hidden.{j}"] = f"{operator}.projection.layers.linear_{j}"
        names[f"{stack}_operator.head.output"] = f"{operator}.projection.layers.output"
    return names


def to_our_names(theirs: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """Their tensors under our names; query, key and value rows of a stacked input map are taken apart."""
    ours = {}
    for module, their_module in authors_names(config).items():
        for part in ("weight", "bias"):
            ours[f"{module}.{part}"] = theirs[f"{their_module}.{part}"]
    for stack, operator in _STACKS.items():
        for i in range(config.functional_layers):
            for part in ("weight", "bias"):
                stacked = theirs[f"{operator}.res_layers.{i}.attn.in_proj_{part}"]
                attention = f"{stack}_operator.layers.{i}.attention"
                ours[f"{attention}.query.{part}"] = stacked[: config.embed].clone()
                ours[f"{attention}.key_value.{part}"] = stacked[config.embed :].clone()
    return ours


def to_their_names(ours: Mapping[str, Tensor], config: ModelConfig) -> dict[str, Tensor]:
    """The inverse of `to_our_names`."""
    theirs = {}
    for module, their_module in authors_names(config).items():
        for part in ("weight", "bias"):
            theirs[f"{their_module}.{part}"] = ours[f"{module}.{part}"]
    for stack, operator in _STACKS.items():
        for i in range(config.functional_layers):
            attention = f"{stack}_operator.layers.{i}.attention"
            for part in ("weight", "bias"):
                rows = [ours[f"{attention}.query.{part}"], ours[f"{attention}.key_value.{part}"]]
                theirs[f"{operator}.res_layers.{i}.attn.in_proj_{part}"] = torch.cat(rows)
    return theirs


def _read_state(path: Path, model: FIMSDE) -> dict[str, Tensor]:
    config = model.config
    shapes = {name: tuple(t.shape) for name, t in to_their_names(model.state_dict(), config).items()}
    found = read_header(path)
    scale = _name_of_the_scale_stack(found)
    renamed = {name.replace("operator_loss_scale.", f"{scale}."): name for name in shapes}
    unread = [n for n in found if n.startswith((_UNUSED, "operator_loss_scale_diffusion.")) and n not in renamed]
    tensors = read_tensors(path, {name: shapes[renamed[name]] for name in renamed}, ignore=unread)
    return to_our_names({renamed[name]: t for name, t in tensors.items()}, config)


def _name_of_the_scale_stack(found: Mapping[str, object]) -> str:
    """Older checkpoints hold the one stack of U under two names; either will do, the first is taken."""
    names = ("operator_loss_scale", "operator_loss_scale_drift", "operator_loss_scale_diffusion")
    return next((name for name in names if any(key.startswith(f"{name}.") for key in found)), names[0])


def _get(settings: object, *keys: str) -> Any:
    """A nested setting, None where the path ends early."""
    for key in keys:
        settings = settings.get(key) if isinstance(settings, dict) else None
    return settings
