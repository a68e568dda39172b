"""What a data set is (its settings) and what it holds (its manifest): two small JSON files beside the shards."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fimsde.errors import ConfigError, DatasetError
from fimsde.files.identities import sha256
from fimsde.files.settings import build
from fimsde.files.write import write_file
from fimsde.prior.config import PriorConfig
from fimsde.prior.equation import MAX_SEED
from fimsde.prior.shards import Shard
from fimsde.shapes import Array, Int

GENERATOR = 1  # changes whenever the same settings would give other bytes
SETTINGS_FILE, MANIFEST_FILE = "settings.json", "manifest.json"


@dataclass(frozen=True)
class DatasetSettings:
    """All that decides the bytes of a data set."""

    num_equations: int
    seed: int
    config: PriorConfig
    shard_size: int = 64  # equations per file, about 8 MB with the paper's settings
    generator: int = GENERATOR

    def __post_init__(self) -> None:
        if not 1 <= self.num_equations <= 10**9:
            raise ConfigError(f"num_equations is {self.num_equations}; expected 1 to 10**9.")
        if not 0 <= self.seed <= MAX_SEED:
            raise ConfigError(f"seed is {self.seed}; expected 0 to 2**63 - 1.")
        if not 1 <= self.shard_size <= 100_000:
            raise ConfigError(f"shard_size is {self.shard_size}; expected 1 to 100000.")
        if self.config.wave_share:
            raise ConfigError(
                f"wave_share is {self.config.wave_share:g}; a stored data set holds polynomials only. Set it to 0, or "
                "let `fimsde pretrain` draw the equations on the fly."
            )
        if self.generator != GENERATOR:
            raise ConfigError(
                f"the data were made by generator {self.generator}, this version of fimsde has {GENERATOR}. "
                "Generate them again, or use the version that made them."
            )

    @property
    def num_shards(self) -> int:
        """Number of files."""
        return -(-self.num_equations // self.shard_size)

    def items(self, shard: int) -> range:
        """The items in a shard."""
        return range(shard * self.shard_size, min((shard + 1) * self.shard_size, self.num_equations))

    def file_name(self, shard: int) -> str:
        """Name of a shard's file."""
        return f"shard-{shard:06d}.safetensors"

    @property
    def identity(self) -> str:
        """A checksum of the settings, written into every shard."""
        return sha256(self.to_json())

    def to_json(self) -> str:
        """The settings as JSON text."""
        return json.dumps(asdict(self), indent=1, sort_keys=True) + "\n"


@dataclass(frozen=True)
class ShardRecord:
    """A shard in the manifest."""

    file: str
    first: int
    sha256: str  # of the file
    accepted: tuple[tuple[int, ...], ...]  # equations, by dimension (rows) and setting, in the order of the config
    proposals: tuple[tuple[int, ...], ...]  # drawn to get them


def record(shard: Shard, content: bytes, file: str) -> ShardRecord:
    """Checksum and counts of a shard."""
    config = shard.config
    accepted = np.zeros((len(config.dims), len(config.settings)), np.int64)
    proposals = np.zeros_like(accepted)
    for item in range(len(shard)):
        cell = config.dims.index(shard.tensors["dim"][item]), shard.tensors["setting"][item]
        accepted[cell] += 1
        proposals[cell] += shard.tensors["num_proposals"][item]
    return ShardRecord(file, shard.first, sha256(content), _table(accepted), _table(proposals))


def _table(counts: Int[Array, "dims settings"]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(row) for row in counts.tolist())


@dataclass(frozen=True)
class Manifest:
    """A complete data set: its settings and every shard with its checksum."""

    settings: DatasetSettings
    shards: tuple[ShardRecord, ...]

    def write(self, folder: Path) -> None:
        """Write manifest.json, the sign that the data set is complete."""
        content = (json.dumps(asdict(self), indent=1, sort_keys=True) + "\n").encode()
        write_file(folder / MANIFEST_FILE, content, DatasetError)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a complete data set."""
    if not (folder / MANIFEST_FILE).exists():
        raise DatasetError(
            f"{folder} holds no complete data set: {MANIFEST_FILE} is missing. "
            "Run the `fimsde generate` command that began it once more, or check the folder's name."
        )
    manifest = _build(Manifest, _read_json(folder / MANIFEST_FILE), MANIFEST_FILE)
    expected = [manifest.settings.file_name(shard) for shard in range(manifest.settings.num_shards)]
    if [shard.file for shard in manifest.shards] != expected:  # also keeps names from leaving the folder
        raise DatasetError(f"{MANIFEST_FILE} in {folder} does not list the {len(expected)} shards of its settings.")
    return manifest


def read_settings(folder: Path) -> DatasetSettings:
    """The settings of a data set, complete or not."""
    return _build(DatasetSettings, _read_json(folder / SETTINGS_FILE), SETTINGS_FILE)


def _build(kind: type[Any], mapping: Any, name: str) -> Any:
    try:
        return build(kind, mapping, name)
    except ConfigError as error:
        raise DatasetError(f"{name} cannot be used: {error}") from error


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DatasetError(f"cannot read {path}: {error}. Restore the file, or generate into a new folder.") from error
