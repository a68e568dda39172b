"""Reading files that may come from anybody: JSON and safetensors, checked in full before they are believed.

No format that can carry code is read. The header of a tensor file is checked before a byte of the tensors is touched,
and every difference between what a file holds and what is expected of it is listed in one error.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import safetensors

from fimsde.errors import CheckpointError

if TYPE_CHECKING:  # headers and JSON are read without it
    from torch import Tensor

_PICKLES = {".bin", ".ckpt", ".joblib", ".pickle", ".pkl", ".pt", ".pth"}
_LARGEST_JSON = 1 << 20  # bytes
_LARGEST_HEADER = 1 << 21  # bytes; the published model needs 40 kB


@dataclass(frozen=True)
class TensorInfo:
    """What the header of a tensor file says about one tensor."""

    dtype: str
    shape: tuple[int, ...]


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Duplicate keys, NaN and anything but one object are errors."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise CheckpointError(
                f"{path} has {path.stat().st_size} bytes; expected a small file. It is not one of ours."
            )
        return _parse_object(path.read_bytes(), str(path))
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from error


def read_header(path: Path) -> dict[str, TensorInfo]:
    """Name, type and shape of every tensor of a safetensors file, its layout fully checked."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > min(size - 8, _LARGEST_HEADER):
                raise CheckpointError(
                    f"{path} is no complete safetensors file: {size} bytes, {length} of them header. Fetch it again."
                )
            header = _parse_object(file.read(length), f"the header of {path}")
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from error
    header.pop("__metadata__", None)
    spans, infos = [], {}
    for name, entry in header.items():
        infos[name], span = _tensor_entry(name, entry, path)
        spans.append(span)
    _check_layout(sorted(spans), size - 8 - length, path)
    return infos


def read_tensors(path: Path, shapes: Mapping[str, Sequence[int]], ignore: Sequence[str] = ()) -> "dict[str, Tensor]":
    """Exactly the float32 tensors of the given shapes. Missing, surplus, misshapen and non-finite ones are all listed.

    They get memory of their own: where a tensor lies in a file must not decide how products with it are rounded.

    Args:
        path: A safetensors file.
        shapes: Expected shape of every tensor by name.
        ignore: Names that may be there and are not read.
    """
    found = read_header(path)
    problems = [f"{name} is missing" for name in shapes if name not in found]
    problems += [f"{name} is not expected" for name in found if name not in shapes and name not in ignore]
    for name, shape in shapes.items():
        if name in found and found[name] != TensorInfo("F32", tuple(shape)):
            problems.append(f"{name} is {found[name].dtype} {list(found[name].shape)}, expected F32 {list(shape)}")
    raise_all(problems, f"{path} does not fit its config")
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name).clone() for name in shapes}
    except (OSError, safetensors.SafetensorError) as error:
        raise CheckpointError(f"{path} cannot be read: {error}. Fetch it again.") from error
    raise_all(non_finite(tensors), f"{path} holds values that are not finite")
    return tensors


def non_finite(tensors: "Mapping[str, Tensor]") -> list[str]:
    """A line for every tensor with NaN or infinite entries."""
    import torch

    counts = {name: int((~torch.isfinite(t)).sum()) for name, t in tensors.items()}
    return [f"{name} has {n} NaN or infinite entries" for name, n in counts.items() if n]


def raise_all(problems: Sequence[str], headline: str) -> None:
    """One error that lists every problem, if there are any."""
    if problems:
        raise CheckpointError(f"{headline}:\n  " + "\n  ".join(problems))


def refuse_pickles(folder: Path) -> None:
    """Stop at a folder that also holds pickled files: nobody should be led to load them."""
    pickled = sorted(p.name for p in folder.glob("*") if p.suffix.lower() in _PICKLES)
    if pickled:
        raise CheckpointError(
            f"{folder} holds {', '.join(pickled[:5])}: pickled files run code when opened, and fimsde reads none. "
            "If you trust them, read them with torch (weights_only=True) elsewhere, save the tensors with "
            "safetensors.torch.save_file, and keep only the safetensors file here."
        )


def _parse_object(text: bytes, where: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(pairs)
        if len(result) < len(pairs):
            raise ValueError("a key occurs twice")
        return result

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not a number")

    try:
        value = json.loads(text.decode(), object_pairs_hook=unique, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where} is not valid JSON: {error}. Fetch the file again.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{where} holds a {type(value).__name__}; expected an object with named entries.")
    return value


def _tensor_entry(name: str, entry: object, path: Path) -> tuple[TensorInfo, tuple[int, int]]:
    """One line of the header as (info, first and last byte)."""
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [int(first), int(last)], **rest} if not rest:
            if all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in shape):
                if dtype == "F32" and last - first != 4 * prod(shape):
                    raise CheckpointError(
                        f"{path}: tensor {name[:80]!r} has {last - first} bytes, not those of its shape."
                    )
                return TensorInfo(dtype[:20], tuple(shape)), (first, last)
    raise CheckpointError(f"{path}: the header entry of tensor {name[:80]!r} is malformed. Fetch the file again.")


def _check_layout(spans: Sequence[tuple[int, int]], num_bytes: int, path: Path) -> None:
    position = 0
    for first, last in spans:
        if first != position or last < first:
            raise CheckpointError(
                f"{path}: tensors overlap or leave holes at byte {position} of the data. Fetch the file again."
            )
        position = last
    if position != num_bytes:
        raise CheckpointError(
            f"{path} has {num_bytes} bytes of data, its header describes {position}. Fetch the file again."
        )
