"""One process at a time in a folder: a lock of the operating system, which ends with its holder however that ends."""

import errno
import fcntl
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fimsde.errors import DataWarning, OutputError
from fimsde.files.place import no_place

LOCK = ".lock"  # stays behind, empty: what counts is who holds it
_HELD = (errno.EWOULDBLOCK, errno.EACCES)  # what flock(2) and fcntl(2) report of a lock that somebody else holds


@contextmanager
def only_one(folder: Path, option: str = "--out", *, shared: bool = False) -> Iterator[None]:
    """Hold a folder, made if needed, while the block runs; if another process holds it, say so.

    Args:
        folder: What to hold.
        option: The option of the command line that named it, for the sentence.
        shared: Several processes may hold it together, as long as all of them ask for that.
    """
    made = [place for place in (folder, *folder.absolute().parents) if not place.exists()]
    before = _names(folder)
    descriptor = _open(folder, option)
    try:
        try:
            fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _HELD:
                raise OutputError(
                    f"another process is at work in {str(folder)!r}. Wait until it has ended, or choose another folder "
                    f"({option})."
                ) from None
            warnings.warn(  # some network file systems
                f"{str(folder)!r} cannot be locked ({error.strerror}): do not start a second process there.",
                DataWarning,
                stacklevel=3,
            )
        yield
    except BaseException:
        if LOCK not in before and _names(folder) == before | {LOCK}:  # nothing came of it
            (folder / LOCK).unlink()
            with suppress(OSError):  # somebody else uses one of them by now
                for place in made:
                    place.rmdir()
        raise
    finally:
        os.close(descriptor)


def _names(folder: Path) -> set[str]:
    return {place.name for place in folder.iterdir()} if folder.is_dir() else set()


def _open(folder: Path, option: str) -> int:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            return os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        except PermissionError:  # made by another user of the folder
            return os.open(folder / LOCK, os.O_RDONLY)
    except OSError as error:
        raise no_place(folder, option, error) from None
