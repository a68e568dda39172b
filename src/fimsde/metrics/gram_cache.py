"""Grams of reference paths on disk: a benchmark compares many models with one reference, whose Gram never changes.

The file name is a hash of the paths and of the kernel, so a file cannot belong to other data; files are safetensors.
"""

import os
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fimsde.errors import DatasetError
from fimsde.files.identities import sha256
from fimsde.files.place import no_place
from fimsde.files.write import write_file
from fimsde.metrics.signature import SelfGram, SignatureKernel, self_gram
from fimsde.shapes import Array, Float

_FORMAT = 1  # a count: raise when a change of the kernel changes its numbers


def cached_self_gram(
    paths: Float[Array, "paths times dim"],
    kernel: SignatureKernel,
    folder: str | os.PathLike[str] | None,
    *,
    threads: int = 1,
) -> SelfGram:
    """`self_gram`, read from `folder` if it was computed before and written there otherwise; None switches this off."""
    if folder is None:
        return self_gram(paths, kernel, threads=threads)
    file = Path(folder) / f"gram-{_content_hash(paths, kernel)}.safetensors"
    if file.exists():
        return _read(file, len(paths), kernel.levels)
    gram = self_gram(paths, kernel, threads=threads)
    _write(file, gram)
    return gram


def _content_hash(paths: Array, kernel: SignatureKernel) -> str:
    values = np.ascontiguousarray(paths, dtype="<f8")
    return sha256(f"{_FORMAT} {kernel!r} {values.shape}", values)[:32]


def _read(file: Path, num_paths: int, levels: int) -> SelfGram:
    expected = {"gram": (num_paths, num_paths), "self_levels": (num_paths, levels + 1)}
    try:
        arrays = load(file.read_bytes())
    except (OSError, SafetensorError) as error:
        raise DatasetError(f"{file} is not a readable Gram ({error}); delete it and run again.") from error
    found = {name: array.shape for name, array in arrays.items()}
    if found != expected or any(a.dtype != np.float64 or not np.isfinite(a).all() for a in arrays.values()):
        raise DatasetError(
            f"{file} holds {found}, but finite float64 {expected} are expected; delete it and run again."
        )
    return SelfGram(**arrays)


def _write(file: Path, gram: SelfGram) -> None:
    content = save({"gram": gram.gram, "self_levels": gram.self_levels})
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, content)
    except OSError as error:
        raise no_place(file.parent, "--cache", error) from None
