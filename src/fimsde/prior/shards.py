"""Equations in files: a shard holds consecutive items as flat safetensors arrays and knows its own checksum.

Values are float32, the precision of the simulation, masks one bit per observation. The grid of locations is not stored:
its nodes follow from the box and targets anywhere from the coefficients; what is stored is a random part of both, so
that a reader in another language can train without evaluating polynomials.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import ceil, comb, prod

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from fimsde.errors import DatasetError
from fimsde.files.identities import sha256
from fimsde.prior.config import PriorConfig, Setting
from fimsde.prior.corruption import Corruption
from fimsde.prior.equation import DrawnEquation
from fimsde.prior.locations import nodes_per_axis
from fimsde.prior.polynomials import PolynomialSDE
from fimsde.shapes import Array

_PER_ITEM = {
    "dim": "int64",
    "setting": "int64",
    "noise_std": "float64",
    "survival": "float64",
    "num_proposals": "int64",
}
_FLAT = {
    "values": "float32",
    "mask": "uint8",
    "drift_coefficients": "float32",
    "diffusion_coefficients": "float32",
    "box": "float64",
    "locations": "float32",
    "drift": "float32",
    "diffusion": "float32",
}


def _shapes(config: PriorConfig, dim: int, setting: Setting) -> dict[str, tuple[int, ...]]:
    num_values = setting.num_paths * setting.num_times
    nodes = min(config.locations.stored_nodes, nodes_per_axis(config.locations, dim) ** dim)
    queries = nodes + min(config.locations.stored_states, num_values)
    return {
        "values": (setting.num_paths, setting.num_times, dim),
        "mask": (ceil(num_values / 8),),
        "drift_coefficients": (dim, comb(config.polynomials.drift_degree + dim, dim)),
        "diffusion_coefficients": (dim, comb(config.polynomials.diffusion_degree + dim, dim)),
        "box": (2, dim),
        "locations": (queries, dim),
        "drift": (queries, dim),
        "diffusion": (queries, dim),
    }


@dataclass(frozen=True, eq=False)
class Shard:
    """Some consecutive equations of a data set, as read from a file."""

    config: PriorConfig
    first: int
    tensors: Mapping[str, Array]
    offsets: Mapping[str, Array]  # where item j begins in each flat array

    def __len__(self) -> int:
        return len(self.tensors["dim"])

    def equation(self, position: int) -> DrawnEquation:
        """The equation at a position in this shard; equal in every bit to `draw_equation`."""
        setting = self.config.settings[self.tensors["setting"][position]]
        shapes = _shapes(self.config, int(self.tensors["dim"][position]), setting)
        part = {
            name: self.tensors[name][self.offsets[name][position] : self.offsets[name][position + 1]].reshape(shape)
            for name, shape in shapes.items()
        }
        num_values = setting.num_paths * setting.num_times
        mask = np.unpackbits(part.pop("mask"), count=num_values).astype(np.bool_)
        return DrawnEquation(
            index=self.first + position,
            sde=PolynomialSDE(part.pop("drift_coefficients"), part.pop("diffusion_coefficients")),
            setting=setting,
            corruption=Corruption(
                float(self.tensors["noise_std"][position]), float(self.tensors["survival"][position])
            ),
            mask=mask.reshape(setting.num_paths, setting.num_times),
            num_proposals=int(self.tensors["num_proposals"][position]),
            **part,
        )


def pack(config: PriorConfig, equations: Sequence[DrawnEquation]) -> Shard:
    """Equations that follow each other as the arrays of a shard."""
    number = {setting: number for number, setting in enumerate(config.settings)}
    polynomials = [e.sde for e in equations if isinstance(e.sde, PolynomialSDE)]  # all: see `DatasetSettings`
    tensors = {
        "dim": np.array([e.dim for e in equations]),
        "setting": np.array([number[e.setting] for e in equations]),
        "noise_std": np.array([e.corruption.noise_std for e in equations]),
        "survival": np.array([e.corruption.survival for e in equations]),
        "num_proposals": np.array([e.num_proposals for e in equations]),
        "mask": np.concatenate([np.packbits(e.mask) for e in equations]),
        "drift_coefficients": np.concatenate([p.drift_coefficients.ravel() for p in polynomials]),
        "diffusion_coefficients": np.concatenate([p.diffusion_coefficients.ravel() for p in polynomials]),
    }
    for name in ("values", "box", "locations", "drift", "diffusion"):
        tensors[name] = np.concatenate([getattr(e, name).ravel() for e in equations])
    return Shard(config, equations[0].index, tensors, _offsets(config, tensors, "in memory"))


def shard_bytes(shard: Shard, identity: str) -> bytes:
    """The content of a shard file. `identity` names the data set (a checksum of its settings)."""
    header = {"dataset": identity, "first": shard.first}
    header["sha256"] = _digest(header, shard.tensors)
    # One key only: safetensors writes several in no fixed order, and the bytes of a shard are a promise.
    return safetensors.numpy.save(dict(shard.tensors), {"fimsde": json.dumps(header, sort_keys=True)})


def _digest(header: Mapping[str, object], tensors: Mapping[str, Array]) -> str:
    described = ((f"{name} {tensor.dtype} {tensor.shape}", tensor) for name, tensor in sorted(tensors.items()))
    return sha256(f"{header['dataset']} {header['first']}", *(part for pair in described for part in pair))


def parse_shard(content: bytes, config: PriorConfig, identity: str, first: int, name: str) -> Shard:
    """Check the content of a shard file completely and return its equations. Any damage is a `DatasetError`."""
    try:
        size = int.from_bytes(content[:8], "little")
        header = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["fimsde"])
        tensors = safetensors.numpy.load(content)
        intact = header["sha256"] == _digest(header, tensors)
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise DatasetError(f"shard {name} is damaged: {error}. {_REPAIR}") from error
    if not intact:
        raise DatasetError(f"shard {name} is damaged: its checksum does not match its content. {_REPAIR}")
    if (header["dataset"], header["first"]) != (identity, first):
        raise DatasetError(f"shard {name} belongs to another data set or place. {_REPAIR}")
    return Shard(config, first, tensors, _offsets(config, tensors, name))


_REPAIR = "Make it again with `fimsde generate ... --repair`."


def _offsets(config: PriorConfig, tensors: Mapping[str, Array], name: str) -> dict[str, Array]:
    expected = _PER_ITEM | _FLAT
    found = {key: str(tensor.dtype) for key, tensor in tensors.items() if tensor.ndim == 1}
    if found != expected or len({len(tensors[key]) for key in _PER_ITEM}) != 1:
        raise DatasetError(f"shard {name} holds arrays {found}; expected {expected}.")
    if not set(tensors["dim"]) <= set(config.dims) or not set(tensors["setting"]) <= set(range(len(config.settings))):
        raise DatasetError(f"shard {name} holds dimensions or settings that its configuration does not have.")

    @cache
    def sizes(dim: int, setting: int) -> dict[str, int]:
        return {key: prod(shape) for key, shape in _shapes(config, dim, config.settings[setting]).items()}

    items = [sizes(int(d), int(s)) for d, s in zip(tensors["dim"], tensors["setting"], strict=True)]
    offsets = {key: np.cumsum([0] + [item[key] for item in items]) for key in _FLAT}
    for key in _FLAT:
        if offsets[key][-1] != len(tensors[key]):
            raise DatasetError(f"shard {name}: {key} has {len(tensors[key])} numbers; expected {offsets[key][-1]}.")
    return offsets
