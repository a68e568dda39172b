"""Results appear under their final name only when they are complete."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fimsde.errors import ConfigError


@contextmanager
def new_file(out: Path) -> Iterator[Path]:
    """A file to write that becomes `out` when the block ends well, and vanishes when it does not."""
    _check_place(out)
    with _writing(out.absolute().parent) as parent:
        handle, name = tempfile.mkstemp(prefix=f".{out.name}-", dir=parent)
    os.close(handle)
    work = Path(name)
    try:
        yield work
        work.chmod(0o644)
        work.rename(out)
    finally:
        work.unlink(missing_ok=True)


@contextmanager
def new_folder(out: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to write into that becomes `out` when the block ends well, and vanishes when it does not.

    Args:
        out: The final name.
        replace: Whether an existing folder may be replaced; it stays untouched until the new one is complete.
    """
    _check_place(out, replace=replace)
    with _writing(out.absolute().parent) as parent:
        work = Path(tempfile.mkdtemp(prefix=f".{out.name}-", dir=parent))
    try:
        yield work
        work.chmod(0o755)
        if out.exists():
            shutil.rmtree(out)
        work.rename(out)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_place(out: Path, *, replace: bool = False) -> None:
    """Refuse a place that is taken or cannot be written, before any work is done."""
    if out.exists() and not (replace and out.is_dir()):
        raise ConfigError(f"{str(out)!r} exists already. Choose another name or remove it.")
    parent = out.absolute().parent
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise _no_place(parent)


@contextmanager
def _writing(parent: Path) -> Iterator[Path]:
    """Some file systems refuse only what is tried."""
    try:
        yield parent
    except OSError:
        raise _no_place(parent) from None


def _no_place(parent: Path) -> ConfigError:
    return ConfigError(f"cannot write into {str(parent)!r}: the folder is missing or read-only. Choose another place.")
