"""Data sets of equations: numbered shards that any number of workers make, stop making, and make again.

Item i is a function of (settings, i), a shard is a range of items, and a file gets its name only when it is complete.
So there is no state to lose: whatever is missing is made, whatever is there is checked.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from tqdm import tqdm

from fimsde.errors import ConfigError, DatasetError
from fimsde.files.identities import sha256
from fimsde.files.lock import LOCK, only_one
from fimsde.files.settings import differences, to_mapping
from fimsde.files.write import partial_files, write_file
from fimsde.prior.equation import DrawnEquation, draw_equation
from fimsde.prior.manifest import (
    MANIFEST_FILE,
    SETTINGS_FILE,
    DatasetSettings,
    Manifest,
    ShardRecord,
    read_manifest,
    read_settings,
    record,
)
from fimsde.prior.shards import Shard, pack, parse_shard, shard_bytes


def generate(
    settings: DatasetSettings,
    folder: Path,
    *,
    executor: Executor | None = None,
    shard_index: int | None = None,
    repair: bool = False,
    show_progress: bool = False,
) -> Manifest | None:
    """Make a data set, or what is missing of it.

    Args:
        settings: What to make. A folder that was begun with other settings is an error.
        folder: Where to; created if needed.
        executor: Where the work runs: a process pool, the executor of a Dask client, or None for this process.
        shard_index: Make only this shard, for batch arrays; the job that finishes last writes the manifest.
        repair: Make damaged shards again; otherwise a damaged shard is an error that names it.
        show_progress: A progress bar on the standard error stream, if that is a terminal.

    Returns:
        The manifest, or None while shards of other jobs are missing.
    """
    if shard_index is not None and not 0 <= shard_index < settings.num_shards:
        raise ConfigError(f"shard_index is {shard_index}; expected 0 to {settings.num_shards - 1}.")
    wanted = range(settings.num_shards) if shard_index is None else [shard_index]
    done: dict[int, ShardRecord] = {}
    total = sum(len(settings.items(shard)) for shard in wanted)
    # A batch job clears away what was left of its own shard only: the others may be in the making.
    with only_one(folder, shared=shard_index is not None):
        _open_folder(settings, folder, stale="*" if shard_index is None else settings.file_name(shard_index))
        with tqdm(total=total, unit="equations", disable=None if show_progress else True) as bar:
            for shard, found in _checked_and_made(settings, folder, wanted, executor, repair):
                done[shard] = found
                bar.update(len(settings.items(shard)))
        return _finish(settings, folder, done)


def _open_folder(settings: DatasetSettings, folder: Path, stale: str) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for leftover in partial_files(folder, stale):
            leftover.unlink(missing_ok=True)
        is_empty = not any(f for f in folder.iterdir() if f.name != LOCK and not f.name.endswith(".partial"))
    except OSError as error:
        raise DatasetError(f"cannot use {folder}: {error.strerror}. Choose a folder you can write to.") from error
    if is_empty:
        write_file(folder / SETTINGS_FILE, settings.to_json().encode(), DatasetError)
    elif not (folder / SETTINGS_FILE).exists():
        raise DatasetError(f"{folder} is not empty and holds no data set. Choose a new folder.")
    elif differing := differences(to_mapping(read_settings(folder)), to_mapping(settings)):
        raise DatasetError(
            f"{folder} holds another data set: {'; '.join(differing[:5])}. Use the same settings, or a new folder."
        )


def _checked_and_made(
    settings: DatasetSettings, folder: Path, wanted: Sequence[int], executor: Executor | None, repair: bool
) -> Iterator[tuple[int, ShardRecord]]:
    missing = []
    for shard in wanted:
        found = _check_existing(settings, folder, shard, repair)
        if found is None:
            missing.append(shard)
        else:
            yield shard, found
    yield from _make(settings, folder, missing, executor)


def _check_existing(settings: DatasetSettings, folder: Path, shard: int, repair: bool) -> ShardRecord | None:
    name = settings.file_name(shard)
    if not (folder / name).exists():
        return None
    try:
        return record(*_load(settings, folder, shard), name)
    except DatasetError:
        if repair:
            return None
        raise


def _load(settings: DatasetSettings, folder: Path, shard: int) -> tuple[Shard, bytes]:
    name = settings.file_name(shard)
    try:
        content = (folder / name).read_bytes()
    except OSError as error:
        raise DatasetError(f"cannot read shard {name} in {folder}: {error.strerror}.") from error
    items = settings.items(shard)
    parsed = parse_shard(content, settings.config, settings.identity, items.start, name)
    if len(parsed) != len(items):
        raise DatasetError(f"shard {name} holds {len(parsed)} equations; expected {len(items)}.")
    return parsed, content


def make_shard(settings: DatasetSettings, folder: Path, number: int) -> ShardRecord:
    """Make one shard and write it; what a worker does."""
    shard = pack(settings.config, [draw_equation(settings.config, settings.seed, i) for i in settings.items(number)])
    content, name = shard_bytes(shard, settings.identity), settings.file_name(number)
    write_file(folder / name, content, DatasetError)
    return record(shard, content, name)


def _make(
    settings: DatasetSettings, folder: Path, shards: Sequence[int], executor: Executor | None
) -> Iterator[tuple[int, ShardRecord]]:
    if executor is None:
        for shard in shards:
            yield shard, make_shard(settings, folder, shard)
        return
    futures = {executor.submit(make_shard, settings, folder.resolve(), shard): shard for shard in shards}
    try:
        for future in as_completed(futures):
            shard = futures[future]
            made = future.result()
            if not (folder / made.file).exists():
                raise DatasetError(
                    f"a worker wrote {made.file}, but not into {folder}: workers must share that folder."
                )
            yield shard, made
    except BrokenProcessPool as error:
        raise DatasetError(
            "a worker died, perhaps for want of memory. Finished shards stay valid; run the same command again."
        ) from error
    finally:
        for future in futures:
            future.cancel()


def _finish(settings: DatasetSettings, folder: Path, done: dict[int, ShardRecord]) -> Manifest | None:
    others = [shard for shard in range(settings.num_shards) if shard not in done]
    if not all((folder / settings.file_name(shard)).exists() for shard in others):  # cheap, before reading any
        return None
    for shard in others:
        done[shard] = record(*_load(settings, folder, shard), settings.file_name(shard))
    manifest = Manifest(settings, tuple(done[shard] for shard in range(settings.num_shards)))
    manifest.write(folder)
    return manifest


class Dataset:
    """A complete data set on disk: `dataset[i]` equals item i of the stream with its settings.

    A shard is read when first needed, compared with the checksum in the manifest, and kept until another is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = read_manifest(folder)
        self._last: tuple[int, Shard] | None = None

    def __len__(self) -> int:
        return self.manifest.settings.num_equations

    def __getitem__(self, index: int) -> DrawnEquation:
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of a data set with {len(self)} equations")
        shard, position = divmod(index, self.manifest.settings.shard_size)
        return self.shard(shard).equation(position)

    def shard(self, number: int) -> Shard:
        """All equations of one file, read and checked."""
        if self._last is None or self._last[0] != number:
            parsed, content = _load(self.manifest.settings, self.folder, number)
            listed = self.manifest.shards[number]
            if sha256(content) != listed.sha256:
                raise DatasetError(
                    f"shard {listed.file} is not the one in {MANIFEST_FILE}; run `fimsde generate` again."
                )
            self._last = number, parsed
        return self._last[1]
