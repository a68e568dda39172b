"""Single files, written in one step."""

import os
import re
from pathlib import Path

from fimsde.errors import FimsdeError

_PARTIAL = re.compile(r"\.\d+-[0-9a-f]+\.partial$")  # process and a random number, as below


def write_file(path: Path, content: bytes, error: type[FimsdeError] | None = None) -> None:
    """Write a file so that its name only ever stands for complete content, whenever the process or machine stops.

    An existing file is replaced, so this is for names that belong to the package; see `new_file` for those of users.
    If it cannot be written, what was there before is unchanged.

    Args:
        path: The file.
        content: All of it.
        error: What to raise in place of an OSError, with a sentence that says how to go on.
    """
    try:
        _replace(path, content)
    except OSError as cause:
        if error is None:
            raise
        raise error(
            f"cannot write {path.name} in {path.parent}: {cause.strerror}. "
            "What is finished stays valid; free space or restore permissions, and run the same command again."
        ) from cause


def _replace(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.partial")
    try:
        with open(partial, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    sync(path.parent)


def partial_files(folder: Path, name: str) -> list[Path]:
    """What interrupted writers left behind of the files called `name` (a pattern)."""
    return [path for path in folder.glob(f".{name}.*.partial") if _PARTIAL.search(path.name)]


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
