"""A cache of contexts: banks are made once, stored in shards, and read many times with other locations.

Shard number s is a function of (settings, s): all its equations have one dimension. A file gets its name only when it
is complete, so making a cache can be stopped and run again, and a cache can be made longer later.
"""

import json
from collections.abc import Mapping
from concurrent.futures import as_completed
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import Dataset as TorchDataset
from tqdm import tqdm

from fimsde.bank.cells import MAX_CELLS
from fimsde.errors import ConfigError, DatasetError
from fimsde.files.identities import settings_hash
from fimsde.files.lock import LOCK, only_one
from fimsde.files.settings import differences
from fimsde.files.workers import process_pool
from fimsde.files.write import partial_files, write_file
from fimsde.model.banks import Banks
from fimsde.prior.equation import DrawnEquation, draw_equation
from fimsde.train.config import TrainConfig
from fimsde.train.pretrain.batches import NEXT, PICK, SHARD, Batch, draw_example, gather
from fimsde.train.processes import Part

SHARD_SIZE = 64  # equations per file, about 2 MB; by hand
STORED_QUERIES = 256  # locations per equation, of which a step reads some: five times the 48 of the preset; by hand
_SETTINGS = "cache.json"
_FORMAT = 9  # changes whenever the same settings would give other bytes
# the arrays of a bank with an axis of cells
_CELLS = ("place", "time", "residual", "variation", "expected", "local_drift", "local_diffusion_sq", "mask")
_BANKS = tuple(field.name for field in fields(Banks) if field.name != "box")  # training asks wherever it likes
_QUERIES = ("x", "drift", "diffusion", "scored", "dims")


def num_shards(config: TrainConfig) -> int:
    """Files that hold `config.cache_equations` equations; the last one is full as well."""
    return -(-config.cache_equations // SHARD_SIZE)


def fill_cache(config: TrainConfig, folder: Path, *, workers: int = 1, show_progress: bool = False) -> None:
    """Make the shards that are missing. A folder that was begun with other settings is an error."""
    _check_cacheable(config)
    if (folder / _SETTINGS).exists() and not _missing(config, folder):  # also where nothing can be written
        _open_folder(config, folder)
        return
    with only_one(folder, "--cache"):
        _open_folder(config, folder)
        _fill(config, folder, workers, show_progress)


def _missing(config: TrainConfig, folder: Path) -> list[int]:
    return [shard for shard in range(num_shards(config)) if not _file(folder, shard).exists()]


def _fill(config: TrainConfig, folder: Path, workers: int, show_progress: bool) -> None:
    missing = _missing(config, folder)
    for leftover in partial_files(folder, "*"):
        leftover.unlink(missing_ok=True)
    done = (num_shards(config) - len(missing)) * SHARD_SIZE
    total = num_shards(config) * SHARD_SIZE
    with (
        tqdm(total=total, initial=done, unit=" contexts", disable=None if show_progress else True) as bar,
        process_pool(min(workers, max(1, len(missing)))) as executor,
    ):
        if executor is None:
            for shard in missing:
                make_shard(config, folder, shard)
                bar.update(SHARD_SIZE)
        else:
            for future in as_completed([executor.submit(make_shard, config, folder, shard) for shard in missing]):
                future.result()
                bar.update(SHARD_SIZE)


def make_shard(config: TrainConfig, folder: Path, shard: int) -> None:
    """Make one shard and write it; what a worker does."""
    prior, seed = config.prior, config.loop.seed
    rng = np.random.default_rng([seed, SHARD, shard])
    dim = prior.dims[rng.choice(len(prior.dims), p=np.array(prior.dim_shares) / sum(prior.dim_shares))]
    prior = replace(prior, dims=(dim,), dim_shares=(1.0,))

    def equation(item: int, attempt: int) -> DrawnEquation:
        return draw_equation(prior, seed, shard * SHARD_SIZE + item + attempt * NEXT)

    batch = gather(
        config,
        [draw_example(config, equation, item, 0, [SHARD, shard, item], STORED_QUERIES) for item in range(SHARD_SIZE)],
    )
    tensors = {f"bank.{name}": getattr(batch.source, name) for name in _BANKS}
    tensors |= {name: getattr(batch, name) for name in _QUERIES}
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    content = safetensors.torch.save(tensors, {"cache": _identity(config)})
    write_file(_file(folder, shard), content, DatasetError)


class CachedBatches(TorchDataset[Batch]):
    """Batches of one dimension from a complete cache, held in memory: any contexts, any of their stored locations."""

    def __init__(self, config: TrainConfig, folder: Path, part: Part | None = None) -> None:
        self.config = config
        self.items = (part or Part()).items(config.batch_size)
        if config.num_queries > STORED_QUERIES:
            raise ConfigError(f"num_queries is {config.num_queries}; a cache stores {STORED_QUERIES} per equation.")
        shards: dict[int, list[dict[str, Tensor]]] = {}
        for shard in range(num_shards(config)):
            tensors = _load(config, folder, shard)
            shards.setdefault(tensors["bank.speed"].shape[1], []).append(tensors)
        self.stored = {
            dim: {name: torch.cat([s[name] for s in group]) for name in group[0]}
            for dim, group in sorted(shards.items())
        }

    def __len__(self) -> int:
        return self.config.loop.steps

    def __getitem__(self, index: int) -> Batch:
        rng = np.random.default_rng([self.config.loop.seed, PICK, index])
        share = dict(zip(self.config.prior.dims, self.config.prior.dim_shares, strict=True))
        weights = np.array([share[dim] for dim in self.stored])
        stored = self.stored[list(self.stored)[rng.choice(len(weights), p=weights / weights.sum())]]
        chosen = rng.integers(0, len(stored["x"]), self.config.batch_size)[self.items.start : self.items.stop]
        # one order of locations for the whole batch: they were drawn independently for every equation
        order = torch.from_numpy(rng.permutation(STORED_QUERIES)[: self.config.num_queries])
        part = {name: tensor[torch.from_numpy(chosen)] for name, tensor in stored.items()}
        cells = int(part["bank.mask"].sum(dim=1).max())
        banks = Banks(
            **{name: part[f"bank.{name}"][:, :cells] if name in _CELLS else part[f"bank.{name}"] for name in _BANKS}
        )
        queries = {name: part[name][:, order] for name in ("x", "drift", "diffusion", "scored")}
        return Batch(source=banks, **queries, dims=part["dims"])


def _load(config: TrainConfig, folder: Path, shard: int) -> dict[str, Tensor]:
    path = _file(folder, shard)
    try:
        with safetensors.safe_open(path, framework="pt") as file:
            identity = (file.metadata() or {}).get("cache")
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118, not a dictionary
    except (OSError, SafetensorError) as error:
        raise DatasetError(f"{path} cannot be read: {error}. Remove it and run the same command again.") from error
    expected = {f"bank.{name}" for name in _BANKS} | set(_QUERIES)
    if identity != _identity(config) or set(tensors) != expected or len(tensors["x"]) != SHARD_SIZE:
        raise DatasetError(f"{path} belongs to another cache. Remove it and run the same command again.")
    for name in _CELLS:
        tensor = tensors[f"bank.{name}"]
        after = [0, MAX_CELLS - tensor.shape[1]]
        tensors[f"bank.{name}"] = F.pad(tensor, [0] * 2 * (tensor.ndim - 2) + after)
    return tensors


def _check_cacheable(config: TrainConfig) -> None:
    if not config.model.reader.is_cacheable or config.contexts.rule != "primed":
        raise ConfigError(
            f"variant is {config.model.variant} with {config.contexts.rule} contexts; a cache holds banks of primed "
            "contexts, which only primed models read. Let the model draw equations on the fly instead."
        )


def _open_folder(config: TrainConfig, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = (folder / _SETTINGS).read_text() if (folder / _SETTINGS).exists() else None
        there = None if text is None else json.loads(text)
    except (OSError, ValueError) as error:
        raise DatasetError(f"cannot use the cache {folder}: {error}. Choose another folder.") from error
    if there is None:
        if any(path.name != LOCK and not path.name.endswith(".partial") for path in folder.iterdir()):
            raise DatasetError(f"{folder} is not empty and holds no cache. Choose a new folder.")
        write_file(folder / _SETTINGS, (json.dumps(_settings(config), indent=1) + "\n").encode(), DatasetError)
    elif different := differences(there, _settings(config)):
        raise DatasetError(
            f"{folder} holds another cache: {'; '.join(different[:5])}. Use the same settings, or a new folder."
        )


def _settings(config: TrainConfig) -> Mapping[str, Any]:
    """All that decides the bytes of a shard."""
    mapping = config.to_mapping()
    contexts = dict(mapping["contexts"])
    if not contexts["transitions"]:  # a setting that contexts stored before it do not know
        del contexts["transitions"]
    return {
        "format": _FORMAT,
        "seed": config.loop.seed,
        "prior": mapping["prior"],
        "contexts": contexts,
        "normalisation": [config.model.statistics, config.model.target_gap],
    }


def _identity(config: TrainConfig) -> str:
    return settings_hash(_settings(config))


def _file(folder: Path, shard: int) -> Path:
    return folder / f"contexts-{shard:06d}.safetensors"
